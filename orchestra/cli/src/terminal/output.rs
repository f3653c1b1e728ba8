//! Standard output and standard error of the program.
//!
//! A command that executes no run writes directly, and waits for a slow reader like other tools. While a run is
//! executed or followed, [`Output::detach`] moves the writes to two threads, so that a reader that does not read, or a
//! stopped terminal, never blocks the runtime. Pending lines are kept in memory, then in an unnamed temporary file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of pending bytes of a stream in memory.
const MEMORY: usize = 1 << 20;

/// Maximum number of pending bytes of a stream in the temporary file.
const FILE: u64 = 1 << 30;

/// Maximum number of bytes of one write.
const CHUNK: usize = 64 << 10;

/// Maximum time that a line waits for earlier lines of the other stream.
const MAX_ORDER_WAIT: Duration = Duration::from_millis(250);

/// Maximum time that the end of an interrupted program waits for a reader.
const END_GRACE: Duration = Duration::from_secs(1);

/// Delay before a write is repeated if the stream is not ready.
const RETRY_DELAY: Duration = Duration::from_millis(5);

/// A standard stream of the process.
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

/// Writes all bytes, even to an inherited non-blocking stream.
fn write_all(stream: &mut dyn Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) => wait_to_retry(error)?,
        }
    }
    while let Err(error) = stream.flush() {
        wait_to_retry(error)?;
    }
    Ok(())
}

/// Waits if a write can be repeated; otherwise returns the error.
fn wait_to_retry(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock => {
            std::thread::sleep(RETRY_DELAY);
            Ok(())
        }
        _ => Err(error),
    }
}

/// The treatment of a line for which there is no space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The line is dropped. A line with the number of dropped lines replaces it.
    Progress,
    /// The line is kept.
    Result,
}

/// The standard streams.
pub(crate) struct Output {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// `true` if threads write.
    detached: bool,
    /// `true` if the program was asked to end.
    drain_limited: bool,
    /// `true` if both streams are the same file, in which lines must keep their order.
    same_file: bool,
    /// The number of the next line.
    next: u64,
    queues: [Queue; 2],
}

/// A pending line.
struct Line {
    number: u64,
    since: Instant,
    bytes: Vec<u8>,
}

/// The pending output of a stream: first the lines, then the file, then the late lines.
struct Queue {
    lines: VecDeque<Line>,
    bytes: usize,
    file: Option<Overflow>,
    /// The number of dropped lines.
    dropped: u64,
    /// Lines that are kept although the file is full.
    late: VecDeque<Line>,
    /// The number of the first line that is being written.
    writing: Option<u64>,
    /// `true` if the reader is gone.
    closed: bool,
    failed: Option<io::Error>,
}

impl Queue {
    const fn new() -> Queue {
        Queue {
            lines: VecDeque::new(),
            bytes: 0,
            file: None,
            dropped: 0,
            late: VecDeque::new(),
            writing: None,
            closed: false,
            failed: None,
        }
    }

    fn is_empty(&self) -> bool {
        self.writing.is_none() && self.front().is_none() && self.dropped == 0
    }

