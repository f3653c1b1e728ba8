//! `unknown_outcome`: a condition tests for an outcome that no stage declares (rule C4).

use crate::attribute::Known;
use crate::attributes::Attribute;
use crate::check::Check;
use crate::check::input::{Input, Once};
use crate::condition::{Comparison, OUTCOME_WORDS, find_literal, parse_condition};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::kind;
use crate::model::NodeIndex;
use crate::page::Page;
use crate::severity::Severity;
use crate::text::Span;

static RULE: Page = Page {
    code: "unknown_outcome",
    severity: Severity::Warning,
    summary: "a condition tests for an outcome that no stage declares",
    source: "rule C4",
    text: include_str!("../../tests/rules/unknown_outcome.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

/// The outcomes of other tools with their equivalents here.
const FOREIGN: &[(&str, &str)] = &[
    ("failure", "fail"),
    ("failed", "fail"),
    ("error", "fail"),
    ("ok", "success"),
    ("pass", "success"),
    ("passed", "success"),
    ("succeeded", "success"),
    ("partial", "partial_success"),
];

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    if input.outcomes.too_many {
        return;
    }
    let built_in = (1 << OUTCOME_WORDS.len()) - 1;
    let mut once = Once::default();
    for (at, edge) in input.edges_with(&[Known::Condition]) {
        let mentioned = input.outcomes.mentioned(input.analysis.condition_id(at)) & !built_in;
        let declared = input.outcomes.seen(edge.from).declared;
        if mentioned & !declared == 0 {
            continue;
        }
        let Some(attribute) = edge.attributes.get(Known::Condition) else {
            continue;
        };
        if !once.first(attribute) {
            continue;
        }
        let known = input.outcomes.list(declared | built_in);
        for word in input.outcomes.list(mentioned & !declared) {
            let (from, to) = (input.id(edge.from), input.id(edge.to));
            diagnostics.push(diagnostic(input, edge.from, attribute, word, &known).edge(from, to));
        }
    }
    for (at, node) in input.nodes_with(&[Known::GoalGate]) {
        if let Some(attribute) = node.attributes.get(Known::GoalGate)
            && let Some(Ok(condition)) = node.attributes.text(Known::GoalGate).map(parse_condition)
        {
            let mut known = OUTCOME_WORDS.to_vec();
            known.extend(node.attributes.words(Known::Outcomes));
            let words = condition.outcomes().into_iter();
            for word in words.filter(|word| !known.contains(word) && !input.is_exit(at)) {
                if once.first(attribute) {
                    diagnostics.push(diagnostic(input, at, attribute, word, &known).node(&*node.id));
                }
            }
        }
    }
}

fn diagnostic(
    input: &Input<'_>,
    from: NodeIndex,
    attribute: &Attribute,
    word: &str,
    known: &[&str],
) -> Diagnostic {
    let span = position(input, attribute, word);
    let shown = crate::syntax::shorten(word);
    let diagnostic = Diagnostic::from_rule(&RULE, format!("no stage declares the outcome `{shown}`"), span)
        .label("unknown outcome")
        .note(format!("the outcomes here are {}", known.join(", ")));
    let (kind, from) = (input.kind(from), input.id(from));
    let foreign = FOREIGN
        .iter()
        .find(|(theirs, _)| theirs.eq_ignore_ascii_case(word));
    let near = foreign
        .map(|(_, ours)| *ours)
        .or_else(|| did_you_mean(word, known.iter().copied()));
    match near {
        Some(near) => diagnostic.help(format!("did you mean `{near}`?")).fix(span, near),
        None if kind == kind::CONDITIONAL => diagnostic.help(format!(
            "if a stage before `{from}` gives it, declare it there: `outcomes=\"{shown}\"`"
        )),
        None => diagnostic.help(format!(
            "if `{from}` gives it, declare it: `outcomes=\"{shown}\"`"
        )),
    }
}

/// Returns the span of the outcome in the condition.
fn position(input: &Input<'_>, attribute: &Attribute, word: &str) -> Span {
    let text = attribute.value.as_str().unwrap_or_default();
    let is_word = |key: &str, comparison: Comparison, literal: &str| {
        key == "outcome" && matches!(comparison, Comparison::Equal | Comparison::NotEqual) && literal == word
    };
    match find_literal(text, is_word) {
        Some(range) => input.analysis.inside(attribute.value_span, range),
        None => attribute.value_span,
    }
}
