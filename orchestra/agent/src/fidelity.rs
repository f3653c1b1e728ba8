//! Describes the earlier part of the run to a model, within the tokens of the stage's fidelity (Attractor 5.4, rule
//! F4).

use orchestra_engine::{Context, Fidelity, PastStage, StageFile, StageHistory, Status, StoredText};
use serde_json::Value;

use crate::page::{Measure, TokenBudget, end_of, fit, length_of_lines, section};

/// The context keys that are useless for a model, or that other parts of its prompt contain.
const HIDDEN_KEYS: &[&str] = &[
    "current_node",
    "error_history",
    "last_response",
    "last_stage",
    "outcome",
    "preferred_label",
    "tool.last_line",
    "tool.output",
];
/// The item for which a branch runs: the subject of its stages.
const ITEM: &str = "parallel.item";
/// The prefixes of the engine's own keys.
const HIDDEN_PREFIXES: &[&str] = &[
    "graph.",
    "internal.",
    "parallel.",
    "stack.",
    "stages.",
    "visits.",
    "work.",
    "workspace.",
];

/// Returns the maximum number of tokens of the description of earlier stages. Returns `None` if there is no limit.
///
/// ```
/// use orchestra_agent::fidelity_budget;
/// use orchestra_engine::Fidelity;
/// assert_eq!(fidelity_budget(Fidelity::SummaryLow), Some(600));
/// assert_eq!(fidelity_budget(Fidelity::Full), None);
/// ```
pub const fn fidelity_budget(fidelity: Fidelity) -> Option<u64> {
    match fidelity {
        Fidelity::Full => None,
        Fidelity::Truncate => Some(150),
        // The default must have space for an ordinary plan or review.
        Fidelity::Compact => Some(4_000),
        Fidelity::SummaryLow => Some(600),
        Fidelity::SummaryMedium => Some(1_500),
        Fidelity::SummaryHigh => Some(3_000),
    }
}

/// Reads an output file of a visit.
pub(crate) type ReadText<'a> = &'a dyn Fn(&str, StageFile, usize) -> Option<StoredText>;

/// The data from which the description is made.
pub(crate) struct Past<'a> {
    pub(crate) history: &'a StageHistory,
    pub(crate) goal: &'a str,
    pub(crate) run: &'a str,
    pub(crate) context: &'a Context,
    pub(crate) read: ReadText<'a>,
}

/// Returns the description of the run before a stage, of at most [`fidelity_budget`] tokens as counted by
/// [`count_tokens`](crate::count_tokens). Returns an empty text for `full`.
pub(crate) fn preamble(fidelity: Fidelity, past: &Past<'_>) -> String {
    let Some(budget) = fidelity_budget(fidelity) else {
        return String::new();
    };
    let goal_room = budget / 4;
    let mut head = vec!["# Where you are".to_owned(), String::new()];
    if !past.goal.trim().is_empty() {
        let goal = StoredText::from(past.goal.trim());
        head.push(format!("Goal: {}", fit(&Measure::tokens(), &goal, goal_room)));
    }
    head.push(format!("Run: {}", past.run));
    if !matches!(fidelity, Fidelity::Truncate | Fidelity::Compact) {
        head.push(counts(past.history));
    }
    let stages: Vec<&PastStage> = match fidelity {
        Fidelity::Truncate => Vec::new(),
        _ => past.history.stages.iter().collect(),
    };
    compose(budget, &head.join("\n"), past, &stages, fidelity)
}

