//! Large pipelines, for measuring.

use std::fmt::Write as _;

/// A pipeline with that many nodes and about twice as many edges: routing points, tools, model tasks, human gates.
pub fn large(nodes: usize) -> String {
    let mut text =
        "digraph large {\n  goal=\"Build it all\"\n  start [shape=Mdiamond]\n  exit [shape=Msquare]\n"
            .to_owned();
    let last = nodes.saturating_sub(2);
    let id = |at: usize| {
        if at < last {
            format!("stage_{at}")
        } else {
            "exit".to_owned()
        }
    };
    for at in 0..last {
        let attributes = match at % 5 {
            0 => "shape=diamond".to_owned(),
            1 => format!(
                "shape=parallelogram, label=\"Tool {at}\", tool_command=\"cargo test --package p{at}\", timeout=15m"
            ),
            2 => format!(
                "label=\"Stage {at}\", prompt=\"Do the work of stage {at} for $goal, and say what was done\", max_retries=2"
            ),
            3 => format!("shape=hexagon, label=\"Gate {at}\""),
            _ => format!("prompt=\"Write part {at}\", goal_gate=true"),
        };
        let _ = writeln!(text, "  stage_{at} [{attributes}]");
    }
    text.push_str("  start -> stage_0\n");
    for at in 0..last {
        let (next, back, over) = (id(at + 1), id(at.saturating_sub(3)), id(at + 2));
        let _ = match at % 5 {
            0 => writeln!(
                text,
                "  stage_{at} -> {next} [condition=\"outcome=success\"]\n  stage_{at} -> {back} \
                 [condition=\"outcome!=success && context.tries<{}\"]",
                at % 7
            ),
            3 => writeln!(
                text,
                "  stage_{at} -> {next} [label=\"[A] Approve\"]\n  stage_{at} -> {back} [label=\"[F] Fix\"]"
            ),
            _ => writeln!(
                text,
                "  stage_{at} -> {next} [condition=\"outcome=success\"]\n  stage_{at} -> {over} \
                 [condition=\"outcome=fail\", weight=3]"
            ),
        };
    }
    text.push_str("}\n");
    text
}
