//! Conversations with models through the program: roles, a program that is killed in between, and secrets.

#![cfg(unix)]

use crate::agents_support;

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use agents_support::{KEY, Project, Scratch, Started, done, reports, text};
use orchestra_model_server_tests::{Answer, Fault};
use serde_json::Value;

const TALK: &str = r#"digraph talk {
    start -> draft -> talk
    draft [prompt="Write a draft.", backend=direct]
    talk  [prompt="Talk about it.", "agent.mode"=interactive, "agent.tools"=""]
    talk -> keep [label=Approve, condition="outcome=success"]
    talk -> drop [label=Reject, condition="outcome=fail"]
    keep [shape=parallelogram, tool_command="echo kept"]
    drop [shape=parallelogram, tool_command="echo dropped", end=fail]
    keep -> exit
}
"#;

const KEPT: &str = "success: start -> draft -> talk -> keep -> exit\n";

fn talk(answers: &[&str]) -> Project {
    let project = Project::new("");
    project.scratch.write("t.dot", TALK);
    for answer in answers {
        project.server.push(Answer::text(*answer));
    }
    project
}

/// Returns the roles and texts in a request, without the task itself.
fn said(messages: &[Value]) -> Vec<(&str, &str)> {
    let said = messages[1..].iter();
    said.map(|message| (message["role"].as_str().unwrap(), text(message)))
        .collect()
}

#[test]
fn lines_of_standard_input_are_said_to_the_model_until_one_approves() {
    let project = talk(&["A draft.", "It is short.", "It is longer now."]);
    let run = project
        .call_with(&["run", "t.dot"], "Make it longer.\n/approve\n")
        .exits(0);
    assert_eq!(run.stdout, KEPT);
    for words in ["It is short.", "It is longer now.", "/approve"] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
    let asked = project.asked();
    assert_eq!(asked.len(), 3);
    assert_eq!(
        said(&asked[2]),
        [("assistant", "It is short."), ("user", "Make it longer.")]
    );
    let rejected = talk(&["A draft.", "It is short."]);
    let run = rejected
        .call_with(&["run", "t.dot"], "/reject much too short\n")
        .exits(1);
    assert_eq!(run.stdout, "failed: start -> draft -> talk -> drop\n");
    assert!(run.stderr.contains("much too short"), "{}", run.stderr);
}

#[test]
fn what_is_said_to_a_model_can_stand_in_the_command() {
    let project = talk(&["A draft.", "It is short.", "It is longer now."]);
    let answers = [
        "run",
        "t.dot",
        "--answer",
        "talk=Longer, please = now.",
        "--answer",
        "talk=/approve",
    ];
    assert_eq!(project.call(&answers).exits(0).stdout, KEPT);
    assert_eq!(said(&project.asked()[2])[1], ("user", "Longer, please = now."));
    let automatic = talk(&["A draft.", "It is short."]);
    let run = automatic.call(&["run", "t.dot", "--auto-approve"]).exits(0);
    assert_eq!(run.stdout, KEPT);
    assert_eq!(
        automatic.asked().len(),
        2,
        "what approves says nothing to the model"
    );
}

#[test]
fn nobody_to_talk_with_is_code_5_and_the_conversation_goes_on_later() {
    let project = talk(&["A draft.", "It is short.", "It is longer now."]);
    let run = project.call(&["run", "t.dot"]).exits(5);
    assert_eq!(run.stdout, "paused: start -> draft\n");
    for part in ["`--answer talk=TEXT`", "`--answer talk=/approve`"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    let resumed = project
        .call_with(&["resume", "last"], "Make it longer.\n/approve\n")
        .exits(0);
    assert_eq!(resumed.stdout, KEPT);
    let asked = project.asked();
    assert_eq!(asked.len(), 3, "no answer is asked for twice");
    assert_eq!(
        said(&asked[2]),
        [("assistant", "It is short."), ("user", "Make it longer.")]
    );
}

#[test]
fn an_answer_to_a_conversation_that_nobody_executes_is_said_when_it_is_resumed() {
    let project = talk(&["A draft.", "It is short.", "It is longer now."]);
    project.call(&["run", "t.dot"]).exits(5);
    let status = project.call(&["status", "last"]).exits(0).stdout;
    assert!(
        status.contains("talk waits for an answer: It is short."),
        "{status}"
    );
    let unknown = project
        .call(&["answer", "last", "tlak", "Make it longer."])
        .exits(2);
    assert!(unknown.stderr.contains("talk"), "{}", unknown.stderr);
    let answered = project
        .call(&["answer", "last", "talk", "Make it longer."])
        .exits(0);
    assert!(
        answered.stdout.ends_with("the question of `talk` is answered\n"),
        "{}",
        answered.stdout
    );
    assert!(answered.stderr.contains("resume with: "), "{}", answered.stderr);
    assert_eq!(
        project.asked().len(),
        2,
        "the model is asked when the run goes on"
    );
    let status = project.call(&["status", "last"]).exits(0).stdout;
    assert!(!status.contains("waits for an answer"), "{status}");
    let again = project.call(&["answer", "last", "talk", "Shorter."]).exits(2);
    assert!(
        again.stderr.contains("no question of `talk` is open"),
        "{}",
        again.stderr
    );

    let resumed = project.call(&["resume", "last"]).exits(5);
    assert_eq!(resumed.stdout, "paused: start -> draft\n");
    let asked = project.asked();
    assert_eq!(asked.len(), 3);
    assert_eq!(
        said(&asked[2]),
        [("assistant", "It is short."), ("user", "Make it longer.")]
    );
    project.call(&["answer", "last", "talk", "/approve"]).exits(0);
    assert_eq!(project.call(&["resume", "last"]).exits(0).stdout, KEPT);
    assert_eq!(project.asked().len(), 3);
}

/// Ends a conversation with a command, and returns the result and the context of the run.
fn ends(command: &str, words: &str) -> (String, Value) {
    let project = Project::new("");
    project.scratch.write(
        "t.dot",
        r#"digraph {
            start -> talk
            talk [prompt="Agree on a size.", "agent.mode"=interactive, output_keys=size]
            talk -> large [condition="context.size>=100"]
            talk -> small [condition="context.size<100"]
            large [shape=parallelogram, tool_command="echo large"]
            small [shape=parallelogram, tool_command="echo small"]
            large -> exit; small -> exit
        }"#,
    );
    project.server.push(Answer::text(words));
    let run = project.call_with(&["run", "t.dot"], &format!("{command}\n"));
    let folder = project.scratch.runs().remove(0);
    let checkpoint = project
        .scratch
        .read(&format!(".orchestra/runs/{folder}/checkpoint.json"));
    let checkpoint: Value = serde_json::from_str(&checkpoint).unwrap();
    (run.stdout, checkpoint["context"].clone())
}

