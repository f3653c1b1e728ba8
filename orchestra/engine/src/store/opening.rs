//! The consistency checks before a run is resumed (rule D3): the files of its folder must belong to one run, and the
//! journal must contain all records that other files refer to.
//!
//! Writes happen in the following orders, at [`Durability::Full`] with a sync of the disk, otherwise as far as the
//! operating system preserves the writes of a process:
//!
//! - A record is written, then synced. Only then does the machine apply it, and only then are events written that
//!   follow from it. So a record that an event names was in the journal before the event was written.
//! - The journal and the events are synced before a checkpoint is written. The checkpoint is written to a draft,
//!   synced, renamed, and the folder is synced. So a checkpoint refers to no record that was not in the journal.
//! - The journal is synced before the manifest is replaced, for example because a changed pipeline was accepted.
//! - A process that takes over a run replaces the lock, then copies the journal, and then the events. An owner checks
//!   its lock after each sync, so the copy contains every record that an event follows from.
//!
//! Therefore a killed process or a loss of power can leave an incomplete last record, and events or a checkpoint that
//! are older than the journal. It cannot leave a journal that is older than they are.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Access, FileSystem, write_new};
use super::journal::{self, Journal};
use super::line::{Position, Scan};
use super::lines::Proof;
use super::{CHECKPOINT, Checkpoint, Durability, EVENTS, JOURNAL, RunIdentity, StoreError};

/// The options for opening a run folder.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenOptions {
    /// `true` to take over a run from its owner.
    pub(crate) take_over: bool,
    /// `true` to accept that records of the journal are lost.
    pub(crate) accept_loss: bool,
}

/// A run folder that is being opened.
pub(super) struct Opening<'a> {
    pub(super) files: &'a Arc<dyn FileSystem>,
    pub(super) root: &'a Path,
    /// The identity of the run according to the manifest.
    pub(super) identity: &'a RunIdentity,
    /// The evidence of the events.
    pub(super) proof: Proof,
    pub(super) accept_loss: bool,
    /// The fencing token of the owner, which is part of the names of files that are set aside.
    pub(super) fencing_token: u64,
    /// Human-readable messages about repairs.
    pub(super) repaired: &'a mut Vec<String>,
}

/// A journal, and the state from which the run resumes.
pub(super) struct Found {
    pub(super) journal: Journal,
    pub(super) records: Scan,
    pub(super) checkpoint: Option<Checkpoint>,
    /// `true` if the checkpoint contains records that the journal has lost.
    pub(super) restored: bool,
}

