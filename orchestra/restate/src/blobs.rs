//! The store of values that are too large for the state of a run, of texts, and of events.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::local::LocalFileSystem;
use object_store::path::Path as BlobPath;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutPayload};
use orchestra_engine::HostedText;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The folder of the sources of pipelines. No run can have this name.
const PIPELINES: &str = ".pipelines";

/// The number of blobs that are read at once.
const CONCURRENT_READS: usize = 8;

/// The store of the large values, texts and events of runs, which all workers of a run share.
///
/// Everything of a run is stored in a folder with its id, and the sources of all pipelines in `.pipelines`. A value is named
/// by its SHA-256, so storing it twice changes nothing.
///
/// ```
/// use orchestra_restate::Blobs;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), orchestra_restate::BlobError> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// let blobs = Blobs::in_folder(&folder.path().join("blobs"))?;
/// let name = blobs.put("nightly-7", "a long text".into()).await?;
/// assert!(name.starts_with("sha256:"));
/// assert_eq!(blobs.get("nightly-7", &name).await?, "a long text");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Blobs {
    store: Arc<dyn ObjectStore>,
}

/// An error of the store of blobs.
///
/// ```
/// use orchestra_restate::{BlobError, Blobs};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), orchestra_restate::BlobError> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// let blobs = Blobs::in_folder(folder.path())?;
/// let error = blobs.get("nightly-7", "sha256:00").await.unwrap_err();
/// assert!(matches!(error, BlobError::Missing { .. }));
/// assert!(error.to_string().starts_with("blob `sha256:00` in `nightly-7` is missing"));
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// A blob does not exist.
    #[error(
        "blob `{name}` in `{folder}` is missing; restore it from a backup, or give the worker the store that has it"
    )]
    Missing {
        /// The folder in the store: the id of a run, or `.pipelines`.
        folder: String,
        /// The name.
        name: String,
    },
    /// A blob does not have the content that its name requires.
    #[error("blob `{name}` in `{folder}` is damaged; restore it from a backup")]
    Damaged {
        /// The folder in the store: the id of a run, or `.pipelines`.
        folder: String,
        /// The name.
        name: String,
    },
    /// No store can be opened at a location.
    #[error("`{location}` cannot be the store of blobs: {reason}")]
    Location {
        /// The location.
        location: String,
        /// The reason.
        reason: String,
    },
    /// The store cannot be reached, or refuses.
    #[error("the blob store cannot be used: {0}")]
    Store(#[from] object_store::Error),
}

impl BlobError {
    /// Returns whether trying again cannot help: the blob must be restored first.
    pub fn is_lost(&self) -> bool {
        matches!(self, BlobError::Missing { .. } | BlobError::Damaged { .. })
    }
}

/// The place of a text among those of the same visit: a later one replaces an earlier one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextPlace<'a> {
    pub(crate) run: &'a str,
    pub(crate) record: &'a str,
    pub(crate) restart: u32,
    pub(crate) attempt: u32,
    /// The fencing token. No execution stores texts once the run has accepted the outcome of one with a later token.
    pub(crate) token: u64,
}

impl Blobs {
    /// Opens a store in a folder, which all workers must share. Creates the folder if it does not exist. What is stored
    /// is durable.
    ///
    /// # Errors
    /// The folder cannot be created or read.
    pub fn in_folder(folder: &Path) -> Result<Blobs, BlobError> {
        let unusable = |source: std::io::Error| {
            BlobError::Store(object_store::Error::Generic {
                store: "local folder",
                source: Box::new(source),
            })
        };
        std::fs::create_dir_all(folder).map_err(unusable)?;
        let store = LocalFileSystem::new_with_prefix(folder)?.with_fsync(true);
        Ok(Blobs::in_store(Arc::new(store)))
    }

    /// Uses an object store, such as a bucket.
    pub fn in_store(store: Arc<dyn ObjectStore>) -> Blobs {
        Blobs { store }
    }

    /// Stores a value of a run, and returns its name.
    ///
    /// # Errors
    /// The store cannot be reached, or refuses.
    pub async fn put(&self, run: &str, value: Bytes) -> Result<String, BlobError> {
        let name = name_of(&value);
        self.store
            .put(&value_path(run, &name), PutPayload::from_bytes(value))
            .await?;
        Ok(name)
    }

    /// Returns a value of a run.
    ///
    /// # Errors
    /// The value does not exist, is damaged, or the store cannot be reached.
    pub async fn get(&self, run: &str, name: &str) -> Result<Bytes, BlobError> {
        self.read(run, &value_path(run, name), name).await
    }

    async fn read(&self, folder: &str, path: &BlobPath, name: &str) -> Result<Bytes, BlobError> {
        let (folder, name) = (folder.to_owned(), name.to_owned());
        let found = match self.store.get(path).await {
            Ok(found) => found.bytes().await?,
            Err(object_store::Error::NotFound { .. }) => return Err(BlobError::Missing { folder, name }),
            Err(error) => return Err(error.into()),
        };
        match name_of(&found) == name {
            true => Ok(found),
            false => Err(BlobError::Damaged { folder, name }),
        }
    }