#[test]
fn however_a_conversation_ends_well_its_outputs_are_taken_alike() {
    let words = "We agreed:\n```json\n{\"size\": 120}\n```";
    let (done, of_done) = ends("/done", words);
    let (approved, of_approved) = ends("/approve", words);
    assert_eq!(done, "success: start -> talk -> large -> exit\n");
    assert_eq!(approved, done);
    for context in [&of_done, &of_approved] {
        assert_eq!(context["size"], 120);
    }
    assert_eq!(of_done["human.chat.verdict"], Value::Null);
    assert_eq!(of_approved["human.chat.verdict"], "approved");
    // A missing output makes both commands fail in the same way.
    let (done, _) = ends("/done", "We agreed on nothing.");
    let (approved, context) = ends("/approve", "We agreed on nothing.");
    assert_eq!(done, "failed: start -> talk\n");
    assert_eq!(approved, done);
    assert_eq!(context["human.chat.verdict"], Value::Null);
}

/// Starts a run with a conversation, and sends the first message.
fn begun(project: &Project) -> (Started, std::process::ChildStdin) {
    let mut command = project.command(&["run", "t.dot"]);
    command.stdin(Stdio::piped());
    let (run, input) = Started::from_command(command);
    let mut input = input.unwrap();
    input.write_all(b"Make it longer.\n").unwrap();
    (run, input)
}

/// Returns whether the journal of the only run contains `words`.
fn noted(scratch: &Scratch, words: &str) -> bool {
    let runs = std::fs::read_dir(scratch.path(".orchestra/runs")).into_iter();
    let journals = runs
        .flatten()
        .map(|run| run.unwrap().path().join("journal.jsonl"));
    journals
        .map(|journal| std::fs::read_to_string(journal).unwrap_or_default())
        .any(|journal| journal.contains(words))
}

/// Kills a program and waits until it is gone.
fn kill(run: Started) {
    run.signal("KILL");
    run.end().exits(-1);
}

#[test]
fn a_conversation_that_is_killed_while_the_person_thinks_goes_on_in_another_process() {
    let project = talk(&["A draft.", "It is short.", "It is longer now.", "It has an end."]);
    let (run, input) = begun(&project);
    project.scratch.until("the answer is kept", |scratch| {
        noted(scratch, "It is longer now.")
    });
    kill(run);
    drop(input);
    let resumed = project
        .call_with(&["resume", "last"], "Give it an end.\n/approve\n")
        .exits(0);
    assert_eq!(resumed.stdout, KEPT);
    let asked = project.asked();
    assert_eq!(
        (asked.len(), project.server.left()),
        (4, 0),
        "no answer is asked for twice"
    );
    assert_eq!(
        said(&asked[3]),
        [
            ("assistant", "It is short."),
            ("user", "Make it longer."),
            ("assistant", "It is longer now."),
            ("user", "Give it an end."),
        ]
    );
    let response = "It has an end.";
    let folder = project.scratch.runs().remove(0);
    let kept = project
        .scratch
        .read(&format!(".orchestra/runs/{folder}/talk/response.md"));
    assert_eq!(kept, response);
}

