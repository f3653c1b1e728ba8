//! The state of a run at an earlier checkpoint, computed from its journal (rule D4).

use std::sync::Arc;

use orchestra_graph::{Mapping, Pipeline, Transform};

use crate::clock::Timestamp;
use crate::driver::recovery::AlreadyEmitted;
use crate::driver::state::Driver;
use crate::engine::Engine;
use crate::error::{Changed, StartError};
use crate::journal::records::Record;
use crate::recovery::folder_state::{FolderState, parsed};
use crate::recovery::fork::fork;
use crate::recovery::lineage::ContextLineage;
use crate::recovery::task::{RecoveryTask, ResumeOptions};
use crate::run::state::Origin;
use crate::setup::pinned_source::load_pinned;
use crate::store::{Checkpoint, RunFolder, StoreError, checkpoint_name};

/// The attempt to carry a run over to another pipeline, see [`RunFolder::carry_over`].
///
/// ```
/// let tried = orchestra_engine::CarryOver::default();
/// assert!(tried.reason.is_none(), "the run goes on");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CarryOver {
    /// The nodes at which the run waits; empty if it has ended.
    pub waits_at: Vec<String>,
    /// The reason why the run cannot go on; `None` if it can.
    pub reason: Option<String>,
}

impl RunFolder {
    /// Returns the state of the run at a checkpoint, which is named like that of a
    /// [replay](crate::Engine::replay): `cp_000012`, or the attempt that had ended, such as `build#2/1`. `transforms` are
    /// those with which the pipeline was loaded. Blocks for as long as it takes to read the journal.
    ///
    /// The run is not changed, and may be executed meanwhile. `checkpoint.json` contains the latest checkpoint that was
    /// worth writing; this method also knows those between.
    ///
    /// ```
    /// use orchestra_engine::{Engine, RunFolder};
    /// # use orchestra_graph::{Source, load};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let folder = directory.path().join("run");
    /// let text = r#"digraph { start -> a -> b -> exit
    ///     a [shape=parallelogram, tool_command="true"]; b [shape=parallelogram, tool_command="true"] }"#;
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let start = Engine::builder().build()?.start(pipeline, ()).run_dir(&folder);
    /// start.await?.wait().await?;
    /// let state = RunFolder::open(&folder)?.state_at("a#1/1", &[])?;
    /// assert_eq!(state.completed_nodes, ["start", "a"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// There is no such checkpoint, or the journal or the stored pipeline cannot be read.
    pub fn state_at(
        &self,
        checkpoint: &str,
        transforms: &[Arc<dyn Transform>],
    ) -> Result<Checkpoint, StartError> {
        let (checkpoint, _) = self.recovered_at(checkpoint, transforms, false)?;
        Ok(checkpoint)
    }

    /// Returns the state of the run at a checkpoint as [`state_at`](RunFolder::state_at), with the stages that wrote the
    /// values of its context, and the edges whose conditions read them.
    ///
    /// # Errors
    /// There is no such checkpoint, or the journal or the stored pipeline cannot be read.
    pub fn context_at(
        &self,
        checkpoint: &str,
        transforms: &[Arc<dyn Transform>],
    ) -> Result<(Checkpoint, ContextLineage), StartError> {
        self.recovered_at(checkpoint, transforms, true)
    }

    fn recovered_at(
        &self,
        checkpoint: &str,
        transforms: &[Arc<dyn Transform>],
        traces_context: bool,
    ) -> Result<(Checkpoint, ContextLineage), StartError> {
        let (mut driver, time) = self.driver_at(checkpoint, transforms, traces_context)?;
        let recovery = driver.recovery.as_mut();
        let mut lineage = recovery
            .and_then(|recovery| recovery.lineage.take())
            .unwrap_or_default();
        let pipeline = driver.run.pipeline.clone();
        lineage.read_conditions(&pipeline);
        let checkpoint = Checkpoint::new(
            &self.manifest().run,
            time,
            &pipeline,
            driver.machine.state(),
            "running",
            None,
        );
        lineage.keep(&checkpoint.context);
        Ok((checkpoint, *lineage))
    }

