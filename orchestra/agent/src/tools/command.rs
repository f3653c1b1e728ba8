//! Tools that are shell commands of a configuration.

use std::path::PathBuf;
use std::time::Duration;

use orchestra_engine::process::ShellCommand;
use serde_json::{Map, Value, json};

use super::arguments::check;
use super::shell::{finished, in_context};
use crate::tool::{Tool, ToolContext, ToolError, ToolFuture, ToolSpec};

/// What stands before the name of an argument in the environment.
const PREFIX: &str = "ORCHESTRA_ARG_";
/// How long a command may take unless its configuration says otherwise.
const USUAL: Duration = Duration::from_secs(300);
/// What Linux takes for a variable, with room for its name.
const LONGEST_VALUE: usize = 120 * 1024;

/// A tool that is a shell command, as configurations have them.
///
/// What the model says never becomes a part of the command. Each argument is a variable of its environment,
/// `ORCHESTRA_ARG_` and the argument's name in capitals, with `_` for every sign but letters and digits: a text as it
/// is, anything else as JSON. An argument that the model left out is not set; neither is one that is longer than
/// 120 KiB. All arguments stand in one JSON object on the standard input, whatever their length. The command runs in
/// the working folder.
///
/// ```
/// use orchestra_agent::{CommandTool, Tool, ToolContext};
/// use serde_json::{Value, json};
///
/// # #[cfg(unix)]
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let greet = CommandTool::new("greet", "Greets somebody.", r#"echo "Hello, $ORCHESTRA_ARG_WHO!""#)
///     .parameters(json!({
///         "type": "object",
///         "properties": {"who": {"type": "string"}},
///         "required": ["who"],
///     }))?
///     .read_only(true);
/// let Value::Object(arguments) = json!({"who": "$(rm -rf /)"}) else { unreachable!() };
/// let output = greet.call(arguments, ToolContext::new(".")).await?;
/// assert!(output.text.ends_with("Hello, $(rm -rf /)!"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct CommandTool {
    spec: ToolSpec,
    repository: Option<String>,
    directory: Option<PathBuf>,
    command: String,
    timeout: Duration,
    read_only: bool,
}

/// A command tool that cannot be: what its configuration says does not fit together.
///
/// ```
/// use orchestra_agent::CommandTool;
/// use serde_json::json;
/// let schema = json!({"type": "object", "properties": {"dry-run": {}, "dry_run": {}}});
/// let error = CommandTool::new("deploy", "Deploys.", "./deploy.sh").parameters(schema).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the parameters `dry-run` and `dry_run` of the tool `deploy` are both `ORCHESTRA_ARG_DRY_RUN`; rename one"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct CommandToolError {
    /// What does not fit, and how to mend it.
    pub message: String,
}

impl CommandTool {
    /// A tool without parameters, ended after five minutes, that may change files.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        command: impl Into<String>,
    ) -> CommandTool {
        CommandTool {
            spec: ToolSpec {
                name: name.into(),
                description: description.into(),
                parameters: json!({"type": "object", "properties": {}, "additionalProperties": false}),
            },
            repository: None,
            directory: None,
            command: command.into(),
            timeout: USUAL,
            read_only: false,
        }
    }

    /// Sets the parameters: a JSON schema of an object. Unless it says otherwise, no other argument is taken.
    ///
    /// # Errors
    /// The schema is not one of an object, or two of its properties are the same variable.
    pub fn parameters(mut self, schema: Value) -> Result<CommandTool, CommandToolError> {
        let tool = self.spec.name.clone();
        let fault = |message: String| Err(CommandToolError { message });
        let Value::Object(mut schema) = schema else {
            return fault(format!(
                "the parameters of the tool `{tool}` are no JSON schema of an object"
            ));
        };
        schema.entry("type").or_insert("object".into());
        schema.entry("properties").or_insert_with(|| Map::new().into());
        schema.entry("additionalProperties").or_insert(false.into());
        let properties = schema.get("properties").and_then(Value::as_object);
        let (Some(properties), true) = (properties, schema.get("type") == Some(&"object".into())) else {
            return fault(format!(
                "the parameters of the tool `{tool}` are no JSON schema of an object"
            ));
        };
        let mut seen: Vec<(String, &String)> = Vec::new();
        for name in properties.keys() {
            let variable = variable(name);
            if let Some((_, before)) = seen.iter().find(|(known, _)| *known == variable) {
                return fault(format!(
                    "the parameters `{before}` and `{name}` of the tool `{tool}` are both `{variable}`; rename one"
                ));
            }
            seen.push((variable, name));
        }
        self.spec.parameters = Value::Object(schema);
        Ok(self)
    }

    /// Sets the repository to which the tool belongs. Its command runs in the folder that the workspace of the run has of
    /// it; in a run without one, in the [directory](CommandTool::directory).
    pub fn repository(mut self, name: impl Into<String>) -> CommandTool {
        self.repository = Some(name.into());
        self
    }

    /// Sets the folder in which the command runs, if not the working folder of the call.
    pub fn directory(mut self, folder: impl Into<PathBuf>) -> CommandTool {
        self.directory = Some(folder.into());
        self
    }

    /// Sets the time after which the command is ended: five minutes unless set.
    pub fn timeout(mut self, limit: Duration) -> CommandTool {
        self.timeout = limit;
        self
    }

    /// Says whether the command changes nothing, so that several calls may run side by side.
    pub fn read_only(mut self, yes: bool) -> CommandTool {
        self.read_only = yes;
        self
    }
}

impl Tool for CommandTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn repository(&self) -> Option<&str> {
        self.repository.as_deref()
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn call<'a>(&'a self, arguments: Map<String, Value>, context: ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            check(&self.spec.parameters, &arguments)?;
            let context = match (&self.repository, &self.directory) {
                (Some(name), folder) => context.in_repository(name, folder.as_deref())?,
                (None, Some(folder)) => context.at(folder),
                (None, None) => context,
            };
            let mut command = in_context(ShellCommand::new(&self.command), &context).timeout(self.timeout);
            for (name, value) in &arguments {
                let text = match value {
                    Value::Null => continue,
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                if text.contains('\0') {
                    return Err(ToolError::new(format!("`{name}` holds a NUL character")));
                }
                if text.len() <= LONGEST_VALUE {
                    command = command.variable(variable(name), text);
                }
            }
            let all = Value::Object(arguments).to_string();
            finished(command.input(all), self.timeout, context.most_output())
                .await
                .map(Into::into)
        })
    }
}

/// The variable of an argument.
fn variable(name: &str) -> String {
    let name = name.chars().map(|c| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    });
    name.fold(PREFIX.to_owned(), |mut variable, c| {
        variable.push(c);
        variable
    })
}
