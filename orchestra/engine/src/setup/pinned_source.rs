//! The sources of the pipeline that are stored with a run (rule D6).

use std::sync::Arc;

use orchestra_graph::{
    LoadOptions, Loaded, NodeIndex, Pipeline, ReadError, SharedPipeline, Source, Transform, load, plain_path,
};

use serde::{Deserialize, Serialize};

use crate::store::{PinnedSource, RunFolder};

/// The sources of a pipeline as a run began with them: those of the pipeline itself, of its child pipelines and of its
/// files with prompts and schemas (rule D6). A process with another version of the pipeline can go on with the run from them.
///
/// ```
/// use orchestra_engine::PinnedPipeline;
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> build -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let pinned = PinnedPipeline::from_pipeline(&pipeline);
/// assert!(pinned.is_of(&pipeline));
/// assert_eq!(pinned.load(&[]).expect("the source is valid").nodes.len(), 3);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PinnedPipeline {
    /// The source of the pipeline.
    pub pipeline: PinnedSource,
    /// The sources of its child pipelines, without duplicates, and of the files that contain prompts and schemas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<PinnedSource>,
}

impl PinnedPipeline {
    /// Pins a pipeline.
    pub fn from_pipeline(pipeline: &Pipeline) -> PinnedPipeline {
        let (pipeline, children) = pin(pipeline);
        PinnedPipeline { pipeline, children }
    }

    /// Returns whether the relevant content is that of a pipeline.
    pub fn is_of(&self, pipeline: &Pipeline) -> bool {
        let other = PinnedPipeline::from_pipeline(pipeline);
        let same =
            |one: &PinnedSource, other: &PinnedSource| one.file == other.file && one.hash == other.hash;
        self.pipeline.hash == other.pipeline.hash
            && self.children.len() == other.children.len()
            && std::iter::zip(&self.children, &other.children).all(|(one, other)| same(one, other))
    }

    /// Loads the pipeline. Returns `None` if its source is no longer valid.
    pub fn load(&self, transforms: &[Arc<dyn Transform>]) -> Option<SharedPipeline> {
        load_pinned(&self.pipeline, &self.children, transforms)
    }

    /// Loads the table of the pipeline also if a check rejects it, so that the state of a run can be carried over from it
    /// to another pipeline. Nothing must execute it. Returns `None` if the source cannot be understood any more, or would
    /// have another meaning.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use orchestra_engine::PinnedPipeline;
    /// # use orchestra_graph::{Diagnostic, Graph, Source, Transform, load};
    /// # let text = "digraph { start -> build -> exit }";
    /// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let pinned = PinnedPipeline::from_pipeline(&pipeline);
    /// let forbid: Arc<dyn Transform> = Arc::new(Forbid);
    /// # struct Forbid;
    /// # impl Transform for Forbid {
    /// #     fn name(&self) -> &str { "forbid" }
    /// #     fn apply(&self, graph: Graph, diagnostics: &mut Vec<Diagnostic>) -> Graph {
    /// #         diagnostics.push(Diagnostic::error("forbidden", "no builds", Default::default()));
    /// #         graph
    /// #     }
    /// # }
    /// assert!(pinned.load(&[forbid.clone()]).is_none());
    /// assert_eq!(pinned.load_unchecked(&[forbid]).expect("it can be read").nodes.len(), 3);
    /// ```
    pub fn load_unchecked(&self, transforms: &[Arc<dyn Transform>]) -> Option<SharedPipeline> {
        let loaded = load_sources(&self.pipeline, &self.children, transforms);
        let pipeline = Pipeline::from_analysis(&loaded.analysis())?;
        let is_same = PinnedSource::from_pipeline(&pipeline).hash == self.pipeline.hash;
        is_same.then(|| SharedPipeline::from(pipeline))
    }
}

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

/// Returns the files with prompts and schemas of a pipeline.
fn prompts(pipeline: &Pipeline) -> Vec<PinnedSource> {
    /// The attributes that name files, each with the attribute that holds the content.
    const FILES: [(&str, &str); 2] = [("prompt_file", "prompt"), ("output_schema_file", "output_schema")];
    let folder = pipeline.file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let nodes = (0..pipeline.nodes.len() as u32).map(|at| pipeline.stage(NodeIndex(at)));
    let named = nodes.flat_map(|stage| FILES.map(|(file, text)| (stage, file, text)));
    let named = named.filter_map(|(stage, file, text)| {
        let file = stage.text(file).filter(|file| !file.is_empty())?;
        let path = match folder {
            "" => plain_path(file),
            folder => plain_path(&format!("{folder}/{file}")),
        };
        Some(PinnedSource::of_text(path, stage.text(text)?))
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
