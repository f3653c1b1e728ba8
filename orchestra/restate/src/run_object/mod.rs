//! The object of a run: its turns.

mod changes;
mod children;
mod pools;
mod stored;
mod taking;
mod views;

use std::sync::Arc;

use orchestra_core::Context;
use orchestra_engine::{
    AttemptHost, HostedChildEnd, PastStage, PinnedPipeline, RunEvent, RunId, StageHistory, Timestamp,
};
use restate_sdk::context::RequestTarget;
use restate_sdk::prelude::*;
use serde_json::Value;

use crate::blobs::name_of;
use crate::hosts::{NoVersion, Version};
use crate::message::{Finished, Message, Refused, Reply, Sent};
use crate::packing::{LARGE_VALUE, Packed, UnpackError};
use crate::refusal::{Refusal, refused};
use crate::run_object::stored::{Facts, LatestEvents, Obstacle, Opened, Record, record};
use crate::run_object::taking::{LARGE_STATE, Taking};
use crate::run_object::views::{result, status};
use crate::shared::Shared;
use crate::state::{PROTOCOL, Phase, RunState};
use crate::turn::{OpenRun, Start};
use crate::wire::{
    AnswerRequest, ChildEnded, Envelope, Envelopes, EventTail, ExportedParts, ExportedSources, Look, RUN,
    ResumeRequest, Seen, StartChild, StartRequest, StopChild, StopHow, StopRequest, keys,
};

#[derive(Clone)]
pub(crate) struct RunObject(pub(crate) Arc<Shared>);

#[restate_sdk::object(name = "OrchestraRun", client_visibility = "pub(crate)")]
impl RunObject {
    /// Starts the run. The same request is accepted again.
    #[handler]
    async fn start(&self, ctx: ObjectContext<'_>, request: Json<StartRequest>) -> HandlerResult<()> {
        let Json(request) = request;
        let digest = request.digest();
        if let Some(Json(record)) = ctx.get::<Json<Record>>(keys::RUN).await? {
            return match record.facts.request == digest {
                true => Ok(()),
                false => Err(refused(Refusal::RunExists(ctx.key().to_owned()))),
            };
        }
        let run = RunId::new(ctx.key()).map_err(|error| refused(Refusal::Start(error.to_string())))?;
        let version = self.0.hosts.current(&request.pipeline);
        let version = version.map_err(|error| refused(Refusal::UnknownPipeline(error.to_string())))?;
        let host = match &version.host {
            Ok(host) => host,
            Err(refusals) => return Err(refused(Refusal::Start(refusals.clone()))),
        };
        check_manager_loops(host)?;
        let blobs = &self.0.blobs;
        let params: Context = match request.params.unpack(blobs, &run).await {
            Ok(params) => params,
            Err(UnpackError::Blob(error)) if !error.is_lost() => return Err(error.into()),
            Err(error) => {
                return Err(refused(Refusal::Start(format!(
                    "the parameters cannot be read: {error}"
                ))));
            }
        };
        let context = host
            .initial_context(params)
            .map_err(|error| refused(Refusal::Start(error.to_string())))?;
        blobs.put_sources(&version.name, &version.sources).await?;
        let facts = Facts {
            pipeline: request.pipeline.clone(),
            hash: version.hash(),
            sources: version.name.clone(),
            stages: Vec::new(),
            has_ended: false,
            secret: request.secret,
            earlier: Vec::new(),
            request: digest,
            parent: None,
            timed_out: false,
        };
        let begin = Start {
            run,
            pipeline: request.pipeline,
            hash: facts.hash.clone(),
            context,
            seed: request.seed.unwrap_or(request.random_seed),
            budget: request.budget,
            at: request.at,
        };
        self.begin(&ctx, facts, version.clone(), begin).await
    }

