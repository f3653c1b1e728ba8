//! A bounded loop: a planner, a writer, and a verifier that tests and lints the result.
//!
//! The writer turns `changes.txt` into release notes. The verifier tests that they mention every change, and checks
//! the length of their lines. Its findings become `error_history` of the run, from which the writer corrects its next
//! draft. After the third draft (`visits.verifier>=3`) the run fails, and keeps the history and the time. This bound
//! is part of the graph, so no error in a handler can make the loop endless.
//!
//! `cargo run -p retry_loop` needs three drafts. In `cargo run -p retry_loop -- deaf`, the writer ignores the
//! findings.
//!
//! The writer is a model stage. A small backend replaces the model, so that no model is called. With another backend
//! the same pipeline calls a model.

#![allow(clippy::print_stdout)]

use std::process::ExitCode;

use orchestra::engine::{BackendError, CodergenReply, CodergenRequest, EventKind, RunEvent};
use orchestra::prelude::*;

orchestra::pipeline! {
    /// Writes release notes, verifies them, and tries again.
    pub mod retry_loop = "retry_loop.dot", handlers = Notes, paths;
}

/// The handlers of the pipeline, which write and verify the notes for these changes.
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

/// The attributes of every `notes.verify` node.
#[derive(Attributes)]
struct VerifyAttributes {
    /// The maximum length of a line in characters.
    max_width: usize,
}

#[handlers]
impl Notes {
    /// Sorts the changes by heading.
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

    /// Tests and lints the draft. The engine stores the reason of a failure in `error_history`.
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

    /// Fails the run after the last draft, with what is known then.
    #[handler("notes.give_up")]
    async fn give_up(&self, stage: StageContext) -> Outcome {
        Outcome::success()
            .set("phase", "failed")
            .set("failed_at", stage.now().to_string())
            .notes("the last try was not verified")
    }
}

/// Replaces a model: a hurried author who corrects one finding at a time.
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
        // The width is corrected only after everything else.
        if history.contains("verifier: lint: ") {
            draft = wrapped(&draft, retry_loop::nodes::Verifier::MAX_WIDTH);
        }
        Ok(Outcome::success().set("draft", draft).into())
    }
}

/// Formats a heading and its changes, one per line.
fn section(heading: &str, changes: &[String]) -> String {
    let lines: String = changes.iter().map(|change| format!("- {change}\n")).collect();
    format!("## {heading}\n\n{lines}\n")
}

/// Wraps a text to a maximum line length.
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

/// Returns the texts of a list in the context.
fn list(context: &Context, key: &str) -> Vec<String> {
    let list = context.get(key).and_then(|value| value.as_array());
    let texts = list.into_iter().flatten().filter_map(|text| text.as_str());
    texts.map(str::to_owned).collect()
}

/// Prints the progress of the run, one line for each stage.
fn show(event: &RunEvent) {
    match &event.kind {
        EventKind::StageCompleted {
            stage,
            notes: Some(notes),
            ..
        } => println!("{}: {notes}", stage.node),
        EventKind::StageFailed { stage, error, .. } => {
            println!("{}, try {}: {error}", stage.node, stage.visit);
        }
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
