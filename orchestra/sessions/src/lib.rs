//! The index of runs: their status, stages, transitions, times and usage.
//!
//! A [`SessionIndex`] answers queries about all runs in a folder, including runs of other processes and of processes
//! that crashed. The run folders are the source of truth; the index is derived from them and can be rebuilt at any
//! time.
//!
//! # Glossary
//!
//! - **Session** ([`Session`]): the summary of one run in the index.
//! - **Runs folder**: the folder that contains the run folders and the index.
//! - **Run folder**: the folder of one run with its `manifest.json` and `events.jsonl`.
//! - **Run elsewhere**: a run whose run folder is outside of the runs folder. The index stores its path.
//! - **Stage row** ([`StageRow`]): one attempt of a stage.
//! - **Transition row** ([`TransitionRow`]): the choice of the next node, with the conditions that were tested.
//! - **Fold**: the computation of a session and its rows from the manifest and the events. The part of a session that
//!   follows from the events alone is the engine's [`RunSummary`](orchestra_engine::RunSummary).
//! - **Step** ([`RunStep`]): a stage attempt with the decision that follows it, in the comparison of two runs.
//! - **Divergence** ([`Divergence`]): the first difference of two runs.
//! - **Cursor**: the position in `events.jsonl` up to which the index has applied the events.
//! - **Catch up**: to apply the events after the cursor.
//! - **Database lock**: the lock file that keeps a process from replacing the database while others use it.
//!
//! # Modules, in reading order
//!
//! - `index`: [`SessionIndex`], the handle of the thread that maintains the index.
//! - `question_row`, `rows`: the rows that the index returns.
//! - `run_filter`: the filter of the list of runs, and positions in the list.
//! - `fold`: the computation of the rows from manifest and events.
//! - `folders`: the run folders, from which the index is derived.
//! - `store`: catching up with the run folders, and reading from the updated database.
//! - `schema`: the schema of the database.
//! - `tables`: writing a run to the tables, and reading it.
//! - `query`: the queries on the tables.
//! - `run_update`: what changed in a run since a position in its events.
//! - `totals`: the totals of all runs of some pipeline files.
//! - `metrics`: numbers for monitoring, over all runs.
//! - `present`: the present status of runs, which depends on their owners.
//! - `run_step`: the steps of a run, in an order that does not depend on the timing of branches.
//! - `comparison`: the comparison of two runs, as it is returned.
//! - `align`: comparing two runs.
//! - `database`: opening, checking and rebuilding the database file, and transactions.
//! - `lock`: the lock file of the database.
//! - `private`: files that only their owner can read.
//! - `error`: [`SessionError`].

#![cfg_attr(docsrs, feature(doc_cfg))]

mod align;
mod comparison;
mod database;
mod error;
mod fold;
mod folders;
mod index;
mod lock;
mod metrics;
mod present;
mod private;
mod query;
mod question_row;
mod rows;
mod run_filter;
mod run_step;
mod run_update;
mod schema;
mod search;
mod store;
mod tables;
mod totals;

pub use comparison::{
    AlignedRow, ComparedRun, Divergence, DivergenceKind, RunComparison, StepTotals, ValueDifference,
};
pub use error::SessionError;
pub use index::SessionIndex;
pub use metrics::{DurationHistogram, IndexMetrics, StageSeries};
pub use question_row::{QuestionRow, WarningRow};
pub use rows::{
    EdgeCount, NodeTotals, Page, Session, SessionStatus, StageRow, StageState, ToolCallRow, TransitionRow,
};
pub use run_filter::{InvalidCursor, RunCursor, RunFilter};
pub use run_step::{RunStep, StepDecision};
pub use run_update::RunUpdate;
pub use totals::{NodeSum, RunTotals};
