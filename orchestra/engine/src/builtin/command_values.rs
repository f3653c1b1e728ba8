//! The values of a run that a tool stage gives to its command (rule T6).

use orchestra_graph::table::Constant;
use orchestra_graph::{AttributeFamily, Known, StageOutput, ValueSource, given_variables};
use serde_json::Value;

use super::output::quoted;
use crate::process::ShellCommand;
use crate::run::stage::StageContext;
use crate::store::StageFile;

/// Maximum size in bytes of a variable with its name, `=` and the byte at its end. Linux has this limit.
const MAX_VARIABLE: usize = 128 * 1024;
/// Maximum size in bytes of a text of another stage. The stored files are smaller.
const MAX_TEXT: usize = 256 * 1024 * 1024;

/// The values that a command receives in variables and on its standard input.
pub(super) struct CommandValues {
    variables: Vec<(String, String)>,
    input: Option<String>,
}

impl CommandValues {
    /// Reads the values that the graph and the node name. Logs those that are missing.
    ///
    /// # Errors
    /// Returns a message that names the first value that no variable can hold.
    pub(super) async fn from_stage(stage: &StageContext) -> Result<CommandValues, String> {
        let pipeline = stage.pipeline();
        let graph = pipeline.attributes(pipeline.graph_attributes);
        let named = given_variables(graph.chain(stage.node().attributes()));
        let mut missing = Vec::new();
        let mut variables = Vec::new();
        for (name, source) in named {
            let attribute = format!("{}{name}", AttributeFamily::TOOL_ENV_FROM.prefix);
            let source = source.text().unwrap_or_default();
            let value = read(stage, &attribute, source, &mut missing).await?;
            fits(name, source, &value)?;
            variables.push((name.to_owned(), value));
        }
        let stdin = Known::ToolStdin.name();
        let input = match stage.attribute(stdin).and_then(Constant::text) {
            Some(source) => Some(read(stage, stdin, source, &mut missing).await?),
            None => None,
        };
        if !missing.is_empty() {
            stage.log(format!("missing values for the command: {}", quoted(&missing)));
        }
        Ok(CommandValues { variables, input })
    }

    /// Sets these variables and this input for a command.
    pub(super) fn give(self, command: ShellCommand) -> ShellCommand {
        let command = self
            .variables
            .into_iter()
            .fold(command, |command, (name, value)| command.variable(name, value));
        match self.input {
            Some(input) => command.input(input),
            None => command,
        }
    }
}

/// Reads a value as text. A missing one is the empty text.
async fn read<'s>(
    stage: &StageContext,
    attribute: &str,
    source: &'s str,
    missing: &mut Vec<&'s str>,
) -> Result<String, String> {
    let found = match ValueSource::parse(source) {
        Some(ValueSource::Context(key)) => {
            let context = stage.context();
            // A key that begins with `context.` was set under this name.
            let value = context.get(key).or_else(|| context.get(source.trim()));
            value.and_then(text)
        }
        Some(ValueSource::Stage { node, output }) => stage_text(stage, node, output).await,
        None => {
            let source = source.escape_debug();
            return Err(format!(
                "`{attribute}` is neither a key of the context nor a text of a stage: `{source}`"
            ));
        }
    };
    Ok(found.unwrap_or_else(|| {
        missing.push(source);
        String::new()
    }))
}

/// Returns a value as plain text; a list or an object as JSON. Returns `None` for null, which stands for a missing value.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Returns the text of the latest visit of another stage.
async fn stage_text(stage: &StageContext, node: &str, output: StageOutput) -> Option<String> {
    let latest = stage.latest_stages(Some(vec![node.to_owned()])).await;
    let record = latest.into_iter().next()?.record?;
    let files = match output {
        StageOutput::Response => [StageFile::Response, StageFile::ToolOutput],
        StageOutput::Output => [StageFile::ToolOutput, StageFile::Response],
    };
    let text = files
        .into_iter()
        .find_map(|file| stage.stage_text(&record, file, MAX_TEXT));
    text.map(|text| text.to_string())
}

/// Checks that a variable can hold a value.
fn fits(name: &str, source: &str, value: &str) -> Result<(), String> {
    let problem = if value.contains('\0') {
        "contains a NUL byte, which no variable can hold".to_owned()
    } else if name.len() + value.len() + 2 > MAX_VARIABLE {
        format!(
            "has {} bytes, but a variable can hold at most {MAX_VARIABLE} bytes with its name",
            value.len()
        )
    } else {
        return Ok(());
    };
    Err(format!(
        "the value of `{source}` for the variable `{name}` {problem}; use `tool_stdin=\"{source}\"` instead"
    ))
}
