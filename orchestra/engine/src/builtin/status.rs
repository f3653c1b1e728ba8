//! The status file, by which a stage that is not Rust code reports its outcome (Attractor appendix C, rule D8).

use std::time::Duration;

use orchestra_core::{FailureCategory, Outcome, Status};
use orchestra_graph::condition::OUTCOME_WORDS;
use orchestra_graph::{Stage, did_you_mean};
use serde_json::{Map, Value};

use crate::store::{RunStore, StageFile, StageFolder};

/// The note of a success that `auto_status` filled in.
const AUTO_NOTE: &str = "auto-status: handler completed without writing status";

/// Returns the content of the file. Readers accept both spellings of the two renamed fields.
pub(crate) fn write(outcome: &Outcome) -> Vec<u8> {
    let mut json = serde_json::to_vec_pretty(outcome).unwrap_or_default();
    json.push(b'\n');
    json
}

/// Reads the outcome that the stage wrote. Returns `None` if it wrote no file.
///
/// The node must declare a custom outcome (`outcomes`), because a misspelt failure must not pass for a success.
///
/// # Errors
/// Returns a message of one line if the file is invalid.
pub(crate) fn read(
    files: &dyn RunStore,
    stage_folder: StageFolder<'_>,
    node: Stage<'_>,
) -> Result<Option<Outcome>, String> {
    let bytes = files
        .read(stage_folder, StageFile::Status)
        .map_err(|error| error.to_string())?;
    let Some(outcome) = bytes.map(|bytes| parse(&bytes)).transpose()? else {
        return Ok(None);
    };
    let declared = node.text("outcomes").unwrap_or_default();
    let mut declared = declared.split(',').map(str::trim).filter(|word| !word.is_empty());
    match &outcome.status {
        Status::Custom(word) if !declared.clone().any(|known| known == word) => {
            let near = did_you_mean(word, OUTCOME_WORDS.iter().copied().chain(&mut declared));
            let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            Err(format!(
                "the stage wrote the outcome `{word}` to status.json, which neither is built in nor declared \
                 by `outcomes`{near}"
            ))
        }
        _ => Ok(Some(outcome)),
    }
}

pub(crate) fn parse(bytes: &[u8]) -> Result<Outcome, String> {
    let wrong = |what: &str| format!("the stage wrote a status.json that cannot be used: {what}");
    let value: Value = serde_json::from_slice(bytes).map_err(|error| wrong(&error.to_string()))?;
    let Value::Object(mut fields) = value else {
        return Err(wrong("it is not an object"));
    };
    let word = text(&mut fields, &["outcome", "status"]).map_err(|what| wrong(&what))?;
    let Some(word) = word else {
        return Err(wrong("it has no `outcome`"));
    };
    let mut outcome = Outcome::new(Status::from_name(&word.to_ascii_lowercase()));
    let label = text(&mut fields, &["preferred_label", "preferred_next_label"]);
    outcome.preferred_label = label.map_err(|what| wrong(&what))?;
    outcome.notes = text(&mut fields, &["notes"]).map_err(|what| wrong(&what))?;
    outcome.failure_reason = text(&mut fields, &["failure_reason"]).map_err(|what| wrong(&what))?;
    match fields.remove("suggested_next_ids") {
        None | Some(Value::Null) => {}
        Some(ids) => {
            outcome.suggested_next_ids = serde_json::from_value(ids)
                .map_err(|_| wrong("`suggested_next_ids` is not a list of texts"))?;
        }
    }
    match fields.remove("context_updates") {
        None | Some(Value::Null) => {}
        Some(Value::Object(updates)) => outcome.context_updates = updates.into_iter().collect(),
        Some(_) => return Err(wrong("`context_updates` is not an object")),
    }
    if let Some(category) = fields.remove("failure_category") {
        outcome.failure_category = serde_json::from_value::<FailureCategory>(category)
            .map_err(|_| wrong("`failure_category` is not `retryable` or `terminal`"))?;
    }
    outcome.failure_code = text(&mut fields, &["failure_code"]).map_err(|what| wrong(&what))?;
    match fields.remove("retry_after_ms") {
        None | Some(Value::Null) => {}
        Some(millis) => {
            let millis = millis.as_u64();
            let millis = millis.ok_or_else(|| wrong("`retry_after_ms` is not a whole number"))?;
            outcome.retry_after = Some(Duration::from_millis(millis));
        }
    }
    if !outcome.status.is_success() && outcome.failure_reason.is_none() {
        outcome.failure_reason = outcome.notes.clone();
    }
    Ok(outcome)
}

/// Removes all fields up to the first that holds a non-empty text, and returns that text.
fn text(fields: &mut Map<String, Value>, names: &[&str]) -> Result<Option<String>, String> {
    for name in names {
        match fields.remove(*name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(Value::String(text)) => return Ok(Some(text)),
            Some(_) => return Err(format!("`{name}` is not a text")),
        }
    }
    Ok(None)
}

/// Merges the outcome that the stage wrote into the one that the engine observed.
pub(crate) fn merge(known: Outcome, mut written: Outcome) -> Outcome {
    let mut updates = known.context_updates;
    updates.append(&mut written.context_updates);
    written.context_updates = updates;
    written.notes = written.notes.or(known.notes);
    if !written.status.is_success() {
        written.failure_reason = written.failure_reason.or(known.failure_reason);
        written.failure_code = written.failure_code.or(known.failure_code);
        written.output_digest = known.output_digest;
    }
    written
}

/// Returns the success that `auto_status` fills in.
pub(crate) fn automatic() -> Outcome {
    Outcome::success().notes(AUTO_NOTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read() {
        let old =
            parse(br#"{"status": "RETRY", "preferred_next_label": "Fix", "notes": "once more"}"#).unwrap();
        let new = parse(br#"{"outcome": "retry", "preferred_label": "Fix", "notes": "once more"}"#).unwrap();
        assert_eq!(old, new);
        assert_eq!(
            (old.status, old.preferred_label.as_deref()),
            (Status::Retry, Some("Fix"))
        );
        assert_eq!(old.failure_reason.as_deref(), Some("once more"));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let outcome = Outcome::success()
            .set("a", 1)
            .prefer("Go")
            .suggest("b")
            .notes("done");
        assert_eq!(parse(&write(&outcome)), Ok(outcome));
        let mut busy = Outcome::fail("busy").with_code("rate_limit");
        busy = busy.retry_after(Duration::from_secs(3));
        assert_eq!(parse(&write(&busy)), Ok(busy));
    }

    #[test]
    fn a_file_that_says_nothing_usable_is_named() {
        for (text, problem) in [
            ("", "EOF"),
            ("[]", "not an object"),
            ("{}", "no `outcome`"),
            (r#"{"outcome": 1}"#, "`outcome` is not a text"),
            (
                r#"{"outcome": "success", "context_updates": []}"#,
                "`context_updates`",
            ),
            (
                r#"{"outcome": "success", "suggested_next_ids": "a"}"#,
                "`suggested_next_ids`",
            ),
            (
                r#"{"outcome": "retry", "retry_after_ms": "soon"}"#,
                "`retry_after_ms`",
            ),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
