//! Fan-ins: the choice of the best result of the branches (Attractor 4.9, rule P6).

use std::sync::Arc;

use orchestra_core::{
    Candidate, Outcome, best_candidate, candidates, chosen_candidate, fan_in, joined_nothing, no_candidate,
};
use orchestra_graph::Stage;
use serde_json::Value;

use super::backend::AnyBackend;
use super::codergen::{Answered, NoAnswer, ask, end_of, written};
use super::{output, status};
use crate::handlers::handler::{Handler, HandlerFuture};
use crate::run::stage::StageContext;
use crate::run::stored_text::StoredText;
use crate::stage_end::Finished;
use crate::store::StageFile;

/// Maximum size in bytes of all candidates in a prompt: about 60,000 tokens.
const LISTED: usize = 240_000;
/// Minimum size in bytes that is reserved for the description of a candidate.
const LEAST: usize = 400;
/// The key under which the outcome of a fan-in names the chosen candidate.
const BEST_ID: &str = "parallel.fan_in.best_id";

pub(crate) struct FanIn {
    /// The backend that ranks the candidates of a node with a prompt.
    pub(crate) backend: Option<Arc<dyn AnyBackend>>,
}

impl Handler for FanIn {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            match &self.backend {
                Some(backend) if stage.node().has_prompt() && joined_nothing(stage.context()).is_none() => {
                    let ranked = rank(&**backend, &stage).await;
                    end_of(&stage, ranked)
                }
                _ => Finished::by_engine(fan_in(stage.context())).into(),
            }
        })
    }

    fn may_write(&self, stage: Stage<'_>) -> bool {
        let backend = self.backend.as_ref();
        stage.has_prompt() && backend.is_some_and(|backend| backend.may_write_files(stage))
    }
}

/// Lets a model choose, unless at most one candidate succeeded.
async fn rank(backend: &dyn AnyBackend, stage: &StageContext) -> Result<Finished, NoAnswer> {
    let candidates = match candidates(stage.context()) {
        Ok(candidates) => candidates,
        Err(reason) => return Ok(Outcome::fail_terminal(reason).into()),
    };
    let Some(best) = best_candidate(&candidates) else {
        return Ok(no_candidate(&candidates).into());
    };
    if candidates
        .iter()
        .filter(|candidate| candidate.succeeded())
        .count()
        == 1
    {
        return Ok(Finished::by_engine(chosen_candidate(best)));
    }
    let named = match ask(backend, stage, prompt(stage, &candidates)).await? {
        Answered::Outcome(finished) if !finished.outcome.status.is_success() => return Ok(finished),
        Answered::Outcome(finished) => {
            let mut outcome = finished.outcome;
            // The key is only part of the backend's answer. The choice is recorded below.
            match outcome.context_updates.remove(BEST_ID) {
                Some(Value::String(id)) => find(&candidates, &id).map(|best| (best, Some(outcome))),
                _ => Err(format!("the backend's outcome does not set `{BEST_ID}`")),
            }
        }
        Answered::Text(text, _) => match written(stage) {
            Ok(Some(written)) if !written.status.is_success() => return Ok(written.into()),
            Ok(written) => chosen(&candidates, &text).map(|best| (best, written)),
            Err(problem) => return Ok(Outcome::fail(problem).into()),
        },
    };
    Ok(match named {
        Ok((best, own)) => Finished::by_engine(chosen_candidate(best)).replace(|choice| match own {
            Some(own) => status::merge(choice, own),
            None => choice,
        }),
        Err(problem) => Outcome::fail(problem).into(),
    })
}

/// Returns the candidate that a response names, by a JSON block with `best`, by its bare id, or because it is the only
/// id in the response.
fn chosen<'a, 'c>(candidates: &'a [Candidate<'c>], response: &str) -> Result<&'a Candidate<'c>, String> {
    let bare = response
        .trim()
        .trim_matches(|c: char| matches!(c, '`' | '"' | '\'' | '*' | '.'))
        .trim();
    match output::last_object(response) {
        Ok(fields) => match fields.get("best") {
            Some(Value::String(id)) => find(candidates, id),
            _ => Err("the JSON block of the response has no text under `best`".to_owned()),
        },
        Err(_) if candidates.iter().any(|candidate| candidate.id == bare) => find(candidates, bare),
        Err(found) => match named(candidates, response).as_slice() {
            [one] => find(candidates, one),
            [] => Err(format!("the response names no candidate: {found}")),
            several => Err(format!(
                "the response names {}, and does not say in a form that can be read which of them it chooses",
                output::quoted(several)
            )),
        },
    }
}

