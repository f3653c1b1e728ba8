//! The service that executes attempts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use orchestra_core::{Context as Values, Outcome, Snapshot};
use orchestra_engine::{AttemptHost, HostedAttempt, HostedEnd, HostedSuspension, OpenedWorkspace, RunId};
use restate_sdk::discovery::ServiceName;
use restate_sdk::endpoint::{ContextInternal, Error};
use restate_sdk::prelude::*;
use restate_sdk::service::macro_support::{ServiceBoxFuture, service_definition};
use restate_sdk::service::{Discoverable, Service};
use tokio_util::sync::CancellationToken;

use crate::blobs::{Blobs, TextPlace};
use crate::hosts;
use crate::ingress::Backoff;
use crate::message::{Finished, Reply, Report};
use crate::packing::size_of;
use crate::port::{Answers, Execution, NotAwaited, Outbox, Port};
use crate::secret::random_name;
use crate::shared::Shared;
use crate::wire::{
    ATTEMPT, AnswerSignal, CloseRequest, NoteReply, OpenRequest, STAGE, StageRequest, answer_signal,
    attempt_key,
};
use crate::workspaces::{NoWorkspace, Workspaces};

/// The size in bytes above which no value of an outcome is stored.
const MAX_VALUE: usize = 16 * 1024 * 1024;

#[derive(Clone)]
pub(crate) struct StageService(pub(crate) Arc<Shared>);

#[restate_sdk::service(name = "OrchestraStage", client_visibility = "pub(crate)")]
impl StageService {
    /// Executes an attempt, and reports its end to the run.
    #[handler]
    async fn execute(&self, ctx: Context<'_>, request: Json<StageRequest>) -> HandlerResult<()> {
        let Json(request) = request;
        if self.0.draining.is_cancelled() {
            return Err("this worker stops, and another one is to execute the attempt".into());
        }
        let _executing = self.0.executing.token();
        // If the closure does not run, an earlier execution has begun.
        let is_first = Arc::new(AtomicBool::new(false));
        let begun = is_first.clone();
        let begin = ctx.run(move || async move {
            begun.store(true, Ordering::Relaxed);
            Ok(())
        });
        begin.name("claim").await?;
        let mut execution = Execution {
            run: request.run.clone(),
            secret: request.secret.clone(),
            effect: request.effect.clone(),
            name: String::new(),
            token: request.token,
            notes: 0,
        };
        if !is_first.load(Ordering::Relaxed) {
            // Before a signal is awaited: if the end of the attempt is stored already, nothing else may be.
            match claim(&self.0, &execution).await {
                Some(token) => execution.token = token,
                None => return Ok(()),
            }
        }
        let stop = CancellationToken::new();
        let answers = Answers::default();
        let mut execution = std::pin::pin!(execute(
            self.0.clone(),
            request,
            execution,
            answers.clone(),
            stop.clone()
        ));
        let mut number = 1;
        loop {
            // The signals arrive in their order also when they are replayed, whatever the attempt does.
            let answer = ctx.signal::<Json<AnswerSignal>>(&answer_signal(number));
            tokio::select! {
                biased;
                answer = answer => match answer {
                    Ok(Json(AnswerSignal { question, answer })) => {
                        answers.give(question, answer);
                        number += 1;
                    }
                    Err(_cancelled) => {
                        stop.cancel();
                        return execution.await.map_err(HandlerError::from);
                    }
                },
                ended = &mut execution => return ended.map_err(HandlerError::from),
            }
        }
    }

    /// Tidies up the files of a run that has ended.
    #[handler]
    async fn close(&self, _ctx: Context<'_>, request: Json<CloseRequest>) -> HandlerResult<()> {
        let Json(request) = request;
        let _executing = self.0.executing.token();
        self.close_files(request).await
    }
}

