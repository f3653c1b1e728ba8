//! What a run is (Attractor 5.6, rule D2).

use std::fmt;
use std::path::Path;
use std::time::Duration;

use orchestra_core::Context;
use orchestra_graph::Pipeline;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Durability, StoreError, sealed};
use crate::clock::Timestamp;
use crate::id::fingerprint;

/// The form in which manifests are written.
pub(crate) const SCHEMA: &str = "orchestra.manifest/1";
/// The version of what journals say and of how it is acted on.
pub(crate) const PROTOCOL: u32 = 1;

/// What a run is: `manifest.json` (Attractor 5.6, rule D2). It never changes.
///
/// ```
/// use orchestra_engine::{Engine, RunFolder};
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let text = "digraph hello { goal=greet; start -> exit }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let folder = place.path().join("run");
/// let start = Engine::builder().build()?.start_loaded(pipeline, ()).run_dir(&folder);
/// start.await?.wait().await?;
/// let manifest = RunFolder::open(&folder)?.manifest().clone();
/// assert_eq!((manifest.name.as_str(), manifest.goal.as_str()), ("hello", "greet"));
/// assert_eq!(manifest.pipeline.source, "digraph hello { goal=greet; start -> exit }");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// The form of the file.
    pub schema: String,
    /// The run.
    pub run: String,
    /// The name of the pipeline.
    pub name: String,
    /// Its goal; may be empty.
    pub goal: String,
    /// The pipeline's file.
    pub file: String,
    /// When the run began.
    pub started: Timestamp,
    /// The seed of every chance in the run.
    pub seed: u64,
    /// Whether no stage is really run.
    pub simulated: bool,
    /// The version of the engine.
    pub engine: String,
    /// The version of what the journal says and of how it is acted on.
    pub protocol: u32,
    /// What the run's records survive.
    pub durability: Durability,
    /// How long the run may take; written as `max_time_ms`.
    #[serde(
        rename = "max_time_ms",
        with = "limit",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub max_time: Option<Duration>,
    /// The run and the checkpoint whose state it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_from: Option<ReplayedFrom>,
    /// What the workspace of the run needs to find its files again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Value>,
    /// The named values at its beginning.
    pub params: Context,
    /// What a simulated run's stages do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Value>,
    /// The pipeline as it was at the beginning.
    pub pipeline: PinnedPipeline,
    /// The pipelines that its stages run, each once, and the files that hold prompts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<PinnedPipeline>,
}

/// A pipeline as it was when a run began (rule D6).
///
/// ```
/// use orchestra_engine::PinnedPipeline;
/// # use orchestra_graph::{Source, load};
/// let pin = |text: &str| {
///     let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
///     PinnedPipeline::of(&pipeline)
/// };
/// let (one, other) = (pin("digraph { start -> exit }"), pin("digraph { start->exit // done\n }"));
/// assert_eq!(one.source, "digraph { start -> exit }");
/// assert!(one.hash.starts_with("sha256:"));
/// assert_eq!(one.hash, other.hash, "a comment changes nothing");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PinnedPipeline {
    /// Its file.
    pub file: String,
    /// The hash of what counts in it, [`Pipeline::canonical`].
    pub hash: String,
    /// The text of the file.
    pub source: String,
}

/// Where the state came from with which a run began (rule D4).
///
/// ```
/// use orchestra_engine::ReplayedFrom;
/// let from: ReplayedFrom = serde_json::from_str(r#"{"run":"nightly","checkpoint":"cp_000012"}"#)?;
/// assert_eq!((from.run.as_str(), from.checkpoint.as_str()), ("nightly", "cp_000012"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayedFrom {
    /// The run.
    pub run: String,
    /// Its checkpoint, such as `cp_000012`.
    pub checkpoint: String,
}

impl fmt::Display for ReplayedFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of run {}", self.checkpoint, self.run)
    }
}

impl PinnedPipeline {
    /// Pins a pipeline.
    pub fn of(pipeline: &Pipeline) -> PinnedPipeline {
        PinnedPipeline {
            file: pipeline.file.to_string(),
            hash: hash_of(&pipeline.canonical()),
            source: pipeline.source.to_string(),
        }
    }

    /// Pins a file that a pipeline takes a text from.
    pub(crate) fn of_text(file: String, text: &str) -> PinnedPipeline {
        PinnedPipeline {
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
    /// What the other files of the run name it by.
    pub(crate) fn belonging(&self) -> RunIdentity {
        RunIdentity {
            run: self.run.clone(),
            number: format!("{:016x}", self.identity()),
            pipeline: self.pipeline.hash.clone(),
        }
    }

    /// A number that tells the run from others, even of its name; it stays when the pipeline changes.
    pub(super) fn identity(&self) -> u64 {
        let numbers = [self.started.as_millis().to_le_bytes(), self.seed.to_le_bytes()];
        fingerprint(&[self.run.as_bytes(), numbers.as_flattened()])
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// It is damaged, or of a form or protocol that this version does not know.
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

/// Which run a journal or a checkpoint belongs to, and the pipeline that it was written with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunIdentity {
    /// The name of the run.
    pub(crate) run: String,
    /// A number that tells it from other runs of that name.
    pub(crate) number: String,
    /// The hash of the pipeline.
    pub(crate) pipeline: String,
}

impl RunIdentity {
    /// Returns whether both name the same run, whatever its pipeline was at the time.
    pub(crate) fn is_of(&self, other: &RunIdentity) -> bool {
        (&self.run, &self.number) == (&other.run, &other.number)
    }
}

/// Whole milliseconds, or nothing.
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
