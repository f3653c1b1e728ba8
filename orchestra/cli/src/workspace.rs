//! The git repositories in which a run works: the engine's workspace, and the report on the branches of a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orchestra_config::Project;
use orchestra_engine::{Manifest, RunFolder, WorkspaceError};
use orchestra_workspace::{Git, GitCommand, GitWorkspace, GitWorkspaceError, SystemGit};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::commands::count;
use crate::error::{CliError, Exit};
use crate::runs::{Runs, quoted};
use crate::terminal::{Paint, Terminal};

/// The folder for the data of runs.
const OURS: &str = ".orchestra";
/// The name of the folder for their worktrees.
const WORKTREES: &str = "worktrees";
/// Number of digits of a displayed commit.
const SHORT: usize = 8;
/// Maximum number of displayed conflicting files.
const MOST_FILES: usize = 20;

/// The repositories of a project configuration.
pub(crate) struct Repositories<'p> {
    project: &'p Project,
    worktrees: PathBuf,
}

impl<'p> Repositories<'p> {
    /// Returns the repositories of a project, or `None` if it names none.
    pub(crate) fn new(project: &'p Project, runs: &Runs) -> Option<Repositories<'p>> {
        let named = !project.configuration.workspace.repos.is_empty();
        named.then(|| Repositories {
            project,
            worktrees: worktrees(runs, project.path.as_deref()),
        })
    }

    /// Builds the workspace for the engine.
    pub(crate) fn workspace(&self) -> Result<GitWorkspace, CliError> {
        self.with(|_| true)
            .map_err(|error| invalid(error.code(), error.to_string()))
    }

    fn with(&self, wanted: impl Fn(&str) -> bool) -> Result<GitWorkspace, GitWorkspaceError> {
        let mut builder = GitWorkspace::builder(&self.worktrees);
        for (name, repository) in &self.project.configuration.workspace.repos {
            if let Some(path) = repository.path.as_ref().filter(|_| wanted(name)) {
                builder = builder
                    .repository(name, self.folder().join(&path.value))
                    .branch_prefix(name, repository.prefix());
            }
        }
        builder.build()
    }

    /// Returns the folder of the configuration.
    fn folder(&self) -> &Path {
        let path = self.project.path.as_deref().map(Path::new);
        path.and_then(Path::parent).unwrap_or(Path::new(""))
    }

    /// Converts a workspace error of a start, and adds the position of the repository that causes it.
    pub(crate) fn refused(&self, error: &WorkspaceError) -> CliError {
        let refused = invalid(error.code(), error.to_string());
        let alone = |name: &str| {
            let opened = self.with(|other| other == name).map(|workspace| {
                let opened = workspace.repositories()?;
                opened
                    .iter()
                    .try_for_each(|(repository, _)| repository.head().map(drop))
            });
            matches!(opened, Ok(Err(_)))
        };
        let repos = &self.project.configuration.workspace.repos;
        let at_fault = repos.iter().find(|(name, _)| alone(name));
        let Some((name, path)) = at_fault.and_then(|(name, found)| Some((name, found.path.as_ref()?))) else {
            return refused;
        };
        let source = &self.project.report.source;
        let at = source.position(path.span.start);
        refused.help(format!(
            "`{name}` is defined at {}:{}:{}",
            source.name(),
            at.line,
            at.column
        ))
    }
}

/// Returns the folder of the worktrees of runs: a sibling of the runs folder if that has its default name, else a
/// folder beside the configuration.
pub(crate) fn worktrees(runs: &Runs, configuration: Option<&str>) -> PathBuf {
    let around = runs.dir().parent();
    let around = around.filter(|around| around.file_name().is_some_and(|name| name == OURS));
    match around.filter(|_| runs.dir().file_name().is_some_and(|name| name == "runs")) {
        Some(around) => around.join(WORKTREES),
        None => {
            let folder = configuration.map(Path::new).and_then(Path::parent);
            folder.unwrap_or(Path::new("")).join(OURS).join(WORKTREES)
        }
    }
}

fn invalid(code: &str, message: String) -> CliError {
    CliError::usage(code.to_owned(), message).exit(Exit::Invalid)
}

/// The workspace data in the manifest of a run.
#[derive(Deserialize)]
pub(crate) struct Kept {
    pub(crate) worktrees: PathBuf,
    pub(crate) repositories: BTreeMap<String, KeptRepository>,
}

/// A repository as it was when the run began.
#[derive(Deserialize)]
pub(crate) struct KeptRepository {
    pub(crate) path: PathBuf,
    pub(crate) base: String,
    pub(crate) branch: String,
}

impl Kept {
    /// Returns the workspace data of a run, or `None` if it has no repositories.
    pub(crate) fn from_manifest(manifest: &Manifest) -> Option<Kept> {
        serde_json::from_value(manifest.workspace.clone()?).ok()
    }

