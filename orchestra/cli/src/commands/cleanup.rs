//! `cleanup`: removes the folders of runs that ended long ago, and their remains in repositories.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra_engine::{RunFolder, RunId, StoreError, Timestamp};
use orchestra_sessions::{RunFilter, Session, SessionIndex, SessionStatus};
use orchestra_workspace::{SweepMode, UnmergedCommits};
use serde_json::json;

use super::run::duration_option;
use super::sweep::{self, KnownRepositories};
use crate::args::CleanupArgs;
use crate::error::{CliError, Exit};
use crate::runs::Runs;
use crate::terminal::format::{between, bytes, count, long_duration, now};
use crate::terminal::{Paint, Terminal};

/// A folder that can be removed.
struct StaleFolder {
    folder: PathBuf,
    /// The run; `None` for the remains of a run that never started, or was not removed completely.
    run: Option<RunId>,
    what: String,
}

pub(crate) fn cleanup(args: &CleanupArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    let older_than = duration_option(&args.older_than)?;
    let mut totals = CleanupTotals::default();
    let config = args.config.as_deref();
    let mut repositories = KnownRepositories::new(&runs, &[], config)?;
    if runs.dir().is_dir() {
        let index = runs.index()?;
        let sessions = index
            .list(&RunFilter::all())?
            .into_iter()
            .map(|session| index.with_present_status(session));
        repositories = KnownRepositories::new(&runs, &sessions.collect::<Vec<_>>(), config)?;
        let mut stale = ended_runs(&index, runs.dir(), older_than, args.paused)?;
        stale.extend(leftovers(runs.dir(), older_than)?);
        for stale in &stale {
            let is_gone = totals.remove(stale, &runs, args.dry_run, terminal);
            if is_gone && let Some(run) = &stale.run {
                repositories.forget(run);
            }
        }
        // Remove the deleted runs from the index.
        for run in stale.iter().filter_map(|stale| stale.run.as_ref()) {
            if !args.dry_run && index.catch_up(run).is_err() {
                break;
            }
        }
    }
    let unmerged = if args.force {
        UnmergedCommits::Remove {
            older_than: Some(older_than),
        }
    } else {
        UnmergedCommits::Keep
    };
    let mode = if args.dry_run {
        SweepMode::DryRun
    } else {
        SweepMode::Remove
    };
    let found = repositories.sweep(older_than, unmerged, mode);
    sweep::print_results(&found, &runs, terminal);
    let failed = found.iter().filter(|found| found.is_failed()).count();
    totals.failed += failed;
    totals.refs = found.iter().filter(|found| found.is_removed()).count();
    totals.kept = found.len() - totals.refs - failed;
    totals.print(args.dry_run, terminal);
    Ok(match totals.failed {
        0 => Exit::Ok,
        _ => Exit::RunFailed,
    })
}

/// Returns the runs in the folder that ended long ago, oldest first.
fn ended_runs(
    index: &SessionIndex,
    dir: &Path,
    older_than: Duration,
    paused: bool,
) -> Result<Vec<StaleFolder>, CliError> {
    let dir = fs::canonicalize(dir).map_err(|error| unreadable(dir, &error))?;
    let mut sessions = index.list(&RunFilter::all())?;
    sessions.reverse();
    let stale = sessions
        .into_iter()
        .filter(|session| session.folder.parent() == Some(&*dir));
    let stale = stale.filter_map(|session| {
        let session = index.with_present_status(session);
        let since = unchanged_since(&session, paused)?;
        let age = between(since, now());
        (age >= older_than).then(|| StaleFolder {
            what: format!("{}, {}, {} ago", session.name, session.status, long_duration(age)),
            run: Some(session.run),
            folder: session.folder,
        })
    });
    Ok(stale.collect())
}

/// Returns the time since which a removable run has not changed, or `None` if the run must stay.
fn unchanged_since(session: &Session, paused: bool) -> Option<Timestamp> {
    let summary = &session.summary;
    match session.status {
        SessionStatus::Success | SessionStatus::Fail | SessionStatus::Cancelled => summary.ended,
        SessionStatus::Paused | SessionStatus::Interrupted if paused => summary.updated.or(summary.started),
        _ => None,
    }
}