    /// Receives a message that nobody waits for: of a timer, or about the usage that a note reports.
    #[handler]
    async fn report(&self, ctx: ObjectContext<'_>, envelope: Json<Envelope>) -> HandlerResult<Json<Reply>> {
        let Json(Envelope { secret, sent }) = envelope;
        let mut replies = self.receive(&ctx, &secret, vec![sent]).await?;
        Ok(Json(replies.pop().unwrap_or_default()))
    }

    /// Receives messages of a worker, which are applied in one turn.
    #[handler]
    async fn reports(
        &self,
        ctx: ObjectContext<'_>,
        envelope: Json<Envelopes>,
    ) -> HandlerResult<Json<Vec<Reply>>> {
        let Json(Envelopes { secret, sent }) = envelope;
        self.receive(&ctx, &secret, sent).await.map(Json)
    }

    /// Answers an open question.
    #[handler]
    async fn answer(&self, ctx: ObjectContext<'_>, request: Json<AnswerRequest>) -> HandlerResult<()> {
        let Json(AnswerRequest { question, answer, at }) = request;
        self.ask(&ctx, at, Message::Answer { question, answer }).await
    }

    /// Ends the run.
    #[handler]
    async fn cancel(&self, ctx: ObjectContext<'_>, request: Json<StopRequest>) -> HandlerResult<()> {
        let Json(StopRequest { reason, at }) = request;
        self.ask(&ctx, at, Message::Cancel { reason }).await
    }

    /// Stops the run, so that it can be resumed.
    #[handler]
    async fn pause(&self, ctx: ObjectContext<'_>, request: Json<StopRequest>) -> HandlerResult<()> {
        let Json(StopRequest { reason, at }) = request;
        self.ask(&ctx, at, Message::Pause { reason }).await
    }

    /// Resumes the run. Messages that arrived while no turn could be taken are applied first.
    #[handler]
    async fn resume(&self, ctx: ObjectContext<'_>, request: Json<ResumeRequest>) -> HandlerResult<()> {
        let Json(ResumeRequest {
            lost,
            accept_changes,
            at,
        }) = request;
        let mut record = record(&ctx).await?;
        let moved = match accept_changes {
            true => self.accept_changes(&ctx, &mut record).await?,
            false => None,
        };
        let (opened, mapping) = match moved {
            Some((opened, mapping)) => (opened, Some(mapping)),
            None => {
                let opened = self.open(&ctx, &record).await;
                (opened.map_err(Obstacle::into_error)?, None)
            }
        };
        let is_lost = |invocation: &Option<String>| invocation.as_ref().is_some_and(|id| lost.contains(id));
        let stages = opened.run.state.stages.iter();
        let lost = stages
            .filter(|stage| is_lost(&stage.invocation))
            .map(|stage| stage.effect.clone())
            .collect();
        let mut messages = Vec::new();
        let was_parked = std::mem::take(&mut record.is_parked);
        if was_parked {
            for sent in held(&ctx).await? {
                let sent = sent.unpack(&self.0.blobs, ctx.key()).await;
                let sent: Sent = sent.map_err(|error| Obstacle::from(error).into_error())?;
                messages.extend(match &mapping {
                    Some(mapping) => sent.carried_over(mapping),
                    None => Some(sent),
                });
            }
        }
        messages.push(Sent {
            at,
            message: Message::Resume { lost },
        });
        let has_changed = was_parked || mapping.is_some();
        let applied = self.apply(&ctx, &mut record, opened, messages, has_changed).await;
        let mut replies = applied.map_err(Obstacle::into_error)?;
        if was_parked {
            ctx.clear(keys::PARKED);
            ctx.clear(keys::HELD);
        }
        match replies.pop() {
            Some(Reply::Refused(reason)) if !has_changed => Err(refused(Refusal::Message(reason))),
            _ => Ok(()),
        }
    }

