//! `attribute_without_effect`: an attribute is set where nothing reads it (rule R4).

use std::collections::HashMap;

use crate::attribute::{AttributeFamily, EXCEPT, Key, Known, OF_ONE_KIND, OF_SOME_KINDS, OF_STAGES};
use crate::attributes::{Attribute, Origin};
use crate::check::Check;
use crate::check::input::Input;
use crate::check::type_known::meant_shape;
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::model::{Edge, Node};
use crate::page::Page;
use crate::severity::Severity;
use crate::text::Span;
use crate::value::Value;

static RULE: Page = Page {
    code: "attribute_without_effect",
    severity: Severity::Warning,
    summary: "an attribute has no effect on its node or edge",
    source: "Attractor 2.6, rules R4, H3, H4, P4, T6",
    text: include_str!("../../tests/rules/attribute_without_effect.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

/// The attributes that are explained in words of their own.
const ELSEWHERE: &[Known] = &[Known::Repo, Known::HookPre, Known::HookPost];

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for (at, node) in input.nodes_with(OF_STAGES) {
        let Some(what) = passive(input.kind(at)) else {
            continue;
        };
        // A condition on the exit is evaluated before the run ends.
        let gates_end = |attribute: &Attribute| {
            what == "exit"
                && attribute.key == Key::Known(Known::GoalGate)
                && attribute.value.as_str().is_some()
        };
        for attribute in written(node, OF_STAGES).filter(|attribute| !gates_end(attribute)) {
            diagnostics.push(of_stages(attribute, node, what));
        }
    }
    for (kinds, attributes) in EXCEPT {
        for (at, node) in input.nodes_with(attributes) {
            let kind = input.kind(at);
            if let Some(what) = passive(kind).filter(|_| kinds.contains(&kind)) {
                diagnostics
                    .extend(written(node, attributes).map(|attribute| of_stages(attribute, node, what)));
            }
        }
    }
    let of_one = OF_ONE_KIND
        .iter()
        .map(|(of, attributes)| (std::slice::from_ref(of), *attributes));
    for (kinds, attributes) in of_one.chain(OF_SOME_KINDS.iter().copied()) {
        for (at, node) in input.nodes_with(attributes) {
            let kind = input.kind(at);
            // Handlers of other kinds may read any attribute.
            if kinds.contains(&kind) || !kind::BUILT_IN.contains(&kind) || is_misspelt(node) {
                continue;
            }
            let written = written(node, attributes)
                .filter(|attribute| !ELSEWHERE.iter().any(|known| attribute.key == Key::Known(*known)));
            diagnostics.extend(written.map(|attribute| of_kinds(attribute, node, kind, kinds)));
        }
    }
    for (at, node) in input.nodes_with(ELSEWHERE) {
        let kind = input.kind(at);
        if !kind::BUILT_IN.contains(&kind) || is_misspelt(node) {
            continue;
        }
        let with_prompt = node.attributes.filled(Known::Prompt).is_some();
        let asks_model = kind == kind::CODERGEN || kind == kind::FAN_IN && with_prompt;
        if !asks_model && kind != kind::TOOL {
            diagnostics.extend(written(node, &[Known::Repo]).map(|attribute| of_files(attribute, node)));
        }
        if !asks_model {
            let hooks = written(node, &[Known::HookPre, Known::HookPost]);
            diagnostics.extend(hooks.map(|attribute| of_models(attribute, node)));
        }
    }
    for (at, node) in input.nodes() {
        let kind = input.kind(at);
        if kind == kind::TOOL || !kind::BUILT_IN.contains(&kind) || is_misspelt(node) {
            continue;
        }
        let from = AttributeFamily::TOOL_ENV_FROM.prefix;
        let given = node.attributes.iter().filter(|attribute| {
            attribute.origin == Origin::Explicit && attribute.key.name().starts_with(from)
        });
        diagnostics.extend(given.map(|attribute| of_kinds(attribute, node, kind, &[kind::TOOL])));
    }
    freeform(input, diagnostics);
}

/// Returns the name of a kind without a handler that could fail or take long.
fn passive(kind: &str) -> Option<&'static str> {
    match kind {
        kind::CONDITIONAL | kind::START | kind::EXIT => Some(kind::title(kind)),
        _ => None,
    }
}

/// Returns those of some attributes that are set on the node itself, to a value other than the neutral one.
fn written<'n>(node: &'n Node, among: &[Known]) -> impl Iterator<Item = &'n Attribute> {
    node.attributes.iter().filter(|attribute| {
        let Key::Known(known) = attribute.key else {
            return false;
        };
        let asks = match &attribute.value {
            Value::Boolean(flag) => *flag,
            Value::Integer(number) => *number != 0,
            Value::String(word) => known != Known::RetryPolicy || &**word != "none",
            _ => true,
        };
        attribute.origin == Origin::Explicit && among.contains(&known) && asks
    })
}

