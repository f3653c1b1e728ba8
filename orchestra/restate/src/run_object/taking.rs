//! What a turn does: it executes quick attempts itself, sends everything else, and stores the state.

use std::collections::BTreeSet;

use orchestra_core::EffectId;
use orchestra_engine::{HostedEnd, PathFiles, RunEvent, Timestamp};
use restate_sdk::context::RequestTarget;
use restate_sdk::prelude::*;
use serde_json::value::RawValue;

use crate::inline::InlineAttempt;
use crate::message::{Finished, Message, Outgoing, Reply, Sent, Turn};
use crate::packing::{Packed, raw};
use crate::run_object::stored::{LatestEvents, Obstacle, Opened, Record};
use crate::shared::Shared;
use crate::state::Phase;
use crate::wire::{
    ATTEMPT, AnswerSignal, Envelope, RUN, Segment, StageRequest, StartChild, answer_signal, attempt_key, keys,
};

/// The size in bytes above which a state becomes a blob.
pub(super) const LARGE_STATE: usize = 32 * 1024;
/// The size in bytes above which the latest events are moved from the record to a key of their own.
const LARGE_RECORD: usize = 2 * 1024;
/// The size in bytes above which the latest events become a segment.
const LARGE_TAIL: usize = 16 * 1024;
/// The number of attempts that one turn executes itself.
const MAX_INLINE: usize = 64;

