//! Standard output and standard error of the program.
//!
//! A command that executes no run writes directly, and waits for a slow reader as usual tools do. While a run is
//! executed or followed, [`Output::detach`] lets two threads write, so that a reader that does not read, or a terminal
//! that is stopped, never blocks the runtime: lines wait in memory, then in a temporary file without a name.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many bytes of a stream wait in memory.
const MEMORY: usize = 1 << 20;

/// How many bytes of a stream wait in the temporary file.
const FILE: u64 = 1 << 30;

/// How many bytes are written at once at most.
const CHUNK: usize = 64 << 10;

/// How long a line waits for earlier lines of the other stream.
const ORDER: Duration = Duration::from_millis(250);

/// How long the end of a run that was told to stop waits for a reader.
const GRACE: Duration = Duration::from_secs(1);

/// How long a write is put off where the stream is not ready.
const NOT_READY: Duration = Duration::from_millis(5);

/// A stream of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Output = 0,
    Error = 1,
}

impl Stream {
    const ALL: [Stream; 2] = [Stream::Output, Stream::Error];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Stream::Output => "standard output",
            Stream::Error => "standard error",
        }
    }

    const fn other(self) -> Stream {
        match self {
            Stream::Output => Stream::Error,
            Stream::Error => Stream::Output,
        }
    }

    /// Writes all bytes, however long the reader takes.
    fn write(self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Output => write_all(&mut io::stdout().lock(), bytes),
            Stream::Error => write_all(&mut io::stderr().lock(), bytes),
        }
    }

    #[cfg(unix)]
    fn file(self) -> Option<(u64, u64)> {
        use std::os::fd::AsFd;
        use std::os::unix::fs::MetadataExt;
        let descriptor = match self {
            Stream::Output => io::stdout().as_fd().try_clone_to_owned(),
            Stream::Error => io::stderr().as_fd().try_clone_to_owned(),
        };
        let found = File::from(descriptor.ok()?).metadata().ok()?;
        Some((found.dev(), found.ino()))
    }

    #[cfg(not(unix))]
    fn file(self) -> Option<(u64, u64)> {
        None
    }
}

/// Writes all bytes, also where a stream that does not block was inherited.
fn write_all(stream: &mut dyn Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) => later(error)?,
        }
    }
    while let Err(error) = stream.flush() {
        later(error)?;
    }
    Ok(())
}

/// Waits where a write is only put off.
fn later(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock => {
            std::thread::sleep(NOT_READY);
            Ok(())
        }
        _ => Err(error),
    }
}

/// How a line is treated when there is no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is left out, and a line that counts such lines stands in its place.
    Progress,
    /// It is kept.
    Result,
}

/// The standard streams.
pub(crate) struct Output {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Whether threads write.
    detached: bool,
    /// Whether somebody asked the program to end.
    hurried: bool,
    /// Whether both streams are the same file, whose lines must keep their order.
    same: bool,
    /// The number of the next line.
    next: u64,
    queues: [Queue; 2],
}

/// A line that waits.
struct Line {
    number: u64,
    since: Instant,
    bytes: Vec<u8>,
}

/// What waits to be written to a stream: first the lines, then the file, then the late lines.
struct Queue {
    lines: VecDeque<Line>,
    bytes: usize,
    file: Option<Overflow>,
    /// The lines that were left out.
    left_out: u64,
    /// Lines that are kept although the file is full.
    late: VecDeque<Line>,
    /// The number of the first line that is being written.
    writing: Option<u64>,
    /// Nobody can read any more.
    closed: bool,
    failed: Option<io::Error>,
}

impl Queue {
    const fn new() -> Queue {
        Queue {
            lines: VecDeque::new(),
            bytes: 0,
            file: None,
            left_out: 0,
            late: VecDeque::new(),
            writing: None,
            closed: false,
            failed: None,
        }
    }

    fn is_empty(&self) -> bool {
        self.writing.is_none() && self.front().is_none() && self.left_out == 0
    }

    /// Returns the number of the oldest line that is not written, and since when it waits.
    fn front(&self) -> Option<(u64, Instant)> {
        let file = self.file.as_ref().filter(|file| !file.is_empty());
        let lines = self.lines.front().map(|line| (line.number, line.since));
        let file = file.map(|file| (file.number, file.since));
        lines
            .or(file)
            .or_else(|| self.late.front().map(|line| (line.number, line.since)))
    }

    fn oldest(&self) -> Option<u64> {
        self.writing.or_else(|| self.front().map(|(number, _)| number))
    }

    fn push(&mut self, line: Line, kind: Kind) {
        if self.closed {
            return;
        }
        let is_full = self.left_out > 0;
        let in_file = self.file.as_ref().is_some_and(|file| !file.is_empty());
        let fits = self.bytes + line.bytes.len() <= MEMORY;
        if !is_full && !in_file && (fits || self.lines.is_empty()) {
            self.bytes += line.bytes.len();
            self.lines.push_back(line);
        } else if is_full || self.overflow(&line).is_err() {
            match kind {
                Kind::Progress => self.left_out += 1,
                Kind::Result => self.late.push_back(line),
            }
        }
    }

