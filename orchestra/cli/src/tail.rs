//! The events of a run that another process writes, as they come.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use orchestra_engine::RunEvent;

/// What is read at once at most.
const ROOM: u64 = 4 << 20;

/// Reads `events.jsonl` from its beginning, and goes on where it ended.
pub(crate) struct Tail {
    path: PathBuf,
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
            path: folder.join("events.jsonl"),
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
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let mut told = Vec::new();
        loop {
            file.seek(SeekFrom::Start(self.offset))?;
            let mut bytes = Vec::new();
            let read = (&mut file).take(ROOM).read_to_end(&mut bytes)? as u64;
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            bytes.truncate(whole);
            self.offset += whole as u64;
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                // After a crash, what was lost is told anew.
                if let Ok(event) = RunEvent::from_json(line)
                    && event.seq > self.seq
                {
                    self.seq = event.seq;
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
        std::fs::write(place.path().join("copy"), format!("{one}{two}not an event\n{three}")).unwrap();
        std::fs::rename(place.path().join("copy"), &path).unwrap();
        assert_eq!(seqs(), [2, 3]);
        assert!(seqs().is_empty());
    }
}
