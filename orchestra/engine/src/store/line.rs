//! The lines of a journal: how one is written, and what a file of them holds (rule D3).
//!
//! Each is JSON by itself: `{"length":"00000123","unsynced":"00000000","crc":"89abcdef","record":{...}}`. The head has
//! a fixed width. `length` counts the bytes of the record. `crc` is the CRC-32 of the crc of the line before (four
//! bytes, big endian; 0 before the first), the digits of `unsynced` and the record, so that a line left out, doubled
//! or moved is found. `unsynced` counts the bytes right before the line that were not known to survive a loss of power
//! when it was written: so a hole that such a loss tore into the end of a journal can be told from damage.

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::StoreError;

const LENGTH: &[u8] = b"{\"length\":\"";
const UNSYNCED: &[u8] = b"\",\"unsynced\":\"";
const CRC: &[u8] = b"\",\"crc\":\"";
const RECORD: &[u8] = b"\",\"record\":";
const END: &[u8] = b"}\n";
/// The digits of each number in the head.
const DIGITS: usize = 8;
/// The largest number of that many decimal digits. A record may be that long, and `unsynced` says no more than it.
pub(super) const MOST: u64 = 99_999_999;
const AT_LENGTH: usize = LENGTH.len();
const AT_UNSYNCED: usize = AT_LENGTH + DIGITS + UNSYNCED.len();
const AT_CRC: usize = AT_UNSYNCED + DIGITS + CRC.len();
const AT_RECORD: usize = AT_CRC + DIGITS + RECORD.len();
/// The bytes of a line beside its record.
pub(crate) const AROUND: usize = AT_RECORD + END.len();
/// What a disk writes whole; space that a loss of power left unwritten ends at a multiple of it.
const SECTOR: u64 = 512;

/// A place between two records of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// How many records are before it.
    pub(crate) records: u64,
    /// How many bytes are before it.
    pub(crate) offset: u64,
    /// The crc of the line before it.
    pub(crate) chain: u32,
}

/// Records of a journal, read and found sound.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    bytes: Vec<u8>,
    pub(crate) records: Vec<Range<usize>>,
    /// Where they begin.
    pub(crate) from: Position,
    /// Where they end.
    pub(crate) end: Position,
    /// What is left of a line behind them that was not written to its end.
    pub(crate) torn: Option<Torn>,
}

impl Scan {
    /// Nothing, from a place on.
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

    /// Returns the bytes at the end that were not known to survive a loss of power when the last line was written, that
    /// line included, and their place in the file.
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

/// A line that was not written to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Torn {
    /// Its number, from 1.
    pub(crate) line: u64,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    /// How many bytes of it there are.
    pub(crate) bytes: u64,
}

/// Adds the line of a record; gives the position behind it. The record's length must be within [`MOST`].
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
    /// The bytes of the record.
    length: usize,
    /// The bytes before the line that were not synced; `None` where there were too many to say.
    unsynced: Option<u64>,
}

/// What a line should say, and does not.
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
            found: match found.is_empty() {
                true => "the end of the file".to_owned(),
                false => format!("`{}{dots}`", shown.escape_ascii()),
            },
        }
    }
}

fn head(bytes: &[u8]) -> Result<Head, Wrong> {
    let fixed = |at: usize, text: &[u8]| {
        let found = bytes.get(at..).unwrap_or_default();
        match found.starts_with(text) {
            true => Ok(()),
            false => Err(Wrong::new(format!("`{}`", text.escape_ascii()), found)),
        }
    };
    let number = |at: usize| {
        let digits = bytes.get(at..at + DIGITS).unwrap_or_default();
        match digits.len() == DIGITS && digits.iter().all(u8::is_ascii_digit) {
            true => Ok(digits
                .iter()
                .fold(0, |number: u64, digit| number * 10 + u64::from(digit - b'0'))),
            false => Err(Wrong::new("eight digits", bytes.get(at..).unwrap_or_default())),
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

/// The record at the beginning of some bytes, and the crc of its line.
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

/// Reads what a journal holds behind a position.
///
/// # Errors
/// Something there is neither a sound line nor one that was not written to its end.
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
                // Zeros are reserved space.
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

/// Whether what follows the last sound line was left by a process or a machine that stopped while it wrote: one line
/// that is incomplete, or several that were never synced and have a hole. Anything else is damage.
fn is_torn(rest: &[u8], offset: u64) -> bool {
    let mut start = 0;
    for (at, line) in rest.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let (complete, whole) = (line.ends_with(b"\n"), !line.contains(&0));
        // What was synced when a line was written was not lost to a hole.
        let open = head(line).map(|head| {
            let place = offset + start as u64;
            head.unsynced
                .is_none_or(|unsynced| place.saturating_sub(unsynced) <= offset)
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

/// Whether the bytes before a position end with the line that it follows; `bytes` must reach back to that line's
/// beginning. `None` if they do not.
pub(super) fn ends_with_line(bytes: &[u8], chain: u32) -> Option<bool> {
    let Some(before) = bytes.strip_suffix(b"\n") else {
        return Some(false);
    };
    let start = before.iter().rposition(|byte| *byte == b'\n')? + 1;
    Some(is_line(bytes.get(start..).unwrap_or_default(), chain))
}

/// Whether some bytes are one line with this crc.
pub(super) fn is_line(bytes: &[u8], chain: u32) -> bool {
    let length = head(bytes).map(|head| head.length + AROUND);
    length.is_ok_and(|length| length == bytes.len())
        && bytes.get(AT_CRC..AT_CRC + DIGITS) == Some(&hexadecimal(chain)[..])
}
