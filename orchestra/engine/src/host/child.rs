//! The child runs of hosted runs: what a sub-pipeline stage starts, and what follows from the end of its child.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use orchestra_core::{Context, EffectId, Outcome, RunFailure};
use orchestra_graph::{NodeIndex, Stage, kind};
use serde::{Deserialize, Serialize};

use crate::builtin::child::{not_started, timed_out, too_deep};
use crate::builtin::subpipeline::{ChildResult, Keys, no_child};
use crate::child_starter::bind;
use crate::host::{AttemptHost, HostedEnd};
use crate::id::{RunId, fingerprint};
use crate::run::settings::RunSettings;
use crate::run::state::{Origin, Run};
use crate::setup::children::{child_of, descendants, runs_another};
use crate::setup::initial_context::initial_context;

/// A child run to start for a sub-pipeline stage of a hosted run. Made by [`AttemptHost::child`].
///
/// ```
/// use orchestra_engine::HostedChild;
/// fn line(child: &HostedChild) -> String {
///     format!("run {} of `{}`", child.run, child.host.pipeline().name)
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct HostedChild {
    /// The host of the attempts of the child.
    pub host: AttemptHost,
    /// The id of the child. Each execution of an attempt starts the same one.
    pub run: RunId,
    /// The initial context, checked and without secrets.
    pub context: Context,
    /// The seed of all randomness in the child.
    pub seed: u64,
    /// The time after which the stage ends the child.
    pub timeout: Option<Duration>,
}

/// The end of a child run, for [`AttemptHost::child_ended`].
///
/// ```
/// use orchestra_engine::{Context, HostedChildEnd, RunId};
/// let end = HostedChildEnd::new(RunId::new("nightly-7-build-1")?, None, Context::new());
/// assert!(!end.timed_out);
/// # Ok::<(), orchestra_engine::InvalidRunId>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HostedChildEnd {
    /// The id of the child.
    pub run: RunId,
    /// The failure with which it ended or was paused.
    pub failure: Option<RunFailure>,
    /// `true` if it was ended because the stage took too long.
    pub timed_out: bool,
    /// The context of its main path.
    pub context: Context,
    /// The number of stages that ended.
    pub stages: usize,
    /// The time for which it was executed.
    pub duration: Duration,
}

impl HostedChildEnd {
    /// Creates the end of a child that executed nothing.
    pub fn new(run: RunId, failure: Option<RunFailure>, context: Context) -> HostedChildEnd {
        HostedChildEnd {
            run,
            failure,
            timed_out: false,
            context,
            stages: 0,
            duration: Duration::ZERO,
        }
    }
}

impl AttemptHost {
    /// Returns whether a stage runs another pipeline as a [child](AttemptHost::child).
    pub fn is_subpipeline(&self, node: NodeIndex) -> bool {
        let stage = self.pipeline.stage(node);
        let resolved = self.handlers.handler(stage);
        stage.kind() == kind::SUBPIPELINE && resolved.is_some_and(|resolved| resolved.runs_children)
    }

    /// Returns a stage that supervises another pipeline by the built-in handler, which no attempt by itself can do: the names
    /// of its pipeline and of its node. It may be in a pipeline that a sub-pipeline stage runs.
    pub fn manager_loop(&self) -> Option<(String, String)> {
        let (settings, pipeline) = (&self.settings, &self.pipeline);
        let below = descendants(settings, pipeline, &self.registry);
        let own = (pipeline.clone(), self.registry.clone());
        std::iter::once(own)
            .chain(below)
            .find_map(|(pipeline, registry)| {
                let is_manager =
                    |stage: &Stage<'_>| stage.kind() == kind::MANAGER_LOOP && runs_another(*stage, &registry);
                let stage = pipeline.stages().find(is_manager)?;
                Some((pipeline.title().to_owned(), stage.id().to_owned()))
            })
    }

    /// Returns the host of the pipeline that a stage runs.
    ///
    /// # Errors
    /// Returns the outcome of the stage if it has no pipeline, or the engine lacks something that the pipeline needs.
    pub fn child_host(&self, node: NodeIndex) -> Result<AttemptHost, Box<Outcome>> {
        let stage = self.pipeline.stage(node);
        let (pipeline, registry) = child_of(&self.settings, &self.pipeline, &self.registry, stage)
            .ok_or_else(|| Box::new(no_child()))?;
        let bound = bind(&self.settings, pipeline, registry);
        AttemptHost::new(self.settings.clone(), bound, true)
            .map_err(|refusals| Box::new(not_started(&refusals)))
    }

