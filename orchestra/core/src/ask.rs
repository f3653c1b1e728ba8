//! Human gates: a question, its answer and its time-out (Attractor 4.6, rules H1 to H4).

use orchestra_graph::Pipeline;

use crate::answer::{Answer, AnsweredBy, Reply};
use crate::context::Context;
use crate::effect::{Effect, Observation};
use crate::id::EffectId;
use crate::outcome::{Outcome, Status};
use crate::path::{ExecutionPath, Phase};
use crate::question::Question;
use crate::routing::{Records, facts};
use crate::transition::{NextStep, StepResult, Transition};

impl Transition<'_> {
    /// Asks a person to choose the next edge (Attractor 4.6, rules H1 to H3, H5).
    pub(crate) fn ask(&mut self, path: &mut ExecutionPath, id: EffectId) -> Result<NextStep, StepResult> {
        let question = Box::new(path.question(self.pipeline, id.name(self.pipeline)));
        if question.options.is_empty() {
            return Ok(NextStep::Ended(no_choice_offered(&question)));
        }
        path.phase = Phase::Asking(question.clone());
        if let Some(delay) = question.timeout {
            self.effects.push(Effect::StartTimer {
                id: id.clone(),
                delay,
            });
        }
        // Open the question before it is observed: an observer may answer it at once.
        self.effects.push(Effect::AskHuman {
            id: id.clone(),
            question: question.clone(),
        });
        self.emit(|| Observation::InterviewStarted { id, question });
        Err(StepResult::Wait)
    }

    /// Applies an answer if the question accepts it.
    pub(crate) fn answered(&mut self, path: &mut ExecutionPath, answer: &Answer) -> StepResult {
        let Phase::Asking(question) = &path.phase else {
            return StepResult::Wait;
        };
        if answer.reply == Reply::TimedOut {
            return self.question_timed_out(path);
        }
        let (outcome, text) = if answer.reply == Reply::Skipped {
            let reason = "the person skipped the question";
            (Outcome::fail_terminal(reason), "skipped".to_owned())
        } else {
            let Ok(accepted) = question.accept(answer) else {
                return StepResult::Wait;
            };
            let label = accepted.options.first().map(|option| option.label.clone());
            let text = accepted.text.clone().or(label).unwrap_or_default();
            (question.outcome(&accepted, answer.by), text)
        };
        let question_text = question.text.clone();
        let timed = question.timeout.is_some();
        forget_text(&mut path.context);
        let id = path.id(self.totals.restarts);
        if timed {
            self.effects.push(Effect::CancelEffect { id: id.clone() });
        }
        let by = answer.by;
        self.emit(|| Observation::InterviewCompleted {
            id,
            question: question_text,
            answer: text,
            by,
        });
        self.advance(path, NextStep::Ended(outcome))
    }

    /// Fails a gate whose question could not be asked. Only an answer or a default lets a gate succeed (rule H3).
    pub(crate) fn question_failed(&mut self, path: &mut ExecutionPath, outcome: Outcome) -> StepResult {
        let Phase::Asking(question) = &path.phase else {
            return StepResult::Wait;
        };
        if !matches!(outcome.status, Status::Fail | Status::Retry) {
            return StepResult::Wait;
        }
        if question.timeout.is_some() {
            let id = path.id(self.totals.restarts);
            self.effects.push(Effect::CancelEffect { id });
        }
        self.advance(path, NextStep::Ended(outcome))
    }

    /// Handles the time-out of a question: uses the default, or requests another attempt (rule H3). A missing answer
    /// never counts as an approval.
    pub(crate) fn question_timed_out(&mut self, path: &mut ExecutionPath) -> StepResult {
        let Phase::Asking(question) = &path.phase else {
            return StepResult::Wait;
        };
        let default = question
            .default
            .clone()
            .map(|key| Answer::choice(key).by(AnsweredBy::Default));
        let accepted = default.as_ref().and_then(|answer| question.accept(answer).ok());
        let outcome = match &accepted {
            Some(accepted) => question.outcome(accepted, AnsweredBy::Default),
            None => Outcome::retry("nobody answered in time, and the gate has no default"),
        };
        let label = accepted.and_then(|accepted| accepted.options.into_iter().next());
        let (text, timeout) = (question.text.clone(), question.timeout.unwrap_or_default());
        forget_text(&mut path.context);
        let id = path.id(self.totals.restarts);
        self.effects.push(Effect::CancelEffect { id: id.clone() });
        self.emit(|| Observation::InterviewTimeout {
            id,
            question: text,
            timeout,
            default: label.map(|option| option.label),
        });
        self.advance(path, NextStep::Ended(outcome))
    }
}

impl ExecutionPath {
    /// Returns the question of the gate at which the path is. It depends on the state alone, so that a resumed run asks
    /// the same question.
    pub(crate) fn question(&self, pipeline: &Pipeline, name: String) -> Question {
        let stage = pipeline.stage(self.at.node);
        let records = Records::new(pipeline, self);
        let facts = facts(pipeline, self, stage, &records);
        Question::at_gate(pipeline, stage.index(), name, &facts)
    }
}

/// Removes the text that was entered at an earlier gate: `human.gate.*` describes the latest answer.
fn forget_text(context: &mut Context) {
    context.remove("human.gate.text");
}

/// Returns the failure of a gate that has no choice to offer (rule H5).
fn no_choice_offered(question: &Question) -> Outcome {
    let withheld: Vec<String> = question.withheld.iter().map(ToString::to_string).collect();
    let reason = match &withheld[..] {
        [] => "the gate has no outgoing edge that a person could choose".to_owned(),
        withheld => format!("the gate offers no choice; withheld are {}", withheld.join(", ")),
    };
    Outcome::fail_terminal(reason).with_code("no_choice_offered")
}
