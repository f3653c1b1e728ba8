//! The kinds of node that read an attribute.

use super::family::AttributeFamily;
use super::table::Known;
use crate::kind;

/// The attributes that only a stage with a handler reads, and that are reported elsewhere.
pub(crate) const OF_STAGES: &[Known] = &[
    Known::MaxRetries,
    Known::RetryPolicy,
    Known::GoalGate,
    Known::Timeout,
    Known::AllowPartial,
];

/// The attributes that only one kind of node reads.
pub(crate) const OF_ONE_KIND: &[(&str, &[Known])] = &[
    (kind::WAIT_HUMAN, &[Known::DefaultChoice]),
    (
        kind::PARALLEL,
        &[
            Known::JoinPolicy,
            Known::JoinK,
            Known::JoinQuorum,
            Known::ErrorPolicy,
            Known::Foreach,
            Known::ForeachMax,
            Known::MaxParallel,
        ],
    ),
    (kind::FAN_IN, &[Known::MergePolicy, Known::OnConflict]),
    (kind::TOOL, &[Known::ToolStdin]),
    (kind::CODERGEN, &[Known::OutputSchema, Known::OutputSchemaFile]),
    (
        kind::MANAGER_LOOP,
        &[
            Known::PollInterval,
            Known::MaxCycles,
            Known::StopCondition,
            Known::GuardIntervene,
            Known::GuardEscalate,
            Known::SteerMessage,
            Known::SteerCooldown,
            Known::ManagerActions,
        ],
    ),
    (
        kind::SUBPIPELINE,
        &[
            Known::SubpipelineFile,
            Known::SubpipelineName,
            Known::SubpipelineInputs,
            Known::SubpipelineOutputs,
        ],
    ),
];

/// The kinds that call a model; a fan-in only with a prompt.
const MODELS: &[&str] = &[kind::CODERGEN, kind::FAN_IN];
/// The kinds that read a prompt; a manager loop sends it to its child.
const PROMPTED: &[&str] = &[kind::CODERGEN, kind::FAN_IN, kind::MANAGER_LOOP];
/// The kinds that work on the files of a repository.
const FILES: &[&str] = &[kind::CODERGEN, kind::FAN_IN, kind::TOOL];
/// The kinds without a handler that could fail or take long.
const PASSIVE: &[&str] = &[kind::START, kind::EXIT, kind::CONDITIONAL];
/// The kinds between which a run does not continue after a failure.
const ENDS: &[&str] = &[kind::START, kind::EXIT];
/// The kinds whose stages declare outputs.
const WITH_OUTPUTS: &[&str] = &[kind::CODERGEN, kind::TOOL, kind::SUBPIPELINE];

/// The attributes that only some kinds read.
pub(crate) const OF_SOME_KINDS: &[(&[&str], &[Known])] = &[
    (
        MODELS,
        &[
            Known::LlmModel,
            Known::LlmProvider,
            Known::ReasoningEffort,
            Known::Fidelity,
            Known::ThreadId,
            Known::Backend,
            Known::Agent,
            Known::AgentRole,
            Known::AgentPersona,
            Known::AgentPersonality,
            Known::AgentTask,
            Known::AgentTools,
            Known::AgentMode,
            Known::HookPre,
            Known::HookPost,
            Known::OutputKeys,
            Known::AutoStatus,
        ],
    ),
    (PROMPTED, &[Known::Prompt, Known::PromptFile]),
    (FILES, &[Known::Repo]),
    (FILES, &[Known::Pool]),
    (
        &[kind::TOOL],
        &[Known::ToolCommand, Known::ToolEnv, Known::ToolEnvInherit],
    ),
    (
        &[kind::MANAGER_LOOP],
        &[Known::ChildDotfile, Known::ChildWorkdir, Known::ChildAutostart],
    ),
    (WITH_OUTPUTS, &[Known::Outputs]),
];

/// The attributes that all kinds but some read.
pub(crate) const EXCEPT: &[(&[&str], &[Known])] = &[
    (
        PASSIVE,
        &[
            Known::Outcomes,
            Known::RetryInitialDelay,
            Known::RetryBackoffFactor,
            Known::RetryMaxDelay,
            Known::RetryJitter,
            Known::MaxCost,
            Known::MaxTokens,
        ],
    ),
    // A goal gate of the exit jumps there.
    (&[kind::START], &[Known::RetryTarget, Known::FallbackRetryTarget]),
    (ENDS, &[Known::OnFailure, Known::MaxVisits, Known::End]),
];

impl Known {
    /// Returns whether nodes of a kind read the attribute. Handlers of kinds that the language does not define may read
    /// any attribute of a node.
    ///
    /// ```
    /// use orchestra_graph::{Known, kind};
    /// assert!(Known::ToolCommand.is_read_by(kind::TOOL) && !Known::ToolCommand.is_read_by(kind::WAIT_HUMAN));
    /// assert!(Known::Timeout.is_read_by(kind::WAIT_HUMAN) && !Known::Timeout.is_read_by(kind::CONDITIONAL));
    /// assert!(Known::ToolCommand.is_read_by("deploy") && !Known::Weight.is_read_by("deploy"));
    /// ```
    pub fn is_read_by(self, kind: &str) -> bool {
        if !self.spec().scopes.node {
            return false;
        }
        if !kind::BUILT_IN.contains(&kind) {
            return true;
        }
        if OF_STAGES.contains(&self) {
            return !PASSIVE.contains(&kind);
        }
        if let Some((of, _)) = OF_ONE_KIND.iter().find(|(_, known)| known.contains(&self)) {
            return *of == kind;
        }
        if let Some((kinds, _)) = OF_SOME_KINDS.iter().find(|(_, known)| known.contains(&self)) {
            return kinds.contains(&kind);
        }
        let except = EXCEPT.iter().find(|(_, known)| known.contains(&self));
        except.is_none_or(|(kinds, _)| !kinds.contains(&kind))
    }
}

impl AttributeFamily {
    /// Returns whether nodes of a kind read the members of the family, like [`Known::is_read_by`].
    ///
    /// ```
    /// use orchestra_graph::{AttributeFamily, kind};
    /// assert!(AttributeFamily::TOOL_ENV.is_read_by(kind::TOOL));
    /// assert!(!AttributeFamily::TOOL_ENV.is_read_by(kind::CODERGEN));
    /// ```
    pub fn is_read_by(&self, kind: &str) -> bool {
        let readers = if *self == *AttributeFamily::OUTPUTS {
            WITH_OUTPUTS
        } else {
            &[kind::TOOL]
        };
        self.scopes.node && (readers.contains(&kind) || !kind::BUILT_IN.contains(&kind))
    }
}
