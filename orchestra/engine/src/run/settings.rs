//! The settings that the runs of an engine share.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::Clock;
use crate::gates::interview::SharedInterviewer;
use crate::id::RunId;
use crate::process::{ProcessRunner, same_name};
use crate::redact::Redactor;
use crate::run::sink::Callback;
use crate::run::stage_text::OnText;
use crate::script::Script;
use crate::store::{Durability, FileSystem};

/// Returns environment variables for the commands of an attempt, which a run and the key of the attempt name.
pub(crate) type CommandVariables = Arc<dyn Fn(&RunId, &str) -> Vec<(String, String)> + Send + Sync>;

/// The settings that the runs of an engine share. They are as many as the engine offers to its users.
#[derive(Clone)]
pub(crate) struct RunSettings {
    pub(crate) callbacks: Arc<[Callback]>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The interviewer; `None` if there is none.
    pub(crate) interviewer: Option<SharedInterviewer>,
    /// The script of a simulated run; `None` if stages are executed.
    pub(crate) script: Option<Arc<Script>>,
    /// The variables that the commands of all tool stages see even if they would be withheld.
    pub(crate) inherit_env: Vec<String>,
    /// The variables that no command of a tool stage sees.
    pub(crate) withheld_env: Vec<String>,
    /// Maximum size in bytes of an artifact without a file of its own.
    pub(crate) artifact_threshold: u64,
    /// The folder of runs; `None` if runs are not persisted.
    pub(crate) runs_dir: Option<PathBuf>,
    pub(crate) files: Arc<dyn FileSystem>,
    /// Runs the commands of tool stages.
    pub(crate) processes: Arc<dyn ProcessRunner>,
    pub(crate) durability: Durability,
    /// The redactor of secrets; `None` if there are no secrets.
    pub(crate) redactor: Option<Redactor>,
    /// The callbacks that receive the output of models while it is generated.
    pub(crate) on_text: Arc<[OnText]>,
    /// The functions that return further variables for the commands of an attempt.
    pub(crate) variables: Arc<[CommandVariables]>,
    /// `true` if the events of model calls contain their messages.
    pub(crate) model_contents: bool,
}

impl RunSettings {
    /// Returns the same settings without callbacks.
    pub(crate) fn without_callbacks(&self) -> RunSettings {
        RunSettings {
            callbacks: Arc::default(),
            on_text: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns the folder of runs. Returns `None` if runs are not persisted.
    pub(crate) fn runs_dir(&self) -> Option<&Path> {
        self.runs_dir.as_deref()
    }

    /// Returns whether no stage of a run is executed.
    pub(crate) fn executes_nothing(&self) -> bool {
        self.script
            .as_ref()
            .is_some_and(|script| script.executes_nothing())
    }

    /// Returns whether all stages of a run are executed, possibly except those that ask a model.
    pub(crate) fn executes_stages(&self) -> bool {
        self.script
            .as_ref()
            .is_none_or(|script| script.simulates_models_only())
    }

    /// Returns whether a variable is withheld from the commands of all tool stages.
    pub(crate) fn is_withheld(&self, name: &OsStr) -> bool {
        self.withheld_env
            .iter()
            .any(|withheld| same_name(OsStr::new(withheld), name))
    }
}
