//! The client of runs on the durable engine.

use std::time::Duration;

use orchestra_core::{Answer, Budget, Context};
use orchestra_engine::{Clock as _, RunEvent, RunId, SystemClock};
use serde_json::Value;

use crate::admin::Admin;
use crate::blobs::{BlobError, Blobs};
use crate::client_error::ClientError;
use crate::ingress::{Backoff, Ingress};
use crate::packing::{LARGE_VALUE, Packed};
use crate::secret::random_name;
use crate::state::Phase;
use crate::wire::{
    AnswerRequest, EventTail, ExportedParts, Look, RUN, RemoteResult, RemoteStatus, ResumeRequest, Seen,
    Segment, StartRequest, StopRequest,
};

/// The longest delay between two looks at a run that is waited for.
const LOOK: Duration = Duration::from_secs(1);

/// A client of runs: it starts them, answers their questions and reads their state.
///
/// ```
/// use orchestra_core::{Answer, Context};
/// use orchestra_restate::{Blobs, Client, RemoteStart};
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let blobs = Blobs::in_folder("/var/lib/orchestra/blobs".as_ref())?;
/// let client = Client::new("http://127.0.0.1:8080", blobs)?;
/// let run = orchestra_engine::RunId::new("nightly-7")?;
/// let mut params = Context::new();
/// params.set("version", "1.4");
/// client.start(&run, RemoteStart { params, ..RemoteStart::of("release") }).await?;
/// client.answer(&run, "approve#1/1", Answer::choice("Y")).await?;
/// println!("{:?}", client.wait(&run).await?.path);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    ingress: Ingress,
    blobs: Blobs,
}

/// The start of a run.
///
/// ```
/// use orchestra_restate::RemoteStart;
/// let start = RemoteStart { seed: Some(7), ..RemoteStart::of("release") };
/// assert_eq!(start.pipeline, "release");
/// ```
#[derive(Clone, Debug)]
pub struct RemoteStart {
    /// The name under which workers have the pipeline.
    pub pipeline: String,
    /// The values of the initial context. Workers remove secrets that they know; the caller removes its own.
    pub params: Context,
    /// The seed of all randomness; `None` for a random one.
    pub seed: Option<u64>,
    /// The limits on the usage of the run.
    pub budget: Budget,
}

impl RemoteStart {
    /// Creates the start of a run without parameters.
    pub fn of(pipeline: impl Into<String>) -> RemoteStart {
        RemoteStart {
            pipeline: pipeline.into(),
            params: Context::new(),
            seed: None,
            budget: Budget::default(),
        }
    }
}

impl Client {
    /// Creates a client of the ingress at an address, such as `http://127.0.0.1:8080`, and the store of its workers.
    ///
    /// # Errors
    /// No connections can be made.
    pub fn new(ingress: &str, blobs: Blobs) -> Result<Client, ClientError> {
        Ok(Client {
            ingress: Ingress::new(ingress).map_err(ClientError::http)?,
            blobs,
        })
    }

    /// Returns the address of the ingress.
    pub fn url(&self) -> &str {
        self.ingress.url()
    }

    /// Starts a run. The same start of the same run is accepted again, so it can be repeated after a lost answer.
    ///
    /// # Errors
    /// The server cannot be reached, no worker knows the pipeline, its parameters are wrong, or the run was started
    /// with others.
    pub async fn start(&self, run: &RunId, start: RemoteStart) -> Result<(), ClientError> {
        let params = Packed::pack(&self.blobs, run, &start.params, LARGE_VALUE).await?;
        let mut random = [0; 8];
        let name = random_name();
        for (byte, digit) in random.iter_mut().zip(name.bytes()) {
            *byte = digit;
        }
        let request = StartRequest {
            pipeline: start.pipeline,
            params,
            seed: start.seed,
            random_seed: u64::from_le_bytes(random),
            budget: start.budget,
            secret: random_name(),
            at: SystemClock::new().now(),
        };
        self.call(run, "start", &request).await
    }

