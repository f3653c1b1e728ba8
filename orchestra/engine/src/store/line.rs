//! The lines of a journal: their format, writer and parser (rule D3).
//!
//! Each line is a JSON object: `{"length":"00000123","unsynced":"00000000","crc":"89abcdef","record":{...}}`. The head
//! has a fixed width. `length` is the length of the record in bytes. `crc` is the CRC-32 of the crc of the previous
//! line (four bytes, big endian; 0 before the first), the digits of `unsynced` and the record, so that a missing,
//! duplicate or moved line is detected. `unsynced` is the number of bytes directly before the line that were not known
//! to survive a loss of power when the line was written. It distinguishes a hole that such a loss left at the end of a
//! journal from damage.

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::StoreError;

const LENGTH: &[u8] = b"{\"length\":\"";
const UNSYNCED: &[u8] = b"\",\"unsynced\":\"";
const CRC: &[u8] = b"\",\"crc\":\"";
const RECORD: &[u8] = b"\",\"record\":";
const END: &[u8] = b"}\n";
/// The number of digits of each number in the head.
const DIGITS: usize = 8;
/// The largest number with that many decimal digits. It limits the length of a record, and `unsynced` is capped at it.
pub(super) const MOST: u64 = 99_999_999;
const AT_LENGTH: usize = LENGTH.len();
const AT_UNSYNCED: usize = AT_LENGTH + DIGITS + UNSYNCED.len();
const AT_CRC: usize = AT_UNSYNCED + DIGITS + CRC.len();
const AT_RECORD: usize = AT_CRC + DIGITS + RECORD.len();
/// The number of bytes of a line beside its record.
pub(crate) const AROUND: usize = AT_RECORD + END.len();
/// The unit in bytes that a disk writes atomically. Unwritten space after a loss of power ends at a multiple of it.
const SECTOR: u64 = 512;

/// A position between two records of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// The number of records before it.
    pub(crate) records: u64,
    /// The number of bytes before it.
    pub(crate) offset: u64,
    /// The crc of the line before it.
    pub(crate) chain: u32,
}

/// Valid records of a journal.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    bytes: Vec<u8>,
    pub(crate) records: Vec<Range<usize>>,
    /// The position before the first record.
    pub(crate) from: Position,
    /// The position after the last record.
    pub(crate) end: Position,
    /// The incomplete line after the last record.
    pub(crate) torn: Option<Torn>,
}

impl Scan {
    /// Returns an empty scan at a position.
    pub(super) fn nothing(from: Position) -> Scan {
        Scan {
            from,
            end: from,
            ..Scan::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the bytes at the end that were not known to survive a loss of power when the last line was written,
    /// including that line, and their offset in the file.
    pub(super) fn unsynced(&self) -> Option<(u64, &[u8])> {
        let record = self.records.last()?;
        let line = record.start.checked_sub(AT_RECORD)?;
        let unsynced = head(self.bytes.get(line..)?).ok()?.unsynced.unwrap_or(u64::MAX);
        let start = line.saturating_sub(usize::try_from(unsynced).unwrap_or(usize::MAX));
        let bytes = self.bytes.get(start..record.end + END.len())?;
        Some((self.from.offset + start as u64, bytes))
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        let record = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        self.records.iter().map(record)
    }
}

/// An incomplete line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Torn {
    /// Its number, from 1.
    pub(crate) line: u64,
    /// Its offset in the file.
    pub(crate) offset: u64,
    /// The number of its bytes.
    pub(crate) bytes: u64,
}

/// Appends the line of a record. Returns the position after it. The record must not be longer than [`MOST`] bytes.
pub(super) fn write(out: &mut Vec<u8>, at: Position, durable: u64, record: &[u8]) -> Position {
    let unsynced = decimal(at.offset.saturating_sub(durable).min(MOST));
    let chain = crc(at.chain, &unsynced, record);
    out.reserve(record.len() + AROUND);
    out.extend_from_slice(LENGTH);
    out.extend_from_slice(&decimal(record.len() as u64));
    out.extend_from_slice(UNSYNCED);
    out.extend_from_slice(&unsynced);
    out.extend_from_slice(CRC);
    out.extend_from_slice(&hexadecimal(chain));
    out.extend_from_slice(RECORD);
    out.extend_from_slice(record);
    out.extend_from_slice(END);
    Position {
        records: at.records + 1,
        offset: at.offset + (record.len() + AROUND) as u64,
        chain,
    }
}

fn decimal(mut number: u64) -> [u8; DIGITS] {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    digits
}

pub(super) fn hexadecimal(number: u32) -> [u8; DIGITS] {
    let mut digits = [0; DIGITS];
    for (at, digit) in digits.iter_mut().rev().enumerate() {
        let value = (number >> (4 * at)) as u8 & 0xf;
        *digit = if value < 10 {
            b'0' + value
        } else {
            b'a' + value - 10
        };
    }
    digits
}

fn crc(chain: u32, unsynced: &[u8], record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&chain.to_be_bytes());
    hasher.update(unsynced);
    hasher.update(record);
    hasher.finalize()
}

