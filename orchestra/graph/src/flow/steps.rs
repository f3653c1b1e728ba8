//! The steps after a stage: where a run may continue, for each way in which the stage may end.
//!
//! The steps are those that [`route`] chooses. The conditions of a node are examined at all points of their space, and
//! the router decides with their truth at each point. A condition on the context may have any truth that the space
//! contains, so there may be more steps than any run takes, but never fewer.
//!
//! The work is limited. If it is not enough, steps are missing, and [`Steps::are_incomplete`] says so.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::guards::Seen;
use crate::choice::{Choice, choices as choices_of};
use crate::condition::space::Space;
use crate::condition::{Comparison, Expression, Facts};
use crate::kind;
use crate::model::{EdgeIndex, NodeIndex};
use crate::route::{Next, route};
use crate::syntax::shorten;
use crate::table::{ErrorPolicy, JoinPolicy, Pipeline, Predicates, Role, Stage};

/// Stands for all outcomes that the file does not name.
const OTHER: &str = "another outcome";
/// Maximum work for all steps of a pipeline and all searches: tested conditions, compared edges and visited ends. Some
/// large pipelines with many conditions at one node need more.
const MAX_WORK: usize = 20_000_000;
/// The work of preparing a decision of the router.
const DECISION: usize = 16;

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The run enters a node.
    To {
        node: NodeIndex,
        /// `true` if the run restarts there.
        restarts: bool,
    },
    /// The run ends as a success, unless a goal gate is unsatisfied.
    Success,
    /// The run ends as a failure.
    Failure,
}

/// The way in which a stage ended: its outcome, and at a human gate the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct End {
    word: u32,
    /// The index of the choice.
    pub(crate) answer: Option<u32>,
}

/// The steps of a pipeline.
pub(crate) struct Steps {
    /// The pipeline, with conditions that hold as the examined point requires.
    pipeline: Pipeline,
    conditions: Vec<Expression>,
    words: Vec<String>,
    known: HashMap<(NodeIndex, End), Rc<[Step]>>,
    choices: HashMap<NodeIndex, Rc<[Choice]>>,
    /// The work that is left. `None` if it was not enough.
    work: Option<usize>,
}

impl Steps {
    /// Prepares the steps of a pipeline. Its conditions must be expressions. `words` are the outcomes that the file
    /// names, the built-in ones included.
    pub(crate) fn new(mut pipeline: Pipeline, words: &[&str]) -> Steps {
        let conditions = match &pipeline.predicates {
            Predicates::Expressions(expressions) => expressions.clone(),
            Predicates::Functions(_) => Vec::new(),
        };
        let words = words.iter().copied().chain([OTHER]).map(str::to_owned);
        let words: Vec<String> = words.collect();
        pipeline.predicates = Predicates::Expressions(vec![never(); conditions.len()]);
        Steps {
            pipeline,
            conditions,
            words,
            known: HashMap::new(),
            choices: HashMap::new(),
            work: Some(MAX_WORK),
        }
    }

    /// Returns whether some steps are missing, because the pipeline needs too much work.
    pub(crate) fn are_incomplete(&self) -> bool {
        self.work.is_none()
    }

    /// Counts work. Returns `false` if not enough is left.
    pub(crate) fn may_work(&mut self, amount: usize) -> bool {
        self.work = self.work.and_then(|left| left.checked_sub(amount));
        self.work.is_some()
    }

    /// Returns the choices of a human gate.
    fn choices(&mut self, gate: NodeIndex) -> Rc<[Choice]> {
        let pipeline = &self.pipeline;
        let choices = self.choices.entry(gate);
        choices
            .or_insert_with(|| choices_of(pipeline, gate).into())
            .clone()
    }

    /// Returns the condition of an edge.
    pub(crate) fn condition(&self, edge: EdgeIndex) -> Option<&Expression> {
        let condition = self.pipeline.edge(edge).condition?;
        self.conditions.get(condition as usize)
    }

