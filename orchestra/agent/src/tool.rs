//! Tools: what a model may do besides talking.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use orchestra_engine::StageContext;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// What a model is told of a tool.
///
/// ```
/// use orchestra_agent::ToolSpec;
/// use serde_json::json;
/// let spec = ToolSpec {
///     name: "run_tests".into(),
///     description: "Runs the tests.".into(),
///     parameters: json!({"type": "object", "properties": {}}),
/// };
/// assert_eq!(spec.name, "run_tests");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name by which the model calls it: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// What it does, when to use it.
    pub description: String,
    /// The JSON schema of its arguments; an object.
    pub parameters: Value,
}

/// What a tool may know of the call: where it works, who wants it, when to stop.
///
/// ```
/// use orchestra_agent::ToolContext;
/// let context = ToolContext::new("/tmp");
/// assert_eq!(context.root(), std::path::Path::new("/tmp"));
/// assert!(context.stage().is_none());
/// ```
#[derive(Clone, Debug)]
pub struct ToolContext {
    root: PathBuf,
    inherit_env: Arc<[String]>,
    cancellation: CancellationToken,
    stage: Option<StageContext>,
}

impl ToolContext {
    /// A call outside of any run, in a working folder, beyond which file tools do not reach.
    pub fn new(root: impl Into<PathBuf>) -> ToolContext {
        ToolContext {
            root: root.into(),
            inherit_env: Arc::default(),
            cancellation: CancellationToken::new(),
            stage: None,
        }
    }

    /// A call of a stage.
    #[must_use]
    pub fn of_stage(mut self, stage: StageContext) -> ToolContext {
        self.cancellation = stage.cancellation();
        self.stage = Some(stage);
        self
    }

    /// Lets commands inherit more variables of the environment, by their names.
    #[must_use]
    pub fn inherit_env(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> ToolContext {
        self.inherit_env = names.into_iter().map(Into::into).collect();
        self
    }

    /// The working folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The variables of the environment that commands may see besides those that every command sees.
    pub fn inherited_env(&self) -> &[String] {
        &self.inherit_env
    }

    /// Cancelled when the stage is; what a tool started must end then.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// The stage whose model calls; `None` outside of a run.
    pub fn stage(&self) -> Option<&StageContext> {
        self.stage.as_ref()
    }
}

/// What a tool gives back: text for the model.
///
/// ```
/// use orchestra_agent::ToolOutput;
/// assert_eq!(ToolOutput::from("3 tests passed").text, "3 tests passed");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolOutput {
    /// What the model reads.
    pub text: String,
}

impl From<String> for ToolOutput {
    fn from(text: String) -> ToolOutput {
        ToolOutput { text }
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> ToolOutput {
        text.to_owned().into()
    }
}

/// A tool that did not do what it was asked; the model reads why, and may try otherwise.
///
/// ```
/// use orchestra_agent::ToolError;
/// assert_eq!(ToolError::new("there is no file `a.txt`").to_string(), "there is no file `a.txt`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ToolError {
    /// Why.
    pub message: String,
}

impl ToolError {
    /// An error with its reason, in words that help the model to do better.
    pub fn new(message: impl Into<String>) -> ToolError {
        ToolError {
            message: message.into(),
        }
    }
}

/// A call of a tool under way. Dropping it ends what it started.
pub type ToolFuture<'a> = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send + 'a>>;

/// A tool. Functions become tools by `#[orchestra::tool]`.
///
/// ```
/// use orchestra_agent::{Tool, ToolContext, ToolFuture, ToolSpec};
/// use serde_json::{Map, Value, json};
/// struct Now;
/// impl Tool for Now {
///     fn spec(&self) -> ToolSpec {
///         ToolSpec {
///             name: "now".into(),
///             description: "Says what time it is.".into(),
///             parameters: json!({"type": "object", "properties": {}}),
///         }
///     }
///     fn call<'a>(&'a self, _: Map<String, Value>, _: ToolContext) -> ToolFuture<'a> {
///         Box::pin(async { Ok("tea time".into()) })
///     }
/// }
/// ```
pub trait Tool: Send + Sync + 'static {
    /// What the model is told of it.
    fn spec(&self) -> ToolSpec;

    /// The repository to which it belongs; in configurations it is then called `REPOSITORY:NAME`.
    fn repository(&self) -> Option<&str> {
        None
    }

    /// Whether calls of it may run beside others of the same answer. One that changes what others read should not.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Does what the model asks.
    ///
    /// # Errors
    /// The future gives an error where it cannot be done; the model is told.
    fn call<'a>(&'a self, arguments: Map<String, Value>, context: ToolContext) -> ToolFuture<'a>;
}

/// The tools that a program has, by their names.
///
/// ```
/// use orchestra_agent::ToolRegistry;
/// assert!(ToolRegistry::default().get("read-file").is_none());
/// ```
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

impl ToolRegistry {
    /// Adds a tool; one of the same name is replaced and given back.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        let spec = tool.spec();
        let name = canonical_name(&spec.name);
        let name = match tool.repository() {
            Some(repository) => format!("{repository}:{name}"),
            None => name,
        };
        self.tools.insert(name, tool)
    }

    /// The tool of a name as configurations write it: `read-file`, `backend:run-tests`.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(&canonical_name(name))
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }
}

/// Configurations write `read-file`, models and Rust `read_file`; both mean the same tool.
fn canonical_name(name: &str) -> String {
    name.replace('_', "-")
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}

/// A set of tools: a function marked with `#[orchestra::tool]`, or a tuple of such sets.
///
/// ```
/// use orchestra_agent::{ToolRegistry, ToolSet};
/// let mut registry = ToolRegistry::default();
/// ().register(&mut registry);
/// assert_eq!(registry.names().count(), 0);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of tools",
    label = "not a set of tools",
    note = "mark a function with `#[orchestra::tool]`, or give a tuple of such functions' types"
)]
pub trait ToolSet: Send + Sync + Sized + 'static {
    /// The names of the tools, as configurations write them; known when the program is built.
    const NAMES: &'static [&'static [&'static str]];

    /// Puts the tools into a registry.
    fn register(self, registry: &mut ToolRegistry);
}

impl ToolSet for () {
    const NAMES: &'static [&'static [&'static str]] = &[];

    fn register(self, _: &mut ToolRegistry) {}
}
