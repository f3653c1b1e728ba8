//! `failure_routed_as_success`: a routing node takes the same edge after a tool's failure as after its success (rules
//! R3, R4).
//!
//! A tool returns an outcome, but no label. If a routing node has only plain edges for it, one of them is always taken.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::check::Check;
use crate::check::input::Input;
use crate::check::outcomes::{FAIL, failure_gets_past};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::model::{EdgeIndex, NodeIndex};
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "failure_routed_as_success",
    severity: Severity::Warning,
    summary: "a routing node treats the failure of a tool like its success",
    source: "rules R3, R4",
    text: include_str!("../../tests/rules/failure_routed_as_success.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    for (at, node) in input.nodes() {
        let Some((tool, edge)) = find(input, at) else {
            continue;
        };
        let to = input.edge(edge).to;
        let (id, tool_id, to_id) = (&*node.id, input.id(tool), input.id(to));
        let order = if input.first_match() {
            "a tool selects no label, so the first edge of the file without a condition is always taken"
        } else {
            "a tool selects no label, so among edges without a condition the highest `weight` is taken, then the lowest target id"
        };
        let mut diagnostic = Diagnostic::from_rule(
            &RULE,
            format!("`{id}` leads to `{to_id}` whether `{tool_id}` succeeds or fails"),
            input.edge(edge).span(),
        )
        .label("taken after a failure too")
        .related(input.node(tool).span, "its outcome decides nothing")
        .note(order);
        if let Some(way) = to_exit(input, tool, at, to) {
            diagnostic = diagnostic.note(format!(
                "a run in which `{tool_id}` failed can end as a success: {way}"
            ));
        }
        diagnostics.push(
            diagnostic
                .help(format!(
                    "write `condition=\"outcome=success\"` and `condition=\"outcome=fail\"` on the edges of `{id}`"
                ))
                .node(id)
                .edge(id, to_id),
        );
    }
}

/// Returns a tool whose failure reaches a routing node that does not distinguish it from a success, with the edge
/// taken.
pub(crate) fn find(input: &Input<'_>, at: NodeIndex) -> Option<(NodeIndex, EdgeIndex)> {
    let is_open = input.kind(at) == kind::CONDITIONAL
        && input.reached[at.at()]
        && input.outcomes.seen(at).words & FAIL != 0;
    if !is_open {
        return None;
    }
    let outgoing = input.analysis.outgoing(at).iter().copied();
    let plain: Vec<EdgeIndex> = outgoing
        .filter(|edge| input.analysis.condition_id(*edge) == 0)
        .collect();
    let taken = if input.first_match() {
        *plain.first()?
    } else {
        let id = |edge: EdgeIndex| input.id(input.edge(edge).to);
        let better = |one: EdgeIndex, other: EdgeIndex| {
            let by_weight = input.weight(other).cmp(&input.weight(one));
            by_weight.then_with(|| id(one).cmp(id(other)))
        };
        plain.iter().copied().min_by(|one, other| better(*one, *other))?
    };
    let to = input.edge(taken).to;
    if plain.iter().all(|edge| input.edge(*edge).to == to) || !failure_gets_past(input, at) {
        return None;
    }
    Some((failing_tool(input, at)?, taken))
}

/// Returns a tool whose failure reaches a routing node, possibly through other routing nodes.
fn failing_tool(input: &Input<'_>, at: NodeIndex) -> Option<NodeIndex> {
    let mut seen = HashSet::from([at]);
    let mut open = vec![at];
    while let Some(at) = open.pop() {
        for edge in input.analysis.incoming(at) {
            let from = input.edge(*edge).from;
            if !input.reached[from.at()] || !passes_failure(input, from, *edge) {
                continue;
            }
            match input.kind(from) {
                kind::TOOL => return Some(from),
                kind::CONDITIONAL if seen.insert(from) => open.push(from),
                _ => {}
            }
        }
    }
    None
}

/// Returns whether an edge may be taken after a failure.
fn passes_failure(input: &Input<'_>, from: NodeIndex, edge: EdgeIndex) -> bool {
    let effect = |edge: EdgeIndex| match input.analysis.condition_id(edge) {
        0 => None,
        id => Some(input.outcomes.effect(input, id)),
    };
    if let Some(effect) = effect(edge) {
        return effect.can & FAIL != 0;
    }
    let edges = input.analysis.outgoing(from).iter().copied();
    !edges.filter_map(effect).any(|effect| effect.must & FAIL != 0)
}

/// Returns a shortest path from a tool through a routing node to the exit that does not return to the tool.
fn to_exit(input: &Input<'_>, tool: NodeIndex, through: NodeIndex, first: NodeIndex) -> Option<String> {
    let exit = input.analysis.exit()?;
    let mut before: HashMap<NodeIndex, NodeIndex> = HashMap::from([(first, through)]);
    let mut queue = VecDeque::from([first]);
    while let Some(at) = queue.pop_front() {
        if at == exit {
            let mut way = vec![exit];
            while let Some(node) = way.last().and_then(|last| before.get(last)) {
                way.push(*node);
                if *node == through {
                    break;
                }
            }
            way.push(tool);
            let ids: Vec<String> = way
                .iter()
                .rev()
                .map(|at| format!("`{}`", input.id(*at)))
                .collect();
            return Some(ids.join(" -> "));
        }
        let edges = input.analysis.outgoing(at).iter();
        for to in edges.map(|edge| input.edge(*edge).to) {
            if to != tool && to != through && !before.contains_key(&to) {
                before.insert(to, at);
                queue.push_back(to);
            }
        }
    }
    None
}
