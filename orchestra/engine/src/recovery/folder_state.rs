//! The contents of a run folder, as a recovery reads them.

use std::path::Path;
use std::sync::Arc;

use orchestra_core::RunFailure;
use serde_json::value::RawValue;

use crate::clock::Clock;
use crate::driver::recovery::AlreadyEmitted;
use crate::gates::deadline;
use crate::journal::records::{CheckpointState, Entry, Record};
use crate::store::{JOURNAL, MANIFEST, Manifest, Opened, RunStore, StoreError, TemporaryFolder};

/// The contents of a run folder, with everything that a driver needs of it.
pub(crate) struct FolderState {
    pub(crate) store: Arc<dyn RunStore>,
    pub(crate) manifest: Manifest,
    /// The state before the records; `None` for the beginning of the run.
    pub(crate) base: Option<CheckpointState>,
    /// The failure of the run in that state.
    pub(crate) failure: Option<RunFailure>,
    pub(crate) records: Vec<(u64, Record)>,
    /// The number of the last record before these.
    pub(crate) applied: u64,
    pub(crate) repaired: Vec<String>,
    pub(crate) events: u64,
    /// The part of the records whose events were emitted before.
    pub(crate) emitted: AlreadyEmitted,
    /// The number of changes to the artifacts.
    pub(crate) artifacts: u64,
    /// `true` if the last event is the end of the run.
    pub(crate) end_emitted: bool,
    pub(crate) fencing_token: u64,
    /// `true` if `base` is a state that the journal has lost.
    restored: bool,
}

impl FolderState {
    /// Reads the contents of a run folder. If the journal lost the latest state, writes the state to it.
    pub(crate) fn read(opened: Opened, clock: &dyn Clock) -> Result<FolderState, StoreError> {
        let Opened {
            store,
            manifest,
            checkpoint,
            records: scan,
            repaired,
            events,
            end_emitted,
            fencing_token,
            restored,
        } = opened;
        let path = store.folder().to_owned();
        let store = Arc::new(store);
        let mut read = FolderState {
            store: store.clone(),
            manifest,
            base: None,
            failure: None,
            records: Vec::with_capacity(scan.records.len()),
            applied: 0,
            repaired,
            events,
            emitted: AlreadyEmitted::default(),
            artifacts: 0,
            end_emitted,
            fencing_token,
            restored,
        };
        let (mut first, mut certain) = (0, None);
        if let Some(checkpoint) = checkpoint {
            first = checkpoint.journal.records;
            read.applied = first.saturating_sub(1);
            read.failure = checkpoint.failure;
            certain = checkpoint.identity.map(|identity| identity.pipeline);
            let state = checkpoint.state.as_deref().map_or("null", RawValue::get);
            let state = serde_json::from_str(state);
            read.base = Some(state.map_err(|error| StoreError::damaged_state(&path, &error))?);
        }
        for (number, record) in (first..).zip(scan.iter()) {
            let record = parsed(&path, number, record)?;
            read.artifacts = read.artifacts.max(record.artifacts);
            read.records.push((number, record));
        }
        read.check_pipeline(certain)?;
        read.begin_behind_change();
        // The events of the records before such a record were emitted before it was written.
        let is_behind = |(_, record): &(u64, Record)| record.unapplied == 0 && record.events <= events;
        if let Some(at) = read.records.iter().rposition(is_behind) {
            let behind = read.records.get(at).map_or(0, |(_, record)| record.events);
            read.emitted = AlreadyEmitted {
                records: at,
                events: store.caused_behind(behind)?,
            };
        }
        if read.restored {
            read.restore(clock)?;
        }
        Ok(read)
    }

