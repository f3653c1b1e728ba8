//! The artifacts of a run.

use std::sync::Arc;

use crate::artifacts::{self, ArtifactError, ArtifactOptions, ArtifactStore};
use crate::run::state::Run;

impl Run {
    /// Returns the artifacts, which are read from the run folder on first use (Attractor 5.5).
    pub(crate) fn artifacts(&self) -> Result<ArtifactStore, ArtifactError> {
        if let Some(artifacts) = self.artifacts.get() {
            return Ok(artifacts.clone());
        }
        let options = ArtifactOptions {
            threshold: self.settings.artifact_threshold,
            files: self.settings.files.clone(),
            durability: self.settings.durability,
            clock: self.settings.clock.clone(),
            redactor: self.settings.redactor.clone(),
            ..ArtifactOptions::default()
        };
        let opened = match self.store.clone() {
            Some(store) => {
                let folder = store.folder().to_owned();
                let guard = Arc::new(move || store.check_ownership());
                ArtifactStore::kept_in(&folder, ArtifactOptions { guard, ..options })?
            }
            None => ArtifactStore::kept_in_memory(options),
        };
        Ok(self.artifacts.get_or_init(|| opened).clone())
    }

    /// Returns the number of changes to the artifacts. Returns `None` if nobody has used them.
    pub(crate) fn artifact_changes(&self) -> Option<u64> {
        self.artifacts.get().map(ArtifactStore::changes)
    }

    /// Returns the number of artifacts of the run.
    pub(crate) fn artifact_count(&self) -> u64 {
        let stored = || self.run_dir().is_some_and(artifacts::are_kept_in);
        if self.artifacts.get().is_none() && !stored() {
            return 0;
        }
        self.artifacts().map_or_else(
            |error| {
                tracing::warn!("the artifacts cannot be counted: {error}");
                0
            },
            |artifacts| artifacts.len() as u64,
        )
    }

    /// Closes the artifact store.
    pub(crate) fn close_artifacts(&self) {
        if let Some(Err(error)) = self.artifacts.get().map(ArtifactStore::close) {
            tracing::warn!("the index of the artifacts is not closed: {error}");
        }
    }

    /// Discards the changes of an interrupted attempt to the artifacts, because the attempt is repeated (rule D1).
    pub(crate) fn discard_attempt(&self, attempt_key: &str) {
        if !self.run_dir().is_some_and(artifacts::are_kept_in) {
            return;
        }
        let discarded = self
            .artifacts()
            .and_then(|artifacts| artifacts.repeated(attempt_key));
        if let Err(error) = discarded {
            self.fail(error.into());
        }
    }
}