    /// Returns the number of the oldest pending line, and the time since which it is pending.
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
        let is_full = self.dropped > 0;
        let in_file = self.file.as_ref().is_some_and(|file| !file.is_empty());
        let fits = self.bytes + line.bytes.len() <= MEMORY;
        if !is_full && !in_file && (fits || self.lines.is_empty()) {
            self.bytes += line.bytes.len();
            self.lines.push_back(line);
        } else if is_full || self.overflow(&line).is_err() {
            match kind {
                Kind::Progress => self.dropped += 1,
                Kind::Result => self.late.push_back(line),
            }
        }
    }

    /// Appends a line to the file.
    fn overflow(&mut self, line: &Line) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(Overflow::new()?),
        };
        file.push(line)
    }

    /// Takes the next chunk to write, which ends before line number `until` of the other stream.
    fn take(&mut self, until: u64, dropped_lines: impl FnOnce(u64) -> Vec<u8>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(line) = self.lines.front() {
            let fits = bytes.is_empty() || bytes.len() + line.bytes.len() <= CHUNK && line.number < until;
            if !fits {
                return Some(bytes);
            }
            self.writing.get_or_insert(line.number);
            if let Some(line) = self.lines.pop_front() {
                self.bytes -= line.bytes.len();
                if bytes.is_empty() {
                    bytes = line.bytes
                } else {
                    bytes.extend(line.bytes)
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
                    // The lines in the file cannot be counted; report them as one.
                    self.file = None;
                    self.dropped += 1;
                    self.take(until, dropped_lines)
                }
            };
        }
        if self.dropped > 0 {
            let text = dropped_lines(std::mem::take(&mut self.dropped));
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

/// An unnamed temporary file for lines that do not fit into memory.
struct Overflow {
    file: File,
    read: u64,
    written: u64,
    /// The number of the first line in the file.
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
                drain_limited: false,
                same_file: false,
                next: 0,
                queues: [Queue::new(), Queue::new()],
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line, or queues it for the thread of the stream.
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
            self.record_write(stream, stream.write(&bytes));
        }
    }

    /// Records the result of a write. A broken pipe is not an error.
    fn record_write(&self, stream: Stream, written: io::Result<()>) {
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

    /// Returns whether a stream has no pending output.
    pub(crate) fn is_idle(&self, stream: Stream) -> bool {
        self.state().queues[stream as usize].is_empty()
    }

    /// Moves all further writes to threads. `dropped_lines` formats the line that reports dropped lines.
    pub(crate) fn detach(&'static self, dropped_lines: fn(Stream, u64) -> Vec<u8>) {
        let same_file = Stream::Output
            .file()
            .is_some_and(|file| Stream::Error.file() == Some(file));
        {
            let mut state = self.state();
            if state.detached {
                return;
            }
            state.same_file = same_file;
        }
        for stream in Stream::ALL {
            let thread = std::thread::Builder::new().name(stream.name().replace(' ', "-"));
            if thread.spawn(move || self.serve(stream, dropped_lines)).is_err() {
                // Without both threads the program keeps writing directly; a thread that was started stays idle.
                return;
            }
        }
        self.state().detached = true;
    }

    /// Writes queued lines until the process ends.
    fn serve(&self, stream: Stream, dropped_lines: fn(Stream, u64) -> Vec<u8>) {
        let mut state = self.state();
        loop {
            let (own, other) = (stream as usize, stream.other() as usize);
            let before = state.queues[other].oldest();
            let wait = match state.queues[own].front() {
                None if state.queues[own].dropped == 0 => None,
                Some((number, since)) if before.is_some_and(|before| before < number) => {
                    let left = MAX_ORDER_WAIT.saturating_sub(since.elapsed());
                    if state.same_file { None } else { Some(left) }
                }
                _ => Some(Duration::ZERO),
            };
            match wait {
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    let until = before.unwrap_or(u64::MAX);
                    let bytes = state.queues[own].take(until, |count| dropped_lines(stream, count));
                    drop(state);
                    if let Some(bytes) = bytes {
                        self.record_write(stream, stream.write(&bytes));
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

    /// Limits the time that the end of the program waits for a reader.
    pub(crate) fn limit_drain(&self) {
        self.state().drain_limited = true;
        self.changed.notify_all();
    }

    /// Waits until everything is written, at most for `patience`. Without a limit, it waits indefinitely until
    /// [`Output::limit_drain`] is called, and then for a short time. Returns whether everything is written.
    pub(crate) fn drain(&self, patience: Option<Duration>) -> bool {
        let mut state = self.state();
        let mut until = patience.map(|patience| Instant::now() + patience);
        let mut drain_limited = false;
        loop {
            if state.queues.iter().all(Queue::is_empty) {
                return true;
            }
            let now = Instant::now();
            if state.drain_limited && patience.is_none() && !drain_limited {
                drain_limited = true;
                until = Some(now + END_GRACE);
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

    /// Returns the stream that could not be written, and the error.
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
        // Simulate that this much was written and read already.
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
