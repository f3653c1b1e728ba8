//! Runs the pipeline of `pipelines/PIPELINE.dot`, which is checked whenever this program is built.

orchestra::pipeline!("pipelines/PIPELINE.dot");

orchestra::main!(PIPELINE);
