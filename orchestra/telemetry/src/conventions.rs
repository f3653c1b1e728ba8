//! The names of spans, attributes and metrics.
//!
//! The names that begin with `gen_ai` are those of version 0.1.0 of the semantic conventions for generative AI of
//! OpenTelemetry. These conventions are in development: a later version may rename them, and then this file changes.

/// The kind of operation of a span.
pub(crate) const OPERATION: &str = "gen_ai.operation.name";
/// The name of the pipeline, or of the agent of a stage.
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
/// The conversation to which model calls belong.
pub(crate) const CONVERSATION: &str = "gen_ai.conversation.id";
/// The provider of a model.
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
/// The requested model.
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
/// The model that answered.
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// The reasons why a model stopped.
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// The input tokens of a call.
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// The output tokens of a call.
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// The input tokens of a call that were read from a cache.
pub(crate) const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
/// The messages that were sent to a model.
pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// The messages that a model answered.
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
/// The name of a tool.
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
/// The id that the provider gave a tool call.
pub(crate) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// The machine-readable reason of a failure.
pub(crate) const ERROR_TYPE: &str = "error.type";

/// The operation of a root span.
pub(crate) const INVOKE_WORKFLOW: &str = "invoke_workflow";
/// The operation of the model calls of a stage together.
pub(crate) const INVOKE_AGENT: &str = "invoke_agent";
/// The operation of a model call.
pub(crate) const CHAT: &str = "chat";
/// The operation of a tool call.
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";

/// The id of the run.
pub(crate) const RUN_ID: &str = "orchestra.run.id";
/// The status with which a run ended.
pub(crate) const RUN_STATUS: &str = "orchestra.run.status";
/// The run and the checkpoint from which a run was started as a replay.
pub(crate) const REPLAYED_FROM: &str = "orchestra.run.replayed_from";
/// The node of a stage.
pub(crate) const NODE: &str = "orchestra.node.id";
/// The branch of a parallel block.
pub(crate) const BRANCH: &str = "orchestra.branch";
/// The number of a visit.
pub(crate) const VISIT: &str = "orchestra.visit";
/// The number of an attempt.
pub(crate) const ATTEMPT: &str = "orchestra.attempt";
/// The outcome of an attempt.
pub(crate) const OUTCOME: &str = "orchestra.outcome";
/// The cost of an attempt or a call in US dollars.
pub(crate) const COST: &str = "orchestra.cost_dollars";
/// The time that a gate waited for a person, in milliseconds.
pub(crate) const GATE_WAITED: &str = "orchestra.gate.waited_ms";
/// Who answered a gate.
pub(crate) const GATE_ANSWERED_BY: &str = "orchestra.gate.answered_by";
/// The question of a gate.
pub(crate) const GATE_QUESTION: &str = "orchestra.gate.question";
/// The answer to a gate.
pub(crate) const GATE_ANSWER: &str = "orchestra.gate.answer";
/// The event of a span that was in progress when its process stopped.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// The number of runs that ended.
pub(crate) const RUNS: &str = "orchestra.runs";
/// The number of runs in progress.
pub(crate) const RUNS_ACTIVE: &str = "orchestra.runs.active";
/// The durations of stage attempts.
pub(crate) const STAGE_DURATION: &str = "orchestra.stage.duration";
/// The tokens of model calls.
pub(crate) const MODEL_TOKENS: &str = "orchestra.model.tokens";
/// The cost of model calls.
pub(crate) const MODEL_COST: &str = "orchestra.model.cost.dollars";
/// The number of questions that wait for a person.
pub(crate) const HUMAN_WAITING: &str = "orchestra.human.waiting";
