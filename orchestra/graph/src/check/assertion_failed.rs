//! `assertion_failed`: an assertion that does not hold in every run.

use crate::attribute::Known;
use crate::check::Check;
use crate::check::assertion_limits::Limits;
use crate::check::assertion_unknown_name::{Resolved, assertions};
use crate::check::input::Input;
use crate::check::path_text::show;
use crate::choice::graph_choices;
use crate::diagnostic::Diagnostic;
use crate::flow::{self, Path, Requirement, Steps, unhandled, violation};
use crate::page::Page;
use crate::severity::Severity;
use crate::table::Pipeline;

static RULE: Page = Page {
    code: "assertion_failed",
    severity: Severity::Error,
    summary: "an assertion does not hold in every run",
    source: "rules V1 to V4",
    text: include_str!("../../tests/rules/assertion_failed.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(attribute) = input.graph().attributes.get(Known::Assert) else {
        return;
    };
    // A graph without a table has errors that come first.
    let Some(pipeline) = Pipeline::from_analysis(input.analysis) else {
        return;
    };
    let text = attribute.value.as_str().unwrap_or_default();
    let unknown = pipeline
        .conditions()
        .any(|condition| condition.keys().any(|key| key != "outcome"));
    let limits = Limits::new(input);
    let mut steps = Steps::new(pipeline, &input.outcomes.words);
    for (assertion, resolved) in assertions(input, attribute) {
        let found = match &resolved {
            Ok(Resolved::Requires(requirement)) => {
                violation(&mut steps, requirement).map(|path| of_requirement(input, requirement, &path))
            }
            Ok(Resolved::Handled(stage)) => unhandled(&mut steps, *stage).map(|path| {
                let id = input.id(*stage);
                (
                    format!("nothing follows a failure of `{id}`"),
                    format!("the run, or the branch, ends after {}", show(input, &path)),
                    format!("add an edge from `{id}` with `condition=\"outcome=fail\"`, or a `retry_target`"),
                )
            }),
            Ok(Resolved::AtMost(stage, most)) => limits.at_most(*stage, *most),
            Ok(Resolved::Total(counted, most)) => limits.total(*counted, *most),
            Err(_) => None,
        };
        let is_limit = matches!(resolved, Ok(Resolved::AtMost(..) | Resolved::Total(..)));
        let found = found.or_else(|| {
            (resolved.is_ok() && !is_limit && steps.are_incomplete()).then(|| {
                (
                    "the assertion cannot be checked".to_owned(),
                    "too many conditions or edges meet at some nodes of the pipeline".to_owned(),
                    "split these nodes, or move a part of the pipeline to a file of its own".to_owned(),
                )
            })
        });
        let Some((message, note, help)) = found else {
            continue;
        };
        let written = text.get(assertion.range.clone()).unwrap_or_default();
        let span = input
            .analysis
            .inside(attribute.value_span, assertion.range.clone());
        diagnostics.push(
            Diagnostic::from_rule(&RULE, message, span)
                .label(format!("`{}` does not hold", crate::syntax::shorten(written)))
                .note(note)
                .help(help),
        );
        let Some(diagnostic) = diagnostics.last_mut() else {
            continue;
        };
        if diagnostic
            .notes
            .iter()
            .any(|note| note.contains("(partial_success)"))
        {
            let note = "any stage may end as `partial_success`; an edge with `outcome=success` is then followed too, \
                        unless another condition fits (rule R12)";
            diagnostic.notes.push(note.to_owned());
        }
        if unknown && !is_limit {
            let note = "a condition on anything but the outcome counts as possibly true and possibly false";
            diagnostic.notes.push(note.to_owned());
        }
    }
}

/// Returns message, note and help for a requirement that is not met.
fn of_requirement(input: &Input<'_>, requirement: &Requirement, path: &Path) -> (String, String, String) {
    let (target, stage) = (input.id(requirement.target), input.id(requirement.stage));
    let since: Vec<String> = requirement
        .since
        .iter()
        .map(|node| format!("`{}`", input.id(*node)))
        .collect();
    let since = match since.as_slice() {
        [] => String::new(),
        since => format!(" since {}", since.join(" and ")),
    };
    let missing = match &requirement.result {
        flow::Required::Passed => format!("although `{stage}` has not passed{since}"),
        flow::Required::Answer(answer) => {
            let choices = graph_choices(input.analysis, requirement.stage);
            let label = choices.get(*answer).map_or("", |choice| &choice.label);
            format!("without the answer `{label}` at `{stage}`{since}")
        }
        flow::Required::Outcome(word) => format!("although `{stage}` has not ended with `{word}`{since}"),
    };
    let help = if path.iter().any(|(node, _)| *node == requirement.stage) {
        format!("lead this path back through `{stage}`, or end it before `{target}`")
    } else {
        format!("lead this path through `{stage}`, or end it before `{target}`")
    };
    (
        format!("a run can enter `{target}` {missing}"),
        format!("such a run takes the path {}", show(input, path)),
        help,
    )
}