    /// Answers an open question of a run or of one of its children, such as `approve#1/1`. The question may also be named
    /// by its node.
    ///
    /// # Errors
    /// The server cannot be reached, no such question is open, or it does not accept the answer.
    pub async fn answer(&self, run: &RunId, question: &str, answer: Answer) -> Result<(), ClientError> {
        let request = AnswerRequest {
            question: question.to_owned(),
            answer: answer.clone(),
            at: SystemClock::new().now(),
        };
        let answered = self.call(run, "answer", &request).await;
        if !matches!(&answered, Err(ClientError::Refused { code, .. }) if code == "no_question") {
            return answered;
        }
        for child in self.own_status(run).await?.children() {
            match Box::pin(self.answer(&child, question, answer.clone())).await {
                Err(ClientError::Refused { code, .. }) if matches!(&*code, "no_question" | "wrong_phase") => {
                }
                other => return other,
            }
        }
        answered
    }

    /// Ends a run.
    ///
    /// # Errors
    /// The server cannot be reached, or the run has ended.
    pub async fn cancel(&self, run: &RunId, reason: &str) -> Result<(), ClientError> {
        self.stop(run, "cancel", reason).await
    }

    /// Stops a run, so that it can be resumed. Its attempts are cancelled, and made again when it is resumed.
    ///
    /// # Errors
    /// The server cannot be reached, or the run has ended.
    pub async fn pause(&self, run: &RunId, reason: &str) -> Result<(), ClientError> {
        self.stop(run, "pause", reason).await
    }

    async fn stop(&self, run: &RunId, handler: &str, reason: &str) -> Result<(), ClientError> {
        let request = StopRequest {
            reason: reason.to_owned(),
            at: SystemClock::new().now(),
        };
        self.call(run, handler, &request).await
    }

    /// Resumes a run that was paused or parked. With an administration, attempts whose invocations an operator ended are
    /// sent again.
    ///
    /// # Errors
    /// The server cannot be reached, the run has ended, or the reason for which it was parked still holds.
    pub async fn resume(&self, run: &RunId, admin: Option<&Admin>) -> Result<(), ClientError> {
        self.resume_in(run, admin, false).await
    }

    /// Resumes a run that was paused or parked, in the version of its pipeline that workers have now (rule D6). The state of
    /// the run is carried over as the embedded engine does it. A run that follows this version already is resumed as it is.
    ///
    /// ```
    /// # async fn repair(client: orchestra_restate::Client) -> Result<(), orchestra_restate::ClientError> {
    /// let run = orchestra_engine::RunId::new("nightly-7").expect("valid");
    /// client.pause(&run, "the graph is repaired").await?;
    /// // Deploy workers with the changed pipeline, then:
    /// client.accept_changes(&run, None).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The server cannot be reached, the run is being executed or has ended, a child run is in progress, or the run cannot go
    /// on in the changed pipeline from where it is. The run is unchanged then.
    pub async fn accept_changes(&self, run: &RunId, admin: Option<&Admin>) -> Result<(), ClientError> {
        self.resume_in(run, admin, true).await
    }

    async fn resume_in(
        &self,
        run: &RunId,
        admin: Option<&Admin>,
        accept_changes: bool,
    ) -> Result<(), ClientError> {
        let mut lost = Vec::new();
        if let Some(admin) = admin
            && let Ok(status) = self.own_status(run).await
        {
            let stages = status.stages.into_iter();
            let sent: Vec<String> = stages.filter_map(|(_, stage)| stage.invocation).collect();
            if !sent.is_empty() {
                let living = admin.living(&sent).await?;
                lost.extend(sent.into_iter().filter(|id| !living.contains(id)));
            }
        }
        let at = SystemClock::new().now();
        let request = ResumeRequest {
            lost,
            accept_changes,
            at,
        };
        self.call(run, "resume", &request).await
    }

