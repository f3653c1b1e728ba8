//! Lookup of the handler of every kind. A pipeline that needs something missing is refused.

use std::sync::Arc;

use orchestra_core::SharedPipeline;
use orchestra_graph::{NodeIndex, Pipeline, Role, Stage, kind};

use crate::builtin::child::ChildStarter;
use crate::builtin::manager::ManagerLoop;
use crate::builtin::simulate::{ChildHandler, Simulated};
use crate::builtin::subpipeline::Subpipeline;
use crate::builtin::tool;
use crate::error::{Refusal, Refusals};
use crate::handlers::handler::Handler;
use crate::handlers::registry::Registry;
use crate::handlers::resolved::{Handlers, Resolved};
use crate::handlers::verify::check_registry;
use crate::setup::children;
use crate::setup::settings::EngineSettings;

/// The result of looking up a kind.
enum Found {
    Handler(Resolved),
    /// The kind is a part of the language that this version does not execute.
    NotProvided,
    NoBackend,
    Unknown,
}

/// A pipeline with the handlers of its stages.
pub(crate) struct BoundPipeline {
    pub(crate) pipeline: SharedPipeline,
    /// The handlers of the program.
    pub(crate) registry: Arc<Registry>,
    /// The starter of child runs with these handlers.
    pub(crate) children: Arc<dyn ChildStarter>,
}

/// Finds the handlers of a pipeline. `is_child` is `true` if a stage of another run runs it.
///
/// # Errors
/// Returns a list of everything that is missing.
pub(crate) fn resolve(
    settings: &EngineSettings,
    bound: &BoundPipeline,
    is_child: bool,
) -> Result<Handlers, Refusals> {
    let BoundPipeline {
        pipeline,
        registry,
        children,
    } = bound;
    let found = find_all(settings, pipeline, registry, children);
    let mut list = errors(settings, pipeline, registry, &found);
    let descendants = children::descendants(settings, pipeline, registry);
    for (child, registry) in &descendants {
        list.extend(errors(
            settings,
            child,
            registry,
            &find_all(settings, child, registry, children),
        ));
    }
    // A child run is simulated with the script of its parent run, which names other nodes too.
    if let Some(script) = &settings.run.script
        && !is_child
    {
        let pipelines = || std::iter::once(pipeline).chain(descendants.iter().map(|(child, _)| child));
        for node in script.nodes() {
            if pipelines().any(|pipeline| pipeline.find(node).is_some()) {
                continue;
            }
            let known = pipelines().flat_map(|pipeline| pipeline.stages().map(|stage| stage.id()));
            let near = Refusal::suggest(node, known);
            list.push(Refusal {
                code: "unknown_script_node",
                file: Default::default(),
                position: Default::default(),
                message: format!(
                    "the script names the node `{node}`, which the pipeline does not have{near}"
                ),
            });
        }
    }
    if !list.is_empty() {
        let pipeline = pipeline.name.to_string();
        return Err(Refusals { pipeline, list });
    }
    let handlers = found.into_iter().map(|found| match found {
        Found::Handler(handler) => Some(handler),
        _ => None,
    });
    Ok(Handlers::new(handlers))
}

/// Looks up all kinds of a pipeline.
fn find_all(
    settings: &EngineSettings,
    pipeline: &Pipeline,
    registry: &Registry,
    children: &Arc<dyn ChildStarter>,
) -> Vec<Found> {
    pipeline
        .kinds()
        .map(|kind| find(settings, registry, children, kind))
        .collect()
}

/// Returns the refusals of one pipeline, in the order of its file.
fn errors(
    settings: &EngineSettings,
    pipeline: &SharedPipeline,
    registry: &Arc<Registry>,
    found: &[Found],
) -> Vec<Refusal> {
    let mut list = Vec::new();
    // A compiled pipeline was checked against its handlers when the program was built.
    let loaded = matches!(pipeline, SharedPipeline::Loaded(_)) && settings.run.executes_stages();
    if loaded && registry.kinds().next().is_some() {
        // Missing handlers are reported below, together with other missing parts.
        let errors = check_registry(pipeline, registry).into_iter();
        let others = errors.filter(|error| error.code != "missing_handler");
        list.extend(others.map(|error| Refusal::new(pipeline, error)));
    }
    for (at, row) in pipeline.nodes.iter().enumerate() {
        let stage = pipeline.stage(NodeIndex(at as u32));
        if let Some(found) = found.get(row.kind as usize)
            && needs_handler(stage)
        {
            let found = if lacks_model(settings, registry, stage) {
                &Found::NoBackend
            } else {
                found
            };
            list.extend(refuse(pipeline, registry, stage, found));
            list.extend(children::refuse(settings, pipeline, registry, stage));
            list.extend(lacks_command(settings, pipeline, registry, stage));
        }
    }
    for kind in registry.kinds().filter(|kind| is_the_cores(kind)) {
        list.push(Refusal {
            code: "reserved_kind",
            file: Default::default(),
            position: Default::default(),
            message: format!(
                "a handler of kind `{kind}` would never be called, because the engine itself runs such nodes; \
                 give the handler, and the nodes that need it, a `type` of your own"
            ),
        });
    }
    list.sort_by_key(|refusal| refusal.position);
    list
}

/// Returns whether a stage needs a handler. The core itself decides start, exit and routing nodes of the built-in
/// kinds.
pub(crate) fn needs_handler(stage: Stage<'_>) -> bool {
    match stage.row().role {
        Role::Start => stage.kind() != kind::START,
        Role::Exit => stage.kind() != kind::EXIT,
        Role::Routing => false,
        Role::Work => !is_the_cores(stage.kind()),
    }
}