    /// Returns the child run that an attempt of a sub-pipeline stage starts. `seed` is that of the run, and `depth` the
    /// number of runs above the child.
    ///
    /// ```
    /// use orchestra_core::{Context, Effect, Machine};
    /// use orchestra_engine::{Engine, HostedChildEnd, HostedEnd, RunId};
    /// # use orchestra_graph::{LoadOptions, Source, load};
    /// # let child = load(Source::new("b.dot", "digraph build { start -> exit }"), &Default::default());
    /// # let child = child.pipeline().expect("sound");
    /// # let text = "digraph { start -> sub -> exit; sub [shape=folder, \"subpipeline.name\"=build] }";
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let host = Engine::builder().subpipeline("build", child, ()).build()?.host(pipeline, ())?;
    /// let mut effects = Vec::new();
    /// Machine::start(host.pipeline().clone(), Context::new(), 7, &mut effects);
    /// let Some(Effect::RunNode { id, context }) = effects.pop() else { panic!("the first stage is to run") };
    /// assert!(host.is_subpipeline(id.node));
    /// let child = host.child(&RunId::new("nightly")?, 7, 1, &id, &context).expect("it can be started");
    /// assert_eq!(&*child.run, "nightly-sub-1");
    /// let end = HostedChildEnd::new(child.run, None, child.context);
    /// let HostedEnd::Outcome(outcome) = host.child_ended(&RunId::new("nightly")?, &id, &end) else { panic!("it has an outcome") };
    /// assert!(outcome.status.is_success());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the outcome of the stage if the child cannot be started.
    pub fn child(
        &self,
        run: &RunId,
        seed: u64,
        depth: u32,
        id: &EffectId,
        context: &Context,
    ) -> Result<HostedChild, Box<Outcome>> {
        let stage = self.pipeline.stage(id.node);
        let keys = Keys::from_stage(stage).map_err(|reason| Box::new(Outcome::fail_terminal(reason)))?;
        let host = self.child_host(id.node)?;
        if let Some(outcome) = too_deep(depth, &host.pipeline) {
            return Err(Box::new(outcome));
        }
        let given = keys.given(context).context;
        let context = initial_context(&self.settings, &host.pipeline, given, true)
            .map_err(|error| Box::new(not_started(&error)))?;
        let key = id.name(&self.pipeline);
        Ok(HostedChild {
            host,
            run: RunId::of_child(run, &key),
            context,
            seed: fingerprint(&[&seed.to_le_bytes(), key.as_bytes()]),
            timeout: stage.duration("timeout"),
        })
    }

    /// Returns the end of an attempt of a sub-pipeline stage of a run whose child has ended.
    pub fn child_ended(&self, run: &RunId, id: &EffectId, end: &HostedChildEnd) -> HostedEnd {
        let stage = self.pipeline.stage(id.node);
        if let Some(limit) = stage.duration("timeout").filter(|_| end.timed_out) {
            return HostedEnd::Outcome(timed_out(limit));
        }
        let keys = match Keys::from_stage(stage) {
            Ok(keys) => keys,
            Err(reason) => return HostedEnd::Outcome(Outcome::fail_terminal(reason)),
        };
        let child = child_of(&self.settings, &self.pipeline, &self.registry, stage);
        let name = child
            .map(|(child, _)| child.title().to_owned())
            .unwrap_or_default();
        let result = ChildResult {
            run: &end.run,
            failure: end.failure.as_ref(),
            context: &end.context,
            stages: end.stages,
            duration: end.duration,
        };
        let outcome = match keys.end(&name, &result) {
            Ok(outcome) => outcome,
            Err(suspension) => return HostedEnd::Suspended(suspension.into()),
        };
        // The same checks as those of an outcome of a handler.
        let settings = RunSettings {
            callbacks: Arc::new([]),
            interviewer: None,
            runs_dir: None,
            ..(*self.settings.run).clone()
        };
        let (pipeline, origin) = (self.pipeline.clone(), Origin::default());
        let checked = Run::new(pipeline, run.clone(), Arc::new(settings), None, origin, 0);
        let outcome = checked.enforce_contract(id, checked.admit(id, outcome.into()));
        HostedEnd::Outcome(self.without_secrets(outcome))
    }
}

impl fmt::Debug for AttemptHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptHost")
            .field("pipeline", &self.pipeline.name)
            .finish_non_exhaustive()
    }
}
