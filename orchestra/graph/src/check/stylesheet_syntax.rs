//! `stylesheet_syntax`: an invalid model stylesheet (Attractor 7.2 and 8, rule L12).

use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::{Input, meant};
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::stylesheet::{Selector, parse_stylesheet};

/// Maximum number of errors shown of one stylesheet.
const MAX_REPORTED: usize = 50;

static RULE: Page = Page {
    code: "stylesheet_syntax",
    severity: Severity::Error,
    summary: "the model stylesheet is invalid",
    source: "Attractor 7.2 and 8, rule L12",
    text: include_str!("../../tests/rules/stylesheet_syntax.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(attribute) = input.graph().attributes.get(Known::ModelStylesheet) else {
        return;
    };
    let (rules, wrong) = parse_stylesheet(attribute.value.as_str().unwrap_or_default());
    for (at, diagnostic) in wrong.iter().take(MAX_REPORTED).enumerate() {
        let span = input
            .analysis
            .inside(attribute.value_span, diagnostic.range.clone());
        let mut shown = Diagnostic::from_rule(&RULE, diagnostic.message.clone(), span)
            .label("here in the stylesheet")
            .help(diagnostic.help.clone());
        if let Some(replacement) = &diagnostic.replacement {
            shown = shown.fix(span, replacement.clone());
        }
        if at + 1 == MAX_REPORTED && wrong.len() > MAX_REPORTED {
            let rest = wrong.len() - MAX_REPORTED;
            shown = shown.note(format!("{rest} more errors in the stylesheet are not shown"));
        }
        diagnostics.push(shown);
    }
    if !wrong.is_empty() || !input.whole {
        return;
    }
    for rule in &rules {
        // Another pipeline that shares the stylesheet may use a class, but an id names one node of this pipeline.
        let Selector::Id(id) = &rule.selector else {
            continue;
        };
        if input.graph().find(id).is_some() {
            continue;
        }
        let span = input.analysis.inside(attribute.value_span, rule.range.clone());
        let diagnostic =
            Diagnostic::from_rule(&RULE, format!("`#{id}` in the stylesheet matches no node"), span)
                .severity(Severity::Info)
                .label("this rule has no effect")
                .note("`#` and a name select the one node of that id");
        let near = input.near(id).map(|near| format!("#{}", input.id(near)));
        diagnostics.push(meant(
            diagnostic,
            span,
            near.as_deref(),
            "remove the rule, or name a node",
        ));
    }
}
