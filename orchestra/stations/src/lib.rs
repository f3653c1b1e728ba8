//! Station workflows in a database: named workflows, their versions, and the rows that describe a version.
//!
//! A [`StationStore`] is an SQLite database of workflows. Each change of a workflow is a new version, which never changes
//! afterwards; one version of a workflow is active. The text of a version is a pipeline in DOT, and decides; its rows, one
//! for each station and each transition, are derived from it, so that an editor can show and query them. An editor can
//! also write a version as rows, which are printed as DOT.
//!
//! The crate only stores and checks workflows. The engine runs a version like any other pipeline that was loaded from a
//! file, and the run stores the text, so that no later version affects it.
//!
//! # Glossary
//!
//! - **Workflow** ([`Workflow`]): a named sequence of versions.
//! - **Version** ([`WorkflowVersion`]): the text of a workflow and its rows, at one time.
//! - **Station** ([`StationRow`]): a node of the pipeline.
//! - **Transition** ([`TransitionRow`]): an edge of the pipeline.
//! - **Entity tag**: a random text that changes with each change of a workflow. A writer names the one that it has read,
//!   so that no change of somebody else is lost.
//! - **Origin** ([`VersionOrigin`]): who wrote a version: a local program, or somebody over HTTP.
//!
//! # Modules, in reading order
//!
//! - `error`: [`StationError`].
//! - `name`: [`VersionName`].
//! - `rows`: the rows that the store accepts and returns.
//! - `derive`: the rows of a pipeline.
//! - `print`: the pipeline of rows, as DOT.
//! - `schema`: the schema of the database.
//! - `database`: opening, checking and migrating the database file.
//! - `tables`: writing versions to the tables, and reading them.
//! - `store`: [`StationStore`].
//! - `import`: the import of a database of the earlier form.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod database;
mod derive;
mod error;
mod import;
mod name;
mod print;
mod rows;
mod schema;
mod store;
mod tables;

pub use error::StationError;
pub use import::ImportedWorkflow;
pub use name::VersionName;
pub use rows::{
    AttributeValues, StationRow, TransitionRow, VersionOrigin, VersionSummary, VersionText, Workflow,
    WorkflowRows, WorkflowVersion,
};
pub use store::{StationStore, StoredVersion};
