//! The git repositories in which a run works.
//!
//! A run has its own branches and worktrees. The user's worktree, index, HEAD and branches are only read. All
//! operations use the program `git`, version 2.38 or newer. Each operation may be killed at any moment: the next one
//! continues from the state that it finds, and every commit stays reachable.
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
//! - **Head**: the commit that is checked out in a worktree, and its open merge if it has one.
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
//! - `run_worktrees`: the worktrees of all execution paths of a run.
//! - `snapshot`: the stored state of a run's files.
//! - `attempt`: the ids of an attempt in its commits.
//! - `join`: the merge of the branches that join at a stage.
//! - `ask`: asking a person to finish a merge.
//! - `blocking`: running blocking git operations, and converting their errors for the engine.
//! - `repository`: [`Repository`], a repository of the user.
//! - `commits`: the commits of a repository.
//! - `branches`: the branches of a repository.
//! - `queries`: queries and checks of repositories and worktrees.
//! - `refs`: changes of the refs of runs.
//! - `ref_names`: the names of the refs of runs.
//! - `lock`: the lock that serializes the operations in a repository.
//! - `commit_cache`: a cache of facts about commits.
//! - `tree`: [`Tree`], a worktree of a run.
//! - `location`: the folder of a worktree and its entry in the common git folder.
//! - `entry`: the creation, the repair and the removal of a worktree.
//! - `files`: the content of a worktree.
//! - `watch`: the detection of changes without reading files.
//! - `merge`: the planning of merges.
//! - `object_merge`: merges of git objects.
//! - `hunk`: conflict markers in files.
//! - `open`: the commit message of an open merge.
//! - `message`: commit messages.
//! - `cleanup`: listing and removal of branches, worktrees and refs.
//! - `git`: the program `git`, behind the trait [`Git`].
//! - `git_path`: paths as git prints them.
//! - `sha`: [`Sha`], the name of a git object.
//! - `configuration`: the git configuration that applies in a run.
//! - `error`: [`GitWorkspaceError`], the errors of this crate.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod ask;
mod attempt;
mod blocking;
mod branches;
mod changes;
mod cleanup;
mod commit_cache;
mod commits;
mod configuration;
mod entry;
mod error;
mod files;
mod git;
mod git_path;
mod hunk;
mod join;
mod location;
mod lock;
mod merge;
mod message;
mod object_merge;
mod open;
mod queries;
mod ref_names;
mod refs;
mod repository;
mod run_worktrees;
mod session;
mod sha;
mod snapshot;
mod tree;
mod watch;
mod workspace;

pub use changes::{ChangedFile, RepositoryChanges, changes};
pub use cleanup::{OwnBranch, Sweep, SweepMode, Swept, UnmergedCommits, branches, sweep};
pub use error::GitWorkspaceError;
pub use git::{Git, GitCommand, GitError, GitOutput, SystemGit};
pub use hunk::Hunk;
pub use merge::{Blobs, Conflict, Favour, Open, Plan, Side, plan, resolve};
pub use message::Message;
pub use orchestra_graph::DEFAULT_BRANCH_PREFIX;
pub use repository::Repository;
pub use sha::Sha;
pub use snapshot::{StoredRepository, StoredWorkspace};
pub use tree::{Ensured, Finish, SetAside, Tree, TreeState};
pub use workspace::{GitWorkspace, GitWorkspaceBuilder};
