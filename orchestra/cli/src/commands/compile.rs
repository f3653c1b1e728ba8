//! `compile`: checks a pipeline and prints its resolved graph.

use orchestra_config::{Resolution, ResolvedStage};
use orchestra_engine::Entry;
use orchestra_graph::{Known, Loaded, Pipeline, Stage};
use serde_json::{Value, json};

use crate::args::{CompileArgs, Format};
use crate::error::{CliError, Exit};
use crate::project::agents::{ProjectAgents, print_resolution};
use crate::project::pipelines::Pipelines;
use crate::report::diagnostics::print_reports;
use crate::terminal::Terminal;
use crate::terminal::format::count;

pub(crate) fn compile(
    args: &CompileArgs,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let loaded = pipelines.load(&args.file, &args.lints)?;
    let format = if terminal.json { Format::Json } else { Format::Text };
    print_reports(terminal, &loaded, format);
    let Some(pipeline) = loaded.pipeline() else {
        return Ok(Exit::Invalid);
    };
    let agents = ProjectAgents::find(
        args.config.as_deref(),
        &pipeline.file,
        pipelines.entry(&args.file).and_then(Entry::configuration),
        terminal,
    )?;
    let resolution = agents.resolve_graph(&loaded.analysis());
    let invalid = print_resolution(&resolution, terminal);
    if terminal.json {
        terminal.object(&object(&loaded, &pipeline, &agents, &resolution));
    } else {
        terminal.result(&table(&loaded, &pipeline, &resolution));
        let models = resolution.table();
        if !models.is_empty() {
            let of = agents.path().map_or(String::new(), |path| format!(" by {path}"));
            terminal.result(&format!("\nmodel stages{of}\n{}", models.trim_end()));
        }
    }
    Ok(if invalid { Exit::Invalid } else { Exit::Ok })
}

fn stages(pipeline: &Pipeline) -> impl Iterator<Item = Stage<'_>> {
    (0..pipeline.nodes.len() as u32).map(|at| pipeline.stage(orchestra_graph::NodeIndex(at)))
}

/// Returns the provider and model of a stage.
fn model(resolved: Option<&ResolvedStage>) -> String {
    let Some(resolved) = resolved else {
        return String::new();
    };
    let text = |chosen: &Option<orchestra_config::Chosen<String>>| {
        chosen
            .as_ref()
            .map_or("(none)".to_owned(), |chosen| chosen.value.clone())
    };
    if resolved.backend_kind.needs_model() || resolved.model.is_some() {
        format!("{}/{}", text(&resolved.provider), text(&resolved.model))
    } else {
        resolved.backend.value.clone()
    }
}

/// Returns the edges of a stage in file order, with their conditions.
fn routes(pipeline: &Pipeline, stage: Stage<'_>) -> Vec<String> {
    let mut routes: Vec<String> = stage
        .edges()
        .map(|(_, edge)| {
            let mut route = format!("-> {}", pipeline.stage(edge.to).id());
            if !edge.label.is_empty() {
                route.push_str(&format!(" \"{}\"", pipeline.text(edge.label)));
            }
            if let Some(condition) = pipeline.condition(edge) {
                route.push_str(&format!(" if {}", condition.text()));
            }
            if edge.weight != 0 {
                route.push_str(&format!(" (weight {})", edge.weight));
            }
            route
        })
        .collect();
    let row = stage.row();
    for (name, target) in [
        ("retry_target", row.retry_target),
        ("fallback_retry_target", row.fallback_retry_target),
    ] {
        if let Some(target) = target {
            routes.push(format!("on failure -> {} ({name})", pipeline.stage(target).id()));
        }
    }
    routes
}

