//! The outcomes of stages and branches (Attractor 5.2, rule P3).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The status with which a stage ended (Attractor 5.2, rule C4).
///
/// ```
/// use orchestra_core::Status;
/// assert_eq!(Status::from_name("partial_success"), Status::PartialSuccess);
/// assert!(Status::from_name("approved").is_success() && !Status::Retry.is_success());
/// assert_eq!(serde_json::to_string(&Status::Fail)?, r#""fail""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// The stage did its work.
    Success,
    /// The stage did part of its work; counts as success.
    PartialSuccess,
    /// The stage requests another run.
    Retry,
    /// The stage failed.
    Fail,
    /// The stage was skipped; no outcome is recorded.
    Skipped,
    /// A status of the handler's own; counts as success.
    Custom(Cow<'static, str>),
}

impl Status {
    /// Returns the name with which conditions compare.
    pub fn word(&self) -> &str {
        match self {
            Status::Success => "success",
            Status::PartialSuccess => "partial_success",
            Status::Retry => "retry",
            Status::Fail => "fail",
            Status::Skipped => "skipped",
            Status::Custom(word) => word,
        }
    }

    /// Parses a name; an unknown one is a custom status.
    ///
    /// ```
    /// use orchestra_core::Status;
    /// assert_eq!(Status::from_name("fail"), Status::Fail);
    /// assert!(Status::from_name("needs_review").is_success());
    /// ```
    pub fn from_name(word: &str) -> Status {
        match word {
            "success" => Status::Success,
            "partial_success" => Status::PartialSuccess,
            "retry" => Status::Retry,
            "fail" => Status::Fail,
            "skipped" => Status::Skipped,
            other => Status::Custom(Cow::Owned(other.to_owned())),
        }
    }

    /// Returns `true` if the status counts as a success for retries and goal gates.
    pub fn is_success(&self) -> bool {
        matches!(self, Status::Success | Status::PartialSuccess | Status::Custom(_))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Status, D::Error> {
        String::deserialize(deserializer).map(|word| Status::from_name(&word))
    }
}

/// The category of a failure, which decides whether the stage is retried (Attractor appendix D, rule Y2).
///
/// ```
/// use orchestra_core::{FailureCategory, Outcome};
/// assert_eq!(Outcome::fail("the network is down").failure_category, FailureCategory::Retryable);
/// assert_eq!(Outcome::fail_terminal("no such key").failure_category, FailureCategory::Terminal);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCategory {
    /// Another attempt may succeed.
    #[default]
    Retryable,
    /// Another attempt cannot succeed: authentication, a bad request, configuration, validation. The name `pipeline` of
    /// earlier versions is read as this category: the category decides about retries and never ends the run (rule K2).
    #[serde(alias = "pipeline")]
    Terminal,
}

/// The result of a stage: its status, and data for the run (Attractor 5.2).
///
/// ```
/// use orchestra_core::{Outcome, Status};
/// let outcome = Outcome::success().set("tests_passed", true).prefer("Ship");
/// assert_eq!(outcome.status, Status::Success);
/// assert_eq!(outcome.context_updates["tests_passed"], true);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The status with which the stage ended.
    #[serde(rename = "outcome", alias = "status")]
    pub status: Status,
    /// The label of the edge to prefer.
    #[serde(
        default,
        alias = "preferred_next_label",
        skip_serializing_if = "Option::is_none"
    )]
    pub preferred_label: Option<String>,
    /// The ids of the nodes to go to, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggested_next_ids: Vec<String>,
    /// The values to set in the context of the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context_updates: BTreeMap<String, Value>,
    /// A human-readable summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// The reason for the failure or the requested retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// The category of the failure.
    #[serde(default, skip_serializing_if = "is_retryable")]
    pub failure_category: FailureCategory,
    /// The machine-readable kind of the failure, such as `output_parse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<String>,
    /// The delay that a server requests before the next attempt, serialized as `retry_after_ms` (rule Y4).
    #[serde(
        rename = "retry_after_ms",
        default,
        with = "optional_millis",
        skip_serializing_if = "Option::is_none"
    )]
    pub retry_after: Option<Duration>,
    /// A digest of the exit code and the captured output of a command that failed, set by the engine. Two failures with
    /// the same reason are equal only if their digests are equal (rule R10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_digest: Option<NonZeroU64>,
}

fn is_retryable(category: &FailureCategory) -> bool {
    *category == FailureCategory::Retryable
}

