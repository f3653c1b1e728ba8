//! The git repositories in which a run works.
//!
//! A run has its own branches and worktrees. The user's worktree, index, HEAD and branches are only read. All
//! operations use the program `git`, version 2.38 or newer. Each of them may be killed at any moment: the next
//! operation continues from the state that it finds, and every commit stays reachable.
//!
//! Besides `refs/heads/BRANCH`, runs use these refs:
//!
//! | Ref | Names |
//! |---|---|
//! | `refs/orchestra/base/BRANCH` | the commit from which the branch began; its presence marks the branch as made by a run |
//! | `refs/orchestra/kept/BRANCH/DIGITS` | work that was set aside |
//! | `refs/orchestra/open/BRANCH` | a merge that waits for its conflicts to be resolved |
//!
//! All functions block. Asynchronous callers run them on a blocking thread.
//!
//! # Glossary
//!
//! - **Worktree** ([`Tree`]): a git worktree of a run, on a branch of the run.
//! - **Execution path**: a sequence of stages of a run, such as the main path or a branch of a fan-out. It has one
//!   worktree and one branch in each repository.
//! - **Base**: the commit from which a run, or a branch of a run, began.
//! - **Head**: the commit at which a worktree is, with its open merge if it has one.
//! - **Snapshot**: the stored heads of an execution path, from which a run is resumed or replayed.
//! - **Side**: a branch that takes part in a merge.
//! - **Plan** ([`Plan`]): the computed result of a merge; it consists of git objects only and changes no ref or file.
//! - **Open merge** ([`Open`]): a merge whose conflict markers are in the files until a stage or a person resolves
//!   them.
//! - **Set aside**: to create a ref for work that is not contained in the target of an operation, so that it is not
//!   lost.
//! - **Sweep** ([`sweep()`]): the removal of worktrees, branches and refs of runs that have ended.
//!
//! # Modules, in reading order
//!
//! - `workspace`: [`GitWorkspace`], which opens the repositories for a run.
//! - `session`: the workspace session of one run: the steps before and after each stage.
//! - `run_worktrees`: the worktrees of the execution paths of a run.
//! - `snapshot`: the stored state of a run's files.
//! - `join`: the merge of the branches that join at a stage.
//! - `ask`: merges that a person finishes.
//! - `repository`: [`Repository`], a repository of the user.
//! - `standing`: queries and checks of repositories and worktrees.
//! - `refs`: the refs of runs.
//! - `lock`: the lock that serializes the operations in a repository.
//! - `tree`: [`Tree`], a worktree of a run.
//! - `entry`: the location of a worktree and its entry in the common git folder.
//! - `files`: the content of a worktree.
//! - `watch`: the detection of changes without reading files.
//! - `merge`: the planning of merges.
//! - `lab`: merges of git objects.
//! - `hunk`: conflict markers in files.
//! - `open`: the commit message of an open merge.
//! - `message`: commit messages.
//! - `cleanup`: listing and removal of branches, worktrees and refs.
//! - `git`: the program `git`, behind the trait [`Git`].
//! - `configuration`: the git configuration that applies in a run.
//! - `fault`: [`GitWorkspaceError`], the errors of this crate.

mod ask;
mod cleanup;
mod configuration;
mod entry;
mod error;
mod files;
mod git;
mod hunk;
mod join;
mod lab;
mod lock;
mod merge;
mod message;
mod open;
mod refs;
mod repository;
mod run_worktrees;
mod session;
mod snapshot;
mod standing;
mod tree;
mod watch;
mod workspace;

pub use cleanup::{OwnBranch, Sweep, Swept, branches, sweep};
pub use error::GitWorkspaceError;
pub use git::{Git, GitCommand, GitError, GitOutput, SystemGit};
pub use hunk::Hunk;
pub use merge::{Blobs, Conflict, Favour, Open, Plan, Side, plan, resolve};
pub use message::Message;
pub use repository::{Repository, Sha};
pub use tree::{Ensured, Finish, Kept, Tree, TreeState};
pub use workspace::{BRANCH_PREFIX, GitWorkspace, GitWorkspaceBuilder};
