//! The attribute table with one row per attribute, used by the parser, the checks, the documentation and completion.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::value::Value;

/// The kinds of owner on which an attribute is allowed.
///
/// ```
/// use orchestra_graph::{Known, Scope};
/// let scopes = Known::RetryTarget.spec().scopes;
/// assert!(scopes.contains(Scope::Graph) && scopes.contains(Scope::Node) && !scopes.edge);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scopes {
    /// `true` if it is allowed on the graph.
    pub graph: bool,
    /// `true` if it is allowed on a node.
    pub node: bool,
    /// `true` if it is allowed on an edge.
    pub edge: bool,
}

impl Scopes {
    /// Returns whether the attribute is allowed in that scope.
    pub const fn contains(self, scope: Scope) -> bool {
        match scope {
            Scope::Graph => self.graph,
            Scope::Node => self.node,
            Scope::Edge => self.edge,
        }
    }
}

/// The kind of owner of an attribute.
///
/// ```
/// use orchestra_graph::{ATTRIBUTES, Scope};
/// let on_edges = ATTRIBUTES.iter().filter(|row| row.scopes.contains(Scope::Edge));
/// assert!(on_edges.map(|row| row.name).any(|name| name == "condition"));
/// assert_eq!(Scope::Edge.word(), "edge");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The graph.
    Graph,
    /// A node.
    Node,
    /// An edge.
    Edge,
}

impl Scope {
    /// Returns the name shown to the user: `graph`, `node` or `edge`.
    pub const fn word(self) -> &'static str {
        match self {
            Scope::Graph => "graph",
            Scope::Node => "node",
            Scope::Edge => "edge",
        }
    }
}

/// The type of the value of a known attribute (rule L6).
///
/// ```
/// use orchestra_graph::{AttributeType, Known, Value};
/// let ty = Known::Timeout.spec().ty;
/// assert_eq!(ty, AttributeType::Duration);
/// assert_eq!(ty.coerce(&Value::Integer(90)).expect("seconds").to_string(), "90s");
/// assert_eq!(ty.coerce(&Value::Boolean(true)), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttributeType {
    /// Any text. Other values are converted to text.
    String,
    /// A whole number of at least this size.
    Integer(i64),
    /// A decimal number in this range.
    Float(f64, f64),
    /// `true` or `false`.
    Boolean,
    /// `true`, `false` or the text of a condition.
    Condition,
    /// A length of time. A bare whole number means seconds.
    Duration,
    /// One of these words.
    Word(&'static [&'static str]),
    /// The id of a node.
    Node,
    /// Keys, or pairs of keys `new=old`, separated by commas; see [`key_pairs`](crate::key_pairs).
    Pairs,
    /// Names of environment variables, separated by commas.
    Variables,
}

impl AttributeType {
    /// Returns the description used in messages, such as "a whole number".
    pub fn describe(self) -> String {
        match self {
            AttributeType::String => "text".to_owned(),
            AttributeType::Integer(min) if min > i64::MIN => format!("a whole number of at least {min}"),
            AttributeType::Integer(_) => "a whole number".to_owned(),
            AttributeType::Float(min, max) if max < f64::MAX => format!("a number from {min} to {max}"),
            AttributeType::Float(min, _) => format!("a number of at least {min}"),
            AttributeType::Boolean => "`true` or `false`".to_owned(),
            AttributeType::Condition => "`true`, `false` or a condition such as `outcome=success`".to_owned(),
            AttributeType::Duration => {
                "a duration such as `250ms`, `900s`, `15m`, `2h` or `1d` (a bare whole number means seconds)"
                    .to_owned()
            }
            AttributeType::Word(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                format!("one of {}", words.join(", "))
            }
            AttributeType::Node => "the id of a node".to_owned(),
            AttributeType::Pairs => "keys or pairs of keys such as `a,b=c`, separated by commas".to_owned(),
            AttributeType::Variables => "names of environment variables, separated by commas".to_owned(),
        }
    }

