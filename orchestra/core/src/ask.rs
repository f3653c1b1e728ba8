//! Human gates: a question, its answer, its time-out (Attractor 4.6, rules H1 to H4).

use orchestra_graph::Pipeline;

use crate::context::Context;
use crate::effect::{Effect, EffectId, Observation};
use crate::human::{Answer, AnsweredBy, Question, Reply};
use crate::line::{Flow, Move, Records, Step, facts};
use crate::outcome::{Outcome, Status};
use crate::state::{Line, Phase};

impl Step<'_> {
    /// Asks a person for the way on (Attractor 4.6, rules H1 to H3, H5).
    pub(crate) fn ask(&mut self, line: &mut Line, id: EffectId) -> Result<Move, Flow> {
        let question = Box::new(line.question(self.pipeline, id.name(self.pipeline)));
        if question.options.is_empty() {
            return Ok(Move::Ended(no_choice_offered(&question)));
        }
        line.phase = Phase::Asking(question.clone());
        if let Some(delay) = question.timeout {
            self.effects.push(Effect::StartTimer {
                id: id.clone(),
                delay,
            });
        }
        // Who hears of the question may answer it at once, so it is open before.
        self.effects.push(Effect::AskHuman {
            id: id.clone(),
            question: question.clone(),
        });
        self.tell(|| Observation::InterviewStarted { id, question });
        Err(Flow::Wait)
    }

    /// Takes an answer, if the question does.
    pub(crate) fn answered(&mut self, line: &mut Line, answer: &Answer) -> Flow {
        let Phase::Asking(question) = &line.phase else {
            return Flow::Wait;
        };
        if answer.reply == Reply::TimedOut {
            return self.unanswered(line);
        }
        let (outcome, told) = if answer.reply == Reply::Skipped {
            let reason = "the person skipped the question";
            (Outcome::fail_terminal(reason), "skipped".to_owned())
        } else {
            let Ok(accepted) = question.accept(answer) else {
                return Flow::Wait;
            };
            let label = accepted.options.first().map(|option| option.label.clone());
            let told = accepted.text.clone().or(label).unwrap_or_default();
            (question.outcome(&accepted, answer.by), told)
        };
        let text = question.text.clone();
        let timed = question.timeout.is_some();
        forget_text(&mut line.context);
        let id = line.id(self.totals.restarts);
        if timed {
            self.effects.push(Effect::CancelEffect { id: id.clone() });
        }
        let by = answer.by;
        self.tell(|| Observation::InterviewCompleted {
            id,
            question: text,
            answer: told,
            by,
        });
        self.go(line, Move::Ended(outcome))
    }

    /// A question could not be put: its gate fails. Nothing but an answer or a default lets it succeed (rule H3).
    pub(crate) fn not_asked(&mut self, line: &mut Line, outcome: Outcome) -> Flow {
        let Phase::Asking(question) = &line.phase else {
            return Flow::Wait;
        };
        if !matches!(outcome.status, Status::Fail | Status::Retry) {
            return Flow::Wait;
        }
        if question.timeout.is_some() {
            let id = line.id(self.totals.restarts);
            self.effects.push(Effect::CancelEffect { id });
        }
        self.go(line, Move::Ended(outcome))
    }

    /// The time to answer is up: the default, else another attempt (rule H3). Silence never approves.
    pub(crate) fn unanswered(&mut self, line: &mut Line) -> Flow {
        let Phase::Asking(question) = &line.phase else {
            return Flow::Wait;
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
        forget_text(&mut line.context);
        let id = line.id(self.totals.restarts);
        self.effects.push(Effect::CancelEffect { id: id.clone() });
        self.tell(|| Observation::InterviewTimeout {
            id,
            question: text,
            timeout,
            default: label.map(|option| option.label),
        });
        self.go(line, Move::Ended(outcome))
    }
}

impl Line {
    /// The question of the gate where the line is. It follows from the state alone, so that a run that is resumed asks
    /// the same one.
    pub(crate) fn question(&self, pipeline: &Pipeline, name: String) -> Question {
        let stage = pipeline.stage(self.at.node);
        let records = Records::new(pipeline, self);
        let facts = facts(pipeline, self, stage, &records);
        Question::at_gate(pipeline, stage.index(), name, &facts)
    }
}

/// Forgets what was written at an earlier gate: `human.gate.*` speaks of the answer that came last.
fn forget_text(context: &mut Context) {
    context.remove("human.gate.text");
}

/// The failure of a gate that has no choice to offer (rule H5).
fn no_choice_offered(question: &Question) -> Outcome {
    let withheld: Vec<String> = question.withheld.iter().map(ToString::to_string).collect();
    let reason = match &withheld[..] {
        [] => "the gate has no outgoing edge that a person could choose".to_owned(),
        withheld => format!("the gate offers no choice; withheld are {}", withheld.join(", ")),
    };
    Outcome::fail_terminal(reason).with_code("no_choice_offered")
}
