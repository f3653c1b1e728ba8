//! A repository of the user, in which runs have their own branches.

#[cfg(unix)]
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use orchestra_engine::RunOwnership;
use serde::{Deserialize, Serialize};

use crate::configuration::{CommonFolder, Configuration};
use crate::error::GitWorkspaceError;
use crate::git::{Git, GitCommand, GitError, GitOutput};
use crate::lock::RepositoryLock;
use crate::refs::{base_ref, head_ref, open_ref};
use crate::tree::Tree;

/// The name of a git object: 40 or 64 hexadecimal digits.
///
/// ```
/// use orchestra_workspace::Sha;
/// let sha: Sha = "89e6c98d92887913cadf06b2adb97f26cde4849b".parse().unwrap();
/// assert_eq!(sha.short(), "89e6c98d9288");
/// assert!("HEAD".parse::<Sha>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha(String);

impl Sha {
    /// Returns all digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first 12 digits.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl TryFrom<String> for Sha {
    type Error = GitWorkspaceError;

    fn try_from(text: String) -> Result<Sha, GitWorkspaceError> {
        text.parse()
    }
}

impl From<Sha> for String {
    fn from(sha: Sha) -> String {
        sha.0
    }
}

impl std::str::FromStr for Sha {
    type Err = GitWorkspaceError;

    fn from_str(text: &str) -> Result<Sha, GitWorkspaceError> {
        let digits = text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if digits && (text.len() == 40 || text.len() == 64) {
            return Ok(Sha(text.to_owned()));
        }
        Err(GitWorkspaceError::InvalidSha {
            text: text.chars().take(100).collect(),
        })
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha({})", self.0)
    }
}

/// A repository of the user. Its worktree, index, HEAD and branches are only read.
///
/// ```
/// use std::sync::Arc;
/// use orchestra_workspace::{Git, GitCommand, Repository, SystemGit};
/// let folder = tempfile::tempdir().unwrap();
/// let git = Arc::new(SystemGit::find().unwrap());
/// git.run(&GitCommand::new(folder.path()).args(["init", "-q"])).unwrap();
/// let repository = Repository::open(git, "backend", folder.path()).unwrap();
/// assert_eq!(repository.name(), "backend");
/// assert_eq!(repository.head().unwrap_err().code(), "no_commit");
/// ```
#[derive(Clone)]
pub struct Repository(Arc<Inner>);

struct Inner {
    git: Arc<dyn Git>,
    name: String,
    top: PathBuf,
    prefix: PathBuf,
    common: PathBuf,
    /// The configuration that was found on disk.
    found: Configuration,
    /// The folder that git commands use in place of the common folder.
    shown: Option<CommonFolder>,
    /// The run for which the repository was opened, once a stage has begun.
    run: OnceLock<RunOwnership>,
    facts: Mutex<Facts>,
}

/// Cached facts about commits, which never change.
#[derive(Default)]
struct Facts {
    /// The commits that exist.
    there: HashSet<Sha>,
    trees: HashMap<Sha, Sha>,
    ancestors: HashMap<(Sha, Sha), bool>,
}

/// Maximum number of cached facts.
const FACTS: usize = 10_000;

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repository")
            .field("name", &self.0.name)
            .field("top", &self.0.top)
            .finish()
    }
}

impl Repository {
    /// Opens the repository that contains a folder, which may be below its top.
    ///
    /// The configuration that is found now stays in effect, including filters and merge drivers. Later changes to the
    /// configuration of the repository or of the user have no effect, and hooks are never run.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder is missing, is not in a repository, is in a bare repository, or belongs to a user
    /// whom git does not trust.
    pub fn open(git: Arc<dyn Git>, name: &str, path: &Path) -> Result<Repository, GitWorkspaceError> {
        let found = Repository::find(git, name, path)?;
        found.configured(found.configuration())
    }

    /// Opens a repository in which stages may have worked. Filters and merge drivers that it names are not run.
    pub(crate) fn open_without_programs(
        git: Arc<dyn Git>,
        name: &str,
        path: &Path,
    ) -> Result<Repository, GitWorkspaceError> {
        let found = Repository::find(git, name, path)?;
        found.configured(&found.configuration().without_programs())
    }

