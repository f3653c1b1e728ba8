//! Code actions: the changes that fix diagnostics.

use std::collections::HashMap;

use orchestra_graph::{Diagnostic, Fix, Report, Span};

use crate::diagnostics::converted;
use crate::protocol::{
    CodeAction, CodeActionKind, Diagnostic as ProtocolDiagnostic, Range, TextEdit, Uri, WorkspaceEdit,
};
use crate::text::{Encoding, Text};

/// A document with everything that is reported about it.
pub(crate) struct Reported {
    pub(crate) uri: Uri,
    pub(crate) reports: Vec<Report>,
    pub(crate) encoding: Encoding,
}

/// A fix of a diagnostic, as the client gets it.
struct Found<'r> {
    diagnostic: &'r Diagnostic,
    fix: &'r Fix,
    text: &'r str,
    shown: ProtocolDiagnostic,
    edit: TextEdit,
    /// `true` if the diagnostic touches the range for which the client requests actions.
    touches: bool,
}

impl Found<'_> {
    /// Returns whether the fix is surely meant. A text that is only inserted is a guess at what is missing.
    fn is_certain(&self) -> bool {
        !self.fix.span.is_empty()
    }
}

/// Returns the fixes of the diagnostics that touch a range, and one action with all certain fixes of the document. A hint
/// in prose is no action. `only` lists the kinds of actions that the client wants; `None` means all kinds.
pub(crate) fn actions(document: &Reported, range: Range, only: Option<&[CodeActionKind]>) -> Vec<CodeAction> {
    let is_wanted =
        |kind: &CodeActionKind| only.is_none_or(|only| only.iter().any(|only| contains(only, kind)));
    let texts: Vec<Text> = document
        .reports
        .iter()
        .map(|report| Text::new(report.source.text()))
        .collect();
    let found = fixes(document, &texts, range);
    let mut actions = Vec::new();
    if is_wanted(&CodeActionKind::QUICKFIX) {
        let touched = found.iter().filter(|found| found.touches);
        actions.extend(touched.map(|found| quick_fix(document, found)));
    }
    // If the client requests no kind, an action for the whole file is offered beside those for the range.
    let certain = found.iter().filter(|found| found.is_certain()).count();
    let is_asked = only.is_some() || certain > 1 && !actions.is_empty();
    if is_asked && is_wanted(&CodeActionKind::SOURCE_FIX_ALL) {
        actions.extend(fix_all(document, &found));
    }
    actions
}

/// Returns whether a kind is another one or a part of it, as `source.fixAll` is of `source`.
fn contains(whole: &CodeActionKind, part: &CodeActionKind) -> bool {
    let rest = part.as_str().strip_prefix(whole.as_str());
    whole.as_str().is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns all fixes of a document. Two pipelines may report the same diagnostic of a file that they share.
fn fixes<'r>(document: &'r Reported, texts: &'r [Text], range: Range) -> Vec<Found<'r>> {
    let mut all: Vec<Found<'r>> = Vec::new();
    for (report, text) in document.reports.iter().zip(texts) {
        let wanted = text.span(range, document.encoding);
        let shown = converted(report, &document.uri, document.encoding);
        for (diagnostic, shown) in report.diagnostics.iter().zip(shown) {
            let Some(fix) = &diagnostic.fix else {
                continue;
            };
            let is_same =
                |known: &Found<'_>| known.fix == fix && known.diagnostic.message == diagnostic.message;
            if all.iter().any(is_same) {
                continue;
            }
            let edit = TextEdit::new(text.range(fix.span, document.encoding), fix.replacement.clone());
            all.push(Found {
                diagnostic,
                fix,
                text: text.as_str(),
                shown,
                edit,
                touches: touches(diagnostic.span, wanted),
            });
        }
    }
    all
}

fn quick_fix(document: &Reported, found: &Found<'_>) -> CodeAction {
    CodeAction {
        title: title(found),
        kind: Some(CodeActionKind::QUICKFIX),
        diagnostics: Some(vec![found.shown.clone()]),
        edit: Some(edits(document, vec![found.edit.clone()])),
        is_preferred: Some(found.is_certain()),
        ..CodeAction::default()
    }
}

/// Returns the action that applies all certain fixes, except those that overlap an earlier one. Returns `None` if there
/// is no such fix.
fn fix_all(document: &Reported, found: &[Found<'_>]) -> Option<CodeAction> {
    let mut certain: Vec<&Found<'_>> = found.iter().filter(|found| found.is_certain()).collect();
    certain.sort_by_key(|found| found.fix.span);
    let mut end = 0;
    certain.retain(|found| {
        let is_behind = found.fix.span.start >= end;
        if is_behind {
            end = found.fix.span.end;
        }
        is_behind
    });
    let list: Vec<TextEdit> = certain.iter().map(|found| found.edit.clone()).collect();
    (!list.is_empty()).then(|| CodeAction {
        title: "fix all in this file".to_owned(),
        kind: Some(CodeActionKind::SOURCE_FIX_ALL),
        diagnostics: Some(certain.iter().map(|found| found.shown.clone()).collect()),
        edit: Some(edits(document, list)),
        ..CodeAction::default()
    })
}

fn edits(document: &Reported, edits: Vec<TextEdit>) -> WorkspaceEdit {
    #[expect(
        clippy::mutable_key_type,
        reason = "the type of the protocol; nothing changes the keys"
    )]
    let changes = HashMap::from([(document.uri.clone(), edits)]);
    WorkspaceEdit::new(changes)
}

fn touches(a: Span, b: Span) -> bool {
    a.start <= b.end && b.start <= a.end
}

/// Returns the title of a fix, such as "replace `Buidl` with `Build`".
fn title(found: &Found<'_>) -> String {
    let Fix { span, replacement } = found.fix;
    let old = found
        .text
        .get(span.start as usize..span.end as usize)
        .unwrap_or_default();
    let short = |text: &str| {
        let text = text.trim();
        let line = text.lines().next().unwrap_or_default();
        match line.char_indices().nth(40) {
            Some((end, _)) => format!("{}..", line.get(..end).unwrap_or_default()),
            None if line.len() < text.len() => format!("{line}.."),
            None => line.to_owned(),
        }
    };
    match (short(old), short(replacement)) {
        (old, new) if old.is_empty() && new.is_empty() => format!("fix `{}`", found.diagnostic.code),
        (old, new) if new.is_empty() => format!("remove `{old}`"),
        (old, new) if old.is_empty() => format!("insert `{new}`"),
        (old, new) => format!("replace `{old}` with `{new}`"),
    }
}
