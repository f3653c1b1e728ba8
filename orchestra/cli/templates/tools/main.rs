//! Runs the pipeline of `pipelines/PIPELINE.dot`, which is checked whenever this program is built.

use orchestra::prelude::*;

/// The attributes that every `report` node must have; leave one out and the build fails.
#[derive(Attributes)]
struct ReportAttributes {
    title: String,
}

#[orchestra::handler("report")]
async fn report(attributes: ReportAttributes, stage: StageContext) -> Outcome {
    let last_line = stage.context().text("tool.last_line");
    Outcome::success().set("report", format!("{}: {last_line}", attributes.title))
}

orchestra::pipeline!("pipelines/PIPELINE.dot", handlers = report);

orchestra::main!(PIPELINE);
