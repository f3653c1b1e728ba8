//! The pipeline that travels with a run, and whether another is the same (rule D6).

use std::sync::Arc;

use orchestra_graph::{LoadOptions, Pipeline, ReadFault, SharedPipeline, Source, Transform, load};

use crate::store::PinnedPipeline;

/// A pipeline as it is kept with a run, and those that its stages run.
pub(crate) fn pin(pipeline: &Pipeline) -> (PinnedPipeline, Vec<PinnedPipeline>) {
    let family = pipeline.family();
    let children = family.into_iter().skip(1).map(PinnedPipeline::of);
    (PinnedPipeline::of(pipeline), children.collect())
}

/// The pipeline that was kept with a run; `None` where its text is not understood any more.
pub(crate) fn pinned(
    pipeline: &PinnedPipeline,
    children: &[PinnedPipeline],
    transforms: &[Arc<dyn Transform>],
) -> Option<SharedPipeline> {
    let read = |path: &str, _: u64| {
        let child = children.iter().find(|child| child.file == path);
        let source = child.map(|child| child.source.as_bytes().to_vec());
        source.ok_or(ReadFault::Missing)
    };
    let options = LoadOptions {
        transforms: transforms.to_vec(),
        children: Some(&read),
        ..LoadOptions::default()
    };
    let source = Source::new(&*pipeline.file, &*pipeline.source);
    load(source, &options).pipeline().map(SharedPipeline::from)
}