/// The head of a line.
struct Head {
    /// The length of the record in bytes.
    length: usize,
    /// The number of unsynced bytes before the line. `None` if there were too many to record.
    unsynced: Option<u64>,
}

/// The expected and the actual content of an invalid line.
struct Wrong {
    expected: String,
    found: String,
}

impl Wrong {
    fn new(expected: impl Into<String>, found: &[u8]) -> Wrong {
        let shown = found.get(..40).unwrap_or(found);
        let dots = if shown.len() < found.len() { "..." } else { "" };
        Wrong {
            expected: expected.into(),
            found: if found.is_empty() {
                "the end of the file".to_owned()
            } else {
                format!("`{}{dots}`", shown.escape_ascii())
            },
        }
    }
}

fn head(bytes: &[u8]) -> Result<Head, Wrong> {
    let fixed = |at: usize, text: &[u8]| {
        let found = bytes.get(at..).unwrap_or_default();
        if found.starts_with(text) {
            Ok(())
        } else {
            Err(Wrong::new(format!("`{}`", text.escape_ascii()), found))
        }
    };
    let number = |at: usize| {
        let digits = bytes.get(at..at + DIGITS).unwrap_or_default();
        if digits.len() == DIGITS && digits.iter().all(u8::is_ascii_digit) {
            Ok(digits
                .iter()
                .fold(0, |number: u64, digit| number * 10 + u64::from(digit - b'0')))
        } else {
            Err(Wrong::new("eight digits", bytes.get(at..).unwrap_or_default()))
        }
    };
    fixed(0, LENGTH)?;
    let length = number(AT_LENGTH)?;
    fixed(AT_LENGTH + DIGITS, UNSYNCED)?;
    let unsynced = number(AT_UNSYNCED)?;
    fixed(AT_UNSYNCED + DIGITS, CRC)?;
    fixed(AT_CRC + DIGITS, RECORD)?;
    Ok(Head {
        length: length as usize,
        unsynced: Some(unsynced).filter(|unsynced| *unsynced < MOST),
    })
}

/// Returns the record at the beginning of some bytes, and the crc of its line.
fn parse(bytes: &[u8], chain: u32) -> Result<(Range<usize>, u32), Wrong> {
    let Head { length, .. } = head(bytes)?;
    let end = AT_RECORD + length;
    let behind = bytes.get(end..).unwrap_or_default();
    if !behind.starts_with(END) {
        let expected = format!("a record of {length} bytes and the end of its line");
        return Err(Wrong::new(expected, behind));
    }
    let field = |from: usize, to: usize| bytes.get(from..to).unwrap_or_default();
    let sum = crc(
        chain,
        field(AT_UNSYNCED, AT_UNSYNCED + DIGITS),
        field(AT_RECORD, end),
    );
    let (expected, found) = (hexadecimal(sum), field(AT_CRC, AT_CRC + DIGITS));
    if expected != found {
        let expected = format!("the checksum `{}`", expected.escape_ascii());
        return Err(Wrong::new(expected, found));
    }
    Ok((AT_RECORD..end, sum))
}