    /// Returns the outcomes that the conditions of a node may see after an outcome: after a partial success also a full
    /// one, unless an edge without a condition fits (rule R12). No condition compares with an outcome that the file does
    /// not name.
    pub(crate) fn seen_words<'w>(&self, node: NodeIndex, word: &'w str) -> Vec<Seen<'w>> {
        let always_fits = || self.stage(node).edges().any(|(_, edge)| edge.condition.is_none());
        match word {
            "partial_success" if always_fits() => vec![Seen::Word(word)],
            "partial_success" => vec![Seen::Word(word), Seen::Word("success")],
            word => vec![Seen::Word(word)],
        }
    }

    pub(crate) fn stage(&self, node: NodeIndex) -> Stage<'_> {
        self.pipeline.stage(node)
    }

    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Returns an end with an outcome. Returns `None` for an outcome that the pipeline does not know.
    pub(crate) fn end(&self, word: &str) -> Option<End> {
        let word = self.words.iter().position(|known| known == word)?;
        Some(End {
            word: word as u32,
            answer: None,
        })
    }

    /// Returns an end with each outcome. Only a request to retry never remains.
    pub(crate) fn any_end(&self) -> Vec<End> {
        let words = (0..).zip(&self.words).filter(|(_, word)| *word != "retry");
        words.map(|(word, _)| End { word, answer: None }).collect()
    }

    /// Returns the outcome of an end.
    pub(crate) fn word(&self, end: End) -> &str {
        self.words.get(end.word as usize).map_or(OTHER, String::as_str)
    }

    /// Returns the outcome itself, or what stands for outcomes that the file does not name.
    pub(crate) fn known_word<'w>(&'w self, outcome: &'w str) -> &'w str {
        let known = self.words.iter().any(|known| known == outcome);
        if known { outcome } else { OTHER }
    }

    /// Returns whether an end is a failure.
    pub(crate) fn is_failure(&self, end: End) -> bool {
        self.word(end) == "fail"
    }

    /// Returns a short text for an end that is not a plain success: the answer of a person, or the outcome.
    pub(crate) fn describe(&mut self, node: NodeIndex, end: End) -> Option<String> {
        match end.answer {
            Some(answer) => {
                let choices = self.choices(node);
                Some(shorten(&choices.get(answer as usize)?.label))
            }
            None if self.word(end) == "success" => None,
            None => Some(self.word(end).to_owned()),
        }
    }

    /// Returns the ways in which a stage may end. A routing node has none of its own (rule R4).
    pub(crate) fn ends(&mut self, node: NodeIndex) -> Vec<End> {
        let answers = if self.stage(node).kind() == kind::WAIT_HUMAN {
            self.choices(node).len()
        } else {
            0
        };
        let stage = self.stage(node);
        let of = |words: &[&str]| words.iter().filter_map(|word| self.end(word)).collect();
        match stage.row().role {
            Role::Routing => Vec::new(),
            Role::Start if stage.kind() == kind::START => of(&["success"]),
            Role::Exit if stage.kind() == kind::EXIT => of(&["success"]),
            _ if let Some(fan_out) = stage.row().fan_out => {
                let counts_failures = fan_out.join_policy == JoinPolicy::WaitAll
                    && fan_out.error_policy == ErrorPolicy::Continue;
                if counts_failures || stage.row().allow_partial {
                    of(&["success", "partial_success", "fail"])
                } else {
                    of(&["success", "fail"])
                }
            }
            _ if stage.kind() == kind::WAIT_HUMAN => {
                let answers = (0..answers as u32).filter_map(|answer| {
                    Some(End {
                        answer: Some(answer),
                        ..self.end("success")?
                    })
                });
                let mut ends: Vec<End> = answers.collect();
                // A gate that nobody answers may also end as a partial success, by `allow_partial`.
                ends.extend(
                    ["fail", "partial_success"]
                        .iter()
                        .filter_map(|word| self.end(word)),
                );
                ends
            }
            // Any handler may report any outcome, a tool by its status file.
            _ => self.any_end(),
        }
    }

    /// Returns the steps that a run may take after a node ended in this way. At a routing node, the end is that of the
    /// stage before it.
    pub(crate) fn after(&mut self, node: NodeIndex, end: End) -> Rc<[Step]> {
        if let Some(known) = self.known.get(&(node, end)) {
            return known.clone();
        }
        let steps: Rc<[Step]> = self.compute(node, end).into_iter().collect();
        self.known.insert((node, end), steps.clone());
        steps
    }

    fn compute(&mut self, node: NodeIndex, end: End) -> BTreeSet<Step> {
        let row = self.stage(node).row();
        let word = self.word(end).to_owned();
        if row.role == Role::Exit && word != "fail" {
            return self.after_success();
        }
        // The conditions of a fan-out decide about its branches, not about the step after the block.
        let is_block = row.fan_out.is_some();
        let edges = self.stage(node).edges().filter(|_| !is_block);
        let mut used: Vec<usize> = edges
            .filter_map(|(_, edge)| edge.condition)
            .map(|at| at as usize)
            .collect();
        used.sort_unstable();
        used.dedup();
        let Some(truths) = self.truths(&used, &word) else {
            return self.any(node);
        };
        let preferences = self.preferences(node, end);
        let edges = self.stage(node).edges().count();
        if !self.may_work(truths.len() * preferences.len() * (DECISION + edges)) {
            return BTreeSet::new();
        }
        let mut steps = BTreeSet::new();
        for truth in truths {
            self.set(&used, &word, &truth);
            for (label, suggested) in &preferences {
                let facts = Facts {
                    outcome: &word,
                    preferred_label: label,
                    suggested_next_ids: suggested,
                    ..Facts::default()
                };
                steps.extend(self.step(route(&self.pipeline, node, &facts).next));
            }
        }
        steps
    }

    /// Returns the end of the run, and the nodes to which an unsatisfied goal gate may send it (rule R7).
    fn after_success(&self) -> BTreeSet<Step> {
        let settings = &self.pipeline.settings;
        let gates = self.pipeline.nodes.iter().filter(|row| row.goal_gate);
        let targets = gates.filter_map(|row| {
            let own = row.retry_target.or(row.fallback_retry_target);
            own.or(settings.retry_target).or(settings.fallback_retry_target)
        });
        let jumps = targets.map(|node| Step::To {
            node,
            restarts: false,
        });
        jumps.chain([Step::Success]).collect()
    }

    /// Returns the steps of a decision.
    fn step(&self, next: Next) -> Vec<Step> {
        match next {
            Next::Edge(edge) => {
                let edge = self.pipeline.edge(edge);
                vec![Step::To {
                    node: edge.to,
                    restarts: edge.loop_restart,
                }]
            }
            Next::Jump(node) => vec![Step::To {
                node,
                restarts: false,
            }],
            Next::End { success: true } => self.after_success().into_iter().collect(),
            Next::End { success: false } | Next::Fail(_) => vec![Step::Failure],
        }
    }

    /// Returns all steps that a node may take at all.
    fn any(&mut self, node: NodeIndex) -> BTreeSet<Step> {
        let edges = self.stage(node).edges().count();
        if !self.may_work(DECISION + edges) {
            return BTreeSet::new();
        }
        let stage = self.stage(node);
        let jumps = [stage.row().retry_target, stage.row().fallback_retry_target];
        let jumps = jumps.into_iter().flatten().map(Next::Jump);
        let edges = stage.edges().map(|(at, _)| Next::Edge(at));
        let steps = edges.chain(jumps).flat_map(|next| self.step(next));
        steps.chain([Step::Failure]).collect()
    }

    /// Returns the combinations of truths that some conditions may have after an outcome: of each condition its truth
    /// with the outcome itself, and that with a full success, which counts after a partial success (rule R12). Returns
    /// `None` if there are too many.
    fn truths(&mut self, used: &[usize], word: &str) -> Option<BTreeSet<Vec<(bool, bool)>>> {
        if used.is_empty() {
            return Some([Vec::new()].into());
        }
        let expressions: Vec<&Expression> = used.iter().filter_map(|at| self.conditions.get(*at)).collect();
        // An outcome that the file does not name may contain or match anything, so it is left open.
        let space = match word {
            OTHER => Space::new(&expressions, None),
            "partial_success" => Space::new(&expressions, Some(&["partial_success", "success"])),
            word => Space::new(&expressions, Some(&[word])),
        }?;
        let named = |outcome: &str| self.words.iter().any(|known| known == outcome);
        let work = space.size() * (1 + used.len());
        self.work = self.work?.checked_sub(work);
        self.work?;
        let mut truths = BTreeSet::new();
        space.find(|point| {
            let outcome = point.outcome();
            if outcome == word || word == OTHER && !named(outcome) {
                let full = point.as_success();
                let truth = expressions.iter().map(|expression| {
                    let held = point.holds(expression);
                    (held, full.as_ref().map_or(held, |full| full.holds(expression)))
                });
                truths.insert(truth.collect());
            }
            false
        });
        Some(truths)
    }

    /// Makes conditions hold as a combination requires.
    fn set(&mut self, used: &[usize], word: &str, truth: &[(bool, bool)]) {
        let Predicates::Expressions(expressions) = &mut self.pipeline.predicates else {
            return;
        };
        for (at, (held, full)) in used.iter().zip(truth) {
            let mut words = Vec::new();
            if *held {
                words.push(outcome_is(word));
            }
            if *full && word == "partial_success" {
                words.push(outcome_is("success"));
            }
            if let Some(expression) = expressions.get_mut(*at) {
                *expression = Expression::Any(words);
            }
        }
    }

    /// Returns the labels and targets that a stage may prefer, one at a time: the first that fits decides. At a gate,
    /// this is the answer.
    fn preferences(&mut self, node: NodeIndex, end: End) -> Vec<(String, Vec<String>)> {
        if self.stage(node).kind() == kind::WAIT_HUMAN {
            let choices = self.choices(node);
            let choice = end.answer.and_then(|answer| choices.get(answer as usize));
            let label = choice.map(|choice| choice.label.clone());
            return vec![(label.unwrap_or_default(), Vec::new())];
        }
        let stage = self.stage(node);
        let mut preferences = vec![(String::new(), Vec::new())];
        if stage.row().fan_out.is_some() || stage.kind() == kind::START {
            return preferences;
        }
        let plain = || stage.edges().filter(|(_, edge)| edge.condition.is_none());
        if plain().nth(1).is_none() {
            return preferences;
        }
        for (_, edge) in plain() {
            let label = self.pipeline.text(edge.label);
            if !label.is_empty() {
                preferences.push((label.to_owned(), Vec::new()));
            }
            let target = self.stage(edge.to).id().to_owned();
            preferences.push((String::new(), vec![target]));
        }
        preferences
    }
}

fn outcome_is(word: &str) -> Expression {
    Expression::Compare {
        key: "outcome".to_owned(),
        comparison: Comparison::Equal,
        literal: word.to_owned(),
    }
}

fn never() -> Expression {
    Expression::Any(Vec::new())
}
