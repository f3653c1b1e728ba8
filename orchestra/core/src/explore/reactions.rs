//! What may happen to a run that waits: the outcomes of its stages, the answers of people, and the ends of timers.

use std::collections::HashSet;

use orchestra_graph::condition::{Comparison, Expression};
use orchestra_graph::{Contract, KeyOwner, NodeIndex, Pipeline, Role, Stage, ValueType, declared_outputs};
use serde_json::{Number, Value};

use super::path_script::may_give;
use super::state_key::StateKey;
use crate::answer::Answer;
use crate::effect::Event;
use crate::foreach;
use crate::id::EffectId;
use crate::outcome::{Outcome, Status};
use crate::path::{ExecutionPath, Phase};
use crate::question::Question;

/// Maximum number of combinations of context values for one outcome.
const MAX_COMBINATIONS: usize = 64;
/// Maximum number of different ends of a stage.
const MAX_OUTCOMES: usize = 512;
/// The reason of every simulated failure.
const FAILURE: &str = "simulated failure";
/// An answer that names no choice, for choices that accept any text.
const FREE_TEXT: &str = "some text that names no choice";

/// Context values, in the order in which they are set.
type Values = Vec<(String, Value)>;

/// The ways in which the stages of a pipeline may end.
pub(super) struct Reactions {
    contract: Contract,
    /// The values of the declared inputs with which a run may start.
    pub(super) starts: Vec<Values>,
    /// The outcomes of each node, empty for a node that has none of its own.
    outcomes: Vec<Vec<Outcome>>,
    /// `true` if some nodes have more ways to end.
    pub(super) are_incomplete: bool,
}

impl Reactions {
    pub(super) fn new(pipeline: &Pipeline, key: &StateKey) -> Reactions {
        let mut reactions = Reactions {
            contract: Contract::from_pipeline(pipeline),
            starts: Vec::new(),
            outcomes: Vec::new(),
            are_incomplete: false,
        };
        reactions.starts = reactions.starts(pipeline);
        let words = words(pipeline);
        for stage in pipeline.stages() {
            let outcomes = reactions.outcomes(pipeline, stage, &words, key);
            reactions.outcomes.push(outcomes);
        }
        reactions
    }

    /// Removes the outcomes that a script may not give.
    pub(super) fn keep_scriptable(&mut self, pipeline: &Pipeline) {
        for (stage, outcomes) in pipeline.stages().zip(&mut self.outcomes) {
            outcomes.retain(|outcome| may_give(pipeline, stage, outcome));
        }
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
        let mut conditions = conditions_after(pipeline, stage);
        let goal = pipeline.goal_condition(stage.row());
        conditions.extend(goal.and_then(|condition| condition.expression()));
        // Where nothing reads the outcome, only a failure makes a difference.
        let is_read = !conditions.is_empty() || key.reads_outcome(stage.index());
        let words = words
            .iter()
            .filter(|word| is_read || matches!(word.as_str(), "success" | "fail"));
        let declared = declared_outputs(stage);
        let is_own = |key: &str| {
            let is_output = || declared.iter().any(|field| field.key == key);
            may_be_set(key, stage) && (self.contract.type_of(key).is_none() || is_output())
        };
        let mut values = self.values_of(&conditions, is_own);
        values.extend(self.lists_of(pipeline, &fan_outs_after(pipeline, stage), is_own));
        let updates = self.combined(values, Vec::new());
        let mut plain: Vec<Outcome> = Vec::new();
        for word in words {
            plain.push(match word.as_str() {
                "fail" => Outcome::fail(FAILURE),
                word => Outcome::new(Status::from_name(word)),
            });
        }
        let row = stage.row();
        if row.retry.attempts > 1 {
            plain.push(Outcome::fail_terminal(FAILURE));
        }
        if row.allow_partial {
            plain.push(Outcome::retry("simulated wish for a retry"));
        }
        let mut outcomes = Vec::new();
        for outcome in plain {
            for (label, target) in preferences(pipeline, stage, &conditions) {
                for updates in &updates {
                    let mut outcome = outcome.clone();
                    outcome.preferred_label = label.clone();
                    outcome.suggested_next_ids.extend(target.clone());
                    outcome.context_updates.extend(updates.iter().cloned());
                    if self.fits(stage, &mut outcome) && !outcomes.contains(&outcome) {
                        outcomes.push(outcome);
                    }
                }
            }
        }
        self.are_incomplete |= outcomes.len() > MAX_OUTCOMES;
        outcomes.truncate(MAX_OUTCOMES);
        outcomes
    }

