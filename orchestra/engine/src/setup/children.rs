//! The child pipelines of a pipeline: their lookup, and the check that there is one where a stage needs it.

use std::sync::Arc;

use orchestra_core::{ManagerPlan, SharedPipeline};
use orchestra_graph::table::Constant;
use orchestra_graph::{Known, Pipeline, Stage, kind};

use crate::error::Refusal;
use crate::handlers::registry::Registry;
use crate::setup::settings::EngineSettings;

/// Returns whether the stages of a built-in kind run other pipelines.
pub(crate) fn is_runner(kind: &str) -> bool {
    matches!(kind, kind::MANAGER_LOOP | kind::SUBPIPELINE)
}

/// Returns whether a stage runs another pipeline by the built-in handler.
pub(crate) fn runs_another(stage: Stage<'_>, registry: &Registry) -> bool {
    is_runner(stage.kind()) && registry.get(stage.kind()).is_none()
}

/// Returns the pipeline that a stage runs, and its handlers. A file takes precedence over a registered pipeline.
pub(crate) fn child_of(
    settings: &EngineSettings,
    pipeline: &Pipeline,
    registry: &Arc<Registry>,
    stage: Stage<'_>,
) -> Option<(SharedPipeline, Arc<Registry>)> {
    if let Some(child) = pipeline.child(stage.row()) {
        return Some((child.pipeline.clone(), registry.clone()));
    }
    if stage.kind() != kind::SUBPIPELINE {
        return None;
    }
    settings
        .subpipelines
        .get(stage.text("subpipeline.name")?)
        .cloned()
}

/// Returns the pipelines that a pipeline runs as child runs, directly or indirectly, without duplicates.
pub(crate) fn descendants(
    settings: &EngineSettings,
    pipeline: &SharedPipeline,
    registry: &Arc<Registry>,
) -> Vec<(SharedPipeline, Arc<Registry>)> {
    if !pipeline.kinds().any(is_runner) {
        return Vec::new();
    }
    let address = |pipeline: &SharedPipeline| std::ptr::from_ref::<Pipeline>(pipeline);
    let mut found: Vec<(SharedPipeline, Arc<Registry>)> = Vec::new();
    let mut ahead = vec![(pipeline.clone(), registry.clone())];
    while let Some((of, registry)) = ahead.pop() {
        for stage in stages(&of).filter(|stage| runs_another(*stage, &registry)) {
            let Some(child) = child_of(settings, &of, &registry, stage) else {
                continue;
            };
            let known = |other: &SharedPipeline| std::ptr::eq(address(other), address(&child.0));
            if !known(pipeline) && !found.iter().any(|(other, _)| known(other)) {
                found.push(child.clone());
                ahead.push(child);
            }
        }
    }
    found
}

/// Returns all stages of a pipeline, in the order of the file.
pub(crate) fn stages(pipeline: &Pipeline) -> impl Iterator<Item = Stage<'_>> {
    (0..pipeline.nodes.len() as u32).map(|at| pipeline.stage(orchestra_graph::NodeIndex(at)))
}

/// Returns the reason for which a stage cannot run another pipeline. Returns `None` if it can, or if it is simulated
/// without one.
pub(crate) fn refuse(
    settings: &EngineSettings,
    pipeline: &Pipeline,
    registry: &Arc<Registry>,
    stage: Stage<'_>,
) -> Option<Refusal> {
    if !runs_another(stage, registry) {
        return None;
    }
    let id = stage.id();
    let there = child_of(settings, pipeline, registry, stage).is_some();
    let (code, message) = if !there && settings.run.executes_stages() {
        ("missing_child", missing(settings, pipeline, stage))
    } else if stage.kind() == kind::MANAGER_LOOP
        && settings.run.executes_stages()
        && !autostarts(pipeline, stage)
    {
        (
            "not_provided",
            format!(
                "node `{id}` says `stack.child_autostart=false`, but nothing else starts a child that it could \
                 supervise; leave the attribute out"
            ),
        )
    } else if stage.kind() == kind::MANAGER_LOOP
        && let Err(error) = ManagerPlan::from_stage(stage)
    {
        (
            "attribute_value",
            format!("node `{id}` cannot supervise: {error}"),
        )
    } else {
        return None;
    };
    Some(Refusal::at(pipeline, stage.row().position, code, message))
}

/// Returns the error message for a stage without a child pipeline.
fn missing(settings: &EngineSettings, pipeline: &Pipeline, stage: Stage<'_>) -> String {
    let id = stage.id();
    let attribute = match stage.kind() {
        kind::MANAGER_LOOP => "stack.child_dotfile",
        _ => "subpipeline.file",
    };
    if let Some(file) = text_of(pipeline, stage, attribute) {
        return format!(
            "node `{id}` runs the pipeline `{file}` (`{attribute}`), which was not loaded with its parent; give the \
             loader a reader of such files (`LoadOptions::children`)"
        );
    }
    match text_of(pipeline, stage, "subpipeline.name") {
        Some(name) if stage.kind() == kind::SUBPIPELINE => {
            let near = Refusal::suggest(name, settings.subpipelines.keys().map(String::as_str));
            format!(
                "node `{id}` runs the pipeline `{name}`, which the engine does not know; register it by \
                 `Engine::builder().subpipeline(..)`{near}"
            )
        }
        _ => format!(
            "node `{id}` runs another pipeline, but does not say which; name its file by `{attribute}`"
        ),
    }
}

/// Returns a non-empty text attribute of the node, else of the graph.
fn text_of<'p>(pipeline: &'p Pipeline, stage: Stage<'p>, name: &str) -> Option<&'p str> {
    let graph = || pipeline.attribute(name).and_then(Constant::text);
    stage.text(name).or_else(graph).filter(|text| !text.is_empty())
}

/// Returns whether a manager loop starts its child. The attribute of the node overrides that of the graph.
fn autostarts(pipeline: &Pipeline, stage: Stage<'_>) -> bool {
    const NAME: &str = "stack.child_autostart";
    let value = stage.attribute(NAME).or(pipeline.attribute(NAME));
    value.map_or(Known::ChildAutostart.default_flag(), |value| {
        value != Constant::Boolean(false)
    })
}
