//! Runs that another process began: how they are resumed, replayed and changed.

mod copy;
mod files;
mod folder_state;
mod fork;
pub(crate) mod lineage;
pub(crate) mod offline;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod state_at;
mod task;
pub(crate) mod what_if;