impl StageService {
    /// Tidies up the files of a run that has ended.
    async fn close_files(&self, request: CloseRequest) -> Result<(), HandlerError> {
        let shared = &self.0;
        let run = RunId::new(&*request.run).map_err(|error| TerminalError::new(error.to_string()))?;
        let place = hosts::Place {
            name: request.pipeline,
            sources: request.sources,
            stages: Vec::new(),
        };
        let version = shared.hosts.version(&place, &shared.blobs).await?;
        let Ok(host) = &version.host else {
            return Ok(());
        };
        if !Workspaces::has_begun(&shared.blobs, &run).await? {
            return Ok(());
        }
        let closed = match shared.workspaces.open(&shared.blobs, host, &run).await {
            Ok(Some(workspace)) => workspace.end(request.restarts, request.snapshot).await,
            Ok(None) => Ok(()),
            Err(NoWorkspace::Workspace(error)) => Err(error),
            Err(NoWorkspace::Blob(error)) => return Err(error.into()),
        };
        if let Err(error) = closed {
            tracing::warn!(%run, "the files of the run are not tidied up: {error}");
        }
        Ok(())
    }

    /// Returns the same service under the name of a pool. The SDK takes names from constants only, so this does what its
    /// macro does.
    pub(crate) fn in_pool(self, pool: &ServicePool) -> ServiceDefinition {
        let mut discovery = <StageService as Discoverable>::discover();
        discovery.name = pool.0.clone();
        service_definition(PoolDispatcher(Arc::new(self)), discovery)
    }
}

/// The name of the service of a pool.
#[derive(Clone, Debug)]
pub(crate) struct ServicePool(ServiceName);

impl ServicePool {
    /// Creates the name. Returns `None` if no service can have it.
    pub(crate) fn new(pool: &str) -> Option<ServicePool> {
        let name = format!("{STAGE}_{pool}");
        ServiceName::try_from(name).ok().map(ServicePool)
    }
}

struct PoolDispatcher(Arc<StageService>);

impl Service for PoolDispatcher {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> ServiceBoxFuture {
        let service = self.0.clone();
        Box::pin(async move {
            let ended = match ctx.handler_name() {
                "execute" => {
                    let (input, metadata) = ctx.input().await;
                    service.execute((&ctx, metadata).into(), input).await
                }
                "close" => {
                    let (input, metadata) = ctx.input().await;
                    service.close((&ctx, metadata).into(), input).await
                }
                other => return Err(Error::unknown_handler(ctx.service_name(), other)),
            };
            ctx.handle_handler_result(ended);
            ctx.end();
            Ok(())
        })
    }
}

/// The end of an execution that the run does not wait for. The server begins another one, which the run accepts if it waits
/// for the attempt: a message of an execution that is dead already may have come after the claim of this one.
#[derive(Debug, thiserror::Error)]
#[error("the run does not wait for this execution of the attempt")]
struct Superseded;

/// Begins another execution of an attempt. Returns its fencing token; `None` if the run does not wait for the attempt.
async fn claim(shared: &Shared, execution: &Execution) -> Option<u64> {
    let (answers, lost) = (Answers::default(), CancellationToken::new());
    let port = new_port(shared, execution.clone(), &answers, &lost).0;
    let execution = random_name();
    match port.report(Report::Claimed { execution }).await {
        Ok(Reply::Claimed(token)) => Some(token),
        _ => None,
    }
}

/// Executes an attempt until its run has accepted its end.
async fn execute(
    shared: Arc<Shared>,
    request: StageRequest,
    mut execution: Execution,
    answers: Answers,
    stop: CancellationToken,
) -> Result<(), Superseded> {
    let lost = stop.child_token();
    let prepared = prepare(&shared, &request, &lost).await;
    let (host, context) = match prepared {
        Ok(found) => found,
        // The run pauses, so that it can be resumed where the reason does not hold.
        Err(reason) => return suspend(&shared, execution, &answers, &lost, reason).await,
    };
    execution.name = request.effect.name(host.pipeline());
    let (mut notes, mut files) = (Vec::new(), request.files);
    if execution.token > 1 {
        let earlier = earlier_notes(&shared, &execution, &lost).await;
        let (found, snapshot) = earlier.ok_or(Superseded)?;
        notes = found;
        if let Some(snapshot) = snapshot {
            if snapshot.joined {
                files.joined.clear();
            }
            files.snapshot = Some(snapshot);
        }
    }
    execution.notes = notes.len() as u64;
    let Ok(run) = RunId::new(&*request.run) else {
        return Ok(());
    };
    let workspace = match open_workspace(&shared, &host, &run, &lost).await {
        Ok(workspace) => workspace,
        Err(reason) => return suspend(&shared, execution, &answers, &lost, reason).await,
    };
    let token = execution.token;
    let (port, outbox) = new_port(&shared, execution, &answers, &lost);
    let port = Arc::new(port);
    let mut attempt = HostedAttempt::new(run, request.effect.clone(), context);
    attempt.budget = request.budget;
    attempt.is_repeat = token > 1;
    attempt.notes = notes;
    attempt.workspace = workspace;
    attempt.files = files;
    let report = perform(&shared, &host, attempt, &port, outbox, &lost).await;
    if lost.is_cancelled() && !stop.is_cancelled() {
        return Err(Superseded);
    }
    reported(port.report(report).await)
}

