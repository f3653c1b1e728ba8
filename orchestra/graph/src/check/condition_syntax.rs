//! `condition_syntax`: an invalid condition (Attractor 7.2 and 10, rules C1, C2, C5).

use crate::analysis::EdgeCondition;
use crate::attribute::{Key, Known};
use crate::attributes::Attribute;
use crate::check::Check;
use crate::check::input::{Input, Once, meant_in};
use crate::condition::{
    ConditionError, Expression, STAGES, VISITS, find_key, parse_condition, stage_outcome,
};
use crate::diagnostic::Diagnostic;
use crate::page::Page;
use crate::severity::Severity;
use crate::syntax::value_fix;

static RULE: Page = Page {
    code: "condition_syntax",
    severity: Severity::Error,
    summary: "a condition is invalid",
    source: "Attractor 7.2 and 10, rules C1, C2, C5",
    text: include_str!("../../tests/rules/condition_syntax.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

/// The conditions that a manager loop evaluates in each cycle (Attractor 4.11).
const OF_MANAGERS: &[Known] = &[Known::StopCondition, Known::GuardIntervene, Known::GuardEscalate];

/// The key that a goal gate cannot read, because the preferred label of a stage is not stored until the run ends.
const LABEL: &str = "preferred_label";

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let mut once = Once::default();
    for (at, edge) in input.edges_with(&[Known::Condition, Known::ConditionType]) {
        let EdgeCondition::Invalid(known, error) = input.analysis.condition(at) else {
            continue;
        };
        // A `conditional` edge may lack the value that it tests.
        let own = edge.attributes.get(*known);
        let attribute = own.or_else(|| edge.attributes.get(Known::ConditionType));
        if let Some(attribute) = attribute.filter(|attribute| once.first(attribute)) {
            let found = diagnostic(input, attribute, error);
            diagnostics.push(found.edge(input.id(edge.from), input.id(edge.to)));
        }
    }
    let mut once = Once::default();
    for (at, edge) in input.edges_with(&[Known::Condition]) {
        if let EdgeCondition::Parsed(expression) = input.analysis.condition(at)
            && let Some(attribute) = edge.attributes.get(Known::Condition)
            && expression.keys().iter().any(|key| is_of_stages(key))
            && once.first(attribute)
        {
            for diagnostic in of_stages(input, attribute, expression) {
                diagnostics.push(diagnostic.edge(input.id(edge.from), input.id(edge.to)));
            }
        }
    }
    for (_, node) in input.nodes_with(OF_MANAGERS) {
        for known in OF_MANAGERS {
            if let Some(attribute) = node.attributes.get(*known)
                && let Some(text) = node.attributes.filled(*known)
                && once.first(attribute)
            {
                match parse_condition(text) {
                    Err(error) => diagnostics.push(diagnostic(input, attribute, &error).node(&*node.id)),
                    Ok(expression) => {
                        let keys = expression.keys().into_iter().filter(|key| is_of_stages(key));
                        let faulty = keys.map(|key| in_manager(input, attribute, key).node(&*node.id));
                        diagnostics.extend(faulty);
                    }
                }
            }
        }
    }
    for (at, node) in input.nodes_with(&[Known::GoalGate]) {
        let Some((attribute, text)) = node
            .attributes
            .get(Known::GoalGate)
            .zip(node.attributes.text(Known::GoalGate))
        else {
            continue;
        };
        let error = match parse_condition(text) {
            Ok(condition) if !input.is_exit(at) && condition.keys().contains(&LABEL) => label_of_gate(text),
            Ok(condition) => {
                if once.first(attribute) {
                    let found = of_stages(input, attribute, &condition).into_iter();
                    diagnostics.extend(found.map(|diagnostic| diagnostic.node(&*node.id)));
                }
                continue;
            }
            Err(error) => error,
        };
        if once.first(attribute) {
            diagnostics.push(diagnostic(input, attribute, &error).node(&*node.id));
        }
    }
}

fn label_of_gate(text: &str) -> ConditionError {
    ConditionError {
        message: format!("a goal gate cannot read `{LABEL}`"),
        range: find_key(text, LABEL).unwrap_or_default(),
        help: "gates are checked when the run is about to end, and only outcomes are kept until then; read \
               `outcome`, or a key of the context"
            .to_owned(),
        replacement: None,
    }
}

/// Returns whether a key reads the record of a stage (rules F1, R13).
fn is_of_stages(key: &str) -> bool {
    key.starts_with(VISITS) || key.starts_with(STAGES)
}

/// Returns diagnostics for the keys that read the records of stages: an unknown node or an unknown record.
fn of_stages(input: &Input<'_>, attribute: &Attribute, expression: &Expression) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for key in expression.keys().into_iter().filter(|key| is_of_stages(key)) {
        let node = key.strip_prefix(VISITS).or_else(|| stage_outcome(key));
        let Some(id) = node else {
            let node = key.split('.').nth(1).unwrap_or_default();
            let wanted = format!("{STAGES}{node}.outcome");
            let diagnostic = key_diagnostic(input, attribute, key, format!("conditions cannot read `{key}`"))
                .note("of another stage a condition reads `stages.ID.outcome` and `visits.ID`");
            diagnostics.push(meant_key(input, diagnostic, (attribute, key), Some(&wanted)));
            continue;
        };
        if input.graph().find(id).is_some() {
            continue;
        }
        let diagnostic = key_diagnostic(input, attribute, key, format!("the pipeline has no node `{id}`"));
        let before = if key.starts_with(VISITS) { VISITS } else { STAGES };
        let near = input.near(id).map(|near| {
            let behind = key.get(before.len() + id.len()..).unwrap_or_default();
            format!("{before}{}{behind}", input.id(near))
        });
        diagnostics.push(meant_key(input, diagnostic, (attribute, key), near.as_deref()));
    }
    diagnostics
}

