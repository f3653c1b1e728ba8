//! Printing diagnostics.

use orchestra_graph::render::{self, Style};
use orchestra_graph::{Loaded, Report};

use crate::args::Format;
use crate::report::annotations::annotations;
use crate::terminal::Terminal;

/// Prints the diagnostics of a pipeline and of its child pipelines.
pub(crate) fn print_reports(terminal: &Terminal, loaded: &Loaded, format: Format) {
    for report in loaded.reports() {
        print_report(terminal, report, format);
    }
}

/// Prints the diagnostics of a report.
pub(crate) fn print_report(terminal: &Terminal, report: &Report, format: Format) {
    if report.diagnostics.is_empty() {
        return;
    }
    match format {
        Format::Json => {
            for line in render::json(report).lines() {
                terminal.json_line(line);
            }
        }
        Format::Github => terminal.result(&annotations(report)),
        Format::Concise => terminal.message(render::concise(report).trim_end()),
        Format::Text => {
            let style = if terminal.color {
                Style::Coloured
            } else {
                Style::Plain
            };
            terminal.rendered(render::text(report, style).trim_end());
            terminal.message("");
        }
    }
}
