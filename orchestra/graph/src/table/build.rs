//! The construction of a table from a checked graph.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{
    AttributeRow, ConditionRow, Constant, EdgeRow, End, FanOut, NodeRow, Pipeline, Predicates, Retry, Role,
    Routing, Rows, Settings, Text, Texts,
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
/// The length from which equal values are one text, in bytes. A look-up costs more than a copy of a short text.
const LONG: usize = 256;

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

/// The builder of a table: a list for each type of row, and the texts that the rows refer to.
struct Builder<'a, 'g> {
    analysis: &'a Analysis<'g>,
    texts: Texts,
    /// The texts that many rows share: names of attributes, context keys, and long values.
    shared: HashMap<String, Text>,
    rows: Vec<AttributeRow>,
    conditions: Vec<ConditionRow>,
    known_conditions: HashMap<String, u32>,
    keys: Vec<Text>,
    expressions: Vec<Expression>,
    kinds: Vec<Text>,
}

impl<'a, 'g> Builder<'a, 'g> {
    fn new(analysis: &'a Analysis<'g>) -> Builder<'a, 'g> {
        Builder {
            analysis,
            texts: Texts::EMPTY,
            shared: HashMap::new(),
            rows: Vec::new(),
            conditions: Vec::new(),
            known_conditions: HashMap::new(),
            keys: Vec::new(),
            expressions: Vec::new(),
            kinds: Vec::new(),
        }
    }

    fn build(mut self) -> Option<Pipeline> {
        let graph = self.analysis.graph();
        let source = self.analysis.source();
        let (start, exit) = (self.analysis.start()?, self.analysis.exit()?);
        let attributes = &graph.attributes;
        let graph_attributes = self.attributes(attributes, &[]);
        let mut by_kind = HashMap::new();
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        let mut edges = Vec::with_capacity(graph.edges.len());
        let joins = Joins::new(self.analysis);
        let keeps_threads = keeps_threads(graph);
        let mut edges_to = vec![0; graph.nodes.len()];
        for (index, node) in graph.indexed_nodes() {
            let first = edges.len() as u32;
            for at in self.analysis.outgoing(index) {
                let edge = graph.edge(*at);
                let condition = match self.analysis.condition(*at) {
                    EdgeCondition::None => None,
                    EdgeCondition::Invalid(..) => return None,
                    EdgeCondition::Parsed(expression) => {
                        Some(self.condition(&condition_text(&edge.attributes), expression))
                    }
                };
                let label = edge.attributes.text(Known::Label).unwrap_or_default();
                let known = edges_to.get_mut(edge.to.at())?;
                let parallel_index = *known;
                *known += 1;
                edges.push(EdgeRow {
                    from: edge.from,
                    to: edge.to,
                    parallel_index,
                    label: self.texts.add(label),
                    normalized_label: self.texts.add(&normalize_label(label)),
                    condition,
                    weight: edge.weight(),
                    loop_restart: edge.attributes.flag(Known::LoopRestart),
                    allow_revisit: edge.attributes.flag(Known::AllowRevisit),
                    max_revisits: count(edge.attributes.integer(Known::MaxRevisits)),
                    attributes: self.attributes(&edge.attributes, EDGE_COLUMNS),
                    position: source.position(edge.to_span.start),
                });
            }
            for at in self.analysis.outgoing(index) {
                *edges_to.get_mut(graph.edge(*at).to.at())? = 0;
            }
            let kind = self.analysis.kind(index);
            let kind_index = *by_kind.entry(kind).or_insert_with(|| {
                self.kinds.push(self.texts.add(kind));
                self.kinds.len() as u32 - 1
            });
            let target = |known| node.attributes.filled(known).and_then(|id| graph.find(id.trim()));
            let inherited = |known: Known| {
                let own = node.attributes.text(known);
                own.unwrap_or_else(|| attributes.text_or_default(known))
            };
            let goal_condition = match node.attributes.text(Known::GoalGate) {
                Some(text) => {
                    let expression = parse_condition(text).ok()?;
                    Some(self.condition(text, &expression))
                }
                None => None,
            };
            // The plain edges of a human gate are its answers. A missing answer must not take one, not even as a
            // partial success (rule H3).
            let may_go_on = kind != kind::WAIT_HUMAN;
            nodes.push(NodeRow {
                id: self.texts.add(&node.id),
                kind: kind_index,
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
                    .join(index)
                    .map(|join| FanOut::new(&node.attributes, join, self.analysis.outgoing(index).len())),
                child: None,
                position: source.position(node.span.start),
            });
        }
        let target = |known| attributes.filled(known).and_then(|id| graph.find(id.trim()));
        let number = |known, default| count(attributes.integer(known)).unwrap_or(default);
        let default = Settings::DEFAULT;
        Some(Pipeline {
            name: Cow::Owned(graph.name.clone()),
            file: Cow::Owned(source.name().to_owned()),
            source: Cow::Owned(source.text().to_owned()),
            texts: self.texts,
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
            keys: Cow::Owned(self.keys),
            predicates: Predicates::Expressions(self.expressions),
            attributes: Cow::Owned(self.rows),
            graph_attributes,
            children: Cow::Owned(Vec::new()),
        })
    }

