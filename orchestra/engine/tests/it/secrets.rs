//! Tests that secrets from any source stay out of everything that leaves a run.

use crate::support;

use std::path::Path;
use std::sync::{Arc, Mutex};

use orchestra_engine::{
    Answer, BackendError, CallbackInterviewer, CodergenBackend, CodergenReply, CodergenRequest, Engine,
    Outcome, Question, QuestionKind,
};
use support::{Acts, pipeline};

const SECRET: &str = "sk-live-0123456789/ab+cd==";
/// The secret in base64, in hexadecimal digits and in a URL.
const BASE64: &str = "c2stbGl2ZS0wMTIzNDU2Nzg5L2FiK2NkPT0";
const HEX: &str = "736b2d6c6976652d303132333435363738392f61622b63643d3d";
const URL: &str = "sk-live-0123456789%2Fab%2Bcd%3D%3D";

/// A backend that puts the secret into everything that a backend can write.
struct Leaky;

impl CodergenBackend for Leaky {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let stage = request.stage;
        stage.log(format!("calling with {SECRET}"));
        stage.record_tool_call(
            "shell",
            None,
            std::time::Duration::ZERO,
            Some(&format!("no {URL}")),
        );
        stage.note(format!("noted {HEX}")).await;
        stage
            .artifacts()
            .unwrap()
            .store("found", "the key", SECRET)
            .unwrap();
        let mut text = stage.text();
        for character in format!("I use {SECRET} and {BASE64}").chars() {
            text.push(&character.to_string());
        }
        drop(text);
        let question = Question::new(QuestionKind::FreeText, format!("Is {SECRET} right?"));
        let answer = stage.ask(question).await.unwrap();
        let answered = format!("{:?}", answer.reply);
        match stage.node().id() {
            "fails" => Err(BackendError::terminal(format!("refused: {SECRET}"))),
            "panics" => panic!("the key is {SECRET}"),
            "outcome" => Ok(Outcome::success()
                .notes(format!("{BASE64}; {answered}"))
                .set("key", SECRET)
                .set(SECRET, "key")
                .into()),
            _ => Ok(format!("The key is {SECRET}, or {BASE64}.").into()),
        }
    }
}

fn no_file_tells(folder: &Path) -> usize {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            seen += no_file_tells(&path);
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for form in [SECRET, BASE64, HEX, URL] {
            assert!(!text.contains(form), "{} tells {form}:\n{text}", path.display());
        }
        seen += 1;
    }
    seen
}

#[tokio::test]
async fn a_secret_is_in_no_event_file_text_or_result() {
    let dir = tempfile::tempdir().unwrap();
    // The pipeline itself does not contain the secret. The command reads it from a file, like real ones do.
    let script = dir.path().join("leak.sh");
    let status = format!(r#"{{"outcome": "success", "notes": "{SECRET}"}}"#);
    let commands = [
        "printf 'sk-live-'; sleep 0.01".to_owned(),
        format!("echo '0123456789/ab+cd== {HEX}'; echo '{URL}' >&2; echo {BASE64}"),
        format!("echo '{status}' > \"$ORCHESTRA_STAGE_DIR/status.json\""),
    ];
    std::fs::write(&script, commands.join("\n")).unwrap();
    let text = format!(
        r#"digraph {{
            node [prompt=x, on_failure=route]
            start -> write -> outcome -> tool -> fails -> panics -> exit
            tool [shape=parallelogram, tool_command="sh {}"]
        }}"#,
        script.display()
    );
    let reported = Arc::new(Mutex::new(String::new()));
    let (events, pieces) = (reported.clone(), reported.clone());
    let engine = Engine::builder()
        .backend(Leaky)
        .interviewer(CallbackInterviewer::new(|question: Question| async move {
            assert!(!question.text.contains(SECRET), "{}", question.text);
            Ok(Answer::choice(format!("yes, {SECRET}")))
        }))
        .secrets([SECRET])
        .runs_dir(dir.path().join("runs"))
        .on_event(move |event| {
            let event = serde_json::to_string(event).unwrap();
            events.lock().unwrap().push_str(&event);
        })
        .on_text(move |piece| pieces.lock().unwrap().push_str(&piece.text))
        .build()
        .unwrap();
    let start = engine.start(pipeline(&text), Acts::new());
    let run = start.param("token", SECRET).param("plain", "7").await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    let result = run.wait().await.unwrap();
    assert!(result.is_success(), "{result:?}");
    assert_eq!(result.context.text("plain"), "7");
    let reported = format!("{} {result:?}", reported.lock().unwrap());
    for form in [SECRET, BASE64, HEX, URL] {
        assert!(!reported.contains(form), "{form} is reported:\n{reported}");
    }
    assert!(reported.contains("I use [redacted] and [redacted]"), "{reported}");
    assert!(
        reported.contains("refused: [redacted]") && reported.contains("the key is [redacted]"),
        "{reported}"
    );
    assert!(no_file_tells(&folder) > 10);
    let output = std::fs::read_to_string(folder.join("tool/tool_output.txt")).unwrap();
    assert!(
        output.starts_with("[redacted] [redacted]\n[redacted]"),
        "{output}"
    );
}

#[tokio::test]
async fn a_secret_in_the_reason_of_a_stop_is_reported_to_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::builder()
        .backend(Leaky)
        .interviewer(CallbackInterviewer::new(|_| std::future::pending()))
        .secrets([SECRET])
        .runs_dir(dir.path())
        .build()
        .unwrap();
    let text = "digraph { start -> write -> exit; write [prompt=x] }";
    let run = engine.start(pipeline(text), ()).await.unwrap();
    let folder = run.run_dir().unwrap().to_owned();
    while run.questions().is_empty() {
        tokio::task::yield_now().await;
    }
    run.pause(format!("the key {SECRET} is used up"));
    let result = run.wait().await.unwrap();
    let reported = result.failure.unwrap().to_string();
    assert!(reported.contains("the key [redacted] is used up"), "{reported}");
    assert!(no_file_tells(&folder) > 2);
}
