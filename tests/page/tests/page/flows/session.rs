//! Links, sessions and addresses.

use serde_json::json;

use super::enter;
use crate::browser::in_browser;
use crate::support::TestServer;

#[test]
fn the_link_opens_the_page_and_its_token_leaves_the_address() {
    in_browser(|browser| {
        let server = TestServer::start();
        let tab = enter(browser, &server.api);
        tab.sees(".empty", "No runs yet");
        tab.sees(".connection.live", "Live");
        assert_eq!(
            tab.eval("[location.hash, document.cookie, document.title, performance.getEntriesByType('resource').some((one) => one.name.includes('token'))]"),
            json!(["#/runs", "", "Runs · Orchestra", false])
        );
        tab.click("nav a", "Gates");
        tab.sees(".empty", "Nothing waits for you");
        tab.click("nav a", "Definitions");
        tab.sees("table th", "release");
        tab.sees("table th", "long");
        tab.click("nav a", "Editor");
        tab.sees(".run-head .state", "valid");
        tab.show("#/nothing/here");
        tab.sees("h1", "There is no such screen");
        tab.expect("status of 404");
        tab.show("#/runs/unknown");
        tab.sees("h1", "There is no such run");
    });
}

#[test]
fn without_a_session_the_page_asks_for_the_link() {
    in_browser(|browser| {
        let server = TestServer::start();
        let tab = browser.tab(&server.api.origin());
        tab.expect("status of 401");
        tab.open(&format!("{}/ui/", server.api.origin()));
        tab.sees("h1", "Open the link from the terminal");
        let wrong = format!("{}/ui/#token={}", server.api.origin(), "0".repeat(64));
        tab.open(&wrong);
        tab.sees("main", "The token of this link is no longer valid");
        assert!(!tab.eval("location.href").to_string().contains("token"));
        tab.open(&server.api.link());
        tab.sees("h1", "Runs");
        // The session is that of the browser, so other tabs need no link.
        let other = browser.tab(&server.api.origin());
        other.open(&format!("{}/ui/#/definitions", server.api.origin()));
        other.sees("h1", "Definitions");
    });
}

#[test]
fn an_expired_session_asks_for_the_link_in_every_tab() {
    in_browser(|browser| {
        let server = TestServer::start();
        let tab = enter(browser, &server.api);
        let other = enter(browser, &server.api);
        other.click("button", "Sign out");
        other.sees("h1", "Open the link from the terminal");
        tab.expect("status of 401");
        tab.show("#/definitions");
        tab.sees("h1", "Open the link from the terminal");
        tab.open(&server.api.link());
        tab.sees("h1", "Runs");
        other.click("button", "I have opened it, try again");
        other.sees("h1", "Runs");
    });
}

#[test]
fn every_screen_is_at_its_address_after_a_reload() {
    in_browser(|browser| {
        let server = TestServer::start();
        let run = server.api.begin_to_gate(json!({ "size": "large" }));
        let tab = enter(browser, &server.api);
        let rows = server.api.get(&format!("/api/v1/runs/{run}"));
        let decision = rows["transitions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["from"] == "rate")
            .unwrap();
        let decision = decision["seq"].to_string();
        let screens = [
            ("#/runs?status=running", ".chip[aria-pressed=true]", "running"),
            ("#/gates", ".question", "Publish this note?"),
            ("#/definitions?find=rel", "table th", "release"),
            ("#/definitions/release/edges", "[aria-selected=true]", "Edges"),
            ("#/definitions/release/source", "pre.source", "digraph release"),
            ("#/editor", "h1", "Editor"),
            (&format!("#/runs/{run}"), "[aria-selected=true]", "Timeline"),
            (&format!("#/runs/{run}/timeline?node=build"), ".node-bar", "Build"),
            (
                &format!("#/runs/{run}/decisions?decision={decision}"),
                ".details h2",
                "Why rate → inspect",
            ),
            (
                &format!("#/runs/{run}/log?text=EdgeSelected"),
                ".vrow",
                "EdgeSelected",
            ),
            (
                &format!("#/runs/{run}/context?at=cp_000001"),
                ".scrub-now",
                "cp_000001",
            ),
            (
                &format!("#/runs/{run}/files?file=manifest.json"),
                ".preview h2",
                "manifest.json",
            ),
            (&format!("#/runs/{run}/conversation"), ".talk h2", "write"),
            (
                &format!("#/runs/{run}/cost?node=write"),
                "h2",
                "Attempts of write",
            ),
        ];
        for (hash, css, text) in screens {
            tab.show(hash);
            tab.sees(css, text);
            tab.reload();
            tab.sees(css, text);
            assert_eq!(tab.eval("location.hash"), json!(hash));
        }
    });
}
