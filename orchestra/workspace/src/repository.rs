//! A repository of the user, in which runs have their own branches.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use orchestra_engine::RunOwnership;

use crate::commit_cache::CommitCache;
use crate::configuration::{CommonFolder, Configuration};
use crate::error::GitWorkspaceError;
use crate::git::{Git, GitCommand, GitError, GitOutput};
use crate::git_path::path_from;
use crate::sha::Sha;

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

/// The state that all clones of a [`Repository`] share.
struct Inner {
    git: Arc<dyn Git>,
    name: String,
    top: PathBuf,
    prefix: PathBuf,
    common: PathBuf,
    /// The configuration that was found on disk.
    found: Configuration,
    /// The folder that git commands use in place of the common folder.
    replacement: Option<CommonFolder>,
    /// The run for which the repository was opened, once a stage has begun.
    run: OnceLock<RunOwnership>,
    commits: Mutex<CommitCache>,
}

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
            replacement: None,
            run: OnceLock::new(),
            commits: Mutex::default(),
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
            replacement: None,
            run: OnceLock::new(),
            commits: Mutex::default(),
        };
        Ok(Repository(Arc::new(inner)))
    }

    /// Returns the configuration that was found when the repository was opened.
    pub(crate) fn configuration(&self) -> &Configuration {
        &self.0.found
    }

    /// Returns the same repository with another configuration.
    pub(crate) fn configured(&self, configuration: &Configuration) -> Result<Repository, GitWorkspaceError> {
        let replacement = CommonFolder::create(self.common(), configuration)
            .map_err(|source| GitWorkspaceError::io(self.name(), &std::env::temp_dir(), source))?;
        Ok(Repository(Arc::new(Inner {
            git: Arc::clone(&self.0.git),
            name: self.0.name.clone(),
            top: self.0.top.clone(),
            prefix: self.0.prefix.clone(),
            common: self.0.common.clone(),
            found: self.0.found.clone(),
            replacement: Some(replacement),
            run: OnceLock::new(),
            commits: Mutex::default(),
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
}

/// Operations for the other modules of this crate.
impl Repository {
    /// Returns a command that runs in the user's worktree and only reads there.
    pub(crate) fn command(&self) -> GitCommand {
        GitCommand::new(&self.0.top)
    }

    /// Runs a command. Accepts any exit status.
    pub(crate) fn try_run(&self, command: &GitCommand) -> Result<GitOutput, GitWorkspaceError> {
        let Some(replacement) = &self.0.replacement else {
            return Ok(self.0.git.run(command)?);
        };
        let mut command = replacement
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
        let stderr = output.stderr.trim();
        let has = |part: &str| stderr.contains(part);
        let detail: String = stderr
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
            stderr: stderr.chars().take(2000).collect(),
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

    /// Returns the cache. Clears it if it is full.
    pub(crate) fn commit_cache(&self) -> MutexGuard<'_, CommitCache> {
        let mut cache = self.0.commits.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.is_full() {
            *cache = CommitCache::default();
        }
        cache
    }
}
