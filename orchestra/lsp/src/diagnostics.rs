//! Diagnostics of the protocol, and which of them the client has.

use std::collections::{BTreeMap, BTreeSet};

use orchestra_graph::{Diagnostic, Report, Severity};

use crate::protocol::{
    Diagnostic as ProtocolDiagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, DiagnosticTag,
    Location, NumberOrString, Uri,
};
use crate::text::{Encoding, Text};

/// The diagnostics whose span has no effect; editors grey it out.
const WITHOUT_EFFECT: &[&str] = &[
    "attribute_without_effect",
    "reachability",
    "shadowed_edge",
    "join_policy_unused",
];

/// The source of all diagnostics, which editors show beside their code.
const SOURCE: &str = "orchestra";

/// Converts the diagnostics of a report whose text has this URI.
pub(crate) fn converted(report: &Report, uri: &Uri, encoding: Encoding) -> Vec<ProtocolDiagnostic> {
    let text = Text::new(report.source.text());
    let convert = |diagnostic: &Diagnostic| {
        let related = diagnostic
            .related
            .iter()
            .map(|related| DiagnosticRelatedInformation {
                location: Location::new(uri.clone(), text.range(related.span, encoding)),
                message: related.label.clone(),
            });
        let related: Vec<_> = related.collect();
        ProtocolDiagnostic {
            range: text.range(diagnostic.span, encoding),
            severity: Some(severity(diagnostic.severity)),
            code: Some(NumberOrString::String(diagnostic.code.to_owned())),
            source: Some(SOURCE.to_owned()),
            message: message(diagnostic),
            related_information: (!related.is_empty()).then_some(related),
            tags: WITHOUT_EFFECT
                .contains(&diagnostic.code)
                .then(|| vec![DiagnosticTag::UNNECESSARY]),
            ..ProtocolDiagnostic::default()
        }
    };
    report.diagnostics.iter().map(convert).collect()
}

fn severity(severity: Severity) -> DiagnosticSeverity {
    match severity {
        Severity::Error => DiagnosticSeverity::ERROR,
        Severity::Warning => DiagnosticSeverity::WARNING,
        _ => DiagnosticSeverity::INFORMATION,
    }
}

/// Returns the whole text of a diagnostic: the message, the reasons and the hint.
fn message(diagnostic: &Diagnostic) -> String {
    let mut text = diagnostic.message.clone();
    if !diagnostic.label.is_empty() {
        text.push_str(&format!("\n{}", diagnostic.label));
    }
    for note in &diagnostic.notes {
        text.push_str(&format!("\nnote: {note}"));
    }
    if let Some(help) = &diagnostic.help {
        text.push_str(&format!("\nhelp: {help}"));
    }
    text
}

/// The diagnostics of one file.
pub(crate) type FileDiagnostics = BTreeMap<String, Vec<ProtocolDiagnostic>>;

/// The diagnostics that the client has. Several pipelines may report about one file, such as a child pipeline or a
/// configuration; the client gets each diagnostic once.
#[derive(Default)]
pub(crate) struct Published {
    /// The diagnostics of each analysis, by the path of the analysed file.
    analyses: BTreeMap<String, FileDiagnostics>,
    /// The diagnostics of each file that the client has.
    files: FileDiagnostics,
}

impl Published {
    /// Replaces the diagnostics of an analysis.
    pub(crate) fn set(&mut self, analysed: &str, diagnostics: FileDiagnostics) {
        self.analyses.insert(analysed.to_owned(), diagnostics);
    }

    /// Removes the analyses that are not in the list.
    pub(crate) fn retain(&mut self, analysed: &BTreeSet<String>) {
        self.analyses.retain(|path, _| analysed.contains(path));
    }

    /// Returns the files whose diagnostics the client has not, each with all of its diagnostics, and records that the
    /// client gets them.
    pub(crate) fn changes(&mut self) -> Vec<(String, Vec<ProtocolDiagnostic>)> {
        let mut current = FileDiagnostics::new();
        for (path, diagnostics) in self.analyses.values().flatten() {
            let known = current.entry(path.clone()).or_default();
            for diagnostic in diagnostics {
                // Two pipelines may explain the same problem of their configuration differently.
                let is_same = |known: &ProtocolDiagnostic| {
                    let line = |diagnostic: &ProtocolDiagnostic| {
                        diagnostic.message.lines().next().map(str::to_owned)
                    };
                    known.range == diagnostic.range
                        && known.code == diagnostic.code
                        && line(known) == line(diagnostic)
                };
                if !known.iter().any(is_same) {
                    known.push(diagnostic.clone());
                }
            }
        }
        for diagnostics in current.values_mut() {
            diagnostics.sort_by_key(|diagnostic| (diagnostic.range.start, diagnostic.range.end));
        }
        current.retain(|_, diagnostics| !diagnostics.is_empty());
        let cleared = self.files.keys().filter(|path| !current.contains_key(*path));
        let mut changes: Vec<_> = cleared.map(|path| (path.clone(), Vec::new())).collect();
        let changed = current
            .iter()
            .filter(|(path, list)| self.files.get(*path) != Some(list));
        changes.extend(changed.map(|(path, list)| (path.clone(), list.clone())));
        self.files = current;
        changes
    }
}
