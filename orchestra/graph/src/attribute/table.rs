//! The attribute table with one row per attribute, used by the parser, the checks, the engine and the documentation.

use std::time::Duration;

use super::default_value::AttributeDefault;
use super::scope::Scopes;
use super::value_type::AttributeType::{
    self, Boolean, Condition, Duration as Time, Float, Integer, Name, Node, Pairs, String as Text, Variables,
    Word,
};

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
    /// The value that applies if nothing sets the attribute; `None` if there is no fixed one.
    pub default: Option<AttributeDefault>,
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
    ($($variant:ident $name:literal [$($scope:ident)+] $ty:expr, $default:expr, [$($alias:literal)*], $doc:literal;)+) => {
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

        /// All names and aliases with their attributes.
        const NAMES: &[(&str, Known)] = &[$(($name, Known::$variant), $(($alias, Known::$variant),)*)+];

        impl Known {
            /// Returns the value that applies if nothing sets the attribute.
            ///
            /// ```
            /// use orchestra_graph::{AttributeDefault, Known};
            /// assert_eq!(Known::MaxParallel.default_value(), Some(AttributeDefault::Integer(4)));
            /// assert_eq!(Known::MaxVisits.default_value(), None);
            /// ```
            pub const fn default_value(self) -> Option<AttributeDefault> {
                match self {
                    $(Known::$variant => $default,)+
                }
            }
        }
    };
}

const fn text(text: &'static str) -> Option<AttributeDefault> {
    Some(AttributeDefault::String(text))
}

const fn number(number: i64) -> Option<AttributeDefault> {
    Some(AttributeDefault::Integer(number))
}

const fn factor(number: f64) -> Option<AttributeDefault> {
    Some(AttributeDefault::Float(number))
}

const fn flag(value: bool) -> Option<AttributeDefault> {
    Some(AttributeDefault::Boolean(value))
}

const fn millis(millis: u64) -> Option<AttributeDefault> {
    Some(AttributeDefault::Duration(Duration::from_millis(millis)))
}

const fn seconds(seconds: u64) -> Option<AttributeDefault> {
    Some(AttributeDefault::Duration(Duration::from_secs(seconds)))
}

const ANY: i64 = i64::MIN;
const EFFORT: AttributeType = Word(&["low", "medium", "high"]);

