//! `routing_dialect`: an edge has an attribute of the other routing dialect (rule R11).

use crate::attribute::Known;
use crate::attributes::Attribute;
use crate::check::Check;
use crate::check::input::{Input, Once};
use crate::diagnostic::Diagnostic;
use crate::model::Edge;
use crate::page::Page;
use crate::severity::Severity;
use crate::value::Value;

static RULE: Page = Page {
    code: "routing_dialect",
    severity: Severity::Warning,
    summary: "an edge has an attribute of the other kind of routing",
    source: "rule R11",
    text: include_str!("../../tests/rules/routing_dialect.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    if input.first_match() {
        of_five_steps(input, diagnostics);
    } else {
        of_first_match(input, diagnostics);
    }
}

/// Reports attributes that have no effect if edges are tried in the order of the file.
fn of_five_steps(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let mut once = Once::default();
    for (_, edge) in input.edges_with(&[Known::Weight, Known::MaxRevisits]) {
        let mut say = |attribute: &Attribute, message: &str, note: &str, help: &str| {
            if once.first(attribute) {
                let diagnostic =
                    Diagnostic::from_rule(&RULE, message, attribute.key_span.to(attribute.value_span));
                let diagnostic = diagnostic.label("never read").note(note).help(help);
                diagnostics.push(diagnostic.edge(input.id(edge.from), input.id(edge.to)));
            }
        };
        if let Some(weight) = edge
            .attributes
            .get(Known::Weight)
            .filter(|weight| weight.value != Value::Integer(0))
        {
            say(
                weight,
                "`weight` has no effect under first-match routing",
                "edges are tried in the order of the file, and the first that matches is taken",
                "write the edges in the order in which they are to be tried, and remove `weight`",
            );
        }
        if let Some(limit) = edge.attributes.get(Known::MaxRevisits)
            && !edge.attributes.flag(Known::AllowRevisit)
        {
            say(
                limit,
                "`max_revisits` has no effect without `allow_revisit=true`",
                "an edge that leads back to a visited node fails the run, unless it says `allow_revisit=true`",
                "add `allow_revisit=true`, or remove `max_revisits`",
            );
        }
    }
}

/// Reports attributes of first-match routing in a pipeline that does not use it. All of them result in one diagnostic,
/// because the only mistake is that the graph lacks the attribute that selects it.
fn of_first_match(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let known = [Known::AllowRevisit, Known::MaxRevisits, Known::ConditionType];
    let mut found = input
        .edges_with(&known)
        .filter_map(|(_, edge)| Some((edge, known.iter().find_map(|known| chosen(edge, *known))?)));
    let Some((edge, attribute)) = found.next() else {
        return;
    };
    let name = attribute.key.name();
    let (message, help) = if name == Known::ConditionType.name() {
        (
            format!("`{name}` belongs to first-match routing, but this pipeline does not use it"),
            "write `routing=first_match` on the graph, or `condition=\"outcome=success\"` and the like on the edges",
        )
    } else {
        (
            format!("`{name}` has no effect: this pipeline does not choose first-match routing"),
            "write `routing=first_match` on the graph, or bound the loop with `max_visits` on a node and remove it",
        )
    };
    let mut diagnostic = Diagnostic::from_rule(&RULE, message, attribute.key_span.to(attribute.value_span))
        .label("of first-match routing")
        .note("edges are chosen by condition, preferred label, suggestion, weight and target id, not by their order in the file; a visited node may always be visited again")
        .help(help)
        .edge(input.id(edge.from), input.id(edge.to));
    let more = found
        .filter(|(_, other)| other.value_span != attribute.value_span)
        .count();
    if more > 0 {
        let edges = if more == 1 { "edge has" } else { "edges have" };
        diagnostic = diagnostic.note(format!("{more} more {edges} attributes of first-match routing"));
    }
    diagnostics.push(diagnostic);
}

/// Returns an attribute that is set to a value with an effect.
fn chosen(edge: &Edge, known: Known) -> Option<&Attribute> {
    let attribute = edge.attributes.get(known)?;
    let asks = match &attribute.value {
        Value::Boolean(flag) => *flag,
        Value::String(word) => !matches!(&**word, "always" | "unconditional"),
        _ => true,
    };
    // `ignored_condition` reports a type that is not read because of a `condition`.
    let read = known != Known::ConditionType || edge.attributes.filled(Known::Condition).is_none();
    (asks && read).then_some(attribute)
}
