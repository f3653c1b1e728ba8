//! `resume_breaks`: a waiting run of a locked version cannot go on with the pipeline of today (rule U2).

use crate::check::resume_unset;
use crate::diagnostic::{Diagnostic, Report};
use crate::loaded::Loaded;
use crate::lock::{ChangeClass, Compatibility, VersionChange};
use crate::page::Page;
use crate::severity::Severity;
use crate::table::Subject;

pub(crate) static RULE: Page = Page {
    code: "resume_breaks",
    severity: Severity::Error,
    summary: "a waiting run of a locked version cannot go on with the pipeline",
    source: "rule U2",
    text: include_str!("../../tests/rules/resume_breaks.md"),
};

impl Compatibility {
    /// Returns the errors for the runs of a locked version that cannot go on with the pipeline of today: `resume_breaks`
    /// and `resume_unset`. There is a report for each file with errors. The versions must be those that were compared.
    ///
    /// ```
    /// use orchestra_graph::{Compatibility, Source, load, render};
    /// let of = |text: &str| load(Source::new("release.dot", text), &Default::default());
    /// let old = of("digraph { start -> ask; ask [shape=hexagon]; ask -> exit [label=Ship] }");
    /// let new = of("digraph { start -> work -> exit; work [type=work] }");
    /// let found = Compatibility::between(&old, &new).expect("both are sound");
    /// let reports = found.reports(&old, &new, 1);
    /// let text = render::concise(&reports[0]);
    /// assert!(text.starts_with("release.dot:1:11: error[resume_breaks]: `ask` was removed"), "{text}");
    /// ```
    pub fn reports(&self, locked: &Loaded, today: &Loaded, version: u32) -> Vec<Report> {
        let mut files: Vec<&Loaded> = vec![today];
        let children = today.descendants();
        files.extend(children.iter().map(|child| &*child.loaded));
        let mut reports = Vec::new();
        for file in files {
            let own = self
                .changes
                .iter()
                .filter(|change| change.file == file.source.name());
            let breaking = own.filter(|change| change.class == ChangeClass::Breaks);
            let mut diagnostics: Vec<Diagnostic> =
                breaking.map(|change| diagnostic(change, version)).collect();
            for (old, new) in Compatibility::pairs(locked, today) {
                if std::ptr::eq(new, file) {
                    diagnostics.extend(resume_unset::diagnostics(old, new));
                }
            }
            if !diagnostics.is_empty() {
                reports.push(Report::new(file.source.clone(), diagnostics));
            }
        }
        reports
    }
}

fn diagnostic(change: &VersionChange, version: u32) -> Diagnostic {
    let keep = &change.keep;
    let mut diagnostic = Diagnostic::from_rule(&RULE, &*change.message, change.span)
        .note(format!("version {version} is locked in `orchestra.lock`"))
        .help(format!(
            "{keep}, or let `orchestra lock --accept` keep version {version} beside the new one"
        ));
    diagnostic.notes.extend(change.notes.iter().cloned());
    match &change.subject {
        Subject::Node { id, .. } => diagnostic.node(&**id),
        Subject::Edge { from, to, .. } => diagnostic.edge(&**from, &**to),
        Subject::Graph => diagnostic,
    }
}
