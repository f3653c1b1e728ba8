//! The model of the load: it answers by rules, and breaks as providers and networks do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orchestra_model_server_tests::{Answer, Fault, ModelServer, Script};
use orchestra_oracle_tests::random::Random;

/// Of a hundred requests, how many a fault answers.
const FAULTS: usize = 25;

/// A model server for a round.
pub(crate) struct Model {
    pub(crate) server: ModelServer,
    script: Arc<Script>,
    faults: Arc<AtomicU64>,
}

impl Model {
    /// Starts a server whose faults a seed fixes.
    pub(crate) fn start(seed: u64) -> Result<Model, String> {
        let rules = include_str!("../scenarios/model.yaml");
        let script = Arc::new(Script::parse(rules).map_err(|error| error.to_string())?);
        let (playing, faults) = (Arc::clone(&script), Arc::new(AtomicU64::new(0)));
        let (random, count) = (Mutex::new(Random::new(seed)), Arc::clone(&faults));
        let server = ModelServer::start();
        server.respond_with(move |request| {
            let mut random = random.lock().unwrap_or_else(PoisonError::into_inner);
            let answer = playing.answer(request);
            if !random.chance(FAULTS) {
                return answer;
            }
            count.fetch_add(1, Ordering::SeqCst);
            broken(answer, random.below(9))
        });
        Ok(Model {
            server,
            script,
            faults,
        })
    }

    /// Returns how many requests a fault answered.
    pub(crate) fn faults(&self) -> u64 {
        self.faults.load(Ordering::SeqCst)
    }

    /// Returns the requests that no rule fits.
    pub(crate) fn unmatched(&self) -> Vec<String> {
        self.script.unmatched()
    }
}

fn broken(answer: Answer, kind: usize) -> Answer {
    let error = |status, code, message| Fault::Error {
        status,
        code,
        message,
        retry_after: Some("0".into()),
    };
    answer.breaking(match kind {
        0 => error(429, "rate_limit_error", "Slow down."),
        1 => error(500, "api_error", "Something broke."),
        2 => error(529, "overloaded_error", "Overloaded."),
        3 => Fault::Cut,
        4 => Fault::EndsEarly,
        5 => Fault::Reset,
        6 => Fault::ResetAtOnce,
        7 => Fault::HangInTheMiddle,
        _ => Fault::Drip(Duration::from_micros(200)),
    })
}
