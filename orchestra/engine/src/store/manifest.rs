//! The manifest of a run (Attractor 5.6, rule D2).

use std::fmt;
use std::path::Path;
use std::time::Duration;

use orchestra_core::{Budget, Context};
use orchestra_graph::Pipeline;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Durability, StoreError, sealed};
use crate::clock::Timestamp;
use crate::id::fingerprint;

/// The schema of manifest files.
pub(crate) const SCHEMA: &str = "orchestra.manifest/1";
/// The version of the journal's content and of its interpretation.
pub(crate) const PROTOCOL: u32 = 1;

/// The description of a run: `manifest.json` (Attractor 5.6, rule D2). A resume replaces it if a changed pipeline is
/// accepted or the workspace returns new data.
///
/// ```
/// use orchestra_engine::{Engine, RunFolder};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let text = "digraph hello { goal=greet; start -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let folder = directory.path().join("run");
/// let start = Engine::builder().build()?.start(pipeline, ()).run_dir(&folder);
/// start.await?.wait().await?;
/// let manifest = RunFolder::open(&folder)?.manifest().clone();
/// assert_eq!((manifest.name.as_str(), manifest.goal.as_str()), ("hello", "greet"));
/// assert_eq!(manifest.pipeline.source, "digraph hello { goal=greet; start -> exit }");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// The schema of the file.
    pub schema: String,
    /// The id of the run.
    pub run: String,
    /// The name of the pipeline.
    pub name: String,
    /// The goal of the pipeline; may be empty.
    pub goal: String,
    /// The file of the pipeline.
    pub file: String,
    /// The time at which the run started.
    pub started: Timestamp,
    /// The seed of all random decisions of the run.
    pub seed: u64,
    /// `true` if stages are simulated.
    pub simulated: bool,
    /// The version of the engine.
    pub engine: String,
    /// The version of the journal's content and of its interpretation.
    pub protocol: u32,
    /// The kind of crash that the records survive.
    pub durability: Durability,
    /// The time limit of the run; serialized as `max_time_ms`.
    #[serde(
        rename = "max_time_ms",
        with = "limit",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub max_time: Option<Duration>,
    /// The budget that was requested at the start. It applies to each resume and replay that requests no other one.
    #[serde(default, skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
    /// The run and the checkpoint whose state the run started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_from: Option<ReplayedFrom>,
    /// The address of the server that executes the run, if the folder is a copy; see
    /// [`ExportedRun`](crate::ExportedRun).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exported_from: Option<String>,
    /// The data that the workspace of the run needs to find its files again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Value>,
    /// The initial values of the context.
    pub params: Context,
    /// The script of a simulated run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Value>,
    /// The pipeline at the start of the run.
    pub pipeline: PinnedSource,
    /// The child pipelines, without duplicates, and the files that contain prompts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<PinnedSource>,
}

/// A pipeline as it was when a run started (rule D6).
///
/// ```
/// use orchestra_engine::PinnedSource;
/// # use orchestra_graph::{Source, load};
/// let pin = |text: &str| {
///     let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
///     PinnedSource::from_pipeline(&pipeline)
/// };
/// let (one, other) = (pin("digraph { start -> exit }"), pin("digraph { start->exit // done\n }"));
/// assert_eq!(one.source, "digraph { start -> exit }");
/// assert!(one.hash.starts_with("sha256:"));
/// assert_eq!(one.hash, other.hash, "a comment changes nothing");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PinnedSource {
    /// The file.
    pub file: String,
    /// The hash of the relevant content, [`Pipeline::canonical`].
    pub hash: String,
    /// The text of the file.
    pub source: String,
}

/// The origin of the state with which a run started (rule D4).
///
/// ```
/// use orchestra_engine::ReplayedFrom;
/// let from: ReplayedFrom = serde_json::from_str(r#"{"run":"nightly","checkpoint":"cp_000012"}"#)?;
/// assert_eq!((from.run.as_str(), from.checkpoint.as_str()), ("nightly", "cp_000012"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayedFrom {
    /// The id of the run.
    pub run: String,
    /// The name of the checkpoint, such as `cp_000012`.
    pub checkpoint: String,
}

impl fmt::Display for ReplayedFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of run {}", self.checkpoint, self.run)
    }
}

impl PinnedSource {
    /// Pins a pipeline.
    pub fn from_pipeline(pipeline: &Pipeline) -> PinnedSource {
        PinnedSource {
            file: pipeline.file.to_string(),
            hash: hash_of(&pipeline.canonical()),
            source: pipeline.source.to_string(),
        }
    }

    /// Pins a file that a pipeline reads a text from.
    pub(crate) fn of_text(file: String, text: &str) -> PinnedSource {
        PinnedSource {
            file,
            hash: hash_of(text),
            source: text.to_owned(),
        }
    }
}

fn hash_of(text: &str) -> String {
    use std::fmt::Write as _;
    let mut hash = "sha256:".to_owned();
    for byte in Sha256::digest(text.as_bytes()) {
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

impl Manifest {
    /// Returns the identity that the other files of the run refer to.
    pub(crate) fn belonging(&self) -> RunIdentity {
        RunIdentity {
            run: self.run.clone(),
            number: format!("{:016x}", self.identity()),
            pipeline: self.pipeline.hash.clone(),
        }
    }

    /// Returns a number that distinguishes the run from others, even of the same name. It does not depend on the
    /// pipeline.
    pub(super) fn identity(&self) -> u64 {
        let numbers = [self.started.as_millis().to_le_bytes(), self.seed.to_le_bytes()];
        fingerprint(&[self.run.as_bytes(), numbers.as_flattened()])
    }

    /// Parses a manifest.
    ///
    /// # Errors
    /// Fails if it is damaged or has an unknown schema or protocol.
    pub(crate) fn read(path: &Path, text: &[u8]) -> Result<Manifest, StoreError> {
        let manifest: Manifest = sealed::unseal(path, text, SCHEMA, false)?;
        match manifest.protocol {
            PROTOCOL => Ok(manifest),
            other => Err(StoreError::Version {
                path: path.to_owned(),
                found: format!("protocol {other}"),
                supported: "protocol 1",
            }),
        }
    }
}

/// The run that a journal or a checkpoint belongs to, and the pipeline that it was written with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunIdentity {
    /// The name of the run.
    pub(crate) run: String,
    /// A number that distinguishes it from other runs of that name.
    pub(crate) number: String,
    /// The hash of the pipeline.
    pub(crate) pipeline: String,
}

impl RunIdentity {
    /// Returns whether both identify the same run, whatever its pipeline was at the time.
    pub(crate) fn is_of(&self, other: &RunIdentity) -> bool {
        (&self.run, &self.number) == (&other.run, &other.number)
    }
}

/// An optional duration in whole milliseconds.
mod limit {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        limit: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let millis = |limit: Duration| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        limit.map(millis).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
