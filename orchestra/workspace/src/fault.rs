//! What can be wrong with a repository, a tree or a merge; each with a word for machines and a way to mend it.

use std::io;
use std::path::{Path, PathBuf};

use crate::git::GitError;

/// What is wrong with a repository of the workspace, or with a tree of a run.
///
/// ```
/// use orchestra_workspace::WorkspaceFault;
/// let fault = WorkspaceFault::RepositoryMissing { repository: "backend".into(), path: "../backend".into() };
/// assert_eq!(fault.code(), "repository_missing");
/// assert!(fault.to_string().starts_with("repository `backend`: there is no folder `../backend`"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceFault {
    /// The folder of a repository is not there.
    #[error("repository `{repository}`: there is no folder `{}`; correct its path or clone it there", .path.display())]
    RepositoryMissing {
        /// The repository's name.
        repository: String,
        /// The folder.
        path: PathBuf,
    },
    /// The folder is in no git repository.
    #[error("repository `{repository}`: `{}` is in no git repository; run `git init` there or correct its path", .path.display())]
    NotARepository {
        /// The repository's name.
        repository: String,
        /// The folder.
        path: PathBuf,
    },
    /// The repository has no work tree.
    #[error("repository `{repository}`: `{}` is a bare repository; name a work tree of it, such as one made by `git worktree add`", .path.display())]
    Bare {
        /// The repository's name.
        repository: String,
        /// The folder.
        path: PathBuf,
    },
    /// The repository has no commit to begin from.
    #[error("repository `{repository}`: `{}` has no commit yet, so a run has nothing to begin from; make one, such as by `git commit --allow-empty -m start`", .path.display())]
    NoCommit {
        /// The repository's name.
        repository: String,
        /// Its work tree.
        path: PathBuf,
    },
    /// Nothing can be written into the repository.
    #[error("repository `{repository}`: nothing can be written into `{}` ({detail}); a run needs branches and commits of its own there", .path.display())]
    ReadOnly {
        /// The repository's name.
        repository: String,
        /// Its git folder.
        path: PathBuf,
        /// What the system or git said.
        detail: String,
    },
    /// Somebody else owns the repository, and git does not trust it.
    #[error("repository `{repository}`: `{}` belongs to another user, so git refuses to work in it; if you trust it, run `git config --global --add safe.directory {}`", .path.display(), .path.display())]
    Owner {
        /// The repository's name.
        repository: String,
        /// The folder.
        path: PathBuf,
    },
    /// Two names stand for one repository.
    #[error("repositories `{first}` and `{second}` are one: both are in `{}`; keep one of them", .path.display())]
    RepositoryTwice {
        /// The first name.
        first: String,
        /// The second name.
        second: String,
        /// The git folder that they share.
        path: PathBuf,
    },
    /// A branch of that name is there and was not made by a run, or another name is in its way.
    #[error(
        "repository `{repository}`: branch `{branch}` cannot be made, because {detail}; rename or delete what is in its way, or choose another `branch_prefix`"
    )]
    BranchTaken {
        /// The repository's name.
        repository: String,
        /// The branch.
        branch: String,
        /// What is in the way.
        detail: String,
    },
    /// A branch that is to be deleted was not made by a run.
    #[error(
        "repository `{repository}`: branch `{branch}` was not made by a run, so it is left alone; `git branch -d` deletes it"
    )]
    NotOurs {
        /// The repository's name.
        repository: String,
        /// The branch.
        branch: String,
    },
    /// A branch that is to be deleted is checked out.
    #[error("repository `{repository}`: branch `{branch}` is checked out in `{}`; remove that tree first", .path.display())]
    BranchInUse {
        /// The repository's name.
        repository: String,
        /// The branch.
        branch: String,
        /// The tree.
        path: PathBuf,
    },
    /// A branch that is to be deleted has commits that are nowhere else.
    #[error("repository `{repository}`: branch `{branch}` has commits that `{into}` has not, so it is kept")]
    NotMerged {
        /// The repository's name.
        repository: String,
        /// The branch.
        branch: String,
        /// The commit that was to have them.
        into: String,
    },
    /// A repository of its own is inside a tree, or a submodule was changed: git cannot put these files into a commit.
    #[error("repository `{repository}`: `{}` is a repository of its own, or its submodule was changed, and git cannot keep its files here; move it out of the tree, or restore its submodule; nothing was changed", .path.display())]
    NestedRepository {
        /// The repository's name.
        repository: String,
        /// The nested folder.
        path: PathBuf,
    },
    /// A commit is not there.
    #[error(
        "repository `{repository}`: commit {sha} is not there any more; fetch it again, or start another run"
    )]
    CommitMissing {
        /// The repository's name.
        repository: String,
        /// The commit.
        sha: String,
    },
    /// A tree is not what the caller says it is.
    #[error("repository `{repository}`: the tree `{}` was changed meanwhile ({detail}); commit or restore it first", .path.display())]
    TreeMoved {
        /// The repository's name.
        repository: String,
        /// The tree.
        path: PathBuf,
        /// What is different.
        detail: String,
    },
    /// The folder of a tree is not there, or is no work tree of this repository.
    #[error("repository `{repository}`: there is no tree at `{}`; it was removed by hand and is made again when the run goes on", .path.display())]
    TreeMissing {
        /// The repository's name.
        repository: String,
        /// The tree.
        path: PathBuf,
    },
    /// A merge is asked for that is not open.
    #[error("repository `{repository}`: {sha} is no open merge; it may have been finished meanwhile")]
    NoOpenMerge {
        /// The repository's name.
        repository: String,
        /// The commit.
        sha: String,
    },
    /// A lock file of git is in the way.
    #[error(
        "repository `{repository}`: another git process holds a lock ({detail}); wait for it, or delete the lock file if no git runs"
    )]
    Locked {
        /// The repository's name.
        repository: String,
        /// What git said.
        detail: String,
    },
    /// Another run works in the repository for longer than is waited.
    #[error(
        "repository `{repository}`: another process works in it for longer than {seconds} s ({holder}); end it, then go on"
    )]
    Busy {
        /// The repository's name.
        repository: String,
        /// How long was waited, in seconds.
        seconds: u64,
        /// What the holder wrote about itself.
        holder: String,
    },
    /// A run goes on with other repositories than it began with.
    #[error(
        "run `{run}` was begun with the repositories `{then}`, and the workspace has `{now}`; give it the same ones"
    )]
    OtherRepositories {
        /// The run.
        run: String,
        /// Those that it began with.
        then: String,
        /// Those that there are.
        now: String,
    },
    /// Branches are to be merged into a line that has no trees.
    #[error("line `{line}` has no trees to merge into; this is a fault of the program")]
    LineNotReady {
        /// The line.
        line: String,
    },
    /// Branches are to be merged into a line whose last merge is not finished.
    #[error(
        "line `{line}` has a merge whose conflicts are not resolved yet, so no other branches can be merged into it; \
         put a stage that resolves them before the next fan-out"
    )]
    MergeOpen {
        /// The line.
        line: String,
    },
    /// A folder for trees cannot be made.
    #[error("`{}`: {source}; give the runs a folder that can be written", .path.display())]
    Folder {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A text is no name of a commit.
    #[error("`{}` is no object name of git; 40 or 64 hexadecimal digits are", .text.escape_debug())]
    InvalidSha {
        /// The text.
        text: String,
    },
    /// The program `git` could not be run.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A git command failed for a reason that has no word of its own.
    #[error("repository `{repository}`: `git {command}` failed with status {status}: {stderr}")]
    Command {
        /// The repository's name.
        repository: String,
        /// The subcommand.
        command: String,
        /// Its exit status.
        status: i32,
        /// What it said, bounded.
        stderr: String,
    },
    /// git said what it should not say.
    #[error(
        "repository `{repository}`: `git {command}` answered in an unknown form; is the git program one that was changed?"
    )]
    Unreadable {
        /// The repository's name.
        repository: String,
        /// The subcommand.
        command: String,
    },
    /// A file or folder could not be read or written.
    #[error("repository `{repository}`: `{}`: {source}", .path.display())]
    Io {
        /// The repository's name.
        repository: String,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl WorkspaceFault {
    /// The fault as one word, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            WorkspaceFault::RepositoryMissing { .. } => "repository_missing",
            WorkspaceFault::NotARepository { .. } => "not_a_repository",
            WorkspaceFault::Bare { .. } => "repository_bare",
            WorkspaceFault::NoCommit { .. } => "no_commit",
            WorkspaceFault::ReadOnly { .. } => "repository_read_only",
            WorkspaceFault::Owner { .. } => "repository_owner",
            WorkspaceFault::RepositoryTwice { .. } => "repository_twice",
            WorkspaceFault::BranchTaken { .. } => "branch_taken",
            WorkspaceFault::NotOurs { .. } => "branch_not_ours",
            WorkspaceFault::BranchInUse { .. } => "branch_in_use",
            WorkspaceFault::NotMerged { .. } => "branch_not_merged",
            WorkspaceFault::NestedRepository { .. } => "nested_repository",
            WorkspaceFault::CommitMissing { .. } => "commit_missing",
            WorkspaceFault::TreeMoved { .. } => "tree_moved",
            WorkspaceFault::TreeMissing { .. } => "tree_missing",
            WorkspaceFault::NoOpenMerge { .. } => "no_open_merge",
            WorkspaceFault::Locked { .. } => "repository_locked",
            WorkspaceFault::Busy { .. } => "repository_busy",
            WorkspaceFault::OtherRepositories { .. } => "other_repositories",
            WorkspaceFault::LineNotReady { .. } => "line_not_ready",
            WorkspaceFault::MergeOpen { .. } => "merge_open",
            WorkspaceFault::InvalidSha { .. } => "invalid_sha",
            WorkspaceFault::Git(error) => error.code(),
            WorkspaceFault::Command { .. } | WorkspaceFault::Unreadable { .. } => "git_failed",
            WorkspaceFault::Folder { .. } | WorkspaceFault::Io { .. } => "workspace_io",
        }
    }

    /// An error of the system at a file or folder of a repository.
    pub(crate) fn io(repository: &str, path: &Path, source: io::Error) -> WorkspaceFault {
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => WorkspaceFault::ReadOnly {
                repository: repository.to_owned(),
                path: path.to_owned(),
                detail: source.to_string(),
            },
            _ => WorkspaceFault::Io {
                repository: repository.to_owned(),
                path: path.to_owned(),
                source,
            },
        }
    }
}
