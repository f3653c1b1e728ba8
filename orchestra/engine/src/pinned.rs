//! The pipeline that travels with a run, and whether another is the same (rule D6).

use std::sync::Arc;

use orchestra_graph::{LoadOptions, Pipeline, ReadFault, SharedPipeline, Source, Transform, load};
use sha2::{Digest, Sha256};

use crate::store::PinnedPipeline;

/// A number that two pipelines share if runs of them go the same way, in hexadecimal digits.
pub(crate) fn fingerprint(pipeline: &Pipeline) -> String {
    let digest = Sha256::digest(pipeline.canonical().as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A pipeline as it is kept with a run, and those that its stages run.
pub(crate) fn pin(pipeline: &Pipeline) -> (PinnedPipeline, Vec<PinnedPipeline>) {
    let one = |pipeline: &Pipeline| PinnedPipeline {
        file: pipeline.file.to_string(),
        hash: fingerprint(pipeline),
        source: pipeline.source.to_string(),
    };
    let family = pipeline.family();
    (one(pipeline), family.into_iter().skip(1).map(one).collect())
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