    /// Starts the run as a child of another one, or goes on with it for a later execution of the same attempt.
    #[handler]
    async fn start_child(&self, ctx: ObjectContext<'_>, request: Json<StartChild>) -> HandlerResult<()> {
        let Json(request) = request;
        if let Some(Json(mut record)) = ctx.get::<Json<Record>>(keys::RUN).await? {
            record.facts.parent = Some(request.parent);
            let opened = self.open(&ctx, &record).await.map_err(Obstacle::into_error)?;
            let sent = Sent {
                at: request.at,
                message: Message::Resume { lost: Vec::new() },
            };
            let messages = match opened.run.state.phase {
                Phase::Paused(_) => vec![sent],
                // It reports its end again, to the execution that waits for it now.
                _ => Vec::new(),
            };
            let applied = self.apply(&ctx, &mut record, opened, messages, true).await;
            return applied.map(drop).map_err(Obstacle::into_error);
        }
        let run = RunId::new(ctx.key()).map_err(|error| refused(Refusal::Start(error.to_string())))?;
        ctx.set(keys::PARENT, request.parent.run.clone());
        let mut facts = Facts {
            pipeline: request.pipeline.clone(),
            hash: String::new(),
            sources: request.sources,
            stages: request.stages,
            has_ended: false,
            secret: request.secret,
            earlier: Vec::new(),
            request: String::new(),
            parent: Some(request.parent),
            timed_out: false,
        };
        let version = self.version(&facts).await;
        let version = version.map_err(|error| Obstacle::from(error).into_error())?;
        facts.hash = version.hash();
        let context = request.context.unpack(&self.0.blobs, ctx.key()).await;
        let context: Context = context.map_err(|error| Obstacle::from(error).into_error())?;
        if let Some(timeout) = request.timeout {
            let target = RequestTarget::object(RUN, ctx.key(), "stop_child");
            let stop = StopChild {
                secret: facts.secret.clone(),
                how: StopHow::TimeOut,
                at: Timestamp::from_millis(request.at.as_millis() + timeout.as_millis() as u64),
            };
            ctx.request::<_, ()>(target, Json(stop)).send_after(timeout);
        }
        let begin = Start {
            run,
            pipeline: request.pipeline,
            hash: facts.hash.clone(),
            context,
            seed: request.seed,
            budget: request.budget,
            at: request.at,
        };
        self.begin(&ctx, facts, version, begin).await
    }

    /// Stops the run for its parent.
    #[handler]
    async fn stop_child(&self, ctx: ObjectContext<'_>, request: Json<StopChild>) -> HandlerResult<()> {
        let Json(StopChild { secret, how, at }) = request;
        let mut record = record(&ctx).await?;
        if record.facts.secret != secret {
            return Err(refused(Refusal::ForeignSecret));
        }
        let message = match how {
            StopHow::Pause(reason) => Message::Pause { reason },
            StopHow::Cancel(reason) => Message::Cancel { reason },
            StopHow::TimeOut => {
                record.facts.timed_out = true;
                let reason = "the stage that started the run took too long".to_owned();
                Message::Cancel { reason }
            }
        };
        let sent = Packed::pack(&self.0.blobs, ctx.key(), &Sent { at, message }, LARGE_VALUE).await?;
        // A run that has ended refuses it, and has reported its end.
        self.take(&ctx, &mut record, vec![sent]).await.map(drop)
    }

