//! Pictures of valid, unusual and hostile graphs.

use std::fmt::Write;
use std::time::{Duration, Instant};

use orchestra_graph::{Graph, NodeState, PictureOptions, Source, load};
use orchestra_picture::{PictureError, best_svg, svg, text};

fn graph(text: &str) -> Graph {
    load(Source::new("a.dot", text), &Default::default()).graph
}

fn drawn(text: &str) -> String {
    let svg = svg(&graph(text), &PictureOptions::default()).unwrap();
    sound(&svg);
    svg
}

/// Asserts that tags are balanced, text is escaped, and numbers are finite.
fn sound(svg: &str) {
    let mut open = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, _) = part.split_once('>').unwrap_or_else(|| panic!("no end: {part}"));
        assert!(tag.matches('"').count() % 2 == 0, "{tag}");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{tag}"),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    let bad = svg.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(bad, None);
}

const SHAPES: &[&str] = &[
    "Mdiamond",
    "Msquare",
    "box",
    "hexagon",
    "diamond",
    "component",
    "tripleoctagon",
    "parallelogram",
    "house",
    "folder",
    "circle",
    "doublecircle",
    "ellipse",
    "octagon",
    "plaintext",
    "nonsense",
];

#[test]
fn every_shape_is_drawn_with_its_edges() {
    let mut text = String::from("digraph {");
    for shape in SHAPES {
        let _ = write!(
            text,
            "{shape} [shape={shape}] {shape} -> {shape} -> box [label=\"to {shape}\"] "
        );
    }
    let svg = drawn(&(text + "}"));
    assert_eq!(svg.matches("data-node=").count(), SHAPES.len());
    assert_eq!(svg.matches("><path").count(), SHAPES.len() * 2);
    assert!(svg.contains(">to house</text>"));
}

#[test]
fn small_and_odd_graphs_have_pictures() {
    for text_of in [
        "",
        "digraph {}",
        "digraph { a }",
        "digraph { a -> a }",
        "digraph { a -> a; a -> a; a -> a }",
        "digraph { a -> b -> c -> a }",
        "digraph { a -> b; a -> b; b -> a }",
        "digraph { a b c }",
        "digraph { subgraph cluster_x {} }",
        "digraph { rankdir=LR subgraph cluster_x { a subgraph cluster_y { b } } a -> b -> a }",
        "digraph { rankdir=BT subgraph { label=\"Only a label\" a } a -> a }",
        "digraph { subgraph cluster_a { a } subgraph cluster_b { b } a -> b; b -> a; a -> a }",
        "digraph { label=\"A title\" a [label=\"\", shape=diamond] }",
    ] {
        drawn(text_of);
        assert!(text(&graph(text_of)).ends_with('\n'));
    }
}

#[test]
fn hostile_text_stays_text() {
    let svg = drawn(
        "digraph \"<&\\\"]]>\" { label=\"</svg><script>\" a [label=\"<script>&\\\" 👩‍👩‍👧\n日本語 \u{0}\u{1b}\u{202e}\u{ffff}\"] \
         subgraph cluster_x { label=\"<b>&\" b } a -> b [label=\"<&\\\">\", condition=\"x=\\\"<y>\\\"\"] }",
    );
    assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;&amp;&quot; 👩‍👩‍👧</text>"));
}

#[test]
fn states_colour_the_nodes() {
    let states = [("a", NodeState::Running), ("b", NodeState::Skipped)];
    let options = PictureOptions {
        states: states
            .into_iter()
            .map(|(id, state)| (id.to_owned(), state))
            .collect(),
        ..PictureOptions::default()
    };
    let svg = svg(&graph("digraph { a -> b -> c }"), &options).unwrap();
    sound(&svg);
    for class in ["node running", "node skipped", "node pending"] {
        assert!(svg.contains(class), "{class}");
    }
    assert!(svg.contains("#dbeafe") && svg.contains("stroke-dasharray"));
}

#[test]
fn the_same_graph_gives_the_same_picture() {
    let text_of =
        "digraph { a -> {} ".replace("{} ", "b -> c; a -> c -> d; d -> a; subgraph cluster_x { c d } }");
    assert_eq!(drawn(&text_of), drawn(&text_of));
}

#[test]
fn edges_end_at_the_border_and_not_in_the_node() {
    let svg = drawn("digraph { a -> b }");
    let y = |after: &str, nth: usize| -> f64 {
        let part = svg.split(after).nth(nth).unwrap();
        let numbers: Vec<f64> = part
            .split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'))
            .filter_map(|number| number.parse().ok())
            .collect();
        numbers[1]
    };
    let (tip, b) = (y("<polygon points=\"", 1), y("translate(", 2));
    assert!((b - tip - 19.0).abs() < 0.5, "{tip} {b}");
}

