//! Workflow as code for Rust: pipelines in Graphviz DOT, checked when the program is built.
//!
//! A pipeline is a graph: nodes are stages (model tasks, shell commands, questions to a person, functions of your
//! own), edges say what comes next and under which condition. [`pipeline!`] reads the file while your program is
//! built, refuses it with positions in the `.dot` file where it is wrong, and makes a typed module of it.
//!
//! ```
//! use orchestra::prelude::*;
//!
//! orchestra::pipeline! {
//!     /// Ships what has been approved.
//!     pub mod release = digraph release {
//!         goal = "Ship the release"
//!         start  -> review
//!         review [type="review.run", strictness=3, outcomes="approved,rejected"]
//!         review -> ship   [condition="outcome=approved"]
//!         review -> exit   [condition="outcome!=approved"]
//!         ship   [type="ship.run", target="production", timeout=15m]
//!         ship   -> exit
//!     },
//!     handlers = App;
//! }
//!
//! struct App;
//!
//! /// The attributes of a `review.run` node; checked against the graph when the program is built.
//! #[derive(Attributes)]
//! struct Review {
//!     strictness: u8,
//! }
//!
//! /// The outcome words of a review; an edge that waits for another one does not build.
//! #[derive(Outcome)]
//! enum Verdict {
//!     Approved,
//!     Rejected,
//! }
//!
//! #[handlers]
//! impl App {
//!     #[handler("review.run")]
//!     async fn review(&self, node: Review) -> Verdict {
//!         if node.strictness > 5 { Verdict::Rejected } else { Verdict::Approved }
//!     }
//!
//!     #[handler("ship.run")]
//!     async fn ship(&self, stage: StageContext) -> Result<(), std::fmt::Error> {
//!         assert_eq!(stage.node().text("target"), Some("production"));
//!         Ok(())
//!     }
//! }
//!
//! assert_eq!(release::nodes::Review::STRICTNESS, 3);
//! assert_eq!(release::nodes::Ship::TIMEOUT, std::time::Duration::from_secs(900));
//! assert_eq!("ship".parse(), Ok(release::Node::Ship));
//! ```
//!
//! Features: `macros` (on by default) brings the macros and the engine; `engine` the engine alone; without either
//! this is the language alone, [`graph`]. `cli` brings the whole command line, `testkit` what tests of pipelines need,
//! `agents` models, tools and the project configuration: the modules `agents` and `config`, and `#[tool]`; `workspace`
//! runs that work in git repositories.

#[cfg(feature = "macros")]
#[doc(hidden)]
#[allow(missing_docs)]
#[path = "private.rs"]
pub mod __private;
#[cfg(feature = "macros")]
mod compiled;
#[cfg(feature = "cli")]
mod main_macro;

pub use orchestra_graph as graph;

#[cfg(feature = "macros")]
pub use compiled::{Choice, Transition, Transitions, UnknownNode};
#[cfg(feature = "agents")]
#[doc(inline)]
pub use orchestra_agent as agents;
#[cfg(feature = "agents")]
#[doc(inline)]
pub use orchestra_config as config;
#[cfg(feature = "engine")]
#[doc(inline)]
pub use orchestra_engine::*;
#[cfg(feature = "sessions")]
#[doc(inline)]
pub use orchestra_sessions as sessions;
#[cfg(feature = "testkit")]
#[doc(inline)]
pub use orchestra_testkit as testkit;
#[cfg(feature = "workspace")]
#[doc(inline)]
pub use orchestra_workspace as workspace;

/// Binds a pipeline of another module, or of another crate, to handlers of this program.
///
/// The new type stands for the pipeline when a run starts. What the pipeline needs is compared with the handlers
/// exactly as `pipeline!(.., handlers = ..)` does it; every fault is part of one compile error.
///
/// ```
/// use orchestra::prelude::*;
///
/// mod pipelines {
///     orchestra::pipeline! {
///         pub mod greet = digraph greet { start -> hello -> exit; hello [type="hello.say"] }
///     }
/// }
///
/// #[handler("hello.say")]
/// async fn say_hello() {}
///
/// orchestra::bind! { pub Greet = pipelines::greet, handlers = say_hello }
///
/// async fn run(engine: &Engine) -> Result<RunResult, Box<dyn std::error::Error>> {
///     Ok(engine.start(Greet, say_hello {}).await?.wait().await?)
/// }
/// ```
#[cfg(feature = "macros")]
pub use orchestra_macros::bind;

