//! Tests that answer, pause and cancel a run from another process.
#![cfg(unix)]

use crate::support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use orchestra_engine::{
    Answer, AnsweredBy, ControlClient, ControlError, Engine, EventKind, RunFolder, RunHandle, RunStatus,
};
use serde_json::{Value, json};
use support::pipeline;

const GATES: &str = "digraph t { start -> first; first [shape=hexagon, label=\"Ship it?\"]
    first -> second [label=\"[Y] Yes\"]; first -> exit [label=\"[N] No\"]
    second [shape=hexagon]; second -> exit [label=\"[D] Done\"]; second -> first [label=\"[B] Back\"] }";
/// The names of the variables that turn a helper test into a part of another one.
const CLIENT: &str = "HELPER_CLIENT_RUN_DIR";
const OWNER: &str = "HELPER_OWNER_RUNS_DIR";
const LISTENER: &str = "HELPER_LISTENER_PATH";

/// Starts a run with two gates that other processes can answer.
async fn start(temp_dir: &Path) -> (RunHandle, PathBuf) {
    let engine = Engine::builder().runs_dir(temp_dir).build().unwrap();
    let run = engine.start(pipeline(GATES), ()).run_id("one").await.unwrap();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    let run_dir = run.run_dir().unwrap().to_owned();
    (run, run_dir)
}

fn client(run_dir: &Path) -> ControlClient {
    ControlClient::open(run_dir)
        .unwrap()
        .patience(Duration::from_secs(60))
}

/// Makes a blocking call outside the threads of the runtime.
async fn ask<T: Send + 'static>(run_dir: &Path, ask: impl FnOnce(ControlClient) -> T + Send + 'static) -> T {
    let client = client(run_dir);
    tokio::task::spawn_blocking(move || ask(client)).await.unwrap()
}

/// Returns the path of the socket of a run's owner.
fn socket(run_dir: &Path) -> PathBuf {
    let (folder, run) = (tempfile::tempdir().unwrap(), fs::metadata(run_dir).unwrap());
    let user = fs::metadata(folder.path()).unwrap().uid();
    let file = format!("{:x}-{:x}.sock", run.dev(), run.ino());
    let folders = [
        format!("/run/user/{user}/orchestra"),
        format!("/tmp/orchestra-{user}"),
    ];
    let usable = folders.iter().find(|folder| Path::new(folder).is_dir());
    Path::new(usable.unwrap()).join(file)
}

/// Waits until a condition holds.
fn until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it never came to it: {what}"
        );
        thread::sleep(Duration::from_millis(2));
    }
}

/// Connects to the owner of a run. Returns the connection and the greeting.
fn connect(run_dir: &Path) -> (BufReader<UnixStream>, Value) {
    let path = socket(run_dir);
    until("the owner listens", || UnixStream::connect(&path).is_ok());
    let mut stream = BufReader::new(UnixStream::connect(&path).unwrap());
    let greeting = line(&mut stream);
    (stream, greeting)
}

fn line(stream: &mut impl BufRead) -> Value {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Sends bytes to the owner. Returns its reply.
fn replied(run_dir: &Path, bytes: &[u8]) -> Value {
    let (mut stream, greeting) = connect(run_dir);
    assert_eq!(greeting, json!("ready").wrapped());
    stream.get_mut().write_all(bytes).unwrap();
    line(&mut stream)
}

trait Wrapped {
    fn wrapped(self) -> Value;
}

impl Wrapped for Value {
    /// Adds the schema to the body of a message. A plain name becomes an object.
    fn wrapped(self) -> Value {
        let mut message = match self {
            Value::String(word) => json!({ word: null }),
            body => body,
        };
        message["schema"] = "orchestra.control/2".into();
        message
    }
}

/// Returns the command that runs a part of a test in a process of its own.
fn helper(name: &str, variable: &str, value: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("control::{name}"), "--ignored", "--nocapture"])
        .env(variable, value)
        .stdout(Stdio::piped())
        .stdin(Stdio::piped());
    command
}

