//! Scripts of simulations in YAML: lists of the outcomes of nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use orchestra_engine::{Disk, FailureCategory, Outcome, Script, ScriptedOutcome};
use orchestra_graph::parse_duration;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;

use crate::error::ScriptError;

/// Reads a script: a map from nodes to lists of outcomes. Each attempt takes the next outcome, and the last one
/// repeats.
///
/// An outcome is a name, or an object with these optional fields: `outcome`, `preferred_label`, `suggested_next_ids`,
/// `context`, `notes`, `failure_reason`, `failure_category` (`retryable`, `terminal`), `retry_after` and `takes`
/// (durations such as `90s`). The label of a human gate is its answer.
///
/// ```
/// let script = orchestra_testkit::read_script(
///     r#"
///     build: [fail, fail, success]
///     review:
///       - {outcome: success, preferred_label: Fix, context: {flag: true}, notes: "second look"}
///       - {preferred_label: Approve}
///     upload: {outcome: fail, failure_reason: too many requests, retry_after: 30s}
///     "#,
/// )?;
/// assert_eq!(script.outcomes_of("build").len(), 3);
/// assert_eq!(script.outcomes_of("review")[0].context_updates["flag"], true);
///
/// let error = orchestra_testkit::read_script("build: [fail, {outcome: success, note: odd}]").unwrap_err();
/// assert!(error.to_string().contains("line 1") && error.to_string().contains("`note`"), "{error}");
/// # Ok::<(), orchestra_testkit::ScriptError>(())
/// ```
///
/// # Errors
///
/// Returns an error if the text is invalid YAML or an invalid script.
pub fn read_script(text: &str) -> Result<Script, ScriptError> {
    read(text, None)
}

/// Maximum size of a script file in bytes.
const MAX_SCRIPT_SIZE: u64 = 16 << 20;

