//! Tests of run folders with inconsistent files: a journal that is cut, emptied or of another run, and the same for
//! manifests, checkpoints and events. A finished stage is never silently run again or skipped.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use orchestra_engine::{Engine, Outcome, ResumeBuilder, RunFolder};
use orchestra_graph::Pipeline;
use support::{Acts, acts};

const GRAPH: &str = "start -> a -> b -> c -> exit";
const OTHER: &str = "start -> a -> b -> c -> d -> exit";

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Returns stages that record that they ran. One of them may never end.
fn noting(ran: &Arc<Mutex<Vec<String>>>, stuck: &'static str) -> Acts {
    let mut all = Acts::new();
    for node in ["a", "b", "c", "d"] {
        let ran = ran.clone();
        all = all.on(node, move |_| {
            ran.lock().unwrap().push(node.to_owned());
            async move {
                if node == stuck {
                    std::future::pending::<()>().await;
                }
                Outcome::success().set(node, "done")
            }
        });
    }
    all
}

/// Creates a run whose process ended while a stage was in flight. It has a checkpoint if it was paused once.
fn left(folder: &Path, graph: &str, stuck: &'static str, paused_at: Option<&'static str>) {
    if let Some(paused) = paused_at {
        let ran: Arc<Mutex<Vec<String>>> = Arc::default();
        runtime().block_on(async {
            let start = Engine::builder()
                .build()
                .unwrap()
                .start(acts(graph), noting(&ran, paused));
            let run = start.run_dir(folder).run_id("same").await.unwrap();
            while ran.lock().unwrap().last().is_none_or(|last| last != paused) {
                tokio::task::yield_now().await;
            }
            run.pause("a test");
            run.wait().await.unwrap();
        });
    }
    let ran: Arc<Mutex<Vec<String>>> = Arc::default();
    let runtime = runtime();
    runtime.block_on(async {
        let engine = Engine::builder().build().unwrap();
        let _run = match paused_at {
            Some(_) => engine
                .resume(folder, acts(graph), noting(&ran, stuck))
                .await
                .unwrap(),
            None => {
                let start = engine.start(acts(graph), noting(&ran, stuck));
                start.run_dir(folder).run_id("same").await.unwrap()
            }
        };
        while ran.lock().unwrap().last().is_none_or(|last| last != stuck) {
            tokio::task::yield_now().await;
        }
    });
    // Drop everything without an orderly end.
    drop(runtime);
}

/// Resumes a run. Returns the stages that ran, or the code and text of the error.
fn go_on_with(
    folder: &Path,
    pipeline: Pipeline,
    how: impl FnOnce(ResumeBuilder) -> ResumeBuilder,
) -> Result<Vec<String>, (String, String)> {
    let ran: Arc<Mutex<Vec<String>>> = Arc::default();
    runtime().block_on(async {
        let engine = Engine::builder().build().unwrap();
        let resume = how(engine.resume(folder, pipeline, noting(&ran, "")));
        let said = |code: &str, text: String| (code.to_owned(), text);
        let run = resume
            .await
            .map_err(|error| said(error.code(), error.to_string()))?;
        let result = run
            .wait()
            .await
            .map_err(|error| said(error.code(), error.to_string()))?;
        assert_eq!(result.path, ["start", "a", "b", "c", "exit"]);
        for node in ["a", "b", "c"] {
            assert_eq!(result.context.text(node), "done", "{node}");
        }
        Ok::<(), (String, String)>(())
    })?;
    let ran = ran.lock().unwrap().clone();
    Ok(ran)
}

fn go_on(folder: &Path) -> Result<Vec<String>, (String, String)> {
    go_on_with(folder, acts(GRAPH), |resume| resume)
}

fn accept_loss(folder: &Path) -> Result<Vec<String>, (String, String)> {
    go_on_with(folder, acts(GRAPH), ResumeBuilder::accept_loss)
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target)
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Returns the lines of a journal without its preallocated space.
fn lines(folder: &Path) -> Vec<Vec<u8>> {
    let mut text = fs::read(folder.join("journal.jsonl")).unwrap();
    text.truncate(
        text.iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1),
    );
    text.split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

struct Scratch {
    _folder: tempfile::TempDir,
    /// The original run folder, left while `c` ran.
    whole: PathBuf,
    work: PathBuf,
}

/// Creates a folder in memory if the system supports it. These tests write a lot and do not simulate a loss of power.
fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

