//! The choice of a fan-in: the best result among the branches of a parallel block (Attractor 4.9, rule P6).

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::context::Context;
use crate::outcome::{Outcome, Status};

/// The context key with the results of a parallel block (rule P3).
const RESULTS: &str = "parallel.results";
/// The maximum length of a failure or a note in a message, in characters.
const SHOWN: usize = 200;

/// The result of a branch, as a fan-in sees it (rule P3).
///
/// ```
/// use orchestra_core::{Candidate, Context, Status, candidates};
/// use serde_json::json;
/// let results = json!([
///     {"id": "fast", "status": "success", "outcome": "success", "score": 0.4},
///     {"id": "deep", "status": "fail", "outcome": "fail", "failure_reason": "out of ideas"},
/// ]);
/// let context: Context = [("parallel.results", results)].into_iter().collect();
/// let candidates: Vec<Candidate<'_>> = candidates(&context)?;
/// assert_eq!((candidates[0].id, candidates[0].score), ("fast", Some(0.4)));
/// assert!(candidates[0].succeeded() && !candidates[1].succeeded());
/// assert_eq!(candidates[1].status, Status::Fail);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<'c> {
    /// The id of the branch.
    pub id: &'c str,
    /// The status with which the branch ended.
    pub status: Status,
    /// The name of the status of its last stage.
    pub outcome: &'c str,
    /// The notes of its last stage.
    pub notes: Option<&'c str>,
    /// The score; higher is better.
    pub score: Option<f64>,
    /// The changes to its copy of the context.
    pub context_updates: Option<&'c Map<String, Value>>,
    /// The reason for the failure, if the branch failed.
    pub failure_reason: Option<&'c str>,
}

impl<'c> Candidate<'c> {
    fn parse(result: &'c Value) -> Result<Option<Candidate<'c>>, &'static str> {
        let fields = result.as_object().ok_or("is not an object")?;
        let id = text(fields, "id").ok_or("has no `id`")?;
        let word = text(fields, "status").or_else(|| text(fields, "outcome"));
        let word = word.ok_or("has no `status`")?;
        // A cancelled branch says nothing about the quality of its work.
        if word == "cancelled" {
            return Ok(None);
        }
        Ok(Some(Candidate {
            id,
            status: Status::from_name(word),
            outcome: text(fields, "outcome").unwrap_or(word),
            notes: text(fields, "notes"),
            score: fields.get("score").and_then(score),
            context_updates: fields.get("context_updates").and_then(Value::as_object),
            failure_reason: text(fields, "failure_reason"),
        }))
    }

    /// Returns `true` if the branch succeeded. Other branches are never chosen.
    pub fn succeeded(&self) -> bool {
        self.status.is_success()
    }
}

fn text<'r>(fields: &'r Map<String, Value>, name: &str) -> Option<&'r str> {
    let text = fields.get(name)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

/// Parses a score; stages that cannot produce numbers write it as text.
fn score(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_f64(),
    };
    number.filter(|number: &f64| number.is_finite())
}

/// Returns the candidates among the results of a parallel block. Cancelled branches are not candidates.
///
/// # Errors
/// Returns a one-line message if there are no results, or if they do not have the form that a parallel block writes.
///
/// ```
/// use orchestra_core::{Context, candidates};
/// assert_eq!(candidates(&Context::new()).unwrap_err(), "there are no parallel results to evaluate");
/// ```
pub fn candidates(context: &Context) -> Result<Vec<Candidate<'_>>, String> {
    let results = match context.get(RESULTS) {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(results)) => results,
        Some(_) => return Err(format!("`{RESULTS}` is not a list")),
    };
    if results.is_empty() {
        return Err("there are no parallel results to evaluate".to_owned());
    }
    let mut candidates = Vec::with_capacity(results.len());
    for (at, result) in results.iter().enumerate() {
        let candidate = Candidate::parse(result);
        candidates.extend(candidate.map_err(|what| format!("result {} of `{RESULTS}` {what}", at + 1))?);
    }
    Ok(candidates)
}

/// Returns the best candidate: by status, then by the highest score, then by id (Attractor 4.9). Returns `None` if no
/// candidate succeeded.
///
/// A candidate without a score ranks behind those with the same status that have one.
///
/// ```
/// use orchestra_core::{Context, best_candidate, candidates};
/// use serde_json::json;
/// let results = json!([
///     {"id": "a", "status": "partial_success", "score": 9},
///     {"id": "b", "status": "success", "score": 1},
///     {"id": "c", "status": "success", "score": 2},
/// ]);
/// let context: Context = [("parallel.results", results)].into_iter().collect();
/// let candidates = candidates(&context)?;
/// assert_eq!(best_candidate(&candidates).map(|best| best.id), Some("c"));
/// # Ok::<(), String>(())
/// ```
pub fn best_candidate<'a, 'c>(candidates: &'a [Candidate<'c>]) -> Option<&'a Candidate<'c>> {
    let best = candidates.iter().min_by(|left, right| order(left, right))?;
    best.succeeded().then_some(best)
}