    /// Returns the status of a run, with the open questions of its children.
    ///
    /// # Errors
    /// The server cannot be reached, or does not know the run.
    pub async fn status(&self, run: &RunId) -> Result<RemoteStatus, ClientError> {
        let mut status = self.own_status(run).await?;
        for child in status.children() {
            match Box::pin(self.status(&child)).await {
                Ok(child) => status.questions.extend(child.questions),
                // It has not begun yet.
                Err(ClientError::Refused { status: 404, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(status)
    }

    async fn own_status(&self, run: &RunId) -> Result<RemoteStatus, ClientError> {
        match self.look(run, Look::Status).await? {
            Seen::Status(status) => Ok(*status),
            _ => Err(ClientError::unreadable(self.url())),
        }
    }

    /// Returns the result of a run so far.
    ///
    /// # Errors
    /// The server cannot be reached, or does not know the run.
    pub async fn result(&self, run: &RunId) -> Result<RemoteResult, ClientError> {
        match self.look(run, Look::Result).await? {
            Seen::Result(result) => Ok(*result),
            _ => Err(ClientError::unreadable(self.url())),
        }
    }

    /// Waits until a run has ended or was paused, and returns its result.
    ///
    /// # Errors
    /// The server does not know the run, or has been unreachable for a minute.
    pub async fn wait(&self, run: &RunId) -> Result<RemoteResult, ClientError> {
        let mut delay = Duration::from_millis(50);
        loop {
            if self.patient_status(run).await?.phase != Phase::Running {
                return self.result(run).await;
            }
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(LOOK);
        }
    }

    /// Returns the status of a run, once the server is there again if it is not.
    async fn patient_status(&self, run: &RunId) -> Result<RemoteStatus, ClientError> {
        let mut backoff = Backoff::new();
        let began = SystemClock::new();
        loop {
            match self.own_status(run).await {
                Err(ClientError::Server(_)) if began.elapsed() < Duration::from_secs(60) => {
                    backoff.wait().await
                }
                answered => return answered,
            }
        }
    }

    /// Returns the events of a run after the one with a number, in their order.
    ///
    /// # Errors
    /// The server cannot be reached, does not know the run, or a blob is lost.
    pub async fn events(&self, run: &RunId, after: u64) -> Result<Vec<RunEvent>, ClientError> {
        match self.look(run, Look::Events).await? {
            Seen::Events(tail) => self.events_of(run, tail, after).await,
            _ => Err(ClientError::unreadable(self.url())),
        }
    }

    /// Returns the events after the one with a number, given the latest ones.
    pub(crate) async fn events_of(
        &self,
        run: &RunId,
        tail: EventTail,
        after: u64,
    ) -> Result<Vec<RunEvent>, ClientError> {
        let EventTail { segment, events } = tail;
        let mut parts = vec![events];
        let mut before = segment;
        while let Some(name) = before {
            let begins_earlier = parts
                .last()
                .and_then(|part| part.first())
                .is_none_or(|event| event.seq > after + 1);
            if !begins_earlier {
                break;
            }
            let stored = self.blobs.get(run, &name).await?;
            let segment: Segment = serde_json::from_slice(&stored).map_err(|_| BlobError::Damaged {
                folder: run.to_string(),
                name,
            })?;
            parts.push(segment.events);
            before = segment.before;
        }
        let events = parts.into_iter().rev().flatten();
        Ok(events.filter(|event| event.seq > after).collect())
    }

    /// Returns everything of which a copy of a run is made.
    pub(crate) async fn exported_parts(&self, run: &RunId) -> Result<ExportedParts, ClientError> {
        match self.look(run, Look::Export).await? {
            Seen::Export(parts) => Ok(*parts),
            _ => Err(ClientError::unreadable(self.url())),
        }
    }

    pub(crate) fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    async fn look(&self, run: &RunId, look: Look) -> Result<Seen, ClientError> {
        Ok(self.ingress.call(RUN, run, "look", &look).await?)
    }

    async fn call(
        &self,
        run: &RunId,
        handler: &str,
        request: &impl serde::Serialize,
    ) -> Result<(), ClientError> {
        let _: Value = self.ingress.call(RUN, run, handler, request).await?;
        Ok(())
    }
}
