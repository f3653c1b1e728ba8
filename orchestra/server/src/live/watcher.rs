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

/// Interval between searches for runs that had ended and that other processes have resumed.
pub(crate) const SEARCH_INTERVAL: Duration = Duration::from_secs(1);

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
    let mut listed: Option<Instant> = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        if !app.watchers.are_there() && app.feeds.runs().is_empty() {
            continue;
        }
        // A failure is reported to the clients that ask for the runs.
        let changed = app.index(|index| index.refresh()).await.unwrap_or_default();
        for run in &changed {
            app.changes.mark(run);
        }
        let has_new = changed
            .iter()
            .any(|run| !foreign.contains_key(run) && app.own_run(run).is_none());
        // A request may have read the changes of a new run before.
        let is_due = has_new || listed.is_none_or(|listed| listed.elapsed() >= SEARCH_INTERVAL);
        if is_due && let Some(open) = open_runs(&app).await {
            foreign.retain(|run, _| open.contains_key(run));
            for (run, seen) in open {
                foreign.entry(run).or_insert(seen);
            }
            listed = Some(Instant::now());
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

/// Returns the open runs of other processes.
async fn open_runs(app: &App) -> Option<HashMap<RunId, Foreign>> {
    let open = RunFilter::all()
        .status(SessionStatus::Accepted)
        .status(SessionStatus::Running)
        .limit(MAX_OPEN);
    let open = app.index(move |index| index.list(&open)).await.ok()?;
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
