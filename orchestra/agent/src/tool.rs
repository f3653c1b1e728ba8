//! The [`Tool`] trait, the registry of tools, and the context and results of their calls.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use orchestra_engine::{BackendError, RunFolder, StageContext, StageFile, stage_folder_name};
use orchestra_graph::did_you_mean;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// The description of a tool that is sent to the model.
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
    /// The name by which the model calls the tool: letters, digits, `_` and `-`, at most 64 characters.
    pub name: String,
    /// A description of what the tool does and when to use it.
    pub description: String,
    /// The JSON schema of the arguments; an object.
    pub parameters: Value,
}

/// The context of a tool call: the working folder, the stage that makes the call, the cancellation token, and limits.
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
    output_limit: usize,
    /// The error that ends the stage instead of the results of its calls.
    interruption: Arc<Mutex<Option<BackendError>>>,
}

/// Default maximum length of a result that a model reads, in bytes.
const OUTPUT_LIMIT: usize = 30_000;

impl ToolContext {
    /// Creates the context of a call outside of any run. File tools cannot reach files outside of the working folder
    /// `root`.
    pub fn new(root: impl Into<PathBuf>) -> ToolContext {
        ToolContext {
            root: root.into(),
            inherit_env: Arc::default(),
            cancellation: CancellationToken::new(),
            stage: None,
            output_limit: OUTPUT_LIMIT,
            interruption: Arc::default(),
        }
    }

    /// Sets the stage that makes the call, and uses its cancellation token.
    #[must_use]
    pub fn of_stage(mut self, stage: StageContext) -> ToolContext {
        self.cancellation = stage.cancellation();
        self.stage = Some(stage);
        self
    }

