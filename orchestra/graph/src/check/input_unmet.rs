//! `input_unmet`: a stage runs a child pipeline without its inputs (rule T5).

use crate::analysis::Analysis;
use crate::attribute::{Known, key_pairs};
use crate::check::maybe_unset::MissingValues;
use crate::contract::{Contract, plain_key};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::loaded::LoadedChild;
use crate::model::NodeIndex;
use crate::page::Page;
use crate::severity::Severity;
use crate::syntax::shorten;

pub(crate) static RULE: Page = Page {
    code: "input_unmet",
    severity: Severity::Error,
    summary: "a stage runs a child pipeline without its inputs",
    source: "rule T5",
    text: include_str!("../../tests/rules/input_unmet.md"),
};

/// Returns the errors for the values that the stages of a pipeline give to its children.
pub(crate) fn diagnostics(analysis: &Analysis<'_>, children: &[LoadedChild]) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut missing = MissingValues::new(analysis);
    for child in children {
        let contract = contract_of(child);
        for node in &child.nodes {
            let own = missing.as_ref().map(MissingValues::contract);
            unmet(analysis, child, &contract, own, *node, &mut found);
            if let Some(missing) = &mut missing {
                reads(analysis, child, &contract, *node, missing, &mut found);
            }
        }
    }
    found
}

/// Returns the errors for the values that stages give to their children although they may be missing.
pub(crate) fn missing_inputs(
    analysis: &Analysis<'_>,
    children: &[LoadedChild],
    missing: &mut MissingValues<'_>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for child in children {
        let contract = contract_of(child);
        for node in &child.nodes {
            reads(analysis, child, &contract, *node, missing, &mut found);
        }
    }
    found
}

fn contract_of(child: &LoadedChild) -> Contract {
    let pipeline = child.pipeline.as_ref();
    pipeline
        .map(|pipeline| Contract::from_pipeline(pipeline))
        .unwrap_or_default()
}

/// A value that a stage gives to its child.
struct Given {
    /// The key in the child.
    child: String,
    /// The key in this pipeline.
    own: String,
}

/// Returns the values that a stage gives to its child. The child of a manager loop receives all values of the context, of
/// which its inputs matter.
fn given(analysis: &Analysis<'_>, contract: &Contract, node: NodeIndex) -> Vec<Given> {
    if analysis.kind(node) == kind::MANAGER_LOOP {
        let same = |key: &str| Given {
            child: key.to_owned(),
            own: key.to_owned(),
        };
        return contract.inputs().iter().map(|input| same(&input.key)).collect();
    }
    let text = analysis
        .graph()
        .node(node)
        .attributes
        .text(Known::SubpipelineInputs);
    let pairs = text.and_then(key_pairs).unwrap_or_default().into_iter();
    pairs
        .map(|(child, own)| Given {
            child: plain_key(child).to_owned(),
            own: own.to_owned(),
        })
        .collect()
}

fn unmet(
    analysis: &Analysis<'_>,
    child: &LoadedChild,
    contract: &Contract,
    own: Option<&Contract>,
    node: NodeIndex,
    found: &mut Vec<Diagnostic>,
) {
    let row = analysis.graph().node(node);
    let attribute = row
        .attributes
        .get(Known::SubpipelineInputs)
        .unwrap_or(&child.attribute);
    let given = given(analysis, contract, node);
    let file = shorten(&child.file);
    for input in contract.inputs() {
        let from = given.iter().find(|given| given.child == input.key);
        let Some(from) = from else {
            if input.optional {
                continue;
            }
            let message = format!("`{}` does not give `{file}` its input `{}`", row.id, input.key);
            let diagnostic = Diagnostic::from_rule(&RULE, message, attribute.value_span)
                .note(format!("`{file}` declares the input `{input}`"))
                .help(format!(
                    "name it in `subpipeline.inputs`: `{0}`, or `{0}=KEY` for another key of this pipeline",
                    input.key
                ));
            found.push(diagnostic.node(&*row.id));
            continue;
        };
        let Some(own) = own.and_then(|own| own.type_of(&from.own)) else {
            continue;
        };
        if !own.fits(&input.value_type) {
            let message = format!(
                "`{}` is `{own}`, but the input `{}` of `{file}` is `{}`",
                plain_key(&from.own),
                input.key,
                input.value_type
            );
            found.push(
                Diagnostic::from_rule(&RULE, message, attribute.value_span)
                    .help("give both the same type, or pass another value")
                    .node(&*row.id),
            );
        }
    }
}

/// Reports the values that a stage gives to its child although they may be missing.
fn reads(
    analysis: &Analysis<'_>,
    child: &LoadedChild,
    contract: &Contract,
    node: NodeIndex,
    missing: &mut MissingValues<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let row = analysis.graph().node(node);
    let attribute = row
        .attributes
        .get(Known::SubpipelineInputs)
        .unwrap_or(&child.attribute);
    let text = attribute.value.as_str().unwrap_or_default();
    for given in given(analysis, contract, node) {
        let is_optional = contract
            .inputs()
            .iter()
            .any(|input| input.optional && input.key == given.child);
        if is_optional {
            continue;
        }
        let span = match text.find(&given.own) {
            Some(start) => analysis.inside(attribute.value_span, start..start + given.own.len()),
            None => attribute.value_span,
        };
        found.extend(missing.read_by_child(node, &given.own, span));
    }
}