    /// Completes an outcome as the engine does in a simulated run: adds the required outputs, and leaves out what a failed
    /// stage does not declare. Returns `false` if the outcome violates the contract of the pipeline.
    fn fits(&self, stage: Stage<'_>, outcome: &mut Outcome) -> bool {
        if self.contract.is_empty() {
            return true;
        }
        let (node, word) = (stage.index(), outcome.status.word());
        let updates = &mut outcome.context_updates;
        if matches!(outcome.status, Status::Fail | Status::Retry) {
            self.contract.retain_declared(node, word, updates);
        } else {
            let outputs = self.contract.outputs(node, word).into_iter();
            for field in outputs.filter(|field| !field.optional) {
                let example = || field.value_type.example(&field.key);
                updates.entry(field.key.clone()).or_insert_with(example);
            }
        }
        self.contract.check_outcome(node, word, updates).is_ok()
    }

    /// Returns combinations of values for the inputs that conditions read. A simulated run sets required inputs to
    /// examples.
    fn starts(&mut self, pipeline: &Pipeline) -> Vec<Values> {
        let conditions: Vec<&Expression> = pipeline
            .conditions()
            .filter_map(|condition| condition.expression())
            .collect();
        let inputs = self.contract.inputs();
        let required = inputs.iter().filter(|input| !input.optional);
        let examples = required.map(|input| (input.key.clone(), input.value_type.example(&input.key)));
        let examples: Values = examples.collect();
        let keys: Vec<String> = inputs.iter().map(|input| input.key.clone()).collect();
        let is_input = |key: &str| keys.iter().any(|input| input == key);
        let mut values = self.values_of(&conditions, is_input);
        let fan_outs: Vec<Stage<'_>> = pipeline.stages().collect();
        values.extend(self.lists_of(pipeline, &fan_outs, is_input));
        self.combined(values, examples)
    }

    /// Returns the keys of the lists of some fan-outs, each with lists of no item, of one of each kind that conditions
    /// tell apart, and of two.
    fn lists_of(
        &self,
        pipeline: &Pipeline,
        stages: &[Stage<'_>],
        is_own: impl Fn(&str) -> bool,
    ) -> Vec<(String, Option<Vec<Value>>)> {
        let mut lists: Vec<(String, Option<Vec<Value>>)> = Vec::new();
        for key in stages.iter().filter_map(|stage| foreach::list_key(*stage)) {
            if !is_own(key) || lists.iter().any(|(known, _)| known == key) {
                continue;
            }
            let example = match self.contract.type_of(key) {
                Some(ValueType::List(item)) => item.example("item"),
                _ => ValueType::Text.example("item"),
            };
            let mut found = vec![
                Value::Array(Vec::new()),
                Value::Array(vec![example.clone()]),
                Value::Array(vec![example.clone(), example]),
            ];
            let conditions: Vec<&Expression> = pipeline
                .conditions()
                .filter_map(|condition| condition.expression())
                .collect();
            for (read, values) in self.values_of(&conditions, foreach::is_item_key) {
                let items = values.into_iter().flatten();
                let items = items.filter_map(|value| foreach::item_with(&read, value));
                found.extend(items.map(|item| Value::Array(vec![item])));
            }
            let accepts = |list: &Value| {
                let value_type = self.contract.type_of(key);
                value_type.is_none_or(|value_type| value_type.accepts(list))
            };
            found.retain(accepts);
            lists.push((key.to_owned(), Some(found)));
        }
        lists
    }

    /// Returns the keys that conditions read, each with values that let them be true and false.
    fn values_of(
        &self,
        conditions: &[&Expression],
        is_own: impl Fn(&str) -> bool,
    ) -> Vec<(String, Option<Vec<Value>>)> {
        let mut values: Vec<(String, Option<Vec<Value>>)> = Vec::new();
        for condition in conditions {
            condition.visit(&mut |part| {
                let Some((key, found)) = values_around(part) else {
                    return;
                };
                let key = key.strip_prefix("context.").unwrap_or(key);
                if !is_own(key) {
                    return;
                }
                let at = values.iter().position(|(known, _)| known == key);
                let at = at.unwrap_or_else(|| {
                    values.push((key.to_owned(), Some(Vec::new())));
                    values.len() - 1
                });
                match (found, &mut values[at].1) {
                    (Some(found), Some(known)) => {
                        for value in found {
                            if !known.contains(&value) {
                                known.push(value);
                            }
                        }
                    }
                    (_, known) => *known = None,
                }
            });
        }
        for (key, values) in &mut values {
            if let (Some(value_type), Some(values)) = (self.contract.type_of(key), values) {
                *values = of_type(value_type, values);
            }
        }
        values
    }

    /// Returns the combinations of some values, each after the first values. A key may also keep its first value. A key
    /// without a list has values that are not known.
    fn combined(&mut self, values: Vec<(String, Option<Vec<Value>>)>, first: Values) -> Vec<Values> {
        self.are_incomplete |= values.iter().any(|(_, values)| values.is_none());
        let values: Vec<(String, Vec<Value>)> = values
            .into_iter()
            .filter_map(|(key, values)| Some((key, values?)))
            .collect();
        let all = values.iter().map(|(_, values)| values.len() + 1);
        let all = all.fold(1_usize, usize::saturating_mul);
        let with = |known: &Values, key: &str, value: &Value| {
            let mut more = known.clone();
            more.retain(|(known, _)| known != key);
            more.push((key.to_owned(), value.clone()));
            more
        };
        let mut combinations = vec![first];
        if all <= MAX_COMBINATIONS {
            for (key, values) in &values {
                for known in combinations.clone() {
                    combinations.extend(values.iter().map(|value| with(&known, key, value)));
                }
            }
        } else {
            self.are_incomplete = true;
            let first = combinations.first().cloned().unwrap_or_default();
            for (key, values) in &values {
                combinations.extend(values.iter().map(|value| with(&first, key, value)));
            }
        }
        combinations
    }
}

/// Returns the key that a part of a condition reads, with values on both sides of it. No text that matches a pattern is
/// known.
fn values_around(part: &Expression) -> Option<(&str, Option<Vec<Value>>)> {
    let text = |text: &str| Value::String(text.to_owned());
    Some(match part {
        Expression::Truthy(key) => (key, Some(vec![Value::Bool(true), Value::Bool(false)])),
        Expression::Compare {
            key,
            comparison,
            literal,
        } => {
            let parsed = literal.trim().parse::<f64>().ok();
            let orders = !matches!(
                comparison,
                Comparison::Equal | Comparison::NotEqual | Comparison::Contains
            );
            let values = match parsed.filter(|_| orders) {
                Some(parsed) => [parsed - 1.0, parsed, parsed + 1.0]
                    .into_iter()
                    .filter_map(number)
                    .collect(),
                None => vec![text(literal), text("")],
            };
            (key, Some(values))
        }
        Expression::OutputIs { key, value } => (key, Some(vec![value.clone(), Value::Null])),
        Expression::HasOutput(key) => (key, Some(vec![Value::Bool(true)])),
        Expression::Matches { key, .. } => (key, None),
        _ => return None,
    })
}

/// Returns a number as a value, a whole one as an integer.
fn number(number: f64) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT {
        // Exact in this range.
        return Some(Value::from(number as i64));
    }
    Number::from_f64(number).map(Value::Number)
}