impl Opening<'_> {
    /// Rejects a checkpoint and events of another run.
    pub(super) fn check_belonging(&mut self, checkpoint: &mut Option<Checkpoint>) -> Result<(), StoreError> {
        if let Some(found) = checkpoint
            .as_ref()
            .and_then(|found| self.foreign_checkpoint(found))
        {
            if !self.accept_loss {
                return Err(self.foreign(CHECKPOINT, found));
            }
            self.repaired
                .push(format!("the checkpoint was passed over: it belongs to {found}"));
            *checkpoint = None;
        }
        if let Some(run) = self.proof.run.take_if(|run| *run != self.identity.run) {
            let error = self.foreign(EVENTS, format!("the run `{run}`"));
            if !self.accept_loss {
                return Err(error);
            }
            self.set_aside(EVENTS)?;
            self.proof = Proof::default();
        }
        Ok(())
    }

    fn foreign_checkpoint(&self, checkpoint: &Checkpoint) -> Option<String> {
        match &checkpoint.identity {
            Some(identity) if identity.is_of(self.identity) => None,
            Some(identity) => Some(named(identity)),
            None if checkpoint.run == self.identity.run => None,
            None => Some(format!("the run `{}`", checkpoint.run)),
        }
    }

    fn foreign(&self, name: &str, found: String) -> StoreError {
        StoreError::Foreign {
            path: self.root.join(name),
            found,
            expected: named(self.identity),
        }
    }

    /// Opens the journal after a checkpoint, or from its beginning if there is none.
    pub(super) fn journal(
        &mut self,
        level: Durability,
        mut checkpoint: Option<Checkpoint>,
    ) -> Result<Found, StoreError> {
        if checkpoint
            .as_ref()
            .is_some_and(|checkpoint| checkpoint.state.is_none())
        {
            let reason = "the checkpoint was passed over: it holds no state to go on from";
            self.repaired.push(reason.to_owned());
            checkpoint = None;
        }
        match self.whole_journal(level, checkpoint.as_ref()) {
            Ok((journal, records)) => Ok(Found {
                journal,
                records,
                checkpoint,
                restored: false,
            }),
            Err(error) if self.accept_loss && is_loss(&error, checkpoint.is_some()) => {
                self.repaired.push(format!("a loss was accepted: {error}"));
                self.rest_of_journal(level, checkpoint, &error)
            }
            Err(error) => Err(error),
        }
    }

    fn whole_journal(
        &mut self,
        level: Durability,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(Journal, Scan), StoreError> {
        let path = self.root.join(JOURNAL);
        let missing = |error| match error {
            StoreError::Io { source, .. } if source.kind() == ErrorKind::NotFound => StoreError::NoRun {
                path: self.root.to_owned(),
                missing: JOURNAL,
            },
            other => other,
        };
        let from = checkpoint.map(|checkpoint| checkpoint.journal);
        if let Some(position) = from
            && !journal::has(&**self.files, &path, position).map_err(missing)?
        {
            let scan = journal::read(&**self.files, &path, None, u64::MAX).map_err(missing)?;
            self.approve(&scan)?;
            return Err(if scan.end.records < position.records {
                self.cut(scan.end.records, position.records, CHECKPOINT)
            } else {
                // Every line is valid, and the checkpoint belongs to this run, so their histories diverged.
                self.foreign(JOURNAL, "a copy of the run that went on otherwise".to_owned())
            });
        }
        let opened = Journal::open(self.files.clone(), &path, level, from, u64::MAX, |scan| {
            self.approve(scan)
        });
        let (journal, records) = opened.map_err(missing)?;
        if let Some(torn) = records.torn {
            self.repaired.push(format!(
                "record {} of `{JOURNAL}` (byte {}) was not written to its end; its {} bytes were cut off",
                torn.line, torn.offset, torn.bytes
            ));
        }
        Ok((journal, records))
    }

    /// Rejects records of another run, and a journal with fewer records than the events prove.
    fn approve(&self, scan: &Scan) -> Result<(), StoreError> {
        if scan.from == Position::default()
            && let Some(found) = scan.iter().next().and_then(|first| self.foreign_record(first))
        {
            return Err(self.foreign(JOURNAL, found));
        }
        match self.proof.record {
            // If a loss of power removed the first record, the run starts again: no stage of it had ended.
            Some(record) if record > 0 && scan.end.records <= record => {
                Err(self.cut(scan.end.records, record + 1, EVENTS))
            }
            _ => Ok(()),
        }
    }

    fn foreign_record(&self, first: &[u8]) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Record {
            entry: Entry,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Entry {
            Begin(First),
            Restored(First),
        }
        #[derive(serde::Deserialize)]
        struct First {
            run: Option<String>,
            identity: Option<RunIdentity>,
        }
        // Anything else is rejected later, when the record is parsed.
        let Record {
            entry: Entry::Begin(first) | Entry::Restored(first),
        } = serde_json::from_slice(first).ok()?;
        match (first.identity, first.run) {
            (Some(identity), _) => (!identity.is_of(self.identity)).then(|| named(&identity)),
            (None, Some(run)) => (run != self.identity.run).then(|| format!("the run `{run}`")),
            (None, None) => None,
        }
    }

    fn cut(&self, records: u64, proven: u64, by: &'static str) -> StoreError {
        StoreError::JournalCut {
            path: self.root.join(JOURNAL),
            records,
            proven,
            by: self.root.join(by),
        }
    }

    /// Opens the remains of a journal. If the checkpoint is newer than they are, the run resumes from the checkpoint.
    fn rest_of_journal(
        &mut self,
        level: Durability,
        checkpoint: Option<Checkpoint>,
        error: &StoreError,
    ) -> Result<Found, StoreError> {
        let path = self.root.join(JOURNAL);
        let sound = match error {
            StoreError::Damaged { line, .. } => line - 1,
            StoreError::JournalCut { records, .. } => *records,
            _ => 0,
        };
        if !matches!(error, StoreError::JournalCut { .. }) {
            self.set_aside(JOURNAL)?;
        }
        if sound > 0 && matches!(error, StoreError::Damaged { .. }) {
            self.copy_back(JOURNAL)?;
        }
        let behind = checkpoint.as_ref().map(|checkpoint| checkpoint.journal);
        let is_within = |position: &Position| position.records <= sound;
        let from = behind.filter(is_within);
        let opened = Journal::open(self.files.clone(), &path, level, from, sound, |_| Ok(()));
        let (journal, records) = match opened {
            Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                let journal = Journal::create(self.files.clone(), &path, level)?;
                (journal, Scan::nothing(Position::default()))
            }
            opened => opened?,
        };
        let restored = behind.is_some() && from.is_none();
        let mut checkpoint = checkpoint;
        let mut records = records;
        if let Some(checkpoint) = checkpoint.as_mut()
            && restored
        {
            records = Scan::nothing(records.end);
            checkpoint.journal = records.end;
        }
        Ok(Found {
            journal,
            records,
            checkpoint,
            restored,
        })
    }

    /// Returns the path under which an unusable file is preserved.
    fn aside(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.lost-{}", self.fencing_token))
    }

    /// Renames a file to preserve it.
    fn set_aside(&mut self, name: &str) -> Result<(), StoreError> {
        let (path, aside) = (self.root.join(name), self.aside(name));
        let moved = self.files.rename(&path, &aside);
        match moved {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            moved => moved.map_err(|error| StoreError::io("move", &path, error))?,
        }
        self.repaired.push(format!(
            "`{name}` was kept as `{name}.lost-{}`",
            self.fencing_token
        ));
        Ok(())
    }

    /// Copies a file back whose beginning is still used.
    fn copy_back(&self, name: &str) -> Result<(), StoreError> {
        let aside = self.aside(name);
        let failed = |error| StoreError::io("copy", &aside, error);
        let file = self.files.open(&aside, Access::Read).map_err(failed)?;
        let bytes = file.read_from(0, u64::MAX).map_err(failed)?;
        write_new(&**self.files, &self.root.join(name), &bytes, true)
    }
}

/// Returns whether the run can be resumed from the remains after an error.
fn is_loss(error: &StoreError, has_checkpoint: bool) -> bool {
    let is_journal = |path: &Path| path.file_name().is_some_and(|name| name == JOURNAL);
    match error {
        StoreError::JournalCut { .. } | StoreError::NoRun { missing: JOURNAL, .. } => true,
        StoreError::Damaged { path, .. }
        | StoreError::NotPlain { path, .. }
        | StoreError::TooLarge { path, .. } => is_journal(path),
        // Without a checkpoint nothing of this run remains.
        StoreError::Foreign { path, .. } => has_checkpoint && is_journal(path),
        _ => false,
    }
}

fn named(identity: &RunIdentity) -> String {
    format!("the run `{}` ({})", identity.run, identity.number)
}