    /// Converts a value to this type. Returns `None` if that would need guessing.
    pub fn coerce(self, value: &Value) -> Option<Value> {
        let text = value.as_str().map(str::trim);
        match (self, value) {
            (AttributeType::String | AttributeType::Node, Value::String(_)) => Some(value.clone()),
            (AttributeType::String | AttributeType::Node, other) => {
                Some(Value::String(other.to_string().into()))
            }
            (AttributeType::Integer(min), Value::Integer(number)) => (*number >= min).then(|| value.clone()),
            (AttributeType::Integer(min), Value::Float(_) | Value::String(_)) => {
                let number = whole_number(value)?;
                (number >= min).then_some(Value::Integer(number))
            }
            (AttributeType::Float(min, max), Value::Integer(_) | Value::Float(_) | Value::String(_)) => {
                let number = match value {
                    Value::Integer(number) => *number as f64,
                    Value::Float(number) => *number,
                    _ => text?.parse::<f64>().ok()?,
                };
                (number >= min && number <= max).then_some(Value::Float(number))
            }
            (AttributeType::Boolean, Value::Boolean(_)) => Some(value.clone()),
            (AttributeType::Boolean, Value::String(_)) => text?.parse().ok().map(Value::Boolean),
            (AttributeType::Condition, Value::Boolean(_)) => Some(value.clone()),
            (AttributeType::Condition, Value::String(_)) => match text?.parse() {
                Ok(flag) => Some(Value::Boolean(flag)),
                Err(_) => is_condition(text?).then(|| value.clone()),
            },
            (AttributeType::Duration, Value::Duration(_)) => Some(value.clone()),
            (AttributeType::Duration, Value::Integer(seconds)) => u64::try_from(*seconds)
                .ok()
                .map(|seconds| Value::Duration(Duration::from_secs(seconds))),
            (AttributeType::Duration, Value::String(_)) => match Value::of_word(text?) {
                Value::String(_) => None,
                other => self.coerce(&other),
            },
            (AttributeType::Word(words), Value::String(_)) => {
                let text = text?;
                words.contains(&text).then(|| Value::String(text.into()))
            }
            (AttributeType::Pairs, Value::String(text)) => {
                crate::children::key_pairs(text).is_some().then(|| value.clone())
            }
            (AttributeType::Variables, Value::String(text)) => {
                let mut names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                let impossible = |character: char| character.is_whitespace() || "=\0".contains(character);
                names
                    .all(|name| !name.contains(impossible))
                    .then(|| value.clone())
            }
            (AttributeType::Word(words), Value::Boolean(_)) => {
                let text = value.to_string();
                words.contains(&text.as_str()).then(|| Value::String(text.into()))
            }
            _ => None,
        }
    }
}

/// Returns the value as a whole number. Also accepts `2.0` and numbers in quotes.
fn whole_number(value: &Value) -> Option<i64> {
    /// The largest magnitude up to which a float represents every whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = match value {
        Value::Float(number) => *number,
        other => {
            let text = other.as_str()?.trim();
            if let Ok(number) = text.parse() {
                return Some(number);
            }
            crate::condition::number(text)?
        }
    };
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

/// Returns whether a text is meant as a condition: either a valid one, or an invalid one that `condition_syntax`
/// reports.
fn is_condition(text: &str) -> bool {
    let is_sound = !text.is_empty() && crate::condition::parse_condition(text).is_ok();
    is_sound || text.contains(['=', '<', '>', '!', '&', '|', '(', ' '])
}

/// One row of the attribute table (Attractor 2.5 to 2.7).
///
/// ```
/// use orchestra_graph::ATTRIBUTES;
/// let row = ATTRIBUTES.iter().find(|row| row.name == "max_retries").expect("it is known");
/// assert_eq!(row.ty.describe(), "a whole number of at least 0");
/// assert!(row.doc.contains("attempts") && !row.scopes.edge);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AttributeSpec {
    /// The attribute.
    pub known: Known,
    /// The canonical name.
    pub name: &'static str,
    /// The owners on which it is allowed.
    pub scopes: Scopes,
    /// The type of its value.
    pub ty: AttributeType,
    /// The default value as written; empty if there is none.
    pub default: &'static str,
    /// Other accepted spellings.
    pub aliases: &'static [&'static str],
    /// A one-line description.
    pub doc: &'static str,
}

macro_rules! scopes {
    ($($scope:ident)+) => {
        {
            let mut scopes = Scopes { graph: false, node: false, edge: false };
            $(scopes.$scope = true;)+
            scopes
        }
    };
}

