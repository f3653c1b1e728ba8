//! A run on a Restate server that is followed.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{Answer, Question, RunEvent, RunId};
use orchestra_restate::{ClientError, Phase};
use tokio::time::{Instant, sleep, timeout};

use super::super::follow::FollowedRun;
use super::super::forward::{QuestionChannel, Response};
use super::server_runs::ServerRuns;
use crate::error::{CliError, Exit};
use crate::report::progress::SharedProgress;
use crate::runs::tail::TailedEvent;

/// The shortest and the longest interval between reads of new events.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(800));

/// Interval between questions whether the run can go on.
const STATUS_INTERVAL: Duration = Duration::from_secs(2);

/// The time after which it is said that nobody answers.
const SILENCE: Duration = Duration::from_secs(5);

/// The time for which a server that fails is asked again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval between these requests.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A run on a server.
pub(super) struct ServerRun {
    runs: ServerRuns,
    id: RunId,
    /// The number of the last event that was read.
    after: u64,
    interval: Duration,
    asked_status: Instant,
    shown: Arc<SharedProgress>,
}

impl ServerRun {
    /// Follows a run from the event after the one with a number.
    pub(super) fn new(runs: ServerRuns, id: RunId, after: u64, shown: Arc<SharedProgress>) -> ServerRun {
        ServerRun {
            runs,
            id,
            after,
            interval: INTERVALS.0,
            asked_status: Instant::now(),
            shown,
        }
    }

    /// Requests the events. Says so if that takes long.
    async fn request(&self) -> Result<Vec<RunEvent>, ClientError> {
        let mut request = pin!(self.runs.client.events(&self.id, self.after));
        match timeout(SILENCE, &mut request).await {
            Ok(answered) => answered,
            Err(_) => {
                self.say("nothing answers; perhaps no worker runs");
                let answered = request.await;
                if answered.is_ok() {
                    self.say("a worker answers again");
                }
                answered
            }
        }
    }

    fn say(&self, text: &str) {
        self.shown.progress().note(text);
    }
}

impl FollowedRun for ServerRun {
    fn id(&self) -> &str {
        &self.id
    }

    fn folder(&self) -> Option<&Path> {
        None
    }

    fn server(&self) -> Option<&str> {
        Some(self.runs.client.url())
    }

    fn command(&self, verb: &str, arguments: &[&str]) -> String {
        self.runs.command(verb, &self.id, arguments)
    }

    async fn new_events(&mut self) -> Result<Vec<TailedEvent>, CliError> {
        let mut failed: Option<Instant> = None;
        let events = loop {
            match self.request().await {
                Ok(events) => break events,
                Err(error @ ClientError::Server(_)) => {
                    let since = *failed.get_or_insert_with(|| {
                        self.say(&error.to_string());
                        Instant::now()
                    });
                    if since.elapsed() > PATIENCE {
                        return Err(self.runs.error(&error));
                    }
                    sleep(RETRY_INTERVAL).await;
                }
                Err(error) => return Err(self.runs.error(&error)),
            }
        };
        if failed.is_some() {
            self.say("the server answers again");
        }
        self.interval = match events.last() {
            Some(last) => {
                self.after = last.seq;
                INTERVALS.0
            }
            None => (self.interval * 2).min(INTERVALS.1),
        };
        let tailed = |event: RunEvent| TailedEvent {
            // Events contain only text and numbers, so serialization cannot fail.
            line: serde_json::to_string(&event).unwrap_or_default(),
            event,
        };
        Ok(events.into_iter().map(tailed).collect())
    }

    async fn goes_on(&mut self, has_ended: bool) -> Result<bool, CliError> {
        if has_ended && let Ok(status) = self.runs.client.status(&self.id).await {
            // The run may have been resumed since.
            return Ok(status.phase == Phase::Running);
        }
        if self.asked_status.elapsed() > STATUS_INTERVAL {
            self.asked_status = Instant::now();
            let parked = match self.runs.client.status(&self.id).await {
                Ok(status) => status.parked,
                Err(ClientError::Refused { code, message, .. }) if code == "run_parked" => Some(message),
                // The next request for events finds out.
                Err(_) => None,
            };
            if let Some(reason) = parked {
                self.shown.progress().clear();
                let message = format!("no worker can go on with the run: {reason}");
                return Err(CliError {
                    resume: Some(self.command("resume", &[])),
                    ..CliError::usage("run_parked", message).exit(Exit::RunFailed)
                });
            }
        }
        Ok(true)
    }

    fn interval(&self) -> Duration {
        self.interval
    }

    async fn path(&self) -> Vec<String> {
        let result = self.runs.client.result(&self.id).await;
        result.map(|result| result.path).unwrap_or_default()
    }
}

/// The questions of a run on a server.
pub(super) struct ServerQuestions {
    pub(super) runs: ServerRuns,
    pub(super) id: RunId,
}

impl QuestionChannel for ServerQuestions {
    type Asked = Box<Question>;

    fn questions(&self) -> Response<Vec<Box<Question>>> {
        let (client, id) = (self.runs.client.clone(), self.id.clone());
        Box::pin(async move {
            let status = client.status(&id).await.map_err(|error| error.to_string())?;
            Ok(status.questions.into_iter().map(Box::new).collect())
        })
    }

    fn answer(&self, question: Box<Question>, answer: Answer) -> Response<()> {
        let (client, id) = (self.runs.client.clone(), self.id.clone());
        Box::pin(async move {
            let answered = client.answer(&id, &question.id, answer).await;
            answered.map_err(|error| error.to_string())
        })
    }
}