/// Returns whether the shape is reported as a misspelling of one that might read the attribute.
fn is_misspelt(node: &Node) -> bool {
    node.attributes.filled(Known::Type).is_none()
        && kind::of_shape(node.shape()).is_none()
        && meant_shape(node.shape()).is_some()
}

fn of_stages(attribute: &Attribute, node: &Node, what: &str) -> Diagnostic {
    let name = attribute.key.name();
    let diagnostic = diagnostic(
        format!("`{name}` has no effect on the {what} `{}`", node.id),
        attribute,
    );
    let diagnostic = match what {
        "routing node" => diagnostic.note("a `diamond` only decides, by the outcome of the stage before it: it never runs, fails or is tried again"),
        _ => diagnostic.note("nothing runs there that could fail or take long"),
    };
    diagnostic
        .help(format!(
            "write it on the stage that it is meant for, or remove `{name}`"
        ))
        .node(&*node.id)
}

fn of_files(attribute: &Attribute, node: &Node) -> Diagnostic {
    let name = attribute.key.name();
    diagnostic(
        format!("`{name}` has no effect on `{}`, which works on no files", node.id),
        attribute,
    )
    .note("only a stage of a model, a tool or the program's own works in a repository")
    .help(format!(
        "write it on the stage that it is meant for, or remove `{name}`"
    ))
    .node(&*node.id)
}

fn of_models(attribute: &Attribute, node: &Node) -> Diagnostic {
    let name = attribute.key.name();
    diagnostic(
        format!("`{name}` has no effect on `{}`, which asks no model", node.id),
        attribute,
    )
    .note("hooks run around the tool calls of a model, and not around the command of a tool stage")
    .help(format!(
        "write it on the stage whose model calls tools, or remove `{name}`"
    ))
    .node(&*node.id)
}

fn of_kinds(attribute: &Attribute, node: &Node, kind: &str, readers: &[&str]) -> Diagnostic {
    let name = attribute.key.name();
    let diagnostic = match readers {
        [of] => {
            let (what, shape) = described(of);
            diagnostic(
                format!("`{name}` has no effect on `{}`, which is not a {what}", node.id),
                attribute,
            )
            .help(format!("give the node `shape={shape}`, or remove `{name}`"))
        }
        _ => diagnostic(
            format!(
                "`{name}` has no effect on `{}`, which is a {}",
                node.id,
                kind::title(kind)
            ),
            attribute,
        )
        .help(format!(
            "write it on the stage that it is meant for, or remove `{name}`"
        )),
    };
    diagnostic
        .note(format!("only a {} reads it", titles(readers)))
        .node(&*node.id)
}

/// Returns the names of some kinds of node, as in `model stage, a fan-in or a tool stage`.
fn titles(kinds: &[&str]) -> String {
    let titles: Vec<&str> = kinds.iter().map(|kind| kind::title(kind)).collect();
    match titles.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or a {last}", rest.join(", a ")),
        _ => titles.concat(),
    }
}

/// Returns the name of a kind of node, and a shape that selects it.
fn described(of: &str) -> (&'static str, &'static str) {
    (kind::title(of), kind::shapes_of(of).next().unwrap_or_default())
}

/// Reports `freeform` on edges that do not leave a human gate.
fn freeform(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    // A chain sets one attribute on many edges. It has an effect if at least one of them leaves a gate.
    let mut positions: Vec<(&Attribute, &Edge, bool)> = Vec::new();
    let mut known: HashMap<Span, usize> = HashMap::new();
    for (_, edge) in input.edges_with(&[Known::Freeform]) {
        let Some(attribute) = edge.attributes.get(Known::Freeform) else {
            continue;
        };
        let kind = input.kind(edge.from);
        let used = kind == kind::WAIT_HUMAN
            || !kind::BUILT_IN.contains(&kind)
            || attribute.origin != Origin::Explicit
            || attribute.value != Value::Boolean(true)
            || is_misspelt(input.node(edge.from));
        let position = *known.entry(attribute.value_span).or_insert(positions.len());
        match positions.get_mut(position) {
            Some((_, _, known)) => *known |= used,
            None => positions.push((attribute, edge, used)),
        }
    }
    for (attribute, edge, _) in positions.iter().filter(|(_, _, used)| !used) {
        let (from, to) = (input.id(edge.from), input.id(edge.to));
        let (what, shape) = described(kind::WAIT_HUMAN);
        diagnostics.push(
            diagnostic(
                format!("`freeform` has no effect on an edge of `{from}`, which is not a {what}"),
                attribute,
            )
            .note(format!("only the edges of a {what} take a text"))
            .help(format!("give `{from}` `shape={shape}`, or remove `freeform`"))
            .edge(from, to),
        );
    }
}

fn diagnostic(message: String, attribute: &Attribute) -> Diagnostic {
    Diagnostic::from_rule(&RULE, message, attribute.key_span.to(attribute.value_span)).label("never read")
}
