//! The powers that a pipeline requires: what its stages do beyond asking models and people.

use std::fmt;

use crate::attribute::Known;
use crate::kind;
use crate::table::{Constant, Pipeline, Stage};
use crate::text::Position;

/// A kind of power.
///
/// ```
/// use orchestra_graph::PowerKind;
/// assert_eq!(PowerKind::Command.word(), "command");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PowerKind {
    /// A stage executes a shell command.
    Command,
    /// A shell command is executed around the tool calls of a model.
    Hook,
    /// A stage reads a file that the pipeline names, or works in a repository of the configuration.
    File,
    /// A stage runs another pipeline.
    Child,
    /// A stage asks a model that may have tools, or a program in its place.
    Agent,
    /// A stage calls a handler of the program.
    Handler,
}

impl PowerKind {
    /// Returns the name.
    pub const fn word(self) -> &'static str {
        match self {
            PowerKind::Command => "command",
            PowerKind::Hook => "hook",
            PowerKind::File => "file",
            PowerKind::Child => "child",
            PowerKind::Agent => "agent",
            PowerKind::Handler => "handler",
        }
    }
}

/// A power that a pipeline requires; see [`powers`].
///
/// ```
/// use orchestra_graph::{Source, load, powers};
/// let text = r#"digraph { start -> t -> exit; t [shape=parallelogram, tool_command="make"] }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// assert_eq!(powers(&pipeline)[0].to_string(), "node `t` executes a shell command (`tool_command`)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Power {
    /// The kind.
    pub kind: PowerKind,
    /// The id of the node. `None` if the graph requires the power for all of its nodes.
    pub node: Option<String>,
    /// The attribute that requires it. `None` if the kind of the node does.
    pub attribute: Option<&'static str>,
    /// The position of the node in the text; line 0 if the graph requires the power.
    pub position: Position,
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "node `{node}` ")?,
            None => f.write_str("the graph ")?,
        }
        f.write_str(match self.kind {
            PowerKind::Command => "executes a shell command",
            PowerKind::Hook => "executes a shell command around tool calls",
            PowerKind::File => "uses files",
            PowerKind::Child => "runs another pipeline",
            PowerKind::Agent => "asks a model that may use tools (`backend=direct` asks it without tools)",
            PowerKind::Handler => "calls a handler of the program",
        })?;
        match self.attribute {
            Some(attribute) => write!(f, " (`{attribute}`)"),
            None => Ok(()),
        }
    }
}

/// Returns the powers that a pipeline requires, in the order of its nodes. A server that runs pipelines of people whom
/// it does not trust refuses those that require any.
///
/// Which tools a model has depends on the configuration of the project. A stage that asks a model therefore requires a
/// power unless it names the backend `direct`, which has no tools, or `simulation`.
///
/// ```
/// use orchestra_graph::{PowerKind, Source, load, powers};
/// let kinds = |text: &str| -> Vec<PowerKind> {
///     let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
///     powers(&pipeline).iter().map(|power| power.kind).collect()
/// };
/// assert_eq!(kinds(r#"digraph { start -> ask -> exit; ask [prompt="Write a poem."] }"#), [PowerKind::Agent]);
/// assert_eq!(kinds(r#"digraph { start -> ask -> exit; ask [prompt="Write a poem.", backend=direct] }"#), []);
/// assert_eq!(kinds("digraph { start -> ship -> exit; ship [type=deploy] }"), [PowerKind::Handler]);
/// ```
pub fn powers(pipeline: &Pipeline) -> Vec<Power> {
    let of_graph = pipeline.attributes(pipeline.graph_attributes);
    let mut powers: Vec<Power> = of_graph
        .filter_map(|(name, value)| {
            let (kind, attribute) = of_attribute(name, value)?;
            Some(Power {
                kind,
                node: None,
                attribute: Some(attribute),
                position: Position::default(),
            })
        })
        .collect();
    for stage in pipeline.stages() {
        powers.extend(of_stage(stage));
    }
    powers
}