    /// Receives the end of a child run.
    #[handler]
    async fn child_ended(&self, ctx: ObjectContext<'_>, message: Json<ChildEnded>) -> HandlerResult<()> {
        let Json(message) = message;
        let mut record = record(&ctx).await?;
        if record.facts.secret != message.secret {
            return Err(refused(Refusal::ForeignSecret));
        }
        let taken = async {
            let opened = self.open(&ctx, &record).await?;
            let stages = &opened.run.state.stages;
            if !stages.iter().any(|stage| stage.effect == message.effect) {
                return Ok(());
            }
            let end: HostedChildEnd = message.end.unpack(&self.0.blobs, ctx.key()).await?;
            let end = match &opened.version.host {
                Ok(host) => host.child_ended(opened.run.run(), &message.effect, &end),
                Err(reason) => return Err(Obstacle::Parked(reason.clone())),
            };
            let finished = Finished {
                used: message.used,
                ..Finished::new(end)
            };
            let sent = Sent {
                at: message.at,
                message: Message::Attempt {
                    effect: message.effect,
                    token: message.token,
                    report: finished.into(),
                },
            };
            let applied = self.apply(&ctx, &mut record, opened, vec![sent], false).await;
            applied.map(drop)
        };
        // A worker that has the pipeline, or a blob that is restored, lets the message through.
        taken.await.map_err(|obstacle| match obstacle {
            Obstacle::Parked(reason) => reason.into(),
            Obstacle::Temporary(error) => error,
        })
    }

    /// Answers a question about the run.
    #[handler]
    async fn look(&self, ctx: SharedObjectContext<'_>, look: Json<Look>) -> HandlerResult<Json<Seen>> {
        let Json(look) = look;
        let record = ctx.get::<Json<Record>>(keys::RUN).await?;
        let Json(record) = record.ok_or_else(|| refused(Refusal::UnknownRun(ctx.key().to_owned())))?;
        let Record {
            facts, state, events, ..
        } = record;
        if let Look::Events = look {
            return Ok(Json(Seen::Events(latest_events(&ctx, events).await?)));
        }
        if let Look::Export = look {
            let events = latest_events(&ctx, events).await?;
            let params = ctx.get::<Json<Packed>>(keys::PARAMS).await?;
            let Json(params) = params.ok_or_else(|| refused(Refusal::UnknownRun(ctx.key().to_owned())))?;
            let sources = self.sources(&facts).await.map_err(Obstacle::into_error)?;
            let parts = ExportedParts {
                state,
                sources,
                params,
                events,
            };
            return Ok(Json(Seen::Export(Box::new(parts))));
        }
        let parked = ctx.get::<String>(keys::PARKED).await?;
        let read = async {
            let state: RunState = state.unpack(&self.0.blobs, ctx.key()).await?;
            let version = self.version(&facts).await?;
            Ok::<_, Obstacle>((state, version))
        };
        let (state, version) = match read.await {
            Ok(read) => read,
            Err(Obstacle::Parked(reason)) => return Err(refused(Refusal::Parked(reason))),
            Err(Obstacle::Temporary(error)) => return Err(error),
        };
        let machine = state.machine_of(&version.pipeline);
        let machine = machine.map_err(|reason| refused(Refusal::Parked(reason)))?;
        Ok(Json(match look {
            Look::History(effect) => Seen::History(Box::new(StageHistory::from_machine(&machine, &effect))),
            Look::Latest(effect, nodes) => {
                Seen::Latest(PastStage::latest(&machine, &effect, nodes.as_deref()))
            }
            Look::Result => Seen::Result(Box::new(result(&state, &machine))),
            Look::Status | Look::Events | Look::Export => {
                Seen::Status(Box::new(status(state, &machine, parked, &facts)))
            }
        }))
    }
}

impl RunObject {
    /// Receives messages that must name the secret of the run.
    async fn receive(
        &self,
        ctx: &ObjectContext<'_>,
        secret: &str,
        sent: Vec<Packed>,
    ) -> HandlerResult<Vec<Reply>> {
        let mut record = record(ctx).await?;
        if record.facts.secret != secret {
            return self.receive_earlier(ctx, record, secret, sent).await;
        }
        self.take(ctx, &mut record, sent).await
    }

