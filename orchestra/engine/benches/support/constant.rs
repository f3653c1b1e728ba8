//! A pipeline in constant data, like one that `pipeline!` generates.

use std::borrow::Cow;

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
pub(crate) static TINY: Pipeline = Pipeline {
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