fn order(left: &Candidate<'_>, right: &Candidate<'_>) -> Ordering {
    let score = |candidate: &Candidate<'_>| candidate.score.unwrap_or(f64::NEG_INFINITY);
    rank(&left.status)
        .cmp(&rank(&right.status))
        .then(score(right).total_cmp(&score(left)))
        .then_with(|| left.id.cmp(right.id))
}

fn rank(status: &Status) -> u8 {
    match status {
        Status::Success | Status::Custom(_) => 0,
        Status::PartialSuccess => 1,
        Status::Retry => 2,
        Status::Fail | Status::Skipped => 3,
    }
}

/// Returns the outcome of a fan-in that chose a candidate.
///
/// ```
/// use orchestra_core::{Context, candidates, chosen_candidate};
/// use serde_json::json;
/// let results = json!([{"id": "a", "status": "success", "outcome": "approved"}]);
/// let context: Context = [("parallel.results", results)].into_iter().collect();
/// let outcome = chosen_candidate(&candidates(&context)?[0]);
/// assert_eq!(outcome.context_updates["parallel.fan_in.best_id"], "a");
/// assert_eq!(outcome.context_updates["parallel.fan_in.best_outcome"], "approved");
/// # Ok::<(), String>(())
/// ```
pub fn chosen_candidate(best: &Candidate<'_>) -> Outcome {
    let notes = best.notes.map(excerpt);
    let notes = notes.map_or_else(String::new, |notes| format!(": {notes}"));
    Outcome::success()
        .set("parallel.fan_in.best_id", best.id)
        .set("parallel.fan_in.best_outcome", best.outcome)
        .notes(format!("Selected best candidate: {}{notes}", best.id))
}

