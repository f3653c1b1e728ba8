//! Completion in a pipeline: which names and values fit at a position.

use orchestra_graph::{
    ATTRIBUTE_FAMILIES, ATTRIBUTES, AttributeOwner, AttributeSpec, AttributeType, Cursor, Key, Known, Origin,
    Scope, Span, SyntaxContext, is_identifier, kind,
};

use crate::candidate::{Candidate, Candidates, Completing, items};
use crate::complete_values::values;
use crate::cursor::Opened;
use crate::files::Files;
use crate::markdown::{attribute, family, values as described_values};
use crate::protocol::{CompletionItem, CompletionItemKind, Position};
use crate::snippets::{PIPELINE, SNIPPETS, Snippet};

/// The maximum number of names that one placeholder of a snippet offers.
const CHOICES: usize = 20;
/// The number of kinds up to which an attribute is special for them.
const FEW_READERS: usize = 3;

/// How a client completes.
#[derive(Clone, Copy)]
pub(crate) struct CompletionSettings {
    /// `true` if the client replaces placeholders.
    pub(crate) placeholders: bool,
    /// `true` if the user has typed a blank, and nothing else.
    pub(crate) after_blank: bool,
}

/// Returns the items that fit at a position.
pub(crate) fn complete(
    opened: &Opened,
    files: &Files<'_>,
    position: Position,
    settings: CompletionSettings,
) -> Vec<CompletionItem> {
    let offset = opened.offset(position);
    let cursor = Cursor::new(&opened.analysis.loaded.source, offset);
    let completing = Completing {
        opened,
        files,
        offset,
        cursor: &cursor,
    };
    let found = match &cursor.context {
        // A blank at the begin of a statement only indents it.
        SyntaxContext::Statement { .. } if settings.after_blank => return Vec::new(),
        SyntaxContext::Statement { nested } => completing.statements(*nested),
        SyntaxContext::Target { from } => {
            let from: Vec<&str> = from.iter().map(|node| node.text.as_str()).collect();
            completing.whole(completing.targets(&from))
        }
        SyntaxContext::Key { owner, set } => {
            let set: Vec<&str> = set.iter().map(|key| key.as_str()).collect();
            completing.keys(owner, &set)
        }
        SyntaxContext::Value {
            owner,
            key,
            before,
            quoted,
        } => values(&completing, owner, &key.text, before, *quoted),
        _ => match beginning(opened.text.as_str(), offset) {
            Some(replaced) => Candidates {
                list: vec![snippet_candidate(&PIPELINE)],
                replaced,
            },
            None => return Vec::new(),
        },
    };
    items(found, |span| opened.range(span), settings.placeholders)
}

/// Returns the span of the word that begins a file; `None` if the file contains more.
fn beginning(text: &str, offset: u32) -> Option<Span> {
    let word = text.trim();
    let start = u32::try_from(text.len() - text.trim_start().len()).ok()?;
    let end = start + u32::try_from(word.len()).ok()?;
    let is_typed = word.is_empty() || (PIPELINE.label.starts_with(word) && offset == end);
    is_typed.then(|| {
        if word.is_empty() {
            Span::new(offset, offset)
        } else {
            Span::new(start, end)
        }
    })
}

/// Returns a snippet as a candidate.
fn snippet_candidate(snippet: &Snippet) -> Candidate {
    let shown = format!("```dot\n{}\n```", snippet.expanded());
    Candidate::new(snippet.label, CompletionItemKind::SNIPPET, snippet.detail)
        .doc(shown)
        .snippet(snippet.body.to_owned())
}

