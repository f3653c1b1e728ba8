//! Diagnostics, grouped by the file they refer to.

use std::collections::BTreeMap;

use orchestra_graph::{Diagnostic, Report, Source};

/// The diagnostics of several files.
#[derive(Default)]
pub(crate) struct Reports {
    files: BTreeMap<String, (Source, Vec<Diagnostic>)>,
}

impl Reports {
    /// Adds a diagnostic of a file. A diagnostic that many stages cause is added once.
    pub(crate) fn add(&mut self, source: &Source, diagnostic: Diagnostic) {
        let entry = self.files.entry(source.name().to_owned());
        let (_, diagnostics) = entry.or_insert_with(|| (source.clone(), Vec::new()));
        let same = |known: &Diagnostic| {
            known.code == diagnostic.code
                && known.span == diagnostic.span
                && known.message == diagnostic.message
        };
        if !diagnostics.iter().any(same) {
            diagnostics.push(diagnostic);
        }
    }

    pub(crate) fn add_all(&mut self, source: &Source, diagnostics: Vec<Diagnostic>) {
        for diagnostic in diagnostics {
            self.add(source, diagnostic);
        }
    }

    pub(crate) fn into_reports(self) -> Vec<Report> {
        let files = self.files.into_values();
        files
            .map(|(source, diagnostics)| Report::new(source, diagnostics))
            .collect()
    }
}
