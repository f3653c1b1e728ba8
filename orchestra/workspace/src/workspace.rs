//! The workspace of an engine: the repositories and the folder of the worktrees of runs.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orchestra_engine::{
    OpenedWorkspace, Workspace, WorkspaceError, WorkspaceFuture, WorkspaceRun, WorkspaceSession,
};
use orchestra_graph::DEFAULT_BRANCH_PREFIX;

use crate::blocking::error_of;
use crate::error::GitWorkspaceError;
use crate::git::{Git, SystemGit};
use crate::repository::Repository;
use crate::run_worktrees::{RunWorktrees, Slot};
use crate::session::Session;
use crate::snapshot::{StoredRepository, StoredWorkspace};

/// The git repositories in which the stages of runs work. Each run has its own branches and worktrees, separate from
/// those of the user.
///
/// ```
/// use orchestra_engine::Engine;
/// use orchestra_workspace::GitWorkspace;
/// # use orchestra_graph::{LoadOptions, Source, load};
/// # use orchestra_workspace::{Git, GitCommand, SystemGit};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let backend = directory.path().join("backend");
/// # std::fs::create_dir(&backend)?;
/// # let git = SystemGit::find()?;
/// # git.run(&GitCommand::new(&backend).args(["init", "-q"]))?;
/// # let words = ["-c", "user.name=me", "-c", "user.email=me@localhost", "commit", "-q", "--allow-empty", "-m", "start"];
/// # git.run(&GitCommand::new(&backend).args(words))?;
/// let workspace = GitWorkspace::builder(directory.path().join(".orchestra/worktrees"))
///     .repository("backend", &backend)
///     .build()?;
/// let engine = Engine::builder().workspace(workspace).build()?;
/// let text = r#"digraph note { start -> write -> exit; write [shape=parallelogram, tool_command="echo hi > note.txt"] }"#;
/// # let pipeline = load(Source::new("note.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let run = engine.start(pipeline, ()).run_id("first").await?;
/// assert!(run.wait().await?.is_success());
///
/// // The user's own files are as they were; the work is on a branch of the run.
/// assert!(!backend.join("note.txt").exists());
/// let output = git.run(&GitCommand::new(&backend).args(["show", "orchestra/note/first:note.txt"]))?;
/// assert_eq!(output.stdout, b"hi\n");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct GitWorkspace {
    git: Arc<dyn Git>,
    worktrees: PathBuf,
    repositories: BTreeMap<String, RepositorySettings>,
}

/// The path and the branch prefix of a repository.
#[derive(Clone)]
struct RepositorySettings {
    path: PathBuf,
    prefix: String,
}

/// A builder for [`GitWorkspace`].
///
/// ```
/// use orchestra_workspace::GitWorkspace;
/// let workspace = GitWorkspace::builder(".orchestra/worktrees")
///     .repository("backend", "../backend")
///     .branch_prefix("backend", "flow/")
///     .build()?;
/// assert_eq!(workspace.names().collect::<Vec<_>>(), ["backend"]);
/// # Ok::<(), orchestra_workspace::GitWorkspaceError>(())
/// ```
pub struct GitWorkspaceBuilder {
    git: Option<Arc<dyn Git>>,
    worktrees: PathBuf,
    repositories: BTreeMap<String, RepositorySettings>,
}

impl GitWorkspace {
    /// Returns a builder. `worktrees` is the folder for the worktrees of runs, such as `.orchestra/worktrees`.
    pub fn builder(worktrees: impl Into<PathBuf>) -> GitWorkspaceBuilder {
        GitWorkspaceBuilder {
            git: None,
            worktrees: worktrees.into(),
            repositories: BTreeMap::new(),
        }
    }

    /// Opens the workspace with which a run began, from the data that is
    /// [stored](orchestra_engine::OpenedWorkspace::kept) with the run. For callers that only end the run.
    ///
    /// # Errors
    ///
    /// Returns an error if the stored data cannot be read, or if there is no `git` program.
    pub fn of_run(stored: &serde_json::Value) -> Result<GitWorkspace, WorkspaceError> {
        let stored: StoredWorkspace = serde_json::from_value(stored.clone()).map_err(|error| {
            WorkspaceError::new(
                "workspace_unreadable",
                format!("what the run kept of its workspace cannot be read: {error}"),
            )
        })?;
        let mut builder = GitWorkspace::builder(stored.worktrees);
        for (name, repository) in stored.repositories {
            builder = builder.repository(name, repository.path);
        }
        builder.build().map_err(|error| error_of(&error))
    }

