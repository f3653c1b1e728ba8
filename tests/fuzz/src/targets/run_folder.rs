//! What lies in a run folder: journal, checkpoint, manifest, events; and a whole run that is taken up again.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use orchestra_engine::fuzzing;
use orchestra_engine::{
    Access, Answer, Engine, FileSystem, OpenFile, Outcome, PausedRun, RunFolder, Script, StoreError,
    SystemFiles,
};
use orchestra_graph::{LoadOptions, Source, load};
use orchestra_sessions::SessionIndex;
use serde_json::Value;
use tempfile::TempDir;

use super::{Target, chance_of};
use crate::Random;
use crate::generate::json;

/// The files of a run that waits at a gate.
struct Fixture {
    manifest: Vec<u8>,
    checkpoint: Vec<u8>,
    journal: Vec<u8>,
    events: Vec<u8>,
    _place: TempDir,
    folder: PathBuf,
}

const PIPELINE: &str = "digraph {
    start -> plan -> fan; fan [shape=component]; fan -> one -> join; fan -> two -> join; join [shape=tripleoctagon]
    join -> gate; gate [shape=hexagon]; gate -> plan [label=\"[N] No\"]; gate -> exit [label=\"[Y] Yes\"]
}";

/// A folder for files that are gone after the test; in memory where the system has such a place.
fn dir() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    made.expect("a folder")
}

fn runtime() -> tokio::runtime::Runtime {
    let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.expect("a runtime")
}

/// Syncs nothing: nobody cuts the power of a fuzz run.
struct Quick;

impl FileSystem for Quick {
    fn make_folder(&self, path: &Path) -> std::io::Result<()> {
        SystemFiles.make_folder(path)
    }
    fn open(&self, path: &Path, access: Access) -> std::io::Result<OpenFile> {
        SystemFiles.open(path, access)
    }
    fn write_at(&self, file: &OpenFile, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        SystemFiles.write_at(file, bytes, offset)
    }
    fn reserve(&self, file: &OpenFile, offset: u64, length: u64) -> std::io::Result<()> {
        SystemFiles.reserve(file, offset, length)
    }
    fn set_length(&self, file: &OpenFile, length: u64) -> std::io::Result<()> {
        SystemFiles.set_length(file, length)
    }
    fn sync_data(&self, _: &OpenFile) -> std::io::Result<()> {
        Ok(())
    }
    fn sync_all(&self, _: &OpenFile) -> std::io::Result<()> {
        Ok(())
    }
    fn sync_folder(&self, _: &Path) -> std::io::Result<()> {
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        SystemFiles.rename(from, to)
    }
    fn remove(&self, path: &Path) -> std::io::Result<()> {
        SystemFiles.remove(path)
    }
    fn try_lock(&self, file: &OpenFile) -> std::io::Result<bool> {
        SystemFiles.try_lock(file)
    }
    fn links(&self, file: &OpenFile) -> std::io::Result<u64> {
        SystemFiles.links(file)
    }
}

fn engine() -> Engine {
    let script = Script::new().outcomes(
        "plan",
        [Outcome::success().set("steps", serde_json::json!(["a", {"b": 1}]))],
    );
    let built = Engine::builder().files(Arc::new(Quick)).simulate(script).build();
    built.expect("an engine")
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let dir = dir();
    let folder = dir.path().join("nightly");
    let pipeline = load(Source::new("flow.dot", PIPELINE), &LoadOptions::default()).pipeline();
    runtime().block_on(async {
        let start = engine().start(pipeline.expect("it is sound"), ());
        let run = start.run_dir(&folder).await.expect("it starts");
        while run.questions().is_empty() {
            tokio::task::yield_now().await;
        }
        run.pause("the shop closes");
        run.wait().await.expect("it pauses")
    });
    let read = |name: &str| fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    Fixture {
        manifest: read("manifest.json"),
        checkpoint: read("checkpoint.json"),
        journal: read("journal.jsonl"),
        events: read("events.jsonl"),
        folder: folder.clone(),
        _place: dir,
    }
});

/// The line of a journal, as the format says: written here once more, so that both must agree.
fn line(record: &[u8], unsynced: u64, chain: u32) -> (Vec<u8>, u32) {
    let unsynced = format!("{unsynced:08}");
    let sum = crc32fast::hash(&[&chain.to_be_bytes(), unsynced.as_bytes(), record].concat());
    let head = format!(
        "{{\"length\":\"{:08}\",\"unsynced\":\"{unsynced}\",\"crc\":\"{sum:08x}\",\"record\":",
        record.len()
    );
    ([head.as_bytes(), record, b"}\n"].concat(), sum)
}