/// Returns the description of what happened since the latest stage of the thread. Returns an empty text if nothing
/// happened. It has at most as many tokens as the default fidelity.
pub(crate) fn since(past: &Past<'_>) -> String {
    let budget = fidelity_budget(Fidelity::Compact).unwrap_or_default();
    let all = &past.history.stages;
    let new = all.get(all.len().saturating_sub(past.history.since_thread)..);
    let stages: Vec<&PastStage> = new
        .unwrap_or_default()
        .iter()
        .filter(|stage| stage.record.is_some())
        .collect();
    let own = past
        .history
        .thread_stage
        .as_ref()
        .and_then(|stage| stage.record.as_ref());
    let handled = past
        .history
        .handled
        .as_ref()
        .filter(|handled| handled.record.as_ref() != own);
    if stages.is_empty() && handled.is_none() {
        return String::new();
    }
    compose(budget, "# Since then", past, &stages, Fidelity::Full)
}

/// Composes the parts, each within its share. If there is enough to report, they fill the budget.
fn compose(budget: u64, head: &str, past: &Past<'_>, stages: &[&PastStage], fidelity: Fidelity) -> String {
    let bytes = Measure::bytes();
    let text = parts(&bytes, budget, head, past, stages, fidelity);
    if !bytes.has_left_out() && text.len() as u64 <= budget {
        return text;
    }
    let tokens = Measure::tokens();
    // The composed text may have a few more tokens than the sum of its parts.
    for slack in [8, 40, 120, 400] {
        let room = budget.saturating_sub(slack);
        let text = parts(&tokens, room, head, past, stages, fidelity);
        if tokens.length(&text) <= budget {
            return text;
        }
    }
    fit(&tokens, &StoredText::from(head), budget)
}

fn parts(
    measure: &Measure,
    budget: u64,
    head: &str,
    past: &Past<'_>,
    stages: &[&PastStage],
    fidelity: Fidelity,
) -> String {
    let head = fit(measure, &StoredText::from(head), budget);
    let mut left = TokenBudget::new(measure, budget.saturating_sub(measure.length(&head) + 1));
    if fidelity == Fidelity::Truncate {
        return head;
    }
    let bytes = usize::try_from(budget).unwrap_or(usize::MAX).saturating_mul(8);
    let handled = past.history.handled.as_ref();
    let before = stages
        .iter()
        .rev()
        .find_map(|stage| Some((*stage, answer(stage, past.read, bytes)?)))
        .filter(|(stage, _)| handled.is_none_or(|handled| handled.record != stage.record));
    let earlier: Vec<&PastStage> = stages
        .iter()
        .rev()
        .copied()
        .filter(|stage| {
            let described = [handled, before.as_ref().map(|(stage, _)| *stage)];
            let is_new = |known: &&PastStage| known.record != stage.record;
            stage.record.is_some() && described.iter().flatten().all(is_new)
        })
        .collect();
    let is_new_conversation = fidelity != Fidelity::Full;
    let listed = if is_new_conversation {
        listed(stages)
    } else {
        Vec::new()
    };
    let values = if is_new_conversation {
        values(past.context)
    } else {
        Vec::new()
    };
    let tools = match fidelity {
        Fidelity::SummaryHigh => tools(past.history),
        _ => Vec::new(),
    };
    let attempts = if is_new_conversation && fidelity != Fidelity::Compact {
        past.history
            .failures
            .iter()
            .map(|failure| format!("- {}", excerpt(failure, 300)))
            .collect()
    } else {
        Vec::new()
    };
    // Reserve tokens so that the first parts do not starve the later ones.
    let reserve = |lines: &[String], share: u64| length_of_lines(measure, lines).min(budget * share / 100);
    let reserved = reserve(&listed, 12) + reserve(&values, 10) + reserve(&tools, 4) + reserve(&attempts, 4);
    left.reserve(reserved);

    let mut text = vec![head];
    if let Some(failed) = handled {
        let wanted = before
            .as_ref()
            .map_or(0, |(_, text)| measure.length(&text.to_string()) + 20);
        let room = (left.available() / 2).max(left.available().saturating_sub(wanted));
        text.extend(left.take(room, |room| failure(measure, failed, past.read, bytes, room)));
    }
    if let Some((stage, answer)) = &before {
        let heading = format!("## What `{}` gave", stage.node);
        text.extend(left.take(left.available(), |room| {
            section(measure, &heading, room, |room| fit(measure, answer, room))
        }));
    }
    left.release(reserved);
    let answers = earlier_answers(measure, &earlier, past.read, bytes, left.available());
    let answers_size = length_of_lines(
        measure,
        &answers
            .iter()
            .map(|(_, text)| text.to_string())
            .collect::<Vec<_>>(),
    );
    let mut line_part = |heading: &str, lines: Vec<String>, share: u64, last: bool| {
        if lines.is_empty() {
            return;
        }
        let room = (budget * share / 100).max(left.available().saturating_sub(answers_size));
        let room = room.min(left.available());
        text.extend(left.take(room, |room| {
            section(measure, heading, room, |room| {
                lines_within(measure, &lines, room, last)
            })
        }));
    };
    line_part("## Stages so far, the latest first", listed, 20, true);
    line_part("## Values", values, 15, false);
    line_part("## Failed attempts", attempts, 8, false);
    line_part("## Tools used", tools, 6, false);
    let mut count = answers.len() as u64;
    for (stage, answer) in &answers {
        let room = left.available() / count.max(1);
        count -= 1;
        let heading = format!("## What `{}` gave", stage.node);
        text.extend(left.take(room, |room| {
            section(measure, &heading, room, |room| fit(measure, answer, room))
        }));
    }
    text.join("\n\n")
}

