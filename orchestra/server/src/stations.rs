//! The database of station workflows, which is opened when it is first needed.

use std::fs::Metadata;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use orchestra_stations::{StationError, StationStore};

/// The database of a project.
pub(crate) struct Stations {
    path: Option<PathBuf>,
    open: Mutex<Option<(FileId, Arc<StationStore>)>>,
}

/// The number of a file, which a file that is restored from a backup does not share.
type FileId = (u64, u64);

impl Stations {
    /// Creates the handle of a database. `None` if the project has no station workflows.
    pub(crate) fn new(path: Option<PathBuf>) -> Stations {
        Stations {
            path,
            open: Mutex::default(),
        }
    }

    /// Returns whether the project can have station workflows.
    pub(crate) fn are_offered(&self) -> bool {
        self.path.is_some()
    }

    /// Returns the database. `None` if there is none yet.
    pub(crate) fn existing(&self) -> Result<Option<Arc<StationStore>>, StationError> {
        let present = self.path.as_ref().and_then(|path| std::fs::metadata(path).ok());
        match present.filter(Metadata::is_file) {
            Some(metadata) => self.open(Some(file_id(&metadata))),
            None => Ok(None),
        }
    }

    /// Returns the database, which is created if it is missing. `None` if the project has no station workflows.
    pub(crate) fn created(&self) -> Result<Option<Arc<StationStore>>, StationError> {
        match self.existing()? {
            Some(store) => Ok(Some(store)),
            None => self.open(None),
        }
    }

    /// Opens the database, unless this very file is open.
    fn open(&self, file: Option<FileId>) -> Result<Option<Arc<StationStore>>, StationError> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some((known, store)), Some(file)) = (&*open, file)
            && *known == file
        {
            return Ok(Some(store.clone()));
        }
        let store = Arc::new(StationStore::open(path)?);
        *open = std::fs::metadata(path)
            .ok()
            .map(|metadata| (file_id(&metadata), store.clone()));
        Ok(Some(store))
    }
}

#[cfg(unix)]
fn file_id(metadata: &Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn file_id(_: &Metadata) -> FileId {
    FileId::default()
}
