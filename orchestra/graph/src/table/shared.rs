//! A pipeline that many runs share, and the pipelines that a pipeline itself runs.

use std::ops::Deref;
use std::sync::Arc;

use super::{Pipeline, Text};

/// A pipeline that many runs share: either constant data of the program, or loaded.
///
/// ```
/// use orchestra_graph::{SharedPipeline, Source, load};
/// let text = "digraph { start -> build -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let shared = SharedPipeline::from(pipeline);
/// assert_eq!(shared.clone().nodes.as_ptr(), shared.nodes.as_ptr(), "nothing was copied");
/// ```
#[derive(Clone, Debug)]
pub enum SharedPipeline {
    /// Constant data of the program.
    Static(&'static Pipeline),
    /// Loaded at run time.
    Loaded(Arc<Pipeline>),
}

impl Deref for SharedPipeline {
    type Target = Pipeline;

    fn deref(&self) -> &Pipeline {
        match self {
            SharedPipeline::Static(pipeline) => pipeline,
            SharedPipeline::Loaded(pipeline) => pipeline,
        }
    }
}

impl From<&'static Pipeline> for SharedPipeline {
    fn from(pipeline: &'static Pipeline) -> SharedPipeline {
        SharedPipeline::Static(pipeline)
    }
}

impl From<Pipeline> for SharedPipeline {
    fn from(pipeline: Pipeline) -> SharedPipeline {
        SharedPipeline::Loaded(Arc::new(pipeline))
    }
}

impl From<Arc<Pipeline>> for SharedPipeline {
    fn from(pipeline: Arc<Pipeline>) -> SharedPipeline {
        SharedPipeline::Loaded(pipeline)
    }
}

/// A pipeline that a stage runs: the child of a manager loop, or a sub-pipeline (Attractor 4.11, 9.4).
///
/// ```
/// use orchestra_graph::table::Child;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> build -> exit }";
/// let pipeline = load(Source::new("build.dot", text), &Default::default()).pipeline().expect("sound");
/// let child = Child { file: "build.dot".into(), pipeline: pipeline.into() };
/// assert_eq!(child.pipeline.file, "build.dot");
/// ```
#[derive(Clone, Debug)]
pub struct Child {
    /// The file of the child, as the parent writes it.
    pub file: Text,
    /// The pipeline.
    pub pipeline: SharedPipeline,
}

impl Pipeline {
    /// Returns this pipeline and all pipelines that its stages run, each once, parents before their children.
    ///
    /// ```
    /// use orchestra_graph::table::Child;
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { start -> build -> exit }";
    /// let child = load(Source::new("child.dot", text), &Default::default()).pipeline().expect("sound");
    /// let mut parent = load(Source::new("parent.dot", text), &Default::default()).pipeline().expect("sound");
    /// parent.children.to_mut().push(Child { file: "child.dot".into(), pipeline: child.into() });
    /// let files: Vec<&str> = parent.family().iter().map(|pipeline| &*pipeline.file).collect();
    /// assert_eq!(files, ["parent.dot", "child.dot"]);
    /// ```
    pub fn family(&self) -> Vec<&Pipeline> {
        let mut family = vec![self];
        let mut at = 0;
        while let Some(parent) = family.get(at).copied() {
            for child in parent.children.iter() {
                let child: &Pipeline = &child.pipeline;
                // Several parents may share a child.
                if !family.iter().any(|known| std::ptr::eq(*known, child)) {
                    family.push(child);
                }
            }
            at += 1;
        }
        family
    }
}