impl Outcome {
    /// Creates an outcome with a status and nothing else.
    pub fn new(status: Status) -> Outcome {
        Outcome {
            status,
            preferred_label: None,
            suggested_next_ids: Vec::new(),
            context_updates: BTreeMap::new(),
            notes: None,
            failure_reason: None,
            failure_category: FailureCategory::Retryable,
            failure_code: None,
            retry_after: None,
            output_digest: None,
        }
    }

    /// Creates a success.
    pub fn success() -> Outcome {
        Outcome::new(Status::Success)
    }

    /// Creates a failure with its reason.
    pub fn fail(reason: impl Into<String>) -> Outcome {
        Outcome {
            failure_reason: Some(reason.into()),
            ..Outcome::new(Status::Fail)
        }
    }

    /// Creates a failure that running the stage again cannot fix, with its reason.
    pub fn fail_terminal(reason: impl Into<String>) -> Outcome {
        Outcome {
            failure_category: FailureCategory::Terminal,
            ..Outcome::fail(reason)
        }
    }

    /// Creates a request to run the stage again, with its reason.
    pub fn retry(reason: impl Into<String>) -> Outcome {
        Outcome {
            failure_reason: Some(reason.into()),
            ..Outcome::new(Status::Retry)
        }
    }

    /// Creates an outcome with a status of the handler's own.
    pub fn custom(word: impl Into<Cow<'static, str>>) -> Outcome {
        Outcome::new(Status::Custom(word.into()))
    }

    /// Sets a value in the context of the run.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<Value>) -> Outcome {
        self.context_updates.insert(key.into(), value.into());
        self
    }

    /// Prefers the edge with this label.
    #[must_use]
    pub fn prefer(mut self, label: impl Into<String>) -> Outcome {
        self.preferred_label = Some(label.into());
        self
    }

    /// Suggests a node to go to, after those already suggested.
    #[must_use]
    pub fn suggest(mut self, node: impl Into<String>) -> Outcome {
        self.suggested_next_ids.push(node.into());
        self
    }

    /// Sets a human-readable summary.
    #[must_use]
    pub fn notes(mut self, notes: impl Into<String>) -> Outcome {
        self.notes = Some(notes.into());
        self
    }

    /// Sets the machine-readable kind of the failure.
    ///
    /// ```
    /// use orchestra_core::Outcome;
    /// let outcome = Outcome::fail("the answer holds no JSON").with_code("output_parse");
    /// assert_eq!(outcome.failure_code.as_deref(), Some("output_parse"));
    /// ```
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Outcome {
        self.failure_code = Some(code.into());
        self
    }

    /// Sets the delay before the next attempt, which replaces the stage's own delay, as a server may request it (rule
    /// Y4).
    ///
    /// ```
    /// use std::time::Duration;
    /// use orchestra_core::Outcome;
    /// let outcome = Outcome::fail("too many requests").retry_after(Duration::from_secs(2));
    /// assert_eq!(serde_json::to_value(&outcome)?["retry_after_ms"], 2000);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Outcome {
        self.retry_after = Some(delay);
        self
    }
}

/// The status with which a branch of a parallel block ended (rule P3).
///
/// ```
/// use orchestra_core::BranchStatus;
/// assert!(BranchStatus::PartialSuccess.is_success() && !BranchStatus::Cancelled.is_success());
/// assert_eq!(BranchStatus::Cancelled.word(), "cancelled");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BranchStatus {
    /// The last stage of the branch succeeded.
    Success,
    /// The last stage of the branch did part of its work.
    PartialSuccess,
    /// The last stage of the branch failed, or nothing handled a failure in the branch.
    Fail,
    /// The branch was no longer needed.
    Cancelled,
}

impl BranchStatus {
    /// Returns the machine-readable name.
    pub const fn word(self) -> &'static str {
        match self {
            BranchStatus::Success => "success",
            BranchStatus::PartialSuccess => "partial_success",
            BranchStatus::Fail => "fail",
            BranchStatus::Cancelled => "cancelled",
        }
    }

    /// Returns `true` if the status counts as a success for the join policy.
    pub const fn is_success(self) -> bool {
        matches!(self, BranchStatus::Success | BranchStatus::PartialSuccess)
    }
}

/// Serialization of an optional duration as whole milliseconds.
mod optional_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration
            .map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
            .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<u64>::deserialize(deserializer).map(|millis| millis.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_failure_survives_writing_and_what_is_not_said_is_not_written() {
        let outcome = Outcome::fail("busy")
            .with_code("rate_limit")
            .retry_after(Duration::from_millis(1_500));
        let json = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), outcome);
        let plain = serde_json::to_value(Outcome::fail("busy")).unwrap();
        let keys: Vec<&String> = plain.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["failure_reason", "outcome"]);
    }
}
