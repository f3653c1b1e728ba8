//! Tests of the journal: it returns what was written, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Chance, EIO, ENOSPC, EROFS, Failing, edit, edits, put, record};
use crate::store::files::{FileSystem, system};
use crate::store::journal::{self, Journal, has};
use crate::store::line::{Position, Scan};
use crate::store::{Durability, StoreError};

fn create(files: Arc<dyn FileSystem>, path: &Path, level: Durability) -> Journal {
    Journal::create(files, path, level).unwrap()
}

/// Creates a journal with some records, each synced. Returns its bytes, and the position after each record.
fn closed(path: &Path, records: u64) -> (Vec<u8>, Vec<Position>) {
    let journal = create(system(), path, Durability::Full);
    let mut positions = vec![journal.position()];
    for number in 0..records {
        positions.push(journal.append(&record(number)).unwrap());
        journal.sync().unwrap();
    }
    journal.close().unwrap();
    (fs::read(path).unwrap(), positions)
}

fn read(files: &dyn FileSystem, path: &Path, from: Option<Position>) -> Result<Scan, StoreError> {
    journal::read(files, path, from, u64::MAX)
}

fn open(path: &Path) -> Result<(Journal, Scan), StoreError> {
    Journal::open(system(), path, Durability::Full, None, u64::MAX, |_| Ok(()))
}

fn stage_folder() -> (tempfile::TempDir, PathBuf) {
    let stage_folder = super::tempdir();
    let path = stage_folder.path().join("journal.jsonl");
    (stage_folder, path)
}

/// Asserts that the scan contains consecutive records from `first` on.
fn assert_prefix(scan: &Scan, first: u64) {
    for (at, found) in scan.iter().enumerate() {
        assert_eq!(found, record(first + at as u64), "record {at}");
    }
}

#[test]
fn every_line_is_json_and_says_what_the_file_format_promises() {
    let (_place, path) = stage_folder();
    let (bytes, positions) = closed(&path, 3);
    assert_eq!(bytes.len() as u64, positions[3].offset);
    let mut chain = 0_u32;
    for (number, line) in std::str::from_utf8(&bytes).unwrap().lines().enumerate() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let record = record(number as u64);
        let mut summed = chain.to_be_bytes().to_vec();
        summed.extend_from_slice(b"00000000");
        summed.extend_from_slice(&record);
        chain = crc32fast::hash(&summed);
        assert_eq!(line["length"], format!("{:08}", record.len()));
        assert_eq!(line["unsynced"], "00000000");
        assert_eq!(line["crc"], format!("{chain:08x}"));
        assert_eq!(
            line["record"],
            serde_json::from_slice::<serde_json::Value>(&record).unwrap()
        );
        assert_eq!(positions[number + 1].chain, chain);
    }
}

#[test]
fn a_journal_is_read_from_any_position_and_goes_on_behind_its_last_record() {
    let (_place, path) = stage_folder();
    let (_, positions) = closed(&path, 20);
    for (at, from) in positions.iter().enumerate() {
        assert!(has(&*system(), &path, *from).unwrap(), "position {at}");
        let scan = read(&*system(), &path, Some(*from)).unwrap();
        assert_eq!((scan.len(), scan.end), (20 - at, positions[20]));
        assert_prefix(&scan, at as u64);
        let first = journal::read(&*system(), &path, None, at as u64).unwrap();
        assert_eq!((first.len(), first.end), (at, *from));
    }
    let (journal, scan) = Journal::open(
        system(),
        &path,
        Durability::Full,
        Some(positions[7]),
        u64::MAX,
        |_| Ok(()),
    )
    .unwrap();
    assert_eq!((scan.len(), scan.torn), (13, None));
    for number in 20..30 {
        journal.append(&record(number)).unwrap();
    }
    drop(journal);
    let (_, scan) = open(&path).unwrap();
    assert_eq!((scan.len(), scan.torn), (30, None));
    assert_prefix(&scan, 0);
}

#[test]
fn a_position_of_another_journal_is_none_of_this() {
    let (stage_folder, path) = stage_folder();
    let (_, positions) = closed(&path, 20);
    let other = stage_folder.path().join("other");
    let journal = create(system(), &other, Durability::Full);
    journal.append(b"{}").unwrap();
    for number in 0..25 {
        let position = journal.append(&record(number)).unwrap();
        assert!(!has(&*system(), &path, position).unwrap(), "{number}");
    }
    let longest = positions[20];
    for wrong in [
        Position {
            chain: longest.chain ^ 1,
            ..longest
        },
        Position {
            offset: longest.offset - 1,
            ..longest
        },
        Position {
            offset: longest.offset + 1,
            ..longest
        },
        Position { offset: 0, ..longest },
    ] {
        assert!(!has(&*system(), &path, wrong).unwrap(), "{wrong:?}");
    }
}

