//! `explain`: the page of a diagnostic.

use orchestra_graph::{Page, Severity, did_you_mean};
use serde_json::json;

use crate::args::ExplainArgs;
use crate::error::{CliError, Exit};
use crate::startable::CANNOT_START as CANNOT_START_CODE;
use crate::terminal::Terminal;

/// The page of what the engine refuses to start.
static CANNOT_START: Page = Page::new(
    CANNOT_START_CODE,
    Severity::Error,
    "a run of the pipeline would be refused",
    "Attractor 4.2, 4.10 and 4.11",
    include_str!("../../pages/cannot_start.md"),
);

/// Returns the pages of all diagnostics, by their codes.
pub(crate) fn pages() -> Vec<&'static Page> {
    let mut pages: Vec<&Page> = orchestra_graph::rules().iter().collect();
    pages.extend(orchestra_config::rules());
    pages.push(&CANNOT_START);
    pages.sort_by_key(|page| page.code);
    pages
}

pub(crate) fn explain(args: &ExplainArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let rules = pages();
    let Some(code) = args.code.as_deref() else {
        for rule in &rules {
            if terminal.json {
                terminal.object(&json!({
                    "schema": "orchestra.rule/1", "code": rule.code, "severity": rule.severity.word(), "summary": rule.summary,
                }));
            } else {
                terminal.result(&format!(
                    "{:<30} {:<8} {}",
                    rule.code,
                    rule.severity.word(),
                    rule.summary
                ));
            }
        }
        return Ok(Exit::Ok);
    };
    // A code may be pasted with the severity and brackets around it, as it is printed.
    let code = code.rsplit('[').next().unwrap_or(code).trim_end_matches(']');
    match rules.iter().find(|rule| rule.code == code) {
        Some(page) => {
            if terminal.json {
                terminal
                    .object(&json!({"schema": "orchestra.explanation/1", "code": code, "page": page.text}));
            } else {
                terminal.result(&readable(page.text));
            }
            Ok(Exit::Ok)
        }
        None => {
            let error = CliError::usage("unknown_code", format!("there is no diagnostic `{code}`"));
            Err(match did_you_mean(code, rules.iter().map(|rule| rule.code)) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help("`orchestra explain` without a code lists all of them"),
            })
        }
    }
}

/// A page for people: what only its test reads is left out of the fences.
fn readable(page: &str) -> String {
    let line = |line: &str| match line.strip_prefix("```") {
        Some(fence) => format!("```{}", fence.split(' ').next().unwrap_or_default()),
        None => line.to_owned(),
    };
    page.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}
