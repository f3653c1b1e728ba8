//! `shell_injection`: the command of a tool stage executes a value that the stage gives it (rule T7).

use crate::attribute::{AttributeFamily, Known};
use crate::attributes::Attribute;
use crate::check::Check;
use crate::check::input::{Input, Once};
use crate::check::tool_value::{given, tools};
use crate::contract::{Contract, ValueType};
use crate::diagnostic::Diagnostic;
use crate::model::NodeIndex;
use crate::page::Page;
use crate::severity::Severity;
use crate::shell::{Finding, Problem, changes_programs, scan};
use crate::table::Pipeline;
use crate::text::Span;
use crate::value_source::ValueSource;

static RULE: Page = Page {
    code: "shell_injection",
    severity: Severity::Error,
    summary: "a command executes a value that it is given",
    source: "rule T7",
    text: include_str!("../../tests/rules/shell_injection.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

/// A place in the command of a tool stage at which a given value is executed or split.
pub(crate) struct Place<'g> {
    pub(crate) node: NodeIndex,
    pub(crate) span: Span,
    pub(crate) finding: Finding,
    /// The attribute that gives the value.
    pub(crate) attribute: &'g Attribute,
}

/// Returns whether a given value may be any text. Numbers, Booleans and words that the pipeline declares are not, because
/// the engine enforces their types.
fn is_text(attribute: &Attribute, contract: &Contract) -> bool {
    let source = attribute.value.as_str().and_then(ValueSource::parse);
    let Some(ValueSource::Context(key)) = source else {
        return true;
    };
    !matches!(
        contract.type_of(key),
        Some(ValueType::Integer | ValueType::Number | ValueType::Boolean | ValueType::Words(_))
    )
}

/// Returns the types of the declared values. Returns `None` if no stage gives its command a value, or if the types are not
/// known because of other errors.
fn declared(input: &Input<'_>) -> Option<Contract> {
    if !tools(input.analysis).any(|node| !given(input.analysis, node).is_empty()) {
        return None;
    }
    Pipeline::from_analysis(input.analysis).map(|pipeline| Contract::from_pipeline(&pipeline))
}

/// Returns the places at which the commands of tool stages execute or split given values.
pub(crate) fn places<'g>(input: &Input<'g>) -> Vec<Place<'g>> {
    let mut places = Vec::new();
    let Some(contract) = declared(input) else {
        return places;
    };
    for node in tools(input.analysis) {
        let mut given = given(input.analysis, node);
        given.retain(|(_, attribute)| is_text(attribute, &contract));
        let Some(command) = input.node(node).attributes.get(Known::ToolCommand) else {
            continue;
        };
        if given.is_empty() {
            continue;
        }
        let names: Vec<&str> = given.iter().filter_map(|(name, _)| *name).collect();
        let stdin = given.iter().any(|(name, _)| name.is_none());
        let text = command.value.as_str().unwrap_or_default();
        for finding in scan(text, &names, stdin) {
            let source = given
                .iter()
                .find(|(name, _)| *name == finding.variable.as_deref());
            let Some((_, attribute)) = source else {
                continue;
            };
            let span = input.analysis.inside(command.value_span, finding.range.clone());
            places.push(Place {
                node,
                span,
                finding,
                attribute,
            });
        }
    }
    places
}

/// Returns the value of a finding as a message names it.
pub(crate) fn shown(finding: &Finding) -> String {
    match &finding.variable {
        Some(name) => format!("the value of `${name}`"),
        None => "the standard input".to_owned(),
    }
}

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for place in places(input) {
        let value = shown(&place.finding);
        let diagnostic = match &place.finding.problem {
            Problem::Executed(by) => executed(&place, &value, by),
            Problem::Evaluated(by) => evaluated(&place, &value, by),
            Problem::Unquoted => continue,
        };
        diagnostics.push(diagnostic.node(input.id(place.node)));
    }
    variables(input, diagnostics);
}

fn located(place: &Place<'_>, message: String) -> Diagnostic {
    let source = place.attribute.value.as_str().unwrap_or_default();
    Diagnostic::from_rule(&RULE, message, place.span).related(
        place.attribute.key_span.to(place.attribute.value_span),
        format!("the value is `{source}`"),
    )
}

fn executed(place: &Place<'_>, value: &str, by: &str) -> Diagnostic {
    let help = match &place.finding.variable {
        Some(name) => format!(
            "pass it as an argument, as in `printf '%s' \"${name}\"` or `sh -c '.. \"$1\"' sh \"${name}\"`, or read it \
             from the standard input (`tool_stdin`)"
        ),
        None => {
            "name the program in the command, and let it read the value as data, as in `python script.py`"
                .to_owned()
        }
    };
    located(place, format!("the command executes {value}"))
        .label(by)
        .note("a text of a model, a person or a tool could run any command there")
        .help(help)
}

fn evaluated(place: &Place<'_>, value: &str, by: &str) -> Diagnostic {
    let source = place.attribute.value.as_str().unwrap_or_default();
    located(place, format!("the command evaluates {value} as a number"))
        .label(format!("{by} evaluates it"))
        .note("bash executes commands in such a value, as in `a[$(command)]`")
        .help(format!(
            "declare `{source}` as `int`, which the engine enforces, or compare it as text: `[ \"$VALUE\" = .. ]`"
        ))
}

/// Reports given values in variables that decide which programs run, whatever the command is.
fn variables(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(contract) = declared(input) else {
        return;
    };
    let prefix = AttributeFamily::TOOL_ENV_FROM.prefix;
    let graph = input.graph();
    let of_nodes = tools(input.analysis).map(|at| (Some(at), &input.node(at).attributes));
    let mut once = Once::default();
    for (node, attributes) in std::iter::once((None, &graph.attributes)).chain(of_nodes) {
        for attribute in attributes.iter() {
            let Some(name) = attribute.key.name().strip_prefix(prefix) else {
                continue;
            };
            if !changes_programs(name) || !is_text(attribute, &contract) || !once.first(attribute) {
                continue;
            }
            let message = format!(
                "`{}` decides which programs the command runs",
                attribute.key.name()
            );
            let diagnostic = Diagnostic::from_rule(&RULE, message, attribute.key_span)
                .label(format!("programs take commands or code from `{name}`"))
                .note("a text of a model, a person or a tool could run any command there")
                .help("choose another name, and read it in the command");
            diagnostics.push(match node {
                Some(node) => diagnostic.node(input.id(node)),
                None => diagnostic,
            });
        }
    }
}