    /// Lets commands inherit additional environment variables, given by their names.
    #[must_use]
    pub fn inherit_env(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> ToolContext {
        self.inherit_env = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the maximum length of a result that the model reads, in bytes: 30,000 by default, and at least 1,000.
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> ToolContext {
        self.output_limit = bytes.max(1_000);
        self
    }

    /// Replaces the token that cancels calls.
    #[must_use]
    pub fn cancelled_by(mut self, token: CancellationToken) -> ToolContext {
        self.cancellation = token;
        self
    }

    /// Returns the same context with the folder of a repository as working folder: its folder in the workspace of the
    /// run or, if the run has no workspace, `otherwise`. Returns an unchanged copy if there is neither.
    ///
    /// # Errors
    /// Returns an error if the workspace does not contain the repository. The repository's configured folder is not
    /// used instead: it belongs to a person, and a run with a workspace must not work in it.
    pub(crate) fn in_repository(
        &self,
        name: &str,
        otherwise: Option<&Path>,
    ) -> Result<ToolContext, ToolError> {
        let workplace = self.stage.as_ref().and_then(StageContext::workplace);
        let folder = match workplace {
            Some(workplace) => {
                let same = |known: &&str| canonical_name(known) == canonical_name(name);
                let mut known = workplace.repositories();
                let found = known.find(|(known, _)| same(known)).map(|(_, folder)| folder);
                found.ok_or_else(|| {
                    ToolError::new(format!("the workspace of this run has no repository `{name}`"))
                })?
            }
            None => match otherwise {
                Some(folder) => folder,
                None => return Ok(self.clone()),
            },
        };
        Ok(self.at(folder))
    }

    /// Returns the same context with the run folder as working folder, and `path` relative to that folder. Returns
    /// `None` if `path` is not an output file of a stage of the run. Such files may be read regardless of the working
    /// folder (rule F4).
    pub(crate) fn for_stage_file(&self, path: &str) -> Option<(ToolContext, String)> {
        let stage = self.stage.as_ref()?;
        let folder = std::path::absolute(stage.run_dir()?).ok()?;
        let below = Path::new(path).strip_prefix(&folder).ok()?;
        let parts: Vec<&str> = below
            .components()
            .map(|part| match part {
                Component::Normal(name) => name.to_str(),
                _ => None,
            })
            .collect::<Option<_>>()?;
        let (folders, [file]) = parts.split_at_checked(parts.len().checked_sub(1)?)? else {
            return None;
        };
        let node = folders.iter().find(|part| !RunFolder::is_restart(part))?;
        let files = [StageFile::Response, StageFile::ToolOutput, StageFile::ToolError];
        let is_stage = stage
            .pipeline()
            .stages()
            .any(|stage| stage_folder_name(stage.id()) == *node);
        let is_left = is_stage && files.iter().any(|left| left.name() == *file);
        is_left.then(|| (self.at(&folder), parts.join("/")))
    }

    /// Returns the names of the repository folders in the working folder. Returns an empty list unless the working
    /// folder is the root of a workspace with several repositories.
    pub(crate) fn repositories(&self) -> Vec<String> {
        let workplace = self.stage.as_ref().and_then(StageContext::workplace);
        let Some(workplace) = workplace.filter(|workplace| workplace.root() == self.root) else {
            return Vec::new();
        };
        let below = workplace
            .repositories()
            .filter_map(|(_, folder)| folder.strip_prefix(workplace.root()).ok());
        let below = below.filter_map(|folder| folder.iter().next());
        below.map(|name| name.to_string_lossy().into_owned()).collect()
    }

    /// Returns the same context with another working folder.
    pub(crate) fn at(&self, root: &Path) -> ToolContext {
        ToolContext {
            root: root.to_owned(),
            ..self.clone()
        }
    }

    /// Returns the maximum length of a result that the model reads, in bytes. A tool with a longer result should
    /// explain how to request the rest; a result that is still longer is cut in the middle.
    pub fn most_output(&self) -> usize {
        self.output_limit
    }

    /// Returns the working folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the names of the environment variables that commands inherit in addition to the default ones.
    pub fn inherited_env(&self) -> &[String] {
        &self.inherit_env
    }

    /// Returns the token that is cancelled together with the stage. Everything that a tool started must end then.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Ends the stage with an error, instead of passing the results of its calls to the model. The first error counts.
    /// If the run is suspended, for example because nobody can answer a question of the tool, the calls are made again
    /// when it is resumed.
    ///
    /// ```
    /// use orchestra_agent::ToolContext;
    /// use orchestra_engine::BackendError;
    /// let context = ToolContext::new(".");
    /// context.interrupt(BackendError::terminal("the tool is not the one that was reviewed"));
    /// ```
    pub fn interrupt(&self, error: impl Into<BackendError>) {
        let mut interruption = self.interruption.lock().unwrap_or_else(PoisonError::into_inner);
        interruption.get_or_insert_with(|| error.into());
    }

    /// Takes the error with which a tool ended the stage.
    pub(crate) fn take_interruption(&self) -> Option<BackendError> {
        let mut interruption = self.interruption.lock().unwrap_or_else(PoisonError::into_inner);
        interruption.take()
    }

    /// Returns the stage that makes the call, or `None` outside of a run.
    pub fn stage(&self) -> Option<&StageContext> {
        self.stage.as_ref()
    }
}

/// The result of a successful tool call: text for the model.
///
/// ```
/// use orchestra_agent::ToolOutput;
/// assert_eq!(ToolOutput::from("3 tests passed").text, "3 tests passed");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The text that the model reads.
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

/// The error of a failed tool call. The model reads the message and can try again differently.
///
/// ```
/// use orchestra_agent::ToolError;
/// assert_eq!(ToolError::new("there is no file `a.txt`").to_string(), "there is no file `a.txt`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ToolError {
    /// The reason of the failure.
    pub message: String,
}

impl ToolError {
    /// Creates an error with a message that helps the model to correct its call.
    pub fn new(message: impl Into<String>) -> ToolError {
        ToolError {
            message: message.into(),
        }
    }
}

/// The future of a tool call. Dropping it ends everything that the call started.
pub type ToolFuture<'a> = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send + 'a>>;

/// What a stage keeps as long as it may call a prepared tool.
pub type ToolLease = Arc<dyn Any + Send + Sync>;

/// The future of the [preparation](Tool::prepare) of a tool.
pub type PrepareFuture<'a> = Pin<Box<dyn Future<Output = Result<Option<ToolLease>, ToolError>> + Send + 'a>>;

/// A tool that a model can call. `#[orchestra::tool]` turns a function into a tool.
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
    /// Returns the description of the tool for the model.
    fn spec(&self) -> ToolSpec;

    /// Returns the repository to which the tool belongs, if any. In configurations the tool is then called
    /// `REPOSITORY:NAME`, and it works in the folder of that repository in the workspace of the run.
    fn repository(&self) -> Option<&str> {
        None
    }

    /// Returns the part of its configured name that stands before the `:`, if any: the repository, or the server that
    /// provides the tool.
    fn group(&self) -> Option<&str> {
        self.repository()
    }

