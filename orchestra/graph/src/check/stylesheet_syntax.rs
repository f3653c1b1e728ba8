//! `stylesheet_syntax`: the model stylesheet is not one (Attractor 7.2 and 8, rule L12).

use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::{Input, meant};
use crate::diagnostic::{Diagnostic, Severity};
use crate::stylesheet::{Selector, parse_stylesheet};

/// The most faults that are shown of one stylesheet.
const MAX_FAULTS: usize = 50;

pub(crate) static CHECK: Check = Check {
    code: "stylesheet_syntax",
    severity: Severity::Error,
    summary: "the model stylesheet cannot be understood",
    source: "Attractor 7.2 and 8, rule L12",
    whole: false,
    run,
};

fn run(input: &Input<'_>, faults: &mut Vec<Diagnostic>) {
    let Some(attribute) = input.graph().attributes.get(Known::ModelStylesheet) else {
        return;
    };
    let (rules, wrong) = parse_stylesheet(attribute.value.as_str().unwrap_or_default());
    for (at, fault) in wrong.iter().take(MAX_FAULTS).enumerate() {
        let span = input.analysis.inside(attribute.value_span, fault.range.clone());
        let mut shown = Diagnostic::error(CHECK.code, fault.message.clone(), span)
            .label("here in the stylesheet")
            .help(fault.help.clone());
        if at + 1 == MAX_FAULTS && wrong.len() > MAX_FAULTS {
            let rest = wrong.len() - MAX_FAULTS;
            shown = shown.note(format!("{rest} more faults of the stylesheet are not shown"));
        }
        faults.push(shown);
    }
    if !wrong.is_empty() || !input.whole {
        return;
    }
    for rule in &rules {
        // A class may be used by another pipeline that shares the sheet; an id names one node of this one.
        let Selector::Id(id) = &rule.selector else {
            continue;
        };
        if input.graph().find(id).is_some() {
            continue;
        }
        let span = input.analysis.inside(attribute.value_span, rule.range.clone());
        let fault = Diagnostic::info(
            CHECK.code,
            format!("`#{id}` in the stylesheet matches no node"),
            span,
        )
        .label("this rule has no effect")
        .note("`#` and a name select the one node of that id");
        let near = input.near(id).map(|near| format!("#{}", input.id(near)));
        faults.push(meant(
            fault,
            span,
            near.as_deref(),
            "remove the rule, or name a node",
        ));
    }
}
