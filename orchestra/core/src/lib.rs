//! The run of an Orchestra pipeline as a pure state machine: events in, effects out.
//!
//! The core decides everything that comes next and does nothing itself: it has no I/O, no clock, no chance and
//! no threads. The engine, the simulator and the tests all drive this one machine.

mod ask;
mod block;
mod carry_over;
mod chat;
mod context;
mod effect;
mod failure;
mod fan_in;
mod files;
mod goal_gate;
mod human;
mod line;
mod machine;
mod manager;
mod nanos;
mod option;
mod outcome;
mod retry;
mod retry_run;
mod saved;
mod saved_block;
mod state;
mod usage;

pub use block::{Block, Branch};
pub use chat::ChatTurn;
pub use context::Context;
pub use effect::{BranchPath, BranchStatus, BranchStep, Effect, EffectId, Event, Observation};
pub use failure::RunFailure;
pub use fan_in::{Candidate, best_candidate, candidates, chosen_candidate, fan_in, no_candidate};
pub use files::{JoinedBranch, Snapshot};
pub use human::{Accepted, Answer, AnswerRefused, AnsweredBy, Question, QuestionKind, Reply};
pub use machine::Machine;
pub use manager::{
    ChildReport, ChildStatus, Manager, ManagerCondition, ManagerEffect, ManagerEvent, ManagerPlan,
};
pub use option::{QuestionOption, UnmetCondition, WithheldOption};
pub use orchestra_graph::{Mapping, SharedPipeline};
pub use outcome::{FailureCategory, Outcome, Status};
pub use retry_run::{RetryPoint, retry_point};
pub use saved::{SavedFault, SavedState};
pub use state::{AttemptError, Counts, Failing, Last, Line, NodeOutcome, Outcomes, Phase, State, Totals};
pub use usage::{Budget, Usage};
