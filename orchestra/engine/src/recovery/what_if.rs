//! A decision of a run, made again with other values.

use std::collections::BTreeMap;
use std::sync::Arc;

use orchestra_graph::condition::{Facts, StageRecords};
use orchestra_graph::{SharedPipeline, Transform, route};
use serde_json::{Map, Value};

use crate::error::{Changed, StartError};
use crate::event::EventKind;
use crate::store::{Checkpoint, RunFolder};

/// The values with which a decision is made again. What is not given is as it was at the checkpoint.
///
/// ```
/// use orchestra_engine::{Engine, EventKind, RunFolder, WhatIf};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let text = r#"digraph { start -> try; try [shape=parallelogram, tool_command=true]
///     try -> exit [condition="outcome=success"]; try -> mend [condition="outcome=fail"]
///     mend [shape=parallelogram, tool_command=true]; mend -> try }"#;
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let folder = directory.path().join("run");
/// Engine::builder().build()?.start(pipeline, ()).run_dir(&folder).await?.wait().await?;
/// let failed = WhatIf { node: "try".to_owned(), outcome: "fail".to_owned(), ..WhatIf::default() };
/// let decision = RunFolder::open(&folder)?.what_if("try#1/1", &failed, &[])?;
/// let EventKind::EdgeSelected { to, .. } = decision else { panic!("{decision:?}") };
/// assert_eq!(to.as_deref(), Some("mend"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct WhatIf {
    /// The node that is left.
    pub node: String,
    /// The outcome of the stage.
    pub outcome: String,
    /// The label that the stage preferred; may be empty.
    pub preferred_label: String,
    /// The reason of its failure; may be empty.
    pub failure_reason: String,
    /// Context values, by their keys with or without `context.`, and `visits.NODE`.
    pub values: BTreeMap<String, Value>,
}

impl RunFolder {
    /// Decides again which edge a run takes, with other values and the state of a checkpoint. Nothing is changed.
    ///
    /// # Errors
    /// The checkpoint is unknown, the records of the run cannot be read, or its pipeline is invalid or has no such node.
    pub fn what_if(
        &self,
        checkpoint: &str,
        what_if: &WhatIf,
        transforms: &[Arc<dyn Transform>],
    ) -> Result<EventKind, StartError> {
        let state = self.state_at(checkpoint, transforms)?;
        let pipeline = self
            .load_pipeline(transforms)
            .pipeline()
            .map(SharedPipeline::from);
        let found = pipeline.and_then(|pipeline| Some((pipeline.find(&what_if.node)?, pipeline)));
        let Some((node, pipeline)) = found else {
            return Err(StartError::Changed(Box::new(Changed {
                run: self.manifest().run.clone(),
                difference: None,
            })));
        };
        let mut context = match serde_json::to_value(&state.context) {
            Ok(Value::Object(context)) => context,
            _ => Map::new(),
        };
        let records = Records {
            state: &state,
            values: &what_if.values,
        };
        for (key, value) in &what_if.values {
            let key = key.strip_prefix("context.").unwrap_or(key);
            context.insert(key.to_owned(), value.clone());
        }
        let facts = Facts {
            outcome: &what_if.outcome,
            preferred_label: &what_if.preferred_label,
            failure_reason: &what_if.failure_reason,
            current_node: &what_if.node,
            last_stage: &what_if.node,
            context: &context,
            output: &context,
            stages: &records,
            ..Facts::default()
        };
        let decision = route(&pipeline, node, &facts);
        Ok(EventKind::from_decision(&pipeline, None, node, decision))
    }
}

/// What a run knew about its stages at a checkpoint, with other numbers of visits.
struct Records<'r> {
    state: &'r Checkpoint,
    values: &'r BTreeMap<String, Value>,
}

impl StageRecords for Records<'_> {
    fn visits(&self, node: &str) -> u32 {
        let given = self.values.get(&format!("visits.{node}"));
        let given = given
            .and_then(Value::as_u64)
            .and_then(|visits| u32::try_from(visits).ok());
        given.unwrap_or_else(|| self.state.node_visits.get(node).copied().unwrap_or(0))
    }

    fn outcome(&self, node: &str) -> Option<&str> {
        let outcome = self.state.node_outcomes.get(node)?;
        Some(outcome.status.word())
    }
}
