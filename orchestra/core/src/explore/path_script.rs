//! Scripts that lead a simulated run along a path: the outcomes of its stages, the answers of its gates, and durations
//! that put the ends of parallel stages in order.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use orchestra_graph::condition::OUTCOME_WORDS;
use orchestra_graph::{Pipeline, Stage, format_duration, kind, label_text};
use serde_json::Value;

use crate::answer::{Answer, Reply};
use crate::outcome::{FailureCategory, Outcome, Status};
use crate::question::Question;

/// An entry of a script: how an attempt of a stage ends, or how a human gate is answered.
///
/// ```
/// use orchestra_core::{Answer, Outcome, PathEntry};
/// let failed = PathEntry::Ends { outcome: Outcome::fail("no compiler"), takes: Default::default() };
/// assert_ne!(failed, PathEntry::Answers(Answer::skipped()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum PathEntry {
    /// The attempt ends with an outcome.
    Ends {
        /// The outcome.
        outcome: Outcome,
        /// The duration of the attempt.
        takes: Duration,
    },
    /// The gate gets an answer, which may be that nobody answers in time.
    Answers(Answer),
}

/// A script of a simulated run, in which each attempt of a stage takes the next entry and the last one repeats. A stage
/// without entries succeeds.
///
/// ```
/// use orchestra_core::find_paths;
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> test -> exit; test [prompt=Test]; test -> mend [condition=\"outcome=fail\"]; mend -> test }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let found = find_paths(&loaded, &Default::default()).expect("sound");
/// assert_eq!(found.scripts.len(), 1);
/// assert_eq!(found.scripts[0].to_yaml(), "test: [fail, success]\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PathScript {
    /// The values of the inputs with which the run starts, if they are not those of every simulated run.
    pub inputs: BTreeMap<String, Value>,
    /// The entries of each node that has any.
    pub nodes: BTreeMap<String, Vec<PathEntry>>,
    /// The indices of the targets that a run by this script takes.
    pub targets: Vec<usize>,
}

impl PathScript {
    /// Returns the script as YAML, in the format of `orchestra run --simulate`. Inputs are not a part of this format.
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        for (node, entries) in &self.nodes {
            let entries: Vec<String> = entries.iter().map(entry_text).collect();
            let _ = match &entries[..] {
                [one] if !one.starts_with('{') => writeln!(text, "{}: {one}", word(node)),
                entries if entries.iter().any(|entry| entry.starts_with('{')) => {
                    let _ = writeln!(text, "{}:", word(node));
                    entries.iter().try_for_each(|entry| writeln!(text, "  - {entry}"))
                }
                entries => writeln!(text, "{}: [{}]", word(node), entries.join(", ")),
            };
        }
        if text.is_empty() {
            text.push_str("{}\n");
        }
        text
    }
}

/// Returns an entry as YAML.
fn entry_text(entry: &PathEntry) -> String {
    let (outcome, takes) = match entry {
        PathEntry::Ends { outcome, takes } => (outcome, takes),
        PathEntry::Answers(answer) => {
            return match &answer.reply {
                Reply::Skipped => "skipped".to_owned(),
                Reply::TimedOut => "timeout".to_owned(),
                Reply::Chosen(texts) => word(&texts.join(", ")),
            };
        }
    };
    let mut parts = Vec::new();
    let mut add = |name: &str, value: String| parts.push(format!("{name}: {value}"));
    if let Some(label) = &outcome.preferred_label {
        add("preferred_label", word(label));
    }
    if !outcome.suggested_next_ids.is_empty() {
        let ids: Vec<String> = outcome.suggested_next_ids.iter().map(|id| word(id)).collect();
        add("suggested_next_ids", format!("[{}]", ids.join(", ")));
    }
    if !outcome.context_updates.is_empty() {
        let values = outcome.context_updates.iter();
        let values: Vec<String> = values
            .map(|(key, value)| format!("{}: {value}", quoted(key)))
            .collect();
        add("context", format!("{{{}}}", values.join(", ")));
    }
    if outcome.failure_category == FailureCategory::Terminal {
        add("failure_category", "terminal".to_owned());
    }
    if !takes.is_zero() {
        add("takes", format_duration(*takes));
    }
    let status = word(outcome.status.word());
    if parts.is_empty() {
        return status;
    }
    format!("{{outcome: {status}, {}}}", parts.join(", "))
}

/// Returns a text as a YAML scalar, in quotes unless it is certainly read as a text without them.
fn word(text: &str) -> String {
    const OTHERS: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !OTHERS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the answer with which a script names a choice: its label, or its key if the label is ambiguous.
pub(super) fn readable(question: &Question, answer: &Answer) -> Answer {
    let Ok(accepted) = question.accept(answer) else {
        return answer.clone();
    };
    if accepted.text.is_some() {
        return answer.clone();
    }
    let labels = accepted.options.iter().map(|option| label_text(&option.label));
    let by_label = Answer::choice(labels.collect::<Vec<_>>().join(", "));
    match question.accept(&by_label) {
        Ok(again) if again == accepted => by_label,
        _ => answer.clone(),
    }
}

/// Returns whether a script can say that nobody answers: no choice has this name.
pub(super) fn may_time_out(question: &Question) -> bool {
    let is_choice = question.accept(&Answer::choice("timeout"));
    is_choice.is_ok_and(|accepted| accepted.text.is_some())
        || question.accept(&Answer::choice("timeout")).is_err()
}

/// Returns whether a script may give an outcome to a stage: not one that only other stages declare.
pub(super) fn may_give(pipeline: &Pipeline, stage: Stage<'_>, outcome: &Outcome) -> bool {
    let Status::Custom(word) = &outcome.status else {
        return true;
    };
    let declared = stage.text("outcomes").unwrap_or_default();
    let mut declared = declared
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .peekable();
    if declared.peek().is_some() {
        return declared.any(|declared| declared == word) || OUTCOME_WORDS.contains(&&**word);
    }
    pipeline
        .conditions()
        .any(|condition| condition.text().contains(&**word))
}

/// Returns whether a stage without entries ends in the same way as with these.
pub(super) fn is_default(pipeline: &Pipeline, stage: Stage<'_>, entries: &[PathEntry]) -> bool {
    // These stages run a child pipeline or choose a branch, unless the script says how they end.
    if matches!(
        stage.kind(),
        kind::FAN_IN | kind::MANAGER_LOOP | kind::SUBPIPELINE
    ) {
        return false;
    }
    let reads_response = || {
        let mut keys = pipeline.conditions().flat_map(|condition| condition.keys());
        keys.any(|key| key.ends_with("last_response"))
    };
    if stage.kind() == kind::CODERGEN && reads_response() {
        return false;
    }
    entries.iter().all(|entry| {
        matches!(entry, PathEntry::Ends { outcome, takes } if takes.is_zero() && *outcome == Outcome::success())
    })
}
