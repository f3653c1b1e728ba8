//! A program with a compiled pipeline that exits as soon as the first stage begins, for W7. With `--size` it prints its
//! memory first; with `--idle` it prints that and starts no run.

#![allow(
    clippy::exit,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "its start and its memory are measured"
)]

use std::borrow::Cow;
use std::sync::Arc;

use orchestra_engine::{
    Engine, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Registry, StageContext, Words,
};
use orchestra_graph::table::{EdgeRow, NodeRow, Pipeline, Predicates, Role, Rows, Settings, Text, Texts};
use orchestra_graph::{NodeIndex, Position};

const NOWHERE: Position = Position { line: 1, column: 1 };

const fn node(id: Text, kind: u32, role: Role, edges: Rows) -> NodeRow {
    NodeRow {
        id,
        kind,
        role,
        edges,
        position: NOWHERE,
        ..NodeRow::DEFAULT
    }
}

const fn edge(from: u32, to: u32) -> EdgeRow {
    EdgeRow {
        from: NodeIndex(from),
        to: NodeIndex(to),
        position: NOWHERE,
        ..EdgeRow::DEFAULT
    }
}

/// `start -> work -> exit`. The stage `work` has the kind `leave`.
static TINY: Pipeline = Pipeline {
    name: Cow::Borrowed("tiny"),
    file: Cow::Borrowed("tiny.dot"),
    source: Cow::Borrowed(""),
    texts: Texts::new("startworkexitleave", &[0, 5, 9, 13, 18]),
    settings: Settings::DEFAULT,
    start: NodeIndex(0),
    exit: NodeIndex(2),
    kinds: Cow::Borrowed(&[Text(1), Text(4), Text(3)]),
    nodes: Cow::Borrowed(&[
        node(Text(1), 0, Role::Start, Rows { start: 0, end: 1 }),
        node(Text(2), 1, Role::Work, Rows { start: 1, end: 2 }),
        node(Text(3), 2, Role::Exit, Rows { start: 2, end: 2 }),
    ]),
    edges: Cow::Borrowed(&[edge(0, 1), edge(1, 2)]),
    conditions: Cow::Borrowed(&[]),
    keys: Cow::Borrowed(&[]),
    predicates: Predicates::Functions(&[]),
    attributes: Cow::Borrowed(&[]),
    graph_attributes: Rows::NONE,
    children: Cow::Borrowed(&[]),
};

/// A handler that exits the program as soon as a stage starts.
struct Leave;

impl Handler for Leave {
    fn run<'a>(&'a self, _: StageContext) -> HandlerFuture<'a> {
        if std::env::args().any(|argument| argument == "--size") {
            print_size();
        }
        std::process::exit(0)
    }
}

impl HandlerSet for Leave {
    const KINDS: Kinds = Kinds::List(&[]);

    fn register(self, registry: &mut Registry) {
        let spec = KindSpec {
            kind: "leave",
            fields: &[],
            words: Words::Open,
        };
        registry.add(spec, Arc::new(Leave));
    }
}

/// Prints the peak resident memory of this process, in megabytes.
fn print_size() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = most.and_then(|most| most.split_whitespace().next()?.parse::<f64>().ok());
    if let Some(kilobytes) = kilobytes {
        println!("{}", kilobytes / 1_024.0);
    }
}

fn main() {
    if std::env::args().any(|argument| argument == "--idle") {
        return print_size();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let engine = Engine::builder().build().expect("the engine is sound");
        let run = engine.start(&TINY, Leave).await.expect("the run starts");
        let _ = run.wait().await;
    });
}
