use std::io::Write as _;
use std::process::Stdio;

use crate::support::{Running, Scenario};

#[test]
fn a_headless_run_waits_for_the_answers_of_another_process() {
    let scenario = Scenario::open("waiting_run");
    let mut run = scenario.start(&["run", "waiting_run.dot", "--wait"]);
    run.until_event("InterviewStarted", "gate");
    scenario
        .call(&["answer", "last", "gate", "Say who wrote it."])
        .exits(0);
    run.until_event("InterviewStarted", "gate");
    assert_eq!(scenario.played("mends"), 1);
    scenario.call(&["answer", "last", "gate", "P"]).exits(0);
    let done = run.end().exits(0);
    let path: Vec<String> = done.result()["path"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node.as_str().unwrap().to_owned())
        .collect();
    let expected = include_str!("expected.txt");
    assert_eq!(format!("success: {}\n", path.join(" -> ")), expected);
    assert_eq!(scenario.read("published"), "published\n");
    scenario.model_was_understood();
}

#[test]
fn a_piped_answer_that_comes_late_is_waited_for() {
    let scenario = Scenario::open("waiting_run");
    let mut command = scenario.command(&["run", "waiting_run.dot", "--wait"]);
    command.stdin(Stdio::piped());
    let mut run = Running::start(command);
    run.until_event("InterviewStarted", "gate");
    // Another process sees the question before the answer is written, so it is a late one.
    scenario.until("the question is shown", |scenario| {
        scenario.status()["questions"].to_string().contains("gate")
            || scenario.call(&["status", "last"]).stdout.contains("Publish it?")
    });
    let mut input = run.input.take().unwrap();
    input.write_all(b"P\n").unwrap();
    drop(input);
    let done = run.end().exits(0);
    assert_eq!(done.result()["status"], "success");
}