    /// Creates the beginning of a run that does not exist yet. Whatever is written to it is temporary.
    pub(crate) fn rehearsed(
        manifest: Manifest,
        records: Vec<(u64, Record)>,
    ) -> Result<FolderState, StoreError> {
        let store = Arc::new(TemporaryFolder::create(&manifest.run)?);
        let mut read = FolderState {
            store,
            manifest,
            base: None,
            failure: None,
            records,
            applied: 0,
            repaired: Vec::new(),
            events: 0,
            emitted: AlreadyEmitted::default(),
            artifacts: 0,
            end_emitted: false,
            fencing_token: 1,
            restored: false,
        };
        read.begin_behind_change();
        Ok(read)
    }

    /// Replaces the records before the last changed or restored state by that state. A change does not count if the
    /// manifest still names the pipeline before it: the process ended before the change was accepted.
    fn begin_behind_change(&mut self) {
        let pinned = &self.manifest.pipeline.hash;
        let is_changed = |(_, record): &(u64, Record)| match &record.entry {
            Entry::Changed { pipeline, .. } => pipeline.hash != *pinned,
            entry => matches!(entry, Entry::Restored { .. }),
        };
        let Some(at) = self.records.iter().rposition(is_changed) else {
            return;
        };
        let behind = self.records.split_off(at + 1);
        let changed = std::mem::replace(&mut self.records, behind).pop();
        if let Some((number, Record { entry, .. })) = changed
            && let Entry::Changed { state, .. } | Entry::Restored { state, .. } = entry
        {
            self.failure = state.failure.clone();
            self.base = Some(*state);
            self.applied = number;
        }
    }

    /// Writes the base state, which the journal has lost, to the journal before any other record.
    fn restore(&mut self, clock: &dyn Clock) -> Result<(), StoreError> {
        let Some(state) = &self.base else {
            return Ok(());
        };
        let record = Record {
            fencing_token: self.fencing_token,
            at: clock.now().as_millis(),
            real: deadline::micros(clock),
            events: self.events,
            unapplied: 0,
            artifacts: self.artifacts,
            entry: Entry::Restored {
                state: Box::new(CheckpointState {
                    failure: self.failure.clone(),
                    ..state.clone()
                }),
                identity: self.store.identity(),
            },
        };
        let json = serde_json::to_vec(&record).map_err(|source| StoreError::Json {
            path: self.store.folder().join(JOURNAL),
            source,
        })?;
        self.applied = self.store.restored(&json)?.records.saturating_sub(1);
        Ok(())
    }

    /// Returns an error if the pipeline of the manifest is not the one that the records lead to.
    fn check_pipeline(&self, mut certain: Option<String>) -> Result<(), StoreError> {
        let mut accepted = None;
        for (_, record) in &self.records {
            match &record.entry {
                Entry::Begin { identity, .. }
                | Entry::Resume { identity, .. }
                | Entry::Restored { identity, .. } => {
                    certain = identity.as_ref().map(|identity| identity.pipeline.clone());
                    accepted = None;
                }
                // The process may have ended before it wrote the manifest of the change.
                Entry::Changed { now, .. } => accepted = Some(now),
                Entry::Event(_) => {}
            }
        }
        let pinned = &self.manifest.pipeline.hash;
        let is_pinned = |hash: &Option<String>| hash.as_ref().is_none_or(|hash| hash == pinned);
        if is_pinned(&certain) || accepted.is_some_and(is_pinned) {
            return Ok(());
        }
        Err(StoreError::Foreign {
            path: self.store.folder().join(MANIFEST),
            found: format!("a run of the pipeline {pinned}"),
            expected: format!("one of the pipeline {}", certain.unwrap_or_default()),
        })
    }

    /// Returns whether the run has ended and nothing is left to write.
    pub(crate) fn is_over(&self) -> bool {
        let ended = |state: &CheckpointState| state.machine.is_finished();
        self.end_emitted && self.records.is_empty() && self.base.as_ref().is_some_and(ended)
    }
}

/// Parses a record of the journal.
pub(crate) fn parsed(folder: &Path, number: u64, record: &[u8]) -> Result<Record, StoreError> {
    serde_json::from_slice(record).map_err(|error| StoreError::damaged_record(folder, number, &error))
}
