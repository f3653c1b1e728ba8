//! W6: parsing and checking of pipelines of 10, 1,000 and 10,000 nodes, compared with a plain scan of the bytes.

use std::fmt::Write as _;
use std::hint::black_box;

use orchestra_benches::measure::{Bench, median};
use orchestra_graph::{LoadOptions, Source, load, parse};

/// Returns a pipeline of `nodes` stages with three edges each, prompts, classes, clusters and a stylesheet.
fn pipeline(nodes: usize) -> String {
    let mut text = String::from(
        "digraph bench {\n    graph [goal=\"Ship the change\", default_max_retries=2, retry_target=\"n0\",\n        \
         model_stylesheet=\"* { llm_model: smart; } .code { llm_model: worker; } #n0 { reasoning_effort: high; }\"]\n    \
         rankdir=LR\n    node [shape=box, timeout=\"900s\"]\n    start [shape=Mdiamond]\n    exit [shape=Msquare]\n",
    );
    for at in 0..nodes {
        if at % 25 == 0 {
            let _ = write!(
                text,
                "    subgraph cluster_{0} {{\n        label=\"Phase {0}\"\n",
                at / 25
            );
        }
        let class = if at % 2 == 0 {
            ", class=\"code,routine\""
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "        n{at} [label=\"Step {at}\", prompt=\"Do step {at} of \\\"$goal\\\".\\nChange only what the notes \
             name, run the tests, and answer with a short summary.\", max_retries={}{class}]",
            at % 5
        );
        if at % 25 == 24 || at + 1 == nodes {
            text.push_str("    }\n");
        }
    }
    text.push_str("    start -> n0\n");
    for at in 0..nodes {
        let next = |step: usize| {
            if at + step < nodes {
                format!("n{}", at + step)
            } else {
                "exit".to_owned()
            }
        };
        let _ = write!(
            text,
            "    n{at} -> {} [label=\"Next\", weight=2]\n    n{at} -> n{} [label=\"[R] Redo\", \
             condition=\"outcome=fail && context.tests_passed!=true\"]\n    n{at} -> {} [label=\"[S] Skip\", \
             condition=\"context.skip=yes\", weight=1]\n",
            next(1),
            at / 2,
            next(3),
        );
    }
    text.push_str("}\n");
    text
}

/// The sizes with the targets in milliseconds.
const SIZES: [(usize, f64); 3] = [(10, 0.05), (1_000, 4.0), (10_000, 45.0)];

pub(crate) fn measure(bench: &mut Bench) {
    if !bench.wants("W6 ") {
        return;
    }
    for (nodes, target) in SIZES {
        let source = Source::new("bench.dot", pipeline(nodes));
        let options = LoadOptions::default();
        let loaded = load(source.clone(), &options);
        assert!(
            !loaded.report.has_errors(),
            "the bench's own pipeline must be sound"
        );
        let scan = median(11, 1_000, || {
            black_box(source.text().bytes().filter(|byte| *byte == b'"').count());
        });
        let parsed = median(11, 1_000, || {
            black_box(parse(&source, &options.limits));
        });
        let checked = median(11, 1_000, || {
            black_box(load(source.clone(), &options));
        });
        bench.record(
            &format!("W6 parse alone of {nodes} nodes"),
            "ms",
            parsed,
            scan,
            None,
        );
        bench.record(&format!("W6 load of {nodes} nodes"), "ms", checked, scan, target);
    }
}
