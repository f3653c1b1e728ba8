//! Tools of MCP servers that models call in a run.

#![cfg(unix)]

use std::time::{Duration, Instant};

use orchestra_model_server_tests::Answer;
use serde_json::Value;

use crate::agents_support::{Done, Project, done, reports};
use crate::mcp_support::{SECRET, call, command, project, results};

/// Lets the model call a tool and report success. Returns the run.
fn run(project: &Project, tool: &str) -> Done {
    project.server.push(Answer::call(tool, r#"{"text": "hello"}"#));
    project.server.push(reports("Done."));
    call(project, &["run", "a.dot"])
}

#[test]
fn a_model_calls_a_tool_by_the_description_that_was_reviewed() {
    let project = project("plain", "");
    run(&project, "tools__echo").exits(0);
    assert_eq!(results(&project), ["echo: hello"]);
    let tools = project.server.requests()[0].body["tools"].clone();
    let described: Vec<(&str, &str)> = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            (
                tool["name"].as_str().unwrap(),
                tool["description"].as_str().unwrap(),
            )
        })
        .collect();
    assert!(
        described.contains(&("tools__echo", "Says it again.")),
        "{described:?}"
    );
    let events = std::fs::read_to_string(run_file(&project, "events.jsonl")).unwrap();
    assert!(events.contains("tools:echo"), "the call is recorded");
}

fn run_file(project: &Project, name: &str) -> std::path::PathBuf {
    let id = project.scratch.runs().remove(0);
    project.scratch.path(".orchestra/runs").join(id).join(name)
}

#[test]
fn a_server_that_differs_from_the_lock_file_stops_the_run_before_the_model_is_called() {
    for (mode, difference) in [
        ("changed", "the description of `echo` has changed"),
        ("added", "the tool `remove` was added"),
        ("removed", "the tool `ask` was removed"),
    ] {
        let project = project(mode, "");
        let run = run(&project, "tools__echo").exits(1);
        assert!(run.stderr.contains(difference), "{}", run.stderr);
        assert!(
            run.stderr.contains("orchestra mcp lock --accept tools"),
            "{}",
            run.stderr
        );
        assert!(project.server.requests().is_empty());
    }
}

