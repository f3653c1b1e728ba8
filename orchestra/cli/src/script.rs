//! The script of a simulation: the outcomes that nodes give in turn.

use std::collections::BTreeMap;

use orchestra_engine::{Outcome, Status};
use serde::Deserialize;
use serde_json::Value;

use crate::error::CliError;

/// One outcome of a script: a word, or an object.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Word(Scalar),
    Full(Full),
}

/// A word as a person writes it, where YAML sees more: `1`, `true`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Flag(bool),
    Whole(i64),
    Number(f64),
}

impl Scalar {
    fn text(self) -> String {
        match self {
            Scalar::Text(text) => text,
            Scalar::Flag(flag) => flag.to_string(),
            Scalar::Whole(number) => number.to_string(),
            Scalar::Number(number) => number.to_string(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Full {
    #[serde(default)]
    outcome: Option<Scalar>,
    #[serde(default)]
    preferred_label: Option<Scalar>,
    #[serde(default)]
    suggested_next_ids: Vec<String>,
    #[serde(default)]
    context: BTreeMap<String, Value>,
    #[serde(default)]
    notes: Option<String>,
    #[serde(default)]
    failure_reason: Option<String>,
}

/// A list of outcomes, or a single one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entries {
    Many(Vec<Entry>),
    One(Entry),
}

/// Reads a script.
pub(crate) fn read(file: &str) -> Result<BTreeMap<String, Vec<Outcome>>, CliError> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        CliError::usage(
            "unreadable_script",
            format!("cannot read the script `{file}`: {error}"),
        )
    })?;
    // `Y` and `No` are answers of gates, and no truth values.
    let options = serde_saphyr::options! { strict_booleans: true };
    let script = serde_saphyr::from_str_with_options(&text, options);
    let script: BTreeMap<String, Entries> = script.map_err(|error| {
        CliError::usage("script", format!("the script `{file}` is invalid: {error}"))
            .help("a script maps a node to its outcomes, such as `review: [fail, success]`")
    })?;
    Ok(script
        .into_iter()
        .map(|(node, entries)| (node, outcomes(entries)))
        .collect())
}

fn outcomes(entries: Entries) -> Vec<Outcome> {
    let entries = match entries {
        Entries::Many(entries) => entries,
        Entries::One(entry) => vec![entry],
    };
    entries.into_iter().map(outcome).collect()
}

fn outcome(entry: Entry) -> Outcome {
    let full = match entry {
        Entry::Word(word) => return outcome_of_word(&word.text()),
        Entry::Full(full) => full,
    };
    let word = full.outcome.map(Scalar::text);
    let mut outcome = word.map_or_else(Outcome::success, |word| outcome_of_word(&word));
    outcome.preferred_label = full.preferred_label.map(Scalar::text);
    outcome.suggested_next_ids = full.suggested_next_ids;
    outcome.context_updates = full.context;
    outcome.notes = full.notes.or(outcome.notes);
    outcome.failure_reason = full.failure_reason.or(outcome.failure_reason);
    outcome
}

/// The outcome of a word; a failure needs a reason, and says where it comes from.
pub(crate) fn outcome_of_word(word: &str) -> Outcome {
    match Status::of(word) {
        Status::Fail => Outcome::fail("simulated failure"),
        Status::Retry => Outcome::retry("simulated wish for a retry"),
        status => Outcome::new(status),
    }
}
