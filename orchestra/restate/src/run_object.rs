//! The object of a run: its turns.

use std::collections::BTreeSet;
use std::sync::Arc;

use orchestra_core::{Context, EffectId, Machine, SharedPipeline};
use orchestra_engine::{HostedEnd, PastStage, RunEvent, RunId, StageHistory, Timestamp};
use restate_sdk::context::RequestTarget;
use restate_sdk::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::blobs::BlobError;
use crate::hosts::{NoVersion, Version};
use crate::inline::InlineAttempt;
use crate::message::{Finished, Message, Outgoing, Refused, Reply, Sent, Turn};
use crate::packing::{pack, root_blob, size_of, unpack};
use crate::refusal::{Refusal, refused};
use crate::state::{PROTOCOL, Phase, RunState};
use crate::turn::{Start, start, turn};
use crate::wire::{
    self, ATTEMPT, AnswerRequest, AnswerSignal, Envelope, EventTail, Look, RUN, RemoteResult, RemoteStatus,
    ResumeRequest, STAGE, Seen, Segment, StageRequest, StartRequest, StopRequest, to_value,
};
use crate::worker::Shared;

/// The size in bytes above which a state becomes a blob.
const LARGE_STATE: usize = 32 * 1024;
/// The size in bytes above which the latest events become a segment.
const LARGE_TAIL: usize = 16 * 1024;
/// The number of attempts that one turn executes itself.
const MAX_INLINE: usize = 64;

/// What does not change after the start of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Facts {
    pipeline: String,
    hash: String,
    /// The blob with the sources.
    sources: String,
    secret: String,
    /// The request to start it, to recognize it when it arrives again.
    request: String,
}

/// The state of a run between two turns, as it is stored.
struct Stored {
    state: RunState,
    /// The blob of the whole state, if it is one.
    blob: Option<String>,
}

/// The reason for which a turn cannot be taken.
enum Obstacle {
    /// It needs a person: something must be restored, or another worker must run.
    Parked(String),
    /// Another try may succeed.
    Temporary(HandlerError),
}

impl From<BlobError> for Obstacle {
    fn from(error: BlobError) -> Obstacle {
        match error.is_lost() {
            true => Obstacle::Parked(error.to_string()),
            false => Obstacle::Temporary(error.into()),
        }
    }
}

impl From<NoVersion> for Obstacle {
    fn from(error: NoVersion) -> Obstacle {
        match error {
            NoVersion::Blob(error) => error.into(),
            error => Obstacle::Parked(error.to_string()),
        }
    }
}

impl From<TerminalError> for Obstacle {
    fn from(error: TerminalError) -> Obstacle {
        Obstacle::Temporary(error.into())
    }
}

