//! A second opinion on the syntax: `graphviz-rust`, a parser of DOT that shares nothing with ours, finds the same nodes,
//! edges and attributes in each pipeline of the repository, in random ones, and in the DOT that pictures are drawn from.
//!
//! It reads plain DOT. Keys and values that only pipelines may write without quotes, such as `human.default_choice` and
//! `15m` (rule L4), are quoted for it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use graphviz_rust::dot_structures::{
    Attribute, EdgeTy, Graph as ForeignGraph, GraphAttributes, Id, NodeId, Stmt, Vertex,
};
use orchestra_graph::{Attributes, Graph, Limits, Origin, PictureOptions, Source, lower, parse};
use orchestra_oracle_tests::{case_count, cases, seed};

type Values = BTreeMap<String, String>;

/// The contents of a file, as far as both parsers know them.
#[derive(Debug, Default, PartialEq)]
struct Contents {
    name: String,
    graph: Values,
    /// The nodes in the order in which the file first names them.
    nodes: Vec<(String, Values)>,
    edges: Vec<(String, String, Values)>,
}

/// Reads a text with our parser. Returns `None` if it reports an error.
fn ours(text: &str) -> Option<(Contents, Graph)> {
    let source = Source::new("syntax.dot", text);
    let parsed = parse(&source, &Limits::default());
    let (graph, diagnostics) = lower(&source, &parsed.file);
    if parsed
        .diagnostics
        .iter()
        .chain(&diagnostics)
        .any(|found| found.is_error())
    {
        return None;
    }
    let values = |attributes: &Attributes| -> Values {
        attributes
            .iter()
            .filter(|attribute| matches!(attribute.origin, Origin::Explicit | Origin::Default))
            .map(|attribute| {
                let written = |span| unquoted(source.slice(span));
                (written(attribute.key_span), written(attribute.value_span))
            })
            .collect()
    };
    let id = |at| graph.node(at).id.to_string();
    let contents = Contents {
        name: graph.name.to_string(),
        graph: values(&graph.attributes),
        nodes: graph
            .nodes
            .iter()
            .map(|node| (node.id.to_string(), values(&node.attributes)))
            .collect(),
        edges: graph
            .edges
            .iter()
            .map(|edge| (id(edge.from), id(edge.to), values(&edge.attributes)))
            .collect(),
    };
    Some((contents, graph))
}

/// Reads a text with the other parser.
fn theirs(text: &str) -> Result<Contents, String> {
    let ForeignGraph::DiGraph { id, stmts, .. } = graphviz_rust::parse(text)? else {
        return Err("not a digraph".to_owned());
    };
    let mut reading = Reading::default();
    reading.contents.name = match &id {
        Id::Anonymous(_) => String::new(),
        named => plain(named),
    };
    reading.statements(&stmts, &mut Defaults::default(), true);
    Ok(reading.contents)
}

#[derive(Clone, Default)]
struct Defaults {
    node: Values,
    edge: Values,
}

#[derive(Default)]
struct Reading {
    contents: Contents,
    positions: HashMap<String, usize>,
}

impl Reading {
    fn statements(&mut self, statements: &[Stmt], defaults: &mut Defaults, outermost: bool) {
        for statement in statements {
            match statement {
                Stmt::Node(node) => {
                    let at = self.node(&node.id, defaults);
                    set(&mut self.contents.nodes[at].1, &node.attributes);
                }
                Stmt::Edge(edge) => {
                    let ends = match &edge.ty {
                        EdgeTy::Pair(from, to) => vec![from, to],
                        EdgeTy::Chain(all) => all.iter().collect(),
                    };
                    let ends: Vec<String> = ends
                        .into_iter()
                        .map(|end| match end {
                            Vertex::N(id) => {
                                let at = self.node(id, defaults);
                                self.contents.nodes[at].0.clone()
                            }
                            Vertex::S(group) => panic!("our language refuses {group:?} (rule L1)"),
                        })
                        .collect();
                    for pair in ends.windows(2) {
                        let mut values = defaults.edge.clone();
                        set(&mut values, &edge.attributes);
                        self.contents
                            .edges
                            .push((pair[0].clone(), pair[1].clone(), values));
                    }
                }
                Stmt::Subgraph(inner) => self.statements(&inner.stmts, &mut defaults.clone(), false),
                Stmt::GAttribute(GraphAttributes::Node(attributes)) => set(&mut defaults.node, attributes),
                Stmt::GAttribute(GraphAttributes::Edge(attributes)) => set(&mut defaults.edge, attributes),
                Stmt::GAttribute(GraphAttributes::Graph(attributes)) if outermost => {
                    set(&mut self.contents.graph, attributes);
                }
                Stmt::Attribute(attribute) if outermost => {
                    set(&mut self.contents.graph, std::slice::from_ref(attribute));
                }
                Stmt::GAttribute(GraphAttributes::Graph(_)) | Stmt::Attribute(_) => {}
            }
        }
    }

