//! The command that starts a program of a backend.

use crate::decode::{Decode, Diagnostics};
use crate::tree::{Node, Tree};

/// The command of a program: a text that the shell reads, or a list of arguments that no shell reads.
///
/// ```
/// use orchestra_config::{Configuration, ProgramCommand};
/// let text = b"backends: {own: {kind: cli, command: my-agent --print}, editor: {kind: acp, command: [my-agent, --acp]}}";
/// let (configuration, report) = Configuration::parse("orchestra.yaml", text);
/// assert!(!report.has_errors());
/// let command = |name| configuration.backends[name].command.as_ref().map(|command| command.value.clone());
/// assert_eq!(command("own"), Some(ProgramCommand::Shell("my-agent --print".to_owned())));
/// assert_eq!(command("editor"), Some(ProgramCommand::Arguments(vec!["my-agent".to_owned(), "--acp".to_owned()])));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramCommand {
    /// A text for the shell.
    Shell(String),
    /// The program and its arguments.
    Arguments(Vec<String>),
}

impl ProgramCommand {
    /// Returns the text for the shell.
    pub fn shell(&self) -> Option<&str> {
        match self {
            ProgramCommand::Shell(text) => Some(text),
            ProgramCommand::Arguments(_) => None,
        }
    }

    /// Returns the program and its arguments.
    pub fn arguments(&self) -> Option<&[String]> {
        match self {
            ProgramCommand::Shell(_) => None,
            ProgramCommand::Arguments(arguments) => Some(arguments),
        }
    }

    /// Returns whether the command names no program.
    pub(crate) fn is_blank(&self) -> bool {
        let program = match self {
            ProgramCommand::Shell(text) => Some(text),
            ProgramCommand::Arguments(arguments) => arguments.first(),
        };
        program.is_none_or(|program| program.trim().is_empty())
    }
}

/// Writes the command as it is shown to people.
impl std::fmt::Display for ProgramCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProgramCommand::Shell(text) => f.write_str(text),
            ProgramCommand::Arguments(arguments) => f.write_str(&arguments.join(" ")),
        }
    }
}

impl Decode for ProgramCommand {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<ProgramCommand> {
        match &tree.node {
            Node::List(items) => {
                let arguments = items.iter().map(|item| String::decode(item, diagnostics));
                Some(ProgramCommand::Arguments(arguments.collect::<Option<_>>()?))
            }
            _ => Some(ProgramCommand::Shell(String::decode(tree, diagnostics)?)),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ProgramCommand {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ProgramCommand".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let text = generator.subschema_for::<String>();
        schemars::json_schema!({
            "description": "The command of a program: a text that the shell reads, or a list of arguments that no shell reads.",
            "anyOf": [text, {"type": "array", "items": text, "minItems": 1}],
        })
    }
}