    fn find(git: Arc<dyn Git>, name: &str, path: &Path) -> Result<Repository, GitWorkspaceError> {
        let missing = || GitWorkspaceError::RepositoryMissing {
            repository: name.to_owned(),
            path: path.to_owned(),
        };
        let none = || GitWorkspaceError::NotARepository {
            repository: name.to_owned(),
            path: path.to_owned(),
        };
        // Use the absolute path, so that messages and the refs of worktrees do not depend on the current directory.
        let folder = path.canonicalize().map_err(|_| missing())?;
        if !folder.is_dir() {
            return Err(missing());
        }
        let opening = Inner {
            git,
            name: name.to_owned(),
            top: folder.clone(),
            prefix: PathBuf::new(),
            common: folder.clone(),
            found: Configuration::default(),
            shown: None,
            run: OnceLock::new(),
            facts: Mutex::default(),
        };
        let opening = Repository(Arc::new(opening));
        let parse = |what: &str| {
            opening
                .command()
                .args(["rev-parse", "--path-format=absolute", what])
        };
        let kind = opening.try_run(&parse("--is-bare-repository").arg("--is-inside-work-tree"))?;
        if kind.status != 0 {
            return Err(if kind.stderr.contains("not a git repository") {
                none()
            } else {
                opening.error(&parse("--is-bare-repository"), &kind)
            });
        }
        match kind.stdout.as_slice() {
            b"false\ntrue\n" => {}
            bare if bare.starts_with(b"true") => {
                return Err(GitWorkspaceError::Bare {
                    repository: name.to_owned(),
                    path: path.to_owned(),
                });
            }
            _ => return Err(none()),
        }
        let path_of = |what: &str| opening.run(&parse(what)).map(|output| path_from(&output));
        let listed = opening.run(&opening.command().args(["config", "--list", "-z"]))?;
        let inner = Inner {
            git: Arc::clone(&opening.0.git),
            name: name.to_owned(),
            top: path_of("--show-toplevel")?,
            prefix: path_of("--show-prefix")?,
            common: path_of("--git-common-dir")?,
            found: Configuration::parse(&listed),
            shown: None,
            run: OnceLock::new(),
            facts: Mutex::default(),
        };
        Ok(Repository(Arc::new(inner)))
    }

    /// Returns the configuration that was found when the repository was opened.
    pub(crate) fn configuration(&self) -> &Configuration {
        &self.0.found
    }

    /// Returns the same repository with another configuration.
    pub(crate) fn configured(&self, configuration: &Configuration) -> Result<Repository, GitWorkspaceError> {
        let shown = CommonFolder::create(self.common(), configuration)
            .map_err(|source| GitWorkspaceError::io(self.name(), &std::env::temp_dir(), source))?;
        Ok(Repository(Arc::new(Inner {
            git: Arc::clone(&self.0.git),
            name: self.0.name.clone(),
            top: self.0.top.clone(),
            prefix: self.0.prefix.clone(),
            common: self.0.common.clone(),
            found: self.0.found.clone(),
            shown: Some(shown),
            run: OnceLock::new(),
            facts: Mutex::default(),
        })))
    }

