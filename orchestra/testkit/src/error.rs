//! What can be wrong with a script.

use std::path::PathBuf;

/// What a node is whose branches say how it ends.
pub(crate) const PARALLEL_BLOCK: &str = "a parallel block";

/// A script that cannot be read, or that does not fit its pipeline.
///
/// ```
/// use orchestra_engine::Script;
/// use orchestra_testkit::check_script;
/// # use orchestra_graph::{Source, load};
/// let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let error = check_script(&pipeline, &Script::new().outcomes("biuld", ["fail"])).unwrap_err();
/// assert_eq!(error.code(), "unknown_node");
/// assert_eq!(error.to_string(), "the pipeline has no node `biuld`");
/// assert_eq!(error.help().as_deref(), Some("did you mean `build`?"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script `{}`: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The text is no YAML, or no script.
    #[error("the script{} is invalid: {message}", named(.file))]
    Syntax {
        /// The file, where it comes from one.
        file: Option<PathBuf>,
        /// What is wrong, and where.
        message: String,
    },
    /// The pipeline does not have the node.
    #[error("the pipeline has no node `{node}`")]
    UnknownNode {
        /// The node.
        node: String,
        /// The nodes that were meant, or might have been.
        help: String,
    },
    /// The node does not give the outcome.
    #[error("`{node}` does not give the outcome `{word}`")]
    UnknownOutcome {
        /// The node.
        node: String,
        /// The outcome word.
        word: String,
        /// The word that was meant, or those that it gives.
        help: String,
    },
    /// The core itself decides how the node ends: a start, an exit, a routing node or a parallel block.
    #[error("`{node}` has no outcome of its own, because it is {role}")]
    NoOutcome {
        /// The node.
        node: String,
        /// What it is.
        role: &'static str,
    },
    /// The node is no human gate.
    #[error("`{node}` is no human gate, so it asks nothing")]
    NoGate {
        /// The node.
        node: String,
        /// The gate that was meant, or those that there are.
        help: String,
    },
    /// The gate does not have the choice.
    #[error("the gate `{gate}` has no choice `{choice}`")]
    UnknownChoice {
        /// The gate.
        gate: String,
        /// What was answered.
        choice: String,
        /// The choice that was meant, or those that it has.
        help: String,
    },
    /// The answer of a gate is to set values, which no person can.
    #[error("`{gate}` is a human gate, whose answer sets no context")]
    AnswerSetsContext {
        /// The gate.
        gate: String,
    },
}

fn named(file: &Option<PathBuf>) -> String {
    match file {
        Some(file) => format!(" `{}`", file.display()),
        None => String::new(),
    }
}

impl ScriptError {
    /// The error as one word, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            ScriptError::Unreadable { .. } => "unreadable_script",
            ScriptError::Syntax { .. } => "script",
            ScriptError::UnknownNode { .. } => "unknown_node",
            ScriptError::UnknownOutcome { .. } => "unknown_outcome",
            ScriptError::NoOutcome { .. } => "no_outcome",
            ScriptError::NoGate { .. } => "no_gate",
            ScriptError::UnknownChoice { .. } => "unknown_choice",
            ScriptError::AnswerSetsContext { .. } => "script_answer",
        }
    }

    /// How to mend it.
    pub fn help(&self) -> Option<String> {
        match self {
            ScriptError::Unreadable { .. } => None,
            ScriptError::Syntax { .. } => {
                Some("a script maps a node to its outcomes, such as `review: [fail, success]`".to_owned())
            }
            ScriptError::UnknownNode { help, .. }
            | ScriptError::UnknownOutcome { help, .. }
            | ScriptError::NoGate { help, .. }
            | ScriptError::UnknownChoice { help, .. } => Some(help.clone()),
            ScriptError::NoOutcome { role, .. } if *role == PARALLEL_BLOCK => {
                Some("say how the stages of its branches end; its own end follows from that".to_owned())
            }
            ScriptError::NoOutcome { .. } => {
                Some("say how the stage before it ends; its edges follow from that".to_owned())
            }
            ScriptError::AnswerSetsContext { .. } => {
                Some("leave `context` out, or set it by another node".to_owned())
            }
        }
    }
}
