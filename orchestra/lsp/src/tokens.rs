//! Semantic tokens: colours that depend on the meaning of a word.

use orchestra_graph::ast::{Attribute, DefaultsTarget, Identifier, Statement};
use orchestra_graph::{Span, Value};

use crate::cursor::Opened;
use crate::protocol::{SemanticToken, SemanticTokenModifier, SemanticTokenType, SemanticTokensLegend};

/// The kinds of tokens, in the order of the legend.
#[derive(Clone, Copy)]
enum Kind {
    Keyword,
    Graph,
    Node,
    Attribute,
    Text,
    Number,
    Word,
    Comment,
}

const KINDS: [SemanticTokenType; 8] = [
    SemanticTokenType::KEYWORD,
    SemanticTokenType::NAMESPACE,
    SemanticTokenType::FUNCTION,
    SemanticTokenType::PROPERTY,
    SemanticTokenType::STRING,
    SemanticTokenType::NUMBER,
    SemanticTokenType::ENUM_MEMBER,
    SemanticTokenType::COMMENT,
];

/// The bit of the modifier `declaration`.
const DECLARATION: u32 = 1;

/// Returns the legend of the tokens.
pub(crate) fn legend() -> SemanticTokensLegend {
    SemanticTokensLegend {
        token_types: KINDS.to_vec(),
        token_modifiers: vec![SemanticTokenModifier::DECLARATION],
    }
}

/// Returns the tokens of a pipeline.
pub(crate) fn tokens(opened: &Opened) -> Vec<SemanticToken> {
    let file = &opened.analysis.loaded.file;
    let mut list = List::default();
    list.add(file.keyword, Kind::Keyword, 0);
    list.identifier(file.name.as_ref(), Kind::Graph, DECLARATION);
    list.statements(&file.statements);
    list.0.extend(
        file.comments
            .iter()
            .map(|comment| (comment.span, Kind::Comment, 0)),
    );
    list.0.sort_by_key(|(span, ..)| *span);
    encode(opened, &list.0)
}

#[derive(Default)]
struct List(Vec<(Span, Kind, u32)>);

impl List {
    fn add(&mut self, span: Span, kind: Kind, modifiers: u32) {
        self.0.push((span, kind, modifiers));
    }

    fn identifier(&mut self, identifier: Option<&Identifier>, kind: Kind, modifiers: u32) {
        if let Some(identifier) = identifier {
            self.add(identifier.span, kind, modifiers);
        }
    }

    /// Adds a keyword that begins at an offset.
    fn keyword(&mut self, start: u32, word: &str) {
        self.add(Span::new(start, start + word.len() as u32), Kind::Keyword, 0);
    }

    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Assignment(attribute) => self.attributes(std::slice::from_ref(attribute)),
                Statement::Defaults(defaults) => {
                    let word = match defaults.target {
                        DefaultsTarget::Graph => "graph",
                        DefaultsTarget::Node => "node",
                        DefaultsTarget::Edge => "edge",
                    };
                    self.keyword(defaults.span.start, word);
                    self.attributes(&defaults.attributes);
                }
                Statement::Node(node) => {
                    self.add(node.id.span, Kind::Node, DECLARATION);
                    self.attributes(&node.attributes);
                }
                Statement::Edge(edge) => {
                    for node in &edge.nodes {
                        self.add(node.span, Kind::Node, 0);
                    }
                    self.attributes(&edge.attributes);
                }
                Statement::Subgraph(subgraph) => {
                    if subgraph.span.start < subgraph.body.start {
                        self.keyword(subgraph.span.start, "subgraph");
                    }
                    self.identifier(subgraph.name.as_ref(), Kind::Graph, DECLARATION);
                    self.statements(&subgraph.statements);
                }
            }
        }
    }

    fn attributes(&mut self, attributes: &[Attribute]) {
        for attribute in attributes {
            self.add(attribute.key.span, Kind::Attribute, 0);
            let kind = match &attribute.value {
                _ if attribute.quoted => Kind::Text,
                Value::Integer(_) | Value::Float(_) | Value::Duration(_) => Kind::Number,
                Value::Boolean(_) => Kind::Keyword,
                _ => Kind::Word,
            };
            self.add(attribute.value_span, kind, 0);
        }
    }
}

/// Encodes tokens relative to each other. A token of several lines is split, since many clients support no others.
fn encode(opened: &Opened, list: &[(Span, Kind, u32)]) -> Vec<SemanticToken> {
    let text = opened.text.as_str();
    let mut encoded = Vec::with_capacity(list.len());
    let (mut line, mut character, mut end) = (0, 0, 0);
    for (span, kind, modifiers) in list {
        // A syntax error may leave parts that overlap.
        if span.start < end || span.is_empty() {
            continue;
        }
        end = span.end;
        let mut start = span.start;
        for part in text
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default()
            .split_inclusive(['\n', '\r'])
        {
            let content = part.trim_end_matches(['\n', '\r']);
            if !content.is_empty() {
                let position = opened.text.position(start, opened.encoding);
                let delta_line = position.line - line;
                encoded.push(SemanticToken {
                    delta_line,
                    delta_start: if delta_line == 0 {
                        position.character - character
                    } else {
                        position.character
                    },
                    length: opened.encoding.length(content),
                    token_type: *kind as u32,
                    token_modifiers_bitset: *modifiers,
                });
                (line, character) = (position.line, position.character);
            }
            start += part.len() as u32;
        }
    }
    encoded
}
