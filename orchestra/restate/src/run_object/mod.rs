//! The object of a run: its turns.

mod children;
mod stored;
mod taking;
mod views;

use std::sync::Arc;

use orchestra_core::Context;
use orchestra_engine::{HostedChildEnd, PastStage, PinnedPipeline, RunEvent, RunId, StageHistory, Timestamp};
use restate_sdk::context::RequestTarget;
use restate_sdk::prelude::*;
use serde_json::Value;

use crate::blobs::{BlobError, name_of};
use crate::hosts::{NoVersion, Version};
use crate::message::{Finished, Message, Refused, Reply, Sent};
use crate::packing::{pack, root_blob, unpack};
use crate::refusal::{Refusal, refused};
use crate::run_object::stored::{Facts, Obstacle, Stored, facts, keys, read};
use crate::run_object::taking::Taking;
use crate::run_object::views::{result, status};
use crate::shared::Shared;
use crate::state::{PROTOCOL, Phase, RunState};
use crate::turn::{Start, start, turn};
use crate::wire::{
    self, AnswerRequest, ChildEnded, Envelope, Envelopes, EventHead, EventTail, ExportedParts,
    ExportedSources, Look, RUN, ResumeRequest, Seen, StartChild, StartRequest, StopChild, StopHow,
    StopRequest, to_value,
};

/// The size in bytes above which the initial context becomes a blob, because each turn reads it.
const LARGE_PARAMS: usize = 1024;

#[derive(Clone)]
pub(crate) struct RunObject(pub(crate) Arc<Shared>);