/// Makes a handler of a function: `#[handler("KIND")]` runs the nodes whose `type` is that kind.
///
/// Arguments are owned and may stand in any order: [`StageContext`], and structs that derive
/// [`Attributes`](derive@Attributes). The function may return nothing, [`Outcome`](struct@Outcome), an enum that
/// derives [`Outcome`](derive@Outcome), or a `Result` of one of these; an error fails the stage. A function that is
/// not `async` runs beside the engine's threads, and cannot be stopped while it runs.
///
/// The function stays what it is. Beside it comes a type of the same name, which is a set of one handler:
/// `handlers = (deploy, App)` names it, `deploy {}` makes it.
///
/// ```
/// use orchestra::prelude::*;
///
/// #[derive(Attributes)]
/// struct Deploy {
///     environment: String,
/// }
///
/// #[handler("deploy")]
/// async fn deploy(node: Deploy, stage: StageContext) -> Outcome {
///     Outcome::success().notes(format!("{} is now in {}", stage.node().label(), node.environment))
/// }
///
/// orchestra::pipeline! {
///     mod release = digraph release {
///         start -> ship -> exit
///         ship [type=deploy, environment=production]
///     },
///     handlers = deploy;
/// }
/// ```
#[cfg(feature = "macros")]
pub use orchestra_macros::handler;

/// Makes a set of handlers of an `impl` block: each method marked with [`handler`] runs one kind of nodes.
///
/// Methods take `&self`, and share the value that is given when a run starts; keep what changes in a lock.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use orchestra::prelude::*;
///
/// #[derive(Default)]
/// struct App {
///     calls: AtomicU32,
/// }
///
/// #[handlers]
/// impl App {
///     #[handler("lint.run")]
///     async fn lint(&self) -> Result<(), std::io::Error> {
///         self.calls.fetch_add(1, Ordering::Relaxed);
///         Ok(())
///     }
/// }
/// ```
#[cfg(feature = "macros")]
pub use orchestra_macros::handlers;

/// Reads, checks and compiles pipelines, each into a module.
///
/// ```
/// // A file, into a module with a name of its own. `./` and `../` mean beside this source file, any other path is
/// // looked up in the package's folder.
/// # macro_rules! shown { ($($tokens:tt)*) => {} }
/// # shown! {
/// orchestra::pipeline! { pub mod review = "./review.dot"; }
/// # }
/// // A file, into a module named after its graph.
/// # shown! {
/// orchestra::pipeline!("pipelines/release.dot");
/// # }
/// // Inline. A raw string or a comment of Rust does what it does elsewhere in Rust.
/// orchestra::pipeline! {
///     pub mod tiny = digraph tiny {
///         start -> work -> exit
///         work [prompt="Do it", timeout=15m]
///     }
/// }
/// assert_eq!(tiny::nodes::Work::PROMPT, "Do it");
/// ```
///
/// # Options
/// They follow the text, separated by commas, or stand first in the braces, each closed by a semicolon, and then
/// hold for every pipeline there.
///
/// - `handlers = (Builtin, App)` binds the pipeline to handlers. A kind without a handler, an attribute that a handler
///   requires and a node lacks, a value of the wrong type, and an edge that waits for an outcome word which no handler
///   returns are then compile errors, all in one message, with their places in the `.dot` file. A pipeline that uses
///   built-in kinds only is bound without a word.
/// - `allow(dead_end)` silences warnings by their code, `deny(dead_end)` and `deny(warnings)` make errors of them.
///   A note is only seen in a build when its code is denied.
/// - `config = "orchestra.yaml"` resolves every model stage with the project configuration: agents, providers, models,
///   tools and prompt layers must exist, and the variables of task templates must be known. Faults are compile errors
///   with their places in the YAML, the template or the pipeline. The path is looked up as that of a pipeline is.
///   Needs the feature `agents`. The user's own folder of prompts is not looked at: a build does not depend on who builds.
/// - `tools = (query_database, App)` are the tools that the program brings; their names may then be used as well.
/// - `crate = path` says where this crate is found, if not as `::orchestra`.
///
/// # What the module holds
/// - `SOURCE`, the text; `PIPELINE`, the table as constant data; `NEEDS`, what it asks of handlers.
/// - `Node`, an enum of all nodes with `ALL`, `id()`, `FromStr`, `Display` and `AsRef<str>`.
/// - `nodes::Critic`: a type for each node, whose attributes are typed constants, such as `PROMPT` and `TIMEOUT`.
/// - `choices::ReviewGate`: an enum for each human gate, with `ALL`, `FromStr`, `label()`, `key()` and `target()`; each
///   variant is also an [`Answer`].
/// - [`TRANSITIONS`](Transitions): the edges, with their conditions.
/// - `CONFIG`, where `config` is given: the configuration and all files that it needs, as constant data. A layer that is
///   written later where a missed one was looked for builds nothing anew until something else does.
/// - `simulate()`, where the feature `testkit` is on: begins a run whose stages do what a test says.
///
/// The documentation of the module shows the goal, a diagram and a table of the nodes.
///
/// # Children
/// The files that sub-pipeline nodes and manager loops name are read, checked and compiled in too, each once; a path is
/// relative to the file that names it. What they need is compared with the same handlers.
///
/// # Errors
/// Every fault of the pipeline is a compile error of its own, with its place in the file, the source line and a way to
/// mend it; inline, the wrong token itself is underlined. After twenty their number is told. Warnings come as warnings
/// of the lint `deprecated`, the only one that a macro can raise. The module is there even so, with what was
/// understood, so that the code around it does not fail as well. Editing the file, or a child's, builds the program anew.
#[cfg(feature = "macros")]
pub use orchestra_macros::pipeline;

