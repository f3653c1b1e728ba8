//! Replaces those spellings of other tools that can only be resolved by looking at the whole node (rule L7).

use crate::attribute::{FOREIGN_CHILD, Key, Known, foreign_value};
use crate::attributes::{Attribute, Attributes, Origin};
use crate::check::{conflicting_aliases, unknown_attribute};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::model::Graph;
use crate::text::Source;
use crate::value::Value;

/// Replaces the accepted spellings of other tools on all nodes. Reports those that cannot be replaced.
pub(crate) fn resolve(graph: &mut Graph, source: &Source, diagnostics: &mut Vec<Diagnostic>) {
    for node in &mut graph.nodes {
        let child = match node.kind() {
            kind::MANAGER_LOOP => Some(Some(Known::ChildDotfile)),
            kind::SUBPIPELINE => Some(Some(Known::SubpipelineFile)),
            other => kind::BUILT_IN.contains(&other).then_some(None),
        };
        // A handler registered by the program may read an attribute of this name, so other kinds are left alone.
        if let Some(meant) = child {
            let diagnostic = child_file(&mut node.attributes, meant, source);
            diagnostics.extend(diagnostic.map(|diagnostic| diagnostic.node(&*node.id)));
        }
        let diagnostic = join_policy(&mut node.attributes, source);
        diagnostics.extend(diagnostic.map(|diagnostic| diagnostic.node(&*node.id)));
    }
}

/// Renames the attribute that names the file of a child pipeline to the name that this kind of node reads.
fn child_file(attributes: &mut Attributes, meant: Option<Known>, source: &Source) -> Option<Diagnostic> {
    let own = meant.and_then(|known| attributes.get(known)).cloned();
    let foreign = attributes.find_other_mut(FOREIGN_CHILD)?;
    match (meant, own) {
        (None, _) => {
            (foreign.origin == Origin::Explicit).then(|| unknown_attribute::child_elsewhere(foreign.key_span))
        }
        (Some(_), Some(own)) if own.origin != Origin::Explicit || foreign.origin != Origin::Explicit => None,
        (Some(known), Some(own)) => Some(conflicting_aliases::diagnostic(
            known.name(),
            (source.slice(foreign.key_span), foreign.key_span),
            (source.slice(own.key_span), own.key_span),
        )),
        (Some(known), None) => {
            foreign.key = Key::Known(known);
            foreign.value = Value::String(foreign.value.to_string().into());
            None
        }
    }
}

/// Replaces a join policy of other tools, and sets the error policy that is part of its meaning.
fn join_policy(attributes: &mut Attributes, source: &Source) -> Option<Diagnostic> {
    let policy = attributes.get(Known::JoinPolicy)?.clone();
    let foreign = foreign_value(Known::JoinPolicy, &policy.value)?;
    let word = |word: &str| Value::String(word.into());
    attributes.set(Attribute {
        value: word(foreign.value),
        ..policy.clone()
    });
    let (known, value) = foreign.also?;
    let before = attributes.set(Attribute {
        key: Key::Known(known),
        value: word(value),
        ..policy.clone()
    })?;
    let overruled = before.origin == Origin::Explicit && before.value != word(value);
    overruled.then(|| {
        let written = |attribute: &Attribute| {
            let span = attribute.key_span.to(attribute.value_span);
            (source.slice(span), span)
        };
        let (policy, lost) = (written(&policy), written(&before));
        conflicting_aliases::diagnostic(known.name(), lost, policy)
            .help(format!(
                "remove `{}`, or write `join_policy={}`",
                lost.0, foreign.value
            ))
            .note(format!(
                "`{}` means `join_policy={}` with `{}={value}`",
                policy.0,
                foreign.value,
                known.name()
            ))
    })
}
