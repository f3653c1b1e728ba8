//! `unquoted_value`: the shell splits a value that a tool stage gives to its command (rule T7).

use crate::check::Check;
use crate::check::input::Input;
use crate::check::shell_injection::{places, shown};
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::shell::Problem;

static RULE: Page = Page {
    code: "unquoted_value",
    severity: Severity::Warning,
    summary: "the shell splits a value that a command is given",
    source: "rule T7",
    text: include_str!("../../tests/rules/unquoted_value.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for place in places(input) {
        if place.finding.problem != Problem::Unquoted {
            continue;
        }
        let text = input.analysis.source().slice(place.span);
        let diagnostic = Diagnostic::from_rule(
            &RULE,
            format!("the shell splits {} into words", shown(&place.finding)),
            place.span,
        )
        .label("not quoted")
        .note("it also replaces `*`, `?` and `[..]` in the value by the names of files")
        .help(format!(
            "write `\"{text}\"`; a value that begins with `-` may still be an option, unless `--` comes before it"
        ));
        diagnostics.push(diagnostic.node(input.id(place.node)));
    }
}
