//! Tests of pictures as Mermaid.

use orchestra_graph::{Graph, NodeState, PictureOptions, Source, load, print_mermaid};

fn graph(text: &str) -> Graph {
    load(Source::new("a.dot", text), &Default::default()).graph
}

const ALL: &str = r##"digraph all {
    rankdir=LR; label="All & more"; timeout=15m
    start [human.default_choice="x", color=red, image="/etc/passwd"]
    subgraph cluster_loop { label="Loop <A>"
        work [label="a \"quoted\" <b> & c\\d
second", timeout=900s, x.y=3]
        subgraph { inner }
        subgraph deep { label=Deep; gate [shape=hexagon] }
    }
    odd [shape=nonsense]
    start -> work -> gate -> exit [label="Yes; \"go\" | #1", condition="outcome=success", weight=3]
    gate -> work [loop_restart=true, condition_type=failure]
    work -> work
    gate -> exit; gate -> inner; inner -> odd
}"##;

fn stated() -> PictureOptions {
    let states = [
        ("start", NodeState::Done),
        ("work", NodeState::Running),
        ("inner", NodeState::Skipped),
    ];
    PictureOptions {
        states: states
            .into_iter()
            .map(|(id, state)| (id.to_owned(), state))
            .collect(),
        ..PictureOptions::default()
    }
}

#[test]
fn mermaid_shows_boxes_shapes_and_states() {
    insta::assert_snapshot!(print_mermaid(&graph(ALL), &stated()), @r#"
flowchart LR
    n0(["start"])
    n4["odd"]
    n5(["exit"])
    subgraph s0["Loop #60;A#62;"]
        n1["a #34;quoted#34; #60;b#62; #38; c#92;d<br/>second"]
        n2["inner"]
        subgraph s2["Deep"]
            n3{{"gate"}}
        end
    end
    n0 -->|"Yes#59; #34;go#34; #124; #35;1<br/>outcome=success"| n1
    n1 -->|"Yes#59; #34;go#34; #124; #35;1<br/>outcome=success"| n3
    n3 -->|"Yes#59; #34;go#34; #124; #35;1<br/>outcome=success"| n5
    n3 -.->|"failure"| n1
    n1 --> n1
    n3 --> n5
    n3 --> n2
    n2 --> n4
    classDef pending fill:#ffffff,stroke:#9aa4b2,color:#374151
    class n3,n4,n5 pending
    classDef running fill:#dbeafe,stroke:#1d4ed8,color:#172554
    class n1 running
    classDef done fill:#dcf5e5,stroke:#1a7f46,color:#0b3b20
    class n0 done
    classDef skipped fill:#f3f4f6,stroke:#b6bec9,color:#6b7280
    class n2 skipped
"#);
}

#[test]
fn nothing_breaks_on_odd_graphs() {
    let wide = format!(
        "digraph {{ {} }}",
        (0..2_000).map(|n| format!("a -> n{n}; ")).collect::<String>()
    );
    for text in [
        "",
        "digraph {}",
        "digraph { a }",
        "digraph { a -> a; a -> a }",
        &wide,
    ] {
        assert!(print_mermaid(&graph(text), &stated()).starts_with("flowchart TD\n"));
    }
}

#[test]
fn every_kind_of_node_has_its_shape_whether_by_shape_or_by_type() {
    for (kind, shape, marks) in [
        ("codergen", "box", ["[\"", "\"]"]),
        ("wait.human", "hexagon", ["{{\"", "\"}}"]),
        ("conditional", "diamond", ["{\"", "\"}"]),
        ("parallel", "component", ["[[\"", "\"]]"]),
        ("parallel.fan_in", "tripleoctagon", ["{{\"", "\"}}"]),
        ("tool", "parallelogram", ["[/\"", "\"/]"]),
        ("stack.manager_loop", "house", ["[/\"", "\"\\]"]),
        ("subpipeline", "folder", ["[[\"", "\"]]"]),
    ] {
        for attribute in [format!("type=\"{kind}\""), format!("shape={shape}")] {
            let graph = graph(&format!(
                "digraph {{ start -> it -> exit; it [label=It, {attribute}] }}"
            ));
            let mermaid = print_mermaid(&graph, &PictureOptions::default());
            let [open, close] = marks;
            assert!(mermaid.contains(&format!(" n1{open}It{close}\n")), "{mermaid}");
        }
    }
}
