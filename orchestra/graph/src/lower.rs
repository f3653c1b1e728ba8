//! Lowering of the syntax tree to the graph model: defaults, chains, subgraph classes, implicit nodes, typed
//! attributes.

use std::collections::HashMap;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::ast::{self, DefaultsTarget, Statement};
use crate::attribute::{AttributeFamily, Key, Known, Scope, foreign_value};
use crate::attributes::{Attribute, Attributes, Origin};
use crate::check::{
    assertion_syntax, attribute_type, conflicting_aliases, duplicate_node_attribute, tool_env_name,
    unknown_attribute,
};
use crate::diagnostic::Diagnostic;
use crate::model::{Edge, Graph, Node, NodeIndex, Subgraph};
use crate::spelling;
use crate::text::Source;
use crate::value::Value;

/// Creates the graph of a syntax tree. Anything that cannot be understood is reported and left out.
///
/// ```
/// use orchestra_graph::{Limits, Source, lower, parse};
/// let parsed = parse(&Source::new("a.dot", "digraph a { start -> work -> exit }"), &Limits::default());
/// let (graph, diagnostics) = lower(&parsed.source, &parsed.file);
/// assert_eq!(graph.edges.len(), 2);
/// assert!(diagnostics.is_empty());
/// ```
pub fn lower(source: &Source, file: &ast::File) -> (Graph, Vec<Diagnostic>) {
    let mut lowering = Lowering {
        source,
        graph: Graph::default(),
        diagnostics: Vec::new(),
        unknown: HashMap::new(),
    };
    if let Some(name) = &file.name {
        lowering.graph.name = name.text.to_string();
        lowering.graph.span = name.span;
    } else {
        lowering.graph.span = file.keyword;
    }
    lowering.statements(&file.statements, &Defaults::default());
    spelling::resolve(&mut lowering.graph, source, &mut lowering.diagnostics);
    (lowering.graph, lowering.diagnostics)
}

/// The defaults and classes that apply to the statements of one block.
#[derive(Clone, Default)]
struct Defaults {
    node: Attributes,
    edge: Attributes,
    classes: Vec<Arc<str>>,
    subgraph: Option<u32>,
}

struct Lowering<'s> {
    source: &'s Source,
    graph: Graph,
    diagnostics: Vec<Diagnostic>,
    /// The suggestion for each unknown key, so that a repeated key is looked up only once.
    unknown: HashMap<(SmolStr, Scope), Option<unknown_attribute::Suggestion>>,
}