/// The records at the beginning of a journal whose lines are whole and in their places.
fn sound_records(journal: &[u8]) -> Vec<&[u8]> {
    let (mut found, mut chain, mut rest) = (Vec::new(), 0, journal);
    loop {
        let number = |from: usize| {
            std::str::from_utf8(rest.get(from..from + 8)?)
                .ok()?
                .parse::<u64>()
                .ok()
        };
        let (Some(length), Some(unsynced)) = (number(11), number(33)) else {
            return found;
        };
        let begin = line(b"", 0, 0).0.len() - 2;
        let Some(record) = rest.get(begin..begin + length as usize) else {
            return found;
        };
        let (expected, sum) = line(record, unsynced, chain);
        if !rest.starts_with(&expected) {
            return found;
        }
        found.push(record);
        chain = sum;
        rest = &rest[expected.len()..];
    }
}

/// A journal of records that are sealed as they should be.
fn sealed_journal<'r>(records: impl IntoIterator<Item = &'r [u8]>) -> Vec<u8> {
    let (mut journal, mut chain) = (Vec::new(), 0);
    for record in records {
        let (line, sum) = line(record, 0, chain);
        journal.extend_from_slice(&line);
        chain = sum;
    }
    journal
}

/// Some records of a journal, changed but sealed.
fn other_journal(random: &mut Random) -> Vec<u8> {
    let mut records: Vec<Vec<u8>> = sound_records(&FIXTURE.journal)
        .into_iter()
        .map(<[u8]>::to_vec)
        .collect();
    for _ in 0..1 + random.below(3) {
        let at = random.below(records.len().max(1));
        let Some(record) = records.get(at).cloned() else {
            break;
        };
        match random.below(6) {
            0 => drop(records.remove(at)),
            1 => records.insert(at, record),
            2 => records.truncate(at),
            3 => {
                let other = random.below(records.len());
                records.swap(at, other);
            }
            _ => records[at] = varied(&record, random),
        }
    }
    sealed_journal(records.iter().map(Vec::as_slice))
}

fn varied(text: &[u8], random: &mut Random) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(text) else {
        return text.to_vec();
    };
    for _ in 0..1 + random.below(3) {
        json::vary(&mut value, random);
    }
    value.to_string().into_bytes()
}

/// The journal: what is accepted is what the format says by a second reading of it, and bytes are lost only at the end.
pub(super) const JOURNAL: Target = Target {
    name: "journal",
    run: journal,
    generate: other_journal,
    corpus: || vec![FIXTURE.journal.clone()],
    words: &[
        "{\"length\":\"",
        "\",\"unsynced\":\"00000000",
        "\",\"crc\":\"",
        "\",\"record\":",
        "}\n",
        "\0\0\0\0",
        "99999999",
        "00000000",
    ],
    suite: 3_000,
    share: 1,
};

fn journal(input: &[u8]) {
    let expected = sound_records(input);
    match fuzzing::journal(input) {
        Ok((records, torn)) => {
            assert_eq!(records, expected, "records that are accepted");
            // Zeros are reserved space; what else is left is said to be torn.
            let read: usize = records.iter().map(|record| line(record, 0, 0).0.len()).sum();
            let left = input[read..]
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |last| last + 1);
            assert_eq!(left as u64, torn, "bytes behind the records");
            assert!(
                torn == 0 || !ends_a_line(&input[read..read + left]),
                "a whole line is taken for a torn one"
            );
        }
        Err(StoreError::Damaged { line, .. }) => {
            assert_eq!(line, expected.len() as u64 + 1, "the line of the damage")
        }
        Err(other) => panic!("{other}"),
    }
}

/// Whether a single line that is complete and without holes is all that is left.
fn ends_a_line(left: &[u8]) -> bool {
    left.iter().filter(|byte| **byte == b'\n').count() == 1 && left.ends_with(b"\n") && !left.contains(&0)
}

/// Seals the text of an object as the engine does.
fn sealed(value: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.truncate(text.len().saturating_sub(2));
    text.extend_from_slice(b",\n");
    let sum = crc32fast::hash(&text);
    text.extend_from_slice(format!("\"checksum\":\"crc32:{sum:08x}\"}}\n").as_bytes());
    text
}

