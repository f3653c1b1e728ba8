//! The sources of the pipeline that are stored with a run (rule D6).

use std::sync::Arc;

use orchestra_graph::{
    LoadOptions, Loaded, NodeIndex, Pipeline, ReadError, SharedPipeline, Source, Transform, load, plain_path,
};

use crate::store::{PinnedSource, RunFolder};

/// Returns the source of a pipeline, and the sources of its child pipelines and prompts, to be stored with a run.
pub(crate) fn pin(pipeline: &Pipeline) -> (PinnedSource, Vec<PinnedSource>) {
    let family = pipeline.family();
    let children = family
        .iter()
        .skip(1)
        .map(|child| PinnedSource::from_pipeline(child));
    let prompts = family.iter().flat_map(|pipeline| prompts(pipeline));
    (
        PinnedSource::from_pipeline(pipeline),
        children.chain(prompts).collect(),
    )
}

/// Returns the prompt files of a pipeline.
fn prompts(pipeline: &Pipeline) -> Vec<PinnedSource> {
    let folder = pipeline.file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let nodes = (0..pipeline.nodes.len() as u32).map(|at| pipeline.stage(NodeIndex(at)));
    let named = nodes.filter_map(|stage| {
        let file = stage.text("prompt_file").filter(|file| !file.is_empty())?;
        let path = match folder {
            "" => plain_path(file),
            folder => plain_path(&format!("{folder}/{file}")),
        };
        Some(PinnedSource::of_text(path, stage.text("prompt")?))
    });
    named.collect()
}

/// Loads the pipeline that was stored with a run. Returns `None` if its source is no longer valid.
pub(crate) fn load_pinned(
    pipeline: &PinnedSource,
    children: &[PinnedSource],
    transforms: &[Arc<dyn Transform>],
) -> Option<SharedPipeline> {
    load_sources(pipeline, children, transforms)
        .pipeline()
        .map(SharedPipeline::from)
}

fn load_sources(
    pipeline: &PinnedSource,
    children: &[PinnedSource],
    transforms: &[Arc<dyn Transform>],
) -> Loaded {
    let read = |path: &str, _: u64| {
        let child = children.iter().find(|child| child.file == path);
        let source = child.map(|child| child.source.as_bytes().to_vec());
        source.ok_or(ReadError::Missing)
    };
    let options = LoadOptions {
        transforms: transforms.to_vec(),
        children: Some(&read),
        ..LoadOptions::default()
    };
    load(Source::new(&*pipeline.file, &*pipeline.source), &options)
}

impl RunFolder {
    /// Loads the pipeline from the sources that are stored with the run, with the transforms of the program that runs
    /// it.
    ///
    /// ```
    /// use orchestra_engine::{Engine, RunFolder};
    /// # use orchestra_graph::{Source, load};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let pipeline = load(Source::new("a.dot", "digraph { start -> exit }"), &Default::default()).pipeline().expect("sound");
    /// let folder = directory.path().join("run");
    /// let engine = Engine::builder().build()?;
    /// engine.start(pipeline, ()).run_dir(&folder).await?.wait().await?;
    /// let loaded = RunFolder::open(&folder)?.load_pipeline(&[]);
    /// assert_eq!(loaded.graph.nodes.len(), 2);
    /// # Ok(()) }
    /// ```
    pub fn load_pipeline(&self, transforms: &[Arc<dyn Transform>]) -> Loaded {
        let manifest = self.manifest();
        load_sources(&manifest.pipeline, &manifest.children, transforms)
    }
}
