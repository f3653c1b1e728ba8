//! The check whether a run of a pipeline would start: the diagnostics of its text, its configuration and the engine.

use std::path::Path;

use orchestra_engine::{Engine, Entry, Refusal, SimulationBackend};
use orchestra_graph::{Diagnostic, LoadOptions, Loaded, Pipeline, Report, Severity, SharedPipeline, Span};

use crate::args::Lints;
use crate::error::CliError;
use crate::project::agents::ProjectAgents;
use crate::project::pages::CANNOT_START;
use crate::project::pipelines::Pipelines;
use crate::terminal::Terminal;

/// Refusals that do not apply to a program with its own handlers and pipelines.
const PROGRAM_SPECIFIC: &[&str] = &["missing_handler", "missing_child"];

/// A pipeline that passed through the checks before the start of a run, except for API keys and the files of a
/// workspace.
pub(crate) struct CheckedPipeline {
    loaded: Loaded,
    /// The reports of the configuration and the engine for a text without errors.
    further: Vec<Report>,
}

impl CheckedPipeline {
    /// Checks a file or a compiled pipeline with the configuration that a run would use.
    ///
    /// # Errors
    ///
    /// Returns an error if the file or its configuration cannot be read.
    pub(crate) fn new(
        pipelines: &Pipelines,
        name: &str,
        lints: &Lints,
        config: Option<&Path>,
        terminal: &Terminal,
    ) -> Result<CheckedPipeline, CliError> {
        let loaded = pipelines.load_to_check(name, lints)?;
        let mut further = Vec::new();
        if let Some(pipeline) = loaded.pipeline() {
            let entry = pipelines.entry(name);
            let compiled = entry.and_then(Entry::configuration);
            let agents = ProjectAgents::find(config, &pipeline.file, compiled, terminal)?;
            let resolutions = agents.resolutions(&loaded).into_iter();
            further.extend(resolutions.flat_map(|resolution| resolution.reports));
            if entry.is_none() {
                further.extend(refusals(&loaded, pipeline)?);
            }
        }
        let options = LoadOptions {
            allow: lints.allow.clone(),
            deny: lints.deny.clone(),
            ..LoadOptions::default()
        };
        for report in &mut further {
            options.apply_severities(&mut report.diagnostics);
        }
        Ok(CheckedPipeline { loaded, further })
    }

    /// Returns the pipeline and its child pipelines.
    pub(crate) fn pipelines(&self) -> impl Iterator<Item = &Loaded> {
        family(&self.loaded)
    }

    /// Returns all reports: those of the pipelines, the configuration and the engine.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.loaded.reports().chain(&self.further)
    }
}

/// Returns a pipeline and its child pipelines.
fn family(loaded: &Loaded) -> impl Iterator<Item = &Loaded> {
    let descendants = loaded.descendants().into_iter();
    std::iter::once(loaded).chain(descendants.map(|child| &*child.loaded))
}

/// Returns the refusals of the engine as reports, at the nodes that cause them.
pub(crate) fn refusals(loaded: &Loaded, pipeline: Pipeline) -> Result<Vec<Report>, CliError> {
    // Replaces the models, whose API keys may be missing here.
    let engine = Engine::builder().backend(SimulationBackend).build();
    let engine = engine.map_err(|error| CliError::usage(error.code(), error.to_string()))?;
    let Err(refused) = engine.check(SharedPipeline::from(pipeline), ()) else {
        return Ok(Vec::new());
    };
    let mut reports: Vec<Report> = Vec::new();
    for refusal in &refused.list {
        let Some(at) = family(loaded).find(|loaded| *loaded.source.name() == *refusal.file) else {
            continue;
        };
        let diagnostic = diagnostic(at, refusal);
        match reports
            .iter_mut()
            .find(|report| report.source.name() == at.source.name())
        {
            Some(report) => report.diagnostics.push(diagnostic),
            None => reports.push(Report::new(at.source.clone(), vec![diagnostic])),
        }
    }
    Ok(reports)
}

fn diagnostic(loaded: &Loaded, refusal: &Refusal) -> Diagnostic {
    let mut nodes = loaded.graph.nodes.iter();
    let node = nodes.find(|node| loaded.source.position(node.span.start) == refusal.position);
    let severity = if PROGRAM_SPECIFIC.contains(&refusal.code) {
        Severity::Info
    } else {
        CANNOT_START.severity
    };
    let span = node.map_or(Span::new(0, 0), |node| node.span);
    let diagnostic = Diagnostic::from_rule(&CANNOT_START, &*refusal.message, span).severity(severity);
    let diagnostic = match severity {
        Severity::Info => diagnostic.note("a program that registers it runs the pipeline; this one does not"),
        _ => diagnostic.label("`run` refuses this"),
    };
    match node {
        Some(node) => diagnostic.node(&*node.id),
        None => diagnostic,
    }
}