#[test]
fn a_thousand_nodes_take_a_moment() {
    let mut chain = String::from("digraph { n0");
    let mut net = String::from("digraph {");
    for n in 1..1_000_u64 {
        let _ = write!(chain, " -> n{n}");
        let _ = write!(net, " n{} -> n{n}", n - 1 - (n * 7_919) % n.min(12));
        if n % 4 == 0 {
            let _ = write!(net, " n{n} -> n{}", (n * 104_729) % n);
        }
    }
    for text_of in [chain + "}", net + "}"] {
        let begun = Instant::now();
        drawn(&text_of);
        assert!(text(&graph(&text_of)).contains("n999"));
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }
}

#[test]
fn too_large_a_graph_is_a_typed_error() {
    let mut large = String::from("digraph {");
    for n in 0..5_000 {
        let _ = write!(large, " n{n}");
    }
    let large = graph(&(large + "}"));
    assert!(matches!(
        svg(&large, &PictureOptions::default()),
        Err(PictureError::TooLarge {
            nodes: 5_000,
            edges: 0
        })
    ));
    assert_eq!(text(&large).lines().count(), 5_000);
}

#[test]
fn there_is_a_picture_with_and_without_graphviz() {
    let svg = best_svg(&graph("digraph { start -> exit }"), &PictureOptions::default()).unwrap();
    assert!(svg.contains("</svg>"));
}

#[test]
fn edges_that_lead_back_are_listed_beneath_the_drawing() {
    let text = text(&graph(
        "digraph { start -> work -> check; check -> exit [label=Yes]; check -> work [label=No, loop_restart=true] }",
    ));
    let (drawing, back) = text.split_once("\nBack:\n").unwrap();
    assert!(
        drawing.contains("[check]") && drawing.contains("\"Yes\""),
        "{text}"
    );
    assert_eq!(back, "  check -> work  (No)  (restarts the run)\n");
}

#[test]
fn an_edge_that_was_left_without_an_end_is_not_drawn() {
    let mut torn = graph("digraph { start -> work -> exit }");
    torn.edges[1].to = orchestra_graph::NodeIndex(9);
    let options = PictureOptions::default();
    sound(&svg(&torn, &options).unwrap());
    assert!(text(&torn).contains("[work]"));
    assert!(orchestra_picture::dot(&torn, &options).contains("work"));
    assert!(orchestra_graph::print_mermaid(&torn, &options).contains("work"));
}

#[test]
fn edges_between_the_same_nodes_are_told_apart() {
    let graph = graph("digraph { start -> t; t -> exit [label=Pass]; t -> exit [label=Skip]; t -> t }");
    let scene = orchestra_picture::scene(&graph, &PictureOptions::default()).unwrap();
    let named: Vec<String> = scene
        .edges
        .iter()
        .map(|edge| format!("{} {} {}", edge.from, edge.number, edge.to))
        .collect();
    assert_eq!(named, ["start 0 t", "t 0 exit", "t 1 exit", "t 2 t"]);
    let svg = svg(&graph, &PictureOptions::default()).unwrap();
    for number in 0..3 {
        let edge = format!(
            "data-from=\"t\" data-to=\"{}\" data-number=\"{number}\"",
            ["exit", "exit", "t"][number]
        );
        // The line, and the caption of those that have a label.
        assert_eq!(
            svg.matches(&edge).count(),
            if number < 2 { 2 } else { 1 },
            "{edge}"
        );
    }
}

#[test]
fn a_scene_covers_everything_that_it_contains() {
    let graph = graph(
        "digraph { label=\"A pipeline with a long heading that is wider than its nodes\"
            subgraph cluster_build { label=Build; a -> b }
            start -> a; b -> exit [label=\"a rather long label beside the edge\"]; b -> a }",
    );
    let scene = orchestra_picture::scene(&graph, &PictureOptions::default()).unwrap();
    let inside = |x: f64, y: f64| {
        (scene.x..=scene.x + scene.width).contains(&x) && (scene.y..=scene.y + scene.height).contains(&y)
    };
    for node in &scene.nodes {
        assert!(
            inside(node.x - node.width / 2.0, node.y - node.height / 2.0),
            "{}",
            node.id
        );
        assert!(
            inside(node.x + node.width / 2.0, node.y + node.height / 2.0),
            "{}",
            node.id
        );
    }
    for cluster in &scene.clusters {
        assert!(inside(cluster.x, cluster.y));
        assert!(inside(cluster.x + cluster.width, cluster.y + cluster.height));
    }
    for caption in scene.edges.iter().filter_map(|edge| edge.caption.as_ref()) {
        assert!(inside(caption.x, caption.y));
        assert!(inside(caption.x + caption.width, caption.y + caption.height));
    }
    let heading = scene.heading.as_ref().unwrap();
    assert!(inside(heading.x, heading.y));
    let json = serde_json::to_value(&scene).unwrap();
    assert_eq!(json["nodes"].as_array().unwrap().len(), 4);
    let x = json["nodes"][0]["x"].as_f64().unwrap();
    assert_eq!((x * 10.0).round() / 10.0, x, "rounded to a tenth");
}