fn dir(paused_at: Option<&'static str>) -> Scratch {
    let folder = tempdir();
    let whole = folder.path().join("whole");
    left(&whole, GRAPH, "c", paused_at);
    Scratch {
        work: folder.path().join("work"),
        whole,
        _folder: folder,
    }
}

/// Asserts that a resumed run did not repeat or skip finished stages, or that the loss was reported.
#[track_caller]
fn assert_honest(ended: &Result<Vec<String>, (String, String)>, what: &str) {
    match ended {
        Ok(ran) => assert_eq!(
            *ran,
            ["c"],
            "{what}: finished stages ran again, or were passed over"
        ),
        Err((code, _)) => assert!(
            [
                "journal_cut",
                "store_damaged",
                "store_foreign",
                "store_no_run",
                "store_not_plain"
            ]
            .contains(&&**code),
            "{what}: {ended:?}"
        ),
    }
}

#[test]
fn a_journal_that_was_cut_at_any_record_is_refused_and_names_what_proves_it() {
    for paused_at in [None, Some("b")] {
        let dir = dir(paused_at);
        let lines = lines(&dir.whole);
        let mut refused = 0;
        for kept in 0..lines.len() {
            copy(&dir.whole, &dir.work);
            fs::write(dir.work.join("journal.jsonl"), lines[..kept].concat()).unwrap();
            let ended = go_on(&dir.work);
            assert_honest(
                &ended,
                &format!("{kept} of {} records, {paused_at:?}", lines.len()),
            );
            if let Err((code, text)) = &ended {
                assert_eq!(code, "journal_cut");
                let said = format!("ends behind record {kept}, but `");
                assert!(text.contains(&said) && text.contains("accept the loss"), "{text}");
                refused += 1;
                // Nothing was written: the run is refused again, and it resumes once the journal is restored.
                assert_eq!(go_on(&dir.work).unwrap_err().0, "journal_cut");
                fs::write(dir.work.join("journal.jsonl"), lines.concat()).unwrap();
                assert_eq!(go_on(&dir.work), Ok(vec!["c".to_owned()]));
            }
        }
        assert!(refused >= lines.len() - 2, "{refused} of {}", lines.len());
    }
}

#[test]
fn a_journal_that_was_cut_at_any_byte_loses_no_finished_stage_in_silence() {
    let dir = dir(None);
    let whole = lines(&dir.whole).concat();
    // Test each byte of the last two records, and some of the others.
    for length in (0..whole.len()).filter(|length| length % 37 == 0 || whole.len() - length < 400) {
        copy(&dir.whole, &dir.work);
        fs::write(dir.work.join("journal.jsonl"), &whole[..length]).unwrap();
        assert_honest(&go_on(&dir.work), &format!("{length} of {} bytes", whole.len()));
    }
}

#[test]
fn a_record_that_is_left_out_doubled_or_moved_is_refused() {
    for paused_at in [None, Some("b")] {
        let dir = dir(paused_at);
        let lines = lines(&dir.whole);
        for at in 0..lines.len() {
            let mut without = lines.clone();
            without.remove(at);
            let mut doubled = lines.clone();
            doubled.insert(at, lines[at].clone());
            let mut moved = lines.clone();
            moved.swap(at, (at + 1) % lines.len());
            for (changed, what) in [(without, "left out"), (doubled, "doubled"), (moved, "moved")] {
                if changed == lines {
                    continue;
                }
                copy(&dir.whole, &dir.work);
                fs::write(dir.work.join("journal.jsonl"), changed.concat()).unwrap();
                assert_honest(&go_on(&dir.work), &format!("record {at} {what}, {paused_at:?}"));
            }
        }
    }
}

