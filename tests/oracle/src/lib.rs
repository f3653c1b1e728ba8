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
pub mod positions;
pub mod random;
pub mod reference;
pub mod shrink;
mod trace;

pub use description::{Category, Graph, Reaction, Script, ScriptedOutcome};
pub use driver::trace_of;
pub use generate::{Case, cases, graphs};
pub use trace::{Delay, End, Recorded, Step, Trace, Way, node_of};

use orchestra_graph::{Analysis, Limits, LoadOptions, Pipeline, Report, Source, load, lower, parse};

/// Loads a pipeline; the error is what the loader reports.
///
/// # Errors
/// The messages of the errors, one a line.
pub fn load_pipeline(dot: &str) -> Result<Pipeline, String> {
    load_reported(dot).map(|(pipeline, _)| pipeline)
}

/// Loads a pipeline; also gives what the loader says of it.
fn load_reported(dot: &str) -> Result<(Pipeline, Report), String> {
    let loaded = load(Source::new("oracle.dot", dot), &LoadOptions::default());
    let report = loaded.report.clone();
    let reported = || {
        let errors = report
            .errors()
            .map(|problem| format!("{}: {}", problem.code, problem.message));
        errors.collect::<Vec<_>>().join("\n")
    };
    let pipeline = loaded.pipeline().ok_or_else(reported)?;
    Ok((pipeline, report))
}

/// Loads a graph from its text, and puts the joins that it was drawn with into the table; also says where the
/// loader found others, unless it warns that a branch leads back before its fan-out: there P1 does not say which fan-in is
/// the first that every branch reaches.
///
/// # Errors
/// The messages of the errors, one a line.
pub fn load_drawn(graph: &Graph, dot: &str) -> Result<(Pipeline, Vec<String>), String> {
    let (mut pipeline, report) = load_reported(dot)?;
    let leads_back = |fan_out: &str| {
        let reported = format!("a branch of `{fan_out}` leads back");
        let mut warnings = report.diagnostics.iter();
        warnings.any(|warning| warning.code == "parallel_reentry" && warning.message.starts_with(&reported))
    };
    let mut others = Vec::new();
    for (fan_out, drawn) in &graph.joins {
        let (Some(at), Some(join)) = (pipeline.find(fan_out), pipeline.find(drawn)) else {
            continue;
        };
        let row = &mut pipeline.nodes.to_mut()[at.at()];
        if let Some(found) = &mut row.fan_out
            && found.join != join
        {
            let met = std::mem::replace(&mut found.join, join);
            if !leads_back(fan_out) {
                let met = pipeline.stage(met).id();
                others.push(format!("`{fan_out}` joins at `{met}`, drawn at `{drawn}`"));
            }
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
    if let Some(problem) = parsed.diagnostics.iter().find(|problem| problem.is_error()) {
        return Err(problem.message.clone());
    }
    let (graph, _) = lower(&source, &parsed.file);
    Pipeline::from_analysis(&Analysis::new(&graph, &source))
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
