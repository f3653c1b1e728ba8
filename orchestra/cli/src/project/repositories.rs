//! The git repositories of a project, which become the workspace of the engine.

use std::path::{Path, PathBuf};

use orchestra_config::Project;
use orchestra_engine::WorkspaceError;
use orchestra_workspace::{GitWorkspace, GitWorkspaceError};

use crate::error::{CliError, Exit};
use crate::runs::Runs;

/// The folder for the data of runs.
const DATA_FOLDER: &str = ".orchestra";
/// The name of the folder for their worktrees.
const WORKTREES: &str = "worktrees";

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
        self.build(|_| true)
            .map_err(|error| invalid(error.code(), error.to_string()))
    }

    fn build(&self, wanted: impl Fn(&str) -> bool) -> Result<GitWorkspace, GitWorkspaceError> {
        let mut builder = GitWorkspace::builder(&self.worktrees);
        for (name, repository) in &self.project.configuration.workspace.repos {
            if wanted(name)
                && let Some(path) = &repository.path
            {
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
    pub(crate) fn start_error(&self, error: &WorkspaceError) -> CliError {
        let refused = invalid(error.code(), error.to_string());
        let fails = |name: &str| {
            let opened = self.build(|other| other == name).map(|workspace| {
                let opened = workspace.repositories()?;
                opened
                    .iter()
                    .try_for_each(|(repository, _)| repository.head().map(drop))
            });
            matches!(opened, Ok(Err(_)))
        };
        let repos = &self.project.configuration.workspace.repos;
        let at_fault = repos.iter().find(|(name, _)| fails(name));
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
    let is_named = |folder: &Path, name: &str| folder.file_name().is_some_and(|own| own == name);
    match runs.dir().parent() {
        Some(parent) if is_named(parent, DATA_FOLDER) && is_named(runs.dir(), "runs") => {
            parent.join(WORKTREES)
        }
        _ => {
            let folder = configuration.map(Path::new).and_then(Path::parent);
            folder.unwrap_or(Path::new("")).join(DATA_FOLDER).join(WORKTREES)
        }
    }
}

fn invalid(code: &str, message: String) -> CliError {
    CliError::usage(code.to_owned(), message).exit(Exit::Invalid)
}