/// Returns the outcome of a fan-in that has no candidate to choose from. A retry cannot fix this failure.
///
/// ```
/// use orchestra_core::{Context, candidates, no_candidate};
/// use serde_json::json;
/// let results = json!([{"id": "a", "status": "fail", "failure_reason": "no tests"}]);
/// let context: Context = [("parallel.results", results)].into_iter().collect();
/// let reason = no_candidate(&candidates(&context)?).failure_reason;
/// assert_eq!(reason.as_deref(), Some("no candidate succeeded: a: no tests"));
/// # Ok::<(), String>(())
/// ```
pub fn no_candidate(candidates: &[Candidate<'_>]) -> Outcome {
    let failures: Vec<String> = candidates
        .iter()
        .map(|candidate| {
            let reason = candidate.failure_reason;
            format!(
                "{}: {}",
                candidate.id,
                excerpt(reason.unwrap_or(candidate.outcome))
            )
        })
        .collect();
    let failures = match failures.as_slice() {
        [] => "every branch was cancelled".to_owned(),
        failures => failures.join("; "),
    };
    Outcome::fail_terminal(format!("no candidate succeeded: {failures}"))
}

/// Returns the outcome of a fan-in after a block without branches, which has a list without items (rule P7). Returns
/// `None` if there were branches.
///
/// ```
/// use orchestra_core::{Context, Status, joined_nothing};
/// use serde_json::json;
/// let empty = [("parallel.results", json!([])), ("parallel.fail_count", json!(0))];
/// let outcome = joined_nothing(&empty.into_iter().collect()).expect("there were no branches");
/// assert_eq!(outcome.status, Status::Success);
/// assert!(joined_nothing(&Context::new()).is_none());
/// ```
pub fn joined_nothing(context: &Context) -> Option<Outcome> {
    let results = context.get(RESULTS)?.as_array()?;
    // Ignored failures are left out of the results, but are counted.
    let failed = context.get("parallel.fail_count")?.as_u64()?;
    (results.is_empty() && failed == 0).then(|| Outcome::success().notes("there was nothing to join"))
}

fn excerpt(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// Returns the outcome of a fan-in without a prompt: the best candidate by status, score and id (Attractor 4.9, rule
/// P6).
///
/// The outcome is a failure if there are no results or no candidate succeeded. A retry would not help.
///
/// ```
/// use orchestra_core::{Context, Status, fan_in};
/// use serde_json::json;
/// let results = json!([
///     {"id": "a", "status": "fail", "failure_reason": "no tests"},
///     {"id": "b", "status": "success", "score": 3},
/// ]);
/// let context: Context = [("parallel.results", results)].into_iter().collect();
/// assert_eq!(fan_in(&context).context_updates["parallel.fan_in.best_id"], "b");
/// assert_eq!(fan_in(&Context::new()).status, Status::Fail);
/// ```
pub fn fan_in(context: &Context) -> Outcome {
    if let Some(outcome) = joined_nothing(context) {
        return outcome;
    }
    let candidates = match candidates(context) {
        Ok(candidates) => candidates,
        Err(reason) => return Outcome::fail_terminal(reason),
    };
    match best_candidate(&candidates) {
        Some(best) => chosen_candidate(best),
        None => no_candidate(&candidates),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn context(results: Value) -> Context {
        [(RESULTS, results)].into_iter().collect()
    }

    fn best(results: Value) -> String {
        let outcome = fan_in(&context(results));
        assert_eq!(outcome.status, Status::Success, "{outcome:?}");
        outcome.context_updates["parallel.fan_in.best_id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn refused(results: Value) -> String {
        let outcome = fan_in(&context(results));
        assert_eq!(outcome.status, Status::Fail, "{outcome:?}");
        assert_eq!(
            outcome.failure_category,
            crate::outcome::FailureCategory::Terminal,
            "the same results give the same answer"
        );
        assert!(outcome.context_updates.is_empty());
        outcome.failure_reason.unwrap()
    }

    #[test]
    fn status_comes_before_score_and_score_before_id() {
        assert_eq!(
            best(json!([
                {"id": "a", "status": "partial_success", "score": 100},
                {"id": "c", "status": "success", "score": 0.5},
                {"id": "b", "status": "success", "score": 0.25},
            ])),
            "c"
        );
        assert_eq!(
            best(json!([
                {"id": "b", "status": "success", "score": 1},
                {"id": "a", "status": "success", "score": 1.0},
            ])),
            "a"
        );
        assert_eq!(
            best(json!([
                {"id": "b", "status": "success"},
                {"id": "a", "status": "success"},
            ])),
            "a"
        );
    }

    #[test]
    fn a_candidate_without_a_score_is_behind_one_with_any() {
        assert_eq!(
            best(json!([
                {"id": "a", "status": "success"},
                {"id": "b", "status": "success", "score": -4},
                {"id": "c", "status": "success", "score": "nonsense"},
            ])),
            "b"
        );
        assert_eq!(
            best(json!([
                {"id": "a", "status": "success", "score": 2},
                {"id": "b", "status": "success", "score": " 10 "},
            ])),
            "b",
            "a score may be a text, and is compared as a number"
        );
    }

    #[test]
    fn one_that_succeeded_is_enough_and_those_that_failed_are_never_chosen() {
        assert_eq!(
            best(json!([
                {"id": "a", "status": "fail", "score": 9},
                {"id": "b", "status": "retry", "score": 9},
                {"id": "d", "status": "cancelled", "score": 9},
                {"id": "c", "status": "partial_success"},
            ])),
            "c"
        );
        assert_eq!(
            refused(json!([
                {"id": "a", "status": "fail", "failure_reason": "no tests"},
                {"id": "b", "status": "retry", "outcome": "retry"},
                {"id": "d", "status": "cancelled"},
            ])),
            "no candidate succeeded: a: no tests; b: retry"
        );
        assert_eq!(
            refused(json!([{"id": "a", "status": "cancelled"}])),
            "no candidate succeeded: every branch was cancelled"
        );
    }

    #[test]
    fn the_winner_is_recorded_with_its_outcome_word_and_in_the_notes() {
        let outcome = fan_in(&context(json!([
            {"id": "a", "status": "success", "outcome": "approved", "notes": "three tests"},
        ])));
        assert_eq!(outcome.context_updates["parallel.fan_in.best_id"], "a");
        assert_eq!(
            outcome.context_updates["parallel.fan_in.best_outcome"],
            "approved"
        );
        assert_eq!(
            outcome.notes.as_deref(),
            Some("Selected best candidate: a: three tests")
        );
    }

    #[test]
    fn results_that_are_none_are_refused_by_name() {
        let reason = "there are no parallel results to evaluate";
        assert_eq!(refused(json!([])), reason);
        assert_eq!(refused(Value::Null), reason);
        assert_eq!(refused(json!("a")), "`parallel.results` is not a list");
        assert_eq!(
            refused(json!([1])),
            "result 1 of `parallel.results` is not an object"
        );
        let nameless = json!([{"id": "a", "status": "success"}, {"status": "success"}]);
        assert_eq!(refused(nameless), "result 2 of `parallel.results` has no `id`");
        let silent = json!([{"id": "a"}]);
        assert_eq!(refused(silent), "result 1 of `parallel.results` has no `status`");
    }

    #[test]
    fn the_choice_does_not_depend_on_the_order_of_the_results() {
        let results = [
            json!({"id": "a", "status": "success", "score": 1}),
            json!({"id": "b", "status": "success", "score": 2}),
            json!({"id": "c", "status": "partial_success", "score": 3}),
        ];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let shuffled = order.map(|at| results[at].clone());
            assert_eq!(best(json!(shuffled)), "b");
        }
    }
}
