//! The names and texts that fit at a position, and the span that they replace.

use orchestra_graph::{
    ConditionNames, Cursor, NodeIndex, Span, graph_choices, is_identifier, kind, label_text, value_range,
};

use crate::cursor::Opened;
use crate::files::Files;
use crate::markdown::{kind_doc, markup};
use crate::protocol::{
    CompletionItem, CompletionItemKind, CompletionTextEdit, Documentation, InsertTextFormat, Range, TextEdit,
};
use crate::snippets::expanded;

/// A name or a text that fits at the position.
pub(crate) struct Candidate {
    pub(crate) label: String,
    pub(crate) kind: CompletionItemKind,
    /// A short description beside the label.
    pub(crate) detail: String,
    /// The documentation in Markdown; may be empty.
    pub(crate) doc: String,
    /// The text that is inserted; the label if it is `None`.
    pub(crate) insert: Option<String>,
    /// `true` if the inserted text has placeholders.
    pub(crate) is_snippet: bool,
    /// The place in the list: candidates of a lower rank come first.
    pub(crate) rank: u8,
}

impl Candidate {
    pub(crate) fn new(
        label: impl Into<String>,
        kind: CompletionItemKind,
        detail: impl Into<String>,
    ) -> Candidate {
        Candidate {
            label: label.into(),
            kind,
            detail: detail.into(),
            doc: String::new(),
            insert: None,
            is_snippet: false,
            rank: 1,
        }
    }

    pub(crate) fn doc(mut self, doc: impl Into<String>) -> Candidate {
        self.doc = doc.into();
        self
    }

    pub(crate) fn rank(mut self, rank: u8) -> Candidate {
        self.rank = rank;
        self
    }

    pub(crate) fn insert(mut self, insert: impl Into<String>) -> Candidate {
        self.insert = Some(insert.into());
        self
    }

    pub(crate) fn snippet(mut self, insert: String) -> Candidate {
        self.insert = Some(insert);
        self.is_snippet = true;
        self
    }
}

/// The candidates for a position, and the span that they replace.
pub(crate) struct Candidates {
    pub(crate) list: Vec<Candidate>,
    pub(crate) replaced: Span,
}

/// The position of a completion, with what it reads.
pub(crate) struct Completing<'c> {
    pub(crate) opened: &'c Opened,
    pub(crate) files: &'c Files<'c>,
    pub(crate) offset: u32,
    pub(crate) cursor: &'c Cursor,
}

/// Converts candidates to items of the protocol. For a client that does not replace placeholders, their defaults are
/// inserted.
pub(crate) fn items(
    found: Candidates,
    range: impl Fn(Span) -> Range,
    placeholders: bool,
) -> Vec<CompletionItem> {
    let replaced = range(found.replaced);
    let candidates = found.list.into_iter().enumerate();
    candidates
        .map(|(at, candidate)| {
            let mut text = candidate.insert.unwrap_or_else(|| candidate.label.clone());
            if candidate.is_snippet && !placeholders {
                text = expanded(&text);
            }
            let documentation =
                (!candidate.doc.is_empty()).then(|| Documentation::MarkupContent(markup(candidate.doc)));
            CompletionItem {
                sort_text: Some(format!("{}{at:05}", candidate.rank)),
                filter_text: Some(candidate.label.clone()),
                label: candidate.label,
                kind: Some(candidate.kind),
                detail: (!candidate.detail.is_empty()).then_some(candidate.detail),
                documentation,
                insert_text_format: Some(if candidate.is_snippet && placeholders {
                    InsertTextFormat::SNIPPET
                } else {
                    InsertTextFormat::PLAIN_TEXT
                }),
                text_edit: Some(CompletionTextEdit::Edit(TextEdit {
                    range: replaced,
                    new_text: text,
                })),
                ..CompletionItem::default()
            }
        })
        .collect()
}

