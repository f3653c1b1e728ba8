//! Checks that long lists of attributes, edges and errors are read in linear time.

use std::time::{Duration, Instant};

use orchestra_graph::{LoadOptions, Source, load};

/// Ten times the time on a slow machine. Quadratic time is far above it.
const MOST: Duration = Duration::from_secs(30);

fn read(text: String) -> orchestra_graph::Loaded {
    let began = Instant::now();
    let loaded = load(Source::new("long.dot", text), &LoadOptions::default());
    assert!(began.elapsed() < MOST, "{:?}", began.elapsed());
    loaded
}

fn attributes(count: usize) -> String {
    (0..count)
        .map(|number| format!("tool_env.A{number}=x,"))
        .collect()
}

#[test]
fn a_node_with_50_000_attributes_keeps_each_and_finds_each() {
    let list = attributes(50_000);
    let loaded = read(format!(
        "digraph {{ start -> work -> exit; work [shape=parallelogram, tool_command=x, {list} label=last] }}"
    ));
    let work = loaded.graph.node(loaded.graph.find("work").unwrap());
    assert!(!loaded.report.has_errors());
    assert!(work.attributes.len() > 50_000);
    assert_eq!(
        work.attributes.find("tool_env.A49999").unwrap().value.as_str(),
        Some("x")
    );
    assert!(work.attributes.find("tool_env.A50000").is_none());
}

#[test]
fn defaults_of_50_000_attributes_and_duplicates_are_read() {
    let list = attributes(50_000);
    let loaded = read(format!(
        "digraph {{ node [{list}]; node [{list}]; start -> exit }}"
    ));
    assert!(
        loaded
            .graph
            .node(loaded.graph.find("exit").unwrap())
            .attributes
            .len()
            >= 50_000
    );
    let doubled = format!(
        "digraph {{ start -> work -> exit; work [shape=parallelogram, tool_command=x, {list} {list}] }}"
    );
    let loaded = read(doubled);
    assert!(loaded.report.diagnostics.len() > 100);
}