/// Returns whether the core itself executes nodes of a kind: it asks people and starts branches.
fn is_the_cores(kind: &str) -> bool {
    matches!(kind, kind::WAIT_HUMAN | kind::PARALLEL)
}

/// Returns whether a fan-in asks a model to choose, and there is none (rule P6).
fn lacks_model(settings: &EngineSettings, registry: &Registry, stage: Stage<'_>) -> bool {
    stage.kind() == kind::FAN_IN
        && settings.codergen.is_none()
        && settings.run.script.is_none()
        && registry.get(kind::FAN_IN).is_none()
        && stage.has_prompt()
}

/// Refuses a tool stage that has no command to execute.
fn lacks_command(
    settings: &EngineSettings,
    pipeline: &Pipeline,
    registry: &Registry,
    stage: Stage<'_>,
) -> Option<Refusal> {
    let is_built_in = stage.kind() == kind::TOOL && registry.get(kind::TOOL).is_none();
    let is_simulated = || {
        let script = settings.run.script.as_ref();
        script.is_some_and(|script| script.names(stage.id()))
    };
    if !is_built_in || !settings.run.executes_stages() || tool::command(stage).is_some() || is_simulated() {
        return None;
    }
    let message = format!(
        "node `{}` is a tool, but has no `tool_command` to execute; write the command, or give the node the shape or \
         `type` of what it is",
        stage.id()
    );
    Some(Refusal::at(pipeline, stage.row().position, "no_command", message))
}

/// Looks up a kind. In a simulated run, the handler may be one that replaces that of the kind.
fn find(
    settings: &EngineSettings,
    registry: &Registry,
    children: &Arc<dyn ChildStarter>,
    kind: &str,
) -> Found {
    let executed = || execute(settings, registry, children, kind);
    let Some(script) = &settings.run.script else {
        return executed();
    };
    let own = registry.get(kind);
    let simulated = |own: Option<Arc<dyn Handler>>, heeds_status, ends_itself| {
        let child = match registry.get(kind) {
            None => runner(children, kind),
            Some(_) => None,
        };
        Found::Handler(Resolved {
            runs_children: child.is_some(),
            handler: Arc::new(Simulated {
                script: script.clone(),
                own,
                child: child.map(|handler| ChildHandler {
                    handler,
                    children: children.clone(),
                }),
            }),
            heeds_status,
            ends_itself,
        })
    };
    if script.simulates_models_only() {
        return match executed() {
            // A stage that would ask a model is simulated.
            Found::NoBackend => simulated(None, true, false),
            Found::Handler(found) => simulated(Some(found.handler), found.heeds_status, found.ends_itself),
            missing => missing,
        };
    }
    match own {
        None if !is_provided(kind) => Found::NotProvided,
        // A simulated stage writes no status file, but a handler may.
        own => simulated(own.cloned(), own.is_none(), false),
    }
}

/// Returns whether a kind is custom, or the engine itself executes its stages.
fn is_provided(kind: &str) -> bool {
    !kind::BUILT_IN.contains(&kind)
        || matches!(kind, kind::CODERGEN | kind::TOOL | kind::FAN_IN)
        || children::is_runner(kind)
}

/// Returns the built-in handler of a kind whose stages run other pipelines. Returns `None` for other kinds.
fn runner(children: &Arc<dyn ChildStarter>, kind: &str) -> Option<Arc<dyn Handler>> {
    let children = children.clone();
    match kind {
        kind::MANAGER_LOOP => Some(Arc::new(ManagerLoop { children })),
        kind::SUBPIPELINE => Some(Arc::new(Subpipeline { children })),
        _ => None,
    }
}

/// Returns the handler that executes the stages of a kind if nothing is simulated.
fn execute(
    settings: &EngineSettings,
    registry: &Registry,
    children: &Arc<dyn ChildStarter>,
    kind: &str,
) -> Found {
    let resolved = |handler: &Arc<dyn Handler>, built_in| {
        Found::Handler(Resolved {
            handler: handler.clone(),
            heeds_status: built_in,
            ends_itself: built_in && (kind == kind::TOOL || children::is_runner(kind)),
            runs_children: built_in && children::is_runner(kind),
        })
    };
    if let Some(own) = registry.get(kind) {
        return resolved(own, false);
    }
    match kind {
        kind::CODERGEN => match &settings.codergen {
            Some(codergen) => resolved(codergen, true),
            None => Found::NoBackend,
        },
        kind::TOOL => resolved(&settings.tool, true),
        kind::FAN_IN => resolved(&settings.fan_in, true),
        _ => match runner(children, kind) {
            Some(runner) => resolved(&runner, true),
            None if !is_provided(kind) => Found::NotProvided,
            None => Found::Unknown,
        },
    }
}

fn refuse(pipeline: &Pipeline, registry: &Registry, stage: Stage<'_>, found: &Found) -> Option<Refusal> {
    let (id, kind) = (stage.id(), stage.kind());
    let (code, message) = match found {
        Found::Handler(_) => return None,
        Found::NotProvided => (
            "not_provided",
            format!(
                "node `{id}` is of kind `{kind}`, which this version does not run; \
                 a handler of your own for `{kind}` would"
            ),
        ),
        Found::NoBackend => (
            "no_backend",
            format!(
                "node `{id}` is a model stage, but no model is configured; give the engine a backend \
                 (`Engine::builder().backend(..)`), or simulate the run (`.simulate(..)`, on the command line \
                 `--simulate`)"
            ),
        ),
        Found::Unknown => {
            let kinds = registry.kinds().chain(kind::BUILT_IN.iter().copied());
            let near = Refusal::suggest(kind, kinds);
            (
                "missing_handler",
                format!("node `{id}` is of kind `{kind}`, which has no handler{near}"),
            )
        }
    };
    Some(Refusal::at(pipeline, stage.row().position, code, message))
}
