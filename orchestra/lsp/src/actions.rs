//! Code actions: the changes that fix diagnostics.

use std::collections::HashMap;

use orchestra_graph::{Diagnostic, Span};

use crate::cursor::Opened;
use crate::diagnostics::converted;
use crate::protocol::{CodeAction, CodeActionKind, Range, TextEdit, WorkspaceEdit};

/// Returns the fixes of the diagnostics that touch a range. A hint in prose is no action.
pub(crate) fn fixes(opened: &Opened, range: Range) -> Vec<CodeAction> {
    let wanted = opened.span(range);
    let own = |path: &str| path == opened.path;
    let reports = opened
        .analysis
        .reports
        .iter()
        .filter(|report| own(&opened.analysis.path(report)));
    let mut actions = Vec::new();
    for report in reports {
        let diagnostics = converted(report, &opened.uri, opened.encoding);
        for (diagnostic, shown) in report.diagnostics.iter().zip(diagnostics) {
            let Some(fix) = diagnostic
                .fix
                .as_ref()
                .filter(|_| touches(diagnostic.span, wanted))
            else {
                continue;
            };
            let edit = TextEdit::new(opened.range(fix.span), fix.replacement.clone());
            actions.push(CodeAction {
                title: title(opened, diagnostic, fix.span, &fix.replacement),
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(vec![shown]),
                edit: Some(edits(opened, vec![edit])),
                // A text that is only inserted is a guess at what is missing.
                is_preferred: Some(!fix.span.is_empty()),
                ..CodeAction::default()
            });
        }
    }
    actions
}

fn edits(opened: &Opened, edits: Vec<TextEdit>) -> WorkspaceEdit {
    #[expect(
        clippy::mutable_key_type,
        reason = "the type of the protocol; nothing changes the keys"
    )]
    let changes = HashMap::from([(opened.uri.clone(), edits)]);
    WorkspaceEdit::new(changes)
}

fn touches(a: Span, b: Span) -> bool {
    a.start <= b.end && b.start <= a.end
}

/// Returns the title of a fix, such as "replace `Buidl` with `Build`".
fn title(opened: &Opened, diagnostic: &Diagnostic, span: Span, replacement: &str) -> String {
    let old = opened
        .text
        .as_str()
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
        (old, new) if old.is_empty() && new.is_empty() => format!("fix `{}`", diagnostic.code),
        (old, new) if new.is_empty() => format!("remove `{old}`"),
        (old, new) if old.is_empty() => format!("insert `{new}`"),
        (old, new) => format!("replace `{old}` with `{new}`"),
    }
}