#[test]
fn tools_that_change_during_a_call_stop_the_run() {
    let project = project("list_changed", "");
    let run = run(&project, "tools__echo").exits(1);
    assert!(
        run.stderr.contains("the tool `remove` was added"),
        "{}",
        run.stderr
    );
    assert_eq!(project.server.requests().len(), 1, "the model sees nothing of it");
    assert!(
        run.stderr.contains("orchestra mcp lock --accept tools"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_server_that_does_not_answer_costs_its_time_limit_only() {
    let project = project("hangs", "    timeout: 300ms\n");
    run(&project, "tools__echo").exits(0);
    let results = results(&project);
    assert!(
        results[0].contains("has not answered in 300ms; the call was cancelled"),
        "{results:?}"
    );
}

#[test]
fn a_server_that_does_not_start_fails_its_stage() {
    let project = project("silent", "    start_timeout: 300ms\n");
    let run = run(&project, "tools__echo").exits(1);
    assert!(
        run.stderr.contains("`tools` has not started in 300ms"),
        "{}",
        run.stderr
    );
    assert!(project.server.requests().is_empty());
}

#[test]
fn a_server_that_dies_is_an_error_for_the_model_and_is_started_again() {
    let project = project("dies", "");
    for _ in 0..5 {
        project.server.push(Answer::call("tools__echo", "{}"));
    }
    project.server.push(reports("Done."));
    call(&project, &["run", "a.dot"]).exits(0);
    let results = results(&project);
    assert!(results[0].contains("out of luck"), "{results:?}");
    assert!(results[3].contains("out of luck"), "{results:?}");
    assert!(results[4].contains("has ended 4 times"), "{results:?}");
}

#[test]
fn output_without_end_ends_the_server_and_not_the_memory() {
    for (mode, reason) in [
        ("floods", "more than 16 MiB"),
        ("babbles", "more than 1 MiB that are not messages"),
    ] {
        let project = project(mode, "");
        run(&project, "tools__echo").exits(0);
        let results = results(&project);
        assert!(results[0].contains(reason), "{results:?}");
    }
}

#[test]
fn results_are_shortened_redacted_and_without_invisible_characters() {
    let large = project("large", "");
    run(&large, "tools__echo").exits(0);
    let length = results(&large)[0].len();
    assert!((1_000..=31_000).contains(&length), "{length}");
    let hides = project("hides", "");
    run(&hides, "tools__echo").exits(0);
    assert_eq!(results(&hides), ["visible[2J hello"]);
    let tells = project("tells", "");
    run(&tells, "tools__echo").exits(0);
    let said = results(&tells);
    assert!(!said[0].contains(SECRET) && said[0].ends_with("None"), "{said:?}");
}

#[test]
fn a_server_gets_neither_models_nor_folders() {
    let project = project("wants", "");
    run(&project, "tools__echo").exits(0);
    assert_eq!(results(&project), ["-32601 -32601"]);
}

#[test]
fn nothing_that_a_server_started_outlives_the_run() {
    for scope in ["run", "stage"] {
        let project = project("leaves", &format!("    scope: {scope}\n"));
        run(&project, "tools__echo").exits(0);
        let begun = Instant::now();
        while is_running("sleep 987654") {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "it still runs ({scope})"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn is_running(line: &str) -> bool {
    let output = std::process::Command::new("ps")
        .args(["-eo", "args"])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .any(|known| known.trim() == line)
}

#[test]
fn a_question_of_a_server_is_a_question_of_the_stage() {
    for (answer, said) in [
        ("large", r#"the person said "accept" {"size":"large"}"#),
        ("decline", r#"the person said "decline" null"#),
    ] {
        let project = project("asks", "");
        project.server.push(Answer::call("tools__ask", "{}"));
        project.server.push(reports("Done."));
        let run = call(&project, &["run", "a.dot", "--answer", &format!("work={answer}")]);
        run.exits(0);
        assert_eq!(results(&project), [said]);
    }
}

#[test]
fn a_question_that_may_be_one_of_two_stages_is_asked_of_neither() {
    let project = project("asks_two", "");
    project.scratch.write(
        "a.dot",
        "digraph a { start -> fork; fork [shape=component]; fork -> left; fork -> right; join [shape=tripleoctagon]\n\
         left [prompt=\"Do it.\", agent=worker]; right [prompt=\"Do it.\", agent=worker]; left -> join; right -> join; \
         join -> exit }",
    );
    for _ in 0..2 {
        project.server.push(Answer::call("tools__ask", "{}"));
    }
    for _ in 0..2 {
        project.server.push(reports("Done."));
    }
    let answers = ["--answer", "left=large", "--answer", "right=large"];
    let run = call(&project, &[&["run", "a.dot"], &answers[..]].concat()).exits(0);
    assert_eq!(results(&project), [r#"the person said "decline" null"#]);
    let warning = "several stages were calling the server; give each stage its own with `scope: stage`";
    assert_eq!(run.stderr.matches(warning).count(), 2, "{}", run.stderr);
}

#[test]
fn a_run_whose_server_asks_is_paused_until_somebody_answers() {
    let project = project("asks", "");
    project.server.push(Answer::call("tools__ask", "{}"));
    let paused = call(&project, &["run", "a.dot"]).exits(5);
    assert!(paused.stderr.contains("Which size?"), "{}", paused.stderr);
    let help = "help: answer it with `--answer work=1` (of [1] ";
    assert!(paused.stderr.contains(help), "{}", paused.stderr);
    call(&project, &["answer", "last", "work", "huge"]).exits(2);
    call(&project, &["answer", "last", "work", "small"]).exits(0);
    project.server.push(reports("Done."));
    let mut resume = command(&project, &["resume", "last"]);
    done(resume.output().unwrap()).exits(0);
    assert_eq!(
        results(&project),
        [r#"the person said "accept" {"size":"small"}"#]
    );
}

#[test]
fn a_misspelt_tool_is_refused_without_starting_a_server() {
    let project = project("plain", "");
    let text = project.scratch.read("orchestra.yaml");
    let text = text.replace("command: [", "command: [/no/such/program, ");
    project
        .scratch
        .write("orchestra.yaml", text.replace("tools:echo", "tools:ecko"));
    let check = call(&project, &["check", "a.dot", "--json"]).exits(3);
    let found: Vec<Value> = check.objects();
    assert!(
        found.iter().any(|found| found["code"] == "unknown_tool"),
        "{found:?}"
    );
    let run = call(&project, &["run", "a.dot"]).exits(3);
    assert!(
        run.stderr.contains("did you mean `tools:echo`?"),
        "{}",
        run.stderr
    );
    assert!(project.server.requests().is_empty());
}
