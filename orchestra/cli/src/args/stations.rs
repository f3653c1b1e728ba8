//! The options of `stations`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::project::workflows::DATABASE;

#[derive(Debug, Args)]
pub(crate) struct StationsArgs {
    /// The database
    #[arg(long, value_name = "FILE", default_value = DATABASE, global = true)]
    pub(crate) database: PathBuf,
    #[command(subcommand)]
    pub(crate) command: StationsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StationsCommand {
    /// List the workflows with their active and their latest versions
    List {
        /// Include archived workflows
        #[arg(long)]
        all: bool,
    },
    /// Store a pipeline as a new workflow, or as a new version of the workflow with its name
    Import {
        /// The pipeline
        #[arg(value_name = "FILE", required_unless_present = "sqlite")]
        file: Option<PathBuf>,
        /// Import all workflows of a database of the earlier form, without versions
        #[arg(long, value_name = "DATABASE", conflicts_with_all = ["file", "name", "note", "activate"])]
        sqlite: Option<PathBuf>,
        /// The name of the workflow [default: the name of the file without its extension]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// A note on what the version changes
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
        /// Activate the version
        #[arg(long)]
        activate: bool,
    },
    /// Print a version as DOT
    Export {
        /// The workflow, with a version behind `@` [default: the active version, else the latest]
        #[arg(value_name = "NAME[@VERSION]")]
        workflow: String,
    },
    /// Show what changes from one version to another for a run
    Diff {
        /// The first version
        #[arg(value_name = "NAME[@VERSION]")]
        old: String,
        /// The second version
        #[arg(value_name = "NAME[@VERSION]")]
        new: String,
    },
    /// Activate a version; runs in progress keep theirs
    Activate {
        /// The workflow, with a version behind `@` [default: the latest version]
        #[arg(value_name = "NAME[@VERSION]")]
        workflow: String,
    },
}