fn reported(reply: Result<Reply, NotAwaited>) -> Result<(), Superseded> {
    reply.map(drop).map_err(|NotAwaited| Superseded)
}

/// Reports that the attempt cannot be executed here, so that the run pauses.
async fn suspend(
    shared: &Shared,
    execution: Execution,
    answers: &Answers,
    lost: &CancellationToken,
    reason: String,
) -> Result<(), Superseded> {
    let port = new_port(shared, execution, answers, lost).0;
    let end = HostedEnd::Suspended(HostedSuspension::ChildStuck(reason));
    reported(port.report(Finished::new(end).into()).await)
}

/// Opens the files on which the run works, if it does.
async fn open_workspace(
    shared: &Shared,
    host: &AttemptHost,
    run: &RunId,
    lost: &CancellationToken,
) -> Result<Option<Arc<OpenedWorkspace>>, String> {
    let mut reading = Reading::new(run, lost);
    loop {
        match shared.workspaces.open(&shared.blobs, host, run).await {
            Err(NoWorkspace::Blob(error)) if !error.is_lost() && reading.goes_on(&error).await => {}
            opened => return opened.map_err(|error| error.to_string()),
        }
    }
}

/// Returns the host of the attempt, and the context that it sees. The error says what this worker or the store lacks.
async fn prepare(
    shared: &Shared,
    request: &StageRequest,
    lost: &CancellationToken,
) -> Result<(Arc<AttemptHost>, Values), String> {
    let place = hosts::Place {
        name: request.pipeline.clone(),
        sources: request.sources.clone(),
        stages: request.stages.clone(),
    };
    let mut reading = Reading::new(&request.run, lost);
    let version = loop {
        match shared.hosts.version(&place, &shared.blobs).await {
            Ok(version) => break version,
            Err(error) if error.is_temporary() && reading.goes_on(&error).await => {}
            Err(error) => return Err(error.to_string()),
        }
    };
    let context = loop {
        match request.context.unpack(&shared.blobs, &request.run).await {
            Ok(context) => break context,
            Err(error) if error.is_temporary() && reading.goes_on(&error).await => {}
            Err(error) => return Err(error.to_string()),
        }
    };
    Ok((version.host.clone()?, context))
}

/// The tries to read from a store that may not answer.
struct Reading<'r> {
    run: &'r str,
    lost: &'r CancellationToken,
    backoff: Backoff,
}

impl<'r> Reading<'r> {
    fn new(run: &'r str, lost: &'r CancellationToken) -> Reading<'r> {
        Reading {
            run,
            lost,
            backoff: Backoff::new(),
        }
    }

    /// Waits before the next try. Returns `false` if nobody needs what is read any more.
    async fn goes_on(&mut self, error: &impl std::fmt::Display) -> bool {
        tracing::warn!(run = self.run, "the store is read again: {error}");
        tokio::select! {
            () = self.lost.cancelled() => false,
            () = self.backoff.wait() => true,
        }
    }
}

fn new_port(
    shared: &Shared,
    execution: Execution,
    answers: &Answers,
    lost: &CancellationToken,
) -> (Port, Outbox) {
    Port::new(
        shared.ingress.clone(),
        shared.reporter.clone(),
        shared.blobs.clone(),
        execution,
        answers.clone(),
        lost.clone(),
    )
}

