//! The errors of scripts.

use std::path::PathBuf;

/// The role of a node whose outcome follows from its branches.
pub(crate) const PARALLEL_BLOCK: &str = "a parallel block";

/// An error in a script: it cannot be read, or does not fit its pipeline.
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
        /// The reason.
        reason: String,
    },
    /// The text is invalid YAML, or an invalid script.
    #[error("the script{} is invalid: {message}", named(.file))]
    Syntax {
        /// The file, if the script was read from one.
        file: Option<PathBuf>,
        /// The error message with its position.
        message: String,
    },
    /// The pipeline has no such node.
    #[error("the pipeline has no node `{node}`")]
    UnknownNode {
        /// The node.
        node: String,
        /// A suggestion, or the nodes of the pipeline.
        help: String,
    },
    /// The node has no such outcome.
    #[error("`{node}` does not give the outcome `{word}`")]
    UnknownOutcome {
        /// The node.
        node: String,
        /// The outcome.
        word: String,
        /// A suggestion, or the outcomes of the node.
        help: String,
    },
    /// The engine determines the outcome of the node: it is a start, an exit, a routing node or a parallel block.
    #[error("`{node}` has no outcome of its own, because it is {role}")]
    NoOutcome {
        /// The node.
        node: String,
        /// The role of the node.
        role: &'static str,
    },
    /// The node is not a human gate.
    #[error("`{node}` is not a human gate, so it asks nothing")]
    NoGate {
        /// The node.
        node: String,
        /// A suggestion, or the gates of the pipeline.
        help: String,
    },
    /// The gate has no such choice.
    #[error("the gate `{gate}` has no choice `{choice}`")]
    UnknownChoice {
        /// The gate.
        gate: String,
        /// The answer.
        choice: String,
        /// A suggestion, or the choices of the gate.
        help: String,
    },
    /// The answer of a gate sets context values, which a person cannot do.
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
    /// Returns the machine-readable error code.
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

    /// Returns a hint that helps to fix the error.
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
