//! `shadowed_edge`: an edge that can never be chosen, because another always wins (rules R1, R11).
//!
//! Only certain cases are reported. An edge without a condition may still be chosen by its label or target, so it is
//! shadowed only by an earlier edge to the same target, or if the conditions beside it cover every case.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::analysis::EdgeCondition;
use crate::attribute::Known;
use crate::check::Check;
use crate::check::input::Input;
use crate::choice::graph_choice_edges;
use crate::condition::{Expression, Facts};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::label::normalize_label;
use crate::model::{EdgeIndex, NodeIndex};
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "shadowed_edge",
    severity: Severity::Warning,
    summary: "an edge can never be chosen, because another always wins",
    source: "rules R1, R11, H5",
    text: include_str!("../../tests/rules/shadowed_edge.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

/// Maximum number of conditional edges of a node that are compared in pairs. If there are more, only equal conditions
/// are compared.
const MAX_COMPARED: usize = 16;

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let mut memory = Memory {
        input,
        implied: HashMap::new(),
    };
    let first_match = input.first_match();
    for (at, _) in input.nodes() {
        let edges = input.analysis.outgoing(at);
        // Every edge of a fan-out is a branch, so none of them is chosen.
        if edges.len() < 2 || input.kind(at) == kind::PARALLEL || input.is_exit(at) {
            continue;
        }
        for edges in rivals(input, at, edges) {
            if first_match {
                in_order(&mut memory, &edges, diagnostics);
                continue;
            }
            let is_plain = |edge: &EdgeIndex| input.analysis.condition_id(*edge) == 0;
            let (plain, conditional): (Vec<EdgeIndex>, Vec<EdgeIndex>) =
                edges.iter().partition(|edge| is_plain(edge));
            among_conditional(&mut memory, &conditional, diagnostics);
            among_plain(input, &plain, diagnostics);
            behind_all(&mut memory, &plain, &conditional, diagnostics);
        }
    }
}

/// Returns groups of edges of a node of which one is chosen: all edges, or at a human gate those of each choice and
/// those for a failed gate (rule H5).
fn rivals<'e>(input: &Input<'_>, at: NodeIndex, edges: &'e [EdgeIndex]) -> Vec<Cow<'e, [EdgeIndex]>> {
    if input.kind(at) != kind::WAIT_HUMAN {
        return vec![Cow::Borrowed(edges)];
    }
    let choices = graph_choice_edges(input.analysis, at).into_iter();
    let mut groups: Vec<Vec<EdgeIndex>> = choices.map(|(_, edges)| edges).collect();
    let chosen: HashSet<EdgeIndex> = groups.iter().flatten().copied().collect();
    groups.push(
        edges
            .iter()
            .copied()
            .filter(|edge| !chosen.contains(edge))
            .collect(),
    );
    groups.into_iter().map(Cow::Owned).collect()
}

struct Memory<'i, 'c> {
    input: &'i Input<'c>,
    implied: HashMap<(usize, usize), bool>,
}

impl Memory<'_, '_> {
    /// Returns whether the condition of `edge` can be true, and that of `other` is true whenever it is.
    fn implies(&mut self, edge: EdgeIndex, other: EdgeIndex) -> bool {
        let analysis = self.input.analysis;
        let ids = (analysis.condition_id(edge), analysis.condition_id(other));
        let (EdgeCondition::Parsed(first), EdgeCondition::Parsed(second)) =
            (analysis.condition(edge), analysis.condition(other))
        else {
            return false;
        };
        if let Some(known) = self.implied.get(&ids) {
            return *known;
        }
        let implied = implies(self.input, first, second);
        self.implied.insert(ids, implied);
        implied
    }
}

fn implies(input: &Input<'_>, first: &Expression, second: &Expression) -> bool {
    let keys = first.keys();
    // Conditions that share no key are independent.
    if !second.keys().iter().any(|key| keys.contains(key)) {
        return false;
    }
    let Some(space) = input.space(&[first, second], None) else {
        return false;
    };
    let possible = space.find(|point| point.holds(first)).is_some();
    possible
        && space
            .find(|point| point.holds(first) && !point.holds(second))
            .is_none()
}

/// Returns whether an edge precedes another of the same node in every choice by weight, target and position.
fn beats(input: &Input<'_>, winner: EdgeIndex, edge: EdgeIndex) -> bool {
    let rank = |edge: EdgeIndex| {
        let weight = std::cmp::Reverse(input.weight(edge));
        (weight, input.id(input.edge(edge).to), edge)
    };
    rank(winner) < rank(edge)
}