    /// Adds the attributes of a node. If sessions depend on it, the class of the subgraph that contains the node is one
    /// of them (Attractor 5.4).
    fn node_attributes(&mut self, graph: &Graph, node: &Node, keeps_threads: bool) -> Rows {
        let mut rows = self.attributes(&node.attributes, &[]);
        if keeps_threads
            && node.attributes.find(SUBGRAPH).is_none()
            && let Some(class) = class_around(graph, node)
        {
            let row = AttributeRow {
                key: self.shared(SUBGRAPH),
                value: Constant::String(self.texts.add(&class)),
            };
            self.rows.push(row);
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
        for attribute in kept {
            let row = AttributeRow {
                key: self.shared(attribute.key.name()),
                value: Constant::from(&attribute.value).map(|text| self.value(text)),
            };
            self.rows.push(row);
        }
        let end = self.rows.len() as u32;
        // Use one representation of an empty range, so that equal tables compare equal.
        if start == end {
            Rows::default()
        } else {
            Rows { start, end }
        }
    }

    fn condition(&mut self, text: &str, expression: &Expression) -> u32 {
        if let Some(known) = self.known_conditions.get(text) {
            return *known;
        }
        let start = self.keys.len() as u32;
        for key in expression.keys() {
            let key = self.shared(key);
            self.keys.push(key);
        }
        let row = ConditionRow {
            text: self.texts.add(text),
            keys: Rows {
                start,
                end: self.keys.len() as u32,
            },
            needs_failure: expression.needs_failure(),
        };
        let index = self.conditions.len() as u32;
        self.conditions.push(row);
        self.expressions.push(expression.clone());
        self.known_conditions.insert(text.to_owned(), index);
        index
    }

    /// Adds the text of a value. Defaults may give the same long text to many nodes.
    fn value(&mut self, text: &str) -> Text {
        if text.len() < LONG {
            self.texts.add(text)
        } else {
            self.shared(text)
        }
    }

    /// Adds a text unless it is known.
    fn shared(&mut self, text: &str) -> Text {
        if let Some(known) = self.shared.get(text) {
            return *known;
        }
        let added = self.texts.add(text);
        self.shared.insert(text.to_owned(), added);
        added
    }
}

/// Returns the text that identifies the condition of an edge.
fn condition_text(attributes: &Attributes) -> String {
    if let Some(text) = attributes.filled(Known::Condition) {
        return text.to_owned();
    }
    let ty = attributes.text(Known::ConditionType).unwrap_or_default();
    match attributes.text(Known::ConditionValue) {
        Some(value) if ty == "conditional" => format!("condition_value={value}"),
        _ => format!("condition_type={ty}"),
    }
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
