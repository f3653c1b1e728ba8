//! Whether a run of a pipeline would start: the diagnostics of its text, of its configuration and of the engine.

use std::path::Path;

use orchestra_engine::{Engine, Refusal, SimulationBackend};
use orchestra_graph::{Diagnostic, LoadOptions, Loaded, Pipeline, Report, Severity, SharedPipeline, Span};

use crate::agents::ProjectAgents;
use crate::args::Lints;
use crate::error::CliError;
use crate::pipelines::Pipelines;
use crate::terminal::Terminal;

/// The code of what the engine refuses to start.
pub(crate) const CANNOT_START: &str = "cannot_start";

/// What the engine refuses, and a program with its own handlers and pipelines may still run.
const OF_OTHER_PROGRAMS: &[&str] = &["missing_handler", "missing_child"];

/// A pipeline that was checked by all that a run asks before it starts, but for keys of models and the files of a
/// workspace.
pub(crate) struct Checked {
    loaded: Loaded,
    /// What the configuration and the engine say of a text that has no errors.
    further: Vec<Report>,
}

impl Checked {
    /// Checks a file, or a pipeline of the program, with the configuration that a run would take.
    ///
    /// # Errors
    /// The file or its configuration cannot be read.
    pub(crate) fn new(
        pipelines: &Pipelines,
        name: &str,
        lints: &Lints,
        config: Option<&Path>,
        terminal: &Terminal,
    ) -> Result<Checked, CliError> {
        let loaded = pipelines.load_to_check(name, lints)?;
        let mut further = Vec::new();
        if let Some(pipeline) = loaded.pipeline() {
            let entry = pipelines.entry(name);
            let agents = ProjectAgents::find(config, &pipeline.file, entry, terminal)?;
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
        Ok(Checked { loaded, further })
    }

    /// Returns the reports of the pipeline and its children.
    pub(crate) fn pipelines(&self) -> impl Iterator<Item = &Report> {
        self.loaded.reports()
    }

    /// Returns all reports: those of the pipelines, and what the configuration and the engine say.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.loaded.reports().chain(&self.further)
    }
}

/// Returns what the engine would refuse, at the nodes at fault.
fn refusals(loaded: &Loaded, pipeline: Pipeline) -> Result<Vec<Report>, CliError> {
    // Stands for the models, whose keys need not be here.
    let engine = Engine::builder().backend(SimulationBackend).build();
    let engine = engine.map_err(|error| CliError::usage(error.code(), error.to_string()))?;
    let Err(refused) = engine.check_loaded(SharedPipeline::from(pipeline), ()) else {
        return Ok(Vec::new());
    };
    let descendants = loaded.descendants();
    let all = || std::iter::once(loaded).chain(descendants.iter().map(|child| &*child.loaded));
    let mut reports: Vec<Report> = Vec::new();
    for refusal in &refused.list {
        let Some(at) = all().find(|loaded| *loaded.source.name() == *refusal.file) else {
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
    let severity = if OF_OTHER_PROGRAMS.contains(&refusal.code) {
        Severity::Info
    } else {
        Severity::Error
    };
    let span = node.map_or(Span::new(0, 0), |node| node.span);
    let diagnostic = Diagnostic::new(CANNOT_START, severity, &*refusal.message, span);
    let diagnostic = match severity {
        Severity::Info => diagnostic.note("a program that registers it runs the pipeline; this one does not"),
        _ => diagnostic.label("`run` refuses this"),
    };
    match node {
        Some(node) => diagnostic.node(&*node.id),
        None => diagnostic,
    }
}