    /// Begins the run.
    async fn begin(
        &self,
        ctx: &ObjectContext<'_>,
        facts: Facts,
        version: Arc<Version>,
        begin: Start,
    ) -> HandlerResult<()> {
        let blobs = &self.0.blobs;
        let params = Packed::pack(blobs, ctx.key(), &begin.context, LARGE_STATE).await?;
        ctx.set(keys::PARAMS, Json(params));
        let (run, first) = OpenRun::begin(&version.pipeline, begin);
        let mut record = Record {
            facts,
            state: Packed::pack(blobs, ctx.key(), &(), LARGE_STATE).await?,
            stale: None,
            is_parked: false,
            has_files: false,
            events: LatestEvents::default(),
        };
        let opened = Opened {
            run,
            blob: None,
            version,
        };
        let taking = Taking::new(&self.0, ctx, &mut record, opened, vec![first]);
        taking.finish().await.map_err(Obstacle::into_error)
    }

    /// Applies the message of a person.
    async fn ask(&self, ctx: &ObjectContext<'_>, at: Timestamp, message: Message) -> HandlerResult<()> {
        let mut record = record(ctx).await?;
        if record.is_parked {
            return Err(refused(Refusal::Parked(reason(ctx).await?)));
        }
        let taken = async {
            let opened = self.open(ctx, &record).await?;
            let sent = Sent { at, message };
            self.apply(ctx, &mut record, opened, vec![sent], false).await
        };
        match taken.await.map(|mut replies| replies.pop()) {
            Ok(Some(Reply::Refused(reason))) => Err(refused(Refusal::Message(reason))),
            Ok(_) => Ok(()),
            Err(Obstacle::Parked(reason)) => Err(refused(Refusal::Parked(reason))),
            Err(Obstacle::Temporary(error)) => Err(error),
        }
    }

    /// Applies the messages of workers or a timer, in one turn. If no turn can be taken, keeps them until the run is resumed.
    async fn take(
        &self,
        ctx: &ObjectContext<'_>,
        record: &mut Record,
        sent: Vec<Packed>,
    ) -> HandlerResult<Vec<Reply>> {
        if record.is_parked {
            ctx.set(keys::RUN, Json(record.clone()));
            return hold(ctx, sent, &reason(ctx).await?).await;
        }
        let taken = async {
            let mut messages = Vec::new();
            for sent in &sent {
                messages.push(sent.unpack(&self.0.blobs, ctx.key()).await?);
            }
            let opened = self.open(ctx, record).await?;
            self.apply(ctx, record, opened, messages, false).await
        };
        match taken.await {
            Ok(replies) => Ok(replies),
            Err(Obstacle::Parked(reason)) => {
                record.is_parked = true;
                ctx.set(keys::RUN, Json(record.clone()));
                ctx.set(keys::PARKED, reason.clone());
                hold(ctx, sent, &reason).await
            }
            Err(Obstacle::Temporary(error)) => Err(error),
        }
    }

    /// Returns where the sources of the pipeline are.
    async fn sources(&self, facts: &Facts) -> Result<ExportedSources, Obstacle> {
        if facts.stages.is_empty() {
            return Ok(ExportedSources::Blob(facts.sources.clone()));
        }
        // Only a worker knows which pipeline a stage names.
        let version = self.version(facts).await?;
        let pinned = PinnedPipeline::from_pipeline(&version.pipeline);
        Ok(ExportedSources::Child(Box::new(pinned)))
    }

    async fn version(&self, facts: &Facts) -> Result<Arc<Version>, NoVersion> {
        self.0.hosts.version(&facts.place(), &self.0.blobs).await
    }

    /// Reads the state of the run.
    async fn state(&self, ctx: &ObjectContext<'_>, record: &Record) -> Result<RunState, Obstacle> {
        let state: RunState = record.state.unpack(&self.0.blobs, ctx.key()).await?;
        if state.protocol != PROTOCOL {
            return Err(Obstacle::Parked(format!(
                "the state of the run has version {}, and this worker reads version {PROTOCOL}",
                state.protocol
            )));
        }
        Ok(state)
    }