/// Returns the candidates whose ids appear as words in a response.
fn named<'c>(candidates: &[Candidate<'c>], response: &str) -> Vec<&'c str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let stands = |id: &str| {
        response.match_indices(id).any(|(at, _)| {
            let before = response.get(..at).and_then(|text| text.chars().next_back());
            let behind = response.get(at + id.len()..).and_then(|text| text.chars().next());
            !before.is_some_and(is_part) && !behind.is_some_and(is_part)
        })
    };
    let ids = candidates.iter().map(|candidate| candidate.id);
    ids.filter(|id| stands(id)).collect()
}

fn find<'a, 'c>(candidates: &'a [Candidate<'c>], id: &str) -> Result<&'a Candidate<'c>, String> {
    let eligible = || candidates.iter().filter(|candidate| candidate.succeeded());
    match candidates.iter().find(|candidate| candidate.id == id.trim()) {
        Some(candidate) if candidate.succeeded() => Ok(candidate),
        other => {
            let what = match other {
                Some(_) => "did not succeed",
                None => "is not a candidate",
            };
            let ids: Vec<&str> = eligible().map(|candidate| candidate.id).collect();
            let shown: String = id.trim().chars().take(80).collect();
            Err(format!(
                "the choice `{}` {what}; {} may be chosen",
                shown.escape_debug(),
                output::quoted(&ids)
            ))
        }
    }
}

/// Returns the prompt of the node, followed by the candidates and the required form of the answer.
fn prompt(stage: &StageContext, candidates: &[Candidate<'_>]) -> String {
    let mut text = format!("{}\n\n## Candidates\n", stage.node().prompt());
    let budget = (LISTED / 10 / candidates.len().max(1)).max(LEAST);
    for (candidate, response) in candidates.iter().zip(responses(stage, candidates)) {
        describe(candidate, budget, &mut text);
        if let Some(response) = response {
            let id = candidate.id;
            text.push_str(&format!("\n<response of=\"{id}\">\n{response}\n</response>\n"));
        }
    }
    text.push_str(
        "\n## Answer\n\nCompare the candidates that succeeded, and choose the best one: by calling the tool `choose` where \
         you have it, else by ending your answer with its id in a JSON code block of this form:\n```json\n{\"best\": \
         \"ID\"}\n```\n",
    );
    text
}

/// The stored text of a branch: the record of its stage, the file, and its length in bytes.
type Left<'r> = (&'r str, StageFile, u64);

