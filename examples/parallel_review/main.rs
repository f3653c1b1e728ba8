//! Three parallel reviewers, a critic who sends the text back, and three mirrors of which two must succeed.
//!
//! Each reviewer reads `page.txt` and searches for errors of one kind. The three run in parallel, each with its own
//! copy of the context. The fan-in collects their results and chooses the one with the most findings. The critic
//! sends these back to the writer, who corrects them, and the reviewers read again until they find nothing. Then the
//! page is published to three mirrors in parallel, of which two must succeed (`join_policy="quorum"`). As soon as two
//! have, the third is cancelled.
//!
//! `cargo run -p parallel_review` runs with one mirror that is down. In `cargo run -p parallel_review -- storm`, two
//! mirrors are down and the run fails.

#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orchestra::engine::{EventKind, RunEvent};
use orchestra::prelude::*;
use serde_json::Value;

orchestra::pipeline! {
    /// Reviews a page until no errors are found, then publishes it.
    pub mod parallel_review = "parallel_review.dot", handlers = Press, paths;
}

/// The handlers of the pipeline.
#[derive(Default)]
struct Press {
    /// The mirrors that are down.
    down: &'static [&'static str],
    /// The mirrors that have the page.
    holding: Mutex<BTreeSet<String>>,
}

impl Press {
    fn holding(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The attributes of every `page.review` node.
#[derive(Attributes)]
struct ReviewAttributes {
    /// The kind of error: `repetitions`, `fillers` or `blanks`.
    looks_for: String,
}

/// The time until a mirror counts as down.
const NO_ANSWER: Duration = Duration::from_millis(500);

/// The outcomes of the critic.
#[derive(Outcome)]
enum Verdict {
    Success,
    Revise,
}

#[handlers]
impl Press {
    /// Writes the page. If the critic sent it back, corrects the errors that were found.
    #[handler("page.write")]
    async fn write(&self, stage: StageContext) -> Outcome {
        let context = stage.context();
        let mend = context.text("parallel.fan_in.best_id");
        match Fault::parse(&mend) {
            None => Outcome::success()
                .set("page", include_str!("page.txt"))
                .notes("the first draft"),
            Some(fault) => Outcome::success()
                .set("page", fault.mended(&context.text("page")))
                .notes(format!("mended: {mend}")),
        }
    }

    /// Searches the page for errors of one kind. The score is their number, so the fan-in chooses the reviewer with
    /// the most.
    #[handler("page.review")]
    async fn review(&self, attributes: ReviewAttributes, stage: StageContext) -> Outcome {
        let Some(fault) = Fault::parse(&attributes.looks_for) else {
            return Outcome::fail_terminal(format!("nobody can look for `{}`", attributes.looks_for));
        };
        let found = fault.found(&stage.context().text("page"));
        Outcome::success()
            .set("score", found)
            .notes(format!("{found} lines"))
    }

    /// Sends the page back if a reviewer found errors.
    #[handler("page.judge")]
    async fn judge(&self, stage: StageContext) -> Verdict {
        let results = stage.context().get("parallel.results").and_then(Value::as_array);
        let scores = results
            .into_iter()
            .flatten()
            .filter_map(|result| result["score"].as_u64());
        match scores.sum() {
            0_u64 => Verdict::Success,
            _ => Verdict::Revise,
        }
    }

    /// Publishes the page to the mirror after which the node is named.
    #[handler("page.mirror")]
    async fn mirror(&self, stage: StageContext) -> Outcome {
        let mirror = stage.node().id();
        if self.down.contains(&mirror) {
            tokio::time::sleep(NO_ANSWER).await;
            return Outcome::fail(format!("the mirror `{mirror}` does not answer"));
        }
        self.holding().insert(mirror.to_owned());
        Outcome::success().notes("the page is there")
    }

    /// Removes the page from the mirrors that have it, because they are too few.
    #[handler("page.withdraw")]
    async fn withdraw(&self) -> Outcome {
        let withdrawn: Vec<String> = std::mem::take(&mut *self.holding()).into_iter().collect();
        Outcome::success().notes(format!("withdrawn from {}", withdrawn.join(", ")))
    }
}

/// A kind of error that a reviewer finds and the writer corrects.
#[derive(Clone, Copy)]
enum Fault {
    Repetitions,
    Fillers,
    Blanks,
}

impl Fault {
    fn parse(name: &str) -> Option<Fault> {
        match name {
            "repetitions" => Some(Fault::Repetitions),
            "fillers" => Some(Fault::Fillers),
            "blanks" => Some(Fault::Blanks),
            _ => None,
        }
    }

    /// Returns the number of lines with this error.
    fn found(self, text: &str) -> usize {
        text.lines()
            .filter(|line| self.mended_line(line) != *line)
            .count()
    }

    fn mended(self, text: &str) -> String {
        let lines = text.lines().map(|line| self.mended_line(line) + "\n");
        lines.collect()
    }

    fn mended_line(self, line: &str) -> String {
        match self {
            Fault::Repetitions => {
                let mut words: Vec<&str> = line.split(' ').collect();
                words.dedup_by(|later, earlier| !later.is_empty() && later == earlier);
                words.join(" ")
            }
            Fault::Fillers => {
                let fills = |word: &&str| !matches!(*word, "basically" | "just" | "really" | "very");
                line.split(' ').filter(fills).collect::<Vec<_>>().join(" ")
            }
            Fault::Blanks => {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.join(" ").replace(" .", ".")
            }
        }
    }
}

/// Prints the progress of the run.
fn show(event: &RunEvent) {
    match &event.kind {
        EventKind::StageCompleted {
            stage,
            notes: Some(notes),
            ..
        } => println!("{}: {notes}", stage.node),
        EventKind::StageFailed { stage, error, .. } => println!("{}: {error}", stage.node),
        EventKind::StageCancelled { stage, .. } => println!("{}: not waited for", stage.node),
        _ => {}
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let press = Press {
        down: match std::env::args().nth(1).as_deref() {
            Some("storm") => &["north", "south"],
            _ => &["north"],
        },
        ..Press::default()
    };
    let engine = Engine::builder().on_event(show).build()?;
    let result = engine
        .start(&parallel_review::PIPELINE, press)
        .await?
        .wait()
        .await?;
    println!("\n{}", result.context.text("page").trim_end());
    if let Some(failure) = &result.failure {
        println!("\nfailed: {failure}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
