//! The child runs of a run: sub-pipeline stages start runs of their own, whose ends are messages to their parents.

use orchestra_core::{EffectId, Usage};
use orchestra_engine::{HostedChildEnd, HostedEnd};
use restate_sdk::context::RequestTarget;
use restate_sdk::prelude::*;

use crate::blobs::name_of;
use crate::message::{Finished, Message, Outgoing, Sent};
use crate::packing::Packed;
use crate::run_object::stored::Obstacle;
use crate::run_object::taking::{LARGE_STATE, Taking};
use crate::state::Phase;
use crate::wire::{ChildEnded, Parent, RUN, StartChild, StopChild, StopHow};

impl Taking<'_, '_> {
    /// Prepares the child runs of sub-pipeline stages. Returns whether one cannot be started, which ends its attempt and
    /// may request others.
    pub(super) async fn start_children(&mut self) -> Result<bool, Obstacle> {
        let Ok(host) = self.opened.version.host.clone() else {
            return Ok(false);
        };
        let depth = self.record.facts.parent.as_ref().map_or(0, |parent| parent.depth) + 1;
        let mut has_ended = false;
        while let Some(Outgoing::Stage {
            effect,
            token,
            context,
            budget,
        }) = self.take_stage(|effect| host.is_subpipeline(effect.node))
        {
            let open = &self.opened.run;
            let totals = &open.machine().state().totals;
            let (seed, usage) = (totals.seed, totals.usage);
            let child = match host.child(open.run(), seed, depth, &effect, &context) {
                Ok(child) => child,
                Err(outcome) => {
                    self.end_child(effect, token, HostedEnd::Outcome(*outcome), Usage::default());
                    has_ended = true;
                    continue;
                }
            };
            let (blobs, facts) = (&self.shared.blobs, &self.record.facts);
            let context = Packed::pack(blobs, &child.run, &child.context, LARGE_STATE).await?;
            let mut stages = facts.stages.clone();
            stages.push(effect.node.0);
            let id = child.run.to_string();
            let request = StartChild {
                pipeline: facts.pipeline.clone(),
                sources: facts.sources.clone(),
                stages,
                context,
                seed: child.seed,
                budget: budget.without(usage),
                secret: child_secret(&facts.secret, &id),
                timeout: child.timeout,
                at: self.opened.run.state.now,
                parent: Parent {
                    run: self.ctx.key().to_owned(),
                    secret: facts.secret.clone(),
                    effect: effect.clone(),
                    token,
                    depth,
                },
            };
            let mut sent = self.opened.run.state.stages.iter_mut();
            if let Some(live) = sent.find(|stage| stage.effect == effect) {
                live.child = Some(id.clone());
            }
            self.children.push((id, request));
        }
        Ok(has_ended)
    }

    /// Applies the end of the attempt of a sub-pipeline stage.
    pub(super) fn end_child(&mut self, effect: EffectId, token: u64, end: HostedEnd, used: Usage) {
        let finished = Finished {
            used,
            ..Finished::new(end)
        };
        let sent = Sent {
            at: self.opened.run.state.now,
            message: Message::Attempt {
                effect,
                token,
                report: finished.into(),
            },
        };
        self.turns.push(self.opened.run.receive(sent));
    }

    /// Stops the child of a stage: pauses it if the run was paused, and cancels it otherwise.
    pub(super) fn stop_child(&self, effect: &EffectId) {
        let state = &self.opened.run.state;
        let live = state.stages.iter().find(|stage| stage.effect == *effect);
        let Some(child) = live.and_then(|live| live.child.as_ref()) else {
            return;
        };
        let how = match &state.phase {
            Phase::Paused(failure) => StopHow::Pause(failure.to_string()),
            _ => StopHow::Cancel("the stage that started the run was cancelled".to_owned()),
        };
        let request = StopChild {
            secret: child_secret(&self.record.facts.secret, child),
            how,
            at: state.now,
        };
        let target = RequestTarget::object(RUN, child.as_str(), "stop_child");
        self.ctx.request::<_, ()>(target, Json(request)).send();
    }

    /// Reports to the parent run that this one has ended or was paused.
    pub(super) async fn report_to_parent(&self) -> Result<(), Obstacle> {
        let facts = &self.record.facts;
        let Some(parent) = &facts.parent else {
            return Ok(());
        };
        let open = &self.opened.run;
        let failure = match &open.state.phase {
            Phase::Running => return Ok(()),
            Phase::Paused(failure) => Some(failure.clone()),
            Phase::Ended(failure) => failure.clone(),
        };
        let run = open.machine().state();
        let mut end = HostedChildEnd::new(open.run().clone(), failure, run.main.context.clone());
        end.timed_out = facts.timed_out;
        end.stages = run.main.completed.len();
        end.duration = open.state.executed;
        // A paused run reports its whole usage when it ends.
        let used = match open.state.phase {
            Phase::Ended(_) => run.totals.usage,
            _ => Usage::default(),
        };
        let end = Packed::pack(&self.shared.blobs, &parent.run, &end, LARGE_STATE).await?;
        let message = ChildEnded {
            secret: parent.secret.clone(),
            effect: parent.effect.clone(),
            token: parent.token,
            end,
            used,
            at: open.state.now,
        };
        let target = RequestTarget::object(RUN, parent.run.as_str(), "child_ended");
        self.ctx.request::<_, ()>(target, Json(message)).send();
        Ok(())
    }
}

/// Returns the secret of a child run, which both runs know.
fn child_secret(secret: &str, child: &str) -> String {
    name_of(format!("{secret}/{child}").as_bytes())
}
