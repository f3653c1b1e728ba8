//! Handlers in Rust: where a program defines the handler of a type, and how often it names a node.

use std::str::FromStr;

use orchestra_graph::{OccurrenceRole, Span, Symbol};
use proc_macro2::{Delimiter, TokenStream, TokenTree, extra};

use crate::files::Files;
use crate::paths::folder;
use crate::place::{MAX_BYTES, MAX_SEARCHED, Place};

/// Returns the Rust files of the workspace of a file, with their texts.
fn programs<'f>(files: &'f Files<'_>, path: &str) -> impl Iterator<Item = (String, String)> + 'f {
    let listed = files
        .host
        .list(&files.root(path), &["rs"], MAX_SEARCHED)
        .into_iter();
    listed.filter_map(|path| {
        let bytes = files.read(&path, MAX_BYTES).ok()?;
        Some((path, String::from_utf8(bytes).ok()?))
    })
}

/// Returns the places of the attributes `#[handler("KIND")]`.
pub(crate) fn handlers(files: &Files<'_>, path: &str, kind: &str) -> Vec<Place> {
    let needle = format!("handler(\"{kind}\"");
    let mut found = Vec::new();
    for (path, text) in programs(files, path) {
        if !text.contains(&needle) {
            continue;
        }
        // A comment or a string may contain the same text, so only attributes among the tokens count.
        let mut spans = Vec::new();
        if let Ok(tokens) = TokenStream::from_str(&text) {
            find_attributes(tokens, &format!("\"{kind}\""), &mut spans);
        }
        // The spans of all files that were read would stay in memory otherwise.
        extra::invalidate_current_thread_spans();
        found.extend(spans.into_iter().map(|span| Place {
            path: path.clone(),
            span,
            role: OccurrenceRole::Declaration,
            symbol: Symbol::Kind(kind.to_owned()),
        }));
    }
    found
}

/// Finds the first arguments of the attributes `#[handler(LITERAL)]`, without their quotes.
fn find_attributes(tokens: TokenStream, literal: &str, spans: &mut Vec<Span>) {
    let mut after_mark = false;
    for token in tokens {
        let is_mark = matches!(&token, TokenTree::Punct(mark) if mark.as_char() == '#');
        if let TokenTree::Group(group) = token {
            if after_mark && group.delimiter() == Delimiter::Bracket {
                spans.extend(handler_argument(group.stream(), literal));
            }
            find_attributes(group.stream(), literal, spans);
        }
        after_mark = is_mark;
    }
}

fn handler_argument(attribute: TokenStream, literal: &str) -> Option<Span> {
    let mut tokens = attribute.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_handler = matches!(&token, TokenTree::Ident(ident) if ident == "handler");
        if let (true, Some(TokenTree::Group(arguments))) = (is_handler, tokens.peek()) {
            return match arguments.stream().into_iter().next()? {
                TokenTree::Literal(first) if first.to_string() == literal => {
                    let range = first.span().byte_range();
                    Some(Span::new(
                        range.start as u32 + 1,
                        (range.end as u32).saturating_sub(1),
                    ))
                }
                _ => None,
            };
        }
    }
    None
}

/// Returns how often the Rust programs beside and below a pipeline name a node, as `Node::X` or `nodes::X`, or a context
/// key, an outcome or a label, as a string.
pub(crate) fn uses_in_rust(files: &Files<'_>, pipeline: &str, symbol: &Symbol) -> usize {
    let inside = format!("{}/", folder(pipeline));
    let near = programs(files, pipeline).filter(|(path, _)| path.starts_with(&inside));
    match symbol {
        Symbol::Node(id) => near.map(|(_, text)| uses_of_node(&text, id)).sum(),
        Symbol::Key(key) | Symbol::Outcome(key) | Symbol::Label { label: key, .. } => {
            let literal = format!("\"{key}\"");
            near.map(|(_, text)| text.matches(&literal).count()).sum()
        }
        _ => 0,
    }
}

fn uses_of_node(text: &str, id: &str) -> usize {
    // The program names `run_tests` as `RunTests`.
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let wanted = plain(id);
    let names = ["Node::", "nodes::"].into_iter().flat_map(|prefix| {
        text.split(prefix).skip(1).map(|rest| {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
        })
    });
    names.filter(|name| plain(name) == wanted).count()
}