/// Returns the response or output of a stage, or `None` if both are empty.
fn answer(stage: &PastStage, read: ReadText<'_>, most: usize) -> Option<StoredText> {
    let record = stage.record.as_deref()?;
    let files = [StageFile::Response, StageFile::ToolOutput, StageFile::ToolError];
    let mut texts = files.into_iter().filter_map(|file| read(record, file, most));
    texts.find(|text| !text.head.trim().is_empty())
}

/// Returns the answers of earlier stages, newest first: as many as have space for more than a few words.
fn earlier_answers<'s>(
    measure: &Measure,
    earlier: &[&'s PastStage],
    read: ReadText<'_>,
    most: usize,
    room: u64,
) -> Vec<(&'s PastStage, StoredText)> {
    const MIN_TOKENS: u64 = 120;
    let count = usize::try_from(room / MIN_TOKENS).unwrap_or(usize::MAX);
    let mut answers = earlier
        .iter()
        .filter_map(|stage| Some((*stage, answer(stage, read, most)?)));
    let shown = answers.by_ref().take(count).collect();
    if measure.is_by_bytes() && answers.next().is_some() {
        measure.leaves_out();
    }
    shown
}

/// Returns the failure that led to this stage: its reason, and the end of the stage's output.
fn failure(
    measure: &Measure,
    failed: &PastStage,
    read: ReadText<'_>,
    most: usize,
    room: u64,
) -> Option<String> {
    let reason = failed.failure_reason.as_deref().or(failed.notes.as_deref());
    let reason = StoredText::from(reason.unwrap_or("no reason was given"));
    section(measure, "## The failure to handle", room, |room| {
        let reason = fit(measure, &reason, room / 2);
        let mut text = format!("Stage `{}` failed: {reason}", failed.node);
        let record = failed.record.as_deref().unwrap_or_default();
        let left = |file: StageFile| read(record, file, most).filter(|text| !text.head.trim().is_empty());
        let mut parts: Vec<(&str, StoredText)> = [
            ("standard error", StageFile::ToolError),
            ("output", StageFile::ToolOutput),
            ("answer", StageFile::Response),
        ]
        .into_iter()
        .filter_map(|(what, file)| Some((what, left(file)?)))
        .collect();
        // Start with the shortest, so that the others can use the tokens it leaves.
        parts.sort_by_key(|(_, text)| text.len());
        let mut count = parts.len() as u64;
        for (what, part) in &parts {
            let open = room.saturating_sub(measure.length(&text) + 12 * count);
            let end = end_of(measure, part, open / count.max(1));
            count -= 1;
            if !end.is_empty() {
                text.push_str(&format!("\n\nThe end of its {what}:\n\n{end}"));
            }
        }
        text
    })
}

