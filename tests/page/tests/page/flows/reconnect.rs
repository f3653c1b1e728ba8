//! Servers that stop, die and come back.

use std::fs;

use serde_json::json;

use super::enter;
use crate::browser::in_browser;
use crate::support::{Program, TestServer, until};

/// A tool that goes on when a file is there, before a gate.
const WORK: &str = r#"digraph work {
    graph [goal="Work that is interrupted"]
    start -> first -> second -> exit
    first [shape=parallelogram, label="First", tool_command="echo first >> done"]
    second [shape=parallelogram, label="Second", tool_command="echo began >> done; while [ ! -e go ]; do sleep 0.02; done; echo second >> done"]
}
"#;

#[test]
fn a_killed_server_comes_back_and_the_page_shows_what_is_true() {
    in_browser(|browser| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("work.dot"), WORK).unwrap();
        let program = Program::start(folder.path(), "127.0.0.1:0");
        let api = program.api.clone();
        let tab = enter(browser, &api);
        tab.expect("status of 401");
        let run = api.begin("work.dot", json!({}));
        tab.show(&format!("#/runs/{run}"));
        let done = folder.path().join("done");
        until("the second stage", || {
            fs::read_to_string(&done)
                .ok()
                .filter(|done| done.contains("began"))
        });
        tab.until("document.querySelector('.node[aria-label=\"Second: running\"]') !== null");
        program.kill();
        tab.sees(".connection.wait", "Reconnecting");
        // The sessions have ended with the process. The token is the same, so the link still opens the page.
        let program = Program::start(folder.path(), api.address());
        tab.sees("h1", "Open the link from the terminal");
        tab.open(&program.api.link());
        tab.sees("table .state", "interrupted");
        tab.click("table a", "work");
        tab.sees(".run-title .state", "interrupted");
        fs::write(folder.path().join("go"), "").unwrap();
        tab.click(".run-title button", "Resume");
        tab.click("dialog button", "Resume");
        tab.sees(".run-title .state", "success");
        let text = fs::read_to_string(&done).unwrap();
        assert_eq!(text.matches("first").count(), 1, "{text}");
        assert!(text.ends_with("second\n"), "{text}");
    });
}

#[test]
fn what_happened_while_the_network_was_gone_is_shown() {
    in_browser(|browser| {
        let server = TestServer::start();
        let run = server.api.begin("release", json!({}));
        let question = server.api.until_asked(&run);
        let tab = enter(browser, &server.api);
        tab.expect("ERR_INTERNET_DISCONNECTED");
        // The modules of this screen are loaded when it is shown first.
        tab.show(&format!("#/runs/{run}"));
        tab.sees(".run-title .state", "running");
        tab.show("#/runs");
        tab.sees("table .state", "running");
        tab.sees(".connection.live", "Live");
        tab.offline(true);
        // The stream of this screen cannot be opened.
        tab.show(&format!("#/runs/{run}"));
        tab.sees(".failure", "The server cannot be reached");
        tab.sees(".connection.wait", "Reconnecting");
        server.api.answer(&run, &question, "P");
        server.api.until_status(&run, "success");
        tab.offline(false);
        tab.sees(".connection.live", "Live");
        tab.sees(".run-title .state", "success");
        tab.until("!document.querySelector('nav .count')");
        tab.until("document.querySelector('.node[aria-label=\"Publish: done\"]') !== null");
    });
}

#[test]
fn a_server_that_stops_says_so_and_pauses_its_runs() {
    in_browser(|browser| {
        let server = TestServer::start();
        let run = server.api.begin("release", json!({}));
        let question = server.api.until_asked(&run);
        let tab = enter(browser, &server.api);
        tab.show(&format!("#/runs/{run}"));
        tab.sees(".run-title .state", "running");
        // A change of the run has arrived, so the stream of this screen is open.
        server.api.answer(&run, &question, "W");
        tab.sees(".vrow .tag", "visit 2");
        drop(server);
        tab.sees(".connection.stop", "Server stopped");
    });
}
