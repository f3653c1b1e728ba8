//! The sources of the pipeline that are stored with a run (rule D6).

use std::sync::Arc;

use orchestra_graph::{
    LoadOptions, NodeIndex, Pipeline, ReadError, SharedPipeline, Source, Transform, load, plain_path,
};

use crate::store::PinnedSource;

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
    let source = Source::new(&*pipeline.file, &*pipeline.source);
    load(source, &options).pipeline().map(SharedPipeline::from)
}