    /// Returns the position of a node, which the text may name for the first time.
    fn node(&mut self, NodeId(id, port): &NodeId, defaults: &Defaults) -> usize {
        assert!(port.is_none(), "our language refuses ports (rule L1): {port:?}");
        let id = plain(id);
        let nodes = &mut self.contents.nodes;
        *self.positions.entry(id.clone()).or_insert_with(|| {
            nodes.push((id, defaults.node.clone()));
            nodes.len() - 1
        })
    }
}

fn set(values: &mut Values, attributes: &[Attribute]) {
    for Attribute(key, value) in attributes {
        values.insert(plain(key), plain(value));
    }
}

fn plain(id: &Id) -> String {
    match id {
        Id::Plain(text) | Id::Escaped(text) => unquoted(text),
        Id::Html(text) | Id::Anonymous(text) => panic!("our language refuses {text} (rule L1)"),
    }
}

/// Returns the text that a word or a string stands for (rule L5).
fn unquoted(written: &str) -> String {
    let Some(inner) = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return written.to_owned();
    };
    let mut out = String::new();
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match (character, characters.clone().next()) {
            ('\\', Some(escaped @ ('"' | '\\' | 'n' | 't'))) => {
                characters.next();
                out.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                });
            }
            _ => out.push(character),
        }
    }
    out
}

/// Quotes the words that plain DOT does not know: those with a dot, colon or hyphen, and numbers with a unit. The other
/// parser also refuses numbers with a leading zero, and keywords with capitals, so the former are quoted and the latter
/// are lowered.
fn quoted_for_plain_dot(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            _ => 0,
        };
        if length > 0 {
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        let word = word_length(rest);
        if word == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (found, after) = rest.split_at(word);
        let identifier = found.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !found.starts_with(|c: char| c.is_ascii_digit());
        let lowered = found.to_ascii_lowercase();
        if KEYWORDS.contains(&&*lowered) {
            out.push_str(&lowered);
        } else if identifier || is_plain_number(found) {
            out.push_str(found);
        } else {
            out.push_str(&format!("\"{found}\""));
        }
        rest = after;
    }
    out
}

const KEYWORDS: [&str; 6] = ["strict", "graph", "digraph", "node", "edge", "subgraph"];

fn is_plain_number(word: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = word.strip_prefix('-').unwrap_or(word);
    let (whole, fraction) = unsigned
        .split_once('.')
        .map_or((unsigned, None), |(whole, fraction)| (whole, Some(fraction)));
    let has_whole = digits(whole) && (whole == "0" || !whole.starts_with('0'));
    match fraction {
        Some(fraction) => digits(fraction) && (whole.is_empty() || has_whole),
        None => has_whole,
    }
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

fn word_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let inside = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' => true,
            b'-' => bytes.get(at + 1).is_some_and(|next| !matches!(next, b'>' | b'-')),
            b'+' => at == 0,
            b':' => at > 0,
            _ => false,
        };
        if !inside {
            break;
        }
        at += 1;
    }
    at
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned()
}

/// Collects the pipelines below a folder.
fn pipelines(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                pipelines(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "dot") {
            found.push(path);
        }
    }
}

fn assert_agreement(name: &str, text: &str) -> bool {
    let Some((own, graph)) = ours(text) else {
        return false;
    };
    let plain = quoted_for_plain_dot(text);
    let other = theirs(&plain).unwrap_or_else(|error| panic!("{name}: {error}\n{plain}"));
    assert_eq!(own, other, "{name}\n{text}");
    let picture = orchestra_picture::dot(&graph, &PictureOptions::default());
    let drawn = theirs(&picture).unwrap_or_else(|error| panic!("{name}: {error}\n{picture}"));
    let mut ids: Vec<&String> = drawn.nodes.iter().map(|(id, _)| id).collect();
    let mut expected: Vec<&String> = own.nodes.iter().map(|(id, _)| id).collect();
    ids.sort();
    expected.sort();
    assert_eq!(ids, expected, "{name}\n{picture}");
    let ends = |contents: &Contents| -> Vec<(String, String)> {
        let edges = contents.edges.iter();
        edges.map(|(from, to, _)| (from.clone(), to.clone())).collect()
    };
    assert_eq!(ends(&drawn), ends(&own), "{name}\n{picture}");
    true
}

#[test]
fn another_parser_finds_the_same_in_each_pipeline_of_the_repository() {
    let mut files = Vec::new();
    for folder in ["examples", "orchestra", "tests"] {
        pipelines(&repository().join(folder), &mut files);
    }
    let read = files.iter().filter(|path| {
        let text = fs::read_to_string(path);
        text.is_ok_and(|text| assert_agreement(&path.display().to_string(), &text))
    });
    let read = read.count();
    assert!(
        read > 60,
        "only {read} of {} pipelines were compared",
        files.len()
    );
}

#[test]
fn another_parser_finds_the_same_in_random_pipelines() {
    let count = case_count(300);
    let read =
        cases(seed(1), count).filter(|case| assert_agreement(&format!("seed {}", case.seed), &case.dot));
    assert_eq!(read.count(), count);
}