#[test]
fn a_conversation_that_is_killed_while_the_model_speaks_asks_it_again_and_the_person_not() {
    let project = talk(&["A draft.", "It is short."]);
    project.server.push(Answer::fault(Fault::HangBeforeHeaders));
    project.server.push(Answer::text("It is longer now."));
    let (run, input) = begun(&project);
    project
        .scratch
        .until("the model is asked", |_| project.server.requests().len() == 3);
    kill(run);
    drop(input);
    let resumed = project.call_with(&["resume", "last"], "/approve\n").exits(0);
    assert_eq!(resumed.stdout, KEPT);
    let asked = project.asked();
    assert_eq!((asked.len(), project.server.left()), (4, 0));
    assert_eq!(
        asked[2], asked[3],
        "what was not answered is asked once more, as it was"
    );
    assert_eq!(
        said(&asked[3]),
        [("assistant", "It is short."), ("user", "Make it longer.")]
    );
}

/// A secret whose base64 and URL forms differ from the plain text.
const TOKEN: &str = "dpl/9f+Zk=Qw&Tn-8h2Jx.LmB4vC7yR1s";
const IN_BASE64: &str = "ZHBsLzlmK1prPVF3JlRuLThoMkp4LkxtQjR2Qzd5UjFz";
const IN_URL: &str = "dpl%2F9f%2BZk%3DQw%26Tn-8h2Jx.LmB4vC7yR1s";

#[track_caller]
fn holds_no_secret(what: &str, bytes: &[u8]) {
    for secret in [TOKEN, IN_BASE64, IN_URL, KEY] {
        let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(
            !found,
            "{what} holds {secret}: {}",
            String::from_utf8_lossy(bytes)
        );
    }
}

/// Returns the number of files in a folder. Asserts that none of them contains a secret.
fn search(folder: &Path) -> usize {
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files += search(&path);
        } else {
            files += 1;
            holds_no_secret(&path.display().to_string(), &std::fs::read(&path).unwrap());
        }
    }
    files
}

#[test]
fn a_secret_that_a_tool_prints_is_in_no_file_no_output_and_no_request() {
    let project = Project::new(
        "environment: [DEPLOY_TOKEN]\ntools:\n  leak: {description: Leaks., command: sh leak.sh}\n\
         agents:\n  leaker: {tools: [leak]}\n",
    );
    project.scratch.write(
        "leak.sh",
        "echo \"plain $DEPLOY_TOKEN\"\n\
         printf 'base64 '; printf '%s' \"$DEPLOY_TOKEN\" | base64\n\
         printf 'url '; printf '%s\\n' \"$DEPLOY_TOKEN\" | sed 's,/,%2F,g; s/+/%2B/g; s/=/%3D/g; s/&/%26/g'\n\
         printf '%s' \"$DEPLOY_TOKEN\" > leaked\n",
    );
    project.scratch.write(
        "l.dot",
        "digraph { start -> leak -> talk -> exit; leak [prompt=Leak, agent=leaker]
            talk [prompt=Talk, agent=leaker, \"agent.mode\"=interactive] }",
    );
    let leaks = || {
        Answer::call("leak", "{}").and_call("shell", r#"{"command": "sh leak.sh >&2; sh leak.sh; exit 1"}"#)
    };
    for json in [false, true] {
        project.server.push(leaks());
        // A model that learned the secret elsewhere also reveals it.
        project
            .server
            .push(reports(&format!("It is {TOKEN}, {IN_BASE64} and {IN_URL}.")));
        project.server.push(Answer::text(format!("As I said, {TOKEN}.")));
        project.server.push(leaks());
        project.server.push(Answer::text(format!("Or {IN_URL}.")));
        let mut command = project.command(if json {
            &["run", "l.dot", "--json"]
        } else {
            &["run", "l.dot"]
        });
        for answer in [format!("talk=Is it {IN_BASE64}?"), "talk=/done".to_owned()] {
            command.args(["--answer", &answer]);
        }
        let run = done(command.env("DEPLOY_TOKEN", TOKEN).output().unwrap()).exits(0);
        holds_no_secret("standard output", run.stdout.as_bytes());
        holds_no_secret("standard error", run.stderr.as_bytes());
        assert_eq!(project.server.left(), 0);
    }
    assert_eq!(
        project.scratch.read("leaked"),
        TOKEN,
        "the tool has the secret itself"
    );
    std::fs::remove_file(project.scratch.path("leaked")).unwrap();
    let results: Vec<Value> = project
        .asked()
        .iter()
        .flatten()
        .flat_map(|message| message["content"].as_array().unwrap().clone())
        .filter(|block| block["type"] == "tool_result")
        .collect();
    let shown = results.iter().filter(|block| {
        let reported = block["content"].to_string();
        reported.contains("plain ") && reported.contains("base64 ") && reported.contains("url ")
    });
    assert!(
        shown.count() >= 8,
        "each tool reported the model what it printed: {results:#?}"
    );
    for request in project.server.requests() {
        holds_no_secret("a request", request.body.to_string().as_bytes());
    }
    let listed = project.call(&["status", "--json"]).exits(0).stdout;
    holds_no_secret("the list of runs", listed.as_bytes());
    assert!(project.scratch.path(".orchestra/runs/.sessions.sqlite").is_file());
    assert!(search(&project.scratch.path(".orchestra")) > 20);
}
