//! The pipelines of a worker, and the versions of them that runs began with.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use orchestra_engine::{AttemptHost, Engine, Entry, PinnedPipeline, Refusals, SharedPipeline};
use orchestra_graph::{NodeIndex, did_you_mean};

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
    /// Versions that the program does not contain, and child pipelines.
    others: Mutex<HashMap<Place, Arc<Version>>>,
}

/// The place of a pipeline among those of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// The name of the pipeline.
    pub(crate) name: String,
    /// The blob with the sources with which the run began.
    pub(crate) sources: String,
    /// The sub-pipeline stages that lead to a child pipeline.
    pub(crate) stages: Vec<u32>,
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
    #[error("{0}")]
    Lacks(String),
    #[error(transparent)]
    Blob(#[from] BlobError),
}

impl NoVersion {
    /// Returns whether trying again may succeed.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self, NoVersion::Blob(error) if !error.is_lost())
    }
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

    /// Returns the version with which a run began.
    pub(crate) async fn version(&self, place: &Place, blobs: &Blobs) -> Result<Arc<Version>, NoVersion> {
        let known = self.known(&place.name)?;
        if known.current.name == place.sources && place.stages.is_empty() {
            return Ok(known.current.clone());
        }
        let found = self
            .others
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(place)
            .cloned();
        if let Some(found) = found {
            return Ok(found);
        }
        let version = if place.stages.is_empty() {
            self.pinned(known, place, blobs).await?
        } else {
            self.child(place, blobs).await?
        };
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(others.entry(place.clone()).or_insert(version).clone())
    }

    /// Loads a version that the program does not contain as its current one.
    async fn pinned(&self, known: &Known, place: &Place, blobs: &Blobs) -> Result<Arc<Version>, NoVersion> {
        let invalid = || NoVersion::Invalid {
            name: place.name.clone(),
        };
        let stored = blobs.sources(&place.sources).await?;
        let pinned: PinnedPipeline = serde_json::from_slice(&stored).map_err(|_| invalid())?;
        let pipeline = known.entry.version(&pinned).ok_or_else(invalid)?;
        let host = known.entry.host(&known.engine, pipeline.clone());
        let host = host.map(Arc::new).map_err(|refusals| refusals.to_string());
        Ok(Arc::new(Version {
            name: place.sources.clone(),
            sources: stored.to_vec(),
            ..Version::new(pipeline, host)
        }))
    }

    /// Returns the reason for which runs of a version cannot go on here; `None` if they can.
    ///
    /// # Errors
    /// The store of blobs cannot be reached.
    pub(crate) async fn obstacle(&self, place: &Place, blobs: &Blobs) -> Result<Option<String>, BlobError> {
        match self.version(place, blobs).await {
            Ok(version) => Ok(version.host.as_ref().err().cloned()),
            Err(NoVersion::Blob(error)) if !error.is_lost() => Err(error),
            Err(error) => Ok(Some(error.to_string())),
        }
    }

    /// Returns the pipeline that a run followed before it was moved, or is to be moved, to another one. It is returned also
    /// if it is not valid for this program, as long as its source can be understood. Nothing must execute it.
    pub(crate) async fn unchecked(&self, place: &Place, blobs: &Blobs) -> Result<SharedPipeline, NoVersion> {
        match self.version(place, blobs).await {
            Ok(version) => return Ok(version.pipeline.clone()),
            Err(NoVersion::Invalid { .. }) => {}
            Err(error) => return Err(error),
        }
        let invalid = || NoVersion::Invalid {
            name: place.name.clone(),
        };
        let stored = blobs.sources(&place.sources).await?;
        let pinned: PinnedPipeline = serde_json::from_slice(&stored).map_err(|_| invalid())?;
        let known = self.known(&place.name)?;
        known.entry.unchecked_version(&pinned).ok_or_else(invalid)
    }

    /// Finds the pipeline of a child run.
    async fn child(&self, place: &Place, blobs: &Blobs) -> Result<Arc<Version>, NoVersion> {
        let mut above = place.clone();
        let stage = above.stages.pop().unwrap_or_default();
        let above = Box::pin(self.version(&above, blobs)).await?;
        let host = above
            .host
            .as_ref()
            .map_err(|reason| NoVersion::Lacks(reason.clone()))?;
        let child = host.child_host(NodeIndex(stage));
        let child = child.map_err(|outcome| NoVersion::Lacks(outcome.failure_reason.unwrap_or_default()))?;
        Ok(Arc::new(Version::new(
            child.pipeline().clone(),
            Ok(Arc::new(child)),
        )))
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