fn among_conditional(memory: &mut Memory<'_, '_>, edges: &[EdgeIndex], diagnostics: &mut Vec<Diagnostic>) {
    let input = memory.input;
    if edges.len() > MAX_COMPARED {
        let mut best: HashMap<usize, EdgeIndex> = HashMap::new();
        for edge in edges {
            let winner = best.entry(input.analysis.condition_id(*edge)).or_insert(*edge);
            if beats(input, *edge, *winner) {
                *winner = *edge;
            }
        }
        for edge in edges {
            if let Some(winner) = best.get(&input.analysis.condition_id(*edge))
                && winner != edge
                && memory.implies(*edge, *winner)
            {
                diagnostics.push(diagnostic(input, *edge, *winner, why(input, *edge, *winner)));
            }
        }
        return;
    }
    for edge in edges {
        let winner = edges.iter().find(|winner| {
            *winner != edge && beats(input, **winner, *edge) && memory.implies(*edge, **winner)
        });
        if let Some(winner) = winner {
            diagnostics.push(diagnostic(input, *edge, *winner, why(input, *edge, *winner)));
        }
    }
}

fn why(input: &Input<'_>, edge: EdgeIndex, winner: EdgeIndex) -> String {
    let same = input.analysis.condition_id(edge) == input.analysis.condition_id(winner);
    let holds = if same {
        "both have the same condition"
    } else {
        "whenever this condition holds, so does the other edge's"
    };
    let wins = if input.weight(winner) > input.weight(edge) {
        "the other has the higher weight"
    } else if input.edge(winner).to == input.edge(edge).to {
        "the other stands first"
    } else {
        "at equal weight the lower target id wins"
    };
    format!("{holds}, and {wins}")
}

fn among_plain(input: &Input<'_>, edges: &[EdgeIndex], diagnostics: &mut Vec<Diagnostic>) {
    if edges.len() < 2 {
        return;
    }
    let label = |edge: EdgeIndex| {
        let text = input.edge(edge).attributes.filled(Known::Label);
        text.map(normalize_label).unwrap_or_default()
    };
    let mut first: HashMap<NodeIndex, EdgeIndex> = HashMap::new();
    for edge in edges {
        let earlier = *first.entry(input.edge(*edge).to).or_insert(*edge);
        if earlier == *edge || input.weight(*edge) > input.weight(earlier) {
            continue;
        }
        let own = label(*edge);
        if own.is_empty() || own == label(earlier) {
            let why = "both lead to the same node without a condition, and the first wins by weight, label and position";
            diagnostics.push(diagnostic(input, *edge, earlier, why.to_owned()));
        }
    }
}

/// Reports edges without a condition if the conditions beside them cover every case.
fn behind_all(
    memory: &mut Memory<'_, '_>,
    plain: &[EdgeIndex],
    conditional: &[EdgeIndex],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let input = memory.input;
    if plain.is_empty() || conditional.is_empty() || conditional.len() > MAX_COMPARED {
        return;
    }
    let mut expressions: Vec<&Expression> = Vec::with_capacity(conditional.len());
    for edge in conditional {
        let EdgeCondition::Parsed(expression) = input.analysis.condition(*edge) else {
            return;
        };
        expressions.push(expression);
    }
    // A cheap test first: usually no condition is true if nothing is known, which is a case that is not covered.
    let unknown = Facts {
        outcome: "\u{0}",
        ..Facts::default()
    };
    let Some(winner) = expressions
        .iter()
        .position(|expression| expression.holds(&unknown))
    else {
        return;
    };
    let open = input.space(&expressions, None).map(|space| {
        space
            .find(|point| !expressions.iter().any(|expression| point.holds(expression)))
            .is_some()
    });
    if open != Some(false) {
        return;
    }
    for edge in plain {
        let why = "in every case one of the conditions beside it holds, and those come first";
        diagnostics.push(diagnostic(input, *edge, conditional[winner], why.to_owned()));
    }
}

/// First-match routing: reports an edge after one whose condition is true whenever its own is.
fn in_order(memory: &mut Memory<'_, '_>, edges: &[EdgeIndex], diagnostics: &mut Vec<Diagnostic>) {
    let input = memory.input;
    let always = edges
        .iter()
        .position(|edge| input.analysis.condition_id(*edge) == 0);
    let compared = edges.len() <= MAX_COMPARED;
    for (at, edge) in edges.iter().enumerate() {
        let winner = match always {
            Some(always) if at > always => {
                Some((edges[always], "the other has no condition and stands first"))
            }
            _ if compared => edges[..at]
                .iter()
                .find(|earlier| memory.implies(*edge, **earlier))
                .map(|earlier| {
                    (
                        *earlier,
                        "whenever this condition holds, so does that of the other, which stands first",
                    )
                }),
            _ => None,
        };
        if let Some((winner, why)) = winner {
            diagnostics.push(diagnostic(input, *edge, winner, why.to_owned()));
        }
    }
}

fn diagnostic(input: &Input<'_>, edge: EdgeIndex, winner: EdgeIndex, why: String) -> Diagnostic {
    let (edge, winner) = (input.edge(edge), input.edge(winner));
    let (from, to) = (input.id(edge.from), input.id(edge.to));
    Diagnostic::from_rule(
        &RULE,
        format!("the edge `{from} -> {to}` can never be taken"),
        edge.span(),
    )
    .label("another edge always wins")
    .related(winner.span(), format!("`{from} -> {}` wins", input.id(winner.to)))
    .note(why)
    .help("remove it, or change its condition, label or weight")
    .edge(from, to)
}
