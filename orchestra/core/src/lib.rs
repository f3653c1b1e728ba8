//! The run of an Orchestra pipeline as a pure state machine: events in, effects out.
//!
//! The core decides what happens next in a run, but does not execute it: it has no I/O, no clock, no randomness and no
//! threads. The engine, the simulator and the tests all drive the same machine.
//!
//! # Glossary
//!
//! - **Event**: something that has happened, such as the end of a stage; the driver passes it to [`Machine::on`].
//! - **Effect**: a request of the machine to its driver, such as to run a stage or to ask a person.
//! - **Effect id**: the name of an effect, derived from its position in the run: restart, branch, node, visit and
//!   attempt.
//! - **Observation**: an effect that only informs observers; it requires no answer.
//! - **Execution path**: one sequential flow through the graph; a run has a main path, and one more path for each
//!   branch that has begun.
//! - **Block**: the branches between a fan-out and its join while they are open; a **branch** is one of them.
//! - **Visit**: one entry of an execution path into a node. A visit of a stage consists of one or more **attempts**.
//! - **Outcome**: the result of an attempt, with a status and data for the run.
//! - **Transition**: one call of the machine, which changes the state and produces effects until every path waits or
//!   has ended.
//! - **Saved state**: the serializable form of the state, from which another process resumes the run.
//!
//! # Modules, in reading order
//!
//! - `effect`: the interface between the machine and its driver: effects, events and observations.
//! - `id`: the ids of effects.
//! - `outcome`: the results of stages and branches.
//! - `context`: the named values that stages share.
//! - `usage`: the usage of models by stages, and the budget of a run.
//! - `failure`: the reasons for which a run fails.
//! - `state`: the state of a run: the main path and the totals.
//! - `path`: execution paths, and the parallel blocks in which they branch.
//! - `history`: the visits, outcomes and failures of a path.
//! - `files`: the state of the files that the stages of a path work on.
//! - `machine`: the entry point, which applies events to the state.
//! - `transition`: the steps of one execution path from node to node.
//! - `attempt`: the attempts of a stage and their outcomes.
//! - `retry`: the delay before the next attempt.
//! - `routing`: the choice of the next edge.
//! - `goal_gate`: the goal gates, which are checked before a run ends successfully.
//! - `block`: the branches of parallel blocks, which begin, end and are joined.
//! - `merge`: the merge of branches into their parent path.
//! - `fan_in`: the choice of the best branch.
//! - `question`: the questions to people.
//! - `answer`: the answers to questions.
//! - `option`: the options that a question offers or withholds.
//! - `chat`: the turns of a person in a conversation with a model.
//! - `ask`: human gates, which ask questions and apply the answers.
//! - `saved`: the serialized state of a run.
//! - `save`: the conversion of the state to its serialized form.
//! - `restore`: the restoration of the state from its serialized form.
//! - `carry_over`: the adaptation of a saved state to a changed pipeline.
//! - `retry_run`: the point at which a failed run is retried.
//! - `explore`: the exploration of all states of a pipeline by the machine, and the search for paths to all edges and jumps.
//! - `manager`: the manager loop, a separate state machine that supervises a child pipeline.
//! - `nanos`: the serialization of durations.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod ask;
mod attempt;
mod block;
mod carry_over;
mod chat;
mod context;
mod effect;
mod explore;
mod failure;
mod fan_in;
mod files;
mod foreach;
mod goal_gate;
mod history;
mod id;
mod machine;
mod manager;
mod merge;
mod nanos;
mod option;
mod outcome;
mod path;
mod question;
mod restore;
mod retry;
mod retry_run;
mod routing;
mod save;
mod saved;
mod state;
mod transition;
mod usage;

pub use answer::{Answer, AnsweredBy, Reply};
#[doc(hidden)]
pub use answer::{GateAnswer, GateChoice};
pub use chat::ChatTurn;
pub use context::Context;
pub use effect::{Effect, Event, Observation};
pub use explore::{
    Exploration, ExploreOptions, ExploredEnd, FoundPaths, FoundTarget, PathEntry, PathOptions, PathScript,
    PathVerdict, explore, find_paths,
};
pub use failure::RunFailure;
pub use fan_in::{
    Candidate, best_candidate, candidates, chosen_candidate, fan_in, joined_nothing, no_candidate,
};
pub use files::{JoinedBranch, Snapshot};
pub use history::{AttemptError, Counts, FailureStreak, LastStage, NodeOutcome, Outcomes};
pub use id::{BranchPath, BranchStep, EffectId};
pub use machine::Machine;
pub use manager::{
    ChildReport, ChildStatus, Manager, ManagerCondition, ManagerEffect, ManagerEvent, ManagerPlan,
};
pub use option::{QuestionOption, UnmetCondition, WithheldOption};
pub use orchestra_graph::{Mapping, SharedPipeline};
pub use outcome::{BranchStatus, FailureCategory, Outcome, Status};
pub use path::{Block, Branch, ExecutionPath, Phase};
pub use question::{Accepted, AnswerRefused, Question, QuestionKind};
pub use retry_run::{RetryPoint, retry_point};
pub use saved::{SavedState, SavedStateError};
pub use state::{State, Totals};
pub use usage::{Budget, Room, Usage};