/// Reads a script from a file; see [`read_script`].
///
/// ```
/// let error = orchestra_testkit::read_script_file("no/such/script.yaml").unwrap_err();
/// assert_eq!(error.code(), "unreadable_script");
/// assert!(error.to_string().starts_with("cannot read the script `no/such/script.yaml`"));
/// ```
///
/// # Errors
///
/// Returns an error if the file cannot be read, or if it is an invalid script.
pub fn read_script_file(path: impl AsRef<Path>) -> Result<Script, ScriptError> {
    let path = path.as_ref();
    let unreadable = |reason: String| ScriptError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let bytes =
        Disk::read_at_most(path, MAX_SCRIPT_SIZE + 1).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > MAX_SCRIPT_SIZE {
        return Err(unreadable(format!(
            "it is larger than {} MiB",
            MAX_SCRIPT_SIZE >> 20
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
    read(&text, Some(path))
}

fn read(text: &str, file: Option<&Path>) -> Result<Script, ScriptError> {
    // A gate may have the choices `Yes` and `No`, which are booleans in older versions of YAML.
    let options = serde_saphyr::options! {
        // The same limit as for configuration files: each level uses stack space.
        budget: serde_saphyr::budget! { max_depth: 24 },
        strict_booleans: true,
    };
    let nodes: BTreeMap<String, Entries> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| ScriptError::Syntax {
            file: file.map(Path::to_owned),
            message: error.to_string(),
        })?;
    let mut script = Script::new();
    for (node, Entries(entries)) in nodes {
        let takes: Vec<Duration> = entries.iter().map(|entry| entry.takes).collect();
        if takes.iter().any(|takes| !takes.is_zero()) {
            script = script.takes(&node, takes);
        }
        script = script.outcomes(node, entries.into_iter().map(|entry| entry.outcome));
    }
    Ok(script)
}

/// One outcome of a script.
struct Entry {
    outcome: Outcome,
    takes: Duration,
}

/// A list of outcomes, or a single one.
struct Entries(Vec<Entry>);

/// An outcome in the form of an object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryObject {
    #[serde(default)]
    outcome: Option<String>,
    #[serde(default)]
    preferred_label: Option<String>,
    #[serde(default)]
    suggested_next_ids: Vec<String>,
    #[serde(default)]
    context: BTreeMap<String, Value>,
    #[serde(default)]
    notes: Option<String>,
    #[serde(default)]
    failure_reason: Option<String>,
    #[serde(default)]
    failure_category: FailureCategory,
    #[serde(default, deserialize_with = "duration")]
    retry_after: Option<Duration>,
    #[serde(default, deserialize_with = "duration")]
    takes: Option<Duration>,
}

impl Entry {
    fn from_word(word: &str) -> Entry {
        Entry {
            outcome: word.scripted(),
            takes: Duration::ZERO,
        }
    }

    fn from_object(object: EntryObject) -> Entry {
        let mut outcome = object.outcome.as_deref().unwrap_or("success").scripted();
        outcome.preferred_label = object.preferred_label;
        outcome.suggested_next_ids = object.suggested_next_ids;
        outcome.context_updates = object.context;
        outcome.notes = object.notes;
        outcome.failure_reason = object.failure_reason.or(outcome.failure_reason);
        outcome.failure_category = object.failure_category;
        outcome.retry_after = object.retry_after;
        Entry {
            outcome,
            takes: object.takes.unwrap_or_default(),
        }
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries, D::Error> {
        deserializer
            .deserialize_any(ReadEntries { list: true })
            .map(Entries)
    }
}

/// One entry of a list.
struct ListItem(Vec<Entry>);

impl<'de> Deserialize<'de> for ListItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ListItem, D::Error> {
        deserializer
            .deserialize_any(ReadEntries { list: false })
            .map(ListItem)
    }
}

/// Reads an outcome name or object, or a list of them if `list` is set. An untagged enum would lose the positions of
/// errors.
#[derive(Clone, Copy)]
struct ReadEntries {
    list: bool,
}

impl<'de> Visitor<'de> for ReadEntries {
    type Value = Vec<Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.list {
            f.write_str("the outcomes of a node, such as `[fail, success]`")
        } else {
            f.write_str(
                "an outcome: a word such as `fail`, or an object such as `{outcome: success, notes: done}`",
            )
        }
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Vec<Entry>, E> {
        Ok(vec![Entry::from_word(word)])
    }

    // The label of a choice may look like a boolean or a number.
    fn visit_bool<E: de::Error>(self, word: bool) -> Result<Vec<Entry>, E> {
        self.visit_str(&word.to_string())
    }

    fn visit_i64<E: de::Error>(self, word: i64) -> Result<Vec<Entry>, E> {
        self.visit_str(&word.to_string())
    }

    fn visit_u64<E: de::Error>(self, word: u64) -> Result<Vec<Entry>, E> {
        self.visit_str(&word.to_string())
    }

    fn visit_f64<E: de::Error>(self, word: f64) -> Result<Vec<Entry>, E> {
        self.visit_str(&word.to_string())
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Vec<Entry>, M::Error> {
        let object = EntryObject::deserialize(MapAccessDeserializer::new(map))?;
        Ok(vec![Entry::from_object(object)])
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Vec<Entry>, S::Error> {
        if !self.list {
            return Err(S::Error::invalid_type(Unexpected::Seq, &self));
        }
        let mut entries = Vec::new();
        while let Some(ListItem(entry)) = list.next_element()? {
            entries.extend(entry);
        }
        if entries.is_empty() {
            Err(S::Error::custom("a node gives at least one outcome"))
        } else {
            Ok(entries)
        }
    }
}

/// Parses a duration in the syntax of pipelines.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let duration = parse_duration(&text);
    let wrong = || {
        D::Error::custom(format!(
            "`{text}` is not a duration; write `250ms`, `30s`, `15m`, `2h` or `1d`"
        ))
    };
    duration.map(Some).ok_or_else(wrong)
}