#[test]
fn a_journal_cut_at_any_length_gives_its_whole_records_and_says_what_was_cut() {
    let (_place, path) = stage_folder();
    let (bytes, positions) = closed(&path, 6);
    for reserved in [0, 5000] {
        for length in 0..bytes.len() {
            let mut cut = bytes[..length].to_vec();
            cut.resize(length + reserved, 0);
            put(&path, &cut);
            let whole = positions
                .iter()
                .filter(|at| 0 < at.offset && at.offset <= length as u64)
                .count();
            let behind = length as u64 - positions[whole].offset;
            let read = read(&*system(), &path, None).unwrap();
            assert_eq!(fs::read(&path).unwrap(), cut, "reading changes nothing");
            let (journal, scan) = open(&path).unwrap();
            for scan in [read, scan] {
                assert_eq!(scan.len(), whole, "{length}");
                assert_prefix(&scan, 0);
                let torn = scan.torn.map(|torn| (torn.line, torn.offset, torn.bytes));
                let expected = (whole as u64 + 1, positions[whole].offset, behind);
                assert_eq!(torn, (behind > 0).then_some(expected), "{length}");
            }
            // The journal continues as if the torn record had never existed.
            journal.append(&record(whole as u64)).unwrap();
            journal.close().unwrap();
            assert_eq!(
                fs::read(&path).unwrap(),
                bytes[..positions[whole + 1].offset as usize]
            );
        }
    }
}