    /// Returns a line for each repository with its branch and the commit from which the branch began.
    pub(crate) fn lines(&self) -> Vec<String> {
        let width = self.repositories.keys().map(String::len).max().unwrap_or(0);
        let line = |(name, kept): (&String, &KeptRepository)| {
            format!("{name:<width$}  {} from {}", kept.branch, short(&kept.base))
        };
        self.repositories.iter().map(line).collect()
    }
}

/// The JSON form of a run's branch in a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BranchState {
    pub(crate) branch: String,
    /// The commit from which the branch began.
    pub(crate) base: String,
    /// The present commit.
    pub(crate) git_sha: String,
    /// The commit that holds an unfinished merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) merging: Option<String>,
}

/// The branches of a run by repository; empty if it has no repositories.
pub(crate) type BranchStates = BTreeMap<String, BranchState>;

/// Returns the state of a run's branches according to the last snapshot of its main path.
pub(crate) fn branches(manifest: &Manifest, last: Option<&Value>) -> BranchStates {
    let Some(kept) = Kept::from_manifest(manifest) else {
        return BranchStates::new();
    };
    let state = |(name, kept): (String, KeptRepository)| {
        let saved = |field: &str| last.and_then(|last| last[name.as_str()][field].as_str());
        let state = BranchState {
            git_sha: saved("git_sha").unwrap_or(&kept.base).to_owned(),
            merging: saved("merging").map(str::to_owned),
            branch: kept.branch,
            base: kept.base,
        };
        (name, state)
    };
    kept.repositories.into_iter().map(state).collect()
}

/// Returns the first digits of a commit.
pub(crate) fn short(sha: &str) -> &str {
    sha.get(..SHORT).unwrap_or(sha)
}

/// The present state of the repositories of a run.
pub(crate) struct Left {
    kept: Kept,
    /// The latest snapshot of the main path.
    saved: Option<Value>,
    git: SystemGit,
}

impl Left {
    /// Returns the state of a run's repositories. Returns `None` if it has none, or if there is no git.
    pub(crate) fn from_folder(folder: &RunFolder) -> Option<Left> {
        let checkpoint = folder.checkpoint().ok().flatten();
        Some(Left {
            kept: Kept::from_manifest(folder.manifest())?,
            saved: checkpoint.and_then(|checkpoint| checkpoint.workspace_snapshot),
            git: SystemGit::find().ok()?,
        })
    }

    /// Returns the state of the branches.
    pub(crate) fn states(&self) -> BranchStates {
        let state = |(name, kept): (&String, &KeptRepository)| {
            let tip = self.ask(kept, &["rev-parse", "--verify", "-q", &head(&kept.branch)]);
            let merging = self
                .saved
                .as_ref()
                .and_then(|saved| saved[name.as_str()]["merging"].as_str());
            let state = BranchState {
                branch: kept.branch.clone(),
                base: kept.base.clone(),
                git_sha: tip.unwrap_or_else(|| kept.base.clone()),
                merging: merging.map(str::to_owned),
            };
            (name.clone(), state)
        };
        self.kept.repositories.iter().map(state).collect()
    }

