//! Three reviewers at once, a critic who sends the text back, and three mirrors of which two suffice.
//!
//! Each reviewer reads `page.txt` for faults of one kind. The three run side by side, each with a context of its own; at
//! the fan-in their results come together, and the one that found most is chosen. The critic has the writer mend what
//! that one found, and the three read again, until none of them finds anything. Then the page goes to three mirrors at
//! once. Two of three must take it (`join_policy="quorum"`): as soon as they have, nobody waits for the third.
//!
//! `cargo run -p parallel_review` has one mirror that is down. With `cargo run -p parallel_review -- storm` two are, and
//! the run takes its failed end.

#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orchestra::engine::{EventKind, RunEvent};
use orchestra::prelude::*;
use serde_json::Value;

orchestra::pipeline! {
    /// Reviews a page until nothing is found, and publishes it.
    pub mod parallel_review = "parallel_review.dot", handlers = Press;
}

/// The handlers of the pipeline.
#[derive(Default)]
struct Press {
    /// The mirrors that cannot be reached.
    down: &'static [&'static str],
    /// The mirrors that hold the page.
    holding: Mutex<BTreeSet<String>>,
}

impl Press {
    fn holding(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What every `page.review` node must say.
#[derive(Attributes)]
struct ReviewAttributes {
    /// The kind of fault: `repetitions`, `fillers` or `blanks`.
    looks_for: String,
}

/// How long it takes to see that a mirror does not answer.
const NO_ANSWER: Duration = Duration::from_millis(500);

/// How the critic can decide.
#[derive(Outcome)]
enum Verdict {
    Success,
    Revise,
}

#[handlers]
impl Press {
    /// Writes the page; when the critic has sent it back, without the faults that were found.
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

    /// Reads the page for faults of one kind. The score is their number, so the fan-in chooses whoever found most.
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

    /// Sends the page back as long as anybody found anything.
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

    /// Puts the page on the mirror that the node is named after.
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

    /// A page on too few mirrors is taken from those that hold it.
    #[handler("page.withdraw")]
    async fn withdraw(&self) -> Outcome {
        let withdrawn: Vec<String> = std::mem::take(&mut *self.holding()).into_iter().collect();
        Outcome::success().notes(format!("withdrawn from {}", withdrawn.join(", ")))
    }
}

/// A kind of fault that a reviewer looks for and the writer can mend.
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

    /// How many lines of a text have it.
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

/// Tells how the run goes.
fn show(event: &RunEvent) {
    match &event.kind {
        EventKind::StageCompleted {
            node,
            notes: Some(notes),
            ..
        } => println!("{node}: {notes}"),
        EventKind::StageFailed { node, error, .. } => println!("{node}: {error}"),
        EventKind::StageCancelled { node, .. } => println!("{node}: not waited for"),
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
