//! `reserved_node_id`: an id that cannot be the name of a directory in a run (rule D2).

use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "reserved_node_id",
    severity: Severity::Error,
    summary: "a node id is reserved",
    source: "rule D2",
    text: include_str!("../../tests/rules/reserved_node_id.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

/// The name of the folder for artifacts in the folder of a run.
const ARTIFACTS: &str = "artifacts";

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for (at, node) in input.nodes() {
        // Only ids of these lengths can be reserved.
        if node.id.len() > 4 && node.id.len() != 9 || input.is_ghost(at) {
            continue;
        }
        let id = &node.id;
        let diagnostic = if id.eq_ignore_ascii_case(ARTIFACTS) {
            Diagnostic::from_rule(&RULE, format!("the id `{id}` is reserved"), node.span).note(
                "the folder of a run contains its artifacts under that name, beside one folder for each node",
            )
        } else if is_device(id) {
            Diagnostic::from_rule(
                &RULE,
                format!("the id `{id}` is the name of a device on Windows"),
                node.span,
            )
            .severity(Severity::Warning)
            .note("the stage's folder bears its id, and Windows can make none of that name")
        } else {
            continue;
        };
        diagnostics.push(
            diagnostic
                .label("choose another id")
                .help(format!("rename it, for instance to `{id}_stage`"))
                .node(&**id),
        );
    }
}

/// Returns why an id is reserved; `None` if it is not.
pub(crate) fn reason(id: &str) -> Option<&'static str> {
    if id.eq_ignore_ascii_case(ARTIFACTS) {
        return Some("is reserved for the artifacts of runs");
    }
    is_device(id).then_some("is the name of a device on Windows")
}

fn is_device(id: &str) -> bool {
    let lower = id.to_ascii_lowercase();
    let numbered = |prefix: &str| {
        lower
            .strip_prefix(prefix)
            .is_some_and(|rest| matches!(rest.as_bytes(), [b'1'..=b'9']))
    };
    matches!(lower.as_str(), "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}