impl Lowering<'_> {
    fn statements(&mut self, statements: &[Statement], outer: &Defaults) {
        let mut defaults = outer.clone();
        for statement in statements {
            match statement {
                Statement::Assignment(attribute) => {
                    self.graph_attribute(attribute, defaults.subgraph);
                }
                Statement::Defaults(block) => self.defaults(block, &mut defaults),
                Statement::Node(node) => self.node(node, &defaults),
                Statement::Edge(edge) => self.edge(edge, &defaults),
                Statement::Subgraph(subgraph) => self.subgraph(subgraph, &defaults),
            }
        }
    }

    fn graph_attribute(&mut self, raw: &ast::Attribute, subgraph: Option<u32>) {
        // Inside a subgraph these attributes only affect drawing. The label is read when the subgraph is entered.
        if subgraph.is_some() {
            if raw.key.text == Known::Assert.name() {
                self.diagnostics
                    .push(assertion_syntax::ignored(raw.key.span, false));
            }
            return;
        }
        if let Some(attribute) = self.attribute(raw, Scope::Graph, Origin::Explicit) {
            let mut attributes = std::mem::take(&mut self.graph.attributes);
            self.set(&mut attributes, attribute, None);
            self.graph.attributes = attributes;
        }
    }

    fn defaults(&mut self, block: &ast::Defaults, defaults: &mut Defaults) {
        let (scope, list) = match block.target {
            DefaultsTarget::Graph => {
                for attribute in &block.attributes {
                    self.graph_attribute(attribute, defaults.subgraph);
                }
                return;
            }
            DefaultsTarget::Node => (Scope::Node, &mut defaults.node),
            DefaultsTarget::Edge => (Scope::Edge, &mut defaults.edge),
        };
        for raw in &block.attributes {
            if let Some(attribute) = self.attribute(raw, scope, Origin::Default) {
                list.set(attribute);
            }
        }
    }

    fn subgraph(&mut self, subgraph: &ast::Subgraph, outer: &Defaults) {
        let mut inner = outer.clone();
        let label = label_of(&subgraph.statements);
        if let Some(class) = label.as_deref().map(class_of).filter(|class| !class.is_empty()) {
            inner.classes.push(class.into());
        }
        inner.subgraph = Some(self.graph.subgraphs.len() as u32);
        self.graph.subgraphs.push(Subgraph {
            name: subgraph.name.as_ref().map(|name| name.text.to_string()),
            label,
            parent: outer.subgraph,
            span: subgraph.span,
        });
        self.statements(&subgraph.statements, &inner);
    }

    fn node(&mut self, statement: &ast::NodeStatement, defaults: &Defaults) {
        let known = self.graph.nodes.len();
        let index = self.mention(&statement.id, defaults);
        let mut attributes = std::mem::take(&mut self.graph.nodes[index.at()].attributes);
        if !self.graph.nodes[index.at()].declared {
            if index.at() < known {
                // Only an edge has mentioned the node so far. The defaults at its declaration replace those at its first
                // mention.
                attributes = defaults.node.clone();
            }
            let node = &mut self.graph.nodes[index.at()];
            node.declared = true;
            node.span = statement.id.span;
            node.subgraph = defaults.subgraph;
        }
        for raw in &statement.attributes {
            if let Some(attribute) = self.attribute(raw, Scope::Node, Origin::Explicit) {
                self.set(&mut attributes, attribute, Some(&statement.id.text));
            }
        }
        let node = &mut self.graph.nodes[index.at()];
        node.attributes = attributes;
        add_classes(node, &defaults.classes);
    }

    /// Returns the node with an id. A new node gets the defaults at its first mention.
    fn mention(&mut self, id: &ast::Identifier, defaults: &Defaults) -> NodeIndex {
        if let Some(index) = self.graph.find(&id.text) {
            return index;
        }
        let index = self.graph.add_node(&id.text, id.span);
        let node = &mut self.graph.nodes[index.at()];
        node.declared = false;
        node.subgraph = defaults.subgraph;
        node.attributes = defaults.node.clone();
        add_classes(node, &defaults.classes);
        index
    }

    fn edge(&mut self, statement: &ast::EdgeStatement, defaults: &Defaults) {
        let mut attributes = Attributes::with_capacity(statement.attributes.len() + defaults.edge.len());
        for raw in &statement.attributes {
            if let Some(attribute) = self.attribute(raw, Scope::Edge, Origin::Explicit) {
                self.set(&mut attributes, attribute, None);
            }
        }
        for attribute in defaults.edge.iter() {
            if attributes.find(attribute.key.name()).is_none() {
                attributes.push(attribute.clone());
            }
        }
        let Some((first, rest)) = statement.nodes.split_first() else {
            return;
        };
        let (mut from, mut from_span) = (self.mention(first, defaults), first.span);
        let last = rest.len().saturating_sub(1);
        for (at, id) in rest.iter().enumerate() {
            let to = self.mention(id, defaults);
            self.graph.edges.push(Edge {
                from,
                to,
                from_span,
                to_span: id.span,
                attributes: if at == last {
                    std::mem::take(&mut attributes)
                } else {
                    attributes.clone()
                },
            });
            (from, from_span) = (to, id.span);
        }
    }

    /// Sets an explicit attribute, and reports it if it was already set explicitly.
    fn set(&mut self, attributes: &mut Attributes, attribute: Attribute, node: Option<&str>) {
        let (key_span, name) = (attribute.key_span, attribute.key.clone());
        let Some(before) = attributes.set(attribute) else {
            return;
        };
        if before.origin != Origin::Explicit {
            return;
        }
        if name == Key::Known(Known::Assert) {
            self.diagnostics.push(assertion_syntax::ignored(key_span, true));
            return;
        }
        let (first, second) = (self.source.slice(before.key_span), self.source.slice(key_span));
        let diagnostic = if first.trim_matches('"') == second.trim_matches('"') {
            duplicate_node_attribute::diagnostic(name.name(), before.key_span, key_span)
        } else {
            conflicting_aliases::diagnostic(name.name(), (first, before.key_span), (second, key_span))
        };
        self.diagnostics.push(match node {
            Some(id) => diagnostic.node(id),
            None => diagnostic,
        });
    }

    /// Resolves the key of an attribute and converts its value to the right type (rules L6, L7).
    fn attribute(&mut self, raw: &ast::Attribute, scope: Scope, origin: Origin) -> Option<Attribute> {
        let (key_span, value_span) = (raw.key.span, raw.value_span);
        let keep = |key, value| Attribute {
            key,
            value,
            key_span,
            value_span,
            origin,
        };
        let known = Known::find(&raw.key.text).filter(|known| known.spec().scopes.contains(scope));
        let as_written = || {
            if raw.quoted {
                raw.value.clone()
            } else {
                // `4.10` must not become `4.1`.
                Value::String(self.source.slice(value_span).into())
            }
        };
        let family = AttributeFamily::find(&raw.key.text);
        if let Some((family, name)) = family.filter(|(family, _)| family.scopes.contains(scope)) {
            if [AttributeFamily::TOOL_ENV, AttributeFamily::TOOL_ENV_FROM].contains(&family) {
                self.diagnostics
                    .extend(tool_env_name::diagnostic(family, name, key_span));
            }
            return Some(keep(Key::Other(raw.key.text.as_str().into()), as_written()));
        }
        let Some(known) = known else {
            self.unknown(&raw.key, scope);
            return Some(keep(Key::Other(raw.key.text.as_str().into()), raw.value.clone()));
        };
        let ty = known.spec().ty;
        let as_text = matches!(ty, crate::AttributeType::String | crate::AttributeType::Node);
        if as_text && !raw.quoted {
            return Some(keep(Key::Known(known), as_written()));
        }
        let coerced = match ty {
            // `007` is a name, and not the number 7.
            crate::AttributeType::Name => ty.coerce(&as_written()),
            _ => ty.coerce(&raw.value),
        };
        match coerced {
            Some(value) => Some(keep(Key::Known(known), value)),
            // `spelling::resolve` replaces the value once the whole node is known.
            None if foreign_value(known, &raw.value).is_some() => {
                Some(keep(Key::Known(known), raw.value.clone()))
            }
            None => {
                let written = match &raw.value {
                    Value::String(text) => text,
                    _ => self.source.slice(value_span),
                };
                self.diagnostics
                    .push(attribute_type::diagnostic(known, written, value_span));
                None
            }
        }
    }

    fn unknown(&mut self, key: &ast::Identifier, scope: Scope) {
        let suggestion = match self.unknown.get(&(key.text.clone(), scope)) {
            Some(suggestion) => suggestion.clone(),
            None => {
                let suggestion = unknown_attribute::suggest(&key.text, scope);
                self.unknown.insert((key.text.clone(), scope), suggestion.clone());
                suggestion
            }
        };
        if let Some(suggestion) = suggestion {
            self.diagnostics.push(unknown_attribute::diagnostic(
                &key.text,
                key.span,
                scope,
                &suggestion,
            ));
        }
    }
}

