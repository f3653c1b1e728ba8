//! What `cleanup` removes in git repositories: trees of runs that are gone or over, and branches that nobody needs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use orchestra_config::Project;
use orchestra_engine::{Disk, RunFolder};
use orchestra_sessions::{Session, SessionStatus};
use orchestra_workspace::{GitWorkspace, Repository, Sweep, Swept, WorkspaceFault, sweep};
use serde_json::json;

use crate::agents::FILE;
use crate::error::{CliError, Exit};
use crate::layout::{Cell, table};
use crate::runs::Runs;
use crate::terminal::{Paint, Terminal};
use crate::workspace::{Kept, worktrees};

/// A repository in which runs worked, or that the configuration names.
struct Place {
    name: String,
    path: PathBuf,
    /// The folders of trees that may be of it.
    worktrees: BTreeSet<PathBuf>,
}

/// What is known of runs before any of them goes.
#[derive(Default)]
pub(super) struct Repositories {
    places: Vec<Place>,
    /// The runs that are not over, each with the last parts of the names of its branches.
    live: BTreeMap<String, Vec<String>>,
    known: BTreeSet<String>,
}

impl Repositories {
    /// Looks at the runs in a list, and at the configuration that is found here.
    pub(super) fn of(
        runs: &Runs,
        sessions: &[Session],
        config: Option<&Path>,
    ) -> Result<Repositories, CliError> {
        let mut repositories = Repositories::default();
        repositories.configured(runs, config)?;
        for session in sessions {
            let run = session.run.to_string();
            let folder = RunFolder::open(&session.folder).ok();
            let kept = folder.and_then(|folder| Kept::of(folder.manifest()));
            let branches = kept.iter().flat_map(|kept| kept.repositories.values());
            let names = branches.filter_map(|kept| Some(kept.branch.rsplit('/').next()?.to_owned()));
            if !matches!(
                session.status,
                SessionStatus::Success | SessionStatus::Fail | SessionStatus::Cancelled
            ) {
                repositories
                    .live
                    .insert(run.clone(), names.chain([run.clone()]).collect());
            }
            for (name, repository) in kept.iter().flat_map(|kept| &kept.repositories) {
                let worktrees = kept.iter().map(|kept| kept.worktrees.clone());
                repositories.add(name, &repository.path, worktrees);
            }
            repositories.known.insert(run);
        }
        Ok(repositories)
    }

    fn configured(&mut self, runs: &Runs, config: Option<&Path>) -> Result<(), CliError> {
        let path = config.unwrap_or(Path::new(FILE));
        if config.is_none() && !path.is_file() {
            return Ok(());
        }
        let path = path.to_string_lossy().replace('\\', "/");
        let project = Project::load(&path, &Disk);
        if config.is_some() && project.report.has_errors() {
            let message = format!("`{path}` cannot be read as a configuration");
            let fault = CliError::usage("invalid_configuration", message).exit(Exit::Invalid);
            return Err(fault.help(format!(
                "`compile FILE --config {path}` tells what is wrong with it"
            )));
        }
        let folder = Path::new(&path).parent().unwrap_or(Path::new(""));
        for (name, repository) in &project.configuration.workspace.repos {
            if let Some(at) = &repository.path {
                self.add(name, &folder.join(at.as_str()), [worktrees(runs, Some(&path))]);
            }
        }
        Ok(())
    }

    fn add(&mut self, name: &str, path: &Path, worktrees: impl IntoIterator<Item = PathBuf>) {
        // One that is gone has nothing to be removed.
        let Ok(path) = path.canonicalize() else {
            return;
        };
        let worktrees = worktrees
            .into_iter()
            .filter_map(|folder| std::path::absolute(folder).ok());
        match self.places.iter_mut().find(|place| place.path == path) {
            Some(place) => place.worktrees.extend(worktrees),
            None => self.places.push(Place {
                name: name.to_owned(),
                path,
                worktrees: worktrees.collect(),
            }),
        }
    }

    /// Takes a run as gone: its folder is.
    pub(super) fn forget(&mut self, run: &str) {
        self.live.remove(run);
    }

