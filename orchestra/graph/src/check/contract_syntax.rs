//! `contract_syntax`: a declaration of inputs or outputs that cannot be read (rule T1).

use crate::attribute::{Known, key_pairs};
use crate::check::Check;
use crate::check::declared::Written;
use crate::check::input::{Input, Once, meant};
use crate::condition::OUTCOME_WORDS;
use crate::contract::{may_have_outputs, parse_declarations, plain_key};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::kind;
use crate::model::NodeIndex;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "contract_syntax",
    severity: Severity::Error,
    summary: "a declaration of inputs or outputs cannot be read",
    source: "rule T1",
    text: include_str!("../../tests/rules/contract_syntax.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let mut once = Once::default();
    for declarations in input.declarations() {
        if !once.first(declarations.attribute) {
            continue;
        }
        let owner = declarations.node.map(|node| input.id(node));
        let on_node = |diagnostic: Diagnostic| match owner {
            Some(id) => diagnostic.node(id),
            None => diagnostic,
        };
        let has_types = declarations.has_types();
        for entry in &declarations.entries {
            match entry {
                Err(error) => {
                    let span = declarations.span(input, error.range.clone());
                    let mut diagnostic =
                        Diagnostic::from_rule(&RULE, error.message.clone(), span).help(&*error.help);
                    if let Some(fix) = &error.fix {
                        diagnostic = diagnostic.fix(span, &**fix);
                    }
                    diagnostics.push(on_node(diagnostic));
                }
                // An input without a type is a name for templates.
                Ok(entry) if entry.declared.is_none() && declarations.node.is_some() => {
                    let span = declarations.span(input, entry.range.clone());
                    let key = crate::syntax::shorten(&entry.key);
                    let diagnostic =
                        Diagnostic::from_rule(&RULE, format!("the output `{key}` has no type"), span).help(
                            format!("write `{key}: text`, or `{key}: any` for a value of any type"),
                        );
                    diagnostics.push(on_node(if has_types {
                        diagnostic
                    } else {
                        diagnostic.severity(Severity::Warning).note(
                            "an output without a type is not declared; `output_keys` only requests keys",
                        )
                    }));
                }
                Ok(_) => {}
            }
        }
        diagnostics.extend(outcome(input, declarations).map(on_node));
    }
    if !input.declarations().is_empty() {
        sub_pipelines(input, diagnostics);
    }
    without_outputs(input, diagnostics);
}

/// Reports outputs of nodes that set no values.
fn without_outputs(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let mut once = Once::default();
    for (_, node) in input
        .nodes_with(&[Known::Outputs])
        .filter(|(at, _)| !may_have_outputs(input.kind(*at)))
    {
        let Some(attribute) = node
            .attributes
            .get(Known::Outputs)
            .filter(|found| once.first(found))
        else {
            continue;
        };
        let entries = parse_declarations(attribute.value.as_str().unwrap_or_default());
        let is_declaration = entries.iter().flatten().any(|entry| entry.declared.is_some());
        let message = format!("`{}` sets no values, so it has no outputs", node.id);
        let diagnostic = Diagnostic::from_rule(&RULE, message, attribute.key_span.to(attribute.value_span))
            .note("only a stage of a model, a tool, a sub-pipeline or the program's own sets values of the context")
            .help("declare the outputs on the stage that sets the values")
            .node(&*node.id);
        diagnostics.push(if is_declaration {
            diagnostic
        } else {
            diagnostic.severity(Severity::Warning)
        });
    }
}

/// Reports outputs of sub-pipelines that `subpipeline.outputs` does not name, and the reverse.
fn sub_pipelines(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let entries = |node: Option<NodeIndex>| {
        let of_node = input
            .declarations()
            .iter()
            .filter(move |written| node.is_none() || written.node == node);
        let entries = of_node.flat_map(|written| written.entries.iter().flatten());
        entries.filter(|entry| entry.declared.is_some())
    };
    for (at, node) in input
        .nodes_with(&[Known::SubpipelineFile, Known::SubpipelineName])
        .filter(|(at, _)| input.kind(*at) == kind::SUBPIPELINE)
    {
        let attribute = node.attributes.get(Known::SubpipelineOutputs);
        let text = attribute
            .and_then(|attribute| attribute.value.as_str())
            .unwrap_or_default();
        let Some(pairs) = key_pairs(text) else {
            continue;
        };
        let returned = |key: &str| pairs.iter().any(|(own, _)| plain_key(own) == key);
        for entry in entries(Some(at)).filter(|entry| !returned(&entry.key)) {
            let required = entry.declared.as_ref().is_some_and(|(_, optional)| !optional);
            if let Some(own) = node.attributes.get(Known::Outputs).filter(|_| required) {
                let message = format!("`{}` never sets its output `{}`", node.id, entry.key);
                diagnostics.push(
                    Diagnostic::from_rule(&RULE, message, own.value_span)
                        .note("a sub-pipeline returns the values that `subpipeline.outputs` names")
                        .help(format!("add `{}` to `subpipeline.outputs`", entry.key))
                        .node(&*node.id),
                );
            }
        }
        for (own, _) in &pairs {
            let own = plain_key(own);
            let is_declared = entries(None).any(|entry| entry.key == own);
            if is_declared
                && !entries(Some(at)).any(|entry| entry.key == own)
                && let Some(attribute) = attribute
            {
                let message = format!("`{}` sets `{own}`, but does not declare it as an output", node.id);
                diagnostics.push(
                    Diagnostic::from_rule(&RULE, message, attribute.value_span)
                        .note("only the stages that declare a key set it")
                        .help(format!("add `{own}` to `outputs` of `{}`", node.id))
                        .node(&*node.id),
                );
            }
        }
    }
}

/// Returns the diagnostic for outputs of an outcome that the stage never has.
fn outcome(input: &Input<'_>, declarations: &Written<'_>) -> Option<Diagnostic> {
    let (word, node) = (declarations.word?, declarations.node?);
    let span = declarations.attribute.key_span;
    if word == "retry" {
        let message = "an attempt that ends with `retry` sets no outputs";
        let help = "declare the outputs of a success, or those of `fail`";
        return Some(Diagnostic::from_rule(&RULE, message, span).help(help));
    }
    let attributes = &input.node(node).attributes;
    let declared = || attributes.words(Known::Outcomes);
    let is_known = OUTCOME_WORDS.contains(&word) || declared().any(|known| known == word);
    // A handler of the program may declare its outcomes in Rust.
    if is_known || !kind::BUILT_IN.contains(&input.kind(node)) {
        return None;
    }
    let message = format!("`{}` has no outcome `{word}`", input.id(node));
    let near = did_you_mean(word, OUTCOME_WORDS.iter().copied().chain(declared()));
    Some(meant(
        Diagnostic::from_rule(&RULE, message, span),
        span,
        near.map(|near| format!("outputs.{near}")).as_deref(),
        format!("declare it: `outcomes=\"{word}\"`"),
    ))
}