    /// Rejects two names for one repository.
    ///
    /// # Errors
    ///
    /// Returns an error if two of them have the same git folder.
    pub fn check_distinct(repositories: &[Repository]) -> Result<(), GitWorkspaceError> {
        for (at, second) in repositories.iter().enumerate() {
            let first = repositories
                .iter()
                .take(at)
                .find(|first| first.common() == second.common());
            if let Some(first) = first {
                return Err(GitWorkspaceError::RepositoryTwice {
                    first: first.name().to_owned(),
                    second: second.name().to_owned(),
                    path: second.common().to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Returns the name of the repository in the workspace.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the top folder of the user's worktree.
    pub fn top(&self) -> &Path {
        &self.0.top
    }

    /// Returns the given folder relative to the top; empty if it is the top.
    pub fn prefix(&self) -> &Path {
        &self.0.prefix
    }

    /// Returns the git folder that all worktrees share.
    pub fn common(&self) -> &Path {
        &self.0.common
    }

    /// Returns the commit that the user has checked out, on a branch or detached.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no commit yet, or if git cannot be run.
    pub fn head(&self) -> Result<Sha, GitWorkspaceError> {
        let none = || GitWorkspaceError::NoCommit {
            repository: self.name().to_owned(),
            path: self.top().to_owned(),
        };
        self.resolve("HEAD^{commit}")?.ok_or_else(none)
    }

    /// Returns whether a branch exists.
    ///
    /// # Errors
    ///
    /// Returns an error if git cannot be run.
    pub fn branch_exists(&self, branch: &str) -> Result<bool, GitWorkspaceError> {
        Ok(self.resolve(&head_ref(branch))?.is_some())
    }

    /// Returns the commit of a branch, or `None` if the branch does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if git cannot be run.
    pub fn tip(&self, branch: &str) -> Result<Option<Sha>, GitWorkspaceError> {
        self.resolve(&head_ref(branch))
    }

    /// Returns whether a commit exists.
    ///
    /// # Errors
    ///
    /// Returns an error if git cannot be run.
    pub fn has_commit(&self, sha: &Sha) -> Result<bool, GitWorkspaceError> {
        if self.facts().there.contains(sha) {
            return Ok(true);
        }
        let there = self.resolve(&format!("{sha}^{{commit}}"))?.is_some();
        if there {
            self.facts().there.insert(sha.clone());
        }
        Ok(there)
    }

    /// Returns whether `ancestor` is reachable from `descendant`. Each commit is its own ancestor.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the commits does not exist, or if git cannot be run.
    pub fn is_ancestor(&self, ancestor: &Sha, descendant: &Sha) -> Result<bool, GitWorkspaceError> {
        if ancestor == descendant {
            return Ok(true);
        }
        let pair = (ancestor.clone(), descendant.clone());
        let known = self.facts().ancestors.get(&pair).copied();
        if let Some(is) = known {
            return Ok(is);
        }
        let command = self.command().args([
            "merge-base",
            "--is-ancestor",
            ancestor.as_str(),
            descendant.as_str(),
        ]);
        let output = self.try_run(&command)?;
        let is = match output.status {
            0 => true,
            1 => false,
            _ => return Err(self.error(&command, &output)),
        };
        self.facts().ancestors.insert(pair, is);
        Ok(is)
    }

    /// Returns a handle of a worktree of a run at a path, on its own branch. Creates nothing yet.
    pub fn tree(&self, path: PathBuf, branch: String) -> Tree {
        Tree::new(self.clone(), path, branch)
    }

    /// Deletes a merged branch that a run made, with the refs beside it. Succeeds if the branch does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if no run made the branch, if it is checked out, or if it has commits that `into` lacks.
    pub fn delete_branch(&self, branch: &str, into: &Sha) -> Result<(), GitWorkspaceError> {
        let lock = self.lock(&format!("delete branch {branch}"))?;
        self.unlock_refs(&lock, branch);
        if let Some(tip) = self.tip(branch)? {
            if self.resolve(&base_ref(branch))?.is_none() {
                return Err(GitWorkspaceError::NotOurs {
                    repository: self.name().to_owned(),
                    branch: branch.to_owned(),
                });
            }
            if !self.is_ancestor(&tip, into)? {
                return Err(GitWorkspaceError::NotMerged {
                    repository: self.name().to_owned(),
                    branch: branch.to_owned(),
                    into: into.short().to_owned(),
                });
            }
            self.delete_branch_locked(&lock, branch, &tip)?;
        }
        self.delete_beside(&lock, branch)
    }

    /// Deletes the branch itself, unless it is checked out in a worktree.
    pub(crate) fn delete_branch_locked(
        &self,
        lock: &RepositoryLock,
        branch: &str,
        tip: &Sha,
    ) -> Result<(), GitWorkspaceError> {
        let in_use = self
            .worktrees()?
            .into_iter()
            .find(|tree| tree.branch.as_deref() == Some(branch) && tree.path.exists());
        if let Some(tree) = in_use {
            return Err(GitWorkspaceError::BranchInUse {
                repository: self.name().to_owned(),
                branch: branch.to_owned(),
                path: tree.path,
            });
        }
        self.delete_ref(lock, &head_ref(branch), tip)
    }

    /// Deletes the refs that mark a branch as made by a run. Must be called after the branch was deleted, because an
    /// unmarked branch counts as the user's.
    pub(crate) fn delete_beside(&self, lock: &RepositoryLock, branch: &str) -> Result<(), GitWorkspaceError> {
        for name in [open_ref(branch), base_ref(branch)] {
            if let Some(sha) = self.resolve(&name)? {
                self.delete_ref(lock, &name, &sha)?;
            }
        }
        Ok(())
    }
}

/// A worktree that git knows.
#[derive(Debug)]
pub(crate) struct Worktree {
    pub(crate) path: PathBuf,
    pub(crate) branch: Option<String>,
}

/// Operations for the other modules of this crate.
impl Repository {
    /// Returns a command that runs in the user's worktree and only reads there.
    pub(crate) fn command(&self) -> GitCommand {
        GitCommand::new(&self.0.top)
    }

    /// Runs a command. Accepts any exit status.
    pub(crate) fn try_run(&self, command: &GitCommand) -> Result<GitOutput, GitWorkspaceError> {
        let Some(shown) = &self.0.shown else {
            return Ok(self.0.git.run(command)?);
        };
        let mut command = shown
            .apply(command)
            .map_err(|source| GitWorkspaceError::io(self.name(), self.common(), source))?;
        if let Some(run) = self.0.run.get() {
            if !run.is_held() {
                let command = command.name();
                return Err(GitError::TakenOver { command }.into());
            }
            command = command.of_run(run.clone());
        }
        Ok(self.0.git.run(&command)?)
    }

    /// Sets the run for which commands are run from now on. Commands fail if this process no longer owns the run.
    pub(crate) fn act_for(&self, run: &RunOwnership) {
        let _ = self.0.run.set(run.clone());
    }

    /// Runs a command that must succeed.
    pub(crate) fn run(&self, command: &GitCommand) -> Result<Vec<u8>, GitWorkspaceError> {
        let output = self.try_run(command)?;
        match output.status {
            0 => Ok(output.stdout),
            _ => Err(self.error(command, &output)),
        }
    }

    /// Runs a command that prints one object name.
    pub(crate) fn run_sha(&self, command: &GitCommand) -> Result<Sha, GitWorkspaceError> {
        let output = self.run(command)?;
        let text = String::from_utf8_lossy(&output);
        text.trim().parse().map_err(|_| self.unreadable(command))
    }

    pub(crate) fn unreadable(&self, command: &GitCommand) -> GitWorkspaceError {
        GitWorkspaceError::Unreadable {
            repository: self.name().to_owned(),
            command: command.name(),
        }
    }

    /// Converts a failed command to an error.
    pub(crate) fn error(&self, command: &GitCommand, output: &GitOutput) -> GitWorkspaceError {
        let repository = self.name().to_owned();
        let said = output.stderr.trim();
        let has = |part: &str| said.contains(part);
        let detail: String = said
            .lines()
            .last()
            .unwrap_or_default()
            .chars()
            .take(300)
            .collect();
        if has("dubious ownership") {
            return GitWorkspaceError::Owner {
                repository,
                path: self.top().to_owned(),
            };
        }
        if has("Read-only file system")
            || has("insufficient permission for adding an object")
            || has(".lock': Permission denied")
        {
            return GitWorkspaceError::ReadOnly {
                repository,
                path: self.common().to_owned(),
                detail,
            };
        }
        if has(".lock': File exists") {
            return GitWorkspaceError::Locked { repository, detail };
        }
        GitWorkspaceError::Command {
            repository,
            command: command.name(),
            status: output.status,
            stderr: said.chars().take(2000).collect(),
        }
    }

    /// Returns the object of a name, or `None` if there is none.
    pub(crate) fn resolve(&self, name: &str) -> Result<Option<Sha>, GitWorkspaceError> {
        let command = self
            .command()
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options", name]);
        let output = self.try_run(&command)?;
        if output.status == 0 {
            let text = String::from_utf8_lossy(&output.stdout);
            return text
                .trim()
                .parse()
                .map(Some)
                .map_err(|_| self.unreadable(&command));
        }
        // A failure without a message means absence; a failure with another message is an error.
        let absent = output.stderr.is_empty() || output.stderr.contains("Needed a single revision");
        if absent || output.status == 1 {
            Ok(None)
        } else {
            Err(self.error(&command, &output))
        }
    }

    /// Returns the cached facts. Clears the cache if it is full.
    fn facts(&self) -> MutexGuard<'_, Facts> {
        let mut facts = self.0.facts.lock().unwrap_or_else(PoisonError::into_inner);
        if facts.there.len() + facts.trees.len() + facts.ancestors.len() > FACTS {
            *facts = Facts::default();
        }
        facts
    }

    /// Returns the tree of a commit.
    pub(crate) fn tree_of(&self, commit: &Sha) -> Result<Sha, GitWorkspaceError> {
        let known = self.facts().trees.get(commit).cloned();
        if let Some(tree) = known {
            return Ok(tree);
        }
        let missing = || self.missing(commit);
        let tree = self.resolve(&format!("{commit}^{{tree}}"))?.ok_or_else(missing)?;
        self.facts().trees.insert(commit.clone(), tree.clone());
        Ok(tree)
    }

    pub(crate) fn missing(&self, commit: &Sha) -> GitWorkspaceError {
        GitWorkspaceError::CommitMissing {
            repository: self.name().to_owned(),
            sha: commit.to_string(),
        }
    }

    /// Returns the parents of a commit.
    pub(crate) fn parents(&self, commit: &Sha) -> Result<Vec<Sha>, GitWorkspaceError> {
        let command = self.command().args([
            "rev-list",
            "--parents",
            "-n",
            "1",
            "--end-of-options",
            commit.as_str(),
        ]);
        let output = self.run(&command)?;
        let text = String::from_utf8_lossy(&output).into_owned();
        let parents = text.split_whitespace().skip(1).map(str::parse);
        parents
            .collect::<Result<_, _>>()
            .map_err(|_| self.unreadable(&command))
    }

    /// Returns the message of a commit.
    pub(crate) fn message_of(&self, commit: &Sha) -> Result<String, GitWorkspaceError> {
        let command = self
            .command()
            .args(["log", "-1", "--format=%B", "--end-of-options", commit.as_str()]);
        Ok(String::from_utf8_lossy(&self.run(&command)?).into_owned())
    }

    /// Writes a commit object, which no ref names yet.
    pub(crate) fn write_commit(
        &self,
        tree: &Sha,
        parents: &[Sha],
        message: &str,
    ) -> Result<Sha, GitWorkspaceError> {
        self.run_sha(&self.commit_command(tree, parents, message))
    }

    /// Like [`write_commit`](Repository::write_commit), but with the date of the newest parent. The merge of the same
    /// commits is therefore the same commit whenever it is computed, so a merge that a person has begun to resolve is
    /// recognised.
    pub(crate) fn write_merge(
        &self,
        tree: &Sha,
        parents: &[Sha],
        message: &str,
    ) -> Result<Sha, GitWorkspaceError> {
        let asked = self
            .command()
            .args(["log", "--no-walk", "--format=%ct"])
            .args(parents.iter().map(Sha::as_str));
        let told = self.run(&asked)?;
        let told = String::from_utf8_lossy(&told).into_owned();
        let newest = told.lines().filter_map(|line| line.parse::<u64>().ok()).max();
        let date = format!("@{} +0000", newest.unwrap_or_default());
        let command = self
            .commit_command(tree, parents, message)
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_DATE", &date);
        self.run_sha(&command)
    }

    fn commit_command(&self, tree: &Sha, parents: &[Sha], message: &str) -> GitCommand {
        // The message may exceed the maximum length of an argument.
        let words = ["commit-tree", "--no-gpg-sign", tree.as_str(), "-F", "-"];
        let mut command = self.command().args(words).stdin(message);
        for parent in parents {
            command = command.arg("-p").arg(parent.as_str());
        }
        command
    }
}

/// Converts a path that git printed as one line. The path may contain line breaks.
pub(crate) fn path_from(output: &[u8]) -> PathBuf {
    os_path(output.strip_suffix(b"\n").unwrap_or(output))
}

/// Converts a path from the bytes that git prints.
pub(crate) fn os_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(os_text(bytes))
}

#[cfg(unix)]
pub(crate) fn os_text(bytes: &[u8]) -> OsString {
    <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes).to_owned()
}

#[cfg(not(unix))]
pub(crate) fn os_text(bytes: &[u8]) -> OsString {
    String::from_utf8_lossy(bytes).into_owned().into()
}