fn of_stage(stage: Stage<'_>) -> Vec<Power> {
    let power = |kind, attribute| Power {
        kind,
        node: Some(stage.id().to_owned()),
        attribute,
        position: stage.row().position,
    };
    let attributes = stage.pipeline().attributes(stage.row().attributes);
    let mut powers: Vec<Power> = attributes
        .filter_map(|(name, value)| of_attribute(name, value))
        .map(|(kind, attribute)| power(kind, Some(attribute)))
        .collect();
    let by_kind = match stage.kind() {
        kind::TOOL => Some(PowerKind::Command),
        kind::MANAGER_LOOP | kind::SUBPIPELINE => Some(PowerKind::Child),
        _ if stage.calls_model() => {
            let without_tools = matches!(stage.text("backend"), Some("direct" | "simulation"));
            (!without_tools).then_some(PowerKind::Agent)
        }
        kind if kind::BUILT_IN.contains(&kind) => None,
        _ => Some(PowerKind::Handler),
    };
    if let Some(kind) = by_kind
        && !powers.iter().any(|power| power.kind == kind)
    {
        powers.push(power(kind, None));
    }
    powers
}

/// Returns the power that an attribute requires, and its canonical name.
fn of_attribute(name: &str, value: Constant<&str>) -> Option<(PowerKind, &'static str)> {
    let known = Known::find(name)?;
    let empty = matches!(value, Constant::String(""));
    let kind = match known {
        _ if empty => return None,
        Known::ToolCommand => PowerKind::Command,
        Known::HookPre | Known::HookPost => PowerKind::Hook,
        Known::PromptFile | Known::OutputSchemaFile | Known::Repo => PowerKind::File,
        Known::Prompt if matches!(value, Constant::String(text) if text.starts_with('@')) => PowerKind::File,
        Known::ChildDotfile | Known::ChildWorkdir | Known::SubpipelineFile | Known::SubpipelineName => {
            PowerKind::Child
        }
        // Every other attribute is listed, so that a new one is not forgotten here.
        Known::Goal
        | Known::Label
        | Known::ModelStylesheet
        | Known::DefaultMaxRetries
        | Known::DefaultFidelity
        | Known::DefaultThreadId
        | Known::RetryTarget
        | Known::FallbackRetryTarget
        | Known::OnFailure
        | Known::Routing
        | Known::MaxNodeVisits
        | Known::MaxGoalGateReroutes
        | Known::MaxRestarts
        | Known::RestartKeep
        | Known::FailureBreaker
        | Known::ChildAutostart
        | Known::SubpipelineInputs
        | Known::SubpipelineOutputs
        | Known::LlmModel
        | Known::LlmProvider
        | Known::ReasoningEffort
        | Known::MaxCost
        | Known::MaxTokens
        | Known::Shape
        | Known::Type
        | Known::Prompt
        | Known::PromptTemplates
        | Known::MaxRetries
        | Known::RetryPolicy
        | Known::RetryInitialDelay
        | Known::RetryBackoffFactor
        | Known::RetryMaxDelay
        | Known::RetryJitter
        | Known::GoalGate
        | Known::Fidelity
        | Known::ThreadId
        | Known::Class
        | Known::Timeout
        | Known::AutoStatus
        | Known::AllowPartial
        | Known::End
        | Known::MaxVisits
        | Known::Outcomes
        | Known::OutputKeys
        | Known::Inputs
        | Known::Outputs
        | Known::OutputSchema
        | Known::Backend
        | Known::Agent
        | Known::AgentRole
        | Known::AgentPersona
        | Known::AgentPersonality
        | Known::AgentTask
        | Known::AgentTools
        | Known::AgentMode
        | Known::ToolEnv
        | Known::ToolStdin
        | Known::ToolEnvInherit
        | Known::Pool
        | Known::JoinPolicy
        | Known::JoinK
        | Known::JoinQuorum
        | Known::ErrorPolicy
        | Known::Foreach
        | Known::ForeachMax
        | Known::MaxParallel
        | Known::MergePolicy
        | Known::OnConflict
        | Known::DefaultChoice
        | Known::PollInterval
        | Known::MaxCycles
        | Known::StopCondition
        | Known::GuardIntervene
        | Known::GuardEscalate
        | Known::SteerMessage
        | Known::SteerCooldown
        | Known::ManagerActions
        | Known::Condition
        | Known::Weight
        | Known::LoopRestart
        | Known::Freeform
        | Known::ConditionType
        | Known::ConditionValue
        | Known::AllowRevisit
        | Known::MaxRevisits
        | Known::Assert => return None,
    };
    Some((kind, known.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Source;

    fn named(text: &str) -> Vec<String> {
        let loaded = crate::load(Source::new("a.dot", text), &Default::default());
        let pipeline = loaded.pipeline().unwrap_or_else(|| panic!("{:?}", loaded.report));
        powers(&pipeline).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_power_is_named_with_its_node_and_attribute() {
        let text = r#"digraph { tool_hooks.pre="make log"; start -> a -> b -> c -> d -> e -> exit
            a [shape=parallelogram, tool_command="make"]
            b [prompt="Think.", tool_hooks.post="notify", repo=main, backend=direct]
            c [prompt_file="plan.md", backend=direct]
            d [shape=folder, subpipeline.file="d.dot"]
            e [type="shop.send"] }"#;
        assert_eq!(
            named(text),
            [
                "the graph executes a shell command around tool calls (`tool_hooks.pre`)",
                "node `a` executes a shell command (`tool_command`)",
                "node `b` executes a shell command around tool calls (`tool_hooks.post`)",
                "node `b` uses files (`repo`)",
                "node `c` uses files (`prompt_file`)",
                "node `d` runs another pipeline (`subpipeline.file`)",
                "node `e` calls a handler of the program",
            ]
        );
    }

    #[test]
    fn a_tool_without_a_command_is_a_tool_all_the_same() {
        assert_eq!(
            named("digraph { start -> t -> exit; t [shape=parallelogram] }"),
            ["node `t` executes a shell command"]
        );
        assert_eq!(
            named(r#"digraph { start -> a -> exit; a [prompt="@secret.md", backend=direct] }"#).len(),
            1
        );
    }

    #[test]
    fn models_without_tools_people_and_routing_need_no_power() {
        let text = r#"digraph { node [backend=direct]; start -> plan -> ask; plan [prompt="Plan."]; ask [shape=hexagon]
            ask -> fan [label=Go]; ask -> exit [label=Stop]; fan [shape=component]; fan -> x -> join; fan -> y -> join
            x [prompt="X."]; y [prompt="Y."]; join [shape=tripleoctagon]; join -> way; way [shape=diamond]
            way -> exit [condition="outcome=success"]; way -> plan [condition="outcome=fail"] }"#;
        assert_eq!(named(text), Vec::<String>::new());
    }

    #[test]
    fn a_model_may_have_tools_unless_its_backend_has_none() {
        let of = |attributes: &str| named(&format!("digraph {{ start -> a -> exit; a [{attributes}] }}"));
        let agent = "node `a` asks a model that may use tools (`backend=direct` asks it without tools)";
        for attributes in [
            "prompt=x",
            "prompt=x, backend=agent",
            "prompt=x, backend=coder",
            "prompt=x, backend=Direct",
            "prompt=x, backend=\" direct\"",
        ] {
            assert_eq!(of(attributes), [agent], "{attributes}");
        }
        assert_eq!(of("prompt=x, backend=direct"), Vec::<String>::new());
        let judge = r#"digraph { start -> fan; fan [shape=component]; fan -> x -> join; fan -> y -> join
            x [shape=diamond]; y [shape=diamond]; join [shape=tripleoctagon, prompt="Which is better?"]; join -> exit }"#;
        assert_eq!(named(judge).len(), 1, "{:?}", named(judge));
    }
}
