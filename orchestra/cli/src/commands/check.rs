//! `check`: parse, transform, check, and say what is wrong. No run.

use std::collections::HashSet;

use orchestra_graph::Severity;
use serde_json::json;

use super::count;
use crate::args::{CheckArgs, Format};
use crate::error::{CliError, Exit};
use crate::pipelines::{Pipelines, print_report};
use crate::terminal::{Paint, Terminal};

pub(crate) fn check(args: &CheckArgs, pipelines: &Pipelines, terminal: &Terminal) -> Result<Exit, CliError> {
    let format = if terminal.json { Format::Json } else { args.format };
    let mut found = [0; 3];
    // A file may be named here and be a child of another one; it is told of once.
    let mut told = HashSet::new();
    for file in &args.files {
        let loaded = pipelines.load(file, &args.lints)?;
        for report in loaded.reports() {
            let name = report.source.name().trim_start_matches("./").to_owned();
            if !told.insert((name, report.source.text().to_owned())) {
                continue;
            }
            print_report(terminal, report, format);
            for diagnostic in &report.diagnostics {
                found[diagnostic.severity as usize] += 1;
            }
        }
    }
    let of = |severity: Severity| found[severity as usize];
    let (errors, warnings, notes) = (of(Severity::Error), of(Severity::Warning), of(Severity::Info));
    let files = told.len();
    if format == Format::Json {
        terminal.object(&json!({
            "schema": "orchestra.check/1", "files": files, "errors": errors, "warnings": warnings, "notes": notes,
        }));
    } else if !terminal.quiet {
        let mut parts: Vec<String> = [(errors, "error"), (warnings, "warning"), (notes, "note")]
            .iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, noun)| count(*number, noun))
            .collect();
        if parts.is_empty() {
            parts.push("no faults".to_owned());
        }
        let verdict = if errors > 0 {
            terminal.paint(Paint::Bad, "invalid")
        } else {
            terminal.paint(Paint::Good, "ok")
        };
        terminal.say(&format!(
            "{verdict}: {} checked, {}",
            count(files, "file"),
            parts.join(", ")
        ));
    }
    Ok(if errors > 0 { Exit::Invalid } else { Exit::Ok })
}
