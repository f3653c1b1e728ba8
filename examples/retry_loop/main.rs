//! A loop that ends: a planner, a writer, and a verifier whose tests and lint decide.
//!
//! The writer makes release notes of `changes.txt`. The verifier tests that they name every change, and holds their
//! lines against a limit. What it finds becomes the run's `error_history`, by which the writer mends its next try.
//! After the third try (`visits.verifier>=3`) the run takes its failed end, which keeps the history and the time; a bound
//! that is part of the graph, so that no mistake in a handler makes it endless.
//!
//! `cargo run -p retry_loop` needs three tries. `cargo run -p retry_loop -- deaf` has a writer who does not listen.
//!
//! The writer is a model stage. Here a small backend stands for the model, so that nothing is called; give the engine
//! another one, and the same pipeline asks that.

#![allow(clippy::print_stdout)]

use std::process::ExitCode;

use orchestra::engine::{BackendError, CodergenReply, CodergenRequest, EventKind, RunEvent};
use orchestra::prelude::*;

orchestra::pipeline! {
    /// Writes release notes, verifies them, and tries again.
    pub mod retry_loop = "retry_loop.dot", handlers = Notes;
}

/// The handlers of the pipeline, which make and verify the notes of these changes.
struct Notes {
    changes: &'static str,
}

impl Default for Notes {
    fn default() -> Notes {
        Notes {
            changes: include_str!("changes.txt"),
        }
    }
}

/// What every `notes.verify` node must say.
#[derive(Attributes)]
struct VerifyAttributes {
    /// The longest line that the lint lets pass, in characters.
    max_width: usize,
}

#[handlers]
impl Notes {
    /// Sorts the changes under their headings.
    #[handler("notes.plan")]
    async fn plan(&self) -> Outcome {
        let of = |kind: &str| -> Vec<&str> {
            let lines = self.changes.lines();
            lines
                .filter_map(|line| line.strip_prefix(kind))
                .map(str::trim)
                .collect()
        };
        let (features, fixes) = (of("feat:"), of("fix:"));
        let notes = format!("{} features, {} fixes", features.len(), fixes.len());
        Outcome::success()
            .set("features", features)
            .set("fixes", fixes)
            .notes(notes)
    }

    /// Tests and lints the draft. A failure is kept by the engine in `error_history`, with its reason.
    #[handler("notes.verify")]
    async fn verify(&self, attributes: VerifyAttributes, stage: StageContext) -> Outcome {
        let context = stage.context();
        let draft = context.text("draft");
        let words = in_one_line(&draft);
        let mut changes = list(context, "features");
        changes.extend(list(context, "fixes"));
        let missing = changes.iter().find(|change| !words.contains(change.as_str()));
        let wide = draft
            .lines()
            .position(|line| line.chars().count() > attributes.max_width);

        let mut found = Vec::new();
        found.extend(missing.map(|change| format!("tests: `{change}` is missing")));
        found.extend(wide.map(|at| {
            let limit = attributes.max_width;
            format!("lint: line {} is longer than {limit} characters", at + 1)
        }));
        let outcome = if found.is_empty() {
            Outcome::success().notes("tests and lint pass")
        } else {
            Outcome::fail(found.join("; "))
        };
        outcome
            .set("tests_passed", missing.is_none())
            .set("lint_passed", wide.is_none())
    }

    /// The failed end: what is known when the last try is over.
    #[handler("notes.give_up")]
    async fn give_up(&self, stage: StageContext) -> Outcome {
        Outcome::success()
            .set("phase", "failed")
            .set("failed_at", stage.now().to_string())
            .notes("the last try was not verified")
    }
}

/// Stands for a model: an author in a hurry, who mends what was found, one thing at a time.
struct Author {
    listens: bool,
}

impl CodergenBackend for Author {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let context = request.stage.context();
        let history = if self.listens {
            context.text("error_history")
        } else {
            String::new()
        };
        let features = list(context, "features");
        let mut draft = section("Features", &features);
        if history.contains("is missing") {
            draft.push_str(&section("Fixes", &list(context, "fixes")));
        }
        // The width is only minded once the rest was in order.
        if history.contains("verifier: lint: ") {
            draft = wrapped(&draft, retry_loop::nodes::Verifier::MAX_WIDTH);
        }
        Ok(Outcome::success().set("draft", draft).into())
    }
}

/// A heading with its changes, one a line.
fn section(heading: &str, changes: &[String]) -> String {
    let lines: String = changes.iter().map(|change| format!("- {change}\n")).collect();
    format!("## {heading}\n\n{lines}\n")
}

/// The text with lines of at most so many characters.
fn wrapped(text: &str, width: i64) -> String {
    let width = usize::try_from(width).unwrap_or_default();
    let mut wrapped = String::new();
    for line in text.lines() {
        let mut taken = 0;
        for word in line.split_whitespace() {
            let length = word.chars().count();
            if taken > 0 && taken + 1 + length > width {
                wrapped.push_str("\n  ");
                taken = 2;
            } else if taken > 0 {
                wrapped.push(' ');
                taken += 1;
            }
            wrapped.push_str(word);
            taken += length;
        }
        wrapped.push('\n');
    }
    wrapped
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The texts of a list in the context.
fn list(context: &Context, key: &str) -> Vec<String> {
    let list = context.get(key).and_then(|value| value.as_array());
    let texts = list.into_iter().flatten().filter_map(|text| text.as_str());
    texts.map(str::to_owned).collect()
}

/// Tells how the run goes, in a line for each stage.
fn show(event: &RunEvent) {
    match &event.kind {
        EventKind::StageCompleted {
            node,
            notes: Some(notes),
            ..
        } => println!("{node}: {notes}"),
        EventKind::StageFailed {
            node, visit, error, ..
        } => println!("{node}, try {visit}: {error}"),
        _ => {}
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let listens = std::env::args().nth(1).as_deref() != Some("deaf");
    let engine = Engine::builder()
        .backend(Author { listens })
        .on_event(show)
        .build()?;
    let run = engine.start(&retry_loop::PIPELINE, Notes::default()).await?;
    let result = run.wait().await?;
    let context = &result.context;
    println!("\npath: {}", result.path.join(" -> "));
    let tries = result.path.iter().filter(|node| *node == "verifier").count();
    println!("tries: {tries}");
    if result.is_success() {
        println!("\n{}", context.text("draft").trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    println!("failed_at: {}", context.text("failed_at"));
    println!("error_history:");
    for failed in &result.error_history {
        println!("  {}, try {}: {}", failed.node, failed.visit, failed.reason);
    }
    Ok(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests;
