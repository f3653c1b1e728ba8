//! Attractor's checklists as tests; `CHECKLIST.md` says which test shows which line.
//!
//! Here is what these tests share: a model that does what a test says, a clock that only waits turn on, and runs
//! whose events are kept. Everything goes through the facade, as a user's program does.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod clock;
mod model;
mod ran;

pub use clock::Ticks;
pub use model::{Call, Model};
pub use ran::{Heard, Ran, line, listening, run, run_both, run_both_on};

use orchestra::graph::{LoadOptions, Loaded, Pipeline, Source, load};

/// A text, read and checked.
pub fn loaded(text: &str) -> Loaded {
    load(Source::new("test.dot", text), &LoadOptions::default())
}

/// A pipeline from a text without faults.
pub fn pipeline(text: &str) -> Pipeline {
    let loaded = loaded(text);
    loaded
        .pipeline()
        .unwrap_or_else(|| panic!("{}\n{text}", problems(&loaded).join("\n")))
}

/// The errors of a text, each as `code: message`.
pub fn problems(loaded: &Loaded) -> Vec<String> {
    let errors = loaded.report.errors();
    errors
        .map(|problem| format!("{}: {}", problem.code, problem.message))
        .collect()
}
