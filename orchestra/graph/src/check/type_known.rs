//! `type_known`: a node has an unknown handler kind (Attractor 7.2).

use std::collections::HashMap;

use crate::attribute::Known;
use crate::attributes::Attribute;
use crate::check::Check;
use crate::check::input::{Input, Once, meant};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::kind;
use crate::page::Page;
use crate::severity::Severity;

pub(crate) static RULE: Page = Page {
    code: "type_known",
    severity: Severity::Warning,
    summary: "the type or shape of a node is unknown",
    source: "Attractor 7.2",
    text: include_str!("../../tests/rules/type_known.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

/// Shapes that select a handler and are easily misspelt. Other unknown shapes count as drawings.
const SHAPES: &[&str] = &[
    "Mdiamond",
    "Msquare",
    "component",
    "diamond",
    "hexagon",
    "parallelogram",
    "tripleoctagon",
];

/// Shapes of Graphviz that look like one of those.
const DRAWN: &[&str] = &[
    "Mcircle",
    "square",
    "octagon",
    "septagon",
    "pentagon",
    "doubleoctagon",
];

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let mut once = Once::default();
    let mut known: HashMap<&str, Option<&str>> = HashMap::new();
    for (_, node) in input.nodes_with(&[Known::Type]) {
        let Some(attribute) = node.attributes.get(Known::Type) else {
            continue;
        };
        let kind = attribute.value.as_str().unwrap_or_default();
        if kind.is_empty() || kind::BUILT_IN.contains(&kind) {
            continue;
        }
        let others = input.custom_kinds;
        let near = *known.entry(kind).or_insert_with(|| {
            let custom = others.unwrap_or_default().iter().map(String::as_str);
            did_you_mean(kind, kind::BUILT_IN.iter().copied().chain(custom))
        });
        let certain = match others {
            Some(kinds) => !kinds.iter().any(|known| known == kind),
            None => near.is_some(),
        };
        if certain && once.first(attribute) {
            diagnostics.push(diagnostic(kind, attribute, near, others).node(&*node.id));
        }
    }
    for (at, node) in input.nodes_with(&[Known::Shape]) {
        let Some(attribute) = node.attributes.get(Known::Shape) else {
            continue;
        };
        let shape = attribute.value.as_str().unwrap_or_default();
        if kind::of_shape(shape).is_some() || input.has(at, &[Known::Type]) {
            continue;
        }
        let near = *known.entry(shape).or_insert_with(|| meant_shape(shape));
        let taken = [input.analysis.starts(), input.analysis.exits()];
        // If there is no start or exit, `start_node` or `terminal_node` reports its misspelt shape.
        let reported = (near == Some("Mdiamond") && taken[0].is_empty())
            || (near == Some("Msquare") && taken[1].is_empty());
        if let Some(near) = near
            && !reported
            && once.first(attribute)
        {
            let stands = kind::of_shape(near).unwrap_or_default();
            diagnostics.push(
                Diagnostic::from_rule(&RULE, format!("unknown shape `{shape}`"), attribute.value_span)
                    .label("not a shape")
                    .note(format!(
                        "`{near}` stands for `{stands}`; with `{shape}` the node is a model stage"
                    ))
                    .help(format!("did you mean `{near}`?"))
                    .fix(attribute.value_span, near)
                    .node(&*node.id),
            );
        }
    }
}

/// Returns the shape that an unknown one was probably meant to be.
pub(crate) fn meant_shape(shape: &str) -> Option<&'static str> {
    if DRAWN.contains(&shape) {
        None
    } else {
        did_you_mean(shape, SHAPES.iter().copied())
    }
}

fn diagnostic(
    kind: &str,
    attribute: &Attribute,
    near: Option<&str>,
    others: Option<&[String]>,
) -> Diagnostic {
    let diagnostic = Diagnostic::from_rule(
        &RULE,
        format!("unknown handler type `{kind}`"),
        attribute.value_span,
    )
    .label("no such handler");
    let diagnostic = match others {
        Some([]) | None => diagnostic.note(format!("built in are {}", kind::BUILT_IN.join(", "))),
        Some(kinds) => diagnostic.note(format!(
            "built in are {}; registered are {}",
            kind::BUILT_IN.join(", "),
            kinds.join(", ")
        )),
    };
    let quoted = near.map(|near| format!("\"{near}\""));
    match (near, quoted) {
        (Some(near), Some(quoted)) => diagnostic
            .help(format!("did you mean `{near}`?"))
            .fix(attribute.value_span, quoted),
        _ => meant(
            diagnostic,
            attribute.value_span,
            None,
            "register a handler of that name, or correct it",
        ),
    }
}
