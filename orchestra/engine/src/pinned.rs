//! The pipeline that travels with a run, and whether another is the same (rule D6).

use std::sync::Arc;

use orchestra_graph::{
    LoadOptions, NodeIndex, Pipeline, ReadFault, SharedPipeline, Source, Transform, load, plain_path,
};

use crate::store::PinnedPipeline;

/// A pipeline as it is kept with a run, and those that its stages run.
pub(crate) fn pin(pipeline: &Pipeline) -> (PinnedPipeline, Vec<PinnedPipeline>) {
    let family = pipeline.family();
    let children = family.iter().skip(1).map(|child| PinnedPipeline::of(child));
    let prompts = family.iter().flat_map(|pipeline| prompts(pipeline));
    (PinnedPipeline::of(pipeline), children.chain(prompts).collect())
}

/// The files that hold prompts of a pipeline.
fn prompts(pipeline: &Pipeline) -> Vec<PinnedPipeline> {
    let folder = pipeline.file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let nodes = (0..pipeline.nodes.len() as u32).map(|at| pipeline.stage(NodeIndex(at)));
    let named = nodes.filter_map(|stage| {
        let file = stage.text("prompt_file").filter(|file| !file.is_empty())?;
        let path = match folder {
            "" => plain_path(file),
            folder => plain_path(&format!("{folder}/{file}")),
        };
        Some(PinnedPipeline::of_text(path, stage.text("prompt")?))
    });
    named.collect()
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