/// Parses the lines of a journal after a position.
///
/// # Errors
/// Fails if the journal is damaged: something is neither a valid line nor an incomplete one at the end.
pub(crate) fn scan(path: &Path, bytes: Vec<u8>, from: Position, most: u64) -> Result<Scan, StoreError> {
    let mut scan = Scan::nothing(from);
    let mut at = 0;
    while at < bytes.len() && scan.end.records < most {
        let rest = bytes.get(at..).unwrap_or_default();
        match parse(rest, scan.end.chain) {
            Ok((record, chain)) => {
                scan.end.chain = chain;
                scan.end.records += 1;
                scan.end.offset += (record.len() + AROUND) as u64;
                scan.records.push(at + record.start..at + record.end);
                at += record.len() + AROUND;
            }
            Err(wrong) => {
                let line = scan.end.records + 1;
                let offset = scan.end.offset;
                let written = rest
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |last| last + 1);
                let rest = rest.get(..written).unwrap_or_default();
                // Zeros are preallocated space.
                if !rest.is_empty() {
                    if !is_torn(rest, offset) {
                        return Err(StoreError::Damaged {
                            path: path.to_owned(),
                            line,
                            offset,
                            expected: wrong.expected,
                            found: wrong.found,
                        });
                    }
                    scan.torn = Some(Torn {
                        line,
                        offset,
                        bytes: rest.len() as u64,
                    });
                }
                break;
            }
        }
    }
    scan.bytes = bytes;
    Ok(scan)
}

/// Returns whether a process or a machine that stopped during a write left the bytes after the last valid line: an
/// incomplete line, or several lines that were never synced and have a hole. Anything else is damage.
fn is_torn(rest: &[u8], offset: u64) -> bool {
    let mut start = 0;
    for (at, line) in rest.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let (complete, whole) = (line.ends_with(b"\n"), !line.contains(&0));
        // Bytes that were synced when a line was written cannot have become a hole.
        let open = head(line).map(|head| {
            let start_at = offset + start as u64;
            head.unsynced
                .is_none_or(|unsynced| start_at.saturating_sub(unsynced) <= offset)
        });
        let may_be = match (at, complete, whole) {
            (0, true, true) => false,
            (0, ..) => true,
            (_, true, true) => open.unwrap_or(false),
            _ => open.unwrap_or(true),
        };
        if !may_be {
            return false;
        }
        start += line.len();
    }
    let several = rest
        .iter()
        .position(|byte| *byte == b'\n')
        .is_some_and(|first| first + 1 < rest.len());
    !several || holes_end_at_sectors(rest, offset)
}

fn holes_end_at_sectors(rest: &[u8], offset: u64) -> bool {
    let mut pairs = rest.iter().zip(rest.iter().skip(1)).enumerate();
    pairs
        .all(|(at, (here, next))| *here != 0 || *next == 0 || (offset + at as u64 + 1).is_multiple_of(SECTOR))
}

/// Returns whether some bytes end with the line that precedes a position. `bytes` must contain the whole line. Returns
/// `None` if it does not.
pub(super) fn ends_with_line(bytes: &[u8], chain: u32) -> Option<bool> {
    let Some(before) = bytes.strip_suffix(b"\n") else {
        return Some(false);
    };
    let start = before.iter().rposition(|byte| *byte == b'\n')? + 1;
    Some(is_line(bytes.get(start..).unwrap_or_default(), chain))
}

/// Returns whether some bytes are exactly one line with this crc.
pub(super) fn is_line(bytes: &[u8], chain: u32) -> bool {
    let length = head(bytes).map(|head| head.length + AROUND);
    length.is_ok_and(|length| length == bytes.len())
        && bytes.get(AT_CRC..AT_CRC + DIGITS) == Some(&hexadecimal(chain)[..])
}