    /// Puts a line behind the others in the file.
    fn overflow(&mut self, line: &Line) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(Overflow::new()?),
        };
        file.push(line)
    }

    /// Takes what is to be written next, up to a line of the other stream.
    fn take(&mut self, until: u64, left_out: impl FnOnce(u64) -> Vec<u8>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(line) = self.lines.front() {
            let fits = bytes.is_empty() || bytes.len() + line.bytes.len() <= CHUNK && line.number < until;
            if !fits {
                return Some(bytes);
            }
            self.writing.get_or_insert(line.number);
            if let Some(line) = self.lines.pop_front() {
                self.bytes -= line.bytes.len();
                match bytes.is_empty() {
                    true => bytes = line.bytes,
                    false => bytes.extend(line.bytes),
                }
            }
        }
        if !bytes.is_empty() {
            return Some(bytes);
        }
        if let Some(file) = self.file.as_mut().filter(|file| !file.is_empty()) {
            self.writing = Some(file.number);
            return match file.take() {
                Ok(bytes) => Some(bytes),
                Err(_) => {
                    // What it held cannot be counted; it is told as one loss.
                    self.file = None;
                    self.left_out += 1;
                    self.take(until, left_out)
                }
            };
        }
        if self.left_out > 0 {
            let text = left_out(std::mem::take(&mut self.left_out));
            self.lines = std::mem::take(&mut self.late);
            self.bytes = self.lines.iter().map(|line| line.bytes.len()).sum();
            self.writing = Some(self.lines.front().map_or(0, |line| line.number));
            return Some(text);
        }
        None
    }

    fn close(&mut self) {
        *self = Queue {
            closed: true,
            failed: self.failed.take(),
            ..Queue::new()
        };
    }
}

/// A temporary file without a name for what does not fit into memory.
struct Overflow {
    file: File,
    read: u64,
    written: u64,
    /// The first line that it holds.
    number: u64,
    since: Instant,
}

impl Overflow {
    fn new() -> io::Result<Overflow> {
        Ok(Overflow {
            file: tempfile::tempfile()?,
            read: 0,
            written: 0,
            number: 0,
            since: Instant::now(),
        })
    }

    fn is_empty(&self) -> bool {
        self.read == self.written
    }

    fn push(&mut self, line: &Line) -> io::Result<()> {
        let after = self.written + line.bytes.len() as u64;
        if after > FILE {
            return Err(ErrorKind::StorageFull.into());
        }
        if self.is_empty() {
            (self.number, self.since) = (line.number, line.since);
        }
        self.file.seek(SeekFrom::Start(self.written))?;
        self.file.write_all(&line.bytes)?;
        self.written = after;
        Ok(())
    }

    fn take(&mut self) -> io::Result<Vec<u8>> {
        self.file.seek(SeekFrom::Start(self.read))?;
        let count = (self.written - self.read).min(CHUNK as u64);
        let mut bytes = vec![0; count as usize];
        self.file.read_exact(&mut bytes)?;
        self.read += count;
        if self.is_empty() {
            (self.read, self.written) = (0, 0);
            self.file.set_len(0)?;
        }
        Ok(bytes)
    }
}

