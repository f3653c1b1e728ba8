//! A pipeline in constant data, like one that `pipeline!` generates.

use std::borrow::Cow;

use orchestra_graph::table::{EdgeRow, End, NodeRow, Pipeline, Retry, Role, Rows, Settings};
use orchestra_graph::{NodeIndex, Position};

const NOWHERE: Position = Position { line: 1, column: 1 };

const fn node(id: &'static str, kind: u32, role: Role, edges: (u32, u32)) -> NodeRow {
    NodeRow {
        id: Cow::Borrowed(id),
        kind,
        role,
        end: End::Unstated,
        on_failure_route: false,
        edges: Rows {
            start: edges.0,
            end: edges.1,
        },
        attributes: Rows { start: 0, end: 0 },
        retry_target: None,
        fallback_retry_target: None,
        max_visits: None,
        goal_gate: false,
        goal_condition: None,
        allow_partial: false,
        retry: Retry::ONCE,
        fan_out: None,
        child: None,
        position: NOWHERE,
    }
}

const fn edge(from: u32, to: u32) -> EdgeRow {
    EdgeRow {
        from: NodeIndex(from),
        to: NodeIndex(to),
        label: Cow::Borrowed(""),
        normalized_label: Cow::Borrowed(""),
        condition: None,
        weight: 0,
        loop_restart: false,
        allow_revisit: false,
        max_revisits: None,
        attributes: Rows { start: 0, end: 0 },
        position: NOWHERE,
    }
}

/// `start -> work -> exit`. The stage `work` has the kind `leave`.
pub(crate) static TINY: Pipeline = Pipeline {
    name: Cow::Borrowed("tiny"),
    file: Cow::Borrowed("tiny.dot"),
    source: Cow::Borrowed(""),
    settings: Settings::DEFAULT,
    start: NodeIndex(0),
    exit: NodeIndex(2),
    kinds: Cow::Borrowed(&[
        Cow::Borrowed("start"),
        Cow::Borrowed("leave"),
        Cow::Borrowed("exit"),
    ]),
    nodes: Cow::Borrowed(&[
        node("start", 0, Role::Start, (0, 1)),
        node("work", 1, Role::Work, (1, 2)),
        node("exit", 2, Role::Exit, (2, 2)),
    ]),
    edges: Cow::Borrowed(&[edge(0, 1), edge(1, 2)]),
    conditions: Cow::Borrowed(&[]),
    attributes: Cow::Borrowed(&[]),
    graph_attributes: Rows { start: 0, end: 0 },
    children: Cow::Borrowed(&[]),
};
