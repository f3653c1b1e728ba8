//! Transient failures of model calls, through the program (rule F9).

#![cfg(unix)]

use crate::agents_support;

use agents_support::Project;
use orchestra_model_server_tests::{Answer, Fault};

/// A stage that needs only one model call.
const ASK: &str = "digraph { start -> ask -> exit; ask [prompt=x, ATTRIBUTES] }";

fn project(attributes: &str) -> Project {
    let project = Project::new("");
    project
        .scratch
        .write("a.dot", ASK.replace("ATTRIBUTES", attributes));
    project
}

fn error(status: u16, code: &'static str, retry_after: &str) -> Answer {
    Answer::fault(Fault::Error {
        status,
        code,
        message: "Not now.",
        retry_after: Some(retry_after.to_owned()),
    })
}

fn rate_limited() -> Answer {
    error(429, "rate_limit_error", "0.01")
}

#[test]
fn the_first_call_of_a_stage_is_made_again_until_it_succeeds() {
    for backend in ["direct", "agent"] {
        let project = project(&format!("backend={backend}"));
        for (status, code) in [
            (429, "rate_limit_error"),
            (408, "timeout_error"),
            (409, "conflict"),
            (503, "api_error"),
        ] {
            project.server.push(error(status, code, "0.01"));
        }
        project.server.push(Answer::text("Done."));
        let run = project.call(&["run", "a.dot"]).exits(0);
        assert_eq!(run.stdout, "success: start -> ask -> exit\n");
        let asked = project.asked();
        assert_eq!((asked.len(), project.server.left()), (5, 0), "{backend}");
        assert!(
            asked.iter().all(|messages| *messages == asked[0]),
            "the same is asked"
        );
        assert!(run.stderr.contains("4 of 5 tries failed"), "{}", run.stderr);
    }
}

#[test]
fn a_stream_that_breaks_is_asked_for_again() {
    let project = project("backend=direct");
    project.server.push(Answer::fault(Fault::Cut));
    project.server.push(Answer::text("Leaves fall."));
    let run = project.call(&["run", "a.dot"]).exits(0);
    assert!(run.stderr.contains("1 of 5 tries failed"), "{}", run.stderr);
    assert_eq!(project.asked().len(), 2);
    let folder = project.scratch.runs().remove(0);
    let response = project
        .scratch
        .read(&format!(".orchestra/runs/{folder}/ask/response.md"));
    assert_eq!(response, "Leaves fall.", "nothing of the broken answer is kept");
}

#[test]
fn after_five_tries_the_stage_fails_with_the_last_reason() {
    let project = project("backend=direct");
    (0..6).for_each(|_| project.server.push(rate_limited()));
    let run = project.call(&["run", "a.dot"]).exits(1);
    assert_eq!((project.asked().len(), project.server.left()), (5, 1));
    assert!(
        run.stderr.contains("too many requests (HTTP 429)"),
        "{}",
        run.stderr
    );
}

#[test]
fn what_trying_again_cannot_help_is_tried_once() {
    let project = project("backend=direct");
    project.server.push(error(400, "invalid_request_error", "0.01"));
    project.call(&["run", "a.dot"]).exits(1);
    assert_eq!(project.asked().len(), 1);
}

#[test]
fn the_budget_of_the_run_bounds_the_tries() {
    let project = project("backend=direct");
    let used = Fault::ErrorAfterUsage {
        code: "overloaded_error",
        message: "Not now.",
    };
    project
        .server
        .push(Answer::text("").tokens(5_000, 100).breaking(used));
    let run = project.call(&["run", "a.dot", "--max-tokens", "5200"]).exits(6);
    assert_eq!(run.stdout, "paused: start\n");
    assert_eq!(project.asked().len(), 1, "what the failed call used counts");
}
