//! The names of the files of a run folder.

/// The description of the run.
pub(crate) const MANIFEST: &str = "manifest.json";
/// The latest state of the run.
pub(crate) const CHECKPOINT: &str = "checkpoint.json";
/// The records of the run.
pub(crate) const JOURNAL: &str = "journal.jsonl";
/// The folder of the artifacts, and their index.
pub(crate) const ARTIFACTS: &str = "artifacts";
pub(crate) const ARTIFACT_INDEX: &str = "index.jsonl";
/// The events of the run.
pub(crate) const EVENTS: &str = "events.jsonl";