    /// Creates a driver in the state of the run at a checkpoint. Nothing is changed.
    fn driver_at(
        &self,
        checkpoint: &str,
        transforms: &[Arc<dyn Transform>],
        traces_context: bool,
    ) -> Result<(Box<Driver>, Timestamp), StartError> {
        let fork = fork(self, checkpoint, transforms)?;
        let manifest = fork.manifest;
        let records = (0..).zip(&fork.records);
        let records = records.map(|(number, record)| Ok((number, parsed(self.path(), number, record)?)));
        let records: Vec<(u64, Record)> = records.collect::<Result<_, StoreError>>()?;
        let time = records
            .last()
            .map_or(manifest.started, |(_, record)| Timestamp::from_millis(record.at));
        let Some(pipeline) = load_pinned(&manifest.pipeline, &manifest.children, transforms) else {
            return Err(StartError::Changed(Box::new(Changed {
                run: self.manifest().run.clone(),
                difference: None,
            })));
        };
        let engine = Engine::builder().assemble();
        let settings = engine.resume(self.path(), pipeline.clone(), ()).settings;
        let mut state = FolderState::rehearsed(manifest, records)?;
        // Nobody receives the events.
        state.emitted = AlreadyEmitted {
            records: state.records.len(),
            events: 0,
        };
        let task = RecoveryTask {
            settings,
            pipeline: pipeline.clone(),
            options: ResumeOptions {
                transforms: transforms.to_vec(),
                ..ResumeOptions::default()
            },
            copied_from: Some(self.path().to_owned()),
            rehearses: true,
            traces_context,
        };
        Ok((task.recover(state, Origin::default())?, time))
    }

    /// Tries to carry the last state of the run over to another pipeline, as a resume that accepts changes would do (rule
    /// D6). `transforms` are those with which the run was started. Nothing is changed, and the run may be executed
    /// meanwhile. Blocks for as long as it takes to read the journal.
    ///
    /// ```
    /// use orchestra_engine::{Engine, RunFolder};
    /// # use orchestra_graph::{Source, load};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let folder = directory.path().join("run");
    /// # let of = |text: &str| load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let old = of("digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship] }");
    /// let run = Engine::builder().build()?.start(old, ()).run_dir(&folder).await?;
    /// # while run.questions().is_empty() { tokio::task::yield_now().await }
    /// run.pause("lunch");
    /// run.wait().await?;
    /// let new = of("digraph { start -> work -> exit; work [shape=parallelogram, tool_command=\"true\"] }");
    /// let tried = RunFolder::open(&folder)?.carry_over(&new, &[])?;
    /// assert_eq!(tried.waits_at, ["ask"]);
    /// assert_eq!(tried.reason.as_deref(), Some("the run stands at `ask`, which is gone"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The journal or the stored pipeline cannot be read.
    pub fn carry_over(
        &self,
        pipeline: &Pipeline,
        transforms: &[Arc<dyn Transform>],
    ) -> Result<CarryOver, StartError> {
        let last = self.raw_records()?.len().saturating_sub(1) as u64;
        let (driver, _) = self.driver_at(&checkpoint_name(last), transforms, false)?;
        let old = &driver.run.pipeline;
        let mapping = Mapping::between(old, pipeline);
        let carried = driver.machine.saved().carry_over(old, pipeline, &mapping);
        let pending = driver.machine.pending();
        let mut waits_at: Vec<String> = pending
            .iter()
            .map(|id| old.stage(id.node).id().to_owned())
            .collect();
        waits_at.dedup();
        Ok(CarryOver {
            waits_at,
            reason: carried.err().map(|error| error.to_string()),
        })
    }
}
