//! What may happen to a run that waits: the outcomes of its stages, the answers of people, and the ends of timers.

use orchestra_graph::condition::{Comparison, Expression};
use orchestra_graph::{KeyOwner, NodeIndex, Pipeline, Role, Stage};
use serde_json::{Number, Value};

use super::state_key::StateKey;
use crate::answer::Answer;
use crate::effect::Event;
use crate::id::EffectId;
use crate::outcome::{Outcome, Status};
use crate::path::{ExecutionPath, Phase};
use crate::question::Question;

/// Maximum number of combinations of context values for one outcome.
const MAX_COMBINATIONS: usize = 64;
/// Maximum number of different ends of a stage.
const MAX_OUTCOMES: usize = 512;
/// An answer that names no choice, for choices that accept any text.
const FREE_TEXT: &str = "some text that names no choice";

/// The ways in which the stages of a pipeline may end.
pub(super) struct Reactions {
    /// The outcomes of each node, empty for a node that has none of its own.
    outcomes: Vec<Vec<Outcome>>,
    /// `true` if some nodes have more ways to end.
    pub(super) are_incomplete: bool,
}

impl Reactions {
    pub(super) fn new(pipeline: &Pipeline, key: &StateKey) -> Reactions {
        let mut reactions = Reactions {
            outcomes: Vec::new(),
            are_incomplete: false,
        };
        let words = words(pipeline);
        for stage in pipeline.stages() {
            let outcomes = reactions.outcomes(pipeline, stage, &words, key);
            reactions.outcomes.push(outcomes);
        }
        reactions
    }

    /// Returns the events that may follow for a path that waits.
    pub(super) fn events(&self, path: &ExecutionPath, id: &EffectId) -> Vec<Event> {
        match &path.phase {
            Phase::Running => {
                let outcomes = self.outcomes.get(id.node.at()).into_iter().flatten();
                let finished = outcomes.map(|outcome| Event::NodeFinished {
                    id: id.clone(),
                    outcome: outcome.clone(),
                });
                finished.collect()
            }
            Phase::Asking(question) => answers(question, id),
            Phase::BackOff | Phase::Parallel(_) => vec![Event::TimerFired { id: id.clone() }],
            Phase::Idle => Vec::new(),
        }
    }

    fn outcomes(
        &mut self,
        pipeline: &Pipeline,
        stage: Stage<'_>,
        words: &[String],
        key: &StateKey,
    ) -> Vec<Outcome> {
        let conditions = conditions_after(pipeline, stage);
        // Where nothing reads the outcome, only a failure makes a difference.
        let is_read = !conditions.is_empty() || key.reads_outcome(stage.index());
        let words = words
            .iter()
            .filter(|word| is_read || matches!(word.as_str(), "success" | "fail"));
        let updates = self.updates(&conditions);
        let mut plain: Vec<Outcome> = Vec::new();
        for word in words {
            plain.push(match word.as_str() {
                "fail" => Outcome::fail("explored"),
                word => Outcome::new(Status::from_name(word)),
            });
        }
        let row = stage.row();
        if row.retry.attempts > 1 {
            plain.push(Outcome::fail_terminal("explored"));
        }
        if row.allow_partial {
            plain.push(Outcome::retry("explored"));
        }
        let mut outcomes = Vec::new();
        for outcome in plain {
            for (label, target) in preferences(pipeline, stage) {
                for updates in &updates {
                    let mut outcome = outcome.clone();
                    outcome.preferred_label = label.clone();
                    outcome.suggested_next_ids.extend(target.clone());
                    outcome.context_updates.extend(updates.iter().cloned());
                    outcomes.push(outcome);
                }
            }
        }
        self.are_incomplete |= outcomes.len() > MAX_OUTCOMES;
        outcomes.truncate(MAX_OUTCOMES);
        outcomes
    }

    /// Returns combinations of context updates that let conditions be true and false.
    fn updates(&mut self, conditions: &[&Expression]) -> Vec<Vec<(String, Value)>> {
        let mut values: Vec<(String, Vec<Value>)> = Vec::new();
        for condition in conditions {
            condition.visit(&mut |part| {
                let Some((key, found)) = self.values(part) else {
                    return;
                };
                let key = key.strip_prefix("context.").unwrap_or(key);
                if !may_be_set(key) {
                    return;
                }
                let at = values.iter().position(|(known, _)| known == key);
                let at = at.unwrap_or_else(|| {
                    values.push((key.to_owned(), Vec::new()));
                    values.len() - 1
                });
                for value in found {
                    if !values[at].1.contains(&value) {
                        values[at].1.push(value);
                    }
                }
            });
        }
        let all = values.iter().map(|(_, values)| values.len() + 1);
        let all = all.fold(1_usize, usize::saturating_mul);
        let mut combinations = vec![Vec::new()];
        if all <= MAX_COMBINATIONS {
            for (key, values) in &values {
                for known in combinations.clone() {
                    for value in values {
                        let mut more: Vec<(String, Value)> = known.clone();
                        more.push((key.clone(), value.clone()));
                        combinations.push(more);
                    }
                }
            }
        } else {
            self.are_incomplete = true;
            for (key, values) in values {
                combinations.extend(values.into_iter().map(|value| vec![(key.clone(), value)]));
            }
        }
        combinations
    }

