//! The events of a run that another process writes, as they come.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use orchestra_engine::{Disk, EventKind, RunEvent, RunFolder, stage_folder_name};

/// What is read at once at most.
const ROOM: u64 = 4 << 20;

/// How deep runs may lie within runs.
const DEEP: usize = 16;

/// The events of a run, and of the runs that its stages have started.
pub(crate) struct Tails {
    /// That of the run itself comes first.
    tails: Vec<Tail>,
}

impl Tails {
    /// Those that are there already are told too.
    pub(crate) fn new(folder: &Path) -> Tails {
        let mut tails = Tails {
            tails: vec![Tail::new(folder)],
        };
        let mut at = 0;
        while let Some(tail) = tails.tails.get(at).filter(|_| at < DEEP * DEEP) {
            let stages = folders(&tail.folder, |_| true);
            let restarts = folders(&tail.folder, |name| name.starts_with("restart-"));
            let later = restarts.iter().flat_map(|restart| folders(restart, |_| true));
            let all: Vec<PathBuf> = stages.into_iter().chain(later).collect();
            all.iter().for_each(|stage| tails.look_in(stage, true));
            at += 1;
        }
        tails
    }

    /// What has come since the last look, in the order of time.
    ///
    /// # Errors
    /// The events of the run itself cannot be read.
    pub(crate) fn read(&mut self) -> io::Result<Vec<Told>> {
        let mut told = Vec::new();
        let mut at = 0;
        while at < self.tails.len() {
            let tail = &mut self.tails[at];
            match tail.read() {
                Ok(news) => told.extend(news),
                Err(error) if at == 0 => return Err(error),
                // It was moved aside, since its stage is visited again.
                Err(_) => {}
            }
            let places = tail.places();
            places.iter().for_each(|stage| self.look_in(stage, false));
            at += 1;
        }
        told.sort_by_key(|told: &Told| told.event.time.as_millis());
        Ok(told)
    }

    /// Finds the runs that a stage has started; where asked for, those of earlier visits too.
    fn look_in(&mut self, stage: &Path, earlier: bool) {
        let branches = folders(&stage.join("branches"), |_| true);
        let mut places = vec![stage.to_owned()];
        places.extend(branches);
        if earlier {
            let visits: Vec<PathBuf> = places
                .iter()
                .flat_map(|place| folders(&place.join("visits"), |_| true))
                .collect();
            places.extend(visits);
        }
        for place in places {
            let children = folders(&place, |name| name == "child" || name.starts_with("child-"));
            for child in children.into_iter().filter(|child| RunFolder::is_one(child)) {
                if self.tails.iter().all(|tail| tail.folder != child) {
                    self.tails.push(Tail::new(&child));
                }
            }
        }
    }
}

/// The folders in a folder whose names are wanted. Links are not followed.
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

/// Reads `events.jsonl` from its beginning, and goes on where it ended.
pub(crate) struct Tail {
    folder: PathBuf,
    path: PathBuf,
    /// The stages that run, and those that have ended since the last look, with their folders.
    open: BTreeSet<PathBuf>,
    over: BTreeSet<PathBuf>,
    /// Which life of the run it is.
    restart: u32,
    /// Behind the last whole line.
    offset: u64,
    /// The number of the last event.
    seq: u64,
}

/// An event, and the line that it was read from.
pub(crate) struct Told {
    pub(crate) event: RunEvent,
    pub(crate) line: String,
}

impl Tail {
    pub(crate) fn new(folder: &Path) -> Tail {
        Tail {
            folder: folder.to_owned(),
            path: folder.join("events.jsonl"),
            open: BTreeSet::new(),
            over: BTreeSet::new(),
            restart: 0,
            offset: 0,
            seq: 0,
        }
    }

    /// What has come since the last look; nothing where nothing has. A line that is being written is left for later, and
    /// an event of a newer version is passed over. The file is opened anew each time, because whoever takes a run over
    /// replaces it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(&mut self) -> io::Result<Vec<Told>> {
        let mut file = match Disk::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let mut told = Vec::new();
        loop {
            file.seek(SeekFrom::Start(self.offset))?;
            let mut bytes = Vec::new();
            let read = (&mut file).take(ROOM).read_to_end(&mut bytes)? as u64;
            let whole = bytes
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |end| end + 1);
            bytes.truncate(whole);
            self.offset += whole as u64;
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                // After a crash, what was lost is told anew.
                if let Ok(event) = RunEvent::from_json(line)
                    && event.seq > self.seq
                {
                    self.seq = event.seq;
                    self.event(&event);
                    let line = String::from_utf8_lossy(line).into_owned();
                    told.push(Told { event, line });
                }
            }
            if read < ROOM || whole == 0 {
                return Ok(told);
            }
        }
    }
}

impl Tail {
    fn event(&mut self, event: &RunEvent) {
        let place = |node: &str| {
            let node = stage_folder_name(node);
            match self.restart {
                0 => self.folder.join(&*node),
                restart => self.folder.join(format!("restart-{restart}")).join(&*node),
            }
        };
        match &event.kind {
            EventKind::StageStarted { node, .. } => {
                let place = place(node);
                self.open.insert(place);
            }
            EventKind::StageCompleted { node, .. }
            | EventKind::StageFailed { node, .. }
            | EventKind::StageCancelled { node, .. } => {
                let place = place(node);
                self.open.remove(&place);
                self.over.insert(place);
            }
            EventKind::PipelineRestarted { restart, .. } => self.restart = *restart,
            _ => {}
        }
    }

    /// The folders in which stages may have started runs since the last look.
    fn places(&mut self) -> Vec<PathBuf> {
        let over = std::mem::take(&mut self.over);
        over.into_iter().chain(self.open.iter().cloned()).collect()
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
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("events.jsonl");
        let mut tail = Tail::new(place.path());
        let mut seqs = || -> Vec<u64> { tail.read().unwrap().iter().map(|told| told.event.seq).collect() };
        assert!(seqs().is_empty());
        let (one, two, three) = (line(1), line(2), line(3));
        std::fs::write(&path, format!("{one}{}", &two[..30])).unwrap();
        assert_eq!(seqs(), [1]);
        std::fs::write(
            place.path().join("copy"),
            format!("{one}{two}not an event\n{three}"),
        )
        .unwrap();
        std::fs::rename(place.path().join("copy"), &path).unwrap();
        assert_eq!(seqs(), [2, 3]);
        assert!(seqs().is_empty());
    }
}