attributes! {
    Goal "goal" [graph] Text, None, [], "The goal of the pipeline: `$goal` in prompts, `graph.goal` in the context.";
    Label "label" [graph node edge] Text, None, [], "The name that people see. On an edge it is also the key for routing by label.";
    ModelStylesheet "model_stylesheet" [graph] Text, None, ["model_spec"], "Rules that set model attributes on nodes (Attractor 8).";
    DefaultMaxRetries "default_max_retries" [graph] Integer(0), number(0), ["default_max_retry"], "Additional attempts of nodes that set no `max_retries`.";
    DefaultFidelity "default_fidelity" [graph] Text, text("compact"), [], "Context fidelity of nodes that set none.";
    DefaultThreadId "default_thread_id" [graph] Text, None, [], "Session key of nodes that set no `thread_id`.";
    RetryTarget "retry_target" [graph node] Node, None, [], "The node at which the run continues after a failure, or from the exit if a goal gate is unsatisfied.";
    FallbackRetryTarget "fallback_retry_target" [graph node] Node, None, [], "The node at which the run continues if there is no `retry_target`.";
    OnFailure "on_failure" [graph node] Word(&["fail", "route"]), text("fail"), [], "With `route`, a failed stage also follows edges without a condition.";
    Routing "routing" [graph] Word(&["five_step", "first_match"]), text("five_step"), [], "The way edges are selected: by the five steps, or the first one in the file whose condition holds.";
    MaxNodeVisits "max_node_visits" [graph] Integer(1), number(1_000), [], "The maximum number of visits of any node in a run.";
    MaxGoalGateReroutes "max_goal_gate_reroutes" [graph] Integer(0), number(50), ["max_goal_gate_redirects"], "The maximum number of times an unsatisfied goal gate may send the run back.";
    MaxRestarts "max_restarts" [graph] Integer(0), number(20), [], "The maximum number of restarts by `loop_restart`.";
    RestartKeep "restart_keep" [graph] Text, None, [], "Context keys, separated by commas, that survive a restart.";
    Assert "assert" [graph] Text, None, [], "What must hold in every run, separated by `;`: `requires(NODE, STAGE[=RESULT][, since=NODE])`, `handled(STAGE)`.";
    FailureBreaker "failure_breaker" [graph] Integer(0), number(0), [], "The number of equal failures of a stage in a row (reason, exit code, output, no changed files) after which the run fails; 0 disables it.";
    ChildDotfile "stack.child_dotfile" [graph node] Text, None, ["stack.child_workflow"], "The pipeline file that a manager loop supervises, relative to the file that names it.";
    ChildWorkdir "stack.child_workdir" [graph node] Text, None, [], "The working folder of the supervised pipeline.";
    ChildAutostart "stack.child_autostart" [graph node] Boolean, flag(true), [], "If true, a manager loop starts its child.";
    SubpipelineFile "subpipeline.file" [node] Text, None, [], "The pipeline file that a sub-pipeline node runs, relative to the file that names it.";
    SubpipelineName "subpipeline.name" [node] Text, None, [], "The pipeline that a sub-pipeline node runs if it names no file: the name under which the program registered it.";
    SubpipelineInputs "subpipeline.inputs" [node] Pairs, None, [], "The keys that a sub-pipeline's context receives besides `goal`: `key`, or `child_key=parent_key`.";
    SubpipelineOutputs "subpipeline.outputs" [node] Pairs, None, [], "The keys that a sub-pipeline's context returns: `key`, or `parent_key=child_key`.";
    HookPre "tool_hooks.pre" [graph node] Text, None, [], "Shell command before each tool call of a model.";
    HookPost "tool_hooks.post" [graph node] Text, None, [], "Shell command after each tool call of a model.";
    LlmModel "llm_model" [graph node] Text, None, [], "The model, by its name or by a tier of the configuration.";
    LlmProvider "llm_provider" [graph node] Text, None, [], "The provider of the model.";
    ReasoningEffort "reasoning_effort" [graph node] EFFORT, None, [], "The reasoning effort of the model. Without it, the provider decides.";
    MaxCost "max_cost" [graph node] Float(0.0, f64::MAX), None, [], "The maximum cost of models in US dollars.";
    MaxTokens "max_tokens" [graph node] Integer(1), None, [], "The maximum number of tokens.";
    Shape "shape" [node] Text, text("box"), [], "The shape of the node, which selects its handler.";
    Type "type" [node] Text, None, [], "The kind of the handler, instead of the kind that the shape selects.";
    Prompt "prompt" [node] Text, None, [], "The instruction for the stage; `$goal` is expanded.";
    PromptFile "prompt_file" [node] Text, None, [], "A file with the prompt, relative to the file that names it; `prompt=\"@FILE\"` means the same.";
    PromptTemplates "prompt_templates" [graph] Boolean, None, [], "If true, prompts are templates, as tasks are. The default depends on the configuration.";
    MaxRetries "max_retries" [node] Integer(0), None, [], "Additional attempts after the first.";
    RetryPolicy "retry_policy" [graph node] Word(&["none", "standard", "aggressive", "linear", "patient"]), None, ["backoff_policy"], "The preset of attempts and delays.";
    RetryInitialDelay "retry_initial_delay" [graph node] Time, millis(200), [], "Delay before the first retry.";
    RetryBackoffFactor "retry_backoff_factor" [graph node] Float(0.0, f64::MAX), factor(2.0), [], "Factor from one delay to the next.";
    RetryMaxDelay "retry_max_delay" [graph node] Time, seconds(60), [], "The maximum delay between attempts.";
    RetryJitter "retry_jitter" [graph node] Boolean, flag(true), [], "If true, delays vary randomly by up to half.";
    GoalGate "goal_gate" [node] Condition, flag(false), [], "If true, a run can succeed only if the stage has succeeded. If a condition, a run can succeed only if it holds.";
    Fidelity "fidelity" [node edge] Text, None, [], "The amount of context in the stage's model session.";
    ThreadId "thread_id" [node edge] Text, None, [], "Session key under `full` fidelity.";
    Class "class" [node] Text, None, [], "Class names, separated by commas, for the model stylesheet.";
    Timeout "timeout" [node] Time, None, [], "The maximum duration of one attempt.";
    AutoStatus "auto_status" [node] Boolean, flag(false), [], "If true, a stage that writes no status succeeds.";
    AllowPartial "allow_partial" [node] Boolean, flag(false), [], "If true, exhausted retries count as a partial success.";
    End "end" [node] Word(&["fail", "success"]), None, [], "The status of a run that ends at this node, which has no outgoing edges.";
    MaxVisits "max_visits" [node] Integer(1), None, [], "The maximum number of visits of the node in a run.";
    Outcomes "outcomes" [node] Text, None, [], "Outcomes of the node besides the built-in ones, separated by commas.";
    OutputKeys "output_keys" [node] Text, None, [], "Keys, separated by commas, that the stage's response must contain.";
    Inputs "inputs" [graph] Text, None, [], "The context values that a run needs, with their types: `pr: text, dry_run: bool?`.";
    Outputs "outputs" [node] Text, None, [], "The context values that every success of the stage sets, with their types.";
    OutputSchema "output_schema" [node] Text, None, [], "The JSON schema of the stage's answer, whose properties become context values: a file, relative to the file that names it, or the schema itself, or `outputs` for the declared outputs.";
    OutputSchemaFile "output_schema_file" [node] Text, None, [], "A file with the JSON schema of the answer; `output_schema=\"FILE\"` means the same.";
    Backend "backend" [graph node] Text, None, [], "The backend that runs the model stage.";
    Agent "agent" [node] Text, None, [], "The agent of the configuration that runs the stage.";
    AgentRole "agent.role" [node] Text, None, [], "Role layer of the prompt.";
    AgentPersona "agent.persona" [node] Text, None, [], "Persona layer of the prompt.";
    AgentPersonality "agent.personality" [node] Text, None, [], "Personality layer of the prompt.";
    AgentTask "agent.task" [node] Text, None, [], "Task template of the prompt.";
    AgentTools "agent.tools" [node] Text, None, [], "Tools, separated by commas, that the model may use.";
    AgentMode "agent.mode" [node] Word(&["autonomous", "interactive"]), text("autonomous"), [], "`interactive` if a person talks with the model during the stage.";
    ToolCommand "tool_command" [node] Text, None, [], "The shell command of a tool stage.";
    ToolEnv "tool_env" [graph node] Variables, None, [], "Environment variables, separated by commas, that the command of a tool stage sees, but which are withheld by default.";
    ToolStdin "tool_stdin" [node] Text, None, [], "The key of the context value, or `stages.ID.output`, that the command of a tool stage reads from its standard input.";
    ToolEnvInherit "tool_env_inherit" [graph node] Boolean, flag(true), [], "If true, the command of a tool stage sees the environment of the run.";
    Repo "repo" [node] Text, None, [], "The repository of the configuration's workspace in which the stage works.";
    Pool "pool" [graph node] Name, None, [], "The pool of workers that executes the stage in a run on a server; on the graph, all stages. A node with an empty one needs no pool. The embedded engine executes every stage itself.";
    JoinPolicy "join_policy" [node] Word(&["wait_all", "k_of_n", "first_success", "quorum"]), text("wait_all"), [], "The condition for the success of a parallel block.";
    JoinK "join_k" [node] Integer(1), None, [], "The number of branches that must succeed for `k_of_n`.";
    JoinQuorum "join_quorum" [node] Float(0.0, 1.0), None, [], "The fraction of branches that must succeed for `quorum`.";
    ErrorPolicy "error_policy" [node] Word(&["fail_fast", "continue", "ignore"]), text("continue"), [], "The effect of a failed branch on the others.";
    Foreach "foreach" [node] Text, None, [], "The key of a list in the context. The fan-out runs its branch once for each item, which is `parallel.item` there.";
    ForeachMax "foreach_max" [node] Integer(1), None, [], "The maximum number of items of the `foreach` list. The fan-out fails if there are more.";
    MaxParallel "max_parallel" [node] Integer(1), number(4), [], "The maximum number of branches that run at a time.";
    MergePolicy "merge_policy" [node] Word(&["merge", "best_only", "none"]), text("merge"), [], "The branches whose files a fan-in merges: all that succeeded, the one that it chose, or none.";
    OnConflict "on_conflict" [node] Word(&["stage", "human", "fail"]), text("stage"), [], "Who resolves conflicts between the files of branches: the next stage, a person, or nobody, in which case the fan-in fails.";
    DefaultChoice "human.default_choice" [node] Text, None, [], "The choice that is taken if nobody answers in time.";
    PollInterval "manager.poll_interval" [node] Time, seconds(45), [], "The time between two cycles of a manager loop.";
    MaxCycles "manager.max_cycles" [node] Integer(1), number(1_000), [], "The maximum number of cycles of a manager loop.";
    StopCondition "manager.stop_condition" [node] Text, None, [], "The condition under which a manager loop succeeds.";
    GuardIntervene "manager.guard.intervene" [node] Text, None, [], "The condition under which a manager loop steers its child.";
    GuardEscalate "manager.guard.escalate" [node] Text, None, [], "The condition under which a manager loop cancels its child and fails.";
    SteerMessage "manager.steer_message" [node] Text, None, [], "The instruction that a manager loop sends to its child when it steers.";
    SteerCooldown "manager.steer_cooldown" [node] Time, seconds(0), [], "The minimum time between two instructions of a manager loop.";
    ManagerActions "manager.actions" [node] Text, text("observe,wait"), [], "The actions of a manager loop in each cycle.";
    Condition "condition" [edge] Text, None, [], "The condition of the edge (Attractor 10).";
    Weight "weight" [edge] Integer(ANY), number(0), [], "The priority among edges that may be taken; the highest wins.";
    LoopRestart "loop_restart" [edge] Boolean, flag(false), [], "If true, the edge restarts the run at its target.";
    Freeform "freeform" [edge] Boolean, flag(false), [], "If true, this edge of a human gate accepts free text.";
    ConditionType "condition_type" [edge] Word(&["always", "unconditional", "success", "failure", "conditional"]), text("always"), [], "The kind of the edge's condition in first-match routing.";
    ConditionValue "condition_value" [edge] Text, None, [], "The output key, or the key and value as JSON, that a `conditional` edge tests.";
    AllowRevisit "allow_revisit" [edge] Boolean, flag(false), [], "If true, the edge may lead back to a visited node in first-match routing.";
    MaxRevisits "max_revisits" [edge] Integer(1), None, [], "The maximum number of times the edge may lead back.";
}

