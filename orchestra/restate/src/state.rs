//! The state of a run, as the durable engine stores it between two turns.

use std::time::Duration;

use orchestra_core::{
    Answer, Budget, Context, EffectId, Machine, Question, RunFailure, SavedState, SharedPipeline, Usage,
};
use orchestra_engine::Timestamp;
use serde::{Deserialize, Serialize};

/// The version of the state and of the messages.
pub const PROTOCOL: u32 = 1;

/// The state of a run between two turns.
///
/// ```
/// # use orchestra_core::{Context, SharedPipeline};
/// # use orchestra_engine::{RunId, Timestamp};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let loaded = load(Source::new("a.dot", text), &Default::default());
/// # let pipeline = SharedPipeline::from(loaded.pipeline().expect("sound"));
/// # let run = RunId::new("first").expect("valid");
/// # let begin = orchestra_restate::Start {
/// #     run, pipeline: "flow".to_owned(), hash: String::new(), context: Context::new(), seed: 7,
/// #     budget: Default::default(), at: Timestamp::from_millis(0),
/// # };
/// let (state, _) = orchestra_restate::start(&pipeline, begin);
/// let stored = serde_json::to_string(&state)?;
/// assert_eq!(serde_json::from_str::<orchestra_restate::RunState>(&stored)?, state);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// The [version](PROTOCOL) of the state.
    pub protocol: u32,
    /// The id of the run.
    pub run: String,
    /// The name under which workers have the pipeline.
    pub pipeline: String,
    /// The hash of the pipeline that the run follows.
    pub hash: String,
    /// The limits on the usage of the run.
    pub budget: Budget,
    /// The state of its machine.
    pub machine: SavedState,
    /// The attempts that workers may be executing.
    pub stages: Vec<LiveStage>,
    /// The delays that have not passed.
    pub timers: Vec<LiveTimer>,
    /// The number of delays so far.
    pub timers_sent: u64,
    /// The reservations for calls of models, in the order in which they were made.
    pub reserved: Vec<Reserved>,
    /// The questions of attempts.
    pub questions: Vec<AttemptQuestion>,
    /// The attempts that were interrupted, with the fencing tokens of their last executions.
    pub interrupted: Vec<(EffectId, u64)>,
    /// What must wait until cancelled attempts are over.
    pub withheld: Vec<Withheld>,
    /// Whether the run goes on.
    pub phase: Phase,
    /// The time of the first turn.
    pub began: Timestamp,
    /// The time of the last turn.
    pub now: Timestamp,
    /// The time for which the run was executed until then; pauses do not count.
    pub executed: Duration,
    /// The number of events so far.
    pub events: u64,
    /// `true` if the run is paused, and the event of its pause waits for attempts that have to stop.
    pub unannounced: bool,
    /// The number of times that the run was resumed.
    pub resumes: u64,
    /// The execution times at which open questions were asked.
    pub asked: Vec<(EffectId, Duration)>,
}

impl RunState {
    /// Restores the machine.
    ///
    /// # Errors
    /// The state does not fit the pipeline.
    pub(crate) fn machine_of(&self, pipeline: &SharedPipeline) -> Result<Machine, String> {
        let restored = self.machine.clone().restore(pipeline);
        let restored = restored.map_err(|error| error.to_string())?;
        Ok(Machine::resume(pipeline.clone(), restored))
    }

    /// Returns the open questions: those of gates, and those of attempts.
    pub(crate) fn open_questions(&self, machine: &Machine) -> Vec<Question> {
        let gates = machine.questions().into_iter().map(|(_, question)| question);
        let asked = self.questions.iter().filter(|asked| asked.answer.is_none());
        gates.chain(asked.map(|asked| asked.question.clone())).collect()
    }
}