fn counts(history: &StageHistory) -> String {
    let failed = history.failures.len();
    let last = history
        .stages
        .last()
        .map_or(String::new(), |last| format!(" The last was `{}`.", last.node));
    let attempts = match failed {
        0 => String::new(),
        1 => " One attempt failed.".to_owned(),
        failed => format!(" {failed} attempts failed."),
    };
    format!("{} stages have ended.{last}{attempts}", history.stages_in_all)
}

/// Returns a line for each visit whose outcome is known, the latest first.
fn listed(stages: &[&PastStage]) -> Vec<String> {
    let line = |(stage, status): (&PastStage, &Status)| {
        // The default notes of the engine repeat the status, so leave them out.
        let usual = format!("Stage completed: {}", stage.node);
        let notes = stage.notes.as_deref().map(str::trim);
        match notes.filter(|notes| !notes.is_empty() && *notes != usual) {
            Some(notes) => format!("- {}: {status}. {}", stage.node, excerpt(notes, 200)),
            None => format!("- {}: {status}", stage.node),
        }
    };
    let latest = stages.iter().rev();
    let latest = latest.filter_map(|stage| Some((*stage, stage.status.as_ref()?)));
    latest.map(line).collect()
}

fn values(context: &Context) -> Vec<String> {
    let shown = context.iter().filter(|(key, value)| {
        let has_hidden_prefix = HIDDEN_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
        let is_hidden = *key != ITEM && (HIDDEN_KEYS.contains(key) || has_hidden_prefix);
        !is_hidden && !value.is_null() && value.as_str() != Some("")
    });
    shown
        .map(|(key, value)| {
            let text = match value {
                Value::String(text) => excerpt(text, 1_000),
                other => excerpt(&other.to_string(), 1_000),
            };
            format!("- {key}: {text}")
        })
        .collect()
}

fn tools(history: &StageHistory) -> Vec<String> {
    let line = |tally: &orchestra_engine::ToolTally| {
        let failed = match tally.failures {
            0 => String::new(),
            failures => format!(", {failures} of them failed"),
        };
        format!(
            "- {} called {} {} times{failed}",
            tally.node, tally.tool, tally.calls
        )
    };
    history.tools.iter().map(line).collect()
}

/// Returns as many lines as fit, and the number of omitted ones.
fn lines_within(measure: &Measure, lines: &[String], room: u64, latest_first: bool) -> String {
    let mut left = room.saturating_sub(16);
    let mut shown: Vec<&str> = Vec::new();
    for line in lines {
        let length = measure.length(line) + 1;
        if length > left {
            measure.leaves_out();
            break;
        }
        left -= length;
        shown.push(line);
    }
    if shown.is_empty() {
        return String::new();
    }
    let missing = lines.len() - shown.len();
    let mut text = shown.join("\n");
    if missing > 0 {
        let which = if latest_first { "earlier" } else { "more" };
        text.push_str(&format!("\n- [{missing} {which} ones are left out]"));
    }
    text
}

/// Returns the beginning of a text on one line, of at most `limit` characters.
pub(crate) fn excerpt(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(limit) {
        Some((at, _)) => format!("{} [...]", line.get(..at).unwrap_or_default().trim_end()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_that_have_room_by_their_bytes_are_the_same_by_their_tokens(
            lines in prop::collection::vec("- [a-z äö]{0,40}", 0..8),
            room in 0_u64..400,
        ) {
            let bytes = Measure::bytes();
            let by_bytes = lines_within(&bytes, &lines, room, true);
            if !bytes.has_left_out() {
                prop_assert_eq!(by_bytes, lines_within(&Measure::tokens(), &lines, room, true));
            }
        }
    }
}