macro_rules! attributes {
    ($($variant:ident $name:literal [$($scope:ident)+] $ty:expr, $default:literal, [$($alias:literal)*], $doc:literal;)+) => {
        /// The attributes that the language defines (Attractor 2.5 to 2.7).
        ///
        /// ```
        /// use orchestra_graph::{Known, Source, load};
        /// let text = "digraph { start -> work -> exit; work [prompt=\"Write a poem.\", timeout=15m] }";
        /// let loaded = load(Source::new("a.dot", text), &Default::default());
        /// let work = loaded.graph.node(loaded.graph.find("work").expect("declared"));
        /// assert_eq!(work.attributes.text(Known::Prompt), Some("Write a poem."));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Known {
            $(#[doc = $doc] $variant,)+
        }

        /// The attribute table, in the order of [`Known`].
        pub static ATTRIBUTES: &[AttributeSpec] = &[
            $(AttributeSpec {
                known: Known::$variant,
                name: $name,
                scopes: scopes!($($scope)+),
                ty: $ty,
                default: $default,
                aliases: &[$($alias),*],
                doc: $doc,
            },)+
        ];

        impl Known {
            /// Returns the attribute with this name or alias.
            ///
            /// ```
            /// use orchestra_graph::Known;
            /// assert_eq!(Known::find("model_spec"), Some(Known::ModelStylesheet));
            /// ```
            pub fn find(name: &str) -> Option<Known> {
                match name {
                    $($name $(| $alias)* => Some(Known::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

use AttributeType::{
    Boolean, Condition, Duration as Time, Float, Integer, Node, Pairs, String as Text, Variables, Word,
};

const ANY: i64 = i64::MIN;
const EFFORT: AttributeType = Word(&["low", "medium", "high"]);

attributes! {
    Goal "goal" [graph] Text, "", [], "What the pipeline is for; `$goal` in prompts, `graph.goal` in the context.";
    Label "label" [graph node edge] Text, "", [], "The name shown to people; on an edge also the key for routing by label.";
    ModelStylesheet "model_stylesheet" [graph] Text, "", ["model_spec"], "Rules that set model attributes on nodes (Attractor 8).";
    DefaultMaxRetries "default_max_retries" [graph] Integer(0), "0", ["default_max_retry"], "Additional attempts of nodes that set no `max_retries`.";
    DefaultFidelity "default_fidelity" [graph] Text, "compact", [], "Context fidelity of nodes that set none.";
    DefaultThreadId "default_thread_id" [graph] Text, "", [], "Session key of nodes that set no `thread_id`.";
    RetryTarget "retry_target" [graph node] Node, "", [], "Where to go after a failure, or from the exit when a goal gate is unsatisfied.";
    FallbackRetryTarget "fallback_retry_target" [graph node] Node, "", [], "Where to go when there is no `retry_target`.";
    OnFailure "on_failure" [graph node] Word(&["fail", "route"]), "fail", [], "`route` follows plain edges after a failure as after a success.";
    Routing "routing" [graph] Word(&["five_step", "first_match"]), "five_step", [], "How edges are chosen: the five steps, or the first that matches in the order of the file.";
    MaxNodeVisits "max_node_visits" [graph] Integer(1), "1000", [], "How often any node may be visited in a run.";
    MaxGoalGateReroutes "max_goal_gate_reroutes" [graph] Integer(0), "50", ["max_goal_gate_redirects"], "How often an unsatisfied goal gate may send the run back.";
    MaxRestarts "max_restarts" [graph] Integer(0), "20", [], "How often `loop_restart` may restart the run.";
    RestartKeep "restart_keep" [graph] Text, "", [], "Context keys, separated by commas, that survive a restart.";
    FailureBreaker "failure_breaker" [graph] Integer(0), "0", [], "How often running a stage may fail in the same way (reason, exit code, output, no file changed meanwhile) before the run fails; 0 is never.";
    ChildDotfile "stack.child_dotfile" [graph node] Text, "", ["stack.child_workflow"], "The pipeline file that a manager loop supervises, relative to the file that names it.";
    ChildWorkdir "stack.child_workdir" [graph node] Text, "", [], "The working folder of the supervised pipeline.";
    ChildAutostart "stack.child_autostart" [graph node] Boolean, "true", [], "Whether a manager loop starts its child.";
    SubpipelineFile "subpipeline.file" [node] Text, "", [], "The pipeline file that a sub-pipeline node runs, relative to the file that names it.";
    SubpipelineName "subpipeline.name" [node] Text, "", [], "The pipeline that a sub-pipeline node runs, by the name under which the program registered it, where no file is named.";
    SubpipelineInputs "subpipeline.inputs" [node] Pairs, "", [], "What a sub-pipeline's context starts with beside `goal`: `key`, or `child_key=parent_key`.";
    SubpipelineOutputs "subpipeline.outputs" [node] Pairs, "", [], "What comes back from a sub-pipeline's context: `key`, or `parent_key=child_key`.";
    HookPre "tool_hooks.pre" [graph node] Text, "", [], "Shell command before each tool call of a model.";
    HookPost "tool_hooks.post" [graph node] Text, "", [], "Shell command after each tool call of a model.";
    LlmModel "llm_model" [graph node] Text, "", [], "The model, by its name or by a tier of the configuration.";
    LlmProvider "llm_provider" [graph node] Text, "", [], "The provider of the model.";
    ReasoningEffort "reasoning_effort" [graph node] EFFORT, "", [], "How long a model may think; where nothing says it, the provider decides.";
    MaxCost "max_cost" [graph node] Float(0.0, f64::MAX), "", [], "The most that may be spent on models, in US dollars.";
    MaxTokens "max_tokens" [graph node] Integer(1), "", [], "The most tokens that may be used.";
    Shape "shape" [node] Text, "box", [], "The shape of the node, which chooses its handler.";
    Type "type" [node] Text, "", [], "The handler kind, where the shape should not choose it.";
    Prompt "prompt" [node] Text, "", [], "The instruction for the stage; `$goal` is expanded.";
    PromptFile "prompt_file" [node] Text, "", [], "A file with the prompt, relative to the file that names it; `prompt=\"@FILE\"` means the same.";
    PromptTemplates "prompt_templates" [graph] Boolean, "false", [], "Whether the prompts are templates, as tasks are; by default as the configuration says.";
    MaxRetries "max_retries" [node] Integer(0), "", [], "Additional attempts after the first.";
    RetryPolicy "retry_policy" [graph node] Word(&["none", "standard", "aggressive", "linear", "patient"]), "", ["backoff_policy"], "The preset of attempts and delays.";
    RetryInitialDelay "retry_initial_delay" [graph node] Time, "", [], "Delay before the first retry.";
    RetryBackoffFactor "retry_backoff_factor" [graph node] Float(0.0, f64::MAX), "", [], "Factor from one delay to the next.";
    RetryMaxDelay "retry_max_delay" [graph node] Time, "", [], "The longest delay between attempts.";
    RetryJitter "retry_jitter" [graph node] Boolean, "true", [], "Whether delays are varied at random by half.";
    GoalGate "goal_gate" [node] Condition, "false", [], "Whether the stage must have succeeded before the run may end; a condition says what must hold instead.";
    Fidelity "fidelity" [node edge] Text, "", [], "How much context the stage's model session carries.";
    ThreadId "thread_id" [node edge] Text, "", [], "Session key under `full` fidelity.";
    Class "class" [node] Text, "", [], "Class names, separated by commas, for the model stylesheet.";
    Timeout "timeout" [node] Time, "", [], "The longest that one attempt may take.";
    AutoStatus "auto_status" [node] Boolean, "false", [], "Whether a stage that writes no status counts as a success.";
    AllowPartial "allow_partial" [node] Boolean, "false", [], "Whether exhausted retries count as a partial success.";
    End "end" [node] Word(&["fail", "success"]), "", [], "How the run ends at a node without outgoing edges.";
    MaxVisits "max_visits" [node] Integer(1), "", [], "How often the node may be visited in a run.";
    Outcomes "outcomes" [node] Text, "", [], "The node's own outcome words, separated by commas.";
    OutputKeys "output_keys" [node] Text, "", [], "Keys, separated by commas, that the stage's response must hold.";
    Backend "backend" [graph node] Text, "", [], "The backend that runs the model stage.";
    Agent "agent" [node] Text, "", [], "The agent of the configuration that does the stage.";
    AgentRole "agent.role" [node] Text, "", [], "Role layer of the prompt.";
    AgentPersona "agent.persona" [node] Text, "", [], "Persona layer of the prompt.";
    AgentPersonality "agent.personality" [node] Text, "", [], "Personality layer of the prompt.";
    AgentTask "agent.task" [node] Text, "", [], "Task template of the prompt.";
    AgentTools "agent.tools" [node] Text, "", [], "Tools, separated by commas, that the model may use.";
    AgentMode "agent.mode" [node] Word(&["autonomous", "interactive"]), "autonomous", [], "Whether a person talks with the model during the stage.";
    ToolCommand "tool_command" [node] Text, "", [], "The shell command of a tool stage.";
    ToolEnv "tool_env" [graph node] Variables, "", [], "Environment variables, separated by commas, that the command of a tool stage sees although they would be withheld.";
    ToolEnvInherit "tool_env_inherit" [graph node] Boolean, "true", [], "Whether the command of a tool stage sees the environment of the run.";
    Repo "repo" [node] Text, "", [], "The repository of the configuration's workspace in which the stage works.";
    JoinPolicy "join_policy" [node] Word(&["wait_all", "k_of_n", "first_success", "quorum"]), "wait_all", [], "When a parallel block is satisfied.";
    JoinK "join_k" [node] Integer(1), "", [], "How many branches must succeed under `k_of_n`.";
    JoinQuorum "join_quorum" [node] Float(0.0, 1.0), "", [], "Which fraction of branches must succeed under `quorum`.";
    ErrorPolicy "error_policy" [node] Word(&["fail_fast", "continue", "ignore"]), "continue", [], "What a failed branch does to the others.";
    MaxParallel "max_parallel" [node] Integer(1), "4", [], "How many branches run at a time.";
    MergePolicy "merge_policy" [node] Word(&["merge", "best_only", "none"]), "merge", [], "Which branches' files a fan-in brings together: those of all that succeeded, those of the one that it chose, or none.";
    OnConflict "on_conflict" [node] Word(&["stage", "human", "fail"]), "stage", [], "Who mends files that branches of a fan-in changed in different ways: the next stage, a person, or nobody, which fails the fan-in.";
    DefaultChoice "human.default_choice" [node] Text, "", [], "The choice taken when nobody answers in time.";
    PollInterval "manager.poll_interval" [node] Time, "45s", [], "Time between two looks of a manager loop.";
    MaxCycles "manager.max_cycles" [node] Integer(1), "1000", [], "How often a manager loop looks.";
    StopCondition "manager.stop_condition" [node] Text, "", [], "Condition under which a manager loop ends with success.";
    GuardIntervene "manager.guard.intervene" [node] Text, "", [], "Condition under which a manager loop steers its child.";
    GuardEscalate "manager.guard.escalate" [node] Text, "", [], "Condition under which a manager loop gives its child up and fails.";
    SteerMessage "manager.steer_message" [node] Text, "", [], "What a manager loop tells its child when it steers.";
    SteerCooldown "manager.steer_cooldown" [node] Time, "", [], "The least time between two steerings of a manager loop.";
    ManagerActions "manager.actions" [node] Text, "observe,wait", [], "What a manager loop does in each cycle.";
    Condition "condition" [edge] Text, "", [], "When the edge may be taken (Attractor 10).";
    Weight "weight" [edge] Integer(ANY), "0", [], "Priority among edges that may be taken; the highest wins.";
    LoopRestart "loop_restart" [edge] Boolean, "false", [], "Whether taking the edge restarts the run at its target.";
    Freeform "freeform" [edge] Boolean, "false", [], "Whether the edge of a human gate takes free text.";
    ConditionType "condition_type" [edge] Word(&["always", "unconditional", "success", "failure", "conditional"]), "always", [], "When the edge may be taken, in first-match routing.";
    ConditionValue "condition_value" [edge] Text, "", [], "The output key, or key and value as JSON, that a `conditional` edge waits for.";
    AllowRevisit "allow_revisit" [edge] Boolean, "false", [], "Whether the edge may lead back to a visited node, in first-match routing.";
    MaxRevisits "max_revisits" [edge] Integer(1), "", [], "How often the edge may lead back.";
}

impl Known {
    /// Returns the row of the attribute in the table.
    pub fn spec(self) -> &'static AttributeSpec {
        &ATTRIBUTES[self as usize]
    }

    /// Returns the canonical name.
    pub fn name(self) -> &'static str {
        self.spec().name
    }
}

/// The key of an attribute. Unknown keys are preserved (rule L7).
///
/// ```
/// use orchestra_graph::{Key, Known};
/// assert_eq!(Key::from_name("backoff_policy"), Key::Known(Known::RetryPolicy));
/// assert_eq!(Key::from_name("backoff_policy").name(), "retry_policy");
/// assert_eq!(Key::from_name("registry"), Key::Other("registry".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A key that the language defines.
    Known(Known),
    /// Any other key. Handlers may read it.
    Other(Arc<str>),
}

impl Key {
    /// Returns the key for a name or alias.
    pub fn from_name(name: &str) -> Key {
        Known::find(name).map_or_else(|| Key::Other(name.into()), Key::Known)
    }

    /// Returns the canonical name.
    pub fn name(&self) -> &str {
        match self {
            Key::Known(known) => known.name(),
            Key::Other(name) => name,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Attribute names of other tools, with the attribute that each one means here (rule L7).
pub(crate) const FOREIGN: &[(&str, Known)] = &[
    ("command", Known::ToolCommand),
    ("script", Known::ToolCommand),
    ("cmd", Known::ToolCommand),
    ("model", Known::LlmModel),
    ("provider", Known::LlmProvider),
    ("handler", Known::Type),
    ("llm_prompt", Known::Prompt),
    ("quorum_count", Known::JoinK),
];

/// The name that other tools use for the child pipeline of any kind of node. The kind decides which attribute it means.
pub(crate) const FOREIGN_CHILD: &str = "dot_file";

/// A value of other tools that has exactly one meaning here (rule L7).
pub(crate) struct ForeignValue {
    /// The attribute.
    pub(crate) known: Known,
    /// The value in other tools.
    pub(crate) word: &'static str,
    /// The equivalent value here.
    pub(crate) value: &'static str,
    /// A second attribute that is part of the meaning.
    pub(crate) also: Option<(Known, &'static str)>,
}

/// The accepted values of other tools.
pub(crate) const FOREIGN_VALUES: &[ForeignValue] = &[
    ForeignValue {
        known: Known::JoinPolicy,
        word: "all_success",
        value: "wait_all",
        also: Some((Known::ErrorPolicy, "fail_fast")),
    },
    ForeignValue {
        known: Known::JoinPolicy,
        word: "any_success",
        value: "first_success",
        also: None,
    },
];

/// Returns the accepted value of another tool that equals the value of an attribute.
pub(crate) fn foreign_value(known: Known, value: &Value) -> Option<&'static ForeignValue> {
    let word = value.as_str()?.trim();
    FOREIGN_VALUES
        .iter()
        .find(|foreign| foreign.known == known && foreign.word == word)
}

/// Returns whether Graphviz uses the attribute for drawing (rule L7).
///
/// ```
/// use orchestra_graph::is_drawing_attribute;
/// assert!(is_drawing_attribute("fontname") && !is_drawing_attribute("prompt"));
/// ```
pub fn is_drawing_attribute(name: &str) -> bool {
    DRAWING.binary_search(&name).is_ok()
}

const DRAWING: &[&str] = &[
    "Damping",
    "K",
    "URL",
    "_background",
    "area",
    "arrowhead",
    "arrowsize",
    "arrowtail",
    "bb",
    "beautify",
    "bgcolor",
    "center",
    "charset",
    "cluster",
    "clusterrank",
    "color",
    "colorscheme",
    "comment",
    "compound",
    "concentrate",
    "constraint",
    "decorate",
    "defaultdist",
    "dim",
    "dimen",
    "dir",
    "diredgeconstraints",
    "distortion",
    "dpi",
    "edgeURL",
    "edgehref",
    "edgetarget",
    "edgetooltip",
    "epsilon",
    "esep",
    "fillcolor",
    "fixedsize",
    "fontcolor",
    "fontname",
    "fontnames",
    "fontpath",
    "fontsize",
    "forcelabels",
    "gradientangle",
    "group",
    "headURL",
    "head_lp",
    "headclip",
    "headhref",
    "headlabel",
    "headport",
    "headtarget",
    "headtooltip",
    "height",
    "href",
    "id",
    "image",
    "imagepath",
    "imagepos",
    "imagescale",
    "inputscale",
    "labelURL",
    "label_scheme",
    "labelangle",
    "labeldistance",
    "labelfloat",
    "labelfontcolor",
    "labelfontname",
    "labelfontsize",
    "labelhref",
    "labeljust",
    "labelloc",
    "labeltarget",
    "labeltooltip",
    "landscape",
    "layer",
    "layerlistsep",
    "layers",
    "layerselect",
    "layersep",
    "layout",
    "len",
    "levels",
    "levelsgap",
    "lhead",
    "lheight",
    "linelength",
    "lp",
    "ltail",
    "lwidth",
    "margin",
    "maxiter",
    "mclimit",
    "mindist",
    "minlen",
    "mode",
    "mosek",
    "newrank",
    "nodesep",
    "nojustify",
    "normalize",
    "notranslate",
    "nslimit",
    "nslimit1",
    "oneblock",
    "ordering",
    "orientation",
    "outputorder",
    "overlap",
    "overlap_scaling",
    "overlap_shrink",
    "pack",
    "packmode",
    "pad",
    "page",
    "pagedir",
    "pencolor",
    "penwidth",
    "peripheries",
    "pin",
    "pos",
    "quadtree",
    "quantum",
    "radius",
    "rank",
    "rankdir",
    "ranksep",
    "ratio",
    "rects",
    "regular",
    "remincross",
    "repulsiveforce",
    "resolution",
    "root",
    "rotate",
    "rotation",
    "samehead",
    "sametail",
    "samplepoints",
    "scale",
    "searchsize",
    "sep",
    "shapefile",
    "showboxes",
    "sides",
    "size",
    "skew",
    "smoothing",
    "sortv",
    "splines",
    "start",
    "style",
    "stylesheet",
    "tailURL",
    "tail_lp",
    "tailclip",
    "tailhref",
    "taillabel",
    "tailport",
    "tailtarget",
    "tailtooltip",
    "target",
    "tooltip",
    "truecolor",
    "vertices",
    "viewport",
    "voro_margin",
    "width",
    "xdotversion",
    "xlabel",
    "xlp",
    "z",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_their_keys() {
        for (index, spec) in ATTRIBUTES.iter().enumerate() {
            assert_eq!(spec.known as usize, index);
            assert_eq!(Known::find(spec.name), Some(spec.known));
        }
    }

    #[test]
    fn drawing_attributes_are_sorted() {
        assert!(DRAWING.is_sorted());
        assert!(is_drawing_attribute("rankdir") && !is_drawing_attribute("prompt"));
    }

    #[test]
    fn coercion_accepts_quoted_scalars_and_refuses_nonsense() {
        assert_eq!(
            Boolean.coerce(&Value::String("true".into())),
            Some(Value::Boolean(true))
        );
        assert_eq!(
            Integer(0).coerce(&Value::String("3".into())),
            Some(Value::Integer(3))
        );
        assert_eq!(Integer(0).coerce(&Value::Integer(-3)), None);
        let whole = |value: Value| Integer(ANY).coerce(&value);
        assert_eq!(whole(Value::Float(2.0)), Some(Value::Integer(2)));
        assert_eq!(whole(Value::String("-2.0".into())), Some(Value::Integer(-2)));
        assert_eq!(whole(Value::Float(2.5)), None);
        assert_eq!(whole(Value::Float(1e300)), None);
        assert_eq!(whole(Value::String("inf".into())), None);
        assert_eq!(Integer(0).coerce(&Value::Float(-2.0)), None);
        let gate = |text: &str| Condition.coerce(&Value::String(text.into()));
        assert_eq!(gate(" true "), Some(Value::Boolean(true)));
        assert_eq!(
            gate("outcome = success"),
            Some(Value::String("outcome = success".into()))
        );
        assert!(gate("outcme=success").is_some(), "`condition_syntax` reports it");
        assert_eq!(gate("yes"), None);
        assert_eq!(gate(""), None);
        assert_eq!(
            Time.coerce(&Value::Integer(5)),
            Some(Value::Duration(Duration::from_secs(5)))
        );
        assert_eq!(Time.coerce(&Value::String("soon".into())), None);
        let pairs = |text: &str| Pairs.coerce(&Value::String(text.into())).is_some();
        assert!(pairs("release, child.version=version") && pairs(""));
        let variables = |text: &str| Variables.coerce(&Value::String(text.into())).is_some();
        assert!(variables("CI, GITHUB_TOKEN,") && variables(""));
        assert!(!variables("CI=true") && !variables("CI GITHUB_TOKEN"));
        assert!(!pairs("a=") && !pairs("=b") && !pairs("a=b=c") && !pairs("two words"));
    }
}
