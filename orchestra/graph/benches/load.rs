//! W6: measures parsing and checking of pipelines of 10, 1,000 and 10,000 nodes, compared with a plain scan of the
//! bytes.
//!
//! Run with `cargo bench -p orchestra-graph --bench load`. Prints one JSON line per size.

#![allow(clippy::print_stdout)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

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

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..11)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

fn main() {
    for nodes in [10, 1_000, 10_000] {
        let source = Source::new("bench.dot", pipeline(nodes));
        let options = LoadOptions::default();
        let loaded = load(source.clone(), &options);
        assert!(
            !loaded.report.has_errors(),
            "the bench's own pipeline must be sound"
        );
        let bytes = source.text().len();
        let scan = median(|| {
            black_box(source.text().bytes().filter(|byte| *byte == b'"').count());
        });
        let parsed = median(|| {
            black_box(parse(&source, &options.limits));
        });
        let checked = median(|| {
            black_box(load(source.clone(), &options));
        });
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        println!(
            "{{\"workload\":\"W6\",\"nodes\":{nodes},\"edges\":{},\"bytes\":{bytes},\"scan_us\":{:.1},\
             \"parse_us\":{:.1},\"load_us\":{:.1},\"load_bytes_per_second\":{:.0},\"load_us_per_node\":{:.3}}}",
            nodes * 3 + 1,
            micros(scan),
            micros(parsed),
            micros(checked),
            bytes as f64 / checked.as_secs_f64(),
            micros(checked) / nodes as f64,
        );
    }
}
