//! Follows the events of a run that another process executes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use orchestra_engine::{Disk, EventKind, RunEvent, RunFolder, stage_folder_name};

/// Maximum number of bytes of one read.
const READ_SIZE: u64 = 4 << 20;

/// Maximum number of runs that are searched for child runs at the start.
const MAX_SEARCHED_RUNS: usize = 256;

/// The events of a run and of its child runs.
pub(crate) struct Tails {
    /// The tail of the run itself comes first.
    tails: Vec<Tail>,
}

impl Tails {
    /// Creates the tails. The first read also returns the events that already exist.
    pub(crate) fn new(folder: &Path) -> Tails {
        let mut tails = Tails {
            tails: vec![Tail::new(folder)],
        };
        let mut at = 0;
        while at < tails.tails.len().min(MAX_SEARCHED_RUNS) {
            let folder = &tails.tails[at].folder;
            let stages = folders(folder, |_| true);
            let restarts = folders(folder, |name| name.starts_with("restart-"));
            let later = restarts.iter().flat_map(|restart| folders(restart, |_| true));
            let all: Vec<PathBuf> = stages.into_iter().chain(later).collect();
            all.iter().for_each(|stage| tails.find_child_runs(stage, true));
            at += 1;
        }
        tails
    }

    /// Returns the new events since the previous call, ordered by time.
    ///
    /// # Errors
    ///
    /// Returns an error if the events of the run itself cannot be read.
    pub(crate) fn read(&mut self) -> io::Result<Vec<TailedEvent>> {
        let mut events = Vec::new();
        let mut at = 0;
        while at < self.tails.len() {
            let tail = &mut self.tails[at];
            match tail.read() {
                Ok(new) => events.extend(new),
                Err(error) if at == 0 => return Err(error),
                // The child run was moved aside, because its stage is visited again.
                Err(_) => {}
            }
            let stage_folders = tail.stage_folders();
            stage_folders
                .iter()
                .for_each(|stage| self.find_child_runs(stage, false));
            at += 1;
        }
        events.sort_by_key(|tailed: &TailedEvent| tailed.event.time.as_millis());
        Ok(events)
    }

    /// Finds the child runs of a stage. With `earlier`, also those of its earlier visits.
    fn find_child_runs(&mut self, stage: &Path, earlier: bool) {
        let branches = folders(&stage.join("branches"), |_| true);
        let mut stage_folders = vec![stage.to_owned()];
        stage_folders.extend(branches);
        if earlier {
            let visits: Vec<PathBuf> = stage_folders
                .iter()
                .flat_map(|stage_folder| folders(&stage_folder.join("visits"), |_| true))
                .collect();
            stage_folders.extend(visits);
        }
        for stage_folder in stage_folders {
            let children = folders(&stage_folder, |name| {
                name == "child" || name.starts_with("child-")
            });
            for child in children.into_iter().filter(|child| RunFolder::is_one(child)) {
                if self.tails.iter().all(|tail| tail.folder != child) {
                    self.tails.push(Tail::new(&child));
                }
            }
        }
    }
}

/// Returns the subfolders with wanted names. Does not follow links.
fn folders(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.filter(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder && entry.file_name().to_str().is_some_and(&wanted)
    });
    let mut found: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// A reader of `events.jsonl` that continues after the last complete line.
pub(crate) struct Tail {
    folder: PathBuf,
    path: PathBuf,
    /// The folders of the stages that are running, and of those that ended since the last read.
    open: BTreeSet<PathBuf>,
    ended: BTreeSet<PathBuf>,
    /// The number of restarts of the run.
    restart: u32,
    /// The offset after the last complete line.
    offset: u64,
    /// The sequence number of the last event.
    seq: u64,
}

/// An event and its line in the file.
pub(crate) struct TailedEvent {
    pub(crate) event: RunEvent,
    pub(crate) line: String,
}

impl Tail {
    pub(crate) fn new(folder: &Path) -> Tail {
        Tail {
            folder: folder.to_owned(),
            path: folder.join("events.jsonl"),
            open: BTreeSet::new(),
            ended: BTreeSet::new(),
            restart: 0,
            offset: 0,
            seq: 0,
        }
    }

    /// Returns the new events since the previous call. An incomplete line is left for later, and events of newer
    /// versions are skipped. The file is reopened each time, because a process that takes over the run replaces it.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub(crate) fn read(&mut self) -> io::Result<Vec<TailedEvent>> {
        let mut file = match Disk::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let mut events = Vec::new();
        loop {
            file.seek(SeekFrom::Start(self.offset))?;
            let mut bytes = Vec::new();
            let read = (&mut file).take(READ_SIZE).read_to_end(&mut bytes)? as u64;
            let whole = bytes
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |end| end + 1);
            bytes.truncate(whole);
            self.offset += whole as u64;
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                // Lost events may be written again after a crash.
                if let Ok(event) = RunEvent::from_json(line)
                    && event.seq > self.seq
                {
                    self.seq = event.seq;
                    self.event(&event);
                    let line = String::from_utf8_lossy(line).into_owned();
                    events.push(TailedEvent { event, line });
                }
            }
            if read < READ_SIZE || whole == 0 {
                return Ok(events);
            }
        }
    }
}

impl Tail {
    fn event(&mut self, event: &RunEvent) {
        let stage_folder = |node: &str| {
            let node = stage_folder_name(node);
            match self.restart {
                0 => self.folder.join(&*node),
                restart => self.folder.join(format!("restart-{restart}")).join(&*node),
            }
        };
        match &event.kind {
            EventKind::StageStarted { node, .. } => {
                let stage_folder = stage_folder(node);
                self.open.insert(stage_folder);
            }
            EventKind::StageCompleted { node, .. }
            | EventKind::StageFailed { node, .. }
            | EventKind::StageCancelled { node, .. } => {
                let stage_folder = stage_folder(node);
                self.open.remove(&stage_folder);
                self.ended.insert(stage_folder);
            }
            EventKind::PipelineRestarted { restart, .. } => self.restart = *restart,
            _ => {}
        }
    }

    /// Returns the folders in which stages may have started child runs since the last read.
    fn stage_folders(&mut self) -> Vec<PathBuf> {
        let ended = std::mem::take(&mut self.ended);
        ended.into_iter().chain(self.open.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64) -> String {
        format!(
            r#"{{"schema":"orchestra.event/1","seq":{seq},"time":"2026-11-21T15:30:00Z","run":"r","event":"StageLog","node":"a","message":"m{seq}"}}"#
        ) + "\n"
    }

    #[test]
    fn whole_lines_are_told_once_and_also_when_the_file_is_replaced() {
        let stage_folder = tempfile::tempdir().unwrap();
        let path = stage_folder.path().join("events.jsonl");
        let mut tail = Tail::new(stage_folder.path());
        let mut seqs = || -> Vec<u64> {
            let events = tail.read().unwrap();
            events.iter().map(|tailed| tailed.event.seq).collect()
        };
        assert!(seqs().is_empty());
        let (one, two, three) = (line(1), line(2), line(3));
        std::fs::write(&path, format!("{one}{}", &two[..30])).unwrap();
        assert_eq!(seqs(), [1]);
        std::fs::write(
            stage_folder.path().join("copy"),
            format!("{one}{two}not an event\n{three}"),
        )
        .unwrap();
        std::fs::rename(stage_folder.path().join("copy"), &path).unwrap();
        assert_eq!(seqs(), [2, 3]);
        assert!(seqs().is_empty());
    }
}