/// Adds the classes of the enclosing subgraphs and those of the attribute `class` to a node.
fn add_classes(node: &mut Node, outer: &[Arc<str>]) {
    let Node {
        attributes, classes, ..
    } = node;
    for class in outer {
        if !classes.contains(class) {
            classes.push(class.clone());
        }
    }
    for word in attributes.words(Known::Class) {
        if !classes.iter().any(|class| **class == *word) {
            classes.push(word.into());
        }
    }
}

/// Returns the label that the statements of a subgraph set. The last one wins.
fn label_of(statements: &[Statement]) -> Option<String> {
    let is_label = |attribute: &&ast::Attribute| attribute.key.text == "label";
    statements
        .iter()
        .filter_map(|statement| match statement {
            Statement::Assignment(attribute) => Some(attribute).filter(is_label),
            Statement::Defaults(block) if block.target == DefaultsTarget::Graph => {
                block.attributes.iter().rfind(is_label)
            }
            _ => None,
        })
        .next_back()
        .map(|attribute| attribute.value.to_string())
}

/// Returns the class for a label (rule L9): `loop-a` for `Loop A`.
pub(crate) fn class_of(label: &str) -> String {
    let lower = label.trim().to_lowercase();
    let dashed = lower.chars().map(|c| if c.is_whitespace() { '-' } else { c });
    dashed
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect()
}