#[restate_sdk::object(name = "OrchestraRun", client_visibility = "pub(crate)")]
impl RunObject {
    /// Starts the run. The same request is accepted again.
    #[handler]
    async fn start(&self, ctx: ObjectContext<'_>, request: Json<StartRequest>) -> HandlerResult<()> {
        let Json(request) = request;
        let digest = request.digest();
        if let Some(Json(facts)) = ctx.get::<Json<Facts>>(keys::FACTS).await? {
            return match facts.request == digest {
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
        if let Some((pipeline, node)) = host.manager_loop() {
            return Err(refused(Refusal::Start(format!(
                "node `{node}` of pipeline `{pipeline}` is a manager loop, which a run on a Restate server cannot have; \
                 use a sub-pipeline instead"
            ))));
        }
        let blobs = &self.0.blobs;
        let params = unpack(blobs, &run, request.params).await.map_err(lost)?;
        let params: Context = serde_json::from_value(params)
            .map_err(|error| refused(Refusal::Start(format!("the parameters are no values: {error}"))))?;
        let context = host
            .initial_context(params)
            .map_err(|error| refused(Refusal::Start(error.to_string())))?;
        blobs.put(&run, version.sources.clone().into()).await?;
        let facts = Facts {
            pipeline: request.pipeline.clone(),
            hash: version.hash(),
            sources: version.name.clone(),
            secret: request.secret,
            params: pack(blobs, &run, to_value(&context), LARGE_PARAMS).await?,
            request: digest,
            root: run.to_string(),
            stages: Vec::new(),
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
        self.begin(&ctx, &facts, version.clone(), begin).await?;
        ctx.set(keys::FACTS, Json(facts));
        Ok(())
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
        let Json(ResumeRequest { lost, at }) = request;
        let facts = facts(&ctx).await?;
        let held = ctx.get::<Json<Vec<Value>>>(keys::HELD).await?;
        let opened = match self.open(&ctx, &facts).await {
            Ok(opened) => opened,
            Err(Obstacle::Parked(reason)) => return Err(refused(Refusal::Parked(reason))),
            Err(Obstacle::Temporary(error)) => return Err(error),
        };
        let (stored, version) = opened;
        let is_lost = |invocation: &Option<String>| invocation.as_ref().is_some_and(|id| lost.contains(id));
        let stages = stored.state.stages.iter();
        let lost = stages
            .filter(|stage| is_lost(&stage.invocation))
            .map(|stage| stage.effect.clone())
            .collect();
        let mut messages = Vec::new();
        for sent in held.map(|Json(held)| held).unwrap_or_default() {
            messages.push(
                read::<Sent>(&self.0.blobs, ctx.key(), sent)
                    .await
                    .map_err(Obstacle::into_error)?,
            );
        }
        let was_parked = ctx.get::<String>(keys::PARKED).await?.is_some();
        messages.push(Sent {
            at,
            message: Message::Resume { lost },
        });
        let mut replies = self
            .apply(&ctx, &facts, stored, version, messages)
            .await
            .map_err(Obstacle::into_error)?;
        if was_parked {
            ctx.clear(keys::PARKED);
            ctx.clear(keys::HELD);
        }
        match replies.pop() {
            Some(Reply::Refused(reason)) if !was_parked => Err(refused(Refusal::Message(reason))),
            _ => Ok(()),
        }
    }

    /// Starts the run as a child of another one, or goes on with it for a later execution of the same attempt.
    #[handler]
    async fn start_child(&self, ctx: ObjectContext<'_>, request: Json<StartChild>) -> HandlerResult<()> {
        let Json(request) = request;
        if let Some(Json(mut facts)) = ctx.get::<Json<Facts>>(keys::FACTS).await? {
            facts.parent = Some(request.parent);
            ctx.set(keys::FACTS, Json(facts.clone()));
            let (stored, version) = self.open(&ctx, &facts).await.map_err(Obstacle::into_error)?;
            let sent = Sent {
                at: request.at,
                message: Message::Resume { lost: Vec::new() },
            };
            let messages = match stored.state.phase {
                Phase::Paused(_) => vec![sent],
                // It reports its end again, to the execution that waits for it now.
                _ => Vec::new(),
            };
            let applied = self.apply(&ctx, &facts, stored, version, messages).await;
            return applied.map(drop).map_err(Obstacle::into_error);
        }
        let run = RunId::new(ctx.key()).map_err(|error| refused(Refusal::Start(error.to_string())))?;
        let mut facts = Facts {
            pipeline: request.pipeline.clone(),
            hash: String::new(),
            sources: request.sources,
            secret: request.secret,
            params: Value::Null,
            request: String::new(),
            root: request.root,
            stages: request.stages,
            parent: Some(request.parent),
            timed_out: false,
        };
        let version = self.version(&facts).await;
        let version = version.map_err(|error| Obstacle::from(error).into_error())?;
        facts.hash = version.hash();
        let context: Context = read(&self.0.blobs, ctx.key(), request.context)
            .await
            .map_err(Obstacle::into_error)?;
        facts.params = pack(&self.0.blobs, &run, to_value(&context), LARGE_PARAMS).await?;
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
        self.begin(&ctx, &facts, version, begin).await?;
        ctx.set(keys::FACTS, Json(facts));
        Ok(())
    }

    /// Stops the run for its parent.
    #[handler]
    async fn stop_child(&self, ctx: ObjectContext<'_>, request: Json<StopChild>) -> HandlerResult<()> {
        let Json(StopChild { secret, how, at }) = request;
        let mut facts = facts(&ctx).await?;
        if facts.secret != secret {
            return Err(refused(Refusal::ForeignSecret));
        }
        let message = match how {
            StopHow::Pause(reason) => Message::Pause { reason },
            StopHow::Cancel(reason) => Message::Cancel { reason },
            StopHow::TimeOut => {
                facts.timed_out = true;
                let reason = "the stage that started the run took too long".to_owned();
                Message::Cancel { reason }
            }
        };
        let sent = wire::sent(&Sent { at, message });
        // A run that has ended refuses it, and has reported its end.
        self.take(&ctx, &facts, vec![sent]).await?;
        ctx.set(keys::FACTS, Json(facts));
        Ok(())
    }

    /// Receives the end of a child run.
    #[handler]
    async fn child_ended(&self, ctx: ObjectContext<'_>, message: Json<ChildEnded>) -> HandlerResult<()> {
        let Json(message) = message;
        let facts = facts(&ctx).await?;
        if facts.secret != message.secret {
            return Err(refused(Refusal::ForeignSecret));
        }
        let taken = async {
            let (stored, version) = self.open(&ctx, &facts).await?;
            let stages = &stored.state.stages;
            if !stages.iter().any(|stage| stage.effect == message.effect) {
                return Ok(());
            }
            let run = RunId::new(ctx.key()).map_err(|error| Obstacle::Parked(error.to_string()))?;
            let end: HostedChildEnd = read(&self.0.blobs, ctx.key(), message.end).await?;
            let end = match &version.host {
                Ok(host) => host.child_ended(&run, &message.effect, &end),
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
            self.apply(&ctx, &facts, stored, version, vec![sent])
                .await
                .map(drop)
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
        let facts = ctx.get::<Json<Facts>>(keys::FACTS).await?;
        let Json(facts) = facts.ok_or_else(|| refused(Refusal::UnknownRun(ctx.key().to_owned())))?;
        if let Look::Events = look {
            return Ok(Json(Seen::Events(latest_events(&ctx).await?)));
        }
        let parked = ctx.get::<String>(keys::PARKED).await?;
        let stored = ctx.get::<Json<Value>>(keys::RUN).await?;
        let Json(stored) = stored.ok_or_else(|| refused(Refusal::UnknownRun(ctx.key().to_owned())))?;
        if let Look::Export = look {
            let events = latest_events(&ctx).await?;
            let parts = self.exported_parts(facts, stored, events).await;
            let parts = parts.map_err(Obstacle::into_error)?;
            return Ok(Json(Seen::Export(Box::new(parts))));
        }
        let read = async {
            let state: RunState = read(&self.0.blobs, ctx.key(), stored).await?;
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
        sent: Vec<Value>,
    ) -> HandlerResult<Vec<Reply>> {
        let facts = facts(ctx).await?;
        if facts.secret != secret {
            return Err(refused(Refusal::ForeignSecret));
        }
        self.take(ctx, &facts, sent).await
    }

    /// Begins the run.
    async fn begin(
        &self,
        ctx: &ObjectContext<'_>,
        facts: &Facts,
        version: Arc<Version>,
        begin: Start,
    ) -> HandlerResult<()> {
        let (state, first) = start(&version.pipeline, begin);
        let stored = Stored { state, blob: None };
        let mut taking = Taking::new(&self.0, ctx, facts, version, stored, vec![first]);
        taking.finish().await.map_err(Obstacle::into_error)
    }

    /// Applies the message of a person.
    async fn ask(&self, ctx: &ObjectContext<'_>, at: Timestamp, message: Message) -> HandlerResult<()> {
        let facts = facts(ctx).await?;
        if let Some(reason) = ctx.get::<String>(keys::PARKED).await? {
            return Err(refused(Refusal::Parked(reason)));
        }
        let taken = async {
            let (stored, version) = self.open(ctx, &facts).await?;
            let sent = Sent { at, message };
            self.apply(ctx, &facts, stored, version, vec![sent]).await
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
        facts: &Facts,
        sent: Vec<Value>,
    ) -> HandlerResult<Vec<Reply>> {
        if let Some(reason) = ctx.get::<String>(keys::PARKED).await? {
            return self.hold(ctx, sent, &reason).await;
        }
        let taken = async {
            let mut messages = Vec::new();
            for sent in &sent {
                messages.push(read::<Sent>(&self.0.blobs, ctx.key(), sent.clone()).await?);
            }
            let (stored, version) = self.open(ctx, facts).await?;
            self.apply(ctx, facts, stored, version, messages).await
        };
        match taken.await {
            Ok(replies) => Ok(replies),
            Err(Obstacle::Parked(reason)) => {
                ctx.set(keys::PARKED, reason.clone());
                self.hold(ctx, sent, &reason).await
            }
            Err(Obstacle::Temporary(error)) => Err(error),
        }
    }

    /// Keeps messages of a run that is parked. One whose sender needs an answer is refused, and sent again later.
    async fn hold(
        &self,
        ctx: &ObjectContext<'_>,
        sent: Vec<Value>,
        reason: &str,
    ) -> HandlerResult<Vec<Reply>> {
        let held = ctx.get::<Json<Vec<Value>>>(keys::HELD).await?;
        let mut held = held.map(|Json(held)| held).unwrap_or_default();
        let mut replies = Vec::new();
        for sent in sent {
            let report = &sent["message"]["attempt"]["report"];
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

    /// Returns everything of which a copy of the run is made.
    async fn exported_parts(
        &self,
        facts: Facts,
        state: Value,
        events: EventTail,
    ) -> Result<ExportedParts, Obstacle> {
        let sources = if facts.stages.is_empty() {
            ExportedSources::Blob(facts.sources)
        } else {
            // Only a worker knows which pipeline a stage names.
            let version = self.version(&facts).await?;
            ExportedSources::Child(Box::new(PinnedPipeline::from_pipeline(&version.pipeline)))
        };
        Ok(ExportedParts {
            state,
            sources,
            params: facts.params,
            events,
        })
    }

    async fn version(&self, facts: &Facts) -> Result<Arc<Version>, NoVersion> {
        self.0
            .hosts
            .version(&facts.place(), &facts.root, &self.0.blobs)
            .await
    }

    /// Reads the state of the run, and finds its pipeline.
    async fn open(&self, ctx: &ObjectContext<'_>, facts: &Facts) -> Result<(Stored, Arc<Version>), Obstacle> {
        let stored = ctx.get::<Json<Value>>(keys::RUN).await?;
        let Json(value) =
            stored.ok_or_else(|| Obstacle::Temporary(refused(Refusal::UnknownRun(ctx.key().to_owned()))))?;
        let blob = root_blob(&value).map(str::to_owned);
        let state: RunState = read(&self.0.blobs, ctx.key(), value).await?;
        if state.protocol != PROTOCOL {
            return Err(Obstacle::Parked(format!(
                "the state of the run has version {}, and this worker reads version {PROTOCOL}",
                state.protocol
            )));
        }
        let version = self.version(facts).await?;
        Ok((Stored { state, blob }, version))
    }

    /// Applies messages to the run in one turn, and sends what follows. Returns the reply to each.
    async fn apply(
        &self,
        ctx: &ObjectContext<'_>,
        facts: &Facts,
        mut stored: Stored,
        version: Arc<Version>,
        messages: Vec<Sent>,
    ) -> Result<Vec<Reply>, Obstacle> {
        let mut turns = Vec::new();
        let mut changed = false;
        for sent in messages {
            let taken = turn(&version.pipeline, &mut stored.state, sent);
            match &taken.reply {
                // The state does not fit the pipeline, so nothing was applied.
                Reply::Refused(Refused::Unreadable(reason)) => return Err(Obstacle::Parked(reason.clone())),
                Reply::Refused(Refused::NotAwaited) if !taken.events.is_empty() => changed = true,
                Reply::Accepted | Reply::Claimed(_) => changed = true,
                _ => {}
            }
            turns.push(taken);
        }
        let replies = turns.iter().map(|turn| turn.reply.clone()).collect();
        // A child may have to report its end again.
        if changed || turns.is_empty() {
            Taking::new(&self.0, ctx, facts, version, stored, turns)
                .finish()
                .await?;
        }
        Ok(replies)
    }
}

impl StartRequest {
    /// Returns what makes two requests the same, as a short text.
    fn digest(&self) -> String {
        let same = (&self.pipeline, &self.params, self.seed, self.budget);
        name_of(to_value(&same).to_string().as_bytes())
    }
}

fn lost(error: BlobError) -> HandlerError {
    match error.is_lost() {
        true => refused(Refusal::Start(error.to_string())),
        false => error.into(),
    }
}

/// Returns the events that are not in a segment yet.
async fn latest_events(ctx: &SharedObjectContext<'_>) -> Result<EventTail, TerminalError> {
    let head = ctx.get::<Json<EventHead>>(keys::EVENTS).await?;
    let head = head.map(|Json(head)| head).unwrap_or_default();
    let mut tail = EventTail {
        segment: head.segment,
        events: Vec::new(),
    };
    for number in 0..head.keys {
        let stored = ctx.get::<Json<Vec<RunEvent>>>(keys::events(number)).await?;
        tail.events
            .extend(stored.into_iter().flat_map(|Json(stored)| stored));
    }
    Ok(tail)
}