/// The keys of the state of the object.
mod keys {
    pub(super) const FACTS: &str = "facts";
    pub(super) const RUN: &str = "run";
    pub(super) const EVENTS: &str = "events";
    /// The reason for which no turn can be taken.
    pub(super) const PARKED: &str = "parked";
    /// The messages that arrived since.
    pub(super) const HELD: &str = "held";
    /// The blob of the state before the last turn, which nobody reads any more.
    pub(super) const STALE: &str = "stale";
}

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
        if let Some(stage) = host.child_stages().next() {
            return Err(refused(Refusal::Start(format!(
                "node `{}` runs another pipeline, which runs on the distributed engine cannot do yet",
                stage.id()
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
            request: digest,
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
        let (state, first) = start(&version.pipeline, begin);
        let mut taking = Taking {
            object: self,
            ctx: &ctx,
            version: version.clone(),
            stored: Stored { state, blob: None },
            facts: &facts,
            turns: vec![first],
            executed: 0,
        };
        let taken = async {
            taking.execute_inline().await?;
            taking.carry_out().await
        };
        taken.await.map_err(Obstacle::into_error)?;
        ctx.set(keys::FACTS, Json(facts));
        Ok(())
    }

    /// Receives a message of a worker or a timer.
    #[handler]
    async fn report(&self, ctx: ObjectContext<'_>, envelope: Json<Envelope>) -> HandlerResult<Json<Reply>> {
        let Json(Envelope { secret, sent }) = envelope;
        let facts = facts(&ctx).await?;
        if facts.secret != secret {
            return Err(refused(Refusal::ForeignSecret));
        }
        self.take(&ctx, &facts, sent).await.map(Json)
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
            messages.push(self.sent(ctx.key(), sent).await.map_err(Obstacle::into_error)?);
        }
        let was_parked = ctx.get::<String>(keys::PARKED).await?.is_some();
        messages.push(Sent {
            at,
            message: Message::Resume { lost },
        });
        let reply = self
            .apply(&ctx, &facts, stored, version, messages)
            .await
            .map_err(Obstacle::into_error)?;
        if was_parked {
            ctx.clear(keys::PARKED);
            ctx.clear(keys::HELD);
        }
        match reply {
            Reply::Refused(reason) if !was_parked => Err(refused(Refusal::Message(reason))),
            _ => Ok(()),
        }
    }

    /// Answers a question about the run.
    #[handler]
    async fn look(&self, ctx: SharedObjectContext<'_>, look: Json<Look>) -> HandlerResult<Json<Seen>> {
        let Json(look) = look;
        let facts = ctx.get::<Json<Facts>>(keys::FACTS).await?;
        let Json(facts) = facts.ok_or_else(|| refused(Refusal::UnknownRun(ctx.key().to_owned())))?;
        match look {
            Look::Sources => return Ok(Json(Seen::Sources(facts.sources))),
            Look::Events => {
                let tail = ctx.get::<Json<EventTail>>(keys::EVENTS).await?;
                return Ok(Json(Seen::Events(
                    tail.map(|Json(tail)| tail).unwrap_or_default(),
                )));
            }
            _ => {}
        }
        let parked = ctx.get::<String>(keys::PARKED).await?;
        let stored = ctx.get::<Json<Value>>(keys::RUN).await?;
        let Json(stored) = stored.ok_or_else(|| refused(Refusal::UnknownRun(ctx.key().to_owned())))?;
        let read = async {
            let state: RunState = self.read(ctx.key(), stored).await?;
            let version = self.version(&facts, ctx.key()).await?;
            Ok::<_, Obstacle>((state, version))
        };
        let (state, version) = match read.await {
            Ok(read) => read,
            Err(Obstacle::Parked(reason)) => return Err(refused(Refusal::Parked(reason))),
            Err(Obstacle::Temporary(error)) => return Err(error),
        };
        let machine = machine(&version.pipeline, &state)?;
        Ok(Json(match look {
            Look::History(effect) => Seen::History(Box::new(StageHistory::from_machine(&machine, &effect))),
            Look::Latest(effect, nodes) => {
                Seen::Latest(PastStage::latest(&machine, &effect, nodes.as_deref()))
            }
            Look::Result => Seen::Result(Box::new(result(&state, &machine))),
            Look::Status | Look::Sources | Look::Events => {
                Seen::Status(Box::new(status(state, &machine, parked, &facts)))
            }
        }))
    }
}

impl RunObject {
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
        match taken.await {
            Ok(Reply::Refused(reason)) => Err(refused(Refusal::Message(reason))),
            Ok(_) => Ok(()),
            Err(Obstacle::Parked(reason)) => Err(refused(Refusal::Parked(reason))),
            Err(Obstacle::Temporary(error)) => Err(error),
        }
    }

    /// Applies the message of a worker or a timer. If no turn can be taken, keeps it until the run is resumed.
    async fn take(&self, ctx: &ObjectContext<'_>, facts: &Facts, sent: Value) -> HandlerResult<Reply> {
        if let Some(reason) = ctx.get::<String>(keys::PARKED).await? {
            return self.hold(ctx, sent, reason).await;
        }
        let taken = async {
            let message = self.sent(ctx.key(), sent.clone()).await?;
            let (stored, version) = self.open(ctx, facts).await?;
            self.apply(ctx, facts, stored, version, vec![message]).await
        };
        match taken.await {
            Ok(reply) => Ok(reply),
            Err(Obstacle::Parked(reason)) => {
                ctx.set(keys::PARKED, reason.clone());
                self.hold(ctx, sent, reason).await
            }
            Err(Obstacle::Temporary(error)) => Err(error),
        }
    }

    /// Keeps a message of a run that is parked. One whose sender needs a reply is refused, and sent again later.
    async fn hold(&self, ctx: &ObjectContext<'_>, sent: Value, reason: String) -> HandlerResult<Reply> {
        let report = &sent["message"]["attempt"]["report"];
        if ["claimed", "reserved", "asked"]
            .iter()
            .any(|kind| report.get(kind).is_some())
        {
            return Err(refused(Refusal::Parked(reason)));
        }
        let held = ctx.get::<Json<Vec<Value>>>(keys::HELD).await?;
        let mut held = held.map(|Json(held)| held).unwrap_or_default();
        held.push(sent);
        ctx.set(keys::HELD, Json(held));
        Ok(Reply::Accepted)
    }

    async fn sent(&self, run: &str, sent: Value) -> Result<Sent, Obstacle> {
        self.read(run, sent).await
    }

    /// Reads a stored value whose large parts are blobs.
    async fn read<T: DeserializeOwned>(&self, run: &str, value: Value) -> Result<T, Obstacle> {
        let value = unpack(&self.0.blobs, run, value).await?;
        serde_json::from_value(value).map_err(|error| {
            Obstacle::Parked(format!(
                "this worker cannot read what another version wrote: {error}"
            ))
        })
    }

    async fn version(&self, facts: &Facts, run: &str) -> Result<Arc<Version>, NoVersion> {
        self.0
            .hosts
            .version(&facts.pipeline, &facts.sources, run, &self.0.blobs)
            .await
    }

    /// Reads the state of the run, and finds its pipeline.
    async fn open(&self, ctx: &ObjectContext<'_>, facts: &Facts) -> Result<(Stored, Arc<Version>), Obstacle> {
        let stored = ctx.get::<Json<Value>>(keys::RUN).await?;
        let Json(value) =
            stored.ok_or_else(|| Obstacle::Temporary(refused(Refusal::UnknownRun(ctx.key().to_owned()))))?;
        let blob = root_blob(&value).map(str::to_owned);
        let state: RunState = self.read(ctx.key(), value).await?;
        if state.protocol != PROTOCOL {
            return Err(Obstacle::Parked(format!(
                "the state of the run has version {}, and this worker reads version {PROTOCOL}",
                state.protocol
            )));
        }
        let version = self.version(facts, ctx.key()).await?;
        Ok((Stored { state, blob }, version))
    }

    /// Applies messages to the run in one turn, and sends what follows. Returns the reply to the last one.
    async fn apply(
        &self,
        ctx: &ObjectContext<'_>,
        facts: &Facts,
        mut stored: Stored,
        version: Arc<Version>,
        messages: Vec<Sent>,
    ) -> Result<Reply, Obstacle> {
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
        let reply = turns.last().map(|turn| turn.reply.clone()).unwrap_or_default();
        if changed {
            let mut taking = Taking {
                object: self,
                ctx,
                version,
                stored,
                facts,
                turns,
                executed: 0,
            };
            taking.execute_inline().await?;
            taking.carry_out().await?;
        }
        Ok(reply)
    }
}

/// A turn whose effects are carried out.
struct Taking<'t, 'c> {
    object: &'t RunObject,
    ctx: &'t ObjectContext<'c>,
    version: Arc<Version>,
    stored: Stored,
    facts: &'t Facts,
    turns: Vec<Turn>,
    /// The number of attempts that this turn executed itself.
    executed: usize,
}

impl Taking<'_, '_> {
    /// Executes the attempts of quick handlers, and applies their ends.
    async fn execute_inline(&mut self) -> Result<(), Obstacle> {
        self.drop_cancelled();
        let inline: &BTreeSet<String> = &self.object.0.inline;
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
                blobs: self.object.0.blobs.clone(),
                state: self.stored.state.clone(),
                effect: effect.clone(),
                token,
                context,
                budget,
            };
            let name = effect.name(&pipeline);
            let ran = self.ctx.run(move || attempt.run()).name(name).await?;
            let sent = self.object.sent(self.ctx.key(), ran.into_inner()).await?;
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
                .filter(|stage| stage.cancelled && stage.invocation.is_none());
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
    fn take_stage(&mut self, is_taken: impl Fn(&EffectId) -> bool) -> Option<Outgoing> {
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
                let context = pack(&self.object.0.blobs, run, to_value(&context), LARGE_STATE).await?;
                let request = StageRequest {
                    run: run.to_owned(),
                    secret: facts.secret.clone(),
                    pipeline: facts.pipeline.clone(),
                    sources: facts.sources.clone(),
                    hash: facts.hash.clone(),
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
            Outgoing::Cancel { invocation, .. } => {
                if let Some(invocation) = invocation {
                    ctx.invocation_handle(invocation).cancel();
                }
            }
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
        let tail = self.ctx.get::<Json<EventTail>>(keys::EVENTS).await?;
        let mut tail = tail.map(|Json(tail)| tail).unwrap_or_default();
        tail.events.extend(new);
        if size_of(&to_value(&tail.events)) > LARGE_TAIL {
            let segment = Segment {
                before: tail.segment.take(),
                events: std::mem::take(&mut tail.events),
            };
            let stored = to_value(&segment).to_string().into();
            tail.segment = Some(self.object.0.blobs.put(self.ctx.key(), stored).await?);
        }
        self.ctx.set(keys::EVENTS, Json(tail));
        Ok(())
    }

    async fn store_state(&self) -> Result<(), Obstacle> {
        let (ctx, blobs, run) = (self.ctx, &self.object.0.blobs, self.ctx.key());
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

impl Obstacle {
    fn into_error(self) -> HandlerError {
        match self {
            Obstacle::Parked(reason) => refused(Refusal::Parked(reason)),
            Obstacle::Temporary(error) => error,
        }
    }
}

impl StartRequest {
    /// Returns what makes two requests the same, as a short text.
    fn digest(&self) -> String {
        let same = (&self.pipeline, &self.params, self.seed, self.budget);
        crate::blobs::name_of(to_value(&same).to_string().as_bytes())
    }
}

async fn facts(ctx: &ObjectContext<'_>) -> HandlerResult<Facts> {
    match ctx.get::<Json<Facts>>(keys::FACTS).await? {
        Some(Json(facts)) => Ok(facts),
        None => Err(refused(Refusal::UnknownRun(ctx.key().to_owned()))),
    }
}

fn lost(error: BlobError) -> HandlerError {
    match error.is_lost() {
        true => refused(Refusal::Start(error.to_string())),
        false => error.into(),
    }
}

/// Restores the machine of a run.
pub(crate) fn machine(pipeline: &SharedPipeline, state: &RunState) -> HandlerResult<Machine> {
    let restored = state.machine.clone().restore(pipeline);
    let restored = restored.map_err(|error| refused(Refusal::Parked(error.to_string())))?;
    Ok(Machine::resume(pipeline.clone(), restored))
}

/// Returns the name of the signal with an answer.
pub(crate) fn answer_signal(number: u64) -> String {
    format!("answer-{number}")
}

/// Returns the key of the object of an attempt.
pub(crate) fn attempt_key(run: &str, effect: &str) -> String {
    format!("{run}/{effect}")
}

fn result(state: &RunState, machine: &Machine) -> RemoteResult {
    let main = &machine.state().main;
    let pipeline = machine.pipeline();
    RemoteResult {
        has_ended: matches!(state.phase, Phase::Ended(_)),
        failure: match &state.phase {
            Phase::Running => None,
            Phase::Paused(failure) => Some(failure.clone()),
            Phase::Ended(failure) => failure.clone(),
        },
        path: main
            .completed
            .iter()
            .map(|node| pipeline.stage(*node).id().to_owned())
            .collect(),
        context: main.context.clone(),
        usage: machine.state().totals.usage,
    }
}

fn status(state: RunState, machine: &Machine, parked: Option<String>, facts: &Facts) -> RemoteStatus {
    let pipeline = machine.pipeline();
    let questions = match state.phase {
        Phase::Ended(_) => Vec::new(),
        _ => state.open_questions(machine),
    };
    RemoteStatus {
        pipeline: facts.pipeline.clone(),
        hash: facts.hash.clone(),
        questions,
        parked,
        used: machine.state().totals.usage,
        events: state.events,
        budget: state.budget,
        began: state.began,
        now: state.now,
        executed: state.executed,
        phase: state.phase,
        stages: state
            .stages
            .into_iter()
            .map(|stage| (stage.effect.name(pipeline), stage))
            .collect(),
    }
}
