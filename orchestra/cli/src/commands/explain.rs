//! `explain`: the documentation page of a diagnostic.

use orchestra_graph::did_you_mean;
use serde_json::json;

use crate::args::ExplainArgs;
use crate::error::{CliError, Exit};
use crate::project::pages::pages;
use crate::terminal::Terminal;

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
    // The code may be pasted together with the printed severity and brackets.
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
            let error = CliError::usage("unknown_code", format!("unknown diagnostic `{code}`"));
            Err(match did_you_mean(code, rules.iter().map(|rule| rule.code)) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help("`orchestra explain` without a code lists all of them"),
            })
        }
    }
}

/// Returns a page for people. Removes the parts of fence lines that are for the page's test only.
fn readable(page: &str) -> String {
    let line = |line: &str| match line.strip_prefix("```") {
        Some(fence) => format!("```{}", fence.split(' ').next().unwrap_or_default()),
        None => line.to_owned(),
    };
    page.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}
