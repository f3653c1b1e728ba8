//! Tools that run a configured shell command.

use std::path::PathBuf;
use std::time::Duration;

use orchestra_engine::process::ShellCommand;
use serde_json::{Map, Value, json};

use super::arguments::check;
use super::shell::{finished, in_context};
use crate::tool::{Tool, ToolContext, ToolError, ToolFuture, ToolSpec};

/// Prefix of the environment variables that contain arguments.
const PREFIX: &str = "ORCHESTRA_ARG_";
/// Default time limit of a command.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum length of an argument in an environment variable, in bytes. It is below the limit of Linux, which includes
/// the name.
const MAX_VALUE_BYTES: usize = 120 * 1024;

/// A tool that runs a shell command, as configurations define it.
///
/// No argument is inserted into the command. Each argument is passed in an environment variable whose name is
/// `ORCHESTRA_ARG_` and the argument's name in upper case, with `_` for every character except ASCII letters and
/// digits. A text is passed as it is, any other value as JSON. The variable is not set if the model left the argument
/// out, or if the value is longer than 120 KiB. Standard input contains all arguments as one JSON object, regardless of
/// their length. The command runs in the working folder.
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

/// The error of an invalid command tool.
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
    /// A description of the problem and its fix.
    pub message: String,
}

impl CommandTool {
    /// Creates a tool without parameters, with a time limit of five minutes, that may change files.
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
            timeout: DEFAULT_TIMEOUT,
            read_only: false,
        }
    }

    /// Sets the parameters: a JSON schema of an object. Additional arguments are rejected unless the schema allows
    /// them.
    ///
    /// # Errors
    /// Returns an error if the schema is not that of an object, or if two of its properties map to the same variable.
    pub fn parameters(mut self, schema: Value) -> Result<CommandTool, CommandToolError> {
        let tool = self.spec.name.clone();
        let error = |message: String| Err(CommandToolError { message });
        let Value::Object(mut schema) = schema else {
            return error(format!(
                "the parameters of the tool `{tool}` are not a JSON schema of an object"
            ));
        };
        schema.entry("type").or_insert("object".into());
        schema.entry("properties").or_insert_with(|| Map::new().into());
        schema.entry("additionalProperties").or_insert(false.into());
        let properties = schema.get("properties").and_then(Value::as_object);
        let (Some(properties), true) = (properties, schema.get("type") == Some(&"object".into())) else {
            return error(format!(
                "the parameters of the tool `{tool}` are not a JSON schema of an object"
            ));
        };
        let mut seen: Vec<(String, &String)> = Vec::new();
        for name in properties.keys() {
            let variable = variable(name);
            if let Some((_, before)) = seen.iter().find(|(known, _)| *known == variable) {
                return error(format!(
                    "the parameters `{before}` and `{name}` of the tool `{tool}` are both `{variable}`; rename one"
                ));
            }
            seen.push((variable, name));
        }
        self.spec.parameters = Value::Object(schema);
        Ok(self)
    }

    /// Sets the repository to which the tool belongs. Its command runs in the folder of that repository in the
    /// workspace of the run, or in the [directory](CommandTool::directory) if the run has no workspace.
    pub fn repository(mut self, name: impl Into<String>) -> CommandTool {
        self.repository = Some(name.into());
        self
    }

    /// Sets the folder in which the command runs, instead of the working folder of the call.
    pub fn directory(mut self, folder: impl Into<PathBuf>) -> CommandTool {
        self.directory = Some(folder.into());
        self
    }

    /// Sets the time limit of the command: five minutes by default.
    pub fn timeout(mut self, limit: Duration) -> CommandTool {
        self.timeout = limit;
        self
    }

    /// Sets whether the command changes nothing, so that several calls may run concurrently.
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
                if text.len() <= MAX_VALUE_BYTES {
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

/// Returns the environment variable of an argument.
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
