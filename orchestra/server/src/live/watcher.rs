//! Looks for changes that other processes make in the runs folder, while clients are connected.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orchestra_engine::{RunFolder, RunId};
use orchestra_sessions::{RunFilter, SessionStatus};

use crate::app::{App, blocking};

/// Interval between looks at the runs that other processes execute.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Minimum interval between searches of the whole folder.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

/// Part of the time that searches of the whole folder may take: a search waits this many times as long as it took.
const SEARCH_SHARE: u32 = 20;

/// Maximum number of open runs that are looked at.
const MAX_OPEN: usize = 1_000;

/// A run that another process executes, as it was last seen.
struct Foreign {
    folder: PathBuf,
    size: u64,
    is_owned: bool,
}

/// Looks for changes until the server stops.
pub(crate) async fn watch(app: Arc<App>) {
    let mut stop = app.stop.subscribe();
    let mut foreign: HashMap<RunId, Foreign> = HashMap::new();
    let mut searched: Option<(Instant, Duration)> = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        if !app.watchers.are_there() && app.feeds.runs().is_empty() {
            continue;
        }
        let is_due =
            searched.is_none_or(|(began, took)| began.elapsed() >= SEARCH_INTERVAL.max(took * SEARCH_SHARE));
        if is_due {
            let began = Instant::now();
            // A failure is reported to the clients that ask for the runs.
            if let Some(open) = search(&app).await {
                foreign.retain(|run, _| open.contains_key(run));
                for (run, seen) in open {
                    foreign.entry(run).or_insert(seen);
                }
            }
            searched = Some((began, began.elapsed()));
        }
        let looked = blocking(move || {
            let changed = look(&mut foreign);
            (foreign, changed)
        });
        let Ok((looked, changed)) = looked.await else {
            return;
        };
        foreign = looked;
        for run in changed {
            app.changes.mark(&run);
        }
    }
}

/// Brings the index up to date and marks the runs that had changed. Returns the open runs of other processes.
async fn search(app: &App) -> Option<HashMap<RunId, Foreign>> {
    let open = RunFilter::all()
        .status(SessionStatus::Accepted)
        .status(SessionStatus::Running)
        .limit(MAX_OPEN);
    let (changed, open) = app
        .index(move |index| Ok((index.refresh()?, index.list(&open)?)))
        .await
        .ok()?;
    for run in &changed {
        app.changes.mark(run);
    }
    let foreign = open
        .into_iter()
        .filter(|session| app.own_run(&session.run).is_none());
    let foreign = foreign.map(|session| {
        let seen = Foreign {
            size: RunFolder::events_size(&session.folder),
            is_owned: true,
            folder: session.folder,
        };
        (session.run, seen)
    });
    Some(foreign.collect())
}

/// Returns the runs whose events or owners changed since the last look.
fn look(foreign: &mut HashMap<RunId, Foreign>) -> Vec<RunId> {
    let mut changed = Vec::new();
    for (run, seen) in foreign {
        let size = RunFolder::events_size(&seen.folder);
        let owner = RunFolder::open(&seen.folder).and_then(|folder| folder.owner());
        let is_owned = !matches!(owner, Ok(None));
        if (size, is_owned) != (seen.size, seen.is_owned) {
            (seen.size, seen.is_owned) = (size, is_owned);
            changed.push(run.clone());
        }
    }
    changed
}