    /// Stores the sources of a pipeline under their name, unless they are there.
    pub(crate) async fn put_sources(&self, name: &str, sources: &[u8]) -> Result<(), BlobError> {
        let path = sources_path(name);
        match self.store.head(&path).await {
            Ok(_) => return Ok(()),
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.store.put(&path, PutPayload::from(sources.to_vec())).await?;
        Ok(())
    }

    /// Returns the sources of a pipeline.
    pub(crate) async fn sources(&self, name: &str) -> Result<Bytes, BlobError> {
        self.read(PIPELINES, &sources_path(name), name).await
    }

    /// Stores what a workspace keeps of a run, unless something is stored. Returns what was stored before.
    pub(crate) async fn keep_workspace(&self, run: &str, kept: &Value) -> Result<Option<Value>, BlobError> {
        let options = PutMode::Create.into();
        let payload = PutPayload::from(kept.to_string().into_bytes());
        match self.store.put_opts(&workspace_path(run), payload, options).await {
            Ok(_) => Ok(None),
            Err(object_store::Error::AlreadyExists { .. }) => self.workspace(run).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Returns what the workspace of a run keeps.
    pub(crate) async fn workspace(&self, run: &str) -> Result<Option<Value>, BlobError> {
        let path = workspace_path(run);
        let stored = match self.store.get(&path).await {
            Ok(found) => found.bytes().await?,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let read = serde_json::from_slice(&stored);
        read.map(Some).map_err(|_| BlobError::Damaged {
            folder: run.to_owned(),
            name: path.to_string(),
        })
    }

    /// Removes a value of a run, if it exists.
    pub(crate) async fn remove(&self, run: &str, name: &str) -> Result<(), BlobError> {
        match self.store.delete(&value_path(run, name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores the texts of an attempt.
    pub(crate) async fn put_texts(
        &self,
        place: TextPlace<'_>,
        texts: &[HostedText],
    ) -> Result<(), BlobError> {
        let stored = serde_json::to_vec(texts).map_err(|error| unstorable(error.into()))?;
        let TextPlace {
            run,
            record,
            restart,
            attempt,
            token,
        } = place;
        // Names in their order of age.
        let file = format!("{restart:06}-{attempt:06}-{token:06}.json");
        let path = texts_path(run, record).join(file);
        self.store.put(&path, PutPayload::from(stored)).await?;
        Ok(())
    }

    /// Returns the texts that a visit stored. Of each file, the latest one.
    pub(crate) async fn texts(&self, run: &str, record: &str) -> Result<Vec<HostedText>, BlobError> {
        let listed: Vec<_> = self
            .store
            .list(Some(&texts_path(run, record)))
            .try_collect()
            .await?;
        let mut paths: Vec<BlobPath> = listed.into_iter().map(|found| found.location).collect();
        paths.sort();
        let mut texts: Vec<HostedText> = Vec::new();
        for path in paths {
            for text in self.read_texts(run, &path).await? {
                texts.retain(|other| other.file != text.file);
                texts.push(text);
            }
        }
        Ok(texts)
    }

    /// Returns all texts that a run stored, with the number of restarts before. A later text for the same file of a visit
    /// comes after an earlier one.
    pub(crate) async fn all_texts(&self, run: &str) -> Result<Vec<(u32, HostedText)>, BlobError> {
        let listed = self.store.list(Some(&BlobPath::from_iter([run, "texts"])));
        let listed: Vec<_> = listed.try_collect().await?;
        let mut paths: Vec<BlobPath> = listed.into_iter().map(|found| found.location).collect();
        paths.sort();
        let read = stream::iter(paths).map(async |path| {
            let texts = self.read_texts(run, &path).await?;
            let restart = path
                .filename()
                .and_then(|name| name.split('-').next()?.parse().ok());
            let restart: u32 = restart.unwrap_or_default();
            Ok::<_, BlobError>(texts.into_iter().map(move |text| (restart, text)))
        });
        let read: Vec<_> = read.buffered(CONCURRENT_READS).try_collect().await?;
        Ok(read.into_iter().flatten().collect())
    }

    async fn read_texts(&self, run: &str, path: &BlobPath) -> Result<Vec<HostedText>, BlobError> {
        let stored = match self.store.get(path).await {
            Ok(found) => found.bytes().await?,
            Err(object_store::Error::NotFound { .. }) => {
                return Err(BlobError::Missing {
                    folder: run.to_owned(),
                    name: path.to_string(),
                });
            }
            Err(error) => return Err(error.into()),
        };
        serde_json::from_slice(&stored).map_err(|_| BlobError::Damaged {
            folder: run.to_owned(),
            name: path.to_string(),
        })
    }
}

fn unstorable(source: Box<dyn std::error::Error + Send + Sync>) -> BlobError {
    BlobError::Store(object_store::Error::Generic {
        store: "texts",
        source,
    })
}

fn value_path(run: &str, name: &str) -> BlobPath {
    BlobPath::from_iter([run, "values", digest(name)])
}

fn sources_path(name: &str) -> BlobPath {
    BlobPath::from_iter([PIPELINES, digest(name)])
}

fn workspace_path(run: &str) -> BlobPath {
    BlobPath::from_iter([run, "workspace.json"])
}

fn digest(name: &str) -> &str {
    name.strip_prefix("sha256:").unwrap_or(name)
}

fn texts_path(run: &str, record: &str) -> BlobPath {
    BlobPath::from_iter([run, "texts", record])
}

/// Returns the name of a value.
pub(crate) fn name_of(value: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut name = "sha256:".to_owned();
    for byte in Sha256::digest(value) {
        let _ = write!(name, "{byte:02x}");
    }
    name
}