impl Completing<'_> {
    /// Returns the nodes that an edge may lead to. Nodes that no edge leads to come first.
    fn targets(&self, from: &[&str]) -> Vec<Candidate> {
        let loaded = &self.opened.analysis.loaded;
        let analysis = loaded.analysis();
        let typed = loaded.source.slice(self.cursor.word);
        let mut list = Vec::new();
        for (at, candidate) in self.nodes() {
            let own = analysis.incoming(at).iter().filter(|edge| {
                let target = &loaded.graph.edge(**edge);
                target.to_span != self.cursor.word
            });
            let is_free = own.count() == 0;
            let node = loaded.graph.node(at);
            // The word at the position is not a node yet.
            let is_typed = &*node.id == typed && node.span == self.cursor.word && !node.declared;
            if analysis.is_start(at) || is_typed {
                continue;
            }
            let is_own = from.last().is_some_and(|last| *last == &*node.id);
            let rank = if is_own {
                3
            } else if is_free {
                0
            } else {
                1
            };
            list.push(candidate.rank(rank));
        }
        list
    }

    /// Returns what may begin a statement.
    fn statements(&self, nested: bool) -> Candidates {
        let typed = self.cursor.word;
        let nodes = self
            .nodes()
            .filter(|(at, _)| self.opened.analysis.loaded.graph.node(*at).span != typed);
        let mut list: Vec<Candidate> = nodes.map(|(_, candidate)| candidate).collect();
        list.extend(SNIPPETS.iter().map(|snippet| snippet_candidate(snippet).rank(2)));
        for (keyword, detail, body) in [
            ("graph", "attributes of the graph", "graph [$0]"),
            ("node", "defaults of the nodes that follow", "node [$0]"),
            ("edge", "defaults of the edges that follow", "edge [$0]"),
            (
                "subgraph",
                "scope of defaults",
                "subgraph cluster_${1:name} {\n\t$0\n}",
            ),
        ] {
            let candidate = Candidate::new(keyword, CompletionItemKind::KEYWORD, detail);
            list.push(candidate.rank(3).snippet(body.to_owned()));
        }
        if nested {
            let label = Candidate::new("label", CompletionItemKind::PROPERTY, "the name of the subgraph");
            list.push(label.rank(4).snippet("label=\"$1\"".to_owned()));
        } else {
            list.extend(
                self.attributes(&AttributeOwner::Graph, &[])
                    .into_iter()
                    .map(|candidate| candidate.rank(4)),
            );
        }
        self.whole(list)
    }

    /// Returns the keys that an owner reads.
    fn keys(&self, owner: &AttributeOwner, set: &[&str]) -> Candidates {
        self.whole(self.attributes(owner, set))
    }

    fn attributes(&self, owner: &AttributeOwner, set: &[&str]) -> Vec<Candidate> {
        let scope = owner.scope();
        let loaded = &self.opened.analysis.loaded;
        let analysis = loaded.analysis();
        let node = match owner {
            AttributeOwner::Node(id) => loaded.graph.find(&id.text),
            _ => None,
        };
        let kind = node.map(|node| analysis.kind(node));
        let is_set = |name: &str| set.iter().any(|key| Key::from_name(key).name() == name);
        let is_set_elsewhere = |name: &str| {
            let attribute = node.and_then(|node| loaded.graph.node(node).attributes.find(name));
            attribute.is_some_and(|attribute| attribute.origin == Origin::Explicit)
        };
        let mut list = Vec::new();
        for spec in ATTRIBUTES.iter().filter(|spec| spec.scopes.contains(scope)) {
            let reads = match (owner, kind) {
                (AttributeOwner::Node(_), Some(kind)) => spec.known.is_read_by(kind),
                (AttributeOwner::Edge(nodes), _) => {
                    let from = nodes.split_last().map_or(&[][..], |(_, from)| from);
                    let kinds = from.iter().filter_map(|id| loaded.graph.find(&id.text));
                    let kinds: Vec<&str> = kinds.map(|node| analysis.kind(node)).collect();
                    self.is_read_on_edges(spec, &kinds)
                }
                (AttributeOwner::EdgeDefaults, _) => self.is_read_on_edges(spec, &[]),
                (AttributeOwner::Subgraph, _) => spec.known == Known::Label,
                _ => true,
            };
            if reads && !is_set(spec.name) {
                let rank = if is_set_elsewhere(spec.name) {
                    3
                } else if is_usual(spec, kind) || is_special(spec, scope) {
                    0
                } else {
                    1
                };
                list.push(self.key(spec).rank(rank));
            }
        }
        for found in ATTRIBUTE_FAMILIES
            .iter()
            .filter(|family| family.scopes.contains(scope))
        {
            if kind.is_none_or(|kind| found.is_read_by(kind)) && *owner != AttributeOwner::Subgraph {
                let label = found.prefix.to_owned();
                let detail = format!("{}{}", found.prefix, found.member);
                let candidate =
                    Candidate::new(label, CompletionItemKind::PROPERTY, detail).doc(family(found));
                let body = format!(
                    "{}${{1:{}}}{}",
                    found.prefix,
                    found.member,
                    self.assigned("=\"$2\"")
                );
                list.push(candidate.rank(2).snippet(body));
            }
        }
        list
    }

    /// Returns whether an attribute has an effect on edges of nodes of these kinds.
    fn is_read_on_edges(&self, spec: &AttributeSpec, kinds: &[&str]) -> bool {
        let graph = &self.opened.analysis.loaded.graph;
        let first_match = graph.attributes.text(Known::Routing) == Some("first_match");
        match spec.known {
            Known::Freeform => kinds
                .iter()
                .any(|of| *of == kind::WAIT_HUMAN || !kind::BUILT_IN.contains(of)),
            Known::Weight => !first_match,
            Known::ConditionType | Known::ConditionValue | Known::AllowRevisit | Known::MaxRevisits => {
                first_match
            }
            _ => true,
        }
    }

    /// Returns the text after a key: nothing if an `=` follows already.
    fn assigned<'t>(&self, text: &'t str) -> &'t str {
        let source = &self.opened.analysis.loaded.source;
        let rest = source
            .text()
            .get(self.cursor.word.end.max(self.offset) as usize..)
            .unwrap_or_default();
        let follows = rest.trim_start_matches([' ', '\t']).starts_with('=');
        if follows { "" } else { text }
    }

    /// Returns an attribute with a placeholder for its value.
    fn key(&self, spec: &AttributeSpec) -> Candidate {
        let candidate = Candidate::new(spec.name, CompletionItemKind::PROPERTY, described_values(spec));
        let value = self.placeholder(spec);
        let body = format!("{}{}", spec.name, self.assigned(&format!("={value}")));
        candidate.doc(attribute(spec)).snippet(body)
    }

    fn placeholder(&self, spec: &AttributeSpec) -> String {
        let default = spec.default.map(|default| default.to_string());
        let or = |text: &str| format!("${{1:{}}}", default.clone().unwrap_or_else(|| text.to_owned()));
        let fixed = spec.known.fixed_values();
        if !fixed.is_empty() {
            // The first choice is the default, unless that is what applies anyway.
            let is_other = |value: &&str| default.as_deref() != Some(*value);
            let (others, own): (Vec<&str>, Vec<&str>) = fixed.iter().copied().partition(is_other);
            let quoted = fixed.iter().any(|value| !is_identifier(value));
            let choices = choice(others.into_iter().chain(own));
            return if quoted { format!("\"{choices}\"") } else { choices };
        }
        match spec.ty {
            AttributeType::Integer(min) => or(&min.max(1).to_string()),
            AttributeType::Float(_, max) => or(if max <= 1.0 { "0.5" } else { "1.0" }),
            AttributeType::Duration => or("5m"),
            AttributeType::Node => {
                let typed = self.cursor.word;
                let graph = &self.opened.analysis.loaded.graph;
                let nodes = graph
                    .nodes
                    .iter()
                    .filter(|node| node.span != typed)
                    .map(|node| &*node.id);
                choice(nodes.filter(|id| is_identifier(id)).take(CHOICES))
            }
            _ => "\"$1\"".to_owned(),
        }
    }
}

/// Returns whether nearly every node of a kind has the attribute.
fn is_usual(spec: &AttributeSpec, kind: Option<&str>) -> bool {
    match spec.known {
        Known::Label | Known::Shape => kind.is_some(),
        Known::Agent | Known::Prompt | Known::Type => kind == Some(kind::CODERGEN),
        _ => false,
    }
}

/// Returns whether an attribute is what its owner is written for: only few kinds of nodes read it, or it is the condition
/// of an edge.
fn is_special(spec: &AttributeSpec, scope: Scope) -> bool {
    let readers = || kind::BUILT_IN.iter().filter(|kind| spec.known.is_read_by(kind));
    match scope {
        Scope::Node => readers().count() <= FEW_READERS,
        Scope::Edge => spec.known == Known::Condition,
        Scope::Graph => false,
    }
}

/// Returns a placeholder that offers some names.
fn choice<'t>(names: impl Iterator<Item = &'t str>) -> String {
    let names: Vec<String> = names
        .map(|name| name.replace(',', "\\,").replace('|', "\\|"))
        .collect();
    if names.is_empty() {
        "$1".to_owned()
    } else {
        format!("${{1|{}|}}", names.join(","))
    }
}
