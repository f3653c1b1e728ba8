//! The engine in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use orchestra_engine::{
    Answer, Begin, Canceller, Engine, EventKind, Question, RunHandle, RunId, StartSettings,
};

use crate::case::{Actor, Case};
use crate::driver::Driver;
use crate::ended::Ended;

/// The driver.
pub struct Embedded {
    engine: Engine,
    actor: Actor,
    runs: Mutex<HashMap<RunId, (Canceller, Option<RunHandle>)>>,
    events: Arc<Mutex<HashMap<RunId, Vec<EventKind>>>>,
}

impl Embedded {
    /// Creates the driver.
    pub fn new(actor: Actor) -> Embedded {
        let events: Arc<Mutex<HashMap<RunId, Vec<EventKind>>>> = Arc::default();
        let seen = events.clone();
        let engine = Engine::builder().on_event(move |event| {
            lock(&seen)
                .entry(event.run.clone())
                .or_default()
                .push(event.kind.clone());
        });
        Embedded {
            engine: engine.build().unwrap(),
            actor,
            runs: Mutex::default(),
            events,
        }
    }

    fn canceller(&self, run: &RunId) -> Option<Canceller> {
        lock(&self.runs).get(run).map(|(canceller, _)| canceller.clone())
    }
}

impl Driver for Embedded {
    async fn start(&self, case: &Arc<Case>) -> RunId {
        let settings = StartSettings {
            seed: Some(case.script.schedule),
            ..StartSettings::default()
        };
        let begun = case
            .entry(&self.actor)
            .begin(&self.engine, Begin::Start(settings))
            .await
            .unwrap();
        let id = begun.id().clone();
        lock(&self.runs).insert(id.clone(), (begun.canceller(), Some(begun)));
        id
    }

    async fn questions(&self, run: &RunId) -> Option<Vec<Question>> {
        self.canceller(run).map(|run| run.questions())
    }

    async fn answer(&self, run: &RunId, question: &str, answer: Answer) -> Result<(), String> {
        let Some(run) = self.canceller(run) else {
            return Err("wrong_phase".to_owned());
        };
        run.answer(question, answer)
            .map_err(|error| error.code().to_owned())
    }

    async fn pause(&self, _: &RunId) {
        unreachable!("a run of the engine without a folder cannot be resumed");
    }

    async fn resume(&self, _: &RunId) {
        unreachable!("a run of the engine without a folder cannot be resumed");
    }

    async fn ended(&self, run: &RunId) -> Ended {
        let handle = lock(&self.runs)
            .get_mut(run)
            .and_then(|(_, handle)| handle.take())
            .unwrap();
        let result = handle.wait().await.unwrap();
        lock(&self.runs).remove(run);
        let events = lock(&self.events).remove(run).unwrap_or_default();
        let path = result.path.iter().map(str::to_owned).collect();
        Ended::new(
            result.failure.as_ref(),
            path,
            &result.context,
            result.usage,
            events,
        )
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}
