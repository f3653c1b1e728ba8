//! The state of a run at an earlier checkpoint, computed from its journal (rule D4).

use std::sync::Arc;

use orchestra_graph::Transform;

use crate::clock::Timestamp;
use crate::driver::recovery::AlreadyEmitted;
use crate::engine::Engine;
use crate::error::{Changed, StartError};
use crate::journal::records::Record;
use crate::recovery::folder_state::{FolderState, parsed};
use crate::recovery::fork::fork;
use crate::recovery::lineage::ContextLineage;
use crate::recovery::task::{RecoveryTask, ResumeOptions};
use crate::run::state::Origin;
use crate::setup::pinned_source::load_pinned;
use crate::store::{Checkpoint, RunFolder, StoreError};

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
        let mut driver = task.recover(state, Origin::default())?;
        let recovery = driver.recovery.as_mut();
        let mut lineage = recovery
            .and_then(|recovery| recovery.lineage.take())
            .unwrap_or_default();
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
}
