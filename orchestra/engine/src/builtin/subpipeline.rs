//! Sub-pipelines: another pipeline as one stage (Attractor 9.4).

use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{Context, Outcome, RunFailure};
use orchestra_graph::{KeyOwner, Stage, format_duration, key_pairs};
use serde_json::Value;

use super::child::{self, Child, ChildRun, ChildStarter, cut_short};
use super::output::quoted;
use crate::handlers::handler::{Handler, HandlerFuture};
use crate::id::RunId;
use crate::run::stage::StageContext;
use crate::run::steering::Watched;
use crate::stage_end::{StageEnd, Suspension};

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
    let keys = Keys::from_stage(node).map_err(Outcome::fail_terminal)?;
    let child = children.child_of(stage.pipeline(), node);
    let child = child.ok_or_else(no_child)?;
    let name = child.pipeline.title().to_owned();
    let given = keys.given(stage.context());
    stage.run().warn_of_reserved(stage.id(), &given.reserved);
    if !given.missing.is_empty() {
        stage.log(format!("missing inputs: {}", quoted(&given.missing)));
    }
    let child = Child {
        child,
        context: given.context,
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
    let outcome = match ended {
        Ok(result) => keys.end(
            &name,
            &ChildResult {
                run: &result.run_id,
                failure: result.failure.as_ref(),
                context: &result.context,
                stages: result.path.len(),
                duration: result.duration,
            },
        )?,
        Err(error) => failed(&name, &error),
    };
    Ok(outcome.into())
}

/// Returns the failure of a stage without a pipeline to run.
pub(crate) fn no_child() -> Outcome {
    Outcome::fail_terminal("there is no pipeline to run")
}

fn failed(name: &str, reason: &dyn std::fmt::Display) -> Outcome {
    Outcome::fail(format!("pipeline `{name}` failed: {reason}")).with_code("child_failed")
}

/// The values that a sub-pipeline receives and returns, as pairs of new key and old key.
pub(crate) struct Keys<'s> {
    inputs: Vec<(&'s str, &'s str)>,
    outputs: Vec<(&'s str, &'s str)>,
}

/// The initial context of a child run.
pub(crate) struct Given<'s> {
    pub(crate) context: Context,
    /// The keys of the parent run that do not exist.
    missing: Vec<&'s str>,
    /// The keys of the child run that are reserved for the engine.
    reserved: Vec<String>,
}

/// The result of a child run.
pub(crate) struct ChildResult<'r> {
    pub(crate) run: &'r RunId,
    pub(crate) failure: Option<&'r RunFailure>,
    pub(crate) context: &'r Context,
    /// The number of stages that ended.
    pub(crate) stages: usize,
    pub(crate) duration: Duration,
}

impl<'s> Keys<'s> {
    /// Reads the attributes of a stage.
    ///
    /// # Errors
    /// Returns the reason if they are no lists of keys; another attempt would not help.
    pub(crate) fn from_stage(node: Stage<'s>) -> Result<Keys<'s>, String> {
        let pairs = |name| pairs(node, name);
        Ok(Keys {
            inputs: pairs("subpipeline.inputs")?,
            outputs: pairs("subpipeline.outputs")?,
        })
    }

    /// Returns the initial context of the child.
    pub(crate) fn given(&self, of_parent: &Context) -> Given<'s> {
        let mut given = Given {
            context: Context::new(),
            missing: Vec::new(),
            reserved: Vec::new(),
        };
        for (new, old) in &self.inputs {
            match value(of_parent, old) {
                Some(_) if KeyOwner::of_key(new).is_some() => given.reserved.push((*new).to_owned()),
                Some(value) => given.context.set(*new, value.clone()),
                None => given.missing.push(old),
            }
        }
        given
    }

    /// Returns the outcome of the stage whose child has ended.
    ///
    /// # Errors
    /// The child was paused, and so the stage is suspended.
    pub(crate) fn end(&self, name: &str, result: &ChildResult<'_>) -> Result<Outcome, Suspension> {
        if let Some(suspension) = child::suspension_by(result.run, result.failure) {
            return Err(suspension);
        }
        if let Some(failure) = result.failure {
            return Ok(self.taken(failed(name, failure), result.context).0);
        }
        let (outcome, missing) = self.taken(Outcome::success(), result.context);
        let (stages, took) = (result.stages, format_duration(result.duration));
        let mut notes = format!("Pipeline `{name}` completed: {stages} stages in {took}");
        if !missing.is_empty() {
            notes.push_str(&format!("; missing outputs: {}", quoted(&missing)));
        }
        Ok(outcome.notes(notes))
    }

    /// Copies the outputs that exist into an outcome. Returns the keys of the missing ones as well.
    fn taken(&self, mut outcome: Outcome, context: &Context) -> (Outcome, Vec<&'s str>) {
        let mut missing = Vec::new();
        for (new, old) in &self.outputs {
            match value(context, old) {
                Some(value) => outcome = outcome.set(*new, value.clone()),
                None => missing.push(*old),
            }
        }
        (outcome, missing)
    }
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