/// Returns the responses of the last stages of the branches. If they all fit, each is whole. Otherwise each gets a
/// share of the space, and space that short ones do not use goes to the longer ones (rule F6).
fn responses(stage: &StageContext, candidates: &[Candidate<'_>]) -> Vec<Option<StoredText>> {
    let results = match stage.context().get("parallel.results") {
        Some(Value::Array(results)) => results.as_slice(),
        _ => &[],
    };
    let left = candidates.iter().map(|candidate| {
        let result = results.iter().find(|result| result["id"] == candidate.id)?;
        let stages = result["stages"].as_array()?.iter().rev();
        let mut records = stages.filter_map(|stage| stage["record"].as_str());
        records.find_map(|record| {
            let files = [StageFile::Response, StageFile::ToolOutput];
            let mut lengths = files
                .into_iter()
                .filter_map(|file| Some((record, file, stage.stage_text(record, file, 0)?.len())));
            lengths.find(|(_, _, length)| *length > 0)
        })
    });
    let mut left: Vec<(usize, Option<Left<'_>>)> = left.enumerate().collect();
    left.sort_by_key(|(_, left)| left.map_or(0, |(_, _, length)| length));
    let mut texts: Vec<(usize, Option<StoredText>)> = Vec::with_capacity(left.len());
    let (mut room, mut count) = (LISTED, left.len());
    for (index, left) in left {
        let share = (room / count.max(1)).max(LEAST);
        count -= 1;
        let text = left.and_then(|(record, file, _)| stage.stage_text(record, file, share));
        let length = text.as_ref().map_or(0, |text| text.head.len() + text.tail.len());
        room = room.saturating_sub(length);
        texts.push((index, text));
    }
    texts.sort_by_key(|(index, _)| *index);
    texts.into_iter().map(|(_, text)| text).collect()
}

fn describe(candidate: &Candidate<'_>, budget: usize, text: &mut String) {
    text.push_str(&format!(
        "\n### {}\n- status: {}\n",
        candidate.id, candidate.status
    ));
    if candidate.outcome != candidate.status.word() {
        text.push_str(&format!("- outcome: {}\n", candidate.outcome));
    }
    if let Some(score) = candidate.score {
        text.push_str(&format!("- score: {score}\n"));
    }
    let mut field = |name: &str, value: &str, limit: usize| {
        text.push_str(&format!("- {name}: {}\n", shortened(value, limit)));
    };
    if let Some(notes) = &candidate.notes {
        field("notes", notes, budget / 4);
    }
    if let Some(reason) = &candidate.failure_reason {
        field("failure reason", reason, budget / 4);
    }
    if let Some(updates) = candidate.context_updates.filter(|updates| !updates.is_empty()) {
        let updates = serde_json::to_string(updates).unwrap_or_default();
        field("context updates", &updates, budget / 2);
    }
}

/// Returns a text as one line. A text that is too long is cut and the number of missing characters is appended.
fn shortened(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let length = line.chars().count();
    if length <= limit {
        return line;
    }
    let shown: String = line.chars().take(limit).collect();
    format!("{shown} [{} more characters]", length - limit)
}

#[cfg(test)]
mod tests {
    use orchestra_core::Context;
    use serde_json::json;

    use super::*;

    fn three() -> Context {
        let results = json!([
            {"id": "a", "status": "success"},
            {"id": "b", "status": "partial_success"},
            {"id": "c", "status": "fail", "failure_reason": "no tests"},
        ]);
        [("parallel.results", results)].into_iter().collect()
    }

    #[test]
    fn a_choice_is_named_by_a_block_or_by_the_bare_id() {
        let context = three();
        let candidates = candidates(&context).unwrap();
        for response in [
            "B is shorter.\n```json\n{\"best\": \"b\"}\n```",
            "```json\n{\"best\": \"a\"}\n```\nNo:\n```json\n{\"best\": \" b \", \"why\": 1}\n```",
            "b",
            " `b`.\n",
            "**b**",
            "Both are fine, but `b` is shorter.",
        ] {
            assert_eq!(
                chosen(&candidates, response).map(|best| best.id),
                Ok("b"),
                "{response}"
            );
        }
    }

    #[test]
    fn a_choice_that_cannot_be_made_is_reported() {
        let context = three();
        let candidates = candidates(&context).unwrap();
        let error = |response: &str| chosen(&candidates, response).unwrap_err();
        assert_eq!(
            error("c"),
            "the choice `c` did not succeed; `a`, `b` may be chosen"
        );
        assert_eq!(
            error("```json\n{\"best\": \"d\"}\n```"),
            "the choice `d` is not a candidate; `a`, `b` may be chosen"
        );
        assert_eq!(
            error("```json\n{\"worst\": \"a\"}\n```"),
            "the JSON block of the response has no text under `best`"
        );
        let prose = error("I like a, and b too.");
        assert!(
            prose.starts_with("the response names `a`, `b`, and does not say"),
            "{prose}"
        );
        let neither = error("I like neither.");
        assert!(
            neither.starts_with("the response names no candidate: "),
            "{neither}"
        );
        assert!(error("").ends_with("the response is empty"));
    }

    #[test]
    fn the_list_stays_small_however_much_the_branches_wrote() {
        let results: Vec<Value> = (0..20)
            .map(|at| {
                json!({"id": format!("b{at}"), "status": "success", "notes": "n".repeat(10_000),
                       "failure_reason": "r".repeat(10_000),
                       "context_updates": {"text": "é".repeat(10_000)}})
            })
            .collect();
        let context: Context = [("parallel.results", Value::Array(results))]
            .into_iter()
            .collect();
        let mut text = String::new();
        for candidate in &candidates(&context).unwrap() {
            describe(candidate, LEAST, &mut text);
        }
        assert!(text.chars().count() < 20 * (LEAST + 200), "{}", text.len());
        assert!(text.contains("more characters]"));
    }
}
