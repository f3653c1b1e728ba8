//! A reader of the process data in `/proc`.
//!
//! Nothing here allocates or takes a lock, because the watcher calls these functions in a child that was forked from a
//! program with several threads. The lock of the allocator may be held by a thread that does not exist in the child.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, RawDir, openat};
use rustix::io::{Errno, read, retry_on_intr};

/// The result of a read. `None` if the process has ended or cannot be inspected. An error is one of this process, such
/// as too many open files.
pub(super) type Reading<T> = Result<Option<T>, Errno>;

/// Maximum length in bytes of the value of a variable that is tested.
pub(super) const LONGEST_VALUE: usize = 4096;

/// The fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stat {
    /// `true` if the process has ended and only waits to be reaped.
    pub(super) ended: bool,
    /// The process id of the parent.
    pub(super) parent: i32,
    /// The process group.
    pub(super) group: i32,
    /// The start time in clock ticks since boot.
    pub(super) started: u64,
}

impl Stat {
    /// Reads the fields of a process.
    pub(super) fn read(pid: i32) -> Reading<Self> {
        let mut buffer = [0; 1024];
        Ok(read_start(pid, b"stat", &mut buffer)?.and_then(Self::parse))
    }

    fn parse(text: &[u8]) -> Option<Self> {
        // The program name in parentheses may contain anything, so the fields begin after the last `)`.
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let text = std::str::from_utf8(text.get(end + 1..)?).ok()?;
        let mut fields = text.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let started = fields.nth(16)?.parse().ok()?;
        Some(Self {
            ended: matches!(state, "Z" | "X" | "x"),
            parent,
            group,
            started,
        })
    }
}

/// Calls a function with each process id.
pub(super) fn each_process(mut visit: impl FnMut(i32)) -> Result<(), Errno> {
    let folder = openat(
        CWD,
        c"/proc",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(folder, &mut buffer);
    while let Some(entry) = entries.next() {
        if let Some(pid) = number(entry?.file_name().to_bytes()) {
            visit(pid);
        }
    }
    Ok(())
}

/// Returns the process id that was assigned most recently, to a process or a thread.
pub(super) fn latest_id() -> Reading<i32> {
    read_number(c"/proc/sys/kernel/ns_last_pid")
}

/// Returns the number of process ids of the system. They are assigned in ascending order, and again from the lowest
/// free one.
pub(super) fn count_of_ids() -> Reading<i32> {
    read_number(c"/proc/sys/kernel/pid_max")
}

/// Returns the soft limit on file locks of a process.
pub(super) fn lock_limit(pid: i32) -> Reading<u64> {
    let mut buffer = [0; 4096];
    let text = read_start(pid, b"limits", &mut buffer)?;
    let text = text.and_then(|text| std::str::from_utf8(text).ok());
    let mut lines = text.into_iter().flat_map(str::lines);
    let line = lines.find_map(|line| line.strip_prefix("Max file locks"));
    Ok(line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok()))
}

/// Returns whether a process was started with a variable of this name whose value passes the test.
///
/// If a value is longer, only its first [`LONGEST_VALUE`] bytes are tested.
pub(super) fn has_variable(pid: i32, name: &[u8], test: impl Fn(&[u8]) -> bool) -> Result<bool, Errno> {
    let Some(file) = open(pid, b"environ")? else {
        return Ok(false);
    };
    let mut chunk = [0; 4096];
    let mut value = [0; LONGEST_VALUE];
    let (mut position, mut same_name, mut length) = (0_usize, true, 0_usize);
    loop {
        let bytes = match retry_on_intr(|| read(&file, &mut chunk)) {
            Ok(0) | Err(_) => break,
            Ok(count) => chunk.get(..count).unwrap_or_default(),
        };
        for byte in bytes {
            if *byte == 0 {
                if same_name && position > name.len() && value.get(..length).is_some_and(&test) {
                    return Ok(true);
                }
                (position, same_name, length) = (0, true, 0);
                continue;
            }
            if position < name.len() {
                same_name &= name.get(position) == Some(byte);
            } else if position == name.len() {
                same_name &= *byte == b'=';
            } else if let Some(slot) = value.get_mut(length) {
                *slot = *byte;
                length += 1;
            }
            position = position.saturating_add(1);
        }
    }
    Ok(same_name && position > name.len() && value.get(..length).is_some_and(test))
}

