//! `goal_gate_bypass`: a path from start to exit avoids a goal gate (rule R7).
//!
//! Gates are checked only if they were visited, so a gate beside a path proves nothing about that path. One walk finds
//! all gates that every path passes. Gates inside a parallel block are ignored, because all its branches run.

use std::collections::VecDeque;

use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::model::NodeIndex;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "goal_gate_bypass",
    severity: Severity::Warning,
    summary: "a path from start to exit avoids a goal gate",
    source: "rule R7",
    text: include_str!("../../tests/rules/goal_gate_bypass.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let (Some(start), Some(exit)) = (input.analysis.start(), input.analysis.exit()) else {
        return;
    };
    let gates: Vec<NodeIndex> = input
        .nodes_with(&[Known::GoalGate])
        .filter(|(at, node)| node.attributes.is_goal_gate() && input.reached[at.at()])
        .map(|(at, _)| at)
        .collect();
    if gates.is_empty() || !input.reached[exit.at()] {
        return;
    }
    let Some(path) = shortest(input, start, exit) else {
        return;
    };
    let passes = Passes::new(input, &path);
    // All branches run, so a path through one of them does not bypass the others.
    let parallel = input.joins().in_branches();
    for gate in gates {
        let position = passes.position[gate.at()];
        let way = if position == OFF {
            format!("the path {} avoids it", show(input, &path))
        } else if let Some((from, through, to)) = passes.around[position as usize] {
            let [from_id, through_id, to_id] = [from, through, to].map(|at| input.id(NodeIndex(at as u32)));
            if from == through {
                format!("the edge from `{from_id}` to `{to_id}` avoids it")
            } else {
                format!("a path from `{from_id}` through `{through_id}` to `{to_id}` avoids it")
            }
        } else {
            continue;
        };
        if parallel[gate.at()] {
            continue;
        }
        let node = input.node(gate);
        diagnostics.push(
            Diagnostic::from_rule(
                &RULE,
                format!(
                    "a run can reach the exit without passing the goal gate `{}`",
                    node.id
                ),
                node.span,
            )
            .label("checked only if visited")
            .note(way)
            .help("route every path to the exit through the gate, or remove `goal_gate` if not every run needs it")
            .node(&*node.id),
        );
    }
}

/// Returns a shortest path, including both ends.
fn shortest(input: &Input<'_>, start: NodeIndex, exit: NodeIndex) -> Option<Vec<usize>> {
    let mut before = vec![OFF; input.kinds.len()];
    before[start.at()] = start.0;
    let mut queue = VecDeque::from([start.at()]);
    while let Some(at) = queue.pop_front() {
        if at == exit.at() {
            let mut path = vec![at];
            let mut last = at;
            while last != start.at() {
                last = before[last] as usize;
                path.push(last);
            }
            path.reverse();
            return Some(path);
        }
        for to in input.forward.successors(at) {
            if before[*to as usize] == OFF {
                before[*to as usize] = at as u32;
                queue.push_back(*to as usize);
            }
        }
    }
    None
}

const OFF: u32 = u32::MAX;

/// The nodes of a path that can be bypassed.
struct Passes {
    /// The index of each node on the path; `OFF` for other nodes.
    position: Vec<u32>,
    /// For each index a detour around it: the node where it leaves the path, its last node, and the node where it
    /// returns.
    around: Vec<Option<(usize, usize, usize)>>,
}

impl Passes {
    fn new(input: &Input<'_>, path: &[usize]) -> Passes {
        let mut position = vec![OFF; input.kinds.len()];
        for (at, node) in path.iter().enumerate() {
            position[*node] = at as u32;
        }
        let mut around = Vec::with_capacity(path.len());
        let mut seen = vec![false; input.kinds.len()];
        let (mut farthest, mut detour) = (0, None);
        let mut stack = Vec::new();
        for (at, node) in path.iter().enumerate() {
            // A detour that starts before this index and returns after it bypasses the node.
            around.push(if farthest > at as u32 { detour } else { None });
            stack.push(*node);
            while let Some(through) = stack.pop() {
                for to in input.forward.successors(through).iter().map(|to| *to as usize) {
                    if position[to] == OFF {
                        if !std::mem::replace(&mut seen[to], true) {
                            stack.push(to);
                        }
                    } else if position[to] > farthest {
                        farthest = position[to];
                        detour = Some((*node, through, to));
                    }
                }
            }
        }
        Passes { position, around }
    }
}

fn show(input: &Input<'_>, path: &[usize]) -> String {
    let id = |at: &usize| format!("`{}`", input.id(NodeIndex(*at as u32)));
    let ids: Vec<String> = match path {
        [first, second, third, .., last] if path.len() > 6 => {
            vec![id(first), id(second), id(third), "..".to_owned(), id(last)]
        }
        short => short.iter().map(id).collect(),
    };
    ids.join(" -> ")
}
