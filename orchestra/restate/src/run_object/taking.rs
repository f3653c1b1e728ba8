//! What a turn does: it executes quick attempts itself, sends everything else, and stores the state.

use std::collections::BTreeSet;
use std::sync::Arc;

use orchestra_core::EffectId;
use orchestra_engine::{HostedEnd, RunEvent, Timestamp};
use restate_sdk::context::RequestTarget;
use restate_sdk::prelude::*;

use crate::hosts::Version;
use crate::inline::InlineAttempt;
use crate::message::{Finished, Message, Outgoing, Reply, Sent, Turn};
use crate::packing::{pack, size_of};
use crate::run_object::stored::{Facts, Obstacle, Stored, keys, read};
use crate::shared::Shared;
use crate::turn::turn;
use crate::wire::{
    self, ATTEMPT, AnswerSignal, Envelope, EventHead, RUN, STAGE, Segment, StageRequest, StartChild,
    answer_signal, attempt_key, to_value,
};

/// The size in bytes above which a state becomes a blob.
pub(super) const LARGE_STATE: usize = 32 * 1024;
/// The size in bytes above which the latest events become a segment.
const LARGE_TAIL: usize = 16 * 1024;
/// The number of attempts that one turn executes itself.
const MAX_INLINE: usize = 64;

/// A turn whose effects are carried out.
pub(super) struct Taking<'t, 'c> {
    pub(super) shared: &'t Shared,
    pub(super) ctx: &'t ObjectContext<'c>,
    pub(super) version: Arc<Version>,
    pub(super) stored: Stored,
    pub(super) facts: &'t Facts,
    pub(super) turns: Vec<Turn>,
    /// The number of attempts that this turn executed itself.
    executed: usize,
    /// The child runs that are to be started.
    pub(super) children: Vec<(String, StartChild)>,
}

impl<'t, 'c> Taking<'t, 'c> {
    pub(super) fn new(
        shared: &'t Shared,
        ctx: &'t ObjectContext<'c>,
        facts: &'t Facts,
        version: Arc<Version>,
        stored: Stored,
        turns: Vec<Turn>,
    ) -> Taking<'t, 'c> {
        Taking {
            shared,
            ctx,
            version,
            stored,
            facts,
            turns,
            executed: 0,
            children: Vec::new(),
        }
    }

    /// Carries out everything that the turns decided, and stores the state.
    pub(super) async fn finish(&mut self) -> Result<(), Obstacle> {
        loop {
            self.execute_inline().await?;
            if !self.start_children().await? {
                break;
            }
        }
        self.carry_out().await
    }

    /// Executes the attempts of quick handlers, and applies their ends.
    async fn execute_inline(&mut self) -> Result<(), Obstacle> {
        self.drop_cancelled();
        let inline: &BTreeSet<String> = &self.shared.inline;
        if inline.is_empty() {
            return Ok(());
        }
        let Ok(host) = self.version.host.clone() else {
            return Ok(());
        };
        let pipeline = self.version.pipeline.clone();
        while self.executed < MAX_INLINE {
            let is_inline = |effect: &EffectId| inline.contains(pipeline.stage(effect.node).kind());
            let Some(Outgoing::Stage {
                effect,
                token,
                context,
                budget,
            }) = self.take_stage(is_inline)
            else {
                return Ok(());
            };
            self.executed += 1;
            let attempt = InlineAttempt {
                host: host.clone(),
                blobs: self.shared.blobs.clone(),
                state: self.stored.state.clone(),
                effect: effect.clone(),
                token,
                context,
                budget,
            };
            let name = effect.name(&pipeline);
            let ran = self.ctx.run(move || attempt.run()).name(name).await?;
            let sent = read::<Sent>(&self.shared.blobs, self.ctx.key(), ran.into_inner()).await?;
            self.turns.push(turn(&pipeline, &mut self.stored.state, sent));
            self.drop_cancelled();
        }
        Ok(())
    }

    /// Ends the attempts that were cancelled before they were sent.
    fn drop_cancelled(&mut self) {
        loop {
            let stages = &self.stored.state.stages;
            let cancelled = stages
                .iter()
                .filter(|stage| stage.cancelled && stage.invocation.is_none() && stage.child.is_none());
            let cancelled: Vec<EffectId> = cancelled.map(|stage| stage.effect.clone()).collect();
            let Some(Outgoing::Stage { effect, token, .. }) =
                self.take_stage(|effect| cancelled.contains(effect))
            else {
                return;
            };
            let sent = Sent {
                at: self.stored.state.now,
                message: Message::Attempt {
                    effect,
                    token,
                    report: Finished::new(HostedEnd::Cancelled).into(),
                },
            };
            self.turns
                .push(turn(&self.version.pipeline, &mut self.stored.state, sent));
        }
    }

    /// Takes the first attempt of some that is to be sent.
    pub(super) fn take_stage(&mut self, is_taken: impl Fn(&EffectId) -> bool) -> Option<Outgoing> {
        let is_taken = |outgoing: &Outgoing| match outgoing {
            Outgoing::Stage { effect, .. } => is_taken(effect),
            _ => false,
        };
        self.turns.iter_mut().find_map(|turn| {
            let at = turn.outgoing.iter().position(is_taken)?;
            Some(turn.outgoing.remove(at))
        })
    }