impl Completing<'_> {
    /// Returns the names that the conditions of a node may use.
    pub(crate) fn names(&self, node: Option<NodeIndex>) -> ConditionNames {
        let none = NodeIndex(u32::MAX);
        self.opened.analysis.loaded.condition_names(node.unwrap_or(none))
    }

    /// Returns the text of the value after the position, to the end of the word or string.
    pub(crate) fn after(&self) -> &str {
        let text = self.opened.analysis.loaded.source.text();
        text.get(self.offset as usize..self.cursor.word.end as usize)
            .unwrap_or_default()
    }

    /// Returns candidates that replace the part of a quoted value at the position: the word so far, and what follows it
    /// without a break.
    pub(crate) fn part(&self, list: Vec<Candidate>, word: &str) -> Candidates {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | ':');
        self.part_of(list, word, is_part)
    }

    /// Like [`part`](Completing::part), for words of these characters.
    pub(crate) fn part_of(
        &self,
        mut list: Vec<Candidate>,
        word: &str,
        is_part: impl Fn(char) -> bool,
    ) -> Candidates {
        let source = &self.opened.analysis.loaded.source;
        let blank = self.after().len() - self.after().trim_start_matches([' ', '\t']).len();
        if word.is_empty() && blank > 0 && precedes_operand(self.after()) {
            // The operand that belongs here is written already.
            list.clear();
        }
        let literal = Span::new(self.cursor.word.start.saturating_sub(1), self.offset);
        let start = if word.is_empty() || word.contains('\n') {
            self.offset
        } else {
            let before = decoded_length(source.slice(Span::new(self.cursor.word.start, self.offset)));
            value_range(source, literal, before.saturating_sub(word.len())..before).start
        };
        let rest = self.after();
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let end = self.offset + u32::try_from(length).unwrap_or_default();
        first(&mut list, source.slice(Span::new(start.min(self.offset), end)));
        let is_one_line = !source.slice(Span::new(start, self.offset)).contains('\n');
        let list = list.into_iter().map(|mut candidate| {
            let text = candidate.insert.take().unwrap_or_else(|| candidate.label.clone());
            candidate.insert = Some(written(&text, true));
            candidate
        });
        Candidates {
            list: list.collect(),
            replaced: Span::new(
                if is_one_line {
                    start.min(self.offset)
                } else {
                    self.offset
                },
                end,
            ),
        }
    }

    /// Returns candidates that replace the whole word at the position.
    pub(crate) fn whole(&self, mut list: Vec<Candidate>) -> Candidates {
        let word = self.cursor.word;
        let text = self.opened.analysis.loaded.source.slice(word);
        first(&mut list, text);
        // A string that is not closed yet reaches to another line.
        let replaced = if text.contains(['\n', ']', '[']) {
            Span::new(word.start, self.offset)
        } else {
            word
        };
        let before = Span::new(replaced.start, self.offset);
        let is_one_line = !self.opened.analysis.loaded.source.slice(before).contains('\n');
        Candidates {
            list,
            replaced: if is_one_line {
                replaced
            } else {
                Span::new(self.offset, self.offset)
            },
        }
    }

    /// Returns the nodes of the pipeline as candidates.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (NodeIndex, Candidate)> {
        let loaded = &self.opened.analysis.loaded;
        let analysis = loaded.analysis();
        loaded.graph.indexed_nodes().map(move |(at, node)| {
            let kind = analysis.kind(at);
            let mut candidate = Candidate::new(&*node.id, CompletionItemKind::CLASS, kind::title(kind));
            if node.label() != &*node.id {
                candidate.doc = node.label().to_owned();
            }
            (at, candidate)
        })
    }
}

/// Moves the candidate that is written already to the first place.
fn first(list: &mut Vec<Candidate>, word: &str) {
    if let Some(at) = list.iter().position(|candidate| candidate.label == word) {
        let own = list.remove(at).rank(0);
        list.insert(0, own);
    }
}

/// Returns whether a text begins with a word or a string, after white space of the same line at most.
pub(crate) fn precedes_operand(text: &str) -> bool {
    let rest = text.trim_start_matches([' ', '\t']);
    rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '"' | '\'' | '\\' | '#' | '*' | '.'))
}

/// Returns the length of a text without its escapes.
fn decoded_length(text: &str) -> usize {
    let mut length = 0;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        length += character.len_utf8();
        if character == '\\' {
            match characters.next() {
                Some('"' | 'n' | 't' | '\\') | None => {}
                Some(other) => length += other.len_utf8(),
            }
        }
    }
    length
}

/// Returns a text as it is written as a value.
pub(crate) fn written(text: &str, quoted: bool) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    let is_word = is_identifier(text) && !text.is_empty();
    if quoted || is_word {
        escaped
    } else {
        format!("\"{escaped}\"")
    }
}

/// Returns the labels and keys of the choices of a human gate.
pub(crate) fn labels(completing: &Completing<'_>, gate: NodeIndex) -> Vec<Candidate> {
    let loaded = &completing.opened.analysis.loaded;
    let mut list = Vec::new();
    for choice in graph_choices(&loaded.analysis(), gate) {
        let to = &loaded.graph.node(choice.to).id;
        let detail = format!("leads to {to}");
        let plain = label_text(&choice.label).to_owned();
        list.push(Candidate::new(plain, CompletionItemKind::ENUM_MEMBER, detail));
    }
    list
}

/// Returns a kind of handler as a candidate.
pub(crate) fn kind_candidate(of: &str) -> Candidate {
    Candidate::new(of, CompletionItemKind::ENUM_MEMBER, kind::title(of)).doc(kind_doc(of))
}

/// Returns the declared context values as candidates.
pub(crate) fn declared_keys(completing: &Completing<'_>, node: Option<NodeIndex>) -> Vec<Candidate> {
    let names = completing.names(node);
    let context = names.keys.into_iter().filter_map(|(key, doc)| {
        let key = key.strip_prefix("context.")?.to_owned();
        Some(Candidate::new(key, CompletionItemKind::VARIABLE, "context value").doc(doc))
    });
    context.collect()
}
