//! The walk over the syntax tree, which finds all occurrences of names.

use std::collections::HashSet;
use std::ops::Range;

use super::labels::{Labels, is_plain, label_range};
use super::symbol::{Form, Occurrence, OccurrenceRole, Symbol};
use crate::analysis::Analysis;
use crate::ast::{Attribute, DefaultsTarget, Identifier, Statement};
use crate::attribute::{Known, Scope};
use crate::choice::{Choice, choice_named, graph_choices};
use crate::kind;
use crate::label::normalize_label;
use crate::loaded::Loaded;
use crate::lower::class_of;
use crate::model::NodeIndex;
use crate::syntax::lexer::inside;
use crate::text::{Span, trimmed};

pub(super) fn collect(loaded: &Loaded) -> Vec<Occurrence> {
    let analysis = loaded.analysis();
    let mut collector = Collector {
        loaded,
        unlabelled: unlabelled_choices(&analysis),
        labels: Labels::new(&analysis),
        from: None,
        analysis,
        has_statement: HashSet::new(),
        declared: HashSet::new(),
        found: Vec::new(),
    };
    collector.find_statements(&loaded.file.statements);
    collector.statements(&loaded.file.statements, false);
    collector.found
}

fn has_label(analysis: &Analysis<'_>, choice: &Choice) -> bool {
    let attributes = &analysis.graph().edge(choice.edge).attributes;
    attributes.filled(Known::Label).is_some()
}

/// Returns the nodes to which choices of human gates lead that have no label, so that they are named like the node.
fn unlabelled_choices(analysis: &Analysis<'_>) -> Vec<NodeIndex> {
    let nodes = analysis.graph().indexed_nodes().map(|(at, _)| at);
    let gates = nodes.filter(|at| analysis.kind(*at) == kind::WAIT_HUMAN);
    let choices = gates.flat_map(|gate| graph_choices(analysis, gate));
    let unlabelled = choices.filter(|choice| !has_label(analysis, choice));
    unlabelled.map(|choice| choice.to).collect()
}

/// A text within the source: the decoded value of an attribute, with the span of its literal.
#[derive(Clone, Copy)]
pub(super) struct Text<'t> {
    pub(super) text: &'t str,
    pub(super) literal: Span,
}

pub(super) struct Collector<'l> {
    pub(super) loaded: &'l Loaded,
    pub(super) analysis: Analysis<'l>,
    /// The nodes to which choices without a label lead.
    unlabelled: Vec<NodeIndex>,
    labels: Labels,
    /// The node that the edge of the statement leaves; `None` for a chain of several edges.
    from: Option<NodeIndex>,
    /// The ids of the nodes that have a statement of their own.
    has_statement: HashSet<&'l str>,
    /// The ids whose declaration has been found.
    declared: HashSet<&'l str>,
    found: Vec<Occurrence>,
}

impl<'l> Collector<'l> {
    fn find_statements(&mut self, statements: &'l [Statement]) {
        for statement in statements {
            match statement {
                Statement::Node(node) => {
                    self.has_statement.insert(&node.id.text);
                }
                Statement::Subgraph(subgraph) => self.find_statements(&subgraph.statements),
                _ => {}
            }
        }
    }

    fn statements(&mut self, statements: &'l [Statement], in_subgraph: bool) {
        for statement in statements {
            match statement {
                Statement::Assignment(attribute) => self.of_graph(attribute, in_subgraph),
                Statement::Defaults(block) => {
                    for attribute in &block.attributes {
                        match block.target {
                            DefaultsTarget::Graph => self.of_graph(attribute, in_subgraph),
                            DefaultsTarget::Node => self.attribute(attribute, Scope::Node, None),
                            DefaultsTarget::Edge => self.attribute(attribute, Scope::Edge, None),
                        }
                    }
                }
                Statement::Node(node) => {
                    self.id(&node.id, true, true);
                    let owner = self.loaded.graph.find(&node.id.text);
                    for attribute in &node.attributes {
                        self.attribute(attribute, Scope::Node, owner);
                    }
                }
                Statement::Edge(edge) => {
                    for (at, id) in edge.nodes.iter().enumerate() {
                        self.id(id, at == 0, false);
                    }
                    self.from = match edge.nodes.as_slice() {
                        [from, _] => self.loaded.graph.find(&from.text),
                        _ => None,
                    };
                    for attribute in &edge.attributes {
                        self.attribute(attribute, Scope::Edge, None);
                    }
                    self.from = None;
                }
                Statement::Subgraph(subgraph) => self.statements(&subgraph.statements, true),
            }
        }
    }

    fn of_graph(&mut self, attribute: &'l Attribute, in_subgraph: bool) {
        if in_subgraph && attribute.key.text == "label" {
            let text = self.text(attribute);
            let class = class_of(text);
            if !class.is_empty() {
                let literal = attribute.value_span;
                let text = Text { text, literal };
                self.declaration(Symbol::Class(class), text, trimmed(text.text, 0..text.text.len()));
            }
            return;
        }
        self.attribute(attribute, Scope::Graph, None);
    }

    fn id(&mut self, id: &'l Identifier, first: bool, is_statement: bool) {
        let is_declaration =
            (is_statement || !self.has_statement.contains(&*id.text)) && self.declared.insert(&id.text);
        self.found.push(Occurrence {
            symbol: Symbol::Node(id.text.to_string()),
            span: inside(self.loaded.source.text(), id.span, 0..id.text.len()),
            role: if is_declaration {
                OccurrenceRole::Declaration
            } else {
                OccurrenceRole::Reference
            },
            form: Form::Id { first },
            literal: self.id_literal(id),
        });
    }