    /// Reads the state of the run, and finds its pipeline.
    async fn open(&self, ctx: &ObjectContext<'_>, record: &Record) -> Result<Opened, Obstacle> {
        let state = self.state(ctx, record).await?;
        let version = self.version(&record.facts).await?;
        Ok(Opened {
            run: OpenRun::open(&version.pipeline, state).map_err(Obstacle::Parked)?,
            blob: record.state.root_blob(),
            version,
        })
    }

    /// Applies messages to the run in one turn, and sends what follows. Returns the reply to each. The run is stored if a
    /// message or the caller has changed it.
    async fn apply(
        &self,
        ctx: &ObjectContext<'_>,
        record: &mut Record,
        mut opened: Opened,
        messages: Vec<Sent>,
        mut has_changed: bool,
    ) -> Result<Vec<Reply>, Obstacle> {
        let mut turns = Vec::new();
        for sent in messages {
            let taken = opened.run.receive(sent);
            has_changed |= match &taken.reply {
                Reply::Refused(Refused::NotAwaited) => !taken.events.is_empty(),
                Reply::Accepted | Reply::Claimed(_) => true,
                _ => false,
            };
            turns.push(taken);
        }
        let replies = turns.iter().map(|turn| turn.reply.clone()).collect();
        if has_changed {
            let taking = Taking::new(&self.0, ctx, record, opened, turns);
            taking.finish().await?;
        }
        Ok(replies)
    }
}

/// Refuses a pipeline with a manager loop.
fn check_manager_loops(host: &AttemptHost) -> HandlerResult<()> {
    match host.manager_loop() {
        None => Ok(()),
        Some((pipeline, node)) => Err(refused(Refusal::Start(format!(
            "node `{node}` of pipeline `{pipeline}` is a manager loop, which a run on a Restate server cannot have; \
             use a sub-pipeline instead"
        )))),
    }
}

/// Keeps messages of a run that is parked. One whose sender needs an answer is refused, and sent again later.
async fn hold(ctx: &ObjectContext<'_>, sent: Vec<Packed>, reason: &str) -> HandlerResult<Vec<Reply>> {
    let mut held = held(ctx).await?;
    let mut replies = Vec::new();
    for sent in sent {
        let read: Value = serde_json::from_str(sent.text())?;
        let report = &read["message"]["attempt"]["report"];
        let waits = ["claimed", "reserved", "asked"]
            .iter()
            .any(|kind| report.get(kind).is_some());
        replies.push(match waits {
            true => Reply::Refused(Refused::Parked(reason.to_owned())),
            false => {
                held.push(sent);
                Reply::Accepted
            }
        });
    }
    ctx.set(keys::HELD, Json(held));
    Ok(replies)
}

/// Returns the messages that arrived since the run was parked.
async fn held(ctx: &ObjectContext<'_>) -> Result<Vec<Packed>, TerminalError> {
    let held = ctx.get::<Json<Vec<Packed>>>(keys::HELD).await?;
    Ok(held.map(|Json(held)| held).unwrap_or_default())
}

/// Returns the reason for which the run is parked.
async fn reason(ctx: &ObjectContext<'_>) -> Result<String, TerminalError> {
    Ok(ctx.get::<String>(keys::PARKED).await?.unwrap_or_default())
}

impl StartRequest {
    /// Returns what makes two requests the same, as a short text.
    fn digest(&self) -> String {
        let same = (&self.pipeline, &self.params, self.seed, self.budget);
        name_of(&serde_json::to_vec(&same).unwrap_or_default())
    }
}

/// Returns the events that are not in a segment yet.
async fn latest_events(ctx: &SharedObjectContext<'_>, latest: LatestEvents) -> HandlerResult<EventTail> {
    let mut events = Vec::new();
    for number in 0..latest.keys {
        let stored = ctx.get::<Json<Vec<RunEvent>>>(keys::events(number)).await?;
        events.extend(stored.into_iter().flat_map(|Json(stored)| stored));
    }
    for event in latest.last {
        events.push(serde_json::from_str(event.get())?);
    }
    Ok(EventTail {
        segment: latest.segment,
        events,
    })
}
