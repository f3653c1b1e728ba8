//! The permissions that an agent asks for.

use std::time::Duration;

use orchestra_config::Permissions;
use orchestra_engine::{BackendError, Question, QuestionOption, StageContext};
use serde_json::{Value, json};
use similar::TextDiff;

use crate::coding_agents::acp::updates::{Asked, Updates};
use crate::coding_agents::event::{AgentEvent, text};
use crate::tools::line_start;

/// Maximum number of lines of changes that a person is shown.
const MAX_LINES: usize = 200;
/// Maximum length of a command, a title or a line that a person is shown, in bytes.
const MAX_BYTES: usize = 2_000;
/// The time in which the shortest difference is searched; after it, a longer one is shown.
const DIFF_TIME: Duration = Duration::from_millis(200);

/// The answer to a request for permission.
pub(super) struct Decision {
    /// The result of the request.
    pub(super) response: Value,
    /// The events of a denial.
    pub(super) events: Vec<AgentEvent>,
}

/// An option of a request for permission.
struct Choice {
    id: String,
    name: String,
    kind: String,
}

impl Choice {
    fn allows(&self) -> bool {
        self.kind.starts_with("allow")
    }
}

/// Decides on a request for permission.
///
/// # Errors
/// Nobody can be asked, which suspends the run.
pub(super) async fn decide(
    permissions: Permissions,
    stage: &StageContext,
    agent: &str,
    updates: &mut Updates,
    params: &Value,
) -> Result<Decision, BackendError> {
    let none = Value::Null;
    let call = params.get("toolCall").unwrap_or(&none);
    let choices = choices(params);
    let (chosen, reason) = match permissions {
        Permissions::Allow => (find(&choices, ["allow_once", "allow_always"]), String::new()),
        Permissions::Deny => {
            let reason = "the backend has `permissions: deny`";
            (
                find(&choices, ["reject_once", "reject_always"]),
                reason.to_owned(),
            )
        }
        Permissions::Ask => {
            let chosen = ask(stage, agent, &updates.asked(call), &choices).await?;
            (chosen, "a person rejected it".to_owned())
        }
    };
    let is_allowed = chosen.is_some_and(Choice::allows);
    let outcome = match chosen {
        Some(choice) => json!({"outcome": "selected", "optionId": choice.id}),
        None => json!({"outcome": "cancelled"}),
    };
    let events = if is_allowed {
        Vec::new()
    } else {
        let reason = if reason.is_empty() {
            "the agent offers no option that allows it"
        } else {
            &reason
        };
        updates.deny(call, reason)
    };
    Ok(Decision {
        response: json!({ "outcome": outcome }),
        events,
    })
}

fn choices(params: &Value) -> Vec<Choice> {
    let options = params.get("options").and_then(Value::as_array);
    let choice = |option: &Value| Choice {
        id: text(option, "/optionId").to_owned(),
        name: text(option, "/name").to_owned(),
        kind: text(option, "/kind").to_owned(),
    };
    options.into_iter().flatten().map(choice).collect()
}

fn find<'c>(choices: &'c [Choice], kinds: [&str; 2]) -> Option<&'c Choice> {
    kinds
        .iter()
        .find_map(|kind| choices.iter().find(|choice| choice.kind == *kind))
}

/// Asks a person. Returns `None` if the agent offers no choices.
async fn ask<'c>(
    stage: &StageContext,
    agent: &str,
    asked: &Asked,
    choices: &'c [Choice],
) -> Result<Option<&'c Choice>, BackendError> {
    if choices.is_empty() {
        return Ok(None);
    }
    let keys: Vec<String> = keys(choices);
    let options = keys
        .iter()
        .zip(choices)
        .map(|(key, choice)| QuestionOption::new(key, &choice.name));
    let question = Question::select(question_text(agent, asked), options);
    let answer = stage.require_answer(question.clone()).await?;
    let accepted = question.accept(&answer).map_err(|error| {
        BackendError::retryable(format!(
            "the answer to the question of `{agent}` is none: {error}"
        ))
    })?;
    let chosen = accepted
        .options
        .first()
        .and_then(|option| keys.iter().position(|key| *key == option.key));
    Ok(chosen.and_then(|at| choices.get(at)))
}

/// Returns the keys of the choices: a letter that says what they do, else their number.
fn keys(choices: &[Choice]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for (at, choice) in choices.iter().enumerate() {
        let letter = match choice.kind.as_str() {
            "allow_once" => "Y",
            "allow_always" => "A",
            "reject_once" => "N",
            "reject_always" => "R",
            _ => "",
        };
        let key = if letter.is_empty() || keys.iter().any(|key| key == letter) {
            (at + 1).to_string()
        } else {
            letter.to_owned()
        };
        keys.push(key);
    }
    keys
}

/// Returns the text that a person decides on. What is left out is said.
fn question_text(agent: &str, asked: &Asked) -> String {
    let mut text = format!("`{agent}` asks for permission: {}", start(&asked.title));
    if asked.changes.is_empty() {
        for detail in asked.command.iter().chain(&asked.target) {
            text.push('\n');
            text.push_str(&start(detail));
        }
        return text;
    }
    let mut lines: Vec<String> = Vec::new();
    for (path, before, after) in &asked.changes {
        lines.push(path.clone());
        let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(before, after);
        let diff = diff.unified_diff().context_radius(2).to_string();
        lines.extend(diff.lines().map(str::to_owned));
    }
    for line in lines.iter().take(MAX_LINES) {
        text.push('\n');
        text.push_str(&start(line));
    }
    match lines.len().saturating_sub(MAX_LINES) {
        0 => {}
        more => text.push_str(&format!("\n.. ({more} more lines)")),
    }
    text
}

/// Returns the beginning of a text, and how much is left out.
fn start(text: &str) -> String {
    match line_start(text, MAX_BYTES) {
        (start, 0) => start.to_owned(),
        (start, more) => format!("{start} .. ({more} more bytes)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(kind: &str) -> Choice {
        Choice {
            id: kind.to_owned(),
            name: kind.to_owned(),
            kind: kind.to_owned(),
        }
    }

    #[test]
    fn keys_differ() {
        let kinds = ["allow_always", "allow_once", "allow_once", "reject_once", "other"];
        assert_eq!(keys(&kinds.map(choice)), ["A", "Y", "3", "N", "5"]);
    }

    #[test]
    fn a_person_sees_what_would_change() {
        let asked = Asked {
            title: "Writing to a.txt".to_owned(),
            target: Some("/w/a.txt".to_owned()),
            command: None,
            changes: vec![(
                "/w/a.txt".to_owned(),
                "one\ntwo\n".to_owned(),
                "one\n2\n".to_owned(),
            )],
        };
        assert_eq!(
            question_text("editor", &asked),
            "`editor` asks for permission: Writing to a.txt\n/w/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2"
        );
        let long = "line\n".repeat(500);
        let asked = Asked {
            changes: vec![("/w/b.txt".to_owned(), String::new(), long)],
            ..asked
        };
        assert!(question_text("editor", &asked).ends_with("\n.. (302 more lines)"));
    }
}
