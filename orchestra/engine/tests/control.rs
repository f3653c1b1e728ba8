//! Answering, pausing and cancelling a run from another process.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use orchestra_engine::{
    Answer, AnswerError, AnsweredBy, Clock, ControlClient, ControlError, ControlRefusal, ControlReply,
    ControlRequest, Controlled, Engine, Mailbox, Question, RunHandle, RunResult, RunStatus, Sleep,
    SystemClock, Timestamp,
};
use serde_json::{Value, json};
use support::pipeline;

const GATES: &str = "digraph t { start -> first; first [shape=hexagon, label=\"Ship it?\"]
    first -> second [label=\"[Y] Yes\"]; first -> exit [label=\"[N] No\"]
    second [shape=hexagon]; second -> exit [label=\"[D] Done\"] }";
/// The name of the variable that turns the test `helper_client` into a client.
const CLIENT: &str = "HELPER_CLIENT_RUN_DIR";

/// A run with two gates that other processes may answer.
async fn start(place: &Path) -> (RunHandle, PathBuf) {
    let engine = Engine::builder().runs_dir(place).build().unwrap();
    let run = engine
        .start_loaded(pipeline(GATES), ())
        .run_id("one")
        .await
        .unwrap();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    let run_dir = run.run_dir().unwrap().to_owned();
    (run, run_dir)
}

fn client(run_dir: &Path) -> ControlClient {
    ControlClient::of(run_dir)
        .unwrap()
        .patience(Duration::from_secs(60))
}

/// Calls what waits beside the runtime.
async fn ask<T: Send + 'static>(run_dir: &Path, ask: impl FnOnce(ControlClient) -> T + Send + 'static) -> T {
    let client = client(run_dir);
    tokio::task::spawn_blocking(move || ask(client)).await.unwrap()
}

fn inbox(run_dir: &Path) -> PathBuf {
    run_dir.join("control-inbox")
}

/// What lies in the inbox.
fn left(run_dir: &Path) -> Vec<String> {
    support::files(&inbox(run_dir))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_are_shown_and_answered_from_outside() {
    let place = tempfile::tempdir().unwrap();
    let (run, run_dir) = start(place.path()).await;
    let shown = ask(&run_dir, |client| client.questions().unwrap()).await;
    assert_eq!(shown, run.questions());
    assert_eq!(shown[0].text, "Ship it?");
    let refused = ask(&run_dir, |client| client.answer("first", "Maybe").unwrap_err()).await;
    assert_eq!(refused.code(), "answer_refused");
    assert_eq!(
        refused.to_string(),
        "`Maybe` is none of the answers: [Y] Yes, [N] No"
    );
    ask(&run_dir, |client| client.answer("first", "y").unwrap()).await;
    let late = ask(&run_dir, |client| client.answer("first", "n").unwrap_err()).await;
    assert_eq!(late.code(), "no_question");
    let second = loop {
        match &run.questions()[..] {
            [open] => break open.id.clone(),
            _ => tokio::task::yield_now().await,
        }
    };
    ask(&run_dir, move |client| client.answer(second, "Done").unwrap()).await;
    let result = run.wait().await.unwrap();
    assert_eq!(result.path, ["start", "first", "second", "exit"]);
    assert!(left(&run_dir).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_cancelled_from_outside() {
    let place = tempfile::tempdir().unwrap();
    let (run, run_dir) = start(place.path()).await;
    ask(&run_dir, |client| client.cancel("not needed any more").unwrap()).await;
    let result = run.wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Cancelled);
    assert!(
        result
            .failure
            .unwrap()
            .to_string()
            .contains("not needed any more")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_paused_from_outside() {
    let place = tempfile::tempdir().unwrap();
    let (run, run_dir) = start(place.path()).await;
    ask(&run_dir, |client| client.pause("lunch").unwrap()).await;
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Paused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_has_ended_says_so() {
    let place = tempfile::tempdir().unwrap();
    let (run, run_dir) = start(place.path()).await;
    run.cancel("over");
    let _: RunResult = run.wait().await.unwrap();
    let asked = client(&run_dir);
    let asked = thread::spawn(move || asked.answer("first", "Y").unwrap_err());
    // Whoever looks last refuses what is left.
    let mut last = Mailbox::new(&run_dir);
    while !asked.is_finished() {
        last.refuse_rest();
        thread::yield_now();
    }
    let refused = tokio::task::spawn_blocking(|| asked.join().unwrap())
        .await
        .unwrap();
    assert!(matches!(refused.code(), "run_ended" | "no_question"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_conflicting_answers_of_many_processes_one_is_taken() {
    for _ in 0..3 {
        let place = tempfile::tempdir().unwrap();
        let (run, run_dir) = start(place.path()).await;
        let processes: Vec<_> = (0..4)
            .map(|_| {
                Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "helper_client", "--ignored", "--nocapture"])
                    .env(CLIENT, &run_dir)
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let outputs = tokio::task::spawn_blocking(move || {
            let outputs = processes
                .into_iter()
                .map(|process| process.wait_with_output().unwrap());
            outputs
                .map(|output| String::from_utf8(output.stdout).unwrap())
                .collect::<Vec<String>>()
        });
        let told: Vec<String> = outputs
            .await
            .unwrap()
            .iter()
            .flat_map(|output| {
                output
                    .lines()
                    .filter(|line| line.starts_with("told "))
                    .map(str::to_owned)
            })
            .collect();
        assert_eq!(told.len(), 8, "each process answers twice: {told:?}");
        let taken: Vec<&String> = told.iter().filter(|line| line.ends_with(" taken")).collect();
        assert_eq!(taken.len(), 1, "{told:?}");
        // An answer of "No" ends the run: whoever comes after its end is told so.
        let ended = taken[0].contains("told N");
        let late = |line: &String| line.ends_with(" no_question") || (ended && line.ends_with(" run_ended"));
        assert_eq!(told.iter().filter(|line| late(line)).count(), 7, "{told:?}");
        if taken[0].contains("told Y") {
            while run.answer("second", Answer::choice("D")).is_err() {
                tokio::task::yield_now().await;
            }
            assert_eq!(
                run.wait().await.unwrap().path,
                ["start", "first", "second", "exit"]
            );
        } else {
            assert_eq!(run.wait().await.unwrap().path, ["start", "first", "exit"]);
        }
        assert!(left(&run_dir).is_empty());
    }
}

/// Not a test: started by the one above, it answers both ways at once.
#[test]
#[ignore = "a part of another test"]
fn helper_client() {
    let Ok(run_dir) = std::env::var(CLIENT) else {
        return;
    };
    let run_dir = PathBuf::from(run_dir);
    thread::scope(|scope| {
        for choice in ["Y", "N"] {
            let run_dir = &run_dir;
            scope.spawn(move || match client(run_dir).answer("first", choice) {
                Ok(()) => println!("\ntold {choice} taken"),
                Err(error) => println!("\ntold {choice} {}", error.code()),
            });
        }
    });
}

#[test]
fn a_request_that_nobody_takes_is_withdrawn() {
    let place = tempfile::tempdir().unwrap();
    let nowhere = ControlClient::of(place.path()).unwrap_err();
    assert!(matches!(nowhere, ControlError::NoRun { .. }), "{nowhere}");
    assert!(!inbox(place.path()).exists());
    fs::write(place.path().join("manifest.json"), "{}").unwrap();
    let client = ControlClient::of(place.path())
        .unwrap()
        .patience(Duration::from_millis(60));
    let error = client.cancel("now").unwrap_err();
    assert_eq!(error.code(), "control_unanswered");
    assert!(error.to_string().contains("resume it first"), "{error}");
    assert!(left(place.path()).is_empty());
    assert!(Mailbox::new(place.path()).poll().is_empty());
}

#[test]
fn a_mailbox_without_a_folder_makes_none() {
    let place = tempfile::tempdir().unwrap();
    let mut mailbox = Mailbox::new(place.path());
    assert!(mailbox.poll().is_empty() && mailbox.poll().is_empty());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

/// A run that keeps what was asked of it.
#[derive(Clone, Default)]
struct Asked {
    all: Arc<Mutex<Vec<String>>>,
    lost: bool,
}

impl Controlled for Asked {
    fn questions(&self) -> Vec<Question> {
        Vec::new()
    }

    fn answer(&self, gate: &str, answer: Answer) -> Result<(), AnswerError> {
        self.all
            .lock()
            .unwrap()
            .push(format!("{gate} {}", answer.by.word()));
        Ok(())
    }

    fn cancel(&self, reason: String) -> Result<(), ControlRefusal> {
        self.all.lock().unwrap().push(reason);
        Ok(())
    }

    fn pause(&self, reason: String) -> Result<(), ControlRefusal> {
        self.cancel(format!("pause: {reason}"))
    }

    fn is_owned(&self) -> bool {
        !self.lost
    }
}

#[test]
fn many_requests_at_once_are_obeyed_once_each() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("manifest.json"), "{}").unwrap();
    let asked = Asked::default();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut mailbox = Mailbox::new(place.path());
            while !over.load(Ordering::Acquire) {
                mailbox.attend(&asked);
            }
        });
        let clients: Vec<_> = (0..8)
            .map(|at| {
                let run_dir = place.path();
                scope.spawn(move || {
                    for turn in 0..10 {
                        client(run_dir).pause(format!("{at}/{turn}")).unwrap();
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        over.store(true, Ordering::Release);
    });
    let mut all = asked.all.lock().unwrap().clone();
    all.sort();
    let mut expected: Vec<String> = (0..80).map(|n| format!("pause: {}/{}", n / 10, n % 10)).collect();
    expected.sort();
    assert_eq!(all, expected);
    assert!(left(place.path()).is_empty());
}

#[test]
fn who_lost_the_run_leaves_requests_to_its_new_owner() {
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "01", &cancel("01", SystemClock::new().now()));
    let frozen = Asked {
        lost: true,
        ..Asked::default()
    };
    Mailbox::new(place.path()).attend(&frozen);
    assert!(frozen.all.lock().unwrap().is_empty());
    let owner = Asked::default();
    Mailbox::new(place.path()).attend(&owner);
    assert_eq!(*owner.all.lock().unwrap(), ["now"]);
}

#[test]
fn nobody_outside_can_say_that_the_time_was_up() {
    let place = tempfile::tempdir().unwrap();
    let mut request = cancel("01", SystemClock::new().now());
    let answer = Answer::choice("Y").by(AnsweredBy::Default);
    request["request"] = json!({"do": "answer", "gate": "first", "answer": answer});
    write(place.path(), "01", &request);
    let asked = Asked::default();
    Mailbox::new(place.path()).attend(&asked);
    assert_eq!(*asked.all.lock().unwrap(), ["first prepared"]);
}

fn cancel(id: &str, sent: Timestamp) -> Value {
    json!({
        "schema": "orchestra.control/1", "id": id, "request": {"do": "cancel", "reason": "now"},
        "from": {"pid": 1}, "sent": sent, "patience_ms": 10_000,
    })
}

fn write(run_dir: &Path, id: &str, request: &Value) {
    fs::create_dir_all(inbox(run_dir)).unwrap();
    let path = inbox(run_dir).join(format!("{id}.request.json"));
    fs::write(path, serde_json::to_vec(request).unwrap()).unwrap();
}

/// The code of a refusal in the inbox; it is taken away.
fn refusal(run_dir: &Path, id: &str) -> String {
    let path = inbox(run_dir).join(format!("{id}.reply.json"));
    let reply = support::json(&path);
    fs::remove_file(path).unwrap();
    assert_eq!(
        (&reply["schema"], &reply["id"]),
        (&json!("orchestra.control/1"), &json!(id))
    );
    assert!(!reply["refused"]["message"].as_str().unwrap().is_empty());
    reply["refused"]["code"].as_str().unwrap().to_owned()
}

/// A clock that a test moves.
#[derive(Clone, Default)]
struct Hand {
    now: Arc<AtomicU64>,
    elapsed: Arc<AtomicU64>,
}

impl Hand {
    fn go(&self, millis: u64) {
        self.now.fetch_add(millis, Ordering::Relaxed);
        self.elapsed.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::Relaxed))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.elapsed.load(Ordering::Relaxed))
    }

    fn sleep(&self, _: Duration) -> Sleep {
        Box::pin(std::future::pending())
    }
}

#[test]
fn what_was_asked_long_before_anybody_looked_is_not_obeyed() {
    let place = tempfile::tempdir().unwrap();
    let clock = Hand::default();
    clock.go(1_000_000);
    let ids = |mailbox: &mut Mailbox| -> Vec<String> {
        mailbox.poll().into_iter().map(|request| request.id).collect()
    };
    write(
        place.path(),
        "01",
        &cancel("01", Timestamp::from_millis(1_000_000 - 10_001)),
    );
    write(
        place.path(),
        "02",
        &cancel("02", Timestamp::from_millis(1_000_000 - 10_000)),
    );
    write(
        place.path(),
        "03",
        &cancel("03", Timestamp::from_millis(1_000_000 + 10_001)),
    );
    fs::write(inbox(place.path()).join("000000000900000-1-f.reply.json"), "{}").unwrap();
    fs::write(inbox(place.path()).join(".000000000900000-1-e.tmp"), "{}").unwrap();
    fs::write(inbox(place.path()).join("000000000999000-1-f.reply.json"), "{}").unwrap();
    let mut mailbox = Mailbox::new(place.path()).clock(Arc::new(clock.clone()));
    assert_eq!(ids(&mut mailbox), ["02"]);
    assert_eq!(refusal(place.path(), "01"), "control_stale");
    assert_eq!(refusal(place.path(), "03"), "control_stale");
    assert_eq!(
        left(place.path()),
        ["000000000999000-1-f.reply.json"],
        "the others were nobody's"
    );
    // Whoever asks while somebody looks is heard, whatever the clocks of both say.
    clock.go(200);
    clock.now.fetch_add(3_600_000, Ordering::Relaxed);
    write(
        place.path(),
        "04",
        &cancel("04", Timestamp::from_millis(1_000_200)),
    );
    assert_eq!(ids(&mut mailbox), ["04"]);
    // A process that stood still for long finds what was given up meanwhile.
    write(
        place.path(),
        "05",
        &cancel("05", Timestamp::from_millis(1_000_300)),
    );
    clock.go(3_600_000);
    assert!(ids(&mut mailbox).is_empty());
    assert_eq!(refusal(place.path(), "05"), "control_stale");
}

#[test]
fn what_is_no_request_is_taken_away_and_refused() {
    let place = tempfile::tempdir().unwrap();
    let now = SystemClock::new().now();
    let sound = serde_json::to_vec(&cancel("10", now)).unwrap();
    let mut mailbox = Mailbox::new(place.path());
    let path = |name: &str| inbox(place.path()).join(name);
    fs::create_dir(inbox(place.path())).unwrap();
    let mut other = cancel("10", now);
    other["schema"] = json!("orchestra.control/2");
    other["request"] = json!({"do": "fly"});
    let mut unknown = cancel("10", now);
    unknown["request"] = json!({"do": "fly"});
    let huge = [&sound[..], &vec![b' '; 1 << 20]].concat();
    let deep = "[".repeat(100_000).into_bytes();
    for (bytes, code) in [
        (&b""[..], "control_unreadable"),
        (b"\xff\xfe", "control_unreadable"),
        (&sound[..sound.len() - 1], "control_unreadable"),
        (&huge, "control_unreadable"),
        (&deep, "control_unreadable"),
        (
            &serde_json::to_vec(&cancel("11", now)).unwrap(),
            "control_unreadable",
        ),
        (&serde_json::to_vec(&unknown).unwrap(), "control_unreadable"),
        (&serde_json::to_vec(&other).unwrap(), "control_schema"),
    ] {
        fs::write(path("10.request.json"), bytes).unwrap();
        assert!(mailbox.poll().is_empty());
        assert_eq!(refusal(place.path(), "10"), code);
        assert!(left(place.path()).is_empty());
    }
    #[cfg(unix)]
    {
        let elsewhere = place.path().join("elsewhere");
        fs::write(&elsewhere, &sound).unwrap();
        std::os::unix::fs::symlink(&elsewhere, path("10.request.json")).unwrap();
        let status = Command::new("mkfifo")
            .arg(path("12.request.json"))
            .status()
            .unwrap();
        assert!(status.success());
        assert!(mailbox.poll().is_empty());
        assert_eq!(refusal(place.path(), "10"), "control_unreadable");
        assert_eq!(refusal(place.path(), "12"), "control_unreadable");
        assert_eq!(fs::read(&elsewhere).unwrap(), sound);
    }
    // What is in the way stays there, and nothing else suffers from it.
    fs::create_dir(path("13.request.json")).unwrap();
    let strange = [
        "x.request.json",
        "..request.json",
        ".request.json",
        "14.request.json.bak",
        "notes.txt",
    ];
    for name in strange {
        fs::write(path(name), &sound).unwrap();
    }
    write(place.path(), "15", &cancel("15", now));
    let taken: Vec<String> = mailbox.poll().into_iter().map(|request| request.id).collect();
    assert_eq!(taken, ["15"]);
    assert_eq!(left(place.path()).len(), strange.len());
    assert!(mailbox.poll().is_empty());
    assert!(mailbox.reply("../../escape", Ok(ControlReply::Done)).is_err());
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_the_inbox_is_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let (run_dir, elsewhere) = (place.path().join("run"), place.path().join("elsewhere"));
    fs::create_dir(&run_dir).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    fs::write(run_dir.join("manifest.json"), "{}").unwrap();
    std::os::unix::fs::symlink(&elsewhere, inbox(&run_dir)).unwrap();
    let request = serde_json::to_vec(&cancel("10", SystemClock::new().now())).unwrap();
    fs::write(elsewhere.join("10.request.json"), request).unwrap();
    assert!(Mailbox::new(&run_dir).poll().is_empty());
    let error = client(&run_dir).cancel("now").unwrap_err();
    assert_eq!(error.code(), "store_not_plain");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
}

#[test]
fn every_cut_and_every_changed_bit_of_a_request_is_survived() {
    let place = tempfile::tempdir().unwrap();
    let sound = serde_json::to_vec(&cancel("10", SystemClock::new().now())).unwrap();
    let mut mailbox = Mailbox::new(place.path());
    fs::create_dir(inbox(place.path())).unwrap();
    let path = inbox(place.path()).join("10.request.json");
    let cuts = (0..sound.len()).map(|length| sound[..length].to_vec());
    let flips = (0..sound.len() * 8).map(|at| {
        let mut bytes = sound.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        bytes
    });
    let (mut obeyed, mut refused) = (0, 0);
    for bytes in cuts.chain(flips) {
        fs::write(&path, bytes).unwrap();
        match &mailbox.poll()[..] {
            [request] => {
                assert!(matches!(request.request, ControlRequest::Cancel { .. }));
                obeyed += 1;
            }
            _ => {
                refusal(place.path(), "10");
                refused += 1;
            }
        }
        assert!(left(place.path()).is_empty());
    }
    assert_eq!(obeyed + refused, sound.len() * 9);
    assert!(refused > sound.len() && obeyed > 0, "{obeyed} {refused}");
}

#[test]
fn a_request_is_found_however_soon_after_the_last_look_it_comes() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(inbox(place.path())).unwrap();
    let mut mailbox = Mailbox::new(place.path());
    let now = SystemClock::new().now();
    for turn in 0..200 {
        let id = format!("{turn:03}");
        write(place.path(), &id, &cancel(&id, now));
        let taken = mailbox.poll();
        assert_eq!(taken.len(), 1, "turn {turn}");
    }
}