    /// Whether a run goes on, or may, by its id or by the last part of the name of one of its branches.
    fn is_live(&self, name: &str) -> bool {
        let of = |live: &String| {
            let rest = name.strip_prefix(live.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.live.values().flatten().any(of)
    }

    /// Removes what nobody needs any more.
    pub(super) fn sweep(&self, older_than: Duration, force: bool, dry_run: bool) -> Vec<Found> {
        let mut found = Vec::new();
        for place in &self.places {
            let mut here: BTreeMap<(&'static str, String), Found> = BTreeMap::new();
            for worktrees in &place.worktrees {
                // A run that nobody here knows may be kept elsewhere; it is gone when its trees have not changed for long.
                let stranger = |name: &str| {
                    !self.known.contains(name)
                        && idle(&worktrees.join(name)).is_some_and(|idle| idle < older_than)
                };
                let options = Sweep {
                    prefix: "",
                    worktrees: worktrees.clone(),
                    is_live: &|name| self.is_live(name) || stranger(name),
                    older_than: Some(older_than),
                    now: SystemTime::now(),
                    force,
                    dry_run,
                };
                let swept = open(place).and_then(|repository| sweep(&repository, &options));
                let all = match swept {
                    Ok(swept) => Found::all(place, swept, force, dry_run),
                    Err(fault) => vec![Found::failed(place, &fault)],
                };
                for found in all {
                    // There is nothing to be said of a run that goes on.
                    if found.fate == Fate::Kept && self.is_live(found.run_part()) {
                        continue;
                    }
                    // Branches are the same for each folder of trees.
                    let key = (found.kind, found.name.clone());
                    if !here.get(&key).is_some_and(Found::goes) {
                        here.insert(key, found);
                    }
                }
            }
            found.extend(here.into_values());
        }
        found
    }
}

/// For how long the trees of a run have not changed at their tops; `None` where there are none. What cannot be read may
/// just have changed.
fn idle(folder: &Path) -> Option<Duration> {
    let mut newest = SystemTime::UNIX_EPOCH;
    let mut ahead = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = ahead.pop() {
        match fs::metadata(&folder).and_then(|found| found.modified()) {
            Ok(modified) => newest = newest.max(modified),
            Err(_) if depth == 0 => return None,
            Err(_) => return Some(Duration::ZERO),
        }
        // A run has lines, and a line repositories.
        if depth < 2 {
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            ahead.extend(folders.map(|entry| (entry.path(), depth + 1)));
        }
    }
    Some(newest.elapsed().unwrap_or_default())
}

fn open(place: &Place) -> Result<Repository, WorkspaceFault> {
    let workspace = GitWorkspace::builder("").repository(&place.name, &place.path);
    let opened = workspace.build()?.repositories()?.into_iter().next();
    opened
        .map(|(repository, _)| repository)
        .ok_or_else(|| WorkspaceFault::RepositoryMissing {
            repository: place.name.clone(),
            path: place.path.clone(),
        })
}

/// What became of a branch, a tree or a ref.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Removed,
    WouldBeRemoved,
    Kept,
    Failed,
}

impl Fate {
    fn word(self) -> &'static str {
        match self {
            Fate::Removed => "removed",
            Fate::WouldBeRemoved => "would remove",
            Fate::Kept => "kept",
            Fate::Failed => "failed",
        }
    }
}

/// Something of a run in a repository.
pub(super) struct Found {
    repository: String,
    path: PathBuf,
    kind: &'static str,
    name: String,
    fate: Fate,
    why: String,
}

impl Found {
    fn all(place: &Place, swept: Swept, force: bool, dry_run: bool) -> Vec<Found> {
        let gone = if dry_run {
            Fate::WouldBeRemoved
        } else {
            Fate::Removed
        };
        let found = |kind, name: String, fate, why: String| Found {
            repository: place.name.clone(),
            path: place.path.clone(),
            kind,
            name,
            fate,
            why,
        };
        let trees = swept.worktrees.into_iter().map(|tree| {
            let why = "its run is gone or over".to_owned();
            found("tree", tree.display().to_string(), gone, why)
        });
        // By force, commits may go that are nowhere else.
        let safe = if force { "" } else { "nothing of it is lost" };
        let branches = swept
            .branches
            .into_iter()
            .map(|branch| found("branch", branch, gone, safe.to_owned()));
        let refs = swept
            .refs
            .into_iter()
            .map(|name| found("ref", name, gone, safe.to_owned()));
        let kept = swept.kept.into_iter().map(|(name, why)| {
            let kind = if name.starts_with("refs/") {
                "ref"
            } else {
                "branch"
            };
            found(kind, name, Fate::Kept, why)
        });
        trees.chain(branches).chain(refs).chain(kept).collect()
    }

    fn failed(place: &Place, fault: &WorkspaceFault) -> Found {
        Found {
            repository: place.name.clone(),
            path: place.path.clone(),
            kind: "repository",
            name: place.path.display().to_string(),
            fate: Fate::Failed,
            why: fault.to_string(),
        }
    }

    /// The part of the name of a branch that names a run.
    fn run_part(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    pub(super) fn is_failed(&self) -> bool {
        self.fate == Fate::Failed
    }

    pub(super) fn goes(&self) -> bool {
        matches!(self.fate, Fate::Removed | Fate::WouldBeRemoved)
    }

    fn row(&self, runs: &Runs) -> Vec<Cell> {
        let paint = match self.fate {
            Fate::Removed | Fate::WouldBeRemoved => Paint::Good,
            Fate::Kept => Paint::Warn,
            Fate::Failed => Paint::Bad,
        };
        vec![
            Cell::text(self.fate.word()).paint(paint),
            Cell::text(self.kind),
            Cell::text(&self.repository),
            Cell::text(match self.kind {
                "tree" => runs.shown(Path::new(&self.name)),
                _ => self.name.clone(),
            }),
            Cell::text(&self.why),
        ]
    }
}

/// Tells what was found: an object each, or a table.
pub(super) fn tell(found: &[Found], runs: &Runs, terminal: &Terminal) {
    if terminal.json {
        for found in found {
            terminal.object(&json!({
                "schema": "orchestra.cleanup_repository/1", "repository": found.repository, "path": found.path,
                "kind": found.kind, "name": found.name, "why": found.why,
                "status": match found.fate {
                    Fate::Removed => "removed",
                    Fate::WouldBeRemoved => "would_be_removed",
                    Fate::Kept => "kept",
                    Fate::Failed => "failed",
                },
            }));
        }
        return;
    }
    if !found.is_empty() {
        let head = ["", "WHAT", "REPOSITORY", "NAME", "WHY"];
        let rows = found.iter().map(|found| found.row(runs)).collect();
        terminal.result(&table(terminal, &head, rows));
    }
}