    /// Returns the key that a part of a condition reads, with values on both sides of it.
    fn values<'e>(&mut self, part: &'e Expression) -> Option<(&'e str, Vec<Value>)> {
        let text = |text: &str| Value::String(text.to_owned());
        Some(match part {
            Expression::Truthy(key) => (key, vec![Value::Bool(true), Value::Bool(false)]),
            Expression::Compare {
                key,
                comparison,
                literal,
            } => {
                let number = literal.trim().parse::<f64>().ok();
                let orders = !matches!(
                    comparison,
                    Comparison::Equal | Comparison::NotEqual | Comparison::Contains
                );
                let values = match number.filter(|_| orders) {
                    Some(number) => [number - 1.0, number, number + 1.0]
                        .into_iter()
                        .filter_map(|number| Number::from_f64(number).map(Value::Number))
                        .collect(),
                    None => vec![text(literal), text("")],
                };
                (key, values)
            }
            Expression::OutputIs { key, value } => (key, vec![value.clone(), Value::Null]),
            Expression::HasOutput(key) => (key, vec![Value::Bool(true)]),
            Expression::Matches { key, .. } => {
                // No text that matches is known.
                self.are_incomplete |= may_be_set(key.strip_prefix("context.").unwrap_or(key));
                return None;
            }
            _ => return None,
        })
    }
}

/// Returns whether a stage may set a context key. Facts of the run are no context keys.
fn may_be_set(key: &str) -> bool {
    !matches!(KeyOwner::of_key(key), Some(KeyOwner::Engine))
}

/// Returns the outcomes that stages may have: those of the language, and those that the file names.
fn words(pipeline: &Pipeline) -> Vec<String> {
    let known = ["success", "fail", "partial_success", "skipped"];
    let mut words: Vec<String> = known.map(str::to_owned).to_vec();
    let mut add = |word: &str| {
        if !word.is_empty() && word != "retry" && !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    };
    for condition in pipeline.conditions() {
        if let Some(expression) = condition.expression() {
            expression.visit(&mut |part| {
                if let Expression::Compare { key, literal, .. } = part
                    && key == "outcome"
                {
                    add(literal);
                }
            });
        }
    }
    for stage in pipeline.stages() {
        let declared = stage.text("outcomes").unwrap_or_default();
        declared.split(',').map(str::trim).for_each(&mut add);
    }
    words
}

/// Returns the conditions that the end of a stage decides: those of its edges, and of routing nodes behind it.
fn conditions_after<'p>(pipeline: &'p Pipeline, stage: Stage<'p>) -> Vec<&'p Expression> {
    let mut conditions = Vec::new();
    let mut seen = vec![stage.index()];
    let mut at = 0;
    while let Some(node) = seen.get(at).copied() {
        at += 1;
        for (_, edge) in pipeline.stage(node).edges() {
            let condition = pipeline.condition(edge);
            conditions.extend(condition.and_then(|condition| condition.expression()));
            let decides = |node: NodeIndex| {
                let row = pipeline.stage(node).row();
                row.role == Role::Routing || row.fan_out.is_some()
            };
            if decides(edge.to) && !seen.contains(&edge.to) {
                seen.push(edge.to);
            }
        }
    }
    conditions
}

/// Returns the labels and targets that a stage may prefer, one at a time.
fn preferences(pipeline: &Pipeline, stage: Stage<'_>) -> Vec<(Option<String>, Option<String>)> {
    let mut preferences = vec![(None, None)];
    let mut add = |node: Stage<'_>| {
        let plain = || node.edges().filter(|(_, edge)| edge.condition.is_none());
        if plain().nth(1).is_none() || node.row().fan_out.is_some() {
            return;
        }
        for (_, edge) in plain() {
            let label = pipeline.text(edge.label);
            if !label.is_empty() {
                preferences.push((Some(label.to_owned()), None));
            }
            preferences.push((None, Some(pipeline.stage(edge.to).id().to_owned())));
        }
    };
    add(stage);
    for (_, edge) in stage.edges() {
        let next = pipeline.stage(edge.to);
        if next.row().role == Role::Routing {
            add(next);
        }
    }
    preferences.dedup();
    preferences
}

/// Returns the ends of a question: each choice, a text, none, and its time-out.
fn answers(question: &Question, id: &EffectId) -> Vec<Event> {
    let mut answers: Vec<Answer> = Vec::new();
    for option in &question.options {
        answers.push(Answer::choice(&option.key));
    }
    answers.push(Answer::choice(FREE_TEXT));
    answers.push(Answer::skipped());
    let answered = answers.into_iter().map(|answer| Event::Answered {
        id: id.clone(),
        answer,
    });
    let timer = question.timeout.map(|_| Event::TimerFired { id: id.clone() });
    answered.chain(timer).collect()
}