/// Makes an agent of a struct: `#[agent(role = "..", persona = "..", personality = "..", task = "..", ..)]`.
///
/// The layers are found as those of a pipeline in the package's folder are: in `prompts/` there, in the folders of the
/// configuration, then among those that come with Orchestra. The fields are the variables of the task. A layer that is
/// not there, a variable of the task that is neither a field nor built in, an unknown tool, model or provider is a
/// compile error. The files that were read are compiled in, and editing one builds the program anew.
///
/// - `name` is the agent's name in pipelines, if not the struct's: `SecurityReviewer` is `security-reviewer`.
/// - `model`, `provider` and `backend` say what runs it; `tools = ["read-file", "grep"]` which tools it has.
/// - `tool_set = TYPE` says where tools are that only the program has: a set of them, such as a function with
///   [`tool`](macro@tool).
/// - `config = "orchestra.yaml"` names the configuration; `./` means beside this source file, any other path is looked
///   up in the package's folder.
/// - `crate = path` says where this crate is found, if not as `::orchestra`.
///
/// The struct stays what it is, and becomes an [`AgentDefinition`](agents::AgentDefinition).
///
/// ```
/// use orchestra::agents::AgentDefinition;
///
/// /// Looks for security faults in a change.
/// #[orchestra::agent(
///     role = "security-reviewer",
///     persona = "senior-security-engineer",
///     personality = "thorough-skeptical",
///     task = "review-pr-security",
///     tools = ["read-file", "grep"]
/// )]
/// struct SecurityReviewer {
///     pr_diff: String,
/// }
///
/// let prompt = SecurityReviewer { pr_diff: "+ let key = \"hunter2\";".to_owned() }.prompt()?;
/// assert_eq!(SecurityReviewer::NAME, "security-reviewer");
/// assert!(prompt.message.contains("hunter2") && !prompt.system.is_empty());
/// # Ok::<(), orchestra::agents::AgentPromptError>(())
/// ```
#[cfg(feature = "agents")]
pub use orchestra_macros::agent;