    /// Returns the names of the repositories in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.repositories.keys().map(String::as_str)
    }

    /// Returns the folder of the worktrees of runs.
    pub fn worktrees(&self) -> &Path {
        &self.worktrees
    }

    /// Opens the repositories and returns each with its branch prefix.
    ///
    /// # Errors
    ///
    /// Returns an error if a repository does not exist or cannot be used by runs.
    pub fn repositories(&self) -> Result<Vec<(Repository, String)>, GitWorkspaceError> {
        let named = self.repositories.iter();
        let opened = named.map(|(name, named)| {
            let repository = Repository::open_without_programs(self.git.clone(), name, &named.path)?;
            Ok((repository, named.prefix.clone()))
        });
        let opened: Vec<(Repository, String)> = opened.collect::<Result<_, GitWorkspaceError>>()?;
        let all: Vec<Repository> = opened.iter().map(|(repository, _)| repository.clone()).collect();
        Repository::check_distinct(&all)?;
        Ok(opened)
    }

    /// Opens the repositories for a run that starts, resumes, or replays another run.
    fn open_run(
        &self,
        run: &str,
        pipeline: &str,
        stored: Option<StoredWorkspace>,
    ) -> Result<(StoredWorkspace, RunWorktrees), GitWorkspaceError> {
        let opened = self.repositories()?;
        if let Some(stored) = &stored {
            let now: Vec<&str> = self.names().collect();
            let then: Vec<&str> = stored.repositories.keys().map(String::as_str).collect();
            if now != then {
                return Err(GitWorkspaceError::OtherRepositories {
                    run: stored.run.clone(),
                    then: then.join("`, `"),
                    now: now.join("`, `"),
                });
            }
        }
        let is_resumed = stored.as_ref().is_some_and(|stored| stored.run == run);
        let worktrees = match &stored {
            Some(stored) if is_resumed => stored.worktrees.clone(),
            _ => std::path::absolute(&self.worktrees).unwrap_or_else(|_| self.worktrees.clone()),
        };
        let mut slots = Vec::with_capacity(opened.len());
        let mut configurations = Vec::with_capacity(opened.len());
        for (repository, prefix) in opened {
            let before = stored
                .as_ref()
                .and_then(|stored| stored.repositories.get(repository.name()));
            let base = match before {
                Some(before) if !repository.has_commit(&before.base)? => {
                    return Err(repository.missing(&before.base));
                }
                Some(before) => before.base.clone(),
                None => repository.head()?,
            };
            repository.check_writable()?;
            // The configuration from before the first stage, also if the run is resumed.
            let configuration = match before {
                Some(before) => match &before.configuration {
                    Some(configuration) => configuration.clone(),
                    None => repository.configuration().without_programs(),
                },
                None => repository.configuration().clone(),
            };
            let repository = repository.configured(&configuration)?;
            configurations.push(configuration);
            slots.push(Slot {
                name: repository.name().to_owned(),
                branch: match before {
                    Some(before) if is_resumed => before.branch.clone(),
                    _ => format!("{prefix}{}/", plain(pipeline)),
                },
                repository,
                base,
            });
        }
        if !is_resumed {
            let id = free_id(run, &slots)?;
            slots.iter_mut().for_each(|slot| slot.branch.push_str(&id));
        }
        let stored = StoredWorkspace {
            run: run.to_owned(),
            worktrees: worktrees.clone(),
            repositories: slots
                .iter()
                .zip(configurations)
                .map(|(slot, configuration)| {
                    let stored = StoredRepository {
                        path: slot.repository.top().to_owned(),
                        base: slot.base.clone(),
                        branch: slot.branch.clone(),
                        configuration: Some(configuration),
                    };
                    (slot.name.clone(), stored)
                })
                .collect(),
        };
        Ok((stored, RunWorktrees::new(worktrees.join(run), slots)))
    }
}

