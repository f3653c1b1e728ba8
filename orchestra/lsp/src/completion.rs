//! Completion in a pipeline: which names and values fit at a position.

use orchestra_graph::{
    ATTRIBUTE_FAMILIES, ATTRIBUTES, AttributeFamily, AttributeOwner, AttributeSpec, AttributeType,
    Attributes, Cursor, Key, Known, NodeIndex, Origin, Scope, Span, SyntaxContext, is_identifier, kind,
};

use crate::candidate::{Candidate, Candidates, Completing, items, precedes_operand};
use crate::complete_assertions::likely_assertion;
use crate::complete_fit::{Fit, fit};
use crate::complete_values::values;
use crate::cursor::Opened;
use crate::files::Files;
use crate::markdown::{attribute, family, values as described_values};
use crate::protocol::{CompletionItem, CompletionItemKind, Position};
use crate::snippets::{PIPELINE, SNIPPETS, Snippet};
use crate::value_lists::{likely_values, set_values};

/// The maximum number of names that one placeholder of a snippet offers.
const CHOICES: usize = 20;
/// The attributes whose value may be any text.
const FREE: &[Known] = &[
    Known::Class,
    Known::Goal,
    Known::HookPost,
    Known::HookPre,
    Known::Label,
    Known::Prompt,
    Known::SteerMessage,
    Known::ToolCommand,
];
/// The rank of what has no effect as the text is.
const LAST: u8 = 8;
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
        // Another statement, target or value follows, before which nothing can be written.
        SyntaxContext::Statement { .. } if completing.is_at_begin() || completing.precedes_word() => {
            return Vec::new();
        }
        SyntaxContext::Target { .. } | SyntaxContext::Value { quoted: false, .. }
            if completing.precedes_word() =>
        {
            return Vec::new();
        }
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
        let last = from.last().and_then(|last| loaded.graph.find(last));
        let follows_group = self.rest().trim_start().starts_with('{');
        let is_followed = self.rest().trim_start().starts_with("->");
        if follows_group || last.is_some_and(|last| analysis.is_exit(last)) {
            return list;
        }
        let is_linked = |to| {
            last.is_some_and(|last| {
                let edges = analysis
                    .outgoing(last)
                    .iter()
                    .map(|edge| loaded.graph.edge(*edge));
                edges
                    .filter(|edge| edge.to_span != self.cursor.word)
                    .any(|edge| edge.to == to)
            })
        };
        for (at, candidate) in self.nodes() {
            let own = analysis.incoming(at).iter().filter(|edge| {
                let target = &loaded.graph.edge(**edge);
                target.to_span != self.cursor.word
            });
            let is_free = own.count() == 0;
            let node = loaded.graph.node(at);
            // The word at the position is not a node yet.
            let is_typed = &*node.id == typed && node.span == self.cursor.word && !node.declared;
            if analysis.is_start(at) || is_typed || is_followed && analysis.is_exit(at) {
                continue;
            }
            let is_own = from.last().is_some_and(|last| *last == &*node.id);
            let rank = if is_own {
                3
            } else if is_linked(at) {
                2
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
        let loaded = &self.opened.analysis.loaded;
        let analysis = loaded.analysis();
        // Another name would give the attributes of the node to that one.
        let is_own = |at: NodeIndex| loaded.graph.node(at).span == typed;
        if let Some((_, own)) = self
            .nodes()
            .find(|(at, _)| is_own(*at) && loaded.graph.node(*at).declared)
        {
            return self.whole(vec![own]);
        }
        if self.is_assigned() {
            return self.keys(&AttributeOwner::Graph, &[]);
        }
        let is_followed = self.rest().trim_start().starts_with("->");
        let nodes = self
            .nodes()
            .filter(|(at, _)| !(is_own(*at) || is_followed && analysis.is_exit(*at)));
        let mut list: Vec<Candidate> = nodes.map(|(_, candidate)| candidate).collect();
        if is_followed {
            return self.whole(list);
        }
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
        let mut list = self.attributes(owner, set);
        if self.is_assigned() && !self.is_at_begin() {
            // The value stays.
            list.retain(|candidate| self.accepts(&candidate.label));
        }
        // A key is written before the next one, or directly after a value.
        let before = self
            .opened
            .text
            .as_str()
            .get(..self.cursor.word.start.min(self.offset) as usize);
        if before
            .is_some_and(|before| before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '"' | '>')))
        {
            for candidate in &mut list {
                candidate.insert = candidate.insert.take().map(|insert| format!(", {insert}"));
            }
        }
        if self.is_at_begin() || self.precedes_word() {
            for candidate in &mut list {
                candidate.insert = candidate.insert.take().map(|insert| insert + ", ");
            }
            return Candidates {
                list,
                replaced: Span::new(self.offset, self.offset),
            };
        }
        self.whole(list)
    }

    /// Returns whether an attribute accepts the value after the key at the position.
    fn accepts(&self, name: &str) -> bool {
        let graph = &self.opened.analysis.loaded.graph;
        let edges = graph.edges.iter().map(|edge| &edge.attributes);
        let owners = graph.nodes.iter().map(|node| &node.attributes).chain(edges);
        let mut all = owners.chain([&graph.attributes]).flat_map(Attributes::iter);
        let Some(own) = all.find(|attribute| attribute.key_span == self.cursor.word) else {
            return true;
        };
        if own.key.name() == name {
            return true;
        }
        // The kind of the node depends on these two.
        let selects_kind = matches!(own.key, Key::Known(Known::Shape | Known::Type));
        let Some(known) = Known::find(name).filter(|_| !selects_kind) else {
            return false;
        };
        let fixed = known.fixed_values();
        let text = own.value.to_string();
        match known.spec().ty {
            AttributeType::Node => graph.find(&text).is_some(),
            _ if !fixed.is_empty() => fixed.contains(&text.as_str()),
            AttributeType::String => FREE.contains(&known),
            ty => ty.coerce(&own.value).is_some(),
        }
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
                let placeholder = self.placeholder(spec, node);
                match fit(self, owner, spec.known) {
                    Fit::Fits => list.push(self.key(spec, "", &placeholder).rank(rank)),
                    Fit::With(other) => list.push(self.key(spec, other, &placeholder).rank(rank.max(1))),
                    Fit::If(reason) => {
                        let mut candidate = self.key(spec, "", &placeholder).rank(LAST);
                        candidate.detail = reason.to_owned();
                        list.push(candidate);
                    }
                    Fit::Never => {}
                }
            }
        }
        for found in ATTRIBUTE_FAMILIES
            .iter()
            .filter(|family| family.scopes.contains(scope))
        {
            if kind.is_none_or(|kind| found.is_read_by(kind)) && *owner != AttributeOwner::Subgraph {
                list.extend(
                    self.family(found, node)
                        .into_iter()
                        .filter(|candidate| !is_set(&candidate.label)),
                );
            }
        }
        list
    }

    /// Returns the members of a family: the outcomes of a stage, or one with a placeholder for its name.
    fn family(&self, found: &AttributeFamily, node: Option<NodeIndex>) -> Vec<Candidate> {
        let detail = format!("{}{}", found.prefix, found.member);
        let candidate = |label: String, body: String| {
            let candidate = Candidate::new(label, CompletionItemKind::PROPERTY, detail.clone());
            candidate.doc(family(found)).rank(2).snippet(body)
        };
        if let Some(node) = node.filter(|_| *found == *AttributeFamily::OUTPUTS) {
            let names = self.names(Some(node));
            let words = names.outcomes.iter().take(names.likely).map(String::as_str);
            // An attempt that ends with `retry` sets nothing, and `outputs` are those of a success.
            let words = words.filter(|word| !["retry", "success"].contains(word));
            return words
                .map(|word| {
                    let label = format!("{}{word}", found.prefix);
                    let body = format!("{label}{}", self.assigned("=\"$1\""));
                    candidate(label, body)
                })
                .collect();
        }
        let value = match *found == *AttributeFamily::TOOL_ENV_FROM {
            true => choice_at(2, set_values(self, node).iter().map(String::as_str).take(CHOICES)),
            false => "$2".to_owned(),
        };
        let value = self.assigned(&format!("=\"{value}\"")).to_owned();
        let body = format!("{}${{1:{}}}{value}", found.prefix, found.member);
        vec![candidate(found.prefix.to_owned(), body)]
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

    /// Returns the text after the word at the position.
    fn rest(&self) -> &str {
        let source = &self.opened.analysis.loaded.source;
        let end = self.cursor.word.end.max(self.offset);
        source.text().get(end as usize..).unwrap_or_default()
    }

    /// Returns whether the position is at the begin of a word, of which nothing is typed yet.
    fn is_at_begin(&self) -> bool {
        !self.cursor.word.is_empty() && self.offset == self.cursor.word.start
    }

    /// Returns whether a word or a string follows in the same line, after white space at most.
    fn precedes_word(&self) -> bool {
        self.cursor.word.is_empty() && precedes_operand(self.rest())
    }

    /// Returns whether an `=` follows the word at the position.
    fn is_assigned(&self) -> bool {
        self.rest().trim_start_matches([' ', '\t']).starts_with('=')
    }

    /// Returns the text after a key: nothing if an `=` follows already.
    fn assigned<'t>(&self, text: &'t str) -> &'t str {
        let follows = self.is_assigned() && !self.is_at_begin();
        if follows { "" } else { text }
    }

    /// Returns an attribute with a placeholder for its value, after the text of another attribute that it needs.
    fn key(&self, spec: &AttributeSpec, other: &str, placeholder: &str) -> Candidate {
        let candidate = Candidate::new(spec.name, CompletionItemKind::PROPERTY, described_values(spec));
        let value = self.assigned(&format!("={placeholder}")).to_owned();
        let body = format!("{other}{}{value}", spec.name);
        candidate.doc(attribute(spec)).snippet(body)
    }

    fn placeholder(&self, spec: &AttributeSpec, node: Option<NodeIndex>) -> String {
        let default = spec.default.map(|default| default.to_string());
        let or = |text: &str| format!("${{1:{}}}", default.clone().unwrap_or_else(|| text.to_owned()));
        let fixed = likely_values(self, spec.known, node);
        if !fixed.is_empty() {
            // The first choice is the default, unless that is what applies anyway.
            let is_other = |value: &&str| default.as_deref() != Some(*value);
            let values = fixed.iter().map(String::as_str).take(CHOICES);
            let (others, own): (Vec<&str>, Vec<&str>) = values.partition(is_other);
            let quoted = fixed.iter().any(|value| !is_identifier(value));
            let choices = choice(others.into_iter().chain(own));
            return if quoted { format!("\"{choices}\"") } else { choices };
        }
        match spec.ty {
            _ if spec.known == Known::Assert => format!("\"{}\"", likely_assertion(self)),
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
    choice_at(1, names)
}

fn choice_at<'t>(number: u8, names: impl Iterator<Item = &'t str>) -> String {
    let names: Vec<String> = names
        .map(|name| name.replace(',', "\\,").replace('|', "\\|"))
        .collect();
    if names.is_empty() {
        format!("${number}")
    } else {
        format!("${{{number}|{}|}}", names.join(","))
    }
}