/// Makes a tool of a function, which models may call: `#[tool]`, or `#[tool(name = "..", repo = "..", read_only)]`.
///
/// What the model is told of it is the doc comment; a comment on an argument says what that argument is for. Arguments
/// are owned, and of types that are made from JSON and describe themselves by a JSON schema: `serde`'s `Deserialize`
/// and `schemars`' `JsonSchema`. One whose type is an `Option` may be left out. A
/// [`ToolContext`](agents::ToolContext), at any place, says where the call works and when it is to stop.
///
/// The function may return text, or anything that serde can write, which the model then reads as JSON; or a `Result` of
/// one of these, whose error, in words, the model reads too. A function that is not `async` runs beside the threads of
/// others, and cannot be stopped while it runs.
///
/// - `name` is the tool's name, if not the function's: `run-tests` in configurations, `run_tests` for models.
/// - `repo` is the repository to which it belongs; configurations call it `REPO:NAME` then.
/// - `read_only` says that it changes nothing, so that several calls may run side by side.
/// - `crate = path` says where this crate is found, if not as `::orchestra`.
///
/// The function stays what it is. Beside it comes a type of the same name, which is a set of one tool: `(count, Other)`
/// is a set of its parts' tools.
///
/// ```
/// use orchestra::agents::{ToolContext, ToolRegistry, ToolSet};
/// use orchestra::tool;
///
/// /// Counts the lines of a file.
/// #[tool(read_only)]
/// fn count_lines(
///     /// The file, relative to the working folder.
///     path: String,
///     /// Whether lines of nothing but white space count as well.
///     all: Option<bool>,
///     context: ToolContext,
/// ) -> std::io::Result<usize> {
///     let text = std::fs::read_to_string(context.root().join(path))?;
///     Ok(text.lines().filter(|line| all == Some(true) || !line.trim().is_empty()).count())
/// }
///
/// let mut registry = ToolRegistry::default();
/// (count_lines {},).register(&mut registry);
/// let tool = registry.get("count-lines").unwrap();
/// assert_eq!(tool.spec().description, "Counts the lines of a file.");
/// assert_eq!(tool.spec().parameters["required"], serde_json::json!(["path"]));
/// ```
#[cfg(feature = "agents")]
pub use orchestra_macros::tool;

/// Makes a struct of a node's custom attributes, which handlers may take as an argument.
///
/// The fields are `String`, integers, `f64`, `bool`, [`Duration`](std::time::Duration), or an `Option` of one of these
/// where the attribute may be missing. `#[attribute(rename = "dry.run")]` gives the attribute's name,
/// `#[attribute(default)]` and `#[attribute(default = 3)]` what holds where it is missing.
///
/// ```
/// use std::time::Duration;
///
/// #[derive(orchestra::Attributes)]
/// struct Fetch {
///     url: String,
///     #[attribute(default = 3)]
///     attempts: u8,
///     #[attribute(rename = "max.age")]
///     max_age: Option<Duration>,
/// }
///
/// use orchestra::FromStage;
/// assert_eq!(Fetch::FIELDS[2].name, "max.age");
/// assert!(Fetch::FIELDS[0].required && !Fetch::FIELDS[1].required);
/// ```
#[cfg(feature = "macros")]
pub use orchestra_macros::Attributes;

/// Makes an enum without fields the outcome words of a handler.
///
/// A word is its variant's name in `snake_case`; `#[outcome("word")]` gives another. `success`, `partial_success`,
/// `retry`, `fail` and `skipped` mean what they mean in the language, any other word counts as a success. An edge that
/// waits for a word which the handler never returns does not build.
///
/// ```
/// use orchestra::IntoOutcome;
///
/// #[derive(orchestra::Outcome)]
/// enum Verdict {
///     Approved,
///     NeedsWork,
///     #[outcome("fail")]
///     Refused,
/// }
///
/// assert_eq!(Verdict::NeedsWork.into_outcome().status.word(), "needs_work");
/// assert!(!Verdict::Refused.into_outcome().status.is_success());
/// ```
#[cfg(feature = "macros")]
pub use orchestra_macros::Outcome;

/// What most programs use, for `use orchestra::prelude::*`.
#[cfg(feature = "macros")]
pub mod prelude {
    pub use orchestra_engine::{
        Answer, AutoApprove, Builtin, CodergenBackend, Context, Engine, FailureCategory, HandlerSet,
        Interviewer, Outcome, Question, RunResult, RunStatus, SimulationBackend, StageContext, Status,
    };
    pub use orchestra_macros::{Attributes, Outcome, bind, handler, handlers, pipeline};
}
