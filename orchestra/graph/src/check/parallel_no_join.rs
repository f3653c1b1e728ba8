//! `parallel_no_join`: the branches of a fan-out never meet (rule P1).

use crate::check::Check;
use crate::check::input::Input;
use crate::diagnostic::{Diagnostic, Severity};
use crate::kind;
use crate::model::{EdgeIndex, NodeIndex};

pub(crate) static CHECK: Check = Check {
    code: "parallel_no_join",
    severity: Severity::Error,
    summary: "the branches of a fan-out never meet",
    source: "Attractor 4.8, rule P1",
    whole: true,
    run,
};

fn run(input: &Input<'_>, faults: &mut Vec<Diagnostic>) {
    let Some(exit) = input.analysis.exit() else {
        return;
    };
    let fan_outs = || input.nodes().filter(|(at, _)| input.kind(*at) == kind::PARALLEL);
    if fan_outs().next().is_none() {
        return;
    }
    let to_exit = input.backward.walk([exit.at()]);
    // Branches that all lead to the exit meet there at the latest; only for others a closer look is needed.
    let mut steps = 4 * (input.kinds.len() + input.graph().edges.len()) + 10_000;
    for (at, node) in fan_outs() {
        let edges = input.analysis.outgoing(at);
        let target = |edge: &EdgeIndex| input.edge(*edge).to;
        let lost: Vec<EdgeIndex> = edges
            .iter()
            .copied()
            .filter(|edge| !to_exit[target(edge).at()])
            .collect();
        let misspelt = edges.iter().any(|edge| input.is_ghost(target(edge)));
        if lost.is_empty()
            || misspelt
            || edges.len() < 2
            || !input.reached[at.at()]
            || meet(input, at, &mut steps)
        {
            continue;
        }
        let mut fault = Diagnostic::error(
            CHECK.code,
            format!("the branches of `{}` never meet", node.id),
            node.span,
        )
        .label("no join behind this fan-out")
        .note("a run goes on behind a fan-out where all branches come together: at a `tripleoctagon`, or at the first node that all reach")
        .help("lead every branch to one `tripleoctagon` node")
        .node(&*node.id);
        for edge in lost.iter().take(4) {
            let edge = input.edge(*edge);
            let label = format!("the branch `{}` leads nowhere near the others", input.id(edge.to));
            fault = fault.related(edge.to_span, label);
        }
        faults.push(fault);
    }
}

/// Whether some node is reached by every branch; also where that would take too long to find out.
fn meet(input: &Input<'_>, fan_out: NodeIndex, steps: &mut usize) -> bool {
    let mut branches: Vec<usize> = input
        .analysis
        .outgoing(fan_out)
        .iter()
        .map(|edge| input.edge(*edge).to.at())
        .collect();
    branches.sort_unstable();
    branches.dedup();
    let mut reached_by = vec![0usize; input.kinds.len()];
    let mut walked = vec![usize::MAX; input.kinds.len()];
    for (branch, root) in branches.iter().enumerate() {
        let mut stack = vec![*root];
        while let Some(at) = stack.pop() {
            if at == fan_out.at() || std::mem::replace(&mut walked[at], branch) == branch {
                continue;
            }
            reached_by[at] += 1;
            let next = input.forward.of(at);
            let Some(left) = steps.checked_sub(1 + next.len()) else {
                return true;
            };
            *steps = left;
            stack.extend(next.iter().map(|to| *to as usize));
        }
    }
    reached_by.contains(&branches.len())
}