/// Whether a text ends with the checksum of what is before.
fn is_sealed(text: &[u8]) -> bool {
    let Some(body) = text.strip_suffix(b"\n") else {
        return false;
    };
    let start = body
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let sum = crc32fast::hash(&text[..start]);
    text[start..] == *format!("\"checksum\":\"crc32:{sum:08x}\"}}\n").as_bytes()
}

fn other_sealed(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(text).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("checksum");
    }
    for _ in 0..random.below(4) {
        json::vary(&mut value, random);
    }
    sealed(&value)
}

/// Checkpoints: one that is accepted bears the right checksum.
pub(super) const CHECKPOINT: Target = Target {
    name: "checkpoint",
    run: |input| {
        if fuzzing::checkpoint(input).is_ok() {
            assert!(is_sealed(input), "a checkpoint without its checksum is accepted");
        }
    },
    generate: |random| other_sealed(&FIXTURE.checkpoint, random),
    corpus: || vec![FIXTURE.checkpoint.clone()],
    words: json::WORDS,
    suite: 2_000,
    share: 1,
};

/// Manifests: one that is accepted bears the right checksum, or none at all.
pub(super) const MANIFEST: Target = Target {
    name: "manifest",
    run: |input| {
        if fuzzing::manifest(input).is_ok() {
            let has_checksum = input
                .split(|byte| *byte == b'\n')
                .any(|line| line.starts_with(b"\"checksum\":"));
            assert!(
                is_sealed(input) || !has_checksum,
                "a manifest with another checksum is accepted"
            );
        }
    },
    generate: |random| other_sealed(&FIXTURE.manifest, random),
    corpus: || vec![FIXTURE.manifest.clone()],
    words: json::WORDS,
    suite: 2_000,
    share: 1,
};

/// The outcome that a stage wrote, and the data in a response: what is understood can be written and read again.
pub(super) const STAGE_STATUS: Target = Target {
    name: "stage_status",
    run: stage_status,
    generate: |random| {
        let mut value = serde_json::json!({"outcome": "success", "preferred_label": "Yes", "suggested_next_ids": ["a"],
            "context_updates": {"a": 1}, "notes": "done", "failure_category": "retryable", "retry_after_ms": 500});
        for _ in 0..random.below(4) {
            json::vary(&mut value, random);
        }
        let text = value.to_string();
        match random.below(3) {
            0 => format!("Here:\n```json\n{text}\n```\n").into_bytes(),
            _ => text.into_bytes(),
        }
    },
    corpus: super::no_corpus,
    words: &[
        "```",
        "```json\n",
        "~~~json",
        "````",
        "{",
        "}",
        "\"outcome\":",
        "\"status\":",
        "\"retry_after_ms\":",
        "\n",
        "null",
    ],
    suite: 4_000,
    share: 1,
};

fn stage_status(input: &[u8]) {
    match fuzzing::stage_status(input) {
        Ok(outcome) => {
            let written = serde_json::to_vec(&outcome).expect("it is data");
            let again = fuzzing::stage_status(&written);
            assert_eq!(again, Ok(outcome), "{}", String::from_utf8_lossy(&written));
        }
        Err(reported) => assert!(!reported.contains('\n'), "{reported:?} is not one line"),
    }
    if let Err(reported) = fuzzing::output_object(&String::from_utf8_lossy(input)) {
        assert!(!reported.contains('\n') && reported.len() < 2_000, "{reported:?}");
    }
}

/// A run that is taken up after one of its files was replaced: a typed error, or a run that goes on. Of a checkpoint
/// without its checksum nothing is used: the run goes on as it would without damage. Journals that are damaged are
/// refused, but for what is before a checkpoint.
pub(super) const RECOVERY: Target = Target {
    name: "recovery",
    run: recovery,
    generate: |random| {
        let kind = random.below(4) as u8;
        let text = match kind {
            0 | 3 => other_journal(random),
            1 => other_sealed(&FIXTURE.checkpoint, random),
            _ => other_sealed(&FIXTURE.manifest, random),
        };
        [&[b'0' + kind], &text[..]].concat()
    },
    corpus: || {
        let all = [
            &FIXTURE.journal,
            &FIXTURE.checkpoint,
            &FIXTURE.manifest,
            &FIXTURE.journal,
        ];
        all.into_iter()
            .enumerate()
            .map(|(kind, text)| [&[b'0' + kind as u8], &text[..]].concat())
            .collect()
    },
    words: json::WORDS,
    suite: 150,
    share: 20,
};

