//! The git repositories that a run works in.
//!
//! A run has branches and work trees of its own. The user's work tree, index, HEAD and branches are only read. All of it
//! is done by the program `git`, 2.38 or newer, and each operation may be killed at any moment: the next one goes on from
//! what it finds, and no commit is left without a name.
//!
//! Refs that are ours, beside `refs/heads/BRANCH`:
//!
//! | Ref | Names |
//! |---|---|
//! | `refs/orchestra/base/BRANCH` | the commit that the branch began from; its presence says that a run made the branch |
//! | `refs/orchestra/kept/BRANCH/DIGITS` | work that was set aside |
//! | `refs/orchestra/open/BRANCH` | a merge that waits for its conflicts to be resolved |
//!
//! Everything here blocks; an asynchronous caller runs it on a thread for that.

mod ask;
mod cleanup;
mod configuration;
mod entry;
mod fault;
mod files;
mod git;
mod hunk;
mod join;
mod lab;
mod lines;
mod lock;
mod merge;
mod message;
mod open;
mod refs;
mod repository;
mod session;
mod snapshot;
mod standing;
mod tree;
mod watch;
mod workspace;

pub use cleanup::{OwnBranch, Sweep, Swept, branches, sweep};
pub use fault::WorkspaceFault;
pub use git::{Git, GitCommand, GitError, GitOutput, SystemGit};
pub use hunk::Hunk;
pub use merge::{Blobs, Conflict, Favour, Open, Plan, Side, plan, resolve};
pub use message::Message;
pub use repository::{Repository, Sha};
pub use tree::{Ensured, Finish, Kept, Tree, TreeState};
pub use workspace::{BRANCH_PREFIX, GitWorkspace, GitWorkspaceBuilder};
