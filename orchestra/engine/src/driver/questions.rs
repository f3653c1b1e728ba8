//! The questions of gates: how the driver opens them and records their answers.

use orchestra_core::{Answer, EffectId, Event, Outcome, Question, Reply};

use crate::driver::pending::Pending;
use crate::driver::state::Driver;
use crate::gates::interview::InterviewError;
use crate::run::state::Run;
use crate::script::answer_of;

impl Driver {
    /// Opens a question to a person, and asks the interviewer if there is one. A script answers it in a simulation.
    pub(super) fn ask<'h>(
        &mut self,
        run: &'h Run,
        pending: &mut Pending<'h>,
        id: EffectId,
        question: Question,
    ) {
        if let Some(script) = &run.settings.script
            && let Some(scripted) = script
                .turn(&question.node, || run.attempts.next_turn(id.node))
                .outcome
        {
            let event = match answer_of(&question, scripted) {
                Some(answer) => match question.accept(&answer) {
                    Err(refused) if answer.reply != Reply::Skipped => Some(Event::NodeFinished {
                        id: id.clone(),
                        outcome: Outcome::fail_terminal(format!("the script's answer is refused: {refused}")),
                    }),
                    _ => Some(Event::Answered {
                        id: id.clone(),
                        answer,
                    }),
                },
                None if script.hastens() => Some(Event::Answered {
                    id: id.clone(),
                    answer: Answer::timed_out(),
                }),
                None if question.timeout.is_some() => None,
                None => Some(Event::Unanswerable {
                    id: id.clone(),
                    reason: "the script leaves it unanswered, and it has no time-out".to_owned(),
                }),
            };
            match event {
                Some(event @ Event::Unanswerable { .. }) => self.pause(event),
                Some(event) => self.record(event),
                None => run.questions.open(id, question),
            }
            return;
        }
        run.questions.open(id.clone(), question.clone());
        if let Some(interviewer) = &run.settings.interviewer {
            pending.question(interviewer, id, question);
        }
    }

    /// Records the answer of the interviewer to the question of a gate.
    pub(super) fn answered(&mut self, id: EffectId, answer: Result<Answer, InterviewError>) {
        // Somebody else has answered already.
        if !self.run.questions.claim(&id) {
            return;
        }
        let event = match answer {
            Ok(answer) => Event::Answered { id, answer },
            Err(InterviewError::Unavailable { reason }) => {
                return self.pause(Event::Unanswerable { id, reason });
            }
            Err(error) => Event::NodeFinished {
                id,
                outcome: error.outcome(),
            },
        };
        self.record(event);
    }
}
