//! `check`: checks whether pipelines can be run, and prints their diagnostics. Runs nothing.

use std::collections::{HashMap, HashSet};

use orchestra_graph::{Report, Severity};
use serde_json::json;

use super::check_locked::LockedFiles;
use crate::args::{CheckArgs, Format};
use crate::error::{CliError, Exit};
use crate::project::pipelines::Pipelines;
use crate::project::startable::CheckedPipeline;
use crate::report::diagnostics::print_report;
use crate::terminal::format::count;
use crate::terminal::{Paint, Terminal};

pub(crate) fn check(
    args: &CheckArgs,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let locked = if args.locked {
        Some(LockedFiles::find(args)?)
    } else {
        None
    };
    let names = locked
        .as_ref()
        .map_or_else(|| args.files.clone(), LockedFiles::files);
    let format = if terminal.json { Format::Json } else { args.format };
    let mut found = [0; 3];
    // A file may be both named here and a child of another file, and several files may share a configuration. Print
    // each diagnostic once.
    let mut printed = HashSet::new();
    // The number of proved assertions of each file.
    let mut files = HashMap::new();
    for file in &names {
        let checked = CheckedPipeline::new(pipelines, file, &args.lints, args.config.as_deref(), terminal)?;
        files.extend(checked.pipelines().map(|loaded| {
            let name = name(&loaded.report).to_owned();
            (name, loaded.proved_assertions())
        }));
        for report in checked.reports() {
            let mut report = report.clone();
            let name = name(&report).to_owned();
            report.diagnostics.retain(|diagnostic| {
                let at = diagnostic.span.start;
                printed.insert((name.clone(), at, diagnostic.code, diagnostic.message.clone()))
            });
            print_report(terminal, &report, format);
            for diagnostic in &report.diagnostics {
                found[diagnostic.severity as usize] += 1;
            }
        }
    }
    let compared = match &locked {
        Some(locked) => locked.check(args, program, format, terminal, &mut found)?,
        None => Exit::Ok,
    };
    let number = |severity: Severity| found[severity as usize];
    let (errors, warnings) = (number(Severity::Error), number(Severity::Warning));
    let notes = number(Severity::Info);
    let (assertions, files) = (files.values().sum::<usize>(), files.len());
    if format == Format::Json {
        terminal.object(&json!({
            "schema": "orchestra.check/1", "files": files, "assertions": assertions, "errors": errors,
            "warnings": warnings, "notes": notes,
        }));
    } else if !terminal.quiet {
        let mut parts: Vec<String> = [(errors, "error"), (warnings, "warning"), (notes, "note")]
            .iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, noun)| count(*number, noun))
            .collect();
        if parts.is_empty() {
            let found = if compared == Exit::Ok {
                "no problems found"
            } else {
                "a run cannot go on"
            };
            parts.push(found.to_owned());
        }
        if assertions > 0 {
            let hold = if assertions == 1 { "holds" } else { "hold" };
            parts.insert(0, format!("{} {hold}", count(assertions, "assertion")));
        }
        let verdict = if errors > 0 || compared != Exit::Ok {
            terminal.paint(Paint::Bad, "invalid")
        } else {
            terminal.paint(Paint::Good, "ok")
        };
        terminal.message(&format!(
            "{verdict}: {} checked, {}",
            count(files, "file"),
            parts.join(", ")
        ));
    }
    let exit = if errors > 0 { Exit::Invalid } else { Exit::Ok };
    Ok(exit.or(compared))
}

/// Returns the normalized name of a file.
fn name(report: &Report) -> &str {
    report.source.name().trim_start_matches("./")
}
