//! Sub-pipelines: another pipeline as one stage (Attractor 9.4).

use std::sync::Arc;

use orchestra_core::{Context, Outcome};
use orchestra_graph::{KeyOwner, Stage, format_duration, key_pairs};
use serde_json::Value;

use super::child::{self, Child, ChildRun, ChildStarter, cut_short};
use super::output::quoted;
use crate::handlers::handler::{Handler, HandlerFuture};
use crate::result::RunResult;
use crate::run::stage::StageContext;
use crate::run::steering::Watched;
use crate::stage_end::StageEnd;

pub(crate) struct Subpipeline {
    pub(crate) children: Arc<dyn ChildStarter>,
}

impl Handler for Subpipeline {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            let children = self.children.clone();
            run(&stage, children).await.unwrap_or_else(|end| end)
        })
    }
}

async fn run(stage: &StageContext, children: Arc<dyn ChildStarter>) -> Result<StageEnd, StageEnd> {
    let node = stage.node();
    let inputs = pairs(node, "subpipeline.inputs").map_err(Outcome::fail_terminal)?;
    let outputs = pairs(node, "subpipeline.outputs").map_err(Outcome::fail_terminal)?;
    let child = children.child_of(stage.pipeline(), node);
    let child = child.ok_or_else(|| Outcome::fail_terminal("there is no pipeline to run"))?;
    let name = child.pipeline.title().to_owned();
    let child = Child {
        child,
        context: given(stage, &inputs),
        working_dir: child::working_dir(stage),
        watched: Watched::No,
    };
    let mut cut = std::pin::pin!(cut_short(stage));
    let mut child = ChildRun::new(stage, child.start(stage).await?);
    stage.log(format!("runs pipeline `{name}` as run {}", child.run.id));
    let ended = tokio::select! {
        biased;
        cut = &mut cut => return Ok(cut.outcome(&mut child).await.into()),
        ended = child.ended() => ended,
    };
    Ok(match (ended, &name) {
        (Ok(result), name) if result.is_success() => succeeded(name, &result, &outputs).into(),
        (ended, name) => failed(name, &ended, &outputs),
    })
}

/// Parses an attribute as pairs of new key and old key.
fn pairs<'s>(node: Stage<'s>, name: &str) -> Result<Vec<(&'s str, &'s str)>, String> {
    let text = node.text(name).unwrap_or_default();
    key_pairs(text).ok_or_else(|| {
        let text = text.escape_debug();
        format!("`{name}` is not a list of keys or pairs of keys such as `a,b=c`: `{text}`")
    })
}

/// Returns the value of a key, which may have the prefix `context.` as in conditions (rule C3).
fn value<'c>(context: &'c Context, key: &str) -> Option<&'c Value> {
    let plain = || key.strip_prefix("context.").and_then(|key| context.get(key));
    context.get(key).or_else(plain)
}

/// Returns the initial context of the child. Logs missing inputs.
fn given(stage: &StageContext, inputs: &[(&str, &str)]) -> Context {
    let mut context = Context::new();
    let mut missing = Vec::new();
    let mut reserved = Vec::new();
    for (new, old) in inputs {
        match value(stage.context(), old) {
            Some(_) if KeyOwner::of_key(new).is_some() => reserved.push((*new).to_owned()),
            Some(value) => context.set(*new, value.clone()),
            None => missing.push(*old),
        }
    }
    stage.run().warn_of_reserved(stage.id(), &reserved);
    if !missing.is_empty() {
        stage.log(format!("missing inputs: {}", quoted(&missing)));
    }
    context
}

/// Copies the outputs that exist into an outcome. Returns the keys of the missing ones as well.
fn taken<'k>(
    mut outcome: Outcome,
    result: &RunResult,
    outputs: &[(&str, &'k str)],
) -> (Outcome, Vec<&'k str>) {
    let mut missing = Vec::new();
    for (new, old) in outputs {
        match value(&result.context, old) {
            Some(value) => outcome = outcome.set(*new, value.clone()),
            None => missing.push(*old),
        }
    }
    (outcome, missing)
}

fn succeeded(name: &str, result: &RunResult, outputs: &[(&str, &str)]) -> Outcome {
    let (outcome, missing) = taken(Outcome::success(), result, outputs);
    let (stages, took) = (result.path.len(), format_duration(result.duration));
    let mut notes = format!("Pipeline `{name}` completed: {stages} stages in {took}");
    if !missing.is_empty() {
        notes.push_str(&format!("; missing outputs: {}", quoted(&missing)));
    }
    outcome.notes(notes)
}

fn failed(name: &str, ended: &child::Ended, outputs: &[(&str, &str)]) -> StageEnd {
    if let Some(suspension) = child::suspension(ended) {
        return suspension.into();
    }
    let reason = child::failure(ended).unwrap_or_default();
    let outcome = Outcome::fail(format!("pipeline `{name}` failed: {reason}")).with_code("child_failed");
    match ended {
        Ok(result) => taken(outcome, result, outputs).0.into(),
        Err(_) => outcome.into(),
    }
}
