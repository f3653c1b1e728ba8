//! Traces and metrics of replays, through the program.

#![cfg(unix)]

use crate::support::{Scratch, Started};
use crate::telemetry::{call, parents, span, traced};

use std::collections::BTreeMap;

use orchestra_collector_tests::Collector;

#[test]
fn a_replay_exports_only_what_it_executed() {
    let (scratch, before, after) = (
        Scratch::new(),
        Collector::start().unwrap(),
        Collector::start().unwrap(),
    );
    let flow = "digraph p { start -> first -> fan; first [shape=parallelogram, tool_command=true]\n\
        fan [shape=component]; join [shape=tripleoctagon]; fan -> left -> wait -> join; fan -> right -> join; join -> exit\n\
        left [shape=parallelogram, tool_command=true]; right [shape=parallelogram, tool_command=true]\n\
        wait [shape=parallelogram, tool_command=\"echo >> wait; until [ -e go ]; do sleep 0.01; done\"] }";
    scratch.write("p.dot", flow);
    scratch.write("go", "");
    call(&scratch, &before.endpoint(), &["run", "p.dot"]).exits(0);
    std::fs::remove_file(scratch.path("go")).unwrap();
    let original = scratch.runs().remove(0);
    let points = scratch.call(&["checkpoints", "last", "--json"]).exits(0);
    let points = points.objects().remove(0);
    let mut points = points["checkpoints"].as_array().unwrap().iter();
    let point = points.find(|point| point["node"] == "left").unwrap();
    let point = point["checkpoint"].as_str().unwrap();

    // The replay is interrupted and resumed, and its trace covers both processes.
    let replay = ["replay", &original, "--checkpoint", point];
    let replay = Started::from_command(traced(scratch.command(&replay), &after.endpoint())).0;
    scratch.until("the stage waits again", |scratch| scratch.lines("wait") == 2);
    replay.signal("INT");
    replay.end().exits(130);
    let first = after.metrics();
    scratch.write("go", "");
    call(&scratch, &after.endpoint(), &["resume", "last"]).exits(0);

    let spans = after.spans();
    let parents = parents(&spans);
    let root = span(&spans, "invoke_workflow p");
    assert_eq!(parents.get("stage first"), None, "{spans:#?}");
    assert_eq!(parents.get("stage left"), None, "{spans:#?}");
    assert_eq!(parents["stage wait"], "stage fan");
    assert_eq!(parents["stage fan"], "invoke_workflow p");
    assert_eq!(span(&spans, "stage wait").events, ["interrupted"]);
    for span in &spans {
        assert!(root.start <= span.start && span.end <= root.end, "{spans:#?}");
    }
    assert_eq!(
        root.get("orchestra.run.replayed_from"),
        format!("{original} at {point}")
    );
    let other = before.spans();
    assert_eq!(root.links, [span(&other, "invoke_workflow p").id.clone()]);
    let metrics = after.metrics();
    let stages = |node: &str| {
        let name = format!("orchestra.stage.duration{{node={node},outcome=success,pipeline=p}}");
        metrics.get(&name).copied()
    };
    let counted = ["first", "left", "wait"].map(stages);
    assert_eq!(counted, [None, None, Some(1.0)], "{metrics:#?}");
    let active = |metrics: &BTreeMap<String, f64>| metrics["orchestra.runs.active{}"];
    assert_eq!((active(&first), active(&metrics)), (0.0, 0.0));
}