fn number(name: &[u8]) -> Option<i32> {
    if !name.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// Opens `/proc/PID/NAME`.
fn open(pid: i32, name: &[u8]) -> Reading<OwnedFd> {
    let mut buffer = [0; 40];
    path(pid, name, &mut buffer).map_or(Ok(None), open_path)
}

fn open_path(path: &CStr) -> Reading<OwnedFd> {
    match openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes `/proc/PID/NAME` into a buffer.
fn path<'a>(pid: i32, name: &[u8], buffer: &'a mut [u8; 40]) -> Option<&'a CStr> {
    let mut digits = [0; 10];
    let (mut first, mut rest) = (digits.len(), u32::try_from(pid).ok()?);
    loop {
        first = first.checked_sub(1)?;
        *digits.get_mut(first)? = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let mut end = 0;
    for part in [b"/proc/".as_slice(), digits.get(first..)?, b"/", name] {
        buffer.get_mut(end..end + part.len())?.copy_from_slice(part);
        end += part.len();
    }
    CStr::from_bytes_until_nul(buffer).ok()
}

/// Reads the start of a file of a process, up to the size of the buffer.
fn read_start<'a>(pid: i32, name: &[u8], buffer: &'a mut [u8]) -> Reading<&'a [u8]> {
    open(pid, name)?.map_or(Ok(None), |file| read_to_limit(&file, buffer))
}

fn read_number(path: &CStr) -> Reading<i32> {
    let mut buffer = [0; 32];
    let text = open_path(path)?.map_or(Ok(None), |file| read_to_limit(&file, &mut buffer))?;
    let text = text.and_then(|text| std::str::from_utf8(text).ok());
    Ok(text.and_then(|text| text.trim_ascii().parse().ok()))
}

/// Reads a file up to the size of the buffer.
fn read_to_limit<'a>(file: &OwnedFd, buffer: &'a mut [u8]) -> Reading<&'a [u8]> {
    let mut length = 0;
    while let Some(free) = buffer.get_mut(length..).filter(|free| !free.is_empty()) {
        match retry_on_intr(|| read(file, &mut *free)) {
            Ok(0) => break,
            Ok(count) => length += count,
            // The process ended during the read.
            Err(_) => return Ok(None),
        }
    }
    Ok(buffer.get(..length))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_child_is_described_as_it_was_started() {
        let long = "x".repeat(10_000);
        let mut child = Command::new("cat")
            .env_clear()
            .env("LONG", &long)
            .env("MARK", "one:two:three")
            .env("MARKED", "other")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let stat = Stat::read(pid).unwrap().unwrap();
        assert_eq!((stat.parent, stat.ended), (own, false));
        assert_eq!(lock_limit(pid).unwrap(), lock_limit(own).unwrap());
        // The system shows the environment only after the exec, which the reply of the child proves.
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"x").unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        assert!(has_variable(pid, b"MARK", |value| value == b"one:two:three").unwrap());
        assert!(!has_variable(pid, b"MARK", |value| value == b"other").unwrap());
        assert!(!has_variable(pid, b"MAR", |_| true).unwrap());
        assert!(has_variable(pid, b"LONG", |value| value == &long.as_bytes()[..LONGEST_VALUE]).unwrap());
        let mut found = false;
        each_process(|number| found |= number == pid).unwrap();
        assert!(found);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(
            Stat::read(pid)
                .unwrap()
                .is_none_or(|next| next.started != stat.started || next.parent != own)
        );
    }
}