/// Adds the hint "did you mean" with the fix of a key, or another hint if there is no suggestion.
fn meant_key(
    input: &Input<'_>,
    diagnostic: Diagnostic,
    (attribute, key): (&Attribute, &str),
    wanted: Option<&str>,
) -> Diagnostic {
    let text = attribute.value.as_str().unwrap_or_default();
    let otherwise = "name a node of this pipeline, as in `visits.work >= 3`";
    match find_key(text, key) {
        Some(range) => meant_in(
            input.analysis.source(),
            diagnostic,
            (attribute, range),
            wanted,
            otherwise,
        ),
        None => diagnostic.help(otherwise),
    }
}

/// Returns the diagnostic for a key of a manager's condition that reads the record of a stage.
fn in_manager(input: &Input<'_>, attribute: &Attribute, key: &str) -> Diagnostic {
    key_diagnostic(
        input,
        attribute,
        key,
        format!("a manager's condition cannot read `{key}`"),
    )
    .note("it is evaluated over what the manager knows of its child")
    .help("read `stack.child.*` or `context.*` instead")
}

fn key_diagnostic(input: &Input<'_>, attribute: &Attribute, key: &str, message: String) -> Diagnostic {
    let text = attribute.value.as_str().unwrap_or_default();
    let span = find_key(text, key).map_or(attribute.value_span, |range| {
        input.analysis.inside(attribute.value_span, range)
    });
    Diagnostic::from_rule(&RULE, message, span).label("here in the condition")
}

fn diagnostic(input: &Input<'_>, attribute: &Attribute, error: &ConditionError) -> Diagnostic {
    let span = if error.range.is_empty() {
        attribute.value_span
    } else {
        input.analysis.inside(attribute.value_span, error.range.clone())
    };
    let mut diagnostic = Diagnostic::from_rule(&RULE, error.message.clone(), span)
        .label("here in the condition")
        .note("clauses are `key=value` or `key!=value`, joined by `&&`; also `||`, `!`, `( )`, `<`, `<=`, `>`, `>=`, `contains`, `matches`");
    if matches!(
        attribute.key,
        Key::Known(Known::ConditionValue | Known::ConditionType)
    ) {
        diagnostic.notes.clear();
        diagnostic.label.clear();
    }
    if !error.help.is_empty() {
        diagnostic = diagnostic.help(error.help.clone());
    }
    match &error.replacement {
        Some(replacement) => {
            let (source, range) = (input.analysis.source(), error.range.clone());
            let fix = value_fix(source, attribute.value_span, range, replacement);
            diagnostic.fix(fix.span, fix.replacement)
        }
        None => diagnostic,
    }
}
