//! Diagnostics, each kept with the text it speaks of.

use std::collections::BTreeMap;

use orchestra_graph::{Diagnostic, Report, Source};

/// Faults of several files.
#[derive(Default)]
pub(crate) struct Reports {
    files: BTreeMap<String, (Source, Vec<Diagnostic>)>,
}

impl Reports {
    /// Adds a fault of a file; one that many stages meet is told once.
    pub(crate) fn add(&mut self, source: &Source, fault: Diagnostic) {
        let entry = self.files.entry(source.name().to_owned());
        let (_, faults) = entry.or_insert_with(|| (source.clone(), Vec::new()));
        let same = |known: &Diagnostic| {
            known.code == fault.code && known.span == fault.span && known.message == fault.message
        };
        if !faults.iter().any(same) {
            faults.push(fault);
        }
    }

    pub(crate) fn add_all(&mut self, source: &Source, faults: Vec<Diagnostic>) {
        for fault in faults {
            self.add(source, fault);
        }
    }

    pub(crate) fn into_reports(self) -> Vec<Report> {
        let files = self.files.into_values();
        files
            .map(|(source, faults)| Report::new(source, faults))
            .collect()
    }
}