/// Reads lines until one has this prefix. Returns the rest of that line.
fn said(output: &mut BufReader<ChildStdout>, begin: &str) -> String {
    loop {
        let mut line = String::new();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "it never said {begin}");
        if let Some(rest) = line.strip_prefix(begin) {
            return rest.trim().to_owned();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_are_shown_and_answered_from_outside() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (run, run_dir) = start(temp_dir.path()).await;
    let shown = ask(&run_dir, |client| client.questions().unwrap()).await;
    assert_eq!((shown.len(), &*shown[0]), (1, &run.questions()[0]));
    assert_eq!(shown[0].text, "Ship it?");
    let refused = ask(&run_dir, |client| client.answer("first", "Maybe").unwrap_err()).await;
    assert_eq!(refused.code(), "answer_refused");
    assert_eq!(
        refused.to_string(),
        "`Maybe` is not one of the answers: [Y] Yes, [N] No"
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
    assert!(!socket(&run_dir).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_cancelled_from_outside() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (run, run_dir) = start(temp_dir.path()).await;
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
    let late = ask(&run_dir, |client| client.cancel("again").unwrap_err()).await;
    assert_eq!(late.code(), "control_not_executed");
    assert!(late.to_string().contains("resume it first"), "{late}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_paused_from_outside() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (run, run_dir) = start(temp_dir.path()).await;
    ask(&run_dir, |client| client.pause("lunch").unwrap()).await;
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Paused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_meets_just_the_question_that_was_asked_for() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (run, run_dir) = start(temp_dir.path()).await;
    let asked = |at: &'static str| {
        let run_dir = run_dir.clone();
        async move {
            loop {
                let open = ask(&run_dir, |client| client.questions().unwrap()).await;
                match &open[..] {
                    [open] if open.node == at => return open.clone(),
                    _ => tokio::task::yield_now().await,
                }
            }
        }
    };
    let first = asked("first").await;
    assert_eq!(asked("first").await, first, "it is the same question");
    assert!(!format!("{first:?}").contains("token"));
    ask(&run_dir, |client| client.answer("first", "Y").unwrap()).await;
    asked("second").await;
    ask(&run_dir, |client| client.answer("second", "Back").unwrap()).await;
    let again = asked("first").await;
    let (old, paused) = (first.clone(), again.clone());
    let stale = ask(&run_dir, move |client| client.answer_to(&old, "N").unwrap_err()).await;
    assert_eq!(stale.code(), "stale_question");
    run.pause("lunch");
    run.wait().await.unwrap();

    // The same question of the resumed run has a new token.
    let engine = Engine::builder().build().unwrap();
    let run = engine.resume(&run_dir, pipeline(GATES), ()).await.unwrap();
    let resumed = asked("first").await;
    assert_eq!(resumed.id, paused.id);
    let stale = ask(&run_dir, move |client| {
        client.answer_to(&paused, "N").unwrap_err()
    })
    .await;
    assert_eq!(stale.code(), "stale_question");
    ask(&run_dir, move |client| client.answer_to(&resumed, "N").unwrap()).await;
    run.wait().await.unwrap();
    // No file contains a token.
    let token = |name: &str| {
        let reported = fs::read_to_string(run_dir.join(name)).unwrap();
        reported.contains("\"token\"")
    };
    assert!(!token("events.jsonl") && !token("journal.jsonl"));
}

#[test]
fn of_conflicting_answers_of_many_processes_one_is_taken() {
    for _ in 0..3 {
        let temp_dir = tempfile::tempdir().unwrap();
        let mut owner = helper("helper_owner", OWNER, temp_dir.path()).spawn().unwrap();
        let mut output = BufReader::new(owner.stdout.take().unwrap());
        let run_dir = PathBuf::from(said(&mut output, "waits in "));
        let clients: Vec<Child> = (0..4)
            .map(|_| helper("helper_client", CLIENT, &run_dir).spawn().unwrap())
            .collect();
        let outputs = clients.into_iter().map(|client| {
            let output = client.wait_with_output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        });
        let reported: Vec<String> = outputs
            .flat_map(|output| {
                let lines = output.lines().filter(|line| line.starts_with("reported "));
                lines.map(str::to_owned).collect::<Vec<String>>()
            })
            .collect();
        assert_eq!(reported.len(), 8, "each process answers twice: {reported:?}");
        let taken: Vec<&String> = reported.iter().filter(|line| line.ends_with(" taken")).collect();
        assert_eq!(taken.len(), 1, "{reported:?}");
        // An answer of "No" ends the run. Later clients get that as the reason, or find the process gone.
        let ended = taken[0].contains("reported N");
        let late = |line: &String| {
            let code = line.rsplit(' ').next().unwrap();
            matches!(code, "no_question" | "stale_question")
                || (ended && matches!(code, "run_ended" | "control_not_executed" | "control_unclear"))
        };
        assert_eq!(
            reported.iter().filter(|line| late(line)).count(),
            7,
            "{reported:?}"
        );
        if ended {
            assert_eq!(said(&mut output, "went "), "start first exit");
        } else {
            until("the second gate asks", || {
                client(&run_dir).answer("second", "D").is_ok()
            });
            assert_eq!(said(&mut output, "went "), "start first second exit");
        }
        owner.wait().unwrap();
    }
}

/// A helper process, not a test: it owns a run that others answer.
#[tokio::test]
#[ignore = "a part of other tests"]
async fn helper_owner() {
    let Some(temp_dir) = std::env::var_os(OWNER) else {
        return;
    };
    let (run, run_dir) = start(Path::new(&temp_dir)).await;
    println!("\nwaits in {}", run_dir.display());
    let result = run.wait().await.unwrap();
    println!("\nwent {}", result.path.join(" "));
}

/// A helper process, not a test: it sends both answers at once.
#[test]
#[ignore = "a part of other tests"]
fn helper_client() {
    let Ok(run_dir) = std::env::var(CLIENT) else {
        return;
    };
    let run_dir = PathBuf::from(run_dir);
    thread::scope(|scope| {
        for choice in ["Y", "N"] {
            let run_dir = &run_dir;
            scope.spawn(move || match client(run_dir).answer("first", choice) {
                Ok(()) => println!("\nreported {choice} taken"),
                Err(error) => println!("\nreported {choice} {}", error.code()),
            });
        }
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_owner_has_started_is_refused_and_reported() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (run, run_dir) = start(temp_dir.path()).await;
    let mut events = run.events();
    let child = helper("helper_client", CLIENT, &run_dir);
    let output = tokio::task::spawn_blocking(|| { child }.output().unwrap())
        .await
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.matches(" control_own_process").count(), 2, "{output}");
    let (code, message) = loop {
        if let EventKind::PipelineWarning { code, message } = &events.recv().await.unwrap().kind {
            break (code.clone(), message.clone());
        }
    };
    assert_eq!(code, "control_own_process");
    assert!(
        message.contains("tried to answer or control the run"),
        "{message}"
    );
    assert_eq!(run.questions().len(), 1);
    run.cancel("enough");
    run.wait().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_connects_and_says_nothing_keeps_nobody_from_answering() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (run, run_dir) = start(temp_dir.path()).await;
    let asked = run_dir.clone();
    let silent = tokio::task::spawn_blocking(move || {
        let (first, _) = connect(&asked);
        // Open more connections than the limit. Keep all of them open; some have sent a part of a request.
        let mut silent = vec![first];
        for at in 0..300 {
            let mut stream = BufReader::new(UnixStream::connect(socket(&asked)).unwrap());
            if at % 2 == 0 {
                let _ = stream.get_mut().write_all(b"{\"schema\":");
            }
            silent.push(stream);
        }
        client(&asked).answer("first", "N").unwrap();
        silent
    });
    let mut silent = silent.await.unwrap();
    assert_eq!(run.wait().await.unwrap().path, ["start", "first", "exit"]);
    // The oldest connection was closed because there were too many.
    let reported = line(&mut silent[0]);
    assert_eq!(reported["refused"]["code"], "control_busy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_request_is_refused() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (run, run_dir) = start(temp_dir.path()).await;
    let dir = run_dir.clone();
    tokio::task::spawn_blocking(move || {
        let code = |bytes: &[u8]| replied(&dir, bytes)["refused"]["code"].clone();
        assert_eq!(code(b"what?\n"), "control_unreadable");
        assert_eq!(code(b"\xff\xfe\n"), "control_unreadable");
        assert_eq!(code(b"{\"schema\":\"orchestra.control/99\"}\n"), "control_schema");
        assert_eq!(
            code(b"{\"schema\":\"orchestra.control/2\",\"do\":\"fly\"}\n"),
            "control_unreadable"
        );
        let guessed =
            json!({"do": "answer", "question": "0".repeat(32), "answer": Answer::choice("Y")}).wrapped();
        assert_eq!(code(format!("{guessed}\n").as_bytes()), "stale_question");
        let named = json!({"do": "answer", "question": "first", "answer": Answer::choice("Y")}).wrapped();
        assert_eq!(code(format!("{named}\n").as_bytes()), "stale_question");
        // A request that is too long is not read to its end.
        let (mut stream, _) = connect(&dir);
        let long = vec![b' '; (1 << 20) + 1];
        stream.get_mut().write_all(&long).unwrap();
        assert_eq!(line(&mut stream)["refused"]["code"], "control_unreadable");
        // A truncated request is invalid.
        let (mut stream, _) = connect(&dir);
        stream.get_mut().write_all(b"{\"schema\"").unwrap();
        stream.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
    })
    .await
    .unwrap();
    assert_eq!(run.questions().len(), 1);
    run.cancel("enough");
    run.wait().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_outside_can_say_that_the_time_was_up() {
    for by in [AnsweredBy::Default, AnsweredBy::Automatic, AnsweredBy::Prepared] {
        let temp_dir = tempfile::tempdir().unwrap();
        let (run, run_dir) = start(temp_dir.path()).await;
        let mut events = run.events();
        let answer = Answer::choice("N").by(by);
        ask(&run_dir, move |client| client.answer("first", answer).unwrap()).await;
        let reported = loop {
            if let EventKind::InterviewCompleted { answered_by, .. } = &events.recv().await.unwrap().kind {
                break *answered_by;
            }
        };
        assert_eq!(reported, AnsweredBy::Prepared);
        run.wait().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_somebody_removed_is_made_anew() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (run, run_dir) = start(temp_dir.path()).await;
    ask(&run_dir, |client| client.questions().unwrap()).await;
    let path = socket(&run_dir);
    let made = fs::symlink_metadata(&path).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o600);
    let folder = fs::symlink_metadata(path.parent().unwrap()).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    fs::remove_file(&path).unwrap();
    ask(&run_dir, |client| client.questions().unwrap()).await;
    fs::remove_file(&path).unwrap();
    fs::write(&path, "in the way").unwrap();
    ask(&run_dir, |client| client.cancel("enough").unwrap()).await;
    run.wait().await.unwrap();
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_socket_of_an_owner_that_died_is_replaced() {
    let temp_dir = tempfile::tempdir().unwrap();
    let runs = temp_dir.path().to_owned();
    let run_dir = tokio::task::spawn_blocking(move || {
        let mut owner = helper("helper_owner", OWNER, &runs).spawn().unwrap();
        let mut output = BufReader::new(owner.stdout.take().unwrap());
        let run_dir = PathBuf::from(said(&mut output, "waits in "));
        client(&run_dir).questions().unwrap();
        owner.kill().unwrap();
        owner.wait().unwrap();
        let dead = client(&run_dir).questions().unwrap_err();
        assert_eq!(dead.code(), "control_not_executed");
        run_dir
    })
    .await
    .unwrap();
    assert!(socket(&run_dir).exists());
    let engine = Engine::builder().build().unwrap();
    let run = engine.resume(&run_dir, pipeline(GATES), ()).await.unwrap();
    let answered = ask(&run_dir, |client| {
        until("the gate asks", || !client.questions().unwrap().is_empty());
        client.answer("first", "N")
    });
    answered.await.unwrap();
    run.wait().await.unwrap();
    assert!(!socket(&run_dir).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_listens_in_the_place_of_the_owner_is_asked_nothing() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (run, run_dir) = start(temp_dir.path()).await;
    let mut owner = serde_json::to_value(RunFolder::open(&run_dir).unwrap().owner().unwrap()).unwrap();
    run.cancel("enough");
    run.wait().await.unwrap();
    // A run whose lock names this process as the owner, while another process listens on its socket.
    let forged = temp_dir.path().join("forged");
    fs::create_dir(&forged).unwrap();
    fs::write(forged.join("manifest.json"), "{}").unwrap();
    owner["replacing"] = false.into();
    fs::write(forged.join("owner.lock"), owner.to_string()).unwrap();
    let lock = File::options()
        .read(true)
        .write(true)
        .open(forged.join("owner.lock"))
        .unwrap();
    lock.lock().unwrap();
    let path = socket(&forged);
    let mut listener = helper("helper_listener", LISTENER, &path).spawn().unwrap();
    let mut output = BufReader::new(listener.stdout.take().unwrap());
    said(&mut output, "listens");
    let client = ControlClient::open(&forged)
        .unwrap()
        .patience(Duration::from_millis(50));
    let error = tokio::task::spawn_blocking(move || client.cancel("now").unwrap_err())
        .await
        .unwrap();
    assert_eq!(error.code(), "control_impostor");
    assert!(matches!(error, ControlError::Impostor { pid, .. } if pid == listener.id()));
    listener.kill().unwrap();
    listener.wait().unwrap();
    fs::remove_file(&path).unwrap();

    owner["host"] = "elsewhere".into();
    fs::write(forged.join("owner.lock"), owner.to_string()).unwrap();
    let client = ControlClient::open(&forged).unwrap();
    let error = tokio::task::spawn_blocking(move || client.cancel("now").unwrap_err())
        .await
        .unwrap();
    assert_eq!(error.code(), "control_other_host");
}

/// A helper process, not a test: it greets every client.
#[test]
#[ignore = "a part of other tests"]
fn helper_listener() {
    let Some(path) = std::env::var_os(LISTENER) else {
        return;
    };
    let listener = UnixListener::bind(path).unwrap();
    println!("\nlistens");
    for stream in listener.incoming() {
        let _ = stream
            .unwrap()
            .write_all(b"{\"schema\":\"orchestra.control/2\",\"ready\":null}\n");
    }
}

#[test]
fn what_is_no_run_is_reported() {
    let temp_dir = tempfile::tempdir().unwrap();
    let nowhere = ControlClient::open(temp_dir.path()).unwrap_err();
    assert!(matches!(nowhere, ControlError::NoRun { .. }), "{nowhere}");
}
