//! People and programs at the same question.

use std::{fs, thread};

use serde_json::json;

use super::{chosen, enter, press_until};
use crate::browser::in_browser;
use crate::support::{Program, TestServer};

/// A tool and a decision before a gate.
const ASK: &str = r#"digraph ask {
    start -> build -> built
    build [shape=parallelogram, label="Build", tool_command="echo built 14 files"]
    built [shape=diamond, label="Built?"]
    ask [shape=hexagon, label="Release it?"]
    built -> ask [condition="outcome=success"]
    built -> exit [condition="outcome=fail"]
    ask -> exit [label="[R] Release"]
    ask -> build [label="[B] Build again"]
}
"#;

#[test]
fn answers_of_a_person_and_a_program_at_once_take_one_transition() {
    in_browser(|browser| {
        let server = TestServer::start();
        let tab = enter(browser, &server.api);
        let other = enter(browser, &server.api);
        tab.expect("status of 409");
        for round in 0..3 {
            let run = server.api.begin("release", json!({}));
            let question = server.api.until_asked(&run);
            let gate = format!("#/gates?gate={run}+{question}");
            for tab in [&tab, &other] {
                tab.show(&gate);
                tab.sees(".gate header", "release");
            }
            other.show(&format!("#/runs/{run}/decisions"));
            press_until(&tab, "p", &chosen("P"));
            let api = server.api.clone();
            let (of, id) = (run.clone(), question.clone());
            let program = thread::spawn(move || api.answer(&of, &id, "W"));
            tab.press("Enter");
            let (status, reply) = program.join().unwrap();
            // The person sees either that the answer was taken, or that the question has another one.
            match status {
                // The question may be gone before the key arrives, so that no answer is sent.
                200 => tab.sees(".banner", "is answered"),
                409 => tab.sees(".toast.ok", "Answered; the run goes on"),
                _ => panic!("{status}: {reply}"),
            }
            let winner = if status == 200 { "write" } else { "publish" };
            let rows = server.api.until(&run, "a transition", |rows| {
                rows["transitions"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|row| row["from"] == "approve")
            });
            let taken: Vec<_> = rows["transitions"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|row| row["from"] == "approve")
                .map(|row| row["to"].clone())
                .collect();
            assert_eq!(taken, [json!(winner)], "round {round}");
            other.sees(".vrow", &format!("approve → {winner}"));
            let (status, reply) = server.api.send(
                "POST",
                &format!("/pipelines/{run}/cancel"),
                &json!({ "reason": "over" }),
            );
            assert!(status == 202 || status == 409, "{status}: {reply}");
            tab.until(
                "(document.querySelector('.toast button')?.click(), !document.querySelector('.toast'))",
            );
        }
    });
}

#[test]
fn an_answer_of_a_program_is_seen_at_once() {
    in_browser(|browser| {
        let server = TestServer::start();
        let run = server.api.begin("release", json!({}));
        let question = server.api.until_asked(&run);
        let tab = enter(browser, &server.api);
        tab.show(&format!("#/gates?gate={run}+{}", question));
        tab.sees(".question", "Publish this note?");
        let (status, _) = server.api.answer(&run, &question, "P");
        assert_eq!(status, 200);
        tab.sees(".banner", "The question that this address names is answered");
        tab.sees(".empty", "Nothing waits for you");
        tab.until("!document.querySelector('nav .count')");
    });
}

#[test]
fn all_tabs_share_one_stream() {
    in_browser(|browser| {
        let server = TestServer::start();
        let first = enter(browser, &server.api);
        first.sees(".connection.live", "Live");
        let second = enter(browser, &server.api);
        second.sees(".connection.live", "Live");
        let run = server.api.begin_to_gate(json!({}));
        for tab in [&first, &second] {
            tab.sees("table .tag", "1 question");
            tab.sees("nav .count", "1");
        }
        second.show(&format!("#/runs/{run}"));
        second.sees(".run-title .state", "running");
        let streams = |tab: &crate::browser::Tab| tab.requests("/api/v1/stream").len();
        assert_eq!((streams(&first) > 0, streams(&second)), (true, 0));
        // When the tab that owns it is closed, another one opens it and nothing is lost.
        first.close();
        let question = server.api.until_asked(&run);
        server.api.answer(&run, &question, "P");
        second.sees(".run-title .state", "success");
        second.sees(".connection.live", "Live");
        second.until("!document.querySelector('nav .count')");
        assert!(streams(&second) > 0);
    });
}

#[test]
fn a_tab_that_is_opened_later_shows_the_question_and_the_output_of_the_tool_before_it() {
    in_browser(|browser| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ask.dot"), ASK).unwrap();
        let program = Program::start(folder.path(), "127.0.0.1:0");
        let run = program.api.begin("ask.dot", json!({}));
        let question = program.api.until_asked(&run);
        let first = enter(browser, &program.api);
        first.sees("nav .count", "1");
        let second = enter(browser, &program.api);
        second.show(&format!("#/gates?gate={run}+{question}"));
        second.sees("nav .count", "1");
        second.sees(".question", "Release it?");
        // The decision in between has nothing to show.
        second.sees(".evidence h2", "Before: build");
        second.sees(".evidence pre", "built 14 files");
    });
}