    /// Returns the span of an id with its quotes, without a port.
    fn id_literal(&self, id: &Identifier) -> Span {
        if self.loaded.source.slice(id.span).starts_with('"') {
            return id.span;
        }
        Span::new(id.span.start, id.span.start + id.text.len() as u32)
    }

    /// Returns the text of an attribute's value.
    pub(super) fn text(&self, attribute: &'l Attribute) -> &'l str {
        if attribute.quoted {
            return attribute.value.as_str().unwrap_or_default();
        }
        let written = self.loaded.source.slice(attribute.value_span);
        // An HTML label is not a value.
        if written.starts_with('<') { "" } else { written }
    }

    /// Adds an occurrence in a value.
    pub(super) fn add(
        &mut self,
        symbol: Symbol,
        text: Text<'_>,
        range: Range<usize>,
        how: (OccurrenceRole, Form),
    ) {
        if range.is_empty() || symbol.name().is_empty() {
            return;
        }
        self.found.push(Occurrence {
            symbol,
            span: inside(self.loaded.source.text(), text.literal, range),
            role: how.0,
            form: how.1,
            literal: text.literal,
        });
    }

    pub(super) fn reference(&mut self, symbol: Symbol, text: Text<'_>, range: Range<usize>) {
        self.add(symbol, text, range, (OccurrenceRole::Reference, Form::Plain));
    }

    pub(super) fn declaration(&mut self, symbol: Symbol, text: Text<'_>, range: Range<usize>) {
        self.add(symbol, text, range, (OccurrenceRole::Declaration, Form::Plain));
    }

    /// Adds what an answer at a gate names: the label of an edge, or a node by its id or by the label or key that a choice
    /// derives from its id. The answer is a whole value, or a literal in an expression.
    pub(super) fn answer(&mut self, gate: NodeIndex, text: Text<'_>, range: Range<usize>, is_whole: bool) {
        let answer = text.text.get(range.clone()).unwrap_or_default();
        let choices = graph_choices(&self.analysis, gate);
        let graph = self.analysis.graph();
        let names = choices
            .iter()
            .map(|choice| [&*choice.key, &*choice.label, &*graph.node(choice.to).id]);
        let found = choice_named(names, answer);
        let Some(choice) = found.and_then(|at| choices.get(at)) else {
            // A choice with the label of an earlier edge has the name of that edge's target only. The author meant the node.
            let mut targets = self
                .analysis
                .outgoing(gate)
                .iter()
                .map(|edge| graph.edge(*edge).to);
            if let Some(to) = targets.find(|to| *graph.node(*to).id == *answer) {
                self.reference(Symbol::Node(graph.node(to).id.to_string()), text, range);
            }
            return;
        };
        let id = &*graph.node(choice.to).id;
        let is_id = answer.to_lowercase() == id.to_lowercase();
        let is_unlabelled = !has_label(&self.analysis, choice);
        let is_by_label = normalize_label(answer) == normalize_label(&choice.label);
        let is_by_key = answer.to_lowercase() == choice.key.to_lowercase();
        let form = match () {
            () if is_unlabelled && (is_id || is_by_label) => Form::Plain,
            () if is_unlabelled && is_by_key => Form::ChoiceKey,
            () if is_id && !is_by_label && !is_by_key => Form::Plain,
            () if is_by_label => {
                let role = OccurrenceRole::Reference;
                return self.label(text, range, Some(gate), (role, is_whole));
            }
            () => return,
        };
        let symbol = Symbol::Node(id.to_owned());
        self.add(symbol, text, range, (OccurrenceRole::Reference, form));
    }

    /// Adds a label of the edges of a node: a whole value, or a literal in an expression.
    pub(super) fn label(
        &mut self,
        text: Text<'_>,
        range: Range<usize>,
        node: Option<NodeIndex>,
        (role, is_whole): (OccurrenceRole, bool),
    ) {
        let written = text.text.get(range.clone()).unwrap_or_default();
        // In an expression, the character before a literal is its quote.
        let before = text
            .text
            .get(..range.start)
            .and_then(|before| before.chars().next_back());
        // A literal of several words that is not in quotes is written as it is.
        let quoted = matches!(before, Some('"' | '\'')) || !written.chars().all(is_plain);
        let form = if is_whole {
            Form::Plain
        } else {
            Form::Literal { quoted }
        };
        if let Some(symbol) = self.labels.symbol(node, written)
            && let Some(range) = label_range(text.text, range)
        {
            self.add(symbol, text, range, (role, form));
        }
    }

    /// Returns the node that the edge of the statement leaves.
    pub(super) fn from(&self) -> Option<NodeIndex> {
        self.from
    }

    /// Returns the node that a label of a gate's answer names, if it is not the label of an edge.
    pub(super) fn unlabelled(&self, label: &str) -> Option<&'l str> {
        let graph = self.analysis.graph();
        let wanted = normalize_label(label);
        let mut ids = self.unlabelled.iter().map(|to| &*graph.node(*to).id);
        let id = ids.find(|id| normalize_label(id) == wanted)?;
        let mut labels = graph
            .edges
            .iter()
            .filter_map(|edge| edge.attributes.filled(Known::Label));
        (!labels.any(|label| normalize_label(label) == wanted)).then_some(id)
    }
}
