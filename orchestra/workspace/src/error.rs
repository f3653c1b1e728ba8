//! The errors of repositories, worktrees and merges. Each has a machine-readable code and a message that suggests a
//! fix.

use std::io;
use std::path::{Path, PathBuf};

use crate::git::GitError;

/// An error in a repository of the workspace, or in a worktree of a run.
///
/// ```
/// use orchestra_workspace::GitWorkspaceError;
/// let error = GitWorkspaceError::RepositoryMissing { repository: "backend".into(), path: "../backend".into() };
/// assert_eq!(error.code(), "repository_missing");
/// assert!(error.to_string().starts_with("repository `backend`: there is no folder `../backend`"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitWorkspaceError {
    /// The folder of a repository does not exist.
    #[error("repository `{repository}`: there is no folder `{}`; correct its path or clone it there", .path.display())]
    RepositoryMissing {
        /// The name of the repository.
        repository: String,
        /// The folder.
        path: PathBuf,
    },
    /// The folder is not in a git repository.
    #[error("repository `{repository}`: `{}` is in no git repository; run `git init` there or correct its path", .path.display())]
    NotARepository {
        /// The name of the repository.
        repository: String,
        /// The folder.
        path: PathBuf,
    },
    /// The repository has no worktree.
    #[error("repository `{repository}`: `{}` is a bare repository; name a work tree of it, such as one made by `git worktree add`", .path.display())]
    Bare {
        /// The name of the repository.
        repository: String,
        /// The folder.
        path: PathBuf,
    },
    /// The repository has no commit to start from.
    #[error("repository `{repository}`: `{}` has no commit yet, so a run has nothing to begin from; make one, such as by `git commit --allow-empty -m start`", .path.display())]
    NoCommit {
        /// The name of the repository.
        repository: String,
        /// The worktree.
        path: PathBuf,
    },
    /// The repository is not writable.
    #[error("repository `{repository}`: nothing can be written into `{}` ({detail}); a run needs branches and commits of its own there", .path.display())]
    ReadOnly {
        /// The name of the repository.
        repository: String,
        /// The git folder.
        path: PathBuf,
        /// The message of the operating system or of git.
        detail: String,
    },
    /// Another user owns the repository, and git does not trust it.
    #[error("repository `{repository}`: `{}` belongs to another user, so git refuses to work in it; if you trust it, run `git config --global --add safe.directory {}`", .path.display(), .path.display())]
    Owner {
        /// The name of the repository.
        repository: String,
        /// The folder.
        path: PathBuf,
    },
    /// Two names denote the same repository.
    #[error("repositories `{first}` and `{second}` are one: both are in `{}`; keep one of them", .path.display())]
    RepositoryTwice {
        /// The first name.
        first: String,
        /// The second name.
        second: String,
        /// The git folder that they share.
        path: PathBuf,
    },
    /// A branch of that name exists and was not made by a run, or the name conflicts with that of another branch.
    #[error(
        "repository `{repository}`: branch `{branch}` cannot be made, because {detail}; rename or delete what is in its way, or choose another `branch_prefix`"
    )]
    BranchTaken {
        /// The name of the repository.
        repository: String,
        /// The branch.
        branch: String,
        /// The conflicting branch, or the message of git.
        detail: String,
    },
    /// A branch to delete was not made by a run.
    #[error(
        "repository `{repository}`: branch `{branch}` was not made by a run, so it is left alone; `git branch -d` deletes it"
    )]
    NotOurs {
        /// The name of the repository.
        repository: String,
        /// The branch.
        branch: String,
    },
    /// A branch to delete is checked out.
    #[error("repository `{repository}`: branch `{branch}` is checked out in `{}`; remove that tree first", .path.display())]
    BranchInUse {
        /// The name of the repository.
        repository: String,
        /// The branch.
        branch: String,
        /// The worktree.
        path: PathBuf,
    },
    /// A branch to delete has commits that exist nowhere else.
    #[error("repository `{repository}`: branch `{branch}` has commits that `{into}` has not, so it is kept")]
    NotMerged {
        /// The name of the repository.
        repository: String,
        /// The branch.
        branch: String,
        /// The commit that should contain them.
        into: String,
    },
    /// The worktree contains a nested repository or a changed submodule, which git cannot commit.
    #[error("repository `{repository}`: `{}` is a repository of its own, or its submodule was changed, and git cannot keep its files here; move it out of the tree, or restore its submodule; nothing was changed", .path.display())]
    NestedRepository {
        /// The name of the repository.
        repository: String,
        /// The nested folder.
        path: PathBuf,
    },
    /// A commit does not exist.
    #[error(
        "repository `{repository}`: commit {sha} is not there any more; fetch it again, or start another run"
    )]
    CommitMissing {
        /// The name of the repository.
        repository: String,
        /// The commit.
        sha: String,
    },
    /// The state of a worktree differs from the expected one.
    #[error("repository `{repository}`: the tree `{}` was changed meanwhile ({detail}); commit or restore it first", .path.display())]
    TreeMoved {
        /// The name of the repository.
        repository: String,
        /// The worktree.
        path: PathBuf,
        /// The difference.
        detail: String,
    },
    /// The folder of a worktree does not exist, or is not a worktree of this repository.
    #[error("repository `{repository}`: there is no tree at `{}`; it was removed by hand and is made again when the run goes on", .path.display())]
    TreeMissing {
        /// The name of the repository.
        repository: String,
        /// The worktree.
        path: PathBuf,
    },
    /// The requested merge is not open.
    #[error("repository `{repository}`: {sha} is not an open merge; it may have been finished meanwhile")]
    NoOpenMerge {
        /// The name of the repository.
        repository: String,
        /// The commit.
        sha: String,
    },
    /// A lock file of git exists.
    #[error(
        "repository `{repository}`: another git process holds a lock ({detail}); wait for it, or delete the lock file if no git runs"
    )]
    Locked {
        /// The name of the repository.
        repository: String,
        /// The message of git.
        detail: String,
    },
    /// Another process works in the repository for longer than the wait limit.
    #[error(
        "repository `{repository}`: another process works in it for longer than {seconds} s ({holder}); end it, then go on"
    )]
    Busy {
        /// The name of the repository.
        repository: String,
        /// The time waited, in seconds.
        seconds: u64,
        /// The record that the holder wrote into the lock file.
        holder: String,
    },
    /// A run is resumed with other repositories than it began with.
    #[error(
        "run `{run}` was begun with the repositories `{then}`, and the workspace has `{now}`; give it the same ones"
    )]
    OtherRepositories {
        /// The run.
        run: String,
        /// The repositories with which the run began.
        then: String,
        /// The present repositories.
        now: String,
    },
    /// Branches are to be merged into an execution path that has no worktrees.
    #[error("execution path `{path_id}` has no trees to merge into; this is a bug")]
    PathNotReady {
        /// The execution path.
        path_id: String,
    },
    /// Branches are to be merged into an execution path whose last merge is not finished.
    #[error(
        "execution path `{path_id}` has a merge whose conflicts are not resolved yet, so no other branches can be merged into it; \
         put a stage that resolves them before the next fan-out"
    )]
    MergeOpen {
        /// The execution path.
        path_id: String,
    },
    /// A folder for worktrees cannot be created.
    #[error("`{}`: {source}; give the runs a folder that can be written", .path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A text is not a git object name.
    #[error("`{}` is not a git object name; expected 40 or 64 hexadecimal digits", .text.escape_debug())]
    InvalidSha {
        /// The text.
        text: String,
    },
    /// The program `git` could not be run.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A git command failed for a reason that has no variant of its own.
    #[error("repository `{repository}`: `git {command}` failed with status {status}: {stderr}")]
    Command {
        /// The name of the repository.
        repository: String,
        /// The subcommand.
        command: String,
        /// The exit status.
        status: i32,
        /// Standard error, truncated.
        stderr: String,
    },
    /// The output of a git command cannot be parsed.
    #[error(
        "repository `{repository}`: `git {command}` answered in an unknown form; is the git program one that was changed?"
    )]
    Unreadable {
        /// The name of the repository.
        repository: String,
        /// The subcommand.
        command: String,
    },
    /// A file or folder could not be read or written.
    #[error("repository `{repository}`: `{}`: {source}", .path.display())]
    Io {
        /// The name of the repository.
        repository: String,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl GitWorkspaceError {
    /// Returns the machine-readable error code.
    pub fn code(&self) -> &'static str {
        match self {
            GitWorkspaceError::RepositoryMissing { .. } => "repository_missing",
            GitWorkspaceError::NotARepository { .. } => "not_a_repository",
            GitWorkspaceError::Bare { .. } => "repository_bare",
            GitWorkspaceError::NoCommit { .. } => "no_commit",
            GitWorkspaceError::ReadOnly { .. } => "repository_read_only",
            GitWorkspaceError::Owner { .. } => "repository_owner",
            GitWorkspaceError::RepositoryTwice { .. } => "repository_twice",
            GitWorkspaceError::BranchTaken { .. } => "branch_taken",
            GitWorkspaceError::NotOurs { .. } => "branch_not_ours",
            GitWorkspaceError::BranchInUse { .. } => "branch_in_use",
            GitWorkspaceError::NotMerged { .. } => "branch_not_merged",
            GitWorkspaceError::NestedRepository { .. } => "nested_repository",
            GitWorkspaceError::CommitMissing { .. } => "commit_missing",
            GitWorkspaceError::TreeMoved { .. } => "tree_moved",
            GitWorkspaceError::TreeMissing { .. } => "tree_missing",
            GitWorkspaceError::NoOpenMerge { .. } => "no_open_merge",
            GitWorkspaceError::Locked { .. } => "repository_locked",
            GitWorkspaceError::Busy { .. } => "repository_busy",
            GitWorkspaceError::OtherRepositories { .. } => "other_repositories",
            GitWorkspaceError::PathNotReady { .. } => "path_not_ready",
            GitWorkspaceError::MergeOpen { .. } => "merge_open",
            GitWorkspaceError::InvalidSha { .. } => "invalid_sha",
            GitWorkspaceError::Git(error) => error.code(),
            GitWorkspaceError::Command { .. } | GitWorkspaceError::Unreadable { .. } => "git_failed",
            GitWorkspaceError::Folder { .. } | GitWorkspaceError::Io { .. } => "workspace_io",
        }
    }

    /// Creates the error for an I/O error at a file or folder of a repository.
    pub(crate) fn io(repository: &str, path: &Path, source: io::Error) -> GitWorkspaceError {
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                GitWorkspaceError::ReadOnly {
                    repository: repository.to_owned(),
                    path: path.to_owned(),
                    detail: source.to_string(),
                }
            }
            _ => GitWorkspaceError::Io {
                repository: repository.to_owned(),
                path: path.to_owned(),
                source,
            },
        }
    }
}
