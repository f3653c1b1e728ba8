//! From a definition, or a text, to a run.

use serde_json::json;

use super::{chosen, enter, press_until};
use crate::browser::in_browser;
use crate::support::TestServer;

#[test]
fn a_run_is_started_watched_and_answered_by_keyboard() {
    in_browser(|browser| {
        let server = TestServer::start();
        let tab = enter(browser, &server.api);
        tab.click("nav a", "Definitions");
        tab.click("table a", "release");
        tab.sees(".graph-svg text", "Rate the risk");
        tab.fill("form textarea", "size=large");
        tab.sees("form .command code", "--set size=large");
        tab.click("form button", "Start");
        // The graph follows the run to its gate.
        tab.until("document.querySelector('.node[aria-label^=\"Publish this note?\"]')?.getAttribute('aria-label').includes('waiting')");
        let labels =
            tab.eval("[...document.querySelectorAll('.node')].map((one) => one.getAttribute('aria-label'))");
        for label in ["Build: done", "Inspect by hand: done", "Publish: pending"] {
            assert!(
                labels.as_array().unwrap().contains(&json!(label)),
                "{label} in {labels}"
            );
        }
        tab.sees(".run-head .banner", "1 question open");
        tab.sees("nav .count", "1");
        // From here on, only keys.
        tab.press("g");
        tab.press("g");
        tab.sees(".question", "Publish this note?");
        tab.sees(".evidence", "Draft 1: faster");
        // A choice alone answers nothing.
        press_until(&tab, "w", &chosen("W"));
        press_until(&tab, "p", &chosen("P"));
        let run = server.api.get("/api/v1/runs")["runs"][0]["run"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(
            server.api.get(&format!("/api/v1/runs/{run}"))["questions"][0]["node"],
            "approve"
        );
        tab.press("Enter");
        tab.sees(".empty", "Nothing waits for you");
        tab.sees(".toast", "Answered; the run goes on");
        tab.press("g");
        tab.press("r");
        tab.sees("table .state", "success");
        press_until(&tab, "j", "document.activeElement.dataset.run !== undefined");
        tab.press("Enter");
        tab.sees(".run-title .state", "success");
        press_until(&tab, "f", "document.activeElement.classList.contains('node')");
        tab.press("ArrowDown");
        tab.press("Enter");
        tab.sees(".node-bar", "Build");
        tab.press("?");
        tab.sees("dialog", "Show the keys");
        tab.press("Escape");
        tab.until("!document.querySelector('dialog')");
        let stages = server.api.until_status(&run, "success")["stages"].clone();
        let published = stages
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["node"] == "publish")
            .count();
        assert_eq!(published, 1);
    });
}

#[test]
fn a_failed_run_shows_why_and_is_retried() {
    in_browser(|browser| {
        let server = TestServer::start();
        server.break_registry(true);
        let run = server.api.begin("release", json!({}));
        let question = server.api.until_asked(&run);
        let tab = enter(browser, &server.api);
        tab.show(&format!("#/runs/{run}"));
        tab.sees(".run-title .state", "running");
        server.api.answer(&run, &question, "P");
        tab.sees(".run-title .state", "fail");
        tab.sees(".banner", "the registry does not answer");
        tab.until("document.querySelector('.node[aria-label=\"Publish: failed\"]') !== null");
        tab.click(".vrow", "publish");
        tab.sees(".details", "the registry does not answer");
        server.break_registry(false);
        tab.click(".run-title button", "Retry");
        tab.sees("dialog", "The run goes on at publish");
        tab.click("dialog button", "Retry");
        tab.sees(".run-title .state", "success");
        // The failed attempts stay in the history.
        let stages = server.api.until_status(&run, "success")["stages"].clone();
        let outcomes: Vec<&str> = stages
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["node"] == "publish")
            .filter_map(|row| row["outcome"].as_str())
            .collect();
        assert_eq!(outcomes, ["fail", "success"]);
    });
}

#[test]
fn a_run_is_paused_resumed_and_cancelled() {
    in_browser(|browser| {
        let server = TestServer::start();
        let run = server.api.begin_to_gate(json!({}));
        let tab = enter(browser, &server.api);
        tab.show(&format!("#/runs/{run}"));
        tab.click(".run-title button", "Pause");
        tab.click("dialog button", "Pause");
        tab.sees(".run-title .state", "paused");
        tab.click(".run-title button", "Resume");
        tab.click("dialog button", "Resume");
        tab.sees(".run-title .state", "running");
        tab.click(".run-title button", "Cancel");
        tab.fill("dialog input", "not needed");
        tab.click("dialog button", "Cancel the run");
        tab.sees(".run-title .state", "cancelled");
        tab.sees(".banner", "not needed");
    });
}

#[test]
fn the_editor_locates_what_is_wrong_and_starts_what_is_valid() {
    in_browser(|browser| {
        let server = TestServer::start();
        let tab = enter(browser, &server.api);
        tab.click("nav a", "Editor");
        tab.sees(".run-head .state", "valid");
        tab.fill("textarea.code", "digraph bad {\n    start -> ask\n    ask [shape=hexagon, label=\"Go on?\"]\n    ask -> publsh [label=\"[Y] Yes\"]\n    publish [shape=hexagon, label=\"Sure?\"]\n    publish -> exit [label=\"[S] Sure\"]\n}\n");
        tab.sees(".run-head .state", "error");
        tab.sees(".diagnostics li", "unknown node `publsh`");
        tab.sees(".diagnostics li", "did you mean `publish`?");
        tab.sees(".lines .marked", "4");
        tab.until("document.querySelector('.start .primary').disabled");
        // A diagnostic leads to its place.
        tab.click(".diagnostics button", "line 4");
        assert_eq!(
            tab.eval("(({ value, selectionStart, selectionEnd }) => value.slice(selectionStart, selectionEnd))(document.querySelector('textarea.code'))"),
            "publsh"
        );
        // The text stays when the page is loaded again.
        tab.reload();
        tab.sees(".lines .marked", "4");
        tab.fill("textarea.code", "digraph good {\n    start -> ask\n    ask [shape=hexagon, label=\"Go <b>on</b>?\"]\n    ask -> exit [label=\"[Y] Yes\"]\n}\n");
        tab.sees(".run-head .state", "valid");
        tab.sees(".graph-svg text", "Go <b>on</b>?");
        tab.click(".start button", "Start");
        tab.sees(".banner", "Go <b>on</b>?");
        // A text that is replaced can be brought back.
        tab.show("#/editor");
        tab.sees(".run-head .state", "valid");
        tab.click(".run-head button", "Begin with the example");
        tab.until("document.querySelector('textarea.code').value.startsWith('digraph review')");
        tab.click(".run-head .banner button", "Bring it back");
        tab.until("document.querySelector('textarea.code').value.startsWith('digraph good')");
        // A text with a power is refused with the reason.
        tab.expect("status of 403");
        tab.fill("textarea.code", "digraph tool {\n    start -> run -> exit\n    run [shape=parallelogram, tool_command=\"id\"]\n}\n");
        tab.sees(".run-head .state", "valid");
        tab.until("!document.querySelector('.start .primary').disabled");
        tab.click(".start button", "Start");
        tab.sees(".failure", "The run was not started");
        tab.sees(".failure", "--submit any");
        tab.click(".start label", "Simulate");
        tab.click(".start button", "Simulate");
        tab.sees(".run-title .tag", "simulated");
    });
}
