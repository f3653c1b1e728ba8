//! The git part of `cleanup`: removes the worktrees of runs that have ended or are gone, and branches that are no
//! longer needed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use orchestra_config::{CONFIGURATION_FILE, Project};
use orchestra_engine::{Disk, RunFolder};
use orchestra_sessions::{Session, SessionStatus};
use orchestra_workspace::{
    GitWorkspace, GitWorkspaceError, Repository, StoredWorkspace, Sweep, SweepMode, Swept, UnmergedCommits,
    sweep,
};
use serde_json::json;

use crate::error::{CliError, Exit};
use crate::project::repositories::worktrees;
use crate::runs::Runs;
use crate::terminal::table::{Cell, table};
use crate::terminal::{Paint, Terminal};

/// A repository in which runs worked, or that the configuration names.
struct KnownRepository {
    name: String,
    path: PathBuf,
    /// The folders that may contain worktrees of the repository.
    worktrees: BTreeSet<PathBuf>,
}

/// The known repositories and runs, before any run is removed.
#[derive(Default)]
pub(super) struct KnownRepositories {
    list: Vec<KnownRepository>,
    /// The runs that have not ended, each with its id and the last components of its branch names.
    live: BTreeMap<String, Vec<String>>,
    known: BTreeSet<String>,
}

impl KnownRepositories {
    /// Collects the repositories of the listed runs and of the configuration.
    pub(super) fn new(
        runs: &Runs,
        sessions: &[Session],
        config: Option<&Path>,
    ) -> Result<KnownRepositories, CliError> {
        let mut repositories = KnownRepositories::default();
        repositories.add_configured(runs, config)?;
        for session in sessions {
            let run = session.run.to_string();
            let folder = RunFolder::open(&session.folder).ok();
            let workspace = folder.and_then(|folder| StoredWorkspace::from_manifest(folder.manifest()));
            let branches = workspace
                .iter()
                .flat_map(|workspace| workspace.repositories.values());
            let names =
                branches.filter_map(|repository| Some(repository.branch.rsplit('/').next()?.to_owned()));
            if !matches!(
                session.status,
                SessionStatus::Success | SessionStatus::Fail | SessionStatus::Cancelled
            ) {
                repositories
                    .live
                    .insert(run.clone(), names.chain([run.clone()]).collect());
            }
            for (name, repository) in workspace.iter().flat_map(|workspace| &workspace.repositories) {
                let worktrees = workspace.iter().map(|workspace| workspace.worktrees.clone());
                repositories.add(name, &repository.path, worktrees);
            }
            repositories.known.insert(run);
        }
        Ok(repositories)
    }

