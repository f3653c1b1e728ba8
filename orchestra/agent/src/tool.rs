//! Tools: what a model may do besides talking.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use orchestra_engine::{StageContext, StageFile};
use orchestra_graph::did_you_mean;
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
    output_limit: usize,
}

/// How many bytes of a result a model reads, unless something else is set.
const OUTPUT_LIMIT: usize = 30_000;

impl ToolContext {
    /// A call outside of any run, in a working folder, beyond which file tools do not reach.
    pub fn new(root: impl Into<PathBuf>) -> ToolContext {
        ToolContext {
            root: root.into(),
            inherit_env: Arc::default(),
            cancellation: CancellationToken::new(),
            stage: None,
            output_limit: OUTPUT_LIMIT,
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

    /// Sets how many bytes of a result the model reads: 30,000 unless set, and at least 1,000.
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> ToolContext {
        self.output_limit = bytes.max(1_000);
        self
    }

    /// Replaces the token by which calls are cancelled.
    #[must_use]
    pub fn cancelled_by(mut self, token: CancellationToken) -> ToolContext {
        self.cancellation = token;
        self
    }

    /// The same call in a repository: in its folder of the workspace of the run, or where there is none in another one.
    ///
    /// # Errors
    /// The workspace does not hold the repository. Its own folder is a person's, in which no run with a workspace works.
    pub(crate) fn in_repository(
        &self,
        name: &str,
        otherwise: Option<&Path>,
    ) -> Result<ToolContext, ToolError> {
        let place = self.stage.as_ref().and_then(StageContext::workplace);
        let folder = match place {
            Some(place) => {
                let same = |known: &&str| canonical_name(known) == canonical_name(name);
                let mut known = place.repositories();
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

    /// Returns the same call in the run folder, with the path there, where a path leads to what a stage of the run left:
    /// such files may be read wherever the model works (rule F4).
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
        let node = folders.iter().find(|part| !part.starts_with("restart-"))?;
        let files = [StageFile::Response, StageFile::ToolOutput, StageFile::ToolError];
        let is_left = files.iter().any(|left| left.name() == *file) && stage.pipeline().find(node).is_some();
        is_left.then(|| (self.at(&folder), parts.join("/")))
    }

    /// The folders of the repositories in the working folder, where that is the root of a workspace with several.
    pub(crate) fn repositories(&self) -> Vec<String> {
        let place = self.stage.as_ref().and_then(StageContext::workplace);
        let Some(place) = place.filter(|place| place.root() == self.root) else {
            return Vec::new();
        };
        let below = place
            .repositories()
            .filter_map(|(_, folder)| folder.strip_prefix(place.root()).ok());
        let below = below.filter_map(|folder| folder.iter().next());
        below.map(|name| name.to_string_lossy().into_owned()).collect()
    }

    /// The same call in another working folder.
    pub(crate) fn at(&self, root: &Path) -> ToolContext {
        ToolContext {
            root: root.to_owned(),
            ..self.clone()
        }
    }

    /// How many bytes of a result the model reads. A tool that has more to say tells how to ask for the rest; what goes
    /// beyond this all the same is cut in the middle.
    pub fn most_output(&self) -> usize {
        self.output_limit
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

    /// The repository to which it belongs; in configurations it is then called `REPOSITORY:NAME`. It works in the folder
    /// that the workspace of a run has of it.
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
        self.tools.insert(configured_name(&*tool), tool)
    }

    /// The tool of a name as configurations write it: `read-file`, `backend:run-tests`.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(&canonical_name(name))
    }

    /// The tool of a name, and the nearest name where there is none.
    pub(crate) fn find(&self, name: &str) -> Result<&Arc<dyn Tool>, Option<String>> {
        let canonical = canonical_name(name);
        let near = || did_you_mean(&canonical, self.names()).map(str::to_owned);
        self.tools.get(&canonical).ok_or_else(near)
    }

    /// The tools, in the order of their names.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.values()
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }
}

/// The name of a tool in configurations: `read-file`, `backend:run-tests`.
pub(crate) fn configured_name(tool: &dyn Tool) -> String {
    let name = canonical_name(&tool.spec().name);
    match tool.repository() {
        // The repository's name is made canonical too: by such names tools are looked up.
        Some(repository) => format!("{}:{name}", canonical_name(repository)),
        None => name,
    }
}

/// Configurations write `read-file`, models and Rust `read_file`; both mean the same tool.
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
    /// The names of the tools, as configurations write them; known when the program is built.
    const NAMES: ToolNames;

    /// Puts the tools into a registry.
    fn register(self, registry: &mut ToolRegistry);
}

impl ToolSet for () {
    const NAMES: ToolNames = ToolNames::List(&[]);

    fn register(self, _: &mut ToolRegistry) {}
}

/// The names of a set of tools; those of a tuple are those of its parts.
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
    /// These.
    List(&'static [&'static str]),
    /// Those of two sets.
    Both(&'static ToolNames, &'static ToolNames),
}

impl ToolNames {
    /// Whether a name is among them, written as they are.
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

    /// The names, in order.
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
