//! The outline of a pipeline, and the parts that an editor can fold.

use orchestra_graph::ast::{Attribute, Identifier, Statement};
use orchestra_graph::{Analysis, Span};

use crate::cursor::Opened;
use crate::protocol::{DocumentSymbol, FoldingRange, FoldingRangeKind, SymbolKind};

/// Returns the outline: the graph with its nodes and subgraphs.
pub(crate) fn symbols(opened: &Opened) -> Vec<DocumentSymbol> {
    let loaded = &opened.analysis.loaded;
    let analysis = loaded.analysis();
    let children = statements(opened, &analysis, &loaded.file.statements);
    let file = &loaded.file;
    if file.keyword.is_empty() && children.is_empty() {
        return Vec::new();
    }
    let (name, selection) = name(file.name.as_ref(), "digraph", file.keyword);
    let goal = loaded
        .graph
        .attributes
        .find("goal")
        .and_then(|goal| goal.value.as_str());
    vec![symbol(
        opened,
        name,
        goal.map(str::to_owned),
        SymbolKind::MODULE,
        [file.keyword.to(selection).to(file.body), selection],
        children,
    )]
}

fn statements(opened: &Opened, analysis: &Analysis<'_>, list: &[Statement]) -> Vec<DocumentSymbol> {
    let mut symbols = Vec::new();
    for statement in list {
        match statement {
            Statement::Node(node) => {
                let index = analysis.graph().find(&node.id.text);
                let kind = index.map_or("", |index| analysis.kind(index));
                symbols.push(symbol(
                    opened,
                    node.id.text.to_string(),
                    Some(kind.to_owned()),
                    symbol_kind(kind),
                    [node.span, node.id.span],
                    Vec::new(),
                ));
            }
            Statement::Subgraph(subgraph) => {
                let label = attribute(&subgraph.statements, "label");
                let keyword = Span::new(subgraph.span.start, subgraph.body.start.max(subgraph.span.start));
                let (name, selection) = name(subgraph.name.as_ref(), "subgraph", keyword);
                symbols.push(symbol(
                    opened,
                    name,
                    label,
                    SymbolKind::NAMESPACE,
                    [subgraph.span, selection],
                    statements(opened, analysis, &subgraph.statements),
                ));
            }
            _ => {}
        }
    }
    symbols
}

fn name(name: Option<&Identifier>, or: &str, span: Span) -> (String, Span) {
    match name {
        Some(name) if !name.text.trim().is_empty() => (name.text.to_string(), name.span),
        _ => (or.to_owned(), span),
    }
}

fn attribute(list: &[Statement], key: &str) -> Option<String> {
    list.iter().find_map(|statement| match statement {
        Statement::Assignment(attribute) if attribute.key.text == key => {
            attribute.value.as_str().map(str::to_owned)
        }
        _ => None,
    })
}

/// Returns the kind of symbol, and so the icon, for a kind of handler.
fn symbol_kind(kind: &str) -> SymbolKind {
    match kind {
        "start" | "exit" => SymbolKind::EVENT,
        "wait.human" => SymbolKind::INTERFACE,
        "conditional" => SymbolKind::OPERATOR,
        "parallel" | "parallel.fan_in" => SymbolKind::STRUCT,
        _ => SymbolKind::FUNCTION,
    }
}

#[expect(
    deprecated,
    reason = "the type has no constructor, and its deprecated field must be written"
)]
fn symbol(
    opened: &Opened,
    name: String,
    detail: Option<String>,
    kind: SymbolKind,
    [span, selection]: [Span; 2],
    children: Vec<DocumentSymbol>,
) -> DocumentSymbol {
    DocumentSymbol {
        // The protocol forbids a name that is empty or blank.
        name: if name.trim().is_empty() {
            "\"\"".to_owned()
        } else {
            name
        },
        detail,
        kind,
        tags: None,
        deprecated: None,
        range: opened.range(span.to(selection)),
        selection_range: opened.range(selection),
        children: Some(children),
    }
}

/// Returns the parts that an editor can fold: bodies, long statements, long values and comments.
pub(crate) fn folds(opened: &Opened) -> Vec<FoldingRange> {
    let file = &opened.analysis.loaded.file;
    let mut spans = vec![(file.body, None)];
    fold_statements(&file.statements, &mut spans);
    let mut comments: Option<Span> = None;
    for comment in &file.comments {
        let joined = comments.filter(|open| between(opened, *open, comment.span));
        if let (Some(open), None) = (comments, joined) {
            spans.push((open, Some(FoldingRangeKind::Comment)));
        }
        comments = Some(joined.map_or(comment.span, |open| open.to(comment.span)));
    }
    spans.extend(comments.map(|open| (open, Some(FoldingRangeKind::Comment))));
    let folds = spans.into_iter().filter_map(|(span, kind)| {
        let range = opened.range(span);
        let (start, end) = (range.start.line, range.end.line);
        (start < end).then_some(FoldingRange {
            start_line: start,
            start_character: Some(range.start.character),
            end_line: end,
            end_character: Some(range.end.character),
            kind,
            collapsed_text: None,
        })
    });
    let mut folds: Vec<FoldingRange> = folds.collect();
    // An editor folds at lines; several parts that begin in one line would hide each other.
    folds.sort_by_key(|fold| (fold.start_line, std::cmp::Reverse(fold.end_line)));
    folds.dedup_by_key(|fold| fold.start_line);
    folds
}

/// Returns whether only white space with at most one line end stands between two comments.
fn between(opened: &Opened, first: Span, second: Span) -> bool {
    let text = opened
        .text
        .as_str()
        .get(first.end as usize..second.start as usize)
        .unwrap_or("x");
    text.trim().is_empty() && text.matches('\n').count() <= 1
}

fn fold_statements(list: &[Statement], spans: &mut Vec<(Span, Option<FoldingRangeKind>)>) {
    let values = |attributes: &[Attribute]| {
        attributes
            .iter()
            .map(|attribute| attribute.value_span)
            .collect::<Vec<_>>()
    };
    for statement in list {
        spans.push((statement.span(), None));
        let inner = match statement {
            Statement::Assignment(_) => Vec::new(),
            Statement::Defaults(defaults) => values(&defaults.attributes),
            Statement::Node(node) => values(&node.attributes),
            Statement::Edge(edge) => values(&edge.attributes),
            Statement::Subgraph(subgraph) => {
                fold_statements(&subgraph.statements, spans);
                Vec::new()
            }
        };
        spans.extend(inner.into_iter().map(|span| (span, None)));
    }
}
