//! `join_policy_unsatisfiable`: a join policy lacks its number, or can never be satisfied (rule P4).

use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::model::{Node, NodeIndex};
use crate::page::Page;
use crate::severity::Severity;
use crate::text::Span;

static RULE: Page = Page {
    code: "join_policy_unsatisfiable",
    severity: Severity::Error,
    summary: "a join policy lacks its number, or asks for more branches than there are",
    source: "Attractor 4.8, rule P4",
    text: include_str!("../../tests/rules/join_policy_unsatisfiable.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for (at, node) in input.nodes_with(&[Known::JoinPolicy]) {
        if input.kind(at) != kind::PARALLEL {
            continue;
        }
        let diagnostic = match node.attributes.text(Known::JoinPolicy) {
            Some("k_of_n") => k_of_n(input, at, node),
            Some("quorum") => quorum(node),
            _ => None,
        };
        diagnostics.extend(diagnostic.map(|diagnostic| diagnostic.node(&*node.id)));
    }
}

fn k_of_n(input: &Input<'_>, at: NodeIndex, node: &Node) -> Option<Diagnostic> {
    let edges = input.analysis.outgoing(at).len();
    // With `foreach`, one edge is as many branches as the list has items.
    let most = node.attributes.integer(Known::ForeachMax);
    let most = most.filter(|_| node.attributes.get(Known::Foreach).is_some());
    let branches = most.map_or(edges, |most| usize::try_from(most).unwrap_or(edges));
    let Some(count) = node.attributes.get(Known::JoinK) else {
        // Lowering drops a value of the wrong type, and `attribute_type` reports it.
        return Some(
            error(
                format!("`{}` waits for `k_of_n` branches without a `join_k`", node.id),
                policy(node),
            )
            .label("how many must succeed?")
            .note("the block succeeds as soon as `join_k` of its branches have succeeded")
            .help(format!(
                "add `join_k`, a whole number from 1 to {}",
                branches.max(1)
            )),
        );
    };
    let wanted = node.attributes.integer(Known::JoinK)?;
    // Without branches there is no real fan-out, and edges that were lost may have been branches.
    if branches == 0 || !input.whole || usize::try_from(wanted).is_ok_and(|wanted| wanted <= branches) {
        return None;
    }
    let have = match branches {
        1 => "only 1 branch".to_owned(),
        branches => format!("only {branches} branches"),
    };
    Some(
        error(
            format!("`{}` waits for {wanted} branches, but has {have}", node.id),
            count.value_span,
        )
        .label(format!("it has {have}"))
        .note("so the block would fail however its branches end")
        .help(format!("write `join_k={branches}` or less, or add branches")),
    )
}

fn quorum(node: &Node) -> Option<Diagnostic> {
    let help = "write the fraction of the branches that must succeed, such as `join_quorum=0.5`";
    let note = "the block succeeds as soon as that fraction of its branches has succeeded";
    match node.attributes.get(Known::JoinQuorum) {
        None => Some(
            error(
                format!("`{}` waits for a `quorum` without a `join_quorum`", node.id),
                policy(node),
            )
            .label("which fraction must succeed?")
            .note(note)
            .help(help),
        ),
        Some(fraction) if node.attributes.float(Known::JoinQuorum) == Some(0.0) => Some(
            error(
                format!("`{}` waits for a quorum of none of its branches", node.id),
                fraction.value_span,
            )
            .label("nothing is asked for")
            .note(note)
            .help(help),
        ),
        Some(_) => None,
    }
}

fn error(message: String, span: Span) -> Diagnostic {
    Diagnostic::from_rule(&RULE, message, span)
}

fn policy(node: &Node) -> Span {
    let policy = node.attributes.get(Known::JoinPolicy);
    policy.map_or(node.span, |policy| policy.value_span)
}
