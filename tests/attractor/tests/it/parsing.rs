//! Attractor 11.1: reading the language.

use orchestra::graph::{Edge, Graph, Known, Node};
use orchestra_attractor_tests::{loaded, problems};

/// The graph of a text that has no errors.
fn graph(text: &str) -> Graph {
    let loaded = loaded(text);
    assert_eq!(problems(&loaded), [""; 0], "{text}");
    loaded.graph
}

fn node<'g>(graph: &'g Graph, id: &str) -> &'g Node {
    graph.node(graph.find(id).unwrap())
}

/// The edges, each as `from -> to`.
fn edges(graph: &Graph) -> Vec<String> {
    let id = |node| &graph.node(node).id;
    let edge = |edge: &Edge| format!("{} -> {}", id(edge.from), id(edge.to));
    graph.edges.iter().map(edge).collect()
}

#[test]
fn a_digraph_with_blocks_of_attributes_is_read() {
    let graph = graph(
        r#"digraph release {
            graph [goal="Ship it"]
            node [shape=box, timeout=15m]
            edge [weight=2]
            start [shape=Mdiamond]; done [shape=Msquare]
            start -> build -> done
        }"#,
    );
    assert_eq!(
        (&*graph.name, graph.goal(), graph.nodes.len()),
        ("release", "Ship it", 3)
    );
    assert_eq!(edges(&graph), ["start -> build", "build -> done"]);
    let build = node(&graph, "build");
    assert_eq!(build.attributes.duration(Known::Timeout).unwrap().as_secs(), 900);
    assert_eq!(graph.edges[0].attributes.integer(Known::Weight), Some(2));
}

#[test]
fn attributes_of_the_graph_are_extracted() {
    let graph = graph(
        r#"digraph t { graph [goal="Ship it", label="The release", model_stylesheet="* { model: small }"]
            start -> work -> exit }"#,
    );
    assert_eq!((graph.goal(), graph.title()), ("Ship it", "The release"));
    assert_eq!(
        graph.attributes.text(Known::ModelStylesheet),
        Some("* { model: small }")
    );
}

#[test]
fn attribute_blocks_of_nodes_may_go_over_lines() {
    let graph = graph(
        "digraph t { start -> work -> exit
            work [
                label = \"Do the work\",

                prompt = \"First this,\nthen that\",
                max_retries = 2
            ]
        }",
    );
    let work = node(&graph, "work");
    assert_eq!(work.label(), "Do the work");
    assert_eq!(
        work.attributes.text(Known::Prompt),
        Some("First this,\nthen that")
    );
    assert_eq!(work.attributes.integer(Known::MaxRetries), Some(2));
}

#[test]
fn attributes_of_edges_are_read() {
    let graph = graph(
        r#"digraph t { start -> work
            work -> exit [label="[S] Ship", condition="outcome=success", weight=7]
            work -> work [label=Again, condition="outcome=fail", weight=-1] }"#,
    );
    let shown = |edge: &Edge| {
        let attributes = &edge.attributes;
        (
            attributes.text(Known::Label).unwrap_or_default().to_owned(),
            attributes.text(Known::Condition).unwrap_or_default().to_owned(),
            attributes.integer(Known::Weight),
        )
    };
    assert_eq!(
        shown(&graph.edges[1]),
        ("[S] Ship".into(), "outcome=success".into(), Some(7))
    );
    assert_eq!(
        shown(&graph.edges[2]),
        ("Again".into(), "outcome=fail".into(), Some(-1))
    );
}

#[test]
fn a_chain_is_an_edge_for_each_pair_with_its_attributes() {
    let graph = graph("digraph t { start -> a -> b -> exit [weight=3] }");
    assert_eq!(edges(&graph), ["start -> a", "a -> b", "b -> exit"]);
    for edge in &graph.edges {
        assert_eq!(edge.attributes.integer(Known::Weight), Some(3));
    }
}

#[test]
fn default_blocks_hold_for_what_is_declared_after_them() {
    let graph = graph(
        "digraph t { before [prompt=Before]
            node [max_retries=2]; after [prompt=After]; own [prompt=Own, max_retries=5]
            start -> before -> after; edge [weight=4]; after -> own -> exit }",
    );
    let retries = |id: &str| node(&graph, id).attributes.integer(Known::MaxRetries);
    assert_eq!(
        (retries("before"), retries("after"), retries("own")),
        (None, Some(2), Some(5))
    );
    let weights = graph
        .edges
        .iter()
        .map(|edge| edge.attributes.integer(Known::Weight));
    assert_eq!(weights.collect::<Vec<_>>(), [None, None, Some(4), Some(4)]);
}

#[test]
fn a_subgraph_is_flattened_and_its_contents_are_kept() {
    let graph = graph(
        r#"digraph t { start -> plan
            subgraph cluster_loop { label="Loop A"; node [timeout=900s]
                plan -> work [label=Go]; work [prompt=Work] }
            work -> exit }"#,
    );
    assert_eq!(edges(&graph), ["start -> plan", "plan -> work", "work -> exit"]);
    let work = node(&graph, "work");
    assert_eq!(work.attributes.duration(Known::Timeout).unwrap().as_secs(), 900);
    assert!(graph.find("cluster_loop").is_none());
    assert_eq!(node(&graph, "exit").attributes.duration(Known::Timeout), None);
}

#[test]
fn a_class_brings_the_attributes_of_the_stylesheet() {
    let graph = graph(
        r#"digraph t { model_stylesheet="* { llm_model: small } .deep { llm_model: large; reasoning_effort: high }"
            start -> plan -> work -> exit; plan [prompt=Plan, class="deep,careful"]; work [prompt=Work] }"#,
    );
    let of = |id: &str, known| node(&graph, id).attributes.text(known).unwrap_or_default();
    assert_eq!(
        (of("plan", Known::LlmModel), of("plan", Known::ReasoningEffort)),
        ("large", "high")
    );
    assert_eq!(
        (of("work", Known::LlmModel), of("work", Known::ReasoningEffort)),
        ("small", "")
    );
}

#[test]
fn values_stand_with_and_without_quotes() {
    let graph = graph(
        r#"digraph t { start -> a -> b -> exit
            a [label=Plain, prompt=Word, max_retries=3, goal_gate=true, timeout=250ms]
            b [label="Plain", prompt="Word", max_retries="3", goal_gate="true", timeout="250ms"] }"#,
    );
    let values = |id: &str| {
        let attributes = &node(&graph, id).attributes;
        (
            node(&graph, id).label().to_owned(),
            attributes.text(Known::Prompt).map(str::to_owned),
            attributes.integer(Known::MaxRetries),
            attributes.flag(Known::GoalGate),
            attributes.duration(Known::Timeout),
        )
    };
    assert_eq!(values("a"), values("b"));
    assert_eq!(values("a").2, Some(3));
}

#[test]
fn comments_are_left_out_but_not_in_texts() {
    let graph = graph(
        r#"// first
        digraph t { /* start -> nowhere */ start -> work // -> nowhere
            /* over
               lines */ work -> exit
            work [prompt="See https://example.org /* and */ mind // the gap"] }"#,
    );
    assert_eq!(edges(&graph), ["start -> work", "work -> exit"]);
    let prompt = node(&graph, "work").attributes.text(Known::Prompt);
    assert_eq!(prompt, Some("See https://example.org /* and */ mind // the gap"));
}