fn table(loaded: &Loaded, pipeline: &Pipeline, resolution: &Resolution) -> String {
    let mut lines = vec![pipeline.title().to_owned()];
    if !pipeline.goal().is_empty() {
        lines.push(format!("goal: {}", pipeline.goal()));
    }
    lines.push(format!(
        "{}: {}, {}, start `{}`, exit `{}`",
        loaded.source.name(),
        count(pipeline.nodes.len(), "node"),
        count(pipeline.edges.len(), "edge"),
        pipeline.stage(pipeline.start).id(),
        pipeline.stage(pipeline.exit).id(),
    ));
    lines.push(String::new());
    let mut rows = vec![["NODE", "HANDLER", "MODEL", "TOOLS", "ROUTES"].map(str::to_owned)];
    let resolved = resolution.by_node();
    for stage in stages(pipeline) {
        let resolved = resolved.get(stage.id()).copied();
        let tools = match stage.kind() {
            orchestra_graph::kind::TOOL => {
                first_line(stage.text(Known::ToolCommand.name()).unwrap_or_default())
            }
            kind if runs_child(kind) => child(pipeline, stage).unwrap_or_default().to_owned(),
            _ => resolved.map_or_else(String::new, |resolved| resolved.tools.join(" ")),
        };
        let mut routes = routes(pipeline, stage).into_iter();
        let first = routes.next().unwrap_or_default();
        rows.push([
            stage.id().to_owned(),
            stage.kind().to_owned(),
            model(resolved),
            tools,
            first,
        ]);
        rows.extend(routes.map(|route| [String::new(), String::new(), String::new(), String::new(), route]));
    }
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..4).map(width).collect();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            if *width > 0 {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
            }
        }
        line.push_str(&row[4]);
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

fn runs_child(kind: &str) -> bool {
    matches!(
        kind,
        orchestra_graph::kind::MANAGER_LOOP | orchestra_graph::kind::SUBPIPELINE
    )
}

/// Returns the child pipeline of a stage: its file, or the name under which the program registers it.
fn child<'p>(pipeline: &'p Pipeline, stage: Stage<'p>) -> Option<&'p str> {
    if !runs_child(stage.kind()) {
        return None;
    }
    let file = pipeline.child(stage.row()).map(|child| &*child.file);
    file.or_else(|| stage.text(Known::SubpipelineName.name()))
}

fn first_line(text: &str) -> String {
    let mut lines = text.lines();
    let first: String = lines.next().unwrap_or_default().chars().take(48).collect();
    if lines.next().is_some() || first.len() < text.lines().next().unwrap_or_default().len() {
        format!("{first}..")
    } else {
        first
    }
}

fn object(loaded: &Loaded, pipeline: &Pipeline, agents: &ProjectAgents, resolution: &Resolution) -> Value {
    let resolved = resolution.by_node();
    let nodes: Vec<Value> = stages(pipeline)
        .map(|stage| {
            let routes: Vec<Value> = stage
                .edges()
                .map(|(_, edge)| {
                    json!({
                        "to": pipeline.stage(edge.to).id(),
                        "label": pipeline.text(edge.label),
                        "condition": pipeline.condition(edge).map(|condition| condition.text()),
                        "weight": edge.weight,
                    })
                })
                .collect();
            let attributes: serde_json::Map<String, Value> = stage
                .attributes()
                .map(|(name, value)| (name.to_owned(), value.to_value().to_string().into()))
                .collect();
            let target =
                |target: Option<orchestra_graph::NodeIndex>| target.map(|at| pipeline.stage(at).id());
            json!({
                "id": stage.id(),
                "label": stage.label(),
                "handler": stage.kind(),
                "model": stage.text(Known::LlmModel.name()),
                "provider": stage.text(Known::LlmProvider.name()),
                "resolved": resolved.get(stage.id()),
                "child": child(pipeline, stage),
                "line": stage.row().position.line,
                "attributes": attributes,
                "routes": routes,
                "retry_target": target(stage.row().retry_target),
                "fallback_retry_target": target(stage.row().fallback_retry_target),
            })
        })
        .collect();
    json!({
        "schema": "orchestra.compile/1",
        "file": loaded.source.name(),
        "name": pipeline.name,
        "label": pipeline.title(),
        "goal": pipeline.goal(),
        "start": pipeline.stage(pipeline.start).id(),
        "exit": pipeline.stage(pipeline.exit).id(),
        "config": agents.path(),
        "nodes": nodes,
    })
}
