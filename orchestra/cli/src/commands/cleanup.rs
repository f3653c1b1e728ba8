//! `cleanup`: removes the folders of runs that ended long ago, and what they left in repositories.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra_engine::{RunFolder, RunId, Timestamp};
use orchestra_sessions::{RunFilter, Session, SessionIndex, SessionStatus};
use serde_json::json;

use super::count;
use super::run::duration;
use super::status::stands;
use super::sweep::{self, Repositories};
use crate::args::CleanupArgs;
use crate::error::{CliError, Exit};
use crate::layout::{between, bytes, long, now};
use crate::runs::Runs;
use crate::terminal::{Paint, Terminal};

/// What a folder is called while it is being removed; no run can be called so.
const REMOVING: &str = ".removing-";

/// The lock of a run's owner; every folder that the engine has begun to make holds one.
const LOCK: &str = "owner.lock";

/// A folder that may go.
struct Stale {
    folder: PathBuf,
    /// The run; `None` for what is left of one that never began, or was not removed to its end.
    run: Option<RunId>,
    what: String,
}

pub(crate) fn cleanup(args: &CleanupArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    let older_than = duration(&args.older_than)?;
    let mut cleaned = Cleaned::default();
    let config = args.config.as_deref();
    let mut repositories = Repositories::of(&runs, &[], config)?;
    if runs.dir().is_dir() {
        let index = runs.index()?;
        let sessions = index.list(&RunFilter::all())?.into_iter().map(stands);
        repositories = Repositories::of(&runs, &sessions.collect::<Vec<_>>(), config)?;
        let mut stale = ended(&index, runs.dir(), older_than, args.paused)?;
        stale.extend(left_over(runs.dir(), older_than)?);
        for stale in &stale {
            let gone = cleaned.clean(stale, &runs, args.dry_run, terminal);
            if let Some(run) = stale.run.as_ref().filter(|_| gone) {
                repositories.forget(run);
            }
        }
        // What is gone is not listed any more.
        for run in stale.iter().filter_map(|stale| stale.run.as_ref()) {
            if !args.dry_run && index.catch_up(run).is_err() {
                break;
            }
        }
    }
    let found = repositories.sweep(older_than, args.force, args.dry_run);
    sweep::tell(&found, &runs, terminal);
    let failed = found.iter().filter(|found| found.is_failed()).count();
    cleaned.failed += failed;
    cleaned.refs = found.iter().filter(|found| found.goes()).count();
    cleaned.kept = found.len() - cleaned.refs - failed;
    cleaned.tell(args.dry_run, terminal);
    Ok(match cleaned.failed {
        0 => Exit::Ok,
        _ => Exit::RunFailed,
    })
}

/// Runs in the folder that ended long ago, oldest first.
fn ended(
    index: &SessionIndex,
    dir: &Path,
    older_than: Duration,
    paused: bool,
) -> Result<Vec<Stale>, CliError> {
    let dir = fs::canonicalize(dir).map_err(|error| unreadable(dir, &error))?;
    let mut sessions = index.list(&RunFilter::all())?;
    sessions.reverse();
    let stale = sessions
        .into_iter()
        .filter(|session| session.folder.parent() == Some(&*dir));
    let stale = stale.filter_map(|session| {
        let session = stands(session);
        let since = stopped(&session, paused)?;
        let age = between(since, now());
        (age >= older_than).then(|| Stale {
            what: format!("{}, {}, {} ago", session.name, session.status, long(age)),
            run: Some(session.run),
            folder: session.folder,
        })
    });
    Ok(stale.collect())
}

/// Since when nothing happens to a run any more that may go.
fn stopped(session: &Session, paused: bool) -> Option<Timestamp> {
    match session.status {
        SessionStatus::Success | SessionStatus::Fail | SessionStatus::Cancelled => session.ended,
        SessionStatus::Paused | SessionStatus::Interrupted if paused => session.updated.or(session.started),
        _ => None,
    }
}

/// Folders of runs that never began, and such as were not removed to their end.
fn left_over(dir: &Path, older_than: Duration) -> Result<Vec<Stale>, CliError> {
    let mut stale = Vec::new();
    for entry in fs::read_dir(dir).map_err(|error| unreadable(dir, &error))? {
        let entry = entry.map_err(|error| unreadable(dir, &error))?;
        let (folder, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let Ok(found) = fs::symlink_metadata(&folder) else {
            continue;
        };
        let age = found.modified().ok().and_then(|changed| changed.elapsed().ok());
        let old = age.is_some_and(|age| age >= older_than);
        let unborn =
            RunId::new(&*name).is_ok() && !RunFolder::is_one(&folder) && is_plain(&folder.join(LOCK));
        if !found.is_dir() || !(name.starts_with(REMOVING) || unborn && old) {
            continue;
        }
        let what = match unborn {
            true => "never began",
            false => "removed in part before",
        };
        stale.push(Stale {
            folder,
            run: None,
            what: what.to_owned(),
        });
    }
    stale.sort_by(|one, other| one.folder.cmp(&other.folder));
    Ok(stale)
}

fn is_plain(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

fn unreadable(dir: &Path, error: &io::Error) -> CliError {
    CliError::usage("store_io", format!("cannot read `{}`: {error}", dir.display())).exit(Exit::RunFailed)
}

/// What was removed, or would be.
#[derive(Default)]
struct Cleaned {
    folders: usize,
    bytes: u64,
    failed: usize,
    /// Branches, trees and refs.
    refs: usize,
    kept: usize,
}

impl Cleaned {
    /// Removes a folder; whether it is gone, or would be.
    fn clean(&mut self, stale: &Stale, runs: &Runs, dry_run: bool, terminal: &Terminal) -> bool {
        let size = size(&stale.folder);
        let removed = match dry_run {
            true => Ok(()),
            false => remove(&stale.folder),
        };
        let folder = runs.shown(&stale.folder);
        if let Err(error) = removed {
            self.failed += 1;
            let mark = terminal.paint(Paint::Warn, "warning[store_io]");
            terminal.say(&format!("{mark}: `{folder}` cannot be removed: {error}"));
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

    fn tell(&self, dry_run: bool, terminal: &Terminal) {
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

/// How many bytes the files in a folder have. Links are not followed.
fn size(folder: &Path) -> u64 {
    let mut bytes = 0;
    let mut ahead = vec![folder.to_owned()];
    while let Some(folder) = ahead.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match fs::symlink_metadata(entry.path()) {
                Ok(found) if found.is_dir() => ahead.push(entry.path()),
                Ok(found) => bytes += found.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}

/// Removes a folder that nobody owns. It is moved aside first, so that what is left after a crash is no run.
fn remove(folder: &Path) -> io::Result<()> {
    let Some((parent, name)) = folder.parent().zip(folder.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let name = name.to_string_lossy();
    if name.starts_with(REMOVING) {
        return fs::remove_dir_all(folder);
    }
    // As long as it is locked here, nobody else can become the owner.
    let lock = File::open(folder.join(LOCK));
    if let Ok(lock) = &lock {
        lock.try_lock().map_err(io::Error::from)?;
    }
    let aside = parent.join(format!("{REMOVING}{name}"));
    fs::rename(folder, &aside)?;
    fs::remove_dir_all(&aside)
}
