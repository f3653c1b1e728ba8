//! Which stage wrote a context value, and which conditions read it.

use std::collections::BTreeMap;

use orchestra_core::{Context, Observation};
use orchestra_graph::Pipeline;
use serde::Serialize;

/// Which stages wrote the values of a context, and which edges read them.
///
/// ```
/// use orchestra_engine::{Engine, RunFolder};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let folder = directory.path().join("run");
/// let text = r#"digraph { start -> build; build [shape=parallelogram, tool_command="true"]
///     build -> exit [condition="context.tool.exit_code=0"]; build -> exit }"#;
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// Engine::builder().build()?.start(pipeline, ()).run_dir(&folder).await?.wait().await?;
/// let (_, lineage) = RunFolder::open(&folder)?.context_at("build#1/1", &[])?;
/// assert_eq!(lineage.writers["tool.exit_code"].node, "build");
/// assert_eq!((&*lineage.readers["tool.exit_code"][0].from, lineage.readers.len()), ("build", 1));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ContextLineage {
    /// The attempt that wrote each value last, by the key. A value without a writer was there when the run began, was
    /// set by the engine, or was written before the pipeline was changed.
    pub writers: BTreeMap<String, ContextWriter>,
    /// The edges whose conditions read a value, by the key, in the order of the file.
    pub readers: BTreeMap<String, Vec<ContextReader>>,
}

/// The attempt that wrote a context value.
///
/// ```
/// use orchestra_engine::ContextLineage;
/// let lineage = ContextLineage::default();
/// let stages: Vec<String> = lineage.writers.values().map(|writer| writer.node.clone()).collect();
/// assert!(stages.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ContextWriter {
    /// The node.
    pub node: String,
    /// The visit of the node, from 1.
    pub visit: u32,
    /// The attempt of the visit, from 1.
    pub attempt: u32,
}

/// An edge whose condition reads a context value.
///
/// ```
/// use orchestra_engine::ContextLineage;
/// let lineage = ContextLineage::default();
/// assert!(lineage.readers.values().flatten().all(|reader| !reader.condition.is_empty()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ContextReader {
    /// The node that the edge leaves.
    pub from: String,
    /// The node to which the edge leads.
    pub to: String,
    /// The condition, as written.
    pub condition: String,
}

impl ContextLineage {
    /// Notes the values that an ended stage of the main path wrote. Branches write to copies of the context.
    pub(crate) fn observe(&mut self, observation: &Observation, pipeline: &Pipeline) {
        let (Observation::StageCompleted { id, outcome, .. }
        | Observation::StageFailed {
            id,
            outcome,
            will_retry: false,
            ..
        }) = observation
        else {
            return;
        };
        if !id.branch.is_empty() {
            return;
        }
        for key in outcome.context_updates.keys() {
            let writer = ContextWriter {
                node: pipeline.stage(id.node).id().to_owned(),
                visit: id.visit,
                attempt: id.attempt,
            };
            self.writers.insert(key.clone(), writer);
        }
    }

    /// Removes what is about keys that the context does not have.
    pub(super) fn keep(&mut self, context: &Context) {
        self.writers.retain(|key, _| context.get(key).is_some());
        self.readers.retain(|key, _| context.get(key).is_some());
    }

    /// Notes the edges whose conditions read values.
    pub(super) fn read_conditions(&mut self, pipeline: &Pipeline) {
        for edge in pipeline.edges.iter() {
            let Some(condition) = pipeline.condition(edge) else {
                continue;
            };
            for key in condition.keys() {
                let reader = ContextReader {
                    from: pipeline.stage(edge.from).id().to_owned(),
                    to: pipeline.stage(edge.to).id().to_owned(),
                    condition: condition.text().to_owned(),
                };
                let name = key.strip_prefix("context.").unwrap_or(key);
                let readers = self.readers.entry(name.to_owned()).or_default();
                if !readers.contains(&reader) {
                    readers.push(reader);
                }
            }
        }
    }
}