/// An attempt that a worker may be executing.
///
/// ```
/// # use orchestra_core::{Context, SharedPipeline};
/// # use orchestra_engine::{RunId, Timestamp};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let loaded = load(Source::new("a.dot", text), &Default::default());
/// # let pipeline = SharedPipeline::from(loaded.pipeline().expect("sound"));
/// # let run = RunId::new("first").expect("valid");
/// # let begin = orchestra_restate::Start {
/// #     run, pipeline: "flow".to_owned(), hash: String::new(), context: Context::new(), seed: 7,
/// #     budget: Default::default(), at: Timestamp::from_millis(0),
/// # };
/// let (state, _) = orchestra_restate::start(&pipeline, begin);
/// let [live] = &state.stages[..] else { panic!("one attempt was sent") };
/// assert_eq!(live.effect.name(&pipeline), "build#1/1");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveStage {
    /// The effect.
    pub effect: EffectId,
    /// The execution time of the run when the attempt was sent.
    pub began: Duration,
    /// The usage of models that was reported so far.
    pub used: Usage,
    /// The invocation that executes it, once it is known.
    pub invocation: Option<String>,
    /// The id of the child run, if the stage runs another pipeline.
    pub child: Option<String>,
    /// `true` if the attempt was cancelled, and its end was not reported yet.
    pub cancelled: bool,
    /// The fencing token of the execution that the run waits for. It increases with each execution of the attempt.
    pub token: u64,
    /// The number of times that the attempt was interrupted since it was sent, or used a model.
    pub claims: u32,
    /// The time of the last interruption that counts, at first that of the start. Interruptions soon after another do not.
    pub claimed: Timestamp,
    /// The name of the execution that claimed it last; empty if none did.
    pub execution: String,
    /// The number of its messages with events so far.
    pub emitted: u64,
    /// The number of answers that the invocation was sent.
    pub answers: u64,
}

/// A reservation for a call of a model.
///
/// ```
/// use orchestra_restate::Reserved;
/// fn line(reserved: &Reserved) -> String {
///     format!("{} tokens at most", reserved.most.tokens())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reserved {
    /// The effect.
    pub effect: EffectId,
    /// The fencing token of the execution that made it.
    pub token: u64,
    /// Its number in the execution.
    pub number: u64,
    /// The maximum usage.
    pub most: Usage,
}

/// A question of an attempt, with its answer once there is one.
///
/// ```
/// use orchestra_restate::AttemptQuestion;
/// fn is_open(question: &AttemptQuestion) -> bool {
///     question.answer.is_none()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptQuestion {
    /// The effect.
    pub effect: EffectId,
    /// The question.
    pub question: Question,
    /// The answer. It is kept until the attempt ends, which may ask again after an interruption.
    pub answer: Option<Answer>,
}

/// A delay that has not passed. An effect may have several after each other: that before an attempt of a gate, and the
/// limit of its question.
///
/// ```
/// # use orchestra_core::{Context, SharedPipeline};
/// # use orchestra_engine::{RunId, Timestamp};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let loaded = load(Source::new("a.dot", text), &Default::default());
/// # let pipeline = SharedPipeline::from(loaded.pipeline().expect("sound"));
/// # let run = RunId::new("first").expect("valid");
/// # let begin = orchestra_restate::Start {
/// #     run, pipeline: "flow".to_owned(), hash: String::new(), context: Context::new(), seed: 7,
/// #     budget: Default::default(), at: Timestamp::from_millis(0),
/// # };
/// let (state, _) = orchestra_restate::start(&pipeline, begin);
/// assert!(state.timers.is_empty(), "a stage that runs waits for no delay");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveTimer {
    /// The effect.
    pub effect: EffectId,
    /// The number of the delay in the run.
    pub number: u64,
}

/// What must wait until cancelled attempts are over, because they may still be writing.
///
/// ```
/// # use orchestra_core::{Context, SharedPipeline};
/// # use orchestra_engine::{RunId, Timestamp};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let loaded = load(Source::new("a.dot", text), &Default::default());
/// # let pipeline = SharedPipeline::from(loaded.pipeline().expect("sound"));
/// # let run = RunId::new("first").expect("valid");
/// # let begin = orchestra_restate::Start {
/// #     run, pipeline: "flow".to_owned(), hash: String::new(), context: Context::new(), seed: 7,
/// #     budget: Default::default(), at: Timestamp::from_millis(0),
/// # };
/// let (state, _) = orchestra_restate::start(&pipeline, begin);
/// assert!(state.withheld.is_empty(), "no attempt was cancelled");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Withheld {
    /// The next attempt.
    Stage(EffectId, Context),
    /// The end of the run.
    End(Option<RunFailure>),
}

/// Whether a run goes on.
///
/// ```
/// use orchestra_restate::Phase;
/// let is_over = |phase: &Phase| matches!(phase, Phase::Ended(_));
/// assert!(!is_over(&Phase::Running) && is_over(&Phase::Ended(None)));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The run goes on.
    Running,
    /// The run was paused with this failure, and continues when it is resumed.
    Paused(RunFailure),
    /// The run has ended; with a failure, unless it succeeded.
    Ended(Option<RunFailure>),
}
