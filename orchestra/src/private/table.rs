//! Creates the table of a pipeline as constant data.

use std::borrow::Cow;
use std::mem::{forget, replace};
use std::time::Duration;

use orchestra_engine::SourceLocation;
use orchestra_graph::condition::Facts;
use orchestra_graph::table::{
    AttributeRow, Child, ConditionRow, Constant, EdgeRow, End, ErrorPolicy, FanOut, JoinPolicy, NodeRow,
    Pipeline, Retry, Role, Routing, Rows, Settings, SharedPipeline, Test, Text,
};
use orchestra_graph::{NodeIndex, Position};

/// Returns a static text.
pub const fn t(text: &'static str) -> Text {
    Cow::Borrowed(text)
}

/// The sentinel for no index or number; a table never has this many rows.
const NONE: u32 = u32::MAX;

const fn some(index: u32) -> Option<NodeIndex> {
    if index == NONE {
        None
    } else {
        Some(NodeIndex(index))
    }
}

const fn count(number: u32) -> Option<u32> {
    if number == NONE { None } else { Some(number) }
}

// Rows are passed as plain tuples and converted by one call per list: a call or a destructor for each row would cost
// the compiler ten times as much, and more than in proportion to the number of rows.

/// A node: id; kind, role, start and end of its edges, start and end of its attributes, line, column.
pub type Node = (&'static str, [u32; 8]);

/// The unusual properties of a node: its index, the end of a run there (1: failed, 2: succeeded), flags (1: plain edges
/// are followed after a failure, 2: goal gate, 4: partial success is allowed), retry target, fallback retry target,
/// maximum number of visits, child, condition of the goal gate.
pub type NodeMore = (usize, u8, u8, [u32; 5]);

/// The retry policy of a node: its index, attempts, initial delay, backoff factor, maximum delay, jitter. Delays are in
/// milliseconds.
pub type NodeRetry = (usize, u32, u64, f64, u64, bool);

/// The branches of a node: its index, join, join policy (1: count, 2: first success, 3: fraction) with its number,
/// error policy (1: fail fast, 2: ignore), maximum number of parallel branches.
pub type NodeFanOut = (usize, u32, u8, f64, u8, u32);

/// Returns the rows of nodes.
pub const fn nodes<const N: usize>(
    nodes: &[Node; N],
    more: &[NodeMore],
    retries: &[NodeRetry],
    fan_outs: &[NodeFanOut],
) -> [NodeRow; N] {
    const EMPTY: NodeRow = NodeRow {
        id: t(""),
        kind: 0,
        role: Role::Work,
        end: End::Unstated,
        on_failure_route: false,
        edges: Rows { start: 0, end: 0 },
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
        position: Position { line: 0, column: 0 },
    };
    let mut rows = [EMPTY; N];
    let mut at = 0;
    while at < N {
        let (
            id,
            [
                kind,
                role,
                edges,
                edges_end,
                attributes,
                attributes_end,
                line,
                column,
            ],
        ) = nodes[at];
        let row = &mut rows[at];
        forget(replace(&mut row.id, t(id)));
        row.kind = kind;
        row.role = match role {
            0 => Role::Start,
            1 => Role::Exit,
            2 => Role::Routing,
            _ => Role::Work,
        };
        row.edges = Rows {
            start: edges,
            end: edges_end,
        };
        row.attributes = Rows {
            start: attributes,
            end: attributes_end,
        };
        row.position = Position { line, column };
        at += 1;
    }
    at = 0;
    while at < more.len() {
        let (
            number,
            end,
            flags,
            [
                retry_target,
                fallback_retry_target,
                max_visits,
                child,
                goal_condition,
            ],
        ) = more[at];
        let row = &mut rows[number];
        row.end = match end {
            1 => End::Fail,
            2 => End::Success,
            _ => End::Unstated,
        };
        row.on_failure_route = flags & 1 != 0;
        row.goal_gate = flags & 2 != 0;
        row.allow_partial = flags & 4 != 0;
        row.retry_target = some(retry_target);
        row.fallback_retry_target = some(fallback_retry_target);
        row.max_visits = count(max_visits);
        row.child = count(child);
        row.goal_condition = count(goal_condition);
        at += 1;
    }
    at = 0;
    while at < retries.len() {
        let (number, attempts, initial_delay, backoff_factor, max_delay, jitter) = retries[at];
        rows[number].retry = Retry {
            attempts,
            initial_delay: Duration::from_millis(initial_delay),
            backoff_factor,
            max_delay: Duration::from_millis(max_delay),
            jitter,
        };
        at += 1;
    }
    at = 0;
    while at < fan_outs.len() {
        let (number, join, join_policy, needed, error_policy, max_parallel) = fan_outs[at];
        rows[number].fan_out = Some(FanOut {
            join: NodeIndex(join),
            join_policy: match join_policy {
                1 => JoinPolicy::KOfN(needed as u32),
                2 => JoinPolicy::FirstSuccess,
                3 => JoinPolicy::Quorum(needed),
                _ => JoinPolicy::WaitAll,
            },
            error_policy: match error_policy {
                1 => ErrorPolicy::FailFast,
                2 => ErrorPolicy::Ignore,
                _ => ErrorPolicy::Continue,
            },
            max_parallel,
        });
        at += 1;
    }
    rows
}

/// An edge: source, target, condition, line, column.
pub type Edge = [u32; 5];

/// The label of an edge: the index of the edge, the label as written, and the normalized label.
pub type Label = (usize, &'static str, &'static str);

/// The unusual properties of an edge: its index, weight, whether it restarts the run, whether it may lead back and how
/// often, start and end of its attributes.
pub type EdgeMore = (usize, i64, bool, bool, u32, u32, u32);

/// Returns the rows of edges.
pub const fn edges<const N: usize>(edges: &[Edge; N], labels: &[Label], more: &[EdgeMore]) -> [EdgeRow; N] {
    const EMPTY: EdgeRow = EdgeRow {
        from: NodeIndex(0),
        to: NodeIndex(0),
        label: t(""),
        normalized_label: t(""),
        condition: None,
        weight: 0,
        loop_restart: false,
        allow_revisit: false,
        max_revisits: None,
        attributes: Rows { start: 0, end: 0 },
        position: Position { line: 0, column: 0 },
    };
    let mut rows = [EMPTY; N];
    let mut at = 0;
    while at < N {
        let [from, to, condition, line, column] = edges[at];
        let row = &mut rows[at];
        row.from = NodeIndex(from);
        row.to = NodeIndex(to);
        row.condition = count(condition);
        row.position = Position { line, column };
        at += 1;
    }
    at = 0;
    while at < labels.len() {
        let (number, label, normalized) = labels[at];
        forget(replace(&mut rows[number].label, t(label)));
        forget(replace(&mut rows[number].normalized_label, t(normalized)));
        at += 1;
    }
    at = 0;
    while at < more.len() {
        let (number, weight, loop_restart, allow_revisit, max_revisits, start, end) = more[at];
        let row = &mut rows[number];
        row.weight = weight;
        row.loop_restart = loop_restart;
        row.allow_revisit = allow_revisit;
        row.max_revisits = count(max_revisits);
        row.attributes = Rows { start, end };
        at += 1;
    }
    rows
}

/// A value of an attribute.
#[derive(Clone, Copy)]
pub enum V {
    /// Text.
    S(&'static str),
    /// A whole number.
    I(i64),
    /// A decimal number.
    F(f64),
    /// `true` or `false`.
    B(bool),
    /// A duration in milliseconds.
    D(u64),
}

/// An attribute: key and value.
pub type Attribute = (&'static str, V);

/// Returns the rows of attributes.
pub const fn attributes<const N: usize>(attributes: &[Attribute; N]) -> [AttributeRow; N] {
    const EMPTY: AttributeRow = AttributeRow {
        key: t(""),
        value: Constant::Boolean(false),
    };
    let mut rows = [EMPTY; N];
    let mut at = 0;
    while at < N {
        let (key, value) = attributes[at];
        let value = match value {
            V::S(text) => Constant::String(t(text)),
            V::I(number) => Constant::Integer(number),
            V::F(number) => Constant::Float(number),
            V::B(value) => Constant::Boolean(value),
            V::D(millis) => Constant::Duration(Duration::from_millis(millis)),
        };
        forget(replace(&mut rows[at], AttributeRow { key: t(key), value }));
        at += 1;
    }
    rows
}

/// Returns static texts.
pub const fn texts<const N: usize>(texts: &[&'static str; N]) -> [Text; N] {
    const EMPTY: Text = t("");
    let mut rows = [EMPTY; N];
    let mut at = 0;
    while at < N {
        forget(replace(&mut rows[at], t(texts[at])));
        at += 1;
    }
    rows
}

/// A condition: its text, start and end of the keys that it reads, whether it can hold only after a failure, and its
/// test.
pub type Condition = (&'static str, usize, usize, bool, fn(&Facts<'_>) -> bool);

/// Returns the rows of conditions.
pub const fn conditions<const N: usize>(
    conditions: &[Condition; N],
    keys: &'static [Text],
) -> [ConditionRow; N] {
    const EMPTY: ConditionRow = ConditionRow {
        text: t(""),
        keys: Cow::Borrowed(&[]),
        needs_failure: false,
        test: Test::Closure(|_| false),
    };
    let mut rows = [EMPTY; N];
    let mut at = 0;
    while at < N {
        let (text, start, end, needs_failure, test) = conditions[at];
        let row = ConditionRow {
            text: t(text),
            keys: Cow::Borrowed(keys.split_at(end).0.split_at(start).1),
            needs_failure,
            test: Test::Closure(test),
        };
        forget(replace(&mut rows[at], row));
        at += 1;
    }
    rows
}

/// Creates a pipeline.
#[allow(clippy::too_many_arguments)]
pub const fn pipeline(
    name: &'static str,
    file: &'static str,
    source: &'static str,
    settings: Settings,
    start: u32,
    exit: u32,
    kinds: &'static [Text],
    nodes: &'static [NodeRow],
    edges: &'static [EdgeRow],
    conditions: &'static [ConditionRow],
    attributes: &'static [AttributeRow],
    graph_attributes: u32,
    graph_attributes_end: u32,
    children: &'static [Child],
) -> Pipeline {
    Pipeline {
        name: t(name),
        file: t(file),
        source: t(source),
        settings,
        start: NodeIndex(start),
        exit: NodeIndex(exit),
        kinds: Cow::Borrowed(kinds),
        nodes: Cow::Borrowed(nodes),
        edges: Cow::Borrowed(edges),
        conditions: Cow::Borrowed(conditions),
        attributes: Cow::Borrowed(attributes),
        graph_attributes: Rows {
            start: graph_attributes,
            end: graph_attributes_end,
        },
        children: Cow::Borrowed(children),
    }
}

/// Creates the settings of a pipeline: whether the first match routes; maximum number of visits of a node, failure
/// breaker, maximum number of goal gate reroutes and of restarts, retry target, fallback retry target.
pub const fn settings(first_match: bool, numbers: [u32; 6]) -> Settings {
    let [
        max_node_visits,
        failure_breaker,
        max_goal_gate_reroutes,
        max_restarts,
        retry_target,
        fallback,
    ] = numbers;
    Settings {
        routing: if first_match {
            Routing::FirstMatch
        } else {
            Routing::FiveStep
        },
        max_node_visits,
        failure_breaker,
        max_goal_gate_reroutes,
        max_restarts,
        retry_target: some(retry_target),
        fallback_retry_target: some(fallback),
    }
}

/// Creates the row of a child pipeline.
pub const fn child(file: &'static str, pipeline: &'static Pipeline) -> Child {
    Child {
        file: t(file),
        pipeline: SharedPipeline::Static(pipeline),
    }
}

/// Creates a position in the text.
pub const fn at(line: u32, column: u32, offset: u32, length: u32) -> SourceLocation {
    SourceLocation {
        line,
        column,
        offset,
        length,
    }
}
