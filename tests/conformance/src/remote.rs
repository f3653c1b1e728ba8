//! Workers of a Restate server.

use std::future::Future;
use std::sync::Arc;

use orchestra_engine::{Answer, Clock as _, Question, RunId, SystemClock};
use orchestra_restate::{Client, ClientError, Phase, RemoteStart};

use crate::case::Case;
use crate::driver::Driver;
use crate::ended::Ended;

/// The driver: a client of runs.
pub struct Remote(pub Client);

impl Driver for Remote {
    async fn start(&self, case: &Arc<Case>) -> RunId {
        let run = RunId::generate(SystemClock::new().now());
        let start = RemoteStart {
            seed: Some(case.script.schedule),
            ..RemoteStart::of(&case.name)
        };
        again(async || self.0.start(&run, start.clone()).await)
            .await
            .unwrap();
        run
    }

    async fn questions(&self, run: &RunId) -> Option<Vec<Question>> {
        let status = again(|| self.0.status(run)).await.unwrap();
        (!matches!(status.phase, Phase::Ended(_))).then_some(status.questions)
    }

    async fn answer(&self, run: &RunId, question: &str, answer: Answer) -> Result<(), String> {
        match again(|| self.0.answer(run, question, answer.clone())).await {
            Ok(()) => Ok(()),
            Err(ClientError::Refused { code, .. }) => Err(code),
            Err(error) => panic!("{error}"),
        }
    }

    async fn pause(&self, run: &RunId) {
        again(|| self.0.pause(run, "lunch")).await.unwrap();
    }

    async fn resume(&self, run: &RunId) {
        again(|| self.0.resume(run, None)).await.unwrap();
    }

    async fn ended(&self, run: &RunId) -> Ended {
        let result = loop {
            let result = again(|| self.0.wait(run)).await.unwrap();
            if result.has_ended {
                break result;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        };
        let events = again(|| self.0.events(run, 0)).await.unwrap();
        let events = events.into_iter().map(|event| event.kind);
        Ended::new(
            result.failure.as_ref(),
            result.path,
            &result.context,
            result.usage,
            events,
        )
    }
}

/// Makes a request again as long as the server is away, which is at most a minute.
async fn again<T, F>(request: impl Fn() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let began = std::time::Instant::now();
    loop {
        match request().await {
            Err(ClientError::Server(_)) if began.elapsed().as_secs() < 60 => {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
            result => return result,
        }
    }
}