/// Returns the notes of earlier executions, which are refused from now on, and the files that belong to the last one. Returns
/// `None` if a later one has begun.
async fn earlier_notes(
    shared: &Shared,
    execution: &Execution,
    lost: &CancellationToken,
) -> Option<(Vec<serde_json::Value>, Option<Snapshot>)> {
    let key = attempt_key(&execution.run, &execution.name);
    let request = OpenRequest {
        token: execution.token,
    };
    let mut backoff = Backoff::new();
    let (packed, snapshot) = loop {
        match shared.ingress.call(ATTEMPT, &key, "open", &request).await {
            Ok(NoteReply::Notes(notes)) => break (notes, None),
            Ok(NoteReply::NotesOnFiles(notes, snapshot)) => break (notes, Some(snapshot)),
            Ok(_) => return None,
            Err(error) => {
                tracing::warn!(run = %execution.run, attempt = %execution.name, "notes are read again: {error}");
                backoff.wait().await;
            }
        }
    };
    let mut notes = Vec::new();
    let mut reading = Reading::new(&execution.run, lost);
    for note in packed {
        let read = loop {
            match note.unpack(&shared.blobs, &execution.run).await {
                Err(error) if error.is_temporary() && reading.goes_on(&error).await => {}
                read => break read,
            }
        };
        // The first notes that can be read are as good as an earlier interruption.
        match read {
            Ok(note) => notes.push(note),
            Err(error) => {
                tracing::warn!(run = %execution.run, attempt = %execution.name, "a note is lost: {error}");
                break;
            }
        }
    }
    Some((notes, snapshot))
}

/// Executes the attempt on this worker, once it has a free slot. Returns the report about its end.
async fn perform(
    shared: &Shared,
    host: &AttemptHost,
    attempt: HostedAttempt,
    port: &Arc<Port>,
    outbox: Outbox,
    lost: &CancellationToken,
) -> Report {
    let slot = tokio::select! {
        biased;
        () = lost.cancelled() => None,
        slot = shared.slots.acquire() => slot.ok(),
    };
    if slot.is_none() {
        return Finished::new(HostedEnd::Cancelled).into();
    }
    let effect = attempt.id.clone();
    let ended = CancellationToken::new();
    let run = async {
        let result = host.run(attempt, port.clone(), lost).await;
        ended.cancel();
        result
    };
    let (result, ()) = tokio::join!(run, port.send_rest(outbox, ended.clone()));
    let end = match result.end {
        HostedEnd::Outcome(outcome) => HostedEnd::Outcome(without_giants(outcome)),
        end => end,
    };
    if !result.texts.is_empty() || port.token > 1 {
        let place = TextPlace {
            run: &port.run,
            record: &effect.record(host.pipeline()),
            restart: effect.restart,
            attempt: effect.attempt,
            token: port.token,
        };
        put_texts(&shared.blobs, place, &result.texts).await;
    }
    let finished = Finished {
        end,
        used: result.used,
        events: port.take_events(),
        noted: port.has_noted(),
        snapshot: result.snapshot,
    };
    finished.into()
}

async fn put_texts(blobs: &Blobs, place: TextPlace<'_>, texts: &[orchestra_engine::HostedText]) {
    let mut backoff = Backoff::new();
    while let Err(error) = blobs.put_texts(place, texts).await {
        tracing::warn!(
            run = place.run,
            record = place.record,
            "texts are stored again: {error}"
        );
        backoff.wait().await;
    }
}

/// Replaces an outcome with a value that is too large to be stored by a failure that names it.
fn without_giants(outcome: Outcome) -> Outcome {
    let mut values = outcome.context_updates.iter();
    match values.find(|(_, value)| size_of(value) > MAX_VALUE) {
        None => outcome,
        Some((key, value)) => {
            let reason = format!(
                "the value of `{key}` has {} MiB, and at most {} MiB are stored; keep it as an artifact",
                size_of(value) / 1024 / 1024,
                MAX_VALUE / 1024 / 1024
            );
            Outcome::fail_terminal(reason).with_code("value_too_large")
        }
    }
}