    /// Prepares the tool for a stage, before the model sees it. The stage keeps the lease until it ends.
    ///
    /// # Errors
    /// The future returns an error if the tool cannot be used. The stage then fails, and its model is not called.
    fn prepare<'a>(&'a self, context: &'a ToolContext) -> PrepareFuture<'a> {
        let _ = context;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns whether its calls may run concurrently with other calls of the same answer. A tool that changes data
    /// that other tools read should return `false`.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Executes a call of the model.
    ///
    /// # Errors
    /// The future returns an error if the call fails; the model receives the message.
    fn call<'a>(&'a self, arguments: Map<String, Value>, context: ToolContext) -> ToolFuture<'a>;
}

/// The tools of a program, by name.
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
    /// Adds a tool. Replaces and returns an existing tool of the same name.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Option<Arc<dyn Tool>> {
        self.tools.insert(configured_name(&*tool), tool)
    }

    /// Returns the tool with a name as configurations write it: `read-file`, `backend:run-tests`.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(&canonical_name(name))
    }

    /// Returns the tool with a name or, if there is none, the most similar known name as the error.
    pub(crate) fn find(&self, name: &str) -> Result<&Arc<dyn Tool>, Option<String>> {
        let canonical = canonical_name(name);
        let near = || did_you_mean(&canonical, self.names()).map(str::to_owned);
        self.tools.get(&canonical).ok_or_else(near)
    }

    /// Returns the tools, sorted by name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.values()
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }
}

/// Returns the name of a tool as configurations write it: `read-file`, `backend:run-tests`.
pub(crate) fn configured_name(tool: &dyn Tool) -> String {
    let name = canonical_name(&tool.spec().name);
    match tool.group() {
        // Lookups use canonical names, so the group's name must be canonical too.
        Some(group) => format!("{}:{name}", canonical_name(group)),
        None => name,
    }
}

/// Returns the canonical form of a tool name. Configurations write `read-file`, models and Rust write `read_file`; both
/// mean the same tool.
pub(crate) fn canonical_name(name: &str) -> String {
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
    /// The names of the tools, as configurations write them; known at compile time.
    const NAMES: ToolNames;

    /// Adds the tools to a registry.
    fn register(self, registry: &mut ToolRegistry);
}

impl ToolSet for () {
    const NAMES: ToolNames = ToolNames::List(&[]);

    fn register(self, _: &mut ToolRegistry) {}
}

/// The names of a set of tools. Those of a tuple are the names of its parts.
///
/// ```
/// use orchestra_agent::ToolNames;
/// const NAMES: ToolNames =
///     ToolNames::Both(&ToolNames::List(&["run-tests"]), &ToolNames::List(&["backend:migrate"]));
/// const { assert!(NAMES.contain("backend:migrate") && !NAMES.contain("migrate")) };
/// assert_eq!(NAMES.iter().collect::<Vec<_>>(), ["run-tests", "backend:migrate"]);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum ToolNames {
    /// A list of names.
    List(&'static [&'static str]),
    /// The names of two sets.
    Both(&'static ToolNames, &'static ToolNames),
}

impl ToolNames {
    /// Returns whether `name` is one of the names. The comparison is exact.
    pub const fn contain(&self, name: &str) -> bool {
        match self {
            ToolNames::Both(first, second) => first.contain(name) || second.contain(name),
            ToolNames::List(names) => {
                let mut rest: &[&str] = names;
                while let [first, others @ ..] = rest {
                    if equal(first.as_bytes(), name.as_bytes()) {
                        return true;
                    }
                    rest = others;
                }
                false
            }
        }
    }

    /// Returns the names, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'static str> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found.into_iter()
    }

    fn collect(&self, into: &mut Vec<&'static str>) {
        match self {
            ToolNames::List(names) => into.extend_from_slice(names),
            ToolNames::Both(first, second) => {
                first.collect(into);
                second.collect(into);
            }
        }
    }
}

const fn equal(mut left: &[u8], mut right: &[u8]) -> bool {
    while let ([a, rest @ ..], [b, others @ ..]) = (left, right) {
        if *a != *b {
            return false;
        }
        (left, right) = (rest, others);
    }
    left.is_empty() && right.is_empty()
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: ToolSet),+> ToolSet for ($($name,)+) {
            const NAMES: ToolNames = tuples!(@names $($name)+);

            #[allow(non_snake_case)]
            fn register(self, registry: &mut ToolRegistry) {
                let ($($name,)+) = self;
                $($name.register(registry);)+
            }
        }
    };
    (@names $last:ident) => { $last::NAMES };
    (@names $first:ident $($rest:ident)+) => { ToolNames::Both(&$first::NAMES, &tuples!(@names $($rest)+)) };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
