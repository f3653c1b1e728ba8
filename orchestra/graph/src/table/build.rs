//! The construction of a table from a checked graph.

use std::borrow::Cow;
use std::sync::Arc;

use super::{
    AttributeRow, ConditionRow, Constant, EdgeRow, End, FanOut, NodeRow, Pipeline, Retry, Role, Routing,
    Rows, Settings, Test, Text,
};
use crate::analysis::{Analysis, EdgeCondition};
use crate::attribute::Known;
use crate::attributes::Attributes;
use crate::condition::{Expression, parse_condition};
use crate::joins::Joins;
use crate::kind;
use crate::label::normalize_label;
use crate::lower::class_of;
use crate::model::{Graph, Node};

/// The attribute of the table that holds the class of the subgraph that contains a node.
const SUBGRAPH: &str = "subgraph";

impl Pipeline {
    /// Builds the table of a checked graph, without children. Returns `None` if the graph does not have exactly one
    /// start and one exit, or has an invalid condition; the checks report all of these as errors.
    ///
    /// ```
    /// use orchestra_graph::{LoadOptions, Source, load};
    /// let loaded = load(Source::new("a.dot", "digraph a { start -> work -> exit }"), &LoadOptions::default());
    /// let pipeline = loaded.pipeline().expect("the graph is sound");
    /// assert_eq!(pipeline.stage(pipeline.start).id(), "start");
    /// ```
    pub fn from_analysis(analysis: &Analysis<'_>) -> Option<Pipeline> {
        Builder::new(analysis).build()
    }
}

struct Builder<'a, 'g> {
    analysis: &'a Analysis<'g>,
    rows: Vec<AttributeRow>,
    conditions: Vec<ConditionRow>,
    kinds: Vec<Text>,
}

impl<'a, 'g> Builder<'a, 'g> {
    fn new(analysis: &'a Analysis<'g>) -> Builder<'a, 'g> {
        Builder {
            analysis,
            rows: Vec::new(),
            conditions: Vec::new(),
            kinds: Vec::new(),
        }
    }

    fn build(mut self) -> Option<Pipeline> {
        let graph = self.analysis.graph();
        let source = self.analysis.source();
        let (start, exit) = (self.analysis.start()?, self.analysis.exit()?);
        let attributes = &graph.attributes;
        let graph_attributes = self.attributes(attributes, &[]);
        let mut by_text = std::collections::HashMap::new();
        let mut by_kind = std::collections::HashMap::new();
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        let mut edges = Vec::with_capacity(graph.edges.len());
        let joins = Joins::new(self.analysis);
        let keeps_threads = keeps_threads(graph);
        for (index, node) in graph.indexed_nodes() {
            let first = edges.len() as u32;
            for at in self.analysis.outgoing(index) {
                let edge = graph.edge(*at);
                let condition = match self.analysis.condition(*at) {
                    EdgeCondition::None => None,
                    EdgeCondition::Faulty(..) => return None,
                    EdgeCondition::Parsed(expression) => {
                        Some(self.condition(&mut by_text, condition_text(&edge.attributes), expression))
                    }
                };
                let label = edge.attributes.text(Known::Label).unwrap_or_default();
                edges.push(EdgeRow {
                    from: edge.from,
                    to: edge.to,
                    label: owned(label),
                    normalized_label: owned(&normalize_label(label)),
                    condition,
                    weight: edge.weight(),
                    loop_restart: edge.attributes.flag(Known::LoopRestart),
                    allow_revisit: edge.attributes.flag(Known::AllowRevisit),
                    max_revisits: count(edge.attributes.integer(Known::MaxRevisits)),
                    attributes: self.attributes(&edge.attributes, EDGE_COLUMNS),
                    position: source.position(edge.to_span.start),
                });
            }
            let kind = self.analysis.kind(index);
            let kind_index = *by_kind.entry(kind).or_insert_with(|| {
                self.kinds.push(owned(kind));
                self.kinds.len() - 1
            });
            let target = |known| node.attributes.filled(known).and_then(|id| graph.find(id.trim()));
            let inherited = |known: Known| {
                let own = node.attributes.text(known);
                own.unwrap_or_else(|| attributes.text_or_default(known))
            };
            let goal_condition = match node.attributes.text(Known::GoalGate) {
                Some(text) => {
                    let expression = parse_condition(text).ok()?;
                    Some(self.condition(&mut by_text, text.to_owned(), &expression))
                }
                None => None,
            };
            // The plain edges of a human gate are its answers. A missing answer must not take one, not even as a
            // partial success (rule H3).
            let may_go_on = kind != kind::WAIT_HUMAN;
            nodes.push(NodeRow {
                id: owned(&node.id),
                kind: kind_index as u32,
                role: match kind {
                    _ if index == start => Role::Start,
                    _ if index == exit => Role::Exit,
                    kind::CONDITIONAL => Role::Routing,
                    _ => Role::Work,
                },
                end: match node.attributes.text(Known::End) {
                    Some("fail") => End::Fail,
                    Some("success") => End::Success,
                    _ => End::Unstated,
                },
                on_failure_route: may_go_on && inherited(Known::OnFailure) == "route",
                edges: Rows {
                    start: first,
                    end: edges.len() as u32,
                },
                attributes: self.node_attributes(graph, node, keeps_threads),
                retry_target: target(Known::RetryTarget),
                fallback_retry_target: target(Known::FallbackRetryTarget),
                max_visits: count(node.attributes.integer(Known::MaxVisits)),
                goal_gate: node.attributes.is_goal_gate(),
                goal_condition,
                allow_partial: may_go_on && node.attributes.flag(Known::AllowPartial),
                retry: Retry::new(kind, &node.attributes, attributes),
                fan_out: joins
                    .of(index)
                    .map(|join| FanOut::new(&node.attributes, join, self.analysis.outgoing(index).len())),
                child: None,
                position: source.position(node.span.start),
            });
        }
        let target = |known| attributes.filled(known).and_then(|id| graph.find(id.trim()));
        let number = |known, default| count(attributes.integer(known)).unwrap_or(default);
        let default = Settings::DEFAULT;
        Some(Pipeline {
            name: owned(&graph.name),
            file: owned(source.name()),
            source: owned(source.text()),
            settings: Settings {
                routing: match attributes.text_or_default(Known::Routing) {
                    "first_match" => Routing::FirstMatch,
                    _ => Routing::FiveStep,
                },
                max_node_visits: number(Known::MaxNodeVisits, default.max_node_visits),
                failure_breaker: number(Known::FailureBreaker, default.failure_breaker),
                max_goal_gate_reroutes: number(Known::MaxGoalGateReroutes, default.max_goal_gate_reroutes),
                max_restarts: number(Known::MaxRestarts, default.max_restarts),
                retry_target: target(Known::RetryTarget),
                fallback_retry_target: target(Known::FallbackRetryTarget),
            },
            start,
            exit,
            kinds: Cow::Owned(self.kinds),
            nodes: Cow::Owned(nodes),
            edges: Cow::Owned(edges),
            conditions: Cow::Owned(self.conditions),
            attributes: Cow::Owned(self.rows),
            graph_attributes,
            children: Cow::Owned(Vec::new()),
        })
    }