#[test]
fn files_of_another_run_are_refused_by_name() {
    let dir = dir(Some("b"));
    let others = tempdir();
    // Of the same pipeline and of another one, both with the same run name.
    for (graph, at) in [(GRAPH, "c"), (OTHER, "d")] {
        let other = others.path().join(at);
        left(&other, graph, at, Some("b"));
        for names in [
            &["journal.jsonl"][..],
            &["manifest.json"],
            &["checkpoint.json"],
            &["journal.jsonl", "checkpoint.json"],
            &["journal.jsonl", "events.jsonl"],
            &["journal.jsonl", "checkpoint.json", "events.jsonl"],
            &["manifest.json", "checkpoint.json"],
            &["manifest.json", "journal.jsonl"],
        ] {
            copy(&dir.whole, &dir.work);
            for name in names {
                fs::copy(other.join(name), dir.work.join(name)).unwrap();
            }
            let (code, text) = go_on_with(&dir.work, acts(GRAPH), ResumeBuilder::accept_changes).unwrap_err();
            assert_eq!(code, "store_foreign", "{graph} {names:?}: {text}");
            assert!(text.contains("belongs to the run `same` ("), "{text}");
        }
    }
    // Of a run with another name.
    let other = others.path().join("named");
    runtime().block_on(async {
        let start = Engine::builder().build().unwrap().start(acts(GRAPH), Acts::new());
        start
            .run_dir(&other)
            .run_id("other")
            .await
            .unwrap()
            .wait()
            .await
            .unwrap();
    });
    for name in [
        "journal.jsonl",
        "manifest.json",
        "checkpoint.json",
        "events.jsonl",
    ] {
        copy(&dir.whole, &dir.work);
        fs::copy(other.join(name), dir.work.join(name)).unwrap();
        let (code, text) = go_on(&dir.work).unwrap_err();
        assert_eq!(code, "store_foreign", "{name}: {text}");
        assert!(text.contains("the run `other`"), "{text}");
    }
}

#[test]
fn a_loss_that_is_accepted_goes_on_from_the_latest_state_that_is_left() {
    let dir = dir(Some("b"));
    let all = lines(&dir.whole);
    // The checkpoint was written before `b` had ended, so only `b` and `c` are missing, whatever the journal contains.
    type Change = fn(&Path, &[Vec<u8>]);
    let changes: [(&str, Change); 4] = [
        ("emptied", |path, _| fs::write(path, "").unwrap()),
        ("removed", |path, _| fs::remove_file(path).unwrap()),
        ("cut", |path, all| fs::write(path, all[..1].concat()).unwrap()),
        ("damaged", |path, all| {
            let mut bytes = all.concat();
            bytes[all[0].len() + 150] ^= 1;
            fs::write(path, bytes).unwrap();
        }),
    ];
    for (what, change) in changes {
        copy(&dir.whole, &dir.work);
        change(&dir.work.join("journal.jsonl"), &all);
        // Resume twice, because the first attempt may have ended right after the record of the restored state.
        let refused = go_on(&dir.work);
        if what == "damaged" && refused.is_ok() {
            continue;
        }
        assert!(refused.is_err(), "{what}");
        assert_eq!(
            accept_loss(&dir.work),
            Ok(vec!["b".to_owned(), "c".to_owned()]),
            "{what}"
        );
        let events = RunFolder::open(&dir.work).unwrap().events(1).unwrap();
        let resumed = events
            .iter()
            .rev()
            .find(|event| event["event"] == "PipelineResumed")
            .unwrap();
        assert!(
            resumed["repaired"].to_string().contains("a loss was accepted"),
            "{what}: {resumed}"
        );
        assert_eq!(go_on(&dir.work).unwrap_err().0, "already_finished", "{what}");
    }
    // Without a checkpoint, everything that the journal has lost is done again.
    let dir = self::dir(None);
    let all = lines(&dir.whole);
    copy(&dir.whole, &dir.work);
    fs::write(dir.work.join("journal.jsonl"), all[..1].concat()).unwrap();
    assert_eq!(
        accept_loss(&dir.work),
        Ok(["a", "b", "c"].map(str::to_owned).to_vec())
    );
}

#[test]
fn a_replay_of_a_run_is_a_run_of_its_own() {
    let dir = dir(None);
    let again = dir.work.with_file_name("again");
    let ran: Arc<Mutex<Vec<String>>> = Arc::default();
    runtime().block_on(async {
        let engine = Engine::builder().build().unwrap();
        let replay = engine.replay(&dir.whole, "a#1/1", acts(GRAPH), noting(&ran, "c"));
        let run = replay.run_dir(&again).await.unwrap();
        while ran.lock().unwrap().last().is_none_or(|last| last != "c") {
            tokio::task::yield_now().await;
        }
        drop(run);
    });
    assert_eq!(*ran.lock().unwrap(), ["b", "c"]);
    // The replay can be resumed, but not with the journal of its original run.
    copy(&again, &dir.work);
    fs::copy(dir.whole.join("journal.jsonl"), dir.work.join("journal.jsonl")).unwrap();
    assert_eq!(go_on(&dir.work).unwrap_err().0, "store_foreign");
    assert_eq!(go_on(&again), Ok(vec!["c".to_owned()]));
}