/// The number of slots of [`BY_NAME`]: a power of two of which at most half are used.
const SLOTS: usize = (NAMES.len() * 2).next_power_of_two();

/// The mark of an unused slot.
const UNUSED: u16 = u16::MAX;

/// The hash table of the names: each has its index in [`NAMES`] at its hash, or in the next unused slot.
static BY_NAME: [u16; SLOTS] = {
    let mut slots = [UNUSED; SLOTS];
    let mut index = 0;
    while index < NAMES.len() {
        let mut slot = slot_of(NAMES[index].0);
        while slots[slot] != UNUSED {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = index as u16;
        index += 1;
    }
    slots
};

/// Returns the slot of a name: a hash of its length and of its first, middle and last byte, which few names share.
const fn slot_of(name: &str) -> usize {
    let bytes = name.as_bytes();
    let length = bytes.len();
    if length == 0 {
        return 0;
    }
    let hash = (bytes[0] as usize * 31 + bytes[length / 2] as usize) * 31 + bytes[length - 1] as usize;
    (hash * 31 + length) % SLOTS
}

impl Known {
    /// Returns the attribute with this name or alias.
    ///
    /// ```
    /// use orchestra_graph::Known;
    /// assert_eq!(Known::find("model_spec"), Some(Known::ModelStylesheet));
    /// ```
    pub fn find(name: &str) -> Option<Known> {
        let mut slot = slot_of(name);
        while BY_NAME[slot] != UNUSED {
            let (found, known) = NAMES[usize::from(BY_NAME[slot])];
            if found == name {
                return Some(known);
            }
            slot = (slot + 1) % SLOTS;
        }
        None
    }

    /// Returns the row of the attribute in the table.
    pub fn spec(self) -> &'static AttributeSpec {
        &ATTRIBUTES[self as usize]
    }

    /// Returns the canonical name.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Returns the default of an attribute whose value is text; empty if it has none.
    #[doc(hidden)]
    pub const fn default_text(self) -> &'static str {
        match self.default_value() {
            Some(AttributeDefault::String(text)) => text,
            _ => "",
        }
    }

    /// Returns the default of an attribute whose value is `true` or `false`; `false` if it has none.
    #[doc(hidden)]
    pub const fn default_flag(self) -> bool {
        matches!(self.default_value(), Some(AttributeDefault::Boolean(true)))
    }

    /// Returns the default of an attribute whose value is a whole number.
    ///
    /// ```
    /// use orchestra_graph::Known;
    /// const WEIGHT: i64 = Known::Weight.default_integer();
    /// assert_eq!(WEIGHT, 0);
    /// ```
    ///
    /// # Panics
    /// Panics if the attribute has no such default. In a constant, this is a compile error.
    #[doc(hidden)]
    #[allow(clippy::panic, reason = "a panic in a constant is a compile error")]
    pub const fn default_integer(self) -> i64 {
        match self.default_value() {
            Some(AttributeDefault::Integer(number)) => number,
            _ => panic!("the default of the attribute is not a whole number"),
        }
    }

    /// Returns the default of an attribute whose value is a count.
    ///
    /// ```
    /// use orchestra_graph::Known;
    /// const MAX_PARALLEL: u32 = Known::MaxParallel.default_count();
    /// assert_eq!(MAX_PARALLEL, 4);
    /// ```
    ///
    /// # Panics
    /// Panics if the attribute has no such default. In a constant, this is a compile error.
    #[doc(hidden)]
    #[allow(clippy::panic, reason = "a panic in a constant is a compile error")]
    pub const fn default_count(self) -> u32 {
        match self.default_integer() {
            number @ 0..=0xffff_ffff => number as u32,
            _ => panic!("the default of the attribute is not a count"),
        }
    }

    /// Returns the default of an attribute whose value is a decimal number.
    ///
    /// ```
    /// use orchestra_graph::Known;
    /// const FACTOR: f64 = Known::RetryBackoffFactor.default_float();
    /// assert_eq!(FACTOR, 2.0);
    /// ```
    ///
    /// # Panics
    /// Panics if the attribute has no such default. In a constant, this is a compile error.
    #[doc(hidden)]
    #[allow(clippy::panic, reason = "a panic in a constant is a compile error")]
    pub const fn default_float(self) -> f64 {
        match self.default_value() {
            Some(AttributeDefault::Float(number)) => number,
            _ => panic!("the default of the attribute is not a decimal number"),
        }
    }

    /// Returns the default of an attribute whose value is a duration.
    ///
    /// ```
    /// use std::time::Duration;
    /// use orchestra_graph::Known;
    /// const POLL_INTERVAL: Duration = Known::PollInterval.default_duration();
    /// assert_eq!(POLL_INTERVAL, Duration::from_secs(45));
    /// ```
    ///
    /// # Panics
    /// Panics if the attribute has no such default. In a constant, this is a compile error.
    #[doc(hidden)]
    #[allow(clippy::panic, reason = "a panic in a constant is a compile error")]
    pub const fn default_duration(self) -> Duration {
        match self.default_value() {
            Some(AttributeDefault::Duration(duration)) => duration,
            _ => panic!("the default of the attribute is not a duration"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn rows_stand_in_the_order_of_their_keys() {
        for (index, spec) in ATTRIBUTES.iter().enumerate() {
            assert_eq!(spec.known as usize, index);
            for name in spec.aliases.iter().chain([&spec.name]) {
                assert_eq!(Known::find(name), Some(spec.known), "{name}");
            }
        }
    }

    #[test]
    fn defaults_are_values_of_their_attributes() {
        for spec in ATTRIBUTES {
            let Some(default) = spec.default else {
                continue;
            };
            let written = Value::of_word(&default.to_string());
            let value = spec.ty.coerce(&written).expect(spec.name);
            assert_eq!(value.to_string(), default.to_string(), "{}", spec.name);
        }
    }
}
