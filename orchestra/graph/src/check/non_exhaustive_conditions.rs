//! `non_exhaustive_conditions`: a node has only conditional edges, and all conditions may be false (rule R5).
//!
//! The failure of a work stage needs no edge, because rule R3 handles it. A routing node must handle every outcome that
//! reaches it. A person always answers with one of the choices, so the labels of a gate are assumed to be complete.

use crate::analysis::EdgeCondition;
use crate::check::Check;
use crate::check::declared::declares_values;
use crate::check::input::Input;
use crate::check::maybe_unset::MissingValues;
use crate::check::outcomes::{FAIL, PARTIAL_SUCCESS, SUCCESS};
use crate::condition::space::{Point, Sample};
use crate::condition::{Expression, OUTCOME_WORDS, number};
use crate::contract::{ValueType, plain_key};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::model::NodeIndex;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "non_exhaustive_conditions",
    severity: Severity::Warning,
    summary: "a node has only conditional edges, and there is an outcome for which none holds",
    source: "rules R3, R4, R5",
    text: include_str!("../../tests/rules/non_exhaustive_conditions.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    if input.outcomes.too_many {
        return;
    }
    for (at, node) in input.nodes() {
        let edges = input.analysis.outgoing(at);
        let plain = edges.iter().any(|edge| input.analysis.condition_id(*edge) == 0);
        let excluded = input.kind(at) == kind::PARALLEL || input.is_exit(at) || !input.reached[at.at()];
        if edges.is_empty() || plain || excluded {
            continue;
        }
        let Some(gap) = gap(input, at) else {
            continue;
        };
        diagnostics.push(
            Diagnostic::from_rule(
                &RULE,
                format!("no edge of `{}` is taken when {gap}", node.id),
                node.span,
            )
            .label("all outgoing edges have conditions")
            .note("the run would fail there, since an edge whose condition is false is never taken")
            .help("add an edge without a condition for all other cases, or conditions that cover them")
            .node(&*node.id),
        );
    }
}

/// Returns a description of a case in which no edge of a node may be taken.
fn gap(input: &Input<'_>, at: NodeIndex) -> Option<String> {
    let seen = input.outcomes.seen(at);
    let (mut words, mut covered, mut mentioned) = (seen.words, 0, 0);
    let mut expressions: Vec<&Expression> = Vec::new();
    for edge in input.analysis.outgoing(at) {
        let EdgeCondition::Parsed(expression) = input.analysis.condition(*edge) else {
            return None;
        };
        let id = input.analysis.condition_id(*edge);
        mentioned |= input.outcomes.mentioned(id);
        covered |= input.outcomes.effect(input, id).must;
        expressions.push(expression);
    }
    let built_in = (1 << OUTCOME_WORDS.len()) - 1;
    // `unknown_outcome` reports an outcome that no stage declares.
    if words == 0 || mentioned & !built_in & !seen.declared != 0 {
        return None;
    }
    words |= mentioned;
    if input.kind(at) != kind::CONDITIONAL {
        words &= !FAIL;
    }
    // An edge that takes every success also takes a partial one (rule R12).
    if covered & SUCCESS != 0 {
        covered |= PARTIAL_SUCCESS;
    }
    if words & !covered == 0 {
        return None;
    }
    let by_answer = |key: &&str| *key == "preferred_label" || key.starts_with("human.");
    if seen.human
        && expressions
            .iter()
            .any(|expression| expression.keys().iter().any(by_answer))
    {
        return None;
    }
    let words = input.outcomes.list(words);
    let space = input.space(&expressions, Some(&words))?;
    let none = |point: &Point<'_, '_>| !expressions.iter().any(|expression| point.holds(expression));
    let is_gap = |point: &Point<'_, '_>| none(point) && point.as_success().is_none_or(|point| none(&point));
    let gap = space.find(is_gap)?;
    if !declares_values(input.graph()) {
        return Some(gap.describe());
    }
    let Some(mut values) = DeclaredValues::new(input, at) else {
        return Some(gap.describe());
    };
    let gap = space.find(|point| is_gap(point) && point.samples().all(|sample| values.allow(&sample)))?;
    Some(gap.describe())
}

/// The declared values at the edges of a node.
struct DeclaredValues<'g> {
    missing: MissingValues<'g>,
    node: NodeIndex,
    /// `true` if the failure of the node is handled without its edges.
    ignores_failures: bool,
}

impl<'g> DeclaredValues<'g> {
    fn new(input: &Input<'g>, node: NodeIndex) -> Option<DeclaredValues<'g>> {
        Some(DeclaredValues {
            missing: MissingValues::new(input.analysis)?,
            node,
            ignores_failures: input.kind(node) != kind::CONDITIONAL,
        })
    }

    /// Returns whether a context value may be this one. Undeclared values may be anything.
    fn allow(&mut self, sample: &Sample<'_>) -> bool {
        let key = plain_key(sample.key);
        let is_context = sample.key.starts_with("context.");
        let Some(declared) = self.missing.contract().type_of(key).filter(|_| is_context) else {
            return true;
        };
        let is_other = |word: &str| !sample.is_sampled(word);
        let is_value = match (declared, sample.text) {
            (ValueType::Words(words), None) => words.iter().any(|word| is_other(word)),
            (ValueType::Boolean, None) => is_other("true") || is_other("false"),
            (ValueType::Integer | ValueType::Number, None) => !sample.has_all_numbers(),
            (_, None) => true,
            (ValueType::Words(words), Some(text)) => words.iter().any(|word| word == text),
            (ValueType::Boolean, Some(text)) => matches!(text, "true" | "false"),
            (ValueType::Integer, Some(text)) => text.parse::<i64>().is_ok(),
            (ValueType::Number, Some(text)) => number(text).is_some(),
            (_, Some(_)) => true,
        };
        is_value
            || sample.text == Some("")
                && self
                    .missing
                    .may_be_missing_after(self.node, key, self.ignores_failures)
    }
}
