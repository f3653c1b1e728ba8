//! A second opinion on the rules of the run: routing (R1-R11), retries (Y1-Y5, Y7), parallel blocks (P1-P4), human
//! gates (H1-H4), and of conditions (C1-C5).
//!
//! [`mod@reference`] walks a pipeline by the letter of the rules, slowly and plainly; [`conditions`] does the same for
//! the condition language. Neither calls the router, the joins, the conditions or the labels of `orchestra-graph`, nor
//! anything of `orchestra-core`, so a mistake there is not repeated here. [`generate`] makes graphs and scripts at
//! random, [`driver`] runs the real machine by the same scripts, and both give a [`Trace`] that must be equal.
//!
//! `ORACLE_CASES` and `ORACLE_SEED` make the random tests longer or start them elsewhere.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod bounds;
pub mod conditions;
pub mod coverage;
pub mod description;
pub mod driver;
pub mod generate;
pub mod random;
pub mod reference;
pub mod shrink;
mod trace;

pub use description::{Category, Graph, Reaction, Script, ScriptedOutcome};
pub use driver::trace_of;
pub use generate::{Case, cases, graphs};
pub use trace::{Delay, End, Recorded, Step, Trace, Way, node_of};

use orchestra_graph::{Analysis, Limits, LoadOptions, Pipeline, Source, load, lower, parse};

/// Loads a pipeline; the error is what the loader reports.
///
/// # Errors
/// The messages of the errors, one a line.
pub fn load_pipeline(dot: &str) -> Result<Pipeline, String> {
    let loaded = load(Source::new("oracle.dot", dot), &LoadOptions::default());
    let told = || {
        let errors = loaded
            .report
            .errors()
            .map(|fault| format!("{}: {}", fault.code, fault.message));
        errors.collect::<Vec<_>>().join("\n")
    };
    loaded.pipeline().ok_or_else(told)
}

/// Loads a graph from its text, and puts the joins that it was drawn with into the table; also says at which fan-outs
/// the loader found others.
///
/// # Errors
/// The messages of the errors, one a line.
pub fn load_drawn(graph: &Graph, dot: &str) -> Result<(Pipeline, Vec<String>), String> {
    let mut pipeline = load_pipeline(dot)?;
    let mut others = Vec::new();
    for (fan_out, join) in &graph.joins {
        let (Some(at), Some(join)) = (pipeline.find(fan_out), pipeline.find(join)) else {
            continue;
        };
        let row = &mut pipeline.nodes.to_mut()[at.at()];
        if let Some(found) = &mut row.fan_out
            && found.join != join
        {
            found.join = join;
            others.push(fan_out.clone());
        }
    }
    Ok((pipeline, others))
}

/// The pipeline of a text whatever the checks say of it: a test of one rule need not be a sensible pipeline.
///
/// # Errors
/// The messages of syntax errors, or that there is no table.
pub fn unchecked_pipeline(dot: &str) -> Result<Pipeline, String> {
    let source = Source::new("oracle.dot", dot);
    let parsed = parse(&source, &Limits::default());
    if let Some(fault) = parsed.faults.iter().find(|fault| fault.is_error()) {
        return Err(fault.message.clone());
    }
    let (graph, _) = lower(&source, &parsed.file);
    Pipeline::of(&Analysis::new(&graph, &source))
        .ok_or_else(|| "no start, no exit, or a faulty condition".to_owned())
}

/// The first seed of a random test: `ORACLE_SEED`, else the one given.
pub fn seed(default: u64) -> u64 {
    environment("ORACLE_SEED").unwrap_or(default)
}

/// How many cases a random test takes: `ORACLE_CASES`, else the number given.
pub fn case_count(default: usize) -> usize {
    environment("ORACLE_CASES").map_or(default, |cases| cases as usize)
}

fn environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a whole number, not `{text}`")),
    )
}