/// A turn whose effects are carried out.
pub(super) struct Taking<'t, 'c> {
    pub(super) shared: &'t Shared,
    pub(super) ctx: &'t ObjectContext<'c>,
    pub(super) record: &'t mut Record,
    pub(super) opened: Opened,
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
        record: &'t mut Record,
        opened: Opened,
        turns: Vec<Turn>,
    ) -> Taking<'t, 'c> {
        Taking {
            shared,
            ctx,
            record,
            opened,
            turns,
            executed: 0,
            children: Vec::new(),
        }
    }

    /// Carries out everything that the turns decided, and stores the state.
    pub(super) async fn finish(mut self) -> Result<(), Obstacle> {
        loop {
            self.execute_inline().await?;
            // No child is started in a turn that pauses the run.
            if !self.suspend_unserved().await? && !self.start_children().await? {
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
        let version = self.opened.version.clone();
        let Ok(host) = &version.host else {
            return Ok(());
        };
        let pipeline = &version.pipeline;
        while self.executed < MAX_INLINE {
            let is_inline = |effect: &EffectId| {
                let stage = pipeline.stage(effect.node);
                inline.contains(stage.kind()) && stage.pool().is_none()
            };
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
                run: self.opened.run.run().clone(),
                machine: self.opened.run.machine().clone(),
                effect: effect.clone(),
                token,
                context,
                budget,
            };
            let name = effect.name(pipeline);
            let Json(ended) = self.ctx.run(move || attempt.execute()).name(name).await?;
            let sent: Sent = ended.unpack(&self.shared.blobs, self.ctx.key()).await?;
            self.turns.push(self.opened.run.receive(sent));
            self.drop_cancelled();
        }
        Ok(())
    }

    /// Ends the attempts that were cancelled before they were sent.
    fn drop_cancelled(&mut self) {
        loop {
            let stages = &self.opened.run.state.stages;
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
                at: self.opened.run.state.now,
                message: Message::Attempt {
                    effect,
                    token,
                    report: Finished::new(HostedEnd::Cancelled).into(),
                },
            };
            self.turns.push(self.opened.run.receive(sent));
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
    async fn carry_out(mut self) -> Result<(), Obstacle> {
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
        self.record.has_files |= !sent.is_empty() && self.files_pool().is_some();
        for (effect, handle) in sent {
            let invocation = handle.await?.invocation_id().to_owned();
            let stages = &mut self.opened.run.state.stages;
            if let Some(live) = stages.iter_mut().find(|stage| stage.effect == effect) {
                live.invocation = Some(invocation);
            }
        }
        for (run, request) in std::mem::take(&mut self.children) {
            let target = RequestTarget::object(RUN, run, "start_child");
            self.ctx.request::<_, ()>(target, Json(request)).send();
        }
        self.close_files();
        self.report_to_parent().await?;
        self.store_events(events).await?;
        self.store_record().await
    }

    async fn send(&self, outgoing: Outgoing) -> Result<Option<(EffectId, SendHandle)>, Obstacle> {
        let (ctx, facts) = (self.ctx, &self.record.facts);
        match outgoing {
            Outgoing::Stage {
                effect,
                token,
                context,
                budget,
            } => {
                let run = ctx.key();
                let context = Packed::pack(&self.shared.blobs, run, &context, LARGE_STATE).await?;
                let files = match self.files_pool() {
                    Some(_) => PathFiles::from_machine(self.opened.run.machine(), &effect),
                    None => PathFiles::default(),
                };
                let request = StageRequest {
                    run: run.to_owned(),
                    secret: facts.secret.clone(),
                    pipeline: facts.pipeline.clone(),
                    sources: facts.sources.clone(),
                    stages: facts.stages.clone(),
                    effect: effect.clone(),
                    token,
                    context,
                    budget,
                    files,
                };
                let target = RequestTarget::service(self.service(&effect), "execute");
                let handle = ctx.request::<_, ()>(target, Json(request)).send();
                return Ok(Some((effect, handle)));
            }
            Outgoing::Timer { number, delay } => {
                let at = self.opened.run.state.now.as_millis() + delay.as_millis() as u64;
                let at = Timestamp::from_millis(at);
                let message = Message::Timer { number };
                let sent = Sent { at, message };
                let envelope = Envelope {
                    secret: facts.secret.clone(),
                    sent: Packed::pack(&self.shared.blobs, ctx.key(), &sent, LARGE_STATE).await?,
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
                let key = attempt_key(ctx.key(), &effect.name(&self.opened.version.pipeline));
                let target = RequestTarget::object(ATTEMPT, key, "forget");
                ctx.request::<_, ()>(target, ()).send();
            }
        }
        Ok(None)
    }

    /// Adds events to the latest ones. A few are kept in the record, some in keys of their own, and the others in a segment.
    async fn store_events(&mut self, new: Vec<RunEvent>) -> Result<(), Obstacle> {
        let (ctx, latest) = (self.ctx, &mut self.record.events);
        for event in &new {
            latest.last.push(raw(event)?);
        }
        let size: usize = latest.last.iter().map(|event| event.get().len()).sum();
        if size <= LARGE_RECORD {
            return Ok(());
        }
        if latest.size + size <= LARGE_TAIL {
            ctx.set(keys::events(latest.keys), Json(std::mem::take(&mut latest.last)));
            latest.keys += 1;
            latest.size += size;
            return Ok(());
        }
        let mut events = Vec::new();
        for number in 0..latest.keys {
            let stored = ctx.get::<Json<Vec<Box<RawValue>>>>(keys::events(number)).await?;
            events.extend(stored.into_iter().flat_map(|Json(stored)| stored));
            ctx.clear(keys::events(number));
        }
        let LatestEvents { segment, last, .. } = std::mem::take(latest);
        events.extend(last);
        let segment = Segment {
            before: segment,
            events,
        };
        let stored = String::from(Box::<str>::from(raw(&segment)?)).into();
        latest.segment = Some(self.shared.blobs.put(ctx.key(), stored).await?);
        Ok(())
    }

    async fn store_record(self) -> Result<(), Obstacle> {
        let (ctx, blobs, run) = (self.ctx, &self.shared.blobs, self.ctx.key());
        let record = self.record;
        if let Some(stale) = &record.stale
            && self.opened.blob.as_ref() != Some(stale)
        {
            // Before anything is stored, which may have the same name.
            blobs.remove(run, stale).await?;
        }
        record.stale = self.opened.blob;
        record.facts.has_ended = matches!(self.opened.run.state.phase, Phase::Ended(_));
        record.state = Packed::pack(blobs, run, &self.opened.run.into_state(), LARGE_STATE).await?;
        ctx.set(keys::RUN, Json(record.clone()));
        Ok(())
    }
}
