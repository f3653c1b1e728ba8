//! The branches of a run in the repositories in which it works.

use std::collections::BTreeMap;

use orchestra_engine::{Manifest, RunFolder};
use orchestra_workspace::{Git, GitCommand, StoredRepository, StoredWorkspace, SystemGit};
use serde::Serialize;
use serde_json::Value;

use crate::runs::{Runs, shell_quoted};
use crate::terminal::format::count;
use crate::terminal::{Paint, Terminal};

/// Number of digits of a displayed commit.
const SHA_DIGITS: usize = 8;
/// Maximum number of displayed conflicting files.
const MAX_FILES: usize = 20;

/// Returns a line for each repository of a run with its branch and the commit from which the branch began.
pub(crate) fn branch_lines(workspace: &StoredWorkspace) -> Vec<String> {
    let repositories = &workspace.repositories;
    let width = repositories.keys().map(String::len).max().unwrap_or(0);
    let line = |(name, repository): (&String, &StoredRepository)| {
        let base = short_sha(repository.base.as_str());
        format!("{name:<width$}  {} from {base}", repository.branch)
    };
    repositories.iter().map(line).collect()
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
pub(crate) fn branch_states(manifest: &Manifest, last: Option<&Value>) -> BranchStates {
    let Some(workspace) = StoredWorkspace::from_manifest(manifest) else {
        return BranchStates::new();
    };
    let state = |(name, repository): (String, StoredRepository)| {
        let saved = |field: &str| last.and_then(|last| last[name.as_str()][field].as_str());
        let state = BranchState {
            git_sha: saved("git_sha").unwrap_or(repository.base.as_str()).to_owned(),
            merging: saved("merging").map(str::to_owned),
            branch: repository.branch,
            base: repository.base.into(),
        };
        (name, state)
    };
    workspace.repositories.into_iter().map(state).collect()
}

/// Returns the first digits of a commit.
pub(crate) fn short_sha(sha: &str) -> &str {
    sha.get(..SHA_DIGITS).unwrap_or(sha)
}

/// The present state of the repositories of a run.
pub(crate) struct WorkspaceReport {
    workspace: StoredWorkspace,
    /// The latest snapshot of the main path.
    saved: Option<Value>,
    git: SystemGit,
}

impl WorkspaceReport {
    /// Returns the state of a run's repositories. Returns `None` if it has none, or if there is no git.
    pub(crate) fn from_folder(folder: &RunFolder) -> Option<WorkspaceReport> {
        let checkpoint = folder.checkpoint().ok().flatten();
        Some(WorkspaceReport {
            workspace: StoredWorkspace::from_manifest(folder.manifest())?,
            saved: checkpoint.and_then(|checkpoint| checkpoint.workspace_snapshot),
            git: SystemGit::find().ok()?,
        })
    }

    /// Returns the state of the branches.
    pub(crate) fn states(&self) -> BranchStates {
        let state = |(name, repository): (&String, &StoredRepository)| {
            let branch = branch_ref(&repository.branch);
            let tip = self.git_output(repository, &["rev-parse", "--verify", "-q", &branch]);
            let merging = self
                .saved
                .as_ref()
                .and_then(|saved| saved[name.as_str()]["merging"].as_str());
            let state = BranchState {
                branch: repository.branch.clone(),
                base: repository.base.to_string(),
                git_sha: tip.unwrap_or_else(|| repository.base.to_string()),
                merging: merging.map(str::to_owned),
            };
            (name.clone(), state)
        };
        self.workspace.repositories.iter().map(state).collect()
    }

    /// Prints where the work is, and the commands that show and merge it.
    pub(crate) fn print(&self, conflicts: Option<&Value>, paused: bool, runs: &Runs, terminal: &Terminal) {
        let conflicts = conflicting_files(conflicts);
        for (name, repository) in &self.workspace.repositories {
            let commits = self.commits_on(repository, &repository.branch);
            let number = match commits {
                0 => "no commits".to_owned(),
                commits => count(commits, "commit"),
            };
            let title = terminal.paint(Paint::Bold, name);
            terminal.progress(&format!("{title}: {number} on {}", repository.branch));
            let path = shell_quoted(&runs.display_path(&repository.path));
            if commits > 0 {
                let branch = shell_quoted(&repository.branch);
                terminal.progress(&format!(
                    "  look at it with: git -C {path} log -p {}..{branch}",
                    short_sha(repository.base.as_str())
                ));
                if !paused {
                    terminal.progress(&format!("  merge it with:   git -C {path} merge {branch}"));
                }
            }
            for (branch, commits) in self.unmerged_branches(repository) {
                terminal.progress(&format!(
                    "  not merged into it: {branch}, {}",
                    count(commits, "commit")
                ));
            }
            let files = conflicts.get(&**name).map_or(&[][..], Vec::as_slice);
            for file in files.iter().take(MAX_FILES) {
                terminal.progress(&format!("  {} {file}", terminal.paint(Paint::Warn, "conflict:")));
            }
            if files.len() > MAX_FILES {
                terminal.progress(&format!("  and {} more", files.len() - MAX_FILES));
            }
        }
    }

    /// Returns the branches of other paths that have commits of their own, with the number of these commits.
    fn unmerged_branches(&self, repository: &StoredRepository) -> Vec<(String, usize)> {
        let pattern = format!("{}.*", branch_ref(&repository.branch));
        let listed = self.git_output(
            repository,
            &["for-each-ref", "--format=%(refname:short)", &pattern],
        );
        let branches = listed.unwrap_or_default();
        let counted = branches
            .lines()
            .map(|branch| (branch.to_owned(), self.unmerged_commits(repository, branch)));
        counted.filter(|(_, commits)| *commits > 0).collect()
    }

    fn commits_on(&self, repository: &StoredRepository, branch: &str) -> usize {
        let range = format!("{}..{}", repository.base, branch_ref(branch));
        self.count_commits(repository, &range)
    }

    fn unmerged_commits(&self, repository: &StoredRepository, branch: &str) -> usize {
        let range = format!("{}..{branch}", branch_ref(&repository.branch));
        self.count_commits(repository, &range)
    }

    fn count_commits(&self, repository: &StoredRepository, range: &str) -> usize {
        let output = self.git_output(repository, &["rev-list", "--count", range]);
        output.and_then(|output| output.parse().ok()).unwrap_or(0)
    }

    /// Returns the output of a git command, or `None` if it fails.
    fn git_output(&self, repository: &StoredRepository, words: &[&str]) -> Option<String> {
        let output = self
            .git
            .run(&GitCommand::new(&repository.path).args(words))
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        (output.status == 0).then(|| text.trim_end().to_owned())
    }
}

/// Returns the full name of a branch, which is unambiguous.
fn branch_ref(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// Returns the conflicting files of each repository from the context of a run.
fn conflicting_files(conflicts: Option<&Value>) -> BTreeMap<&str, Vec<String>> {
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