/// Returns values of a declared type that conditions may tell apart.
fn of_type(value_type: &ValueType, values: &[Value]) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    let mut add = |value: Value| {
        if value_type.accepts(&value) && !found.contains(&value) {
            found.push(value);
        }
    };
    for value in values {
        match value {
            Value::String(text) => value_type.parse_text(text).into_iter().for_each(&mut add),
            value => add(value.clone()),
        }
    }
    match value_type {
        ValueType::Words(words) => words.iter().for_each(|word| add(Value::String(word.clone()))),
        ValueType::Boolean => [true, false]
            .into_iter()
            .for_each(|value| add(Value::Bool(value))),
        ValueType::Integer | ValueType::Number => {
            [0, 1].into_iter().for_each(|value| add(Value::from(value)))
        }
        value_type => add(value_type.example("value")),
    }
    found
}

/// Returns whether a stage may set a context key, or its handler records it. Facts of the run are no context keys.
fn may_be_set(key: &str, stage: Stage<'_>) -> bool {
    KeyOwner::of_key(key).is_none() || KeyOwner::is_recorded_by(stage.kind(), key)
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

/// Returns the fan-outs that a run may enter next after a stage.
fn fan_outs_after<'p>(pipeline: &'p Pipeline, stage: Stage<'p>) -> Vec<Stage<'p>> {
    let mut found = Vec::new();
    let mut seen = vec![stage.index()];
    let mut at = 0;
    while let Some(node) = seen.get(at).copied() {
        at += 1;
        for (_, edge) in pipeline.stage(node).edges() {
            let next = pipeline.stage(edge.to);
            let row = next.row();
            if (row.role == Role::Routing || row.fan_out.is_some()) && !seen.contains(&edge.to) {
                seen.push(edge.to);
                found.extend(row.fan_out.map(|_| next));
            }
        }
    }
    found
}

/// Returns the labels and targets that a stage may prefer, one at a time: those of the edges without conditions, and the
/// labels that conditions name.
fn preferences(
    pipeline: &Pipeline,
    stage: Stage<'_>,
    conditions: &[&Expression],
) -> Vec<(Option<String>, Option<String>)> {
    let mut preferences = vec![(None, None)];
    for condition in conditions {
        condition.visit(&mut |part| {
            if let Expression::Compare { key, literal, .. } = part
                && key == "preferred_label"
                && !literal.is_empty()
            {
                preferences.push((Some(literal.clone()), None));
            }
        });
    }
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
    let mut seen = HashSet::new();
    preferences.retain(|preference| seen.insert(preference.clone()));
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
