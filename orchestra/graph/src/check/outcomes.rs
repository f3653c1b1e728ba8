//! Outcomes: those that a stage may return, those that reach a routing node, and those that conditions test.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::analysis::EdgeCondition;
use crate::attribute::Known;
use crate::check::properties::Properties;
use crate::condition::{Comparison, Expression, OUTCOME_WORDS};
use crate::kind;
use crate::model::{Node, NodeIndex};

/// A set of outcomes, as bits at their index in [`Outcomes::words`].
pub(crate) type WordSet = u64;

/// The bits of built-in outcomes.
pub(crate) const SUCCESS: WordSet = 1;
pub(crate) const PARTIAL_SUCCESS: WordSet = 1 << 1;
pub(crate) const FAIL: WordSet = 1 << 3;

/// The outcomes that are visible at a node.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    /// The outcomes that the conditions on its edges may see.
    pub(crate) words: WordSet,
    /// The outcomes that the node or a stage before it declares.
    pub(crate) declared: WordSet,
    /// `true` if the node routes by the answer of a person.
    pub(crate) human: bool,
}

/// The outcomes under which a condition can be true (`can`), and those under which it always is (`must`).
#[derive(Clone, Copy)]
pub(crate) struct Effect {
    pub(crate) can: WordSet,
    pub(crate) must: WordSet,
}

/// The outcomes of a pipeline.
#[derive(Default)]
pub(crate) struct Outcomes<'c> {
    /// The built-in outcomes, then those that the file declares or names.
    pub(crate) words: Vec<&'c str>,
    /// `true` if there are more outcomes than a set can hold. The checks then report nothing about them.
    pub(crate) too_many: bool,
    seen: Vec<Seen>,
    mentioned: Vec<WordSet>,
    effects: RefCell<HashMap<usize, Effect>>,
}

impl<'c> Outcomes<'c> {
    pub(crate) fn new(input: &Properties<'c>) -> Outcomes<'c> {
        let mut outcomes = Outcomes {
            words: OUTCOME_WORDS.to_vec(),
            ..Outcomes::default()
        };
        let mut slots: HashMap<&str, usize> = OUTCOME_WORDS.iter().copied().zip(0..).collect();
        for condition in input.analysis.conditions() {
            let mut set = 0;
            if let EdgeCondition::Parsed(expression) = condition {
                for word in expression.outcomes() {
                    set |= outcomes.slot(word, &mut slots);
                }
            }
            outcomes.mentioned.push(set);
        }
        let mut declared = vec![0; input.graph().nodes.len()];
        for (at, node) in input.nodes_with(&[Known::Outcomes]) {
            let words = node.attributes.words(Known::Outcomes);
            declared[at.at()] = words.fold(0, |set, word| set | outcomes.slot(word, &mut slots));
        }
        if !outcomes.too_many {
            outcomes.spread(input, &declared);
        }
        outcomes
    }

    fn slot(&mut self, word: &'c str, slots: &mut HashMap<&'c str, usize>) -> WordSet {
        let next = self.words.len();
        let slot = *slots.entry(word).or_insert(next);
        if slot == next {
            self.words.push(word);
        }
        self.too_many |= slot >= WordSet::BITS as usize;
        1u64.checked_shl(slot as u32).unwrap_or(0)
    }

    /// Computes the outcomes visible at each node. Routing nodes pass on the outcomes of the stages before them (rule
    /// R4).
    fn spread(&mut self, input: &Properties<'c>, declared: &[WordSet]) {
        let nodes = input.graph().nodes.len();
        let routes = |at: NodeIndex| input.kind(at) == kind::CONDITIONAL;
        let mut seen: Vec<Seen> = (0..nodes)
            .map(|at| {
                let (index, declared) = (NodeIndex(at as u32), declared[at]);
                let mut words = 0;
                if declared != 0 {
                    words = declared | FAIL;
                } else if input.kind(index) == kind::START {
                    words = SUCCESS;
                } else if !routes(index) {
                    words = SUCCESS | FAIL | if partial(input, index) { PARTIAL_SUCCESS } else { 0 };
                }
                Seen {
                    words,
                    declared,
                    human: input.kind(index) == kind::WAIT_HUMAN,
                }
            })
            .collect();
        // A routing node that is a join sees the outcome of the block as a whole.
        for fan_out in input.joins().fan_outs() {
            if let Some(join) = input.joins().join(fan_out).filter(|join| routes(*join)) {
                seen[join.at()].words |= of_block(input.node(fan_out));
            }
        }
        let mut work: Vec<u32> = (0..nodes as u32).rev().collect();
        for (at, _) in input.nodes_with(&[Known::RetryTarget, Known::FallbackRetryTarget]) {
            for target in input.analysis.retry_targets(at).filter(|target| routes(*target)) {
                seen[target.at()].words |= FAIL;
                seen[target.at()].declared |= declared[at.at()];
            }
        }
        while let Some(at) = work.pop() {
            let from = NodeIndex(at);
            let edges = input.analysis.outgoing(from);
            if !edges.iter().any(|edge| routes(input.edge(*edge).to)) {
                continue;
            }
            let given = seen[from.at()];
            let taken = edges
                .iter()
                .fold(0, |set, edge| match input.analysis.condition_id(*edge) {
                    0 => set,
                    id => set | self.effect(input, id).must,
                });
            for edge in edges {
                let to = input.edge(*edge).to;
                if !routes(to) || to == from {
                    continue;
                }
                let passed = match input.analysis.condition_id(*edge) {
                    // A failed gate has no answer, and its plain edges are answers (rule H3).
                    0 if input.kind(from) == kind::WAIT_HUMAN => given.words & !FAIL,
                    0 => given.words & !taken,
                    id => {
                        let can = self.effect(input, id).can;
                        // A partial success may be routed as a success (rule R12).
                        let partial = if can & SUCCESS == 0 { 0 } else { PARTIAL_SUCCESS };
                        given.words & (can | partial)
                    }
                };
                let target = &mut seen[to.at()];
                let before = (target.words, target.declared, target.human);
                target.words |= passed;
                target.declared |= given.declared;
                target.human |= given.human;
                if (target.words, target.declared, target.human) != before {
                    work.push(to.0);
                }
            }
        }
        self.seen = seen;
    }

    /// Returns the outcomes that are visible at a node.
    pub(crate) fn seen(&self, at: NodeIndex) -> Seen {
        self.seen.get(at.at()).copied().unwrap_or_default()
    }

    /// Returns the outcomes that a condition compares with.
    pub(crate) fn mentioned(&self, condition: usize) -> WordSet {
        self.mentioned.get(condition).copied().unwrap_or(0)
    }

    /// Returns the outcomes of a set.
    pub(crate) fn list(&self, set: WordSet) -> Vec<&'c str> {
        let words = self.words.iter().enumerate();
        words
            .filter(|(at, _)| 1u64.checked_shl(*at as u32).is_some_and(|bit| set & bit != 0))
            .map(|(_, word)| *word)
            .collect()
    }