/// Returns the folders of runs that never started, and of runs that were not removed completely.
fn leftovers(dir: &Path, older_than: Duration) -> Result<Vec<StaleFolder>, CliError> {
    let mut stale = Vec::new();
    for entry in fs::read_dir(dir).map_err(|error| unreadable(dir, &error))? {
        let folder = entry.map_err(|error| unreadable(dir, &error))?.path();
        let Ok(found) = fs::symlink_metadata(&folder) else {
            continue;
        };
        let age = found.modified().ok().and_then(|changed| changed.elapsed().ok());
        let old = age.is_some_and(|age| age >= older_than);
        let never_started = RunFolder::is_unstarted(&folder);
        if !found.is_dir() || !(RunFolder::is_partly_removed(&folder) || never_started && old) {
            continue;
        }
        let what = if never_started {
            "never began"
        } else {
            "removed in part before"
        };
        stale.push(StaleFolder {
            folder,
            run: None,
            what: what.to_owned(),
        });
    }
    stale.sort_by(|one, other| one.folder.cmp(&other.folder));
    Ok(stale)
}

fn unreadable(dir: &Path, error: &io::Error) -> CliError {
    CliError::usage("store_io", format!("cannot read `{}`: {error}", dir.display())).exit(Exit::RunFailed)
}

/// The totals of what was removed, or would be removed.
#[derive(Default)]
struct CleanupTotals {
    folders: usize,
    bytes: u64,
    failed: usize,
    /// The number of branches, worktrees and refs.
    refs: usize,
    kept: usize,
}

impl CleanupTotals {
    /// Removes a folder. Returns whether it was removed, or would be.
    fn remove(&mut self, stale: &StaleFolder, runs: &Runs, dry_run: bool, terminal: &Terminal) -> bool {
        let size = size(&stale.folder);
        let removed = if dry_run {
            Ok(())
        } else {
            RunFolder::remove(&stale.folder)
        };
        let folder = runs.display_path(&stale.folder);
        if let Err(error) = removed {
            self.failed += 1;
            let error = match error {
                // The message names the folder already.
                StoreError::Io { source, .. } => source.to_string(),
                error => error.to_string(),
            };
            let mark = terminal.paint(Paint::Warn, "warning[store_io]");
            terminal.message(&format!("{mark}: `{folder}` cannot be removed: {error}"));
            return false;
        }
        self.folders += 1;
        self.bytes += size;
        if terminal.json {
            terminal.object(&json!({
                "schema": "orchestra.cleanup/1", "run": stale.run, "folder": stale.folder, "why": stale.what,
                "bytes": size, "removed": !dry_run,
            }));
        } else {
            let word = if dry_run { "would remove" } else { "removed" };
            terminal.result(&format!("{word} {folder} ({}): {}", stale.what, bytes(size)));
        }
        true
    }

    fn print(&self, dry_run: bool, terminal: &Terminal) {
        if terminal.json {
            terminal.object(&json!({
                "schema": "orchestra.cleanup_summary/1", "folders": self.folders, "bytes": self.bytes,
                "failed": self.failed, "refs": self.refs, "kept": self.kept, "dry_run": dry_run,
            }));
            return;
        }
        let folders = count(self.folders, "folder");
        let size = bytes(self.bytes);
        if self.refs > 0 {
            let word = if dry_run { "would be removed" } else { "removed" };
            terminal.progress(&format!(
                "in repositories: {} {word}, {} kept",
                self.refs, self.kept
            ));
        }
        terminal.progress(&match (self.folders, dry_run) {
            (0, _) if self.refs > 0 => return,
            (0, _) => "nothing is old enough to be removed".to_owned(),
            (_, true) => format!("{folders}, {size} would be freed"),
            (_, false) => format!("{folders}, {size} freed"),
        });
    }
}

/// Returns the total size of the files in a folder in bytes. Does not follow links.
fn size(folder: &Path) -> u64 {
    let mut bytes = 0;
    let mut unvisited = vec![folder.to_owned()];
    while let Some(folder) = unvisited.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match fs::symlink_metadata(entry.path()) {
                Ok(found) if found.is_dir() => unvisited.push(entry.path()),
                Ok(found) => bytes += found.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}