    /// Prints where the work is, and the commands that show and merge it.
    pub(crate) fn tell(&self, conflicts: Option<&Value>, paused: bool, runs: &Runs, terminal: &Terminal) {
        let conflicts = files(conflicts);
        for (name, kept) in &self.kept.repositories {
            let commits = self.commits(kept, &kept.branch);
            let told = match commits {
                0 => "no commits".to_owned(),
                commits => count(commits, "commit"),
            };
            let title = terminal.paint(Paint::Bold, name);
            terminal.progress(&format!("{title}: {told} on {}", kept.branch));
            let path = quoted(&runs.shown(&kept.path));
            if commits > 0 {
                let branch = quoted(&kept.branch);
                terminal.progress(&format!(
                    "  look at it with: git -C {path} log -p {}..{branch}",
                    short(&kept.base)
                ));
                if !paused {
                    terminal.progress(&format!("  merge it with:   git -C {path} merge {branch}"));
                }
            }
            for (branch, commits) in self.beside(kept) {
                terminal.progress(&format!(
                    "  not merged into it: {branch}, {}",
                    count(commits, "commit")
                ));
            }
            let files = conflicts.get(&**name).map_or(&[][..], Vec::as_slice);
            for file in files.iter().take(MOST_FILES) {
                terminal.progress(&format!("  {} {file}", terminal.paint(Paint::Warn, "conflict:")));
            }
            if files.len() > MOST_FILES {
                terminal.progress(&format!("  and {} more", files.len() - MOST_FILES));
            }
        }
    }

    /// Returns the branches of other paths that have commits of their own, with the number of these commits.
    fn beside(&self, kept: &KeptRepository) -> Vec<(String, usize)> {
        let pattern = format!("{}.*", head(&kept.branch));
        let listed = self.ask(kept, &["for-each-ref", "--format=%(refname:short)", &pattern]);
        let branches = listed.unwrap_or_default();
        let counted = branches
            .lines()
            .map(|branch| (branch.to_owned(), self.apart(kept, branch)));
        counted.filter(|(_, commits)| *commits > 0).collect()
    }

    fn commits(&self, kept: &KeptRepository, branch: &str) -> usize {
        let range = format!("{}..{}", kept.base, head(branch));
        self.number(kept, &range)
    }

    fn apart(&self, kept: &KeptRepository, branch: &str) -> usize {
        let range = format!("{}..{branch}", head(&kept.branch));
        self.number(kept, &range)
    }

    fn number(&self, kept: &KeptRepository, range: &str) -> usize {
        let told = self.ask(kept, &["rev-list", "--count", range]);
        told.and_then(|told| told.parse().ok()).unwrap_or(0)
    }

    /// Returns the output of a git command, or `None` if it fails.
    fn ask(&self, kept: &KeptRepository, words: &[&str]) -> Option<String> {
        let asked = self.git.run(&GitCommand::new(&kept.path).args(words)).ok()?;
        let text = String::from_utf8(asked.stdout).ok()?;
        (asked.status == 0).then(|| text.trim_end().to_owned())
    }
}

/// Returns the full name of a branch, which is unambiguous.
fn head(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// Returns the conflicting files of each repository from the context of a run.
fn files(conflicts: Option<&Value>) -> BTreeMap<&str, Vec<String>> {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for conflict in conflicts.and_then(Value::as_array).into_iter().flatten() {
        let (Some(repository), Some(path)) = (conflict["repository"].as_str(), conflict["path"].as_str())
        else {
            continue;
        };
        let kind = conflict["kind"].as_str().unwrap_or("content");
        files
            .entry(repository)
            .or_default()
            .push(format!("{path} ({kind})"));
    }
    files
}