impl Output {
    pub(crate) const fn new() -> Output {
        Output {
            state: Mutex::new(State {
                detached: false,
                hurried: false,
                same: false,
                next: 0,
                queues: [Queue::new(), Queue::new()],
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes, or lets the thread of the stream write.
    pub(crate) fn push(&self, stream: Stream, bytes: Vec<u8>, kind: Kind) {
        let mut state = self.state();
        if state.detached {
            let number = state.next;
            state.next += 1;
            let line = Line {
                number,
                since: Instant::now(),
                bytes,
            };
            state.queues[stream as usize].push(line, kind);
            self.changed.notify_all();
        } else if !state.queues[stream as usize].closed {
            drop(state);
            self.written(stream, stream.write(&bytes));
        }
    }

    /// Takes note of how a write ended. A reader that has gone away is no error.
    fn written(&self, stream: Stream, written: io::Result<()>) {
        let mut state = self.state();
        let queue = &mut state.queues[stream as usize];
        queue.writing = None;
        if let Err(error) = written {
            if error.kind() != ErrorKind::BrokenPipe {
                queue.failed.get_or_insert(error);
            }
            queue.close();
        }
        self.changed.notify_all();
    }

    /// Returns whether all is written to a stream.
    pub(crate) fn is_idle(&self, stream: Stream) -> bool {
        self.state().queues[stream as usize].is_empty()
    }

    /// Lets threads write from now on. `left_out` makes the line that stands for lines that were left out.
    pub(crate) fn detach(&'static self, left_out: fn(Stream, u64) -> Vec<u8>) {
        let same = Stream::Output
            .file()
            .is_some_and(|file| Stream::Error.file() == Some(file));
        {
            let mut state = self.state();
            if state.detached {
                return;
            }
            state.same = same;
        }
        for stream in Stream::ALL {
            let thread = std::thread::Builder::new().name(stream.name().replace(' ', "-"));
            if thread.spawn(move || self.serve(stream, left_out)).is_err() {
                // Without both threads the program writes as before; the one that was started has nothing to do.
                return;
            }
        }
        self.state().detached = true;
    }

    /// Writes what comes, until the process ends.
    fn serve(&self, stream: Stream, left_out: fn(Stream, u64) -> Vec<u8>) {
        let mut state = self.state();
        loop {
            let (own, other) = (stream as usize, stream.other() as usize);
            let before = state.queues[other].oldest();
            let wait = match state.queues[own].front() {
                None if state.queues[own].left_out == 0 => None,
                Some((number, since)) if before.is_some_and(|before| before < number) => {
                    let left = ORDER.saturating_sub(since.elapsed());
                    match state.same {
                        true => None,
                        false => Some(left),
                    }
                }
                _ => Some(Duration::ZERO),
            };
            match wait {
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    let until = before.unwrap_or(u64::MAX);
                    let bytes = state.queues[own].take(until, |count| left_out(stream, count));
                    drop(state);
                    if let Some(bytes) = bytes {
                        self.written(stream, stream.write(&bytes));
                    }
                    state = self.state();
                }
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Does not let the end of the program wait for a reader for long.
    pub(crate) fn hurry(&self) {
        self.state().hurried = true;
        self.changed.notify_all();
    }

    /// Waits until all is written, at most for so long; returns whether it is. Without a bound it waits for a moment only
    /// from [`Output::hurry`] on.
    pub(crate) fn drain(&self, patience: Option<Duration>) -> bool {
        let mut state = self.state();
        let mut until = patience.map(|patience| Instant::now() + patience);
        let mut hurried = false;
        loop {
            if state.queues.iter().all(Queue::is_empty) {
                return true;
            }
            let now = Instant::now();
            if state.hurried && patience.is_none() && !hurried {
                hurried = true;
                until = Some(now + GRACE);
            }
            state = match until {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) if until > now => {
                    let waited = self.changed.wait_timeout(state, until - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => return false,
            };
        }
    }

    /// Returns what could not be written, and why.
    pub(crate) fn failure(&self) -> Option<(Stream, String)> {
        let state = self.state();
        let failed = |stream: &Stream| state.queues[*stream as usize].failed.as_ref();
        let stream = Stream::ALL.into_iter().find(|stream| failed(stream).is_some())?;
        failed(&stream).map(|error| (stream, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, length: usize) -> Line {
        let mut bytes = format!("{number} ").into_bytes();
        bytes.resize(length - 1, b'x');
        bytes.push(b'\n');
        Line {
            number,
            since: Instant::now(),
            bytes,
        }
    }

    fn all(queue: &mut Queue) -> String {
        let mut text = Vec::new();
        while let Some(bytes) = queue.take(u64::MAX, |count| format!("left out {count}\n").into_bytes()) {
            assert!(bytes.len() <= CHUNK);
            text.extend(bytes);
            queue.writing = None;
        }
        String::from_utf8(text).unwrap()
    }

    fn numbers(text: &str) -> Vec<&str> {
        text.lines()
            .map(|line| line.trim_end_matches([' ', 'x']))
            .collect()
    }

    #[test]
    fn what_does_not_fit_into_memory_waits_in_a_file_and_keeps_its_order() {
        let mut queue = Queue::new();
        for number in 0..4_000 {
            queue.push(line(number, 1_000), Kind::Progress);
        }
        assert!(queue.bytes <= MEMORY);
        let expected: Vec<String> = (0..4_000).map(|number: u64| number.to_string()).collect();
        assert_eq!(numbers(&all(&mut queue)), expected);
        assert!(queue.is_empty());
        queue.push(line(4_000, 10), Kind::Progress);
        assert_eq!(numbers(&all(&mut queue)), ["4000"]);
    }

    #[test]
    fn a_full_file_leaves_lines_out_and_says_so_but_keeps_results() {
        let mut queue = Queue::new();
        queue.push(line(0, MEMORY), Kind::Progress);
        queue.push(line(1, 10), Kind::Progress);
        // As if so much had been written already.
        if let Some(file) = &mut queue.file {
            let read = FILE - 10;
            file.file.set_len(read).unwrap();
            file.file.seek(SeekFrom::Start(read)).unwrap();
            file.file.write_all(b"1 xxxxxxx\n").unwrap();
            (file.read, file.written) = (read, FILE);
        }
        queue.push(line(2, 10), Kind::Progress);
        queue.push(line(3, 10), Kind::Result);
        queue.push(line(4, 10), Kind::Progress);
        assert_eq!(
            queue.take(u64::MAX, |_| Vec::new()).map(|bytes| bytes.len()),
            Some(MEMORY)
        );
        assert_eq!(numbers(&all(&mut queue)), ["1", "left out 2", "3"]);
        queue.push(line(5, 10), Kind::Progress);
        assert_eq!(numbers(&all(&mut queue)), ["5"]);
    }
}
