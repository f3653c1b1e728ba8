//! The check that all stages that work on the files of a workspace are executed on one machine.

use orchestra_graph::{Pipeline, Stage, kind};

use crate::error::Refusal;
use crate::handlers::resolved::Handlers;
use crate::setup::resolve::needs_handler;
use crate::setup::settings::EngineSettings;

/// Returns whether runs have files of their own.
pub(super) fn has_files(settings: &EngineSettings) -> bool {
    settings.workspace.is_some() && !settings.run.executes_nothing()
}

/// Returns why hosted runs of a pipeline cannot work on the files of the engine's workspace.
pub(super) fn refuse(settings: &EngineSettings, pipeline: &Pipeline, handlers: &Handlers) -> Option<Refusal> {
    if !has_files(settings) {
        return None;
    }
    let stages = || pipeline.stages().filter(|stage| needs_handler(*stage));
    let refuse = |stage: Stage<'_>, message: String| {
        let position = stage.row().position;
        Some(Refusal::at(pipeline, position, "hosted_workspace", message))
    };
    let runs_children = |stage: &Stage<'_>| {
        handlers
            .handler(*stage)
            .is_some_and(|resolved| resolved.runs_children)
    };
    if let Some(stage) = stages().find(runs_children) {
        let message = format!(
            "node `{}` is a {}, whose run cannot work on the files of this one if another process decides about both; \
             build the engine without a workspace",
            stage.id(),
            kind::title(stage.kind())
        );
        return refuse(stage, message);
    }
    if let Some(stage) = stages().find(|stage| stage.pool().is_none()) {
        let message = format!(
            "node `{}` works on the files of a workspace, which one machine has, but it is in no pool; write `pool=NAME` on \
             the graph, and run the only worker of that pool on the machine with the repositories",
            stage.id()
        );
        return refuse(stage, message);
    }
    let pool = stages().next()?.pool();
    let stage = stages().find(|stage| stage.pool() != pool)?;
    let message = format!(
        "node `{}` is in the pool `{}` and others are in `{}`, but all work on the files of a workspace, which one machine \
         has; write the same pool on all, or only on the graph",
        stage.id(),
        stage.pool().unwrap_or_default(),
        pool.unwrap_or_default()
    );
    refuse(stage, message)
}