#[test]
fn no_bit_of_a_journal_can_be_changed_unseen() {
    let (_place, path) = stage_folder();
    let (bytes, positions) = closed(&path, 5);
    let mut torn = 0;
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        put(&path, &changed);
        let line = positions
            .iter()
            .filter(|at| at.offset as usize <= bit / 8)
            .count() as u64;
        match read_scan(&path) {
            Err(StoreError::Damaged {
                line: named, offset, ..
            }) => {
                assert_eq!((named, offset), (line, positions[line as usize - 1].offset));
            }
            // A last line without its end looks like an incomplete one.
            Ok(scan) => {
                assert_eq!((scan.len(), line), (4, 5), "bit {bit}");
                assert!(scan.torn.is_some(), "bit {bit}");
                torn += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(torn < 400, "{torn}");
}

#[test]
fn no_random_edit_of_a_journal_is_taken_for_the_truth() {
    let (_place, path) = stage_folder();
    let (bytes, _) = closed(&path, 12);
    let (mut refused, mut shorter) = (0, 0);
    for seed in 0..edits() {
        let mut chance = Chance(seed);
        let mut changed = bytes.clone();
        for _ in 0..=chance.below(2) {
            edit(&mut changed, &mut chance);
        }
        put(&path, &changed);
        match read_scan(&path) {
            Ok(scan) => {
                assert_prefix(&scan, 0);
                let end = scan.end.offset as usize;
                assert_eq!(changed[..end], bytes[..end], "seed {seed}");
                // Only zeros after the records may be ignored silently.
                assert!(
                    scan.torn.is_some() || changed[end..].iter().all(|byte| *byte == 0),
                    "seed {seed}"
                );
                shorter += u64::from(scan.len() < 12);
            }
            Err(error) => {
                assert_eq!(error.code(), "store_damaged", "seed {seed}");
                refused += 1;
            }
        }
    }
    assert!(
        refused > edits() / 2 && shorter > edits() / 20,
        "{refused}, {shorter}"
    );
}

/// Reads like [`read`], but without retries.
fn read_scan(path: &Path) -> Result<Scan, StoreError> {
    let bytes = fs::read(path).unwrap();
    super::super::line::scan(path, bytes, Position::default(), u64::MAX)
}

#[test]
fn a_loss_of_power_costs_no_synced_record_whatever_sectors_it_left_out() {
    let (_place, path) = stage_folder();
    let mut holes = 0;
    for seed in 0..2000 {
        let mut chance = Chance(seed);
        let _ = fs::remove_file(&path);
        let journal = create(system(), &path, Durability::Full);
        let synced = chance.below(12) as u64;
        for number in 0..synced {
            journal.append(&record(number)).unwrap();
            journal.sync().unwrap();
        }
        let durable = journal.position().offset as usize;
        for number in synced..synced + 1 + chance.below(30) as u64 {
            journal.append(&record(number)).unwrap();
        }
        let end = journal.position().offset as usize;
        drop(journal);
        // Some sectors keep their content of the last sync.
        let mut bytes = fs::read(&path).unwrap();
        for sector in durable / 512..=end / 512 {
            if chance.below(2) == 0 {
                let from = (sector * 512).max(durable);
                bytes[from..(sector + 1) * 512].fill(0);
            }
        }
        put(&path, &bytes);
        let (_, scan) = open(&path).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(scan.len() as u64 >= synced, "seed {seed}");
        assert_prefix(&scan, 0);
        holes += u64::from(scan.torn.is_some_and(|torn| torn.bytes > 1024));
    }
    assert!(holes > 200, "{holes}");
}

#[test]
fn a_sector_of_synced_records_that_is_lost_is_damage() {
    let (_place, path) = stage_folder();
    let (bytes, _) = closed(&path, 40);
    for sector in 0..bytes.len() / 512 - 1 {
        let mut changed = bytes.clone();
        changed[sector * 512..(sector + 1) * 512].fill(0);
        put(&path, &changed);
        let error = read(&*system(), &path, None).unwrap_err();
        assert_eq!(error.code(), "store_damaged", "sector {sector}");
    }
}

#[test]
fn the_message_of_a_damaged_journal_says_where_and_how_to_mend_it() {
    let (_place, path) = stage_folder();
    let (mut bytes, positions) = closed(&path, 5);
    let at = positions[3].offset as usize + 90;
    bytes[at] = b'?';
    put(&path, &bytes);
    let message = read(&*system(), &path, None).unwrap_err().to_string();
    for part in [
        &format!(
            "journal.jsonl` is damaged at line 4 (byte {}): expected the checksum `",
            positions[3].offset
        ),
        "what comes before is sound: replay the run from `cp_000002` or earlier, or restore the file from a copy",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // The records before the damage can be read.
    assert_eq!(journal::read(&*system(), &path, None, 3).unwrap().len(), 3);
}

#[test]
fn a_failed_call_ends_the_journal_with_the_records_before_it() {
    let failing = Arc::new(Failing::default());
    let (_place, path) = stage_folder();
    for error in [ENOSPC, EIO, EROFS] {
        for fails_at in 1.. {
            for lasting in [false, true] {
                let _ = fs::remove_file(&path);
                failing.set(fails_at, if lasting { usize::MAX } else { fails_at }, error);
                let mut written = 0;
                let mut first = None;
                if let Ok(journal) = Journal::create(failing.clone(), &path, Durability::Full) {
                    for number in 0..6 {
                        let done = journal.append(&record(number)).and_then(|_| journal.sync());
                        match (done, &first) {
                            (Ok(()), None) => written += 1,
                            (Ok(()), Some(_)) => panic!("it went on after a failure"),
                            (Err(error), None) => first = Some(error.to_string()),
                            (Err(error), Some(first)) => assert_eq!(error.to_string(), *first),
                        }
                    }
                    let closed = journal.close();
                    assert!(first.is_none() || closed.is_err());
                }
                failing.set(0, 0, 0);
                if path.exists() {
                    let (journal, scan) = open(&path).unwrap();
                    assert!(scan.len() >= written, "call {fails_at}");
                    assert_prefix(&scan, 0);
                    journal.append(&record(scan.len() as u64)).unwrap();
                }
            }
            // 1 make, 2 reserve, and for each record a write and a sync; then set_length and sync.
            if fails_at > 2 + 12 + 2 {
                break;
            }
        }
    }
}

#[test]
fn a_file_system_that_cannot_reserve_space_is_written_all_the_same() {
    let failing = Arc::new(Failing::default());
    let (_place, path) = stage_folder();
    failing.set(2, 2, 95);
    let journal = create(failing.clone(), &path, Durability::Full);
    for number in 0..100 {
        journal.append(&record(number)).unwrap();
        journal.sync().unwrap();
    }
    assert_eq!(failing.count("reserve"), 1);
    assert_eq!(fs::metadata(&path).unwrap().len(), journal.position().offset);
    assert_eq!(read(&*system(), &path, None).unwrap().len(), 100);
}

#[test]
fn only_full_durability_waits_for_the_disk_and_only_for_what_is_new() {
    let failing = Arc::new(Failing::default());
    for (level, syncs) in [(Durability::Full, 1), (Durability::Process, 0)] {
        let (_place, path) = stage_folder();
        failing.set(0, 0, 0);
        let journal = create(failing.clone(), &path, level);
        journal.append(b"{}").unwrap();
        journal.append(b"{}").unwrap();
        journal.sync().unwrap();
        journal.sync().unwrap();
        assert_eq!(failing.count("sync_data"), syncs);
        assert_eq!(failing.count("write"), 2);
    }
}

#[test]
fn space_is_reserved_ahead_and_cut_off_at_the_end() {
    let (_place, path) = stage_folder();
    let journal = create(system(), &path, Durability::Process);
    journal.append(b"{}").unwrap();
    let length = || fs::metadata(&path).unwrap().len();
    assert_eq!(length(), 64 << 10);
    let large = format!("{{\"text\":\"{}\"}}", "y".repeat(200_000)).into_bytes();
    journal.append(&large).unwrap();
    assert_eq!(length(), (64 << 10) + (256 << 10));
    assert_eq!(read(&*system(), &path, None).unwrap().len(), 2);
    journal.close().unwrap();
    assert_eq!(length(), journal.position().offset);
    assert_eq!(journal.append(b"{}").unwrap_err().code(), "store_io");
}

#[test]
fn a_record_of_more_than_one_line_or_too_long_is_refused_and_harms_nothing() {
    let (_place, path) = stage_folder();
    let journal = create(system(), &path, Durability::Full);
    assert!(journal.append(b"{\n}").is_err());
    assert_eq!(
        journal.append(&vec![b'1'; 100_000_000]).unwrap_err().code(),
        "store_too_large"
    );
    journal.append(b"{}").unwrap();
    assert_eq!(read(&*system(), &path, None).unwrap().len(), 1);
}
