//! The records of another run up to a checkpoint, from which a new run starts (rule D4).

use std::path::Path;
use std::sync::Arc;

use orchestra_core::Event;
use orchestra_graph::Transform;

use crate::journal::records::{Entry, Record};
use crate::setup::pinned_source::load_pinned;
use crate::store::{
    Manifest, ReplayedFrom, RunFolder, RunIdentity, StoreError, checkpoint_name, checkpoint_number,
};

/// The records of another run up to a checkpoint.
pub(crate) struct Fork {
    pub(crate) manifest: Manifest,
    pub(crate) records: Vec<Vec<u8>>,
    pub(crate) from: ReplayedFrom,
}

/// Reads the records of another run up to a checkpoint.
pub(crate) fn fork(
    view: &RunFolder,
    checkpoint: &str,
    transforms: &[Arc<dyn Transform>],
) -> Result<Fork, StoreError> {
    let mut manifest = view.manifest().clone();
    let records = view.raw_records()?;
    let last = records.len().saturating_sub(1) as u64;
    let unknown = || StoreError::NoCheckpoint {
        path: view.path().to_owned(),
        name: checkpoint.to_owned(),
        last: checkpoint_name(last),
    };
    let number = match checkpoint_number(checkpoint) {
        Some(number) => Some(number),
        None => ended_by(&manifest, &records, transforms, checkpoint),
    };
    let number = number.ok_or_else(unknown)?;
    if records.is_empty() || number > last {
        return Err(unknown());
    }
    let (kept, behind) = records.split_at(number as usize + 1);
    // If the pipeline was changed later, use the pipeline before that change.
    for record in behind {
        if let Ok(Record {
            entry: Entry::Changed {
                pipeline, children, ..
            },
            ..
        }) = serde_json::from_slice(record)
        {
            (manifest.pipeline, manifest.children) = (*pipeline, children);
            break;
        }
    }
    let from = ReplayedFrom {
        run: manifest.run.clone(),
        checkpoint: checkpoint_name(number),
    };
    manifest.replayed_from = Some(from.clone());
    // A new run is executed here, also if the other one is a copy.
    manifest.exported_from = None;
    let records = kept.to_vec();
    Ok(Fork {
        manifest,
        records,
        from,
    })
}

/// Returns the first record of another run, with the identity of the run of the manifest.
pub(crate) fn renamed(folder: &Path, first: &[u8], manifest: &Manifest) -> Result<Vec<u8>, StoreError> {
    let error = |error| StoreError::damaged_record(folder, 0, &error);
    let mut record: Record = serde_json::from_slice(first).map_err(error)?;
    let of = Some(manifest.belonging());
    match &mut record.entry {
        Entry::Begin { run, identity, .. } => {
            run.clone_from(&manifest.run);
            *identity = renamed_identity(identity.take(), of);
        }
        Entry::Restored { identity, .. } => *identity = renamed_identity(identity.take(), of),
        _ => {}
    }
    serde_json::to_vec(&record).map_err(error)
}

/// Returns the identity of a new run, with the pipeline that the other run had at that time.
fn renamed_identity(then: Option<RunIdentity>, new: Option<RunIdentity>) -> Option<RunIdentity> {
    let pipeline = then.map(|then| then.pipeline);
    new.map(|new| RunIdentity {
        pipeline: pipeline.unwrap_or_else(|| new.pipeline.clone()),
        ..new
    })
}

/// Returns the number of the record that ended an attempt such as `build#2/1`. Such a name of a checkpoint is known
/// before the record is written. Returns `None` if there is no such record.
fn ended_by(
    manifest: &Manifest,
    records: &[Vec<u8>],
    transforms: &[Arc<dyn Transform>],
    attempt: &str,
) -> Option<u64> {
    let mut pipeline = load_pinned(&manifest.pipeline, &manifest.children, transforms)?;
    for (number, record) in records.iter().enumerate().rev() {
        let Ok(record) = serde_json::from_slice::<Record>(record) else {
            continue;
        };
        match record.entry {
            Entry::Event(recorded) => {
                if let Event::NodeFinished { id, .. } = &recorded.event
                    && id.name(&pipeline) == attempt
                {
                    return Some(number as u64);
                }
            }
            // Before the change, nodes had other indices.
            Entry::Changed {
                pipeline: before,
                children,
                ..
            } => pipeline = load_pinned(&before, &children, transforms)?,
            Entry::Begin { .. } | Entry::Resume { .. } | Entry::Restored { .. } => {}
        }
    }
    None
}
