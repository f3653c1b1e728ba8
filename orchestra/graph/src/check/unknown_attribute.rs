//! `unknown_attribute`: an attribute that looks like a known one, or like another tool's (rule L7).

use crate::attribute::{
    ATTRIBUTE_FAMILIES, ATTRIBUTES, AttributeFamily, FOREIGN, FOREIGN_CHILD, Known, Scope, Scopes,
    is_drawing_attribute,
};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::page::Page;
use crate::severity::Severity;
use crate::text::Span;

pub(crate) static RULE: Page = Page {
    code: "unknown_attribute",
    severity: Severity::Warning,
    summary: "an attribute looks like a known one, but is not",
    source: "rule L7",
    text: include_str!("../../tests/rules/unknown_attribute.md"),
};

/// The probable meaning of an unknown attribute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Suggestion {
    /// A misspelling of this attribute.
    Spelling(&'static str),
    /// Another tool's name for this attribute.
    Foreign(&'static str),
    /// The family of a misspelt member.
    Family(&'static AttributeFamily),
    /// A known attribute on the wrong kind of owner.
    Misplaced(Known),
    /// A member of a known family on the wrong kind of owner.
    MisplacedMember(&'static AttributeFamily),
}

pub(crate) fn suggest(name: &str, scope: Scope) -> Option<Suggestion> {
    if is_drawing_attribute(name) {
        return None;
    }
    if name == FOREIGN_CHILD {
        // On a node the kind decides, which is known only once the whole node is lowered.
        return (scope == Scope::Graph).then(|| Suggestion::Foreign(Known::ChildDotfile.name()));
    }
    if let Some(known) = Known::find(name) {
        return Some(Suggestion::Misplaced(known));
    }
    if let Some((family, _)) = AttributeFamily::find(name) {
        return Some(Suggestion::MisplacedMember(family));
    }
    if let Some((_, known)) = FOREIGN.iter().find(|(foreign, _)| *foreign == name) {
        return known
            .spec()
            .scopes
            .contains(scope)
            .then(|| Suggestion::Foreign(known.name()));
    }
    if let Some((prefix, _)) = name.split_once('.') {
        let families = || {
            ATTRIBUTE_FAMILIES
                .iter()
                .filter(|family| family.scopes.contains(scope))
        };
        let prefixes = families().map(|family| family.prefix.trim_end_matches('.'));
        let near = did_you_mean(prefix, prefixes);
        let family = families().find(|family| near == family.prefix.strip_suffix('.'));
        if let (Some(_), Some(family)) = (near, family) {
            return Some(Suggestion::Family(family));
        }
    }
    let names = ATTRIBUTES
        .iter()
        .filter(|spec| spec.scopes.contains(scope))
        .map(|spec| spec.name);
    did_you_mean(name, names).map(Suggestion::Spelling)
}

/// Returns the diagnostic for the file of a child pipeline on a node that runs none.
pub(crate) fn child_elsewhere(span: Span) -> Diagnostic {
    let [manager, child] = [Known::ChildDotfile, Known::SubpipelineFile].map(Known::name);
    Diagnostic::from_rule(&RULE, format!("unknown node attribute `{FOREIGN_CHILD}`"), span)
        .note("this node runs no pipeline of its own, so nothing reads it")
        .help(format!(
            "a manager loop (`shape=house`) reads `{manager}`, a sub-pipeline node (`shape=folder`) `{child}`"
        ))
}

pub(crate) fn diagnostic(name: &str, span: Span, scope: Scope, suggestion: &Suggestion) -> Diagnostic {
    let message = format!("unknown {} attribute `{name}`", scope.word());
    let diagnostic = |message: String| Diagnostic::from_rule(&RULE, message, span);
    let misspelt = |known: &str| {
        diagnostic(message.clone())
            .note("unknown attributes are kept for custom handlers, but the engine does not read them")
            .help(format!("did you mean `{known}`?"))
            .fix(span, known)
    };
    match suggestion {
        Suggestion::Spelling(known) => misspelt(known),
        Suggestion::Family(family) => {
            let (_, member) = name.split_once('.').unwrap_or_default();
            misspelt(&format!("{}{member}", family.prefix))
        }
        Suggestion::Foreign(known) => diagnostic(message)
            .note("unknown attributes are kept for custom handlers, but the engine does not read them")
            .help(format!("other tools say `{name}`; here it is `{known}`"))
            .fix(span, *known),
        Suggestion::Misplaced(known) => {
            let spec = known.spec();
            misplaced(name, span, scope, spec.scopes).note(format!("`{}`: {}", spec.name, spec.doc))
        }
        Suggestion::MisplacedMember(family) => {
            let note = format!("`{}{}`: {}", family.prefix, family.member, family.doc);
            misplaced(name, span, scope, family.scopes).note(note)
        }
    }
}

fn misplaced(name: &str, span: Span, scope: Scope, scopes: Scopes) -> Diagnostic {
    let positions: Vec<&str> = [
        (scopes.graph, "the graph"),
        (scopes.node, "a node"),
        (scopes.edge, "an edge"),
    ]
    .iter()
    .filter_map(|(holds, position)| holds.then_some(*position))
    .collect();
    let positions = positions.join(" or ");
    let article = match scope {
        Scope::Edge => "an edge",
        Scope::Node => "a node",
        Scope::Graph => "the graph",
    };
    Diagnostic::from_rule(&RULE, format!("`{name}` has no meaning on {article}"), span)
        .help(format!("put it on {positions}"))
}