    /// Adds the attributes of a node. If sessions depend on it, the class of the subgraph that contains the node is one
    /// of them (Attractor 5.4).
    fn node_attributes(&mut self, graph: &Graph, node: &Node, keeps_threads: bool) -> Rows {
        let mut rows = self.attributes(&node.attributes, &[]);
        let class = class_around(graph, node).filter(|_| keeps_threads);
        if let Some(class) = class.filter(|_| node.attributes.find(SUBGRAPH).is_none()) {
            self.rows.push(AttributeRow {
                key: owned(SUBGRAPH),
                value: Constant::String(class.into()),
            });
            let end = self.rows.len() as u32;
            rows = Rows {
                start: if rows == Rows::default() {
                    end - 1
                } else {
                    rows.start
                },
                end,
            };
        }
        rows
    }

    fn attributes(&mut self, attributes: &Attributes, except: &[Known]) -> Rows {
        let start = self.rows.len() as u32;
        let kept = attributes.iter().filter(
            |attribute| !matches!(attribute.key, crate::Key::Known(known) if except.contains(&known)),
        );
        let rows = kept.map(|attribute| AttributeRow {
            key: owned(attribute.key.name()),
            value: Constant::from(&attribute.value),
        });
        self.rows.extend(rows);
        let end = self.rows.len() as u32;
        // Use one representation of an empty range, so that equal tables compare equal.
        if start == end {
            Rows::default()
        } else {
            Rows { start, end }
        }
    }

    fn condition(
        &mut self,
        by_text: &mut std::collections::HashMap<String, u32>,
        text: String,
        expression: &Expression,
    ) -> u32 {
        *by_text.entry(text).or_insert_with_key(|text| {
            self.conditions.push(ConditionRow {
                text: owned(text),
                keys: expression.keys().into_iter().map(owned).collect(),
                needs_failure: expression.needs_failure(),
                test: Test::Tree(Arc::new(expression.clone())),
            });
            self.conditions.len() as u32 - 1
        })
    }
}

/// Returns the text that identifies the condition of an edge.
fn condition_text(attributes: &Attributes) -> String {
    if let Some(text) = attributes.filled(Known::Condition) {
        return text.to_owned();
    }
    let ty = attributes.text(Known::ConditionType).unwrap_or_default();
    let value = attributes
        .text(Known::ConditionValue)
        .filter(|_| ty == "conditional");
    value.map_or_else(
        || format!("condition_type={ty}"),
        |value| format!("condition_value={value}"),
    )
}

/// The edge attributes that are columns of [`EdgeRow`].
const EDGE_COLUMNS: &[Known] = &[
    Known::Label,
    Known::Condition,
    Known::ConditionType,
    Known::ConditionValue,
    Known::Weight,
    Known::LoopRestart,
    Known::AllowRevisit,
    Known::MaxRevisits,
];

fn owned(text: &str) -> Text {
    Cow::Owned(text.to_owned())
}

fn count(number: Option<i64>) -> Option<u32> {
    number.map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// Returns `true` if any stage may continue the conversation of an earlier one (Attractor 5.4).
fn keeps_threads(graph: &Graph) -> bool {
    let full =
        |attributes: &Attributes, known| attributes.text(known).is_some_and(|word| word.trim() == "full");
    full(&graph.attributes, Known::DefaultFidelity)
        || graph
            .nodes
            .iter()
            .any(|node| full(&node.attributes, Known::Fidelity))
        || graph
            .edges
            .iter()
            .any(|edge| full(&edge.attributes, Known::Fidelity))
}

/// Returns the class that a node gets from the innermost subgraph with a label.
fn class_around(graph: &Graph, node: &Node) -> Option<String> {
    let mut at = node.subgraph;
    while let Some(subgraph) = at.and_then(|at| graph.subgraphs.get(at as usize)) {
        let class = subgraph.label.as_deref().map(class_of).unwrap_or_default();
        if !class.is_empty() {
            return Some(class);
        }
        at = subgraph.parent;
    }
    None
}
