//! The reports of attempts: their ends, reservations, questions and events.

use std::time::Duration;

use orchestra_core::{Answer, EffectId, Event, Outcome, Question, Room, RunFailure, Snapshot, Usage};
use orchestra_engine::{EventKind, HostedEnd, HostedSuspension, node_budget};

use crate::message::{Finished, Outgoing, Refused, Reply, Report};
use crate::state::{AttemptQuestion, Phase, Reserved};
use crate::turn::{Taking, accept, is_named};

/// The number of interruptions that an attempt survives without progress. One that stops its workers stops costing money.
const MAX_CLAIMS: u32 = 5;
/// The time within which interruptions count as one.
const DISTURBANCE: Duration = Duration::from_secs(5);

impl Taking<'_> {
    /// Applies a report about an attempt, unless it is from an execution that the run does not wait for.
    pub(super) fn report(&mut self, effect: EffectId, token: u64, report: Report) -> Result<(), Reply> {
        let live = self.state.stages.iter_mut().find(|stage| stage.effect == effect);
        match (live, report) {
            // What was paid for counts, whoever reports it, and whenever.
            (live, Report::Used(used)) => {
                if let Some(live) = live {
                    live.used += used;
                    // It gets on, so it is not what stops its workers.
                    live.claims = 0;
                }
                self.on(Event::Used {
                    id: effect,
                    usage: used,
                });
                Ok(())
            }
            (Some(live), Report::Claimed { execution }) if !live.cancelled => {
                if live.execution == execution {
                    return Err(Reply::Claimed(live.token));
                }
                let now = self.state.now;
                // A network that breaks again and again is one disturbance, not many.
                if now.as_millis() - live.claimed.as_millis() >= DISTURBANCE.as_millis() as u64 {
                    live.claims += 1;
                    live.claimed = now;
                }
                if live.claims > MAX_CLAIMS {
                    let reason = format!(
                        "the attempt was interrupted {} times, so it may be what stops its workers",
                        live.claims
                    );
                    let outcome = Outcome::fail_terminal(reason).with_code("interrupted");
                    self.attempt_ended(effect, HostedEnd::Outcome(outcome), Usage::default(), None);
                    self.turn.reply = Reply::Refused(Refused::NotAwaited);
                    return Ok(());
                }
                live.token += 1;
                live.execution = execution;
                live.emitted = 0;
                self.turn.reply = Reply::Claimed(live.token);
                self.repeat(&effect);
                Ok(())
            }
            // Its last execution is dead, and this one need not begin.
            (Some(live), Report::Claimed { .. }) if live.cancelled => {
                self.attempt_ended(effect, HostedEnd::Cancelled, Usage::default(), None);
                Ok(())
            }
            // It was reported before.
            (None, Report::Finished(_) | Report::Released { .. } | Report::Emitted { .. }) => Ok(()),
            (Some(live), _) if token != live.token => Err(Reply::Refused(Refused::NotAwaited)),
            (Some(_), Report::Finished(finished)) => {
                let Finished {
                    end,
                    used,
                    events,
                    noted,
                    snapshot,
                } = *finished;
                self.emit_all(events);
                if matches!(end, HostedEnd::Outcome(_)) && (noted || token > 1) {
                    let effect = effect.clone();
                    self.turn.outgoing.push(Outgoing::Forget { effect });
                }
                self.attempt_ended(effect, end, used, snapshot);
                Ok(())
            }
            (Some(live), Report::Reserved { number, most }) if !live.cancelled => self.reserve(Reserved {
                effect,
                token,
                number,
                most,
            }),
            (Some(_), Report::Released { number }) => {
                let released =
                    |held: &Reserved| held.effect == effect && held.token == token && held.number == number;
                self.state.reserved.retain(|held| !released(held));
                Ok(())
            }
            (Some(live), Report::Asked(question)) if !live.cancelled => self.ask(effect, *question),
            (Some(live), Report::Emitted { number, events }) => {
                if number > live.emitted {
                    live.emitted = number;
                    self.emit_all(events);
                }
                Ok(())
            }
            _ => Err(Reply::Refused(Refused::NotAwaited)),
        }
    }

    fn emit_all(&mut self, events: Vec<EventKind>) {
        events.into_iter().for_each(|kind| self.emit(kind));
    }

    /// Applies the end of an attempt. One that the run does not wait for was reported before, and changes nothing.
    pub(super) fn attempt_ended(
        &mut self,
        effect: EffectId,
        end: HostedEnd,
        used: Usage,
        snapshot: Option<Snapshot>,
    ) {
        let live = self.state.stages.iter().position(|stage| stage.effect == effect);
        let Some(mut live) = live.map(|at| self.state.stages.remove(at)) else {
            return;
        };
        let cancelled = live.cancelled;
        live.used += used;
        if !matches!(end, HostedEnd::Outcome(_)) {
            self.state.interrupted.push((effect.clone(), live.token));
        }
        self.ended = Some(live);
        self.state.reserved.retain(|held| held.effect != effect);
        if !used.is_zero() {
            let id = effect.clone();
            self.on(Event::Used { id, usage: used });
        }
        let is_paused = self.state.phase != Phase::Running;
        match end {
            // Where the run has gone on without the attempt, the machine does not wait for it any more.
            HostedEnd::Outcome(outcome) => {
                self.drop_withheld(|withheld| *withheld == effect);
                if let Some(snapshot) = snapshot {
                    let id = effect.clone();
                    self.on(Event::Snapshot { id, snapshot });
                }
                self.on(Event::NodeFinished { id: effect, outcome });
            }
            // The run goes on without it, or its repeat is withheld.
            _ if cancelled && !is_paused => {}
            // The attempt is sent again when the run is resumed.
            _ if is_paused => {}
            HostedEnd::Suspended(HostedSuspension::WaitsForHuman(reason)) => {
                let node = self.machine.pipeline().stage(effect.node).id().to_owned();
                self.pause(RunFailure::WaitsForHuman { node, reason });
            }
            HostedEnd::Suspended(HostedSuspension::OverBudget(_)) => {
                let (budget, used) = (self.state.budget, self.machine.state().totals.usage);
                self.pause(RunFailure::Budget { budget, used });
            }
            HostedEnd::Suspended(HostedSuspension::ChildStuck(reason)) => {
                self.pause(RunFailure::Paused { reason })
            }
            HostedEnd::Suspended(_) => {
                let reason =
                    "an attempt was suspended for a reason that only a newer version knows".to_owned();
                self.pause(RunFailure::Paused { reason });
            }
            // Nobody of the run cancelled it, so it is sent again.
            // A kind of end that only a newer version knows is none.
            _ => {
                let paths = self.machine.paths_to(&effect);
                if let Some(path) = paths.last() {
                    let context = path.context.clone();
                    self.repeat(&effect);
                    self.send_stage(effect, context);
                }
            }
        }
    }

    /// Reports that another execution of an attempt begins.
    fn repeat(&mut self, effect: &EffectId) {
        self.repeats = true;
        self.machine.observe_repeat(effect, &mut self.effects);
    }

    /// Sends an attempt again whose execution no longer exists.
    pub(super) fn lose(&mut self, effect: EffectId) {
        self.attempt_ended(effect, HostedEnd::Cancelled, Usage::default(), None);
    }

    /// Reserves the usage of a call of a model, in the budgets of the run and of the node.
    fn reserve(&mut self, wanted: Reserved) -> Result<(), Reply> {
        let is_same = |held: &Reserved| {
            held.effect == wanted.effect && held.token == wanted.token && held.number == wanted.number
        };
        if self.state.reserved.iter().any(is_same) {
            return Ok(());
        }
        let at = wanted.effect.node;
        let totals = &self.machine.state().totals;
        let reserved = |of_node: bool| {
            let held = self.state.reserved.iter();
            let held = held.filter(|held| !of_node || held.effect.node == at);
            held.map(|held| held.most).sum::<Usage>()
        };
        let node = self.machine.pipeline().stage(at);
        let used = totals.spent.get(&at.0).copied().unwrap_or_default();
        let budgets = [
            (
                Some(node.id().to_owned()),
                node_budget(node),
                used,
                reserved(true),
            ),
            (None, self.state.budget, totals.usage, reserved(false)),
        ];
        for (node, budget, used, reserved) in budgets {
            match budget.room_for(used, reserved, wanted.most) {
                Room::Enough => {}
                // The error pauses the run, so wait for calls in progress first: their answers are paid for.
                Room::Never if node.is_some() || reserved.is_zero() => {
                    return Err(Reply::Refused(Refused::OverBudget { node, budget, used }));
                }
                Room::Later | Room::Never => return Err(Reply::Later),
            }
        }
        self.state.reserved.push(wanted);
        Ok(())
    }

    /// Opens a question of an attempt, unless an earlier execution asked it.
    fn ask(&mut self, effect: EffectId, question: Question) -> Result<(), Reply> {
        let mut asked = self.state.questions.iter();
        match asked.find(|asked| asked.question.id == question.id) {
            Some(asked) => match &asked.answer {
                Some(answer) => Err(Reply::Answered(answer.clone())),
                None => Ok(()),
            },
            None => {
                // An answer to an earlier question is part of a note by now.
                let since = since_note(&question.id);
                self.state.questions.retain(|asked| {
                    asked.effect != effect || since.is_none() || since_note(&asked.question.id) == since
                });
                self.state.questions.push(AttemptQuestion {
                    effect,
                    question,
                    answer: None,
                });
                Ok(())
            }
        }
    }

    /// Answers a question of an attempt. One that nobody executes now gets the answer when it asks again.
    pub(super) fn answer_attempt(&mut self, name: String, answer: Answer) -> Result<(), Reply> {
        let is_open =
            |asked: &&mut AttemptQuestion| is_named(&asked.question, &name) && asked.answer.is_none();
        let Some(asked) = self.state.questions.iter_mut().find(is_open) else {
            let open = self.state.open_questions(self.machine);
            return Err(Reply::Refused(Refused::NoQuestion { question: name, open }));
        };
        accept(&asked.question, &answer)?;
        asked.answer = Some(answer.clone());
        let question = asked.question.id.clone();
        let effect = &asked.effect;
        let live = self.state.stages.iter_mut().find(|stage| stage.effect == *effect);
        if let Some(live) = live
            && let Some(invocation) = live.invocation.clone()
        {
            live.answers += 1;
            self.turn.outgoing.push(Outgoing::Answer {
                invocation,
                number: live.answers,
                question,
                answer,
            });
        }
        Ok(())
    }
}

/// Returns the part of the id of a question that names the note before it, such as `talk#1/1?2`. Returns `None` for an id
/// that a handler chose.
fn since_note(id: &str) -> Option<&str> {
    let (since, _) = id.rsplit_once('.')?;
    since.contains('?').then_some(since)
}
