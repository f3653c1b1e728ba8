//! Pictures as DOT.

use std::io::Write;
use std::process::{Command, Stdio};

use orchestra_graph::{Graph, NodeState, PictureOptions, Source, load};
use orchestra_picture::dot;

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
fn dot_holds_what_a_picture_needs() {
    insta::assert_snapshot!(dot(&graph(ALL), &PictureOptions::default()), @r##"
digraph "all" {
    graph[fontname="Helvetica,Arial,sans-serif" fontsize="13" fontcolor="#6b7280" nodesep="0.4" ranksep="0.5" bgcolor="transparent" pad="0.2" label="All &amp; more" labelloc="t" rankdir="LR"];
    node[fontname="Helvetica,Arial,sans-serif" fontsize="12" penwidth="1.2" margin="0.16,0.08"];
    edge[fontname="Helvetica,Arial,sans-serif" fontsize="10" color="#7b8794" fontcolor="#5b6673" arrowsize="0.7"];
    "start"[label="start" shape="Mdiamond" style="filled" fillcolor="#e3f6ea" color="red" fontcolor="#1f2937"];
    "odd"[label="odd" shape="box" style="rounded,filled" fillcolor="#eaf1ff" color="#4c7bd9" fontcolor="#1f2937"];
    "exit"[label="exit" shape="Msquare" style="filled" fillcolor="#e8ebf0" color="#4b5563" fontcolor="#1f2937"];
    subgraph "cluster_0" {
        graph[label="Loop <A>" style="rounded,filled" color="#c5ccd6" fillcolor="#94a3b81f" fontcolor="#6b7280" labeljust="l" margin="14"];
        "work"[label="a \"quoted\" <b> &amp; c\\d\nsecond" shape="box" style="rounded,filled" fillcolor="#eaf1ff" color="#4c7bd9" fontcolor="#1f2937"];
        "inner"[label="inner" shape="box" style="rounded,filled" fillcolor="#eaf1ff" color="#4c7bd9" fontcolor="#1f2937"];
        subgraph "cluster_2" {
            graph[label="Deep" style="rounded,filled" color="#c5ccd6" fillcolor="#94a3b81f" fontcolor="#6b7280" labeljust="l" margin="14"];
            "gate"[label="gate" shape="hexagon" style="filled" fillcolor="#fff4d6" color="#c98a12" fontcolor="#1f2937"];
        };
    };
    "start" -> "work" [label=" Yes; \"go\" | #1 \n outcome=success "];
    "work" -> "gate" [label=" Yes; \"go\" | #1 \n outcome=success "];
    "gate" -> "exit" [label=" Yes; \"go\" | #1 \n outcome=success "];
    "gate" -> "work" [label=" failure " style="dashed"];
    "work" -> "work";
    "gate" -> "exit";
    "gate" -> "inner";
    "inner" -> "odd";
}
"##);
}

#[test]
fn states_win_over_colours_of_the_file() {
    let text = dot(&graph(ALL), &stated());
    assert!(!text.contains("\"red\"") && text.contains("#dbeafe") && text.contains("filled,dashed"));
    assert!(dot(&graph(ALL), &PictureOptions::default()).contains("color=\"red\""));
}

#[test]
fn graphviz_accepts_it_where_it_is_installed() {
    let hostile = "digraph \"a\\\\\" { a [label=\"\\N &amp; \u{7}\\\\\", style=\"\\\\\"]; subgraph \"cluster\" { b }\n a -> b }";
    let nested = format!(
        "digraph {}x{}",
        "{ subgraph cluster_a ".repeat(100) + "{",
        "}".repeat(101)
    );
    for text in [ALL, hostile, "digraph {}", "", &nested] {
        for options in [PictureOptions::default(), stated()] {
            let mut command = Command::new("dot");
            let command = command
                .arg("-Tplain")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            let Ok(mut child) = command.spawn() else {
                return;
            };
            let text = dot(&graph(text), &options);
            child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.success() && !errors.contains("rror"),
                "{errors}\n{text}"
            );
        }
    }
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
        assert!(dot(&graph(text), &stated()).ends_with("}\n"));
    }
}

#[test]
fn every_kind_of_node_has_its_shape_whether_by_shape_or_by_type() {
    for (kind, shape) in [
        ("codergen", "box"),
        ("wait.human", "hexagon"),
        ("conditional", "diamond"),
        ("parallel", "component"),
        ("parallel.fan_in", "tripleoctagon"),
        ("tool", "parallelogram"),
        ("stack.manager_loop", "house"),
        ("subpipeline", "folder"),
    ] {
        for attribute in [format!("type=\"{kind}\""), format!("shape={shape}")] {
            let graph = graph(&format!(
                "digraph {{ start -> it -> exit; it [label=It, {attribute}] }}"
            ));
            let text = dot(&graph, &PictureOptions::default());
            assert!(
                text.contains(&format!("\"it\"[label=\"It\" shape=\"{shape}\"")),
                "{text}"
            );
        }
    }
}
