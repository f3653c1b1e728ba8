//! The requests of a hosted attempt, which its run answers.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;

use orchestra_core::Context;
use serde_json::Value;

use crate::run::history::{PastStage, StageHistory};
use crate::run::port::AttemptPort;
use crate::run::requests::Request;
use crate::run::state::Run;
use crate::run::workspace::RunFiles;

/// The context key of the results of a parallel block, which name the visits of its branches.
const RESULTS: &str = "parallel.results";

/// The requests of an attempt, and the records whose texts are here already.
pub(super) struct Requests<'r> {
    run: &'r Run,
    port: &'r dyn AttemptPort,
    files: Option<Arc<RunFiles>>,
    fetched: BTreeSet<String>,
    /// The number of notes of the attempt.
    notes: usize,
}

impl<'r> Requests<'r> {
    pub(super) fn new(
        run: &'r Run,
        port: &'r dyn AttemptPort,
        files: Option<Arc<RunFiles>>,
        notes: usize,
    ) -> Requests<'r> {
        run.questions.count_from_note(notes);
        Requests {
            run,
            port,
            files,
            fetched: BTreeSet::new(),
            notes,
        }
    }

    /// Answers requests until the future is dropped, one after the other.
    pub(super) async fn serve(&mut self) -> Infallible {
        loop {
            self.run.questions.answered().await;
            while let Some(request) = self.run.take_request() {
                self.answer(request).await;
            }
        }
    }

    async fn answer(&mut self, request: Request) {
        // The attempt may have dropped the receivers.
        match request {
            Request::Note {
                id,
                mut note,
                checkpoint,
                done,
            } => {
                if let Some(redactor) = &self.run.settings.redactor {
                    redactor.value(&mut note);
                }
                let used = self.run.attempts.usage.take(&id).unwrap_or_default();
                if let Some(snapshot) = self.files.as_ref().and_then(|files| files.take(&id)) {
                    self.port.snapshot(snapshot);
                }
                self.port.note(note, checkpoint, used).await;
                self.notes += 1;
                self.run.questions.count_from_note(self.notes);
                let _ = done.send(());
            }
            Request::Look { done, .. } => {
                let history = self.port.history().await;
                self.fetch(records_of_history(&history)).await;
                let _ = done.send(history);
            }
            Request::Latest { nodes, done, .. } => {
                let latest = self.port.latest(nodes).await;
                self.fetch(latest.iter().filter_map(record)).await;
                let _ = done.send(latest);
            }
        }
    }

    /// Fetches the texts of visits, so that the stage can read them at once.
    pub(super) async fn fetch(&mut self, records: impl Iterator<Item = String>) {
        let missing: Vec<String> = records
            .filter(|record| self.fetched.insert(record.clone()))
            .collect();
        if missing.is_empty() {
            return;
        }
        for text in self.port.texts(missing).await {
            self.run.receive(text);
        }
    }
}

fn record(past: &PastStage) -> Option<String> {
    past.record.clone()
}

fn records_of_history(history: &StageHistory) -> impl Iterator<Item = String> {
    let others = history.thread_stage.iter().chain(&history.handled);
    history.stages.iter().chain(others).filter_map(record)
}

/// Returns the records of the visits in the results of a parallel block.
pub(super) fn records_of_branches(context: &Context) -> Vec<String> {
    let results = context.get(RESULTS).and_then(Value::as_array);
    let stages = results
        .into_iter()
        .flatten()
        .filter_map(|result| result.get("stages")?.as_array());
    let records = stages.flatten().filter_map(|stage| stage.get("record")?.as_str());
    records.map(str::to_owned).collect()
}