    fn add_configured(&mut self, runs: &Runs, config: Option<&Path>) -> Result<(), CliError> {
        let path = config.unwrap_or(Path::new(CONFIGURATION_FILE));
        if config.is_none() && !path.is_file() {
            return Ok(());
        }
        let path = path.to_string_lossy().replace('\\', "/");
        let project = Project::load(&path, &Disk);
        if config.is_some() && project.report.has_errors() {
            let message = format!("`{path}` cannot be read as a configuration");
            let error = CliError::usage("invalid_configuration", message).exit(Exit::Invalid);
            return Err(error.help(format!(
                "`compile FILE --config {path}` shows what is wrong with it"
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
        // A repository that no longer exists has nothing to remove.
        let Ok(path) = path.canonicalize() else {
            return;
        };
        let worktrees = worktrees
            .into_iter()
            .filter_map(|folder| std::path::absolute(folder).ok());
        match self.list.iter_mut().find(|known| known.path == path) {
            Some(known) => known.worktrees.extend(worktrees),
            None => self.list.push(KnownRepository {
                name: name.to_owned(),
                path,
                worktrees: worktrees.collect(),
            }),
        }
    }

    /// Forgets a run whose folder was removed.
    pub(super) fn forget(&mut self, run: &str) {
        self.live.remove(run);
    }

    /// Returns whether a run is running or resumable. `name` is its id or the last component of one of its branch
    /// names.
    fn is_live(&self, name: &str) -> bool {
        let matches = |live: &String| {
            let rest = name.strip_prefix(live.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.live.values().flatten().any(matches)
    }

    /// Removes everything that is no longer needed.
    pub(super) fn sweep(
        &self,
        older_than: Duration,
        unmerged: UnmergedCommits,
        mode: SweepMode,
    ) -> Vec<SweepResult> {
        let mut found = Vec::new();
        for known in &self.list {
            let mut results: BTreeMap<(&'static str, String), SweepResult> = BTreeMap::new();
            for worktrees in &known.worktrees {
                // An unknown run may be stored elsewhere. It counts as gone if its worktrees have not changed for long.
                let is_recent_stranger = |name: &str| {
                    !self.known.contains(name)
                        && idle_time(&worktrees.join(name)).is_some_and(|idle_time| idle_time < older_than)
                };
                let options = Sweep {
                    prefix: "",
                    worktrees: worktrees.clone(),
                    is_live: &|name| self.is_live(name) || is_recent_stranger(name),
                    now: SystemTime::now(),
                    unmerged,
                    mode,
                };
                let swept = open_repository(known).and_then(|repository| sweep(&repository, &options));
                let all = match swept {
                    Ok(swept) => SweepResult::all(known, swept, unmerged, mode),
                    Err(error) => vec![SweepResult::failed(known, &error)],
                };
                for found in all {
                    // There is nothing to report about an active run.
                    if found.fate == Fate::Kept && self.is_live(found.run_part()) {
                        continue;
                    }
                    // The branches are the same for each folder of worktrees.
                    let key = (found.kind, found.name.clone());
                    if !results.get(&key).is_some_and(SweepResult::is_removed) {
                        results.insert(key, found);
                    }
                }
            }
            found.extend(results.into_values());
        }
        found
    }
}

/// Returns the time since the folders of a run's worktrees last changed, or `None` if there are none. A folder that
/// cannot be read counts as just changed.
fn idle_time(folder: &Path) -> Option<Duration> {
    let mut newest = SystemTime::UNIX_EPOCH;
    let mut unvisited = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = unvisited.pop() {
        match fs::metadata(&folder).and_then(|found| found.modified()) {
            Ok(modified) => newest = newest.max(modified),
            Err(_) if depth == 0 => return None,
            Err(_) => return Some(Duration::ZERO),
        }
        // The folder of a run contains execution paths, and a path contains repositories.
        if depth < 2 {
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            unvisited.extend(folders.map(|entry| (entry.path(), depth + 1)));
        }
    }
    Some(newest.elapsed().unwrap_or_default())
}

fn open_repository(known: &KnownRepository) -> Result<Repository, GitWorkspaceError> {
    let workspace = GitWorkspace::builder("").repository(&known.name, &known.path);
    let opened = workspace.build()?.repositories()?.into_iter().next();
    opened
        .map(|(repository, _)| repository)
        .ok_or_else(|| GitWorkspaceError::RepositoryMissing {
            repository: known.name.clone(),
            path: known.path.clone(),
        })
}

/// The result for a branch, a worktree or a ref.
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

/// A branch, a worktree or a ref of a run.
pub(super) struct SweepResult {
    repository: String,
    path: PathBuf,
    kind: &'static str,
    name: String,
    fate: Fate,
    why: String,
}

impl SweepResult {
    fn all(
        known: &KnownRepository,
        swept: Swept,
        unmerged: UnmergedCommits,
        mode: SweepMode,
    ) -> Vec<SweepResult> {
        let removed = match mode {
            SweepMode::Remove => Fate::Removed,
            SweepMode::DryRun => Fate::WouldBeRemoved,
        };
        let found = |kind, name: String, fate, why: String| SweepResult {
            repository: known.name.clone(),
            path: known.path.clone(),
            kind,
            name,
            fate,
            why,
        };
        let trees = swept.worktrees.into_iter().map(|tree| {
            let why = "its run is gone or over".to_owned();
            found("tree", tree.display().to_string(), removed, why)
        });
        let safe = match unmerged {
            UnmergedCommits::Keep => "nothing of it is lost",
            UnmergedCommits::Remove { .. } => "",
        };
        let branches = swept
            .branches
            .into_iter()
            .map(|branch| found("branch", branch, removed, safe.to_owned()));
        let refs = swept
            .refs
            .into_iter()
            .map(|name| found("ref", name, removed, safe.to_owned()));
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

    fn failed(known: &KnownRepository, error: &GitWorkspaceError) -> SweepResult {
        SweepResult {
            repository: known.name.clone(),
            path: known.path.clone(),
            kind: "repository",
            name: known.path.display().to_string(),
            fate: Fate::Failed,
            why: error.to_string(),
        }
    }

    /// Returns the component of a branch name that identifies the run.
    fn run_part(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    pub(super) fn is_failed(&self) -> bool {
        self.fate == Fate::Failed
    }

    pub(super) fn is_removed(&self) -> bool {
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
                "tree" => runs.display_path(Path::new(&self.name)),
                _ => self.name.clone(),
            }),
            Cell::text(&self.why),
        ]
    }
}

/// Prints the results as JSON objects or as a table.
pub(super) fn print_results(found: &[SweepResult], runs: &Runs, terminal: &Terminal) {
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
