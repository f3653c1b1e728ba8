//! The pipelines of a worker, and the versions of them that runs began with.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use orchestra_engine::{AttemptHost, Engine, Entry, PinnedPipeline, Refusals, SharedPipeline};
use orchestra_graph::did_you_mean;

use crate::blobs::{BlobError, Blobs, name_of};

/// A pipeline with the engine that executes its attempts.
struct Known {
    entry: Entry,
    engine: Engine,
    /// The version of the program.
    current: Arc<Version>,
}

/// A version of a pipeline.
pub(crate) struct Version {
    pub(crate) pipeline: SharedPipeline,
    /// The sources of the version, as a blob.
    pub(crate) sources: Vec<u8>,
    /// The name of that blob.
    pub(crate) name: String,
    /// The host of its attempts, or what it lacks.
    pub(crate) host: Result<Arc<AttemptHost>, String>,
}

/// The pipelines of a worker.
#[derive(Default)]
pub(crate) struct Hosts {
    known: BTreeMap<String, Known>,
    /// Versions that the program does not contain, by the names of pipelines and blobs.
    others: Mutex<HashMap<(String, String), Arc<Version>>>,
}

/// The reason for which a worker does not have a version.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoVersion {
    #[error("no pipeline `{name}` is known{near}")]
    Unknown { name: String, near: String },
    #[error(
        "the source with which the run began is not valid for this version of pipeline `{name}`; run a worker for which it is"
    )]
    Invalid { name: String },
    #[error(transparent)]
    Blob(#[from] BlobError),
}

impl Hosts {
    /// Adds a pipeline, with the checks of a start.
    pub(crate) fn add(&mut self, entry: Entry, engine: Engine) -> Result<(), Refusals> {
        let pipeline = entry.pipeline().clone();
        let host = entry.host(&engine, pipeline.clone())?;
        let current = Arc::new(Version::new(pipeline, Ok(Arc::new(host))));
        let name = entry.name().to_owned();
        let known = Known {
            entry,
            engine,
            current,
        };
        self.known.insert(name, known);
        Ok(())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.known.keys().map(String::as_str)
    }

    /// Returns the version of the program.
    pub(crate) fn current(&self, name: &str) -> Result<&Arc<Version>, NoVersion> {
        self.known(name).map(|known| &known.current)
    }

    fn known(&self, name: &str) -> Result<&Known, NoVersion> {
        self.known.get(name).ok_or_else(|| {
            let near = did_you_mean(name, self.names());
            NoVersion::Unknown {
                name: name.to_owned(),
                near: near.map_or_else(String::new, |near| format!("; did you mean `{near}`?")),
            }
        })
    }

    /// Returns the version with which a run began, whose sources are in a blob of the run.
    pub(crate) async fn version(
        &self,
        name: &str,
        sources: &str,
        run: &str,
        blobs: &Blobs,
    ) -> Result<Arc<Version>, NoVersion> {
        let known = self.known(name)?;
        if known.current.name == sources {
            return Ok(known.current.clone());
        }
        let key = (name.to_owned(), sources.to_owned());
        let found = self
            .others
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        if let Some(found) = found {
            return Ok(found);
        }
        let invalid = || NoVersion::Invalid {
            name: name.to_owned(),
        };
        let stored = blobs.get(run, sources).await?;
        let pinned: PinnedPipeline = serde_json::from_slice(&stored).map_err(|_| invalid())?;
        let pipeline = known.entry.version(&pinned).ok_or_else(invalid)?;
        let host = known.entry.host(&known.engine, pipeline.clone());
        let host = host.map(Arc::new).map_err(|refusals| refusals.to_string());
        let version = Arc::new(Version {
            name: sources.to_owned(),
            sources: stored.to_vec(),
            ..Version::new(pipeline, host)
        });
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(others.entry(key).or_insert(version).clone())
    }
}

impl Version {
    fn new(pipeline: SharedPipeline, host: Result<Arc<AttemptHost>, String>) -> Version {
        let sources = serde_json::to_vec(&PinnedPipeline::from_pipeline(&pipeline)).unwrap_or_default();
        Version {
            pipeline,
            name: name_of(&sources),
            sources,
            host,
        }
    }

    /// Returns the hash of the relevant content of the pipeline.
    pub(crate) fn hash(&self) -> String {
        PinnedPipeline::from_pipeline(&self.pipeline).pipeline.hash
    }
}