    /// Sends what the turns decided, and stores the state.
    async fn carry_out(&mut self) -> Result<(), Obstacle> {
        let mut events = Vec::new();
        let mut sent = Vec::new();
        for turn in std::mem::take(&mut self.turns) {
            events.extend(turn.events);
            for outgoing in turn.outgoing {
                if let Some(handle) = self.send(outgoing).await? {
                    sent.push(handle);
                }
            }
        }
        for (effect, handle) in sent {
            let invocation = handle.await?.invocation_id().to_owned();
            let stages = &mut self.stored.state.stages;
            if let Some(live) = stages.iter_mut().find(|stage| stage.effect == effect) {
                live.invocation = Some(invocation);
            }
        }
        for (run, request) in std::mem::take(&mut self.children) {
            let target = RequestTarget::object(RUN, run, "start_child");
            self.ctx.request::<_, ()>(target, Json(request)).send();
        }
        self.report_to_parent().await?;
        self.store_events(events).await?;
        self.store_state().await
    }

    async fn send(&self, outgoing: Outgoing) -> Result<Option<(EffectId, SendHandle)>, Obstacle> {
        let (ctx, facts) = (self.ctx, self.facts);
        match outgoing {
            Outgoing::Stage {
                effect,
                token,
                context,
                budget,
            } => {
                let run = ctx.key();
                let context = pack(&self.shared.blobs, run, to_value(&context), LARGE_STATE).await?;
                let request = StageRequest {
                    run: run.to_owned(),
                    secret: facts.secret.clone(),
                    pipeline: facts.pipeline.clone(),
                    sources: facts.sources.clone(),
                    root: facts.root.clone(),
                    stages: facts.stages.clone(),
                    effect: effect.clone(),
                    token,
                    context,
                    budget,
                };
                let target = RequestTarget::service(self.service(&effect), "execute");
                let handle = ctx.request::<_, ()>(target, Json(request)).send();
                return Ok(Some((effect, handle)));
            }
            Outgoing::Timer { number, delay } => {
                let at = self.stored.state.now.as_millis() + delay.as_millis() as u64;
                let at = Timestamp::from_millis(at);
                let message = Message::Timer { number };
                let envelope = Envelope {
                    secret: facts.secret.clone(),
                    sent: wire::sent(&Sent { at, message }),
                };
                let target = RequestTarget::object(RUN, ctx.key(), "report");
                ctx.request::<_, Json<Reply>>(target, Json(envelope))
                    .send_after(delay);
            }
            Outgoing::Cancel { effect, invocation } => match invocation {
                Some(invocation) => ctx.invocation_handle(invocation).cancel(),
                None => self.stop_child(&effect),
            },
            Outgoing::Answer {
                invocation,
                number,
                question,
                answer,
            } => {
                let signal = ctx.invocation_handle(invocation).signal(answer_signal(number));
                signal.resolve(Json(AnswerSignal { question, answer }));
            }
            Outgoing::Forget { effect } => {
                let key = attempt_key(ctx.key(), &effect.name(&self.version.pipeline));
                let target = RequestTarget::object(ATTEMPT, key, "forget");
                ctx.request::<_, ()>(target, ()).send();
            }
        }
        Ok(None)
    }

    /// Returns the service that executes an attempt.
    fn service(&self, effect: &EffectId) -> String {
        match self.version.pipeline.stage(effect.node).text("pool") {
            Some(pool) if !pool.is_empty() => format!("{STAGE}_{pool}"),
            _ => STAGE.to_owned(),
        }
    }

    async fn store_events(&self, new: Vec<RunEvent>) -> Result<(), Obstacle> {
        if new.is_empty() {
            return Ok(());
        }
        let head = self.ctx.get::<Json<EventHead>>(keys::EVENTS).await?;
        let mut head = head.map(|Json(head)| head).unwrap_or_default();
        head.size += size_of(&to_value(&new));
        if head.size <= LARGE_TAIL {
            self.ctx.set(keys::events(head.keys), Json(new));
            head.keys += 1;
        } else {
            let mut events = Vec::new();
            for number in 0..head.keys {
                let stored = self.ctx.get::<Json<Vec<RunEvent>>>(keys::events(number)).await?;
                events.extend(stored.into_iter().flat_map(|Json(stored)| stored));
                self.ctx.clear(keys::events(number));
            }
            events.extend(new);
            let segment = Segment {
                before: head.segment.take(),
                events,
            };
            let stored = to_value(&segment).to_string().into();
            head = EventHead {
                segment: Some(self.shared.blobs.put(self.ctx.key(), stored).await?),
                ..EventHead::default()
            };
        }
        self.ctx.set(keys::EVENTS, Json(head));
        Ok(())
    }

    async fn store_state(&self) -> Result<(), Obstacle> {
        let (ctx, blobs, run) = (self.ctx, &self.shared.blobs, self.ctx.key());
        let stale = ctx.get::<String>(keys::STALE).await?;
        if let Some(stale) = &stale
            && self.stored.blob.as_ref() != Some(stale)
        {
            // Before anything is stored, which may have the same name.
            blobs.remove(run, stale).await?;
        }
        let packed = pack(blobs, run, to_value(&self.stored.state), LARGE_STATE).await?;
        match &self.stored.blob {
            Some(blob) => ctx.set(keys::STALE, blob.clone()),
            None if stale.is_some() => ctx.clear(keys::STALE),
            None => {}
        }
        ctx.set(keys::RUN, Json(packed));
        Ok(())
    }
}