impl Workspace for GitWorkspace {
    fn open<'w>(
        &'w self,
        run: WorkspaceRun<'w>,
    ) -> WorkspaceFuture<'w, Result<OpenedWorkspace, WorkspaceError>> {
        Box::pin(async move {
            let stored = match run.kept {
                Some(stored) => Some(serde_json::from_value(stored.clone()).map_err(|error| {
                    WorkspaceError::new(
                        "workspace_unreadable",
                        format!(
                            "what run `{}` kept of its workspace cannot be read: {error}",
                            run.run
                        ),
                    )
                })?),
                None => None,
            };
            let (workspace, id) = (self.clone(), run.run.to_string());
            let name = run.pipeline.name.to_string();
            let opened = orchestra_engine::beside(move || workspace.open_run(&id, &name, stored)).await;
            let (stored, worktrees) = match opened {
                Ok(opened) => opened.map_err(|error| error_of(&error))?,
                Err(error) => return Err(WorkspaceError::new("workspace_io", error.to_string())),
            };
            let stored = serde_json::to_value(stored)
                .map_err(|error| WorkspaceError::new("workspace_unreadable", error.to_string()))?;
            let session: Arc<dyn WorkspaceSession> = Arc::new(Session::new(worktrees));
            Ok(OpenedWorkspace::new(stored, session))
        })
    }
}

impl GitWorkspaceBuilder {
    /// Adds a repository by name. The path is the folder of one of its worktrees, or a folder below it.
    #[must_use]
    pub fn repository(mut self, name: impl Into<String>, path: impl Into<PathBuf>) -> GitWorkspaceBuilder {
        let named = RepositorySettings {
            path: path.into(),
            prefix: DEFAULT_BRANCH_PREFIX.to_owned(),
        };
        self.repositories.insert(name.into(), named);
        self
    }

    /// Sets the branch prefix of a repository that was added before. The default is [`DEFAULT_BRANCH_PREFIX`].
    #[must_use]
    pub fn branch_prefix(mut self, repository: &str, prefix: impl Into<String>) -> GitWorkspaceBuilder {
        if let Some(named) = self.repositories.get_mut(repository) {
            named.prefix = prefix.into();
        }
        self
    }

    /// Replaces the git implementation, for tests.
    #[must_use]
    pub fn git(mut self, git: Arc<dyn Git>) -> GitWorkspaceBuilder {
        self.git = Some(git);
        self
    }

    /// Builds the workspace. The repositories are not opened until a run begins.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no `git` program, or if it is too old.
    pub fn build(self) -> Result<GitWorkspace, GitWorkspaceError> {
        let git = match self.git {
            Some(git) => git,
            None => Arc::new(SystemGit::find()?),
        };
        Ok(GitWorkspace {
            git,
            worktrees: self.worktrees,
            repositories: self.repositories,
        })
    }
}

impl fmt::Debug for GitWorkspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitWorkspace")
            .field("worktrees", &self.worktrees)
            .field("repositories", &self.repositories.keys())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for GitWorkspaceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitWorkspaceBuilder")
            .field("worktrees", &self.worktrees)
            .field("repositories", &self.repositories.keys())
            .finish_non_exhaustive()
    }
}

/// Returns an id for the branches of a run that no existing branch uses.
fn free_id(run: &str, slots: &[Slot]) -> Result<String, GitWorkspaceError> {
    let whole = plain(run);
    // A generated run id ends with six random digits, which are usually unique.
    let short = match run.rsplit('-').next() {
        Some(last) if run.len() == 22 && last.len() == 6 => last.to_owned(),
        _ => whole.clone(),
    };
    let numbered = (2_u32..).map(|number| format!("{whole}-{number}"));
    for id in [short, whole.clone()].into_iter().chain(numbered) {
        let mut taken = false;
        for slot in slots {
            taken |= slot.repository.branch_exists(&format!("{}{id}", slot.branch))?;
        }
        if !taken {
            return Ok(id);
        }
    }
    Ok(whole)
}

/// Converts a name to a valid component of a branch name.
fn plain(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        })
        .take(80)
        .collect();
    match plain.trim_matches('-') {
        "" => "pipeline".to_owned(),
        plain => plain.to_owned(),
    }
}