    /// Returns the outcomes under which a condition can be true and always is true.
    pub(crate) fn effect(&self, input: &Properties<'c>, condition: usize) -> Effect {
        if let Some(known) = self.effects.borrow().get(&condition) {
            return *known;
        }
        let effect = match input.analysis.conditions().get(condition) {
            Some(EdgeCondition::Parsed(expression)) => self.work_out(input, expression, condition),
            _ => Effect { can: !0, must: 0 },
        };
        self.effects.borrow_mut().insert(condition, effect);
        effect
    }

    fn work_out(&self, input: &Properties<'c>, expression: &Expression, condition: usize) -> Effect {
        let always = |set| Effect { can: set, must: set };
        match expression {
            Expression::Failed(true) => return always(FAIL),
            Expression::Failed(false) => return always(!FAIL),
            Expression::Compare {
                key,
                comparison: comparison @ (Comparison::Equal | Comparison::NotEqual),
                ..
            } if key == "outcome" => {
                let word = self.mentioned(condition);
                let equal = *comparison == Comparison::Equal;
                return always(if equal { word } else { !word });
            }
            _ => {}
        }
        let mut effect = Effect { can: 0, must: !0 };
        let Some(space) = input.space(&[expression], Some(&self.words)) else {
            return Effect { can: !0, must: 0 };
        };
        space.find(|point| {
            let slot = self.words.iter().position(|word| *word == point.outcome());
            let bit = slot.map_or(0, |slot| 1 << slot);
            if point.holds(expression) {
                effect.can |= bit;
            } else {
                effect.must &= !bit;
            }
            false
        });
        effect
    }
}

/// Returns whether a stage may succeed in part. A model stage may report that itself (rule R12). For other kinds,
/// `allow_partial` turns exhausted retries into it. A human gate never succeeds in part (rule H3).
fn partial(input: &Properties<'_>, at: NodeIndex) -> bool {
    match input.kind(at) {
        kind::CODERGEN => true,
        kind::WAIT_HUMAN => false,
        _ => input.has(at, &[Known::AllowPartial]) && input.node(at).attributes.flag(Known::AllowPartial),
    }
}

/// Returns the possible outcomes of a block of branches (rule P4). Without `allow_partial`, a partial success is
/// possible only if the block waits for all branches and counts their failures.
fn of_block(fan_out: &Node) -> WordSet {
    let says = |known| fan_out.attributes.text_or_default(known);
    let counts_all = says(Known::JoinPolicy) == "wait_all" && says(Known::ErrorPolicy) == "continue";
    let partial = counts_all || fan_out.attributes.flag(Known::AllowPartial);
    SUCCESS | FAIL | if partial { PARTIAL_SUCCESS } else { 0 }
}

/// Returns whether there is a case after a failure in which no condition on the node's edges is true.
pub(crate) fn failure_gets_past(input: &Properties<'_>, node: NodeIndex) -> bool {
    let mut expressions: Vec<&Expression> = Vec::new();
    for edge in input.analysis.outgoing(node) {
        match input.analysis.condition(*edge) {
            EdgeCondition::None => {}
            EdgeCondition::Parsed(expression) => expressions.push(expression),
            EdgeCondition::Invalid(..) => return false,
        }
    }
    input.space(&expressions, Some(&["fail"])).is_some_and(|space| {
        let open = space.find(|point| !expressions.iter().any(|expression| point.holds(expression)));
        open.is_some()
    })
}
