//! Tests of the mapping of nodes and edges of an old pipeline to a new one.

use orchestra_graph::{EdgeIndex, Mapping, NodeIndex, Pipeline};

use super::{Edits, FLOW, edited, of_text};

#[test]
fn nodes_are_found_by_their_ids() {
    let old = of_text(FLOW);
    let new = edited(&[
        ("    build [", "    early [prompt=E]; early -> build\n    build ["),
        ("start -> build", "start -> early; start -> build"),
        ("old_lint", "lint"),
    ]);
    let mapping = Mapping::between(&old, &new);
    for stage in old.stages() {
        let found = mapping.node(stage.index());
        assert_eq!(found, new.find(stage.id()), "{}", stage.id());
        assert_eq!(found.is_none(), stage.id() == "old_lint");
    }
    assert_eq!(mapping.node(NodeIndex(99)), None);
    assert_eq!(
        (mapping.nodes(), mapping.edges()),
        (new.nodes.len(), new.edges.len())
    );
    assert!(!mapping.is_identity());
    assert!(Mapping::between(&old, &of_text(FLOW)).is_identity());
    assert!(
        !Mapping::between(
            &of_text("digraph { start -> exit }"),
            &of_text("digraph { exit; start -> exit }")
        )
        .is_identity()
    );
}

#[test]
fn edges_are_found_by_their_ends_and_by_what_they_say() {
    let shown = |old: &str, new: &str| -> String {
        let gate = |edges: &str| {
            of_text(&format!(
                "digraph {{ start -> ask; ask [shape=hexagon, label=A]; start -> a; start -> b; a [label=A]; a -> exit; b [label=B]; b -> exit\n {edges} }}"
            ))
        };
        let (old, new) = (gate(old), gate(new));
        let mapping = Mapping::between(&old, &new);
        let index = |pipeline: &Pipeline, at: EdgeIndex| {
            let ask = pipeline.find("ask").expect("declared");
            pipeline.stage(ask).edges().position(|(edge, _)| edge == at)
        };
        let ask = old.find("ask").expect("declared");
        let found = old.stage(ask).edges().map(|(at, _)| {
            let now = mapping.edge(at).and_then(|at| index(&new, at));
            now.map_or("-".to_owned(), |at| at.to_string())
        });
        found.collect::<Vec<_>>().join(" ")
    };
    // Edges to different targets, in another order.
    assert_eq!(shown("ask -> a; ask -> b", "ask -> b; ask -> a"), "1 0");
    assert_eq!(
        shown("ask -> a [label=X]; ask -> b", "ask -> b; ask -> a [label=Y]"),
        "1 0"
    );
    assert_eq!(shown("ask -> a; ask -> b", "ask -> b"), "- 0");
    // Parallel edges by label and condition, then by either, then by order.
    assert_eq!(
        shown(
            "ask -> a [label=X]; ask -> a [label=Y]; ask -> b",
            "ask -> a [label=Y]; ask -> b; ask -> a [label=X]"
        ),
        "2 0 1"
    );
    assert_eq!(
        shown(
            "ask -> a [label=X]; ask -> a [label=Y]; ask -> b",
            "ask -> a [label=Z]; ask -> b; ask -> a [label=\"[X] x\"]"
        ),
        "2 0 1"
    );
    assert_eq!(
        shown(
            "ask -> a [condition=\"context.x=1\"]; ask -> a; ask -> b",
            "ask -> a; ask -> a [label=N, condition=\"context.x = 1\"]; ask -> b"
        ),
        "1 0 2"
    );
    assert_eq!(
        shown(
            "ask -> a [label=X]; ask -> a [label=Y]",
            "ask -> a [label=P]; ask -> a [label=Q]"
        ),
        "0 1"
    );
    assert_eq!(
        shown("ask -> a [label=X]; ask -> a [label=Y]", "ask -> a [label=Y]"),
        "- 0"
    );
}

#[test]
fn a_node_that_became_something_else_to_the_flow_has_another_shape() {
    let old = of_text(FLOW);
    let shape = |id: &str, changes: Edits<'_>| {
        let mapping = Mapping::between(&old, &edited(changes));
        let at = old.find(id).expect("declared");
        (mapping.same_shape(at), mapping.same_join(at))
    };
    let same = (true, true);
    assert_eq!(
        shape(
            "build",
            &[("prompt=\"Build.\"", "shape=parallelogram, tool_command=make")]
        ),
        same
    );
    assert_eq!(
        shape(
            "fan",
            &[("[shape=component]", "[shape=component, max_parallel=1]")]
        ),
        same
    );
    assert_eq!(shape("ask", &[("Ship?", "Go?")]), same);
    assert_eq!(shape("old_lint", &[("old_lint", "lint")]), (false, false));
    assert_eq!(
        shape("right", &[("prompt=R", "shape=hexagon, label=R")]),
        (false, true)
    );
    assert_eq!(shape("ask", &[("shape=hexagon, ", "")]), (false, true));
    assert_eq!(
        shape(
            "build",
            &[(
                "prompt=\"Build.\", max_retries=2, goal_gate=true",
                "shape=diamond"
            )]
        ),
        (false, true)
    );
    let plain = [
        ("fan [shape=component]", "fan [label=F]"),
        ("join [shape=tripleoctagon]", "join [label=J]"),
    ];
    assert_eq!(shape("fan", &plain), (false, false));
    let moved = [
        ("join [shape=tripleoctagon]", "join [label=J]"),
        ("ask -> ship", "meet [shape=tripleoctagon]; ask -> ship"),
        ("join -> ask", "join -> meet -> ask"),
    ];
    assert_eq!(shape("fan", &moved), (true, false));
    assert!(!Mapping::between(&old, &old).same_shape(NodeIndex(99)));
}