fn recovery(input: &[u8]) {
    let fixture = &*FIXTURE;
    let (kind, text) = input
        .split_first()
        .map_or((0, input), |(kind, rest)| (kind % 4, rest));
    let dir = dir();
    let folder = dir.path().join("nightly");
    copy(&fixture.folder, &folder);
    let name = [
        "journal.jsonl",
        "checkpoint.json",
        "manifest.json",
        "journal.jsonl",
    ][usize::from(kind)];
    fs::write(folder.join(name), text).expect("it can be written");
    if kind == 3 {
        fs::remove_file(folder.join("checkpoint.json")).expect("it is there");
    }
    let choice = if chance_of(input).chance(50) { "Y" } else { "N" };
    let answered = answered(&folder, choice);
    if answered.is_ok() {
        match kind {
            3 => assert!(
                fuzzing::journal(text).is_ok(),
                "a run goes on with a journal that is damaged"
            ),
            // What is before a checkpoint is not read again.
            0 if fuzzing::journal(text).is_ok() => {}
            1 if is_sealed(text) => {}
            0 | 1 => assert_eq!(
                answered,
                UNDAMAGED[usize::from(choice == "N")],
                "with a damaged file"
            ),
            _ => {}
        }
    } else if text == [&fixture.journal, &fixture.checkpoint, &fixture.manifest][usize::from(kind % 3)]
        && kind < 3
    {
        panic!("the files are as they were: {answered:?}");
    }
}

/// What comes of the run without damage, by answer.
static UNDAMAGED: LazyLock<[Result<Vec<String>, String>; 2]> = LazyLock::new(|| {
    ["Y", "N"].map(|choice| {
        let dir = dir();
        copy(&FIXTURE.folder, &dir.path().join("nightly"));
        answered(&dir.path().join("nightly"), choice)
    })
});

/// The path of a run after its gate was answered, or the code of an error.
fn answered(folder: &Path, choice: &str) -> Result<Vec<String>, String> {
    runtime().block_on(async {
        let run = PausedRun::open(folder).map_err(|error| error.code().to_owned())?;
        let result = run.answer("gate", Answer::choice(choice)).await;
        let result = result.map_err(|error| error.code().to_owned())?;
        Ok(result.path.iter().map(ToString::to_string).collect())
    })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a kind").is_dir() {
            copy(&entry.path(), &target)
        } else {
            fs::copy(entry.path(), target).expect("it can be copied");
        }
    }
}

/// Events: those who look at a run folder get the lines or an error with a place; the index of runs takes in what it
/// can, counts the rest, and is the same when it is made from scratch.
pub(super) const EVENTS: Target = Target {
    name: "events",
    run: events,
    generate: |random| {
        let lines = FIXTURE.events.split_inclusive(|byte| *byte == b'\n');
        let mut text = Vec::new();
        for line in lines {
            match random.below(12) {
                0 => {}
                1 => text.extend_from_slice(&[line, line].concat()),
                2 => text.extend_from_slice(&[&varied(line, random)[..], b"\n"].concat()),
                _ => text.extend_from_slice(line),
            }
        }
        text
    },
    corpus: || vec![FIXTURE.events.clone()],
    words: json::WORDS,
    suite: 100,
    share: 50,
};

thread_local! {
    /// A folder of runs with one run, whose events are replaced for each input.
    static RUNS: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

fn events(input: &[u8]) {
    let runs = RUNS.take().unwrap_or_else(|| {
        let dir = dir();
        let folder = dir.path().join("nightly");
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("manifest.json"), &FIXTURE.manifest).expect("it can be written");
        dir
    });
    let folder = runs.path().join("nightly");
    fs::write(folder.join("events.jsonl"), input).expect("it can be written");
    let _ = RunFolder::open(&folder).and_then(|run| run.events(1));
    let read = || {
        let index = SessionIndex::open(runs.path()).expect("an index");
        index.rebuild().expect("it is made anew");
        let session = index.run("nightly").expect("the run is there");
        let stages = index.stages("nightly").expect("stages");
        let transitions = index.transitions("nightly").expect("transitions");
        let calls = index.tool_calls("nightly").expect("calls");
        let totals = index.node_totals("nightly").expect("totals");
        format!("{session:?}{stages:?}{transitions:?}{calls:?}{totals:?}")
    };
    assert_eq!(read(), read(), "the index, made twice");
    RUNS.set(Some(runs));
}
