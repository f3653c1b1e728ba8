//! Hooks around the tool calls of models, and backends that cannot honour them, through the program (rule F8).

#![cfg(unix)]

use crate::agents_support;

use agents_support::{Project, reports};
use orchestra_model_server_tests::Answer;
use serde_json::Value;

/// Returns a project with a program as backend, which creates a file when it runs.
fn with_program(flow: &str) -> Project {
    let project = Project::new("backends: {coder: {kind: cli, command: touch ran; echo done}}\n");
    project.scratch.write("a.dot", flow);
    project
}

/// Asserts that `compile` and `run` reject a pipeline with a diagnostic.
#[track_caller]
fn refused(flow: &str, scratch: &str, parts: &[&str]) {
    let project = with_program(flow);
    for command in ["compile", "run"] {
        let done = project.call(&[command, "a.dot"]).exits(3);
        let reported = done.stderr + &done.stdout;
        for part in [scratch, "backend_capability", "`coder`"].iter().chain(parts) {
            assert!(reported.contains(part), "{command}, {part}:\n{reported}");
        }
    }
    assert!(!project.scratch.path("ran").exists() && !project.scratch.path(".orchestra").exists());
}

#[test]
fn a_guard_that_a_backend_cannot_honour_is_refused_where_it_is_written() {
    let hook = &["`tool_hooks.pre`", "`tool_hooks.pre=\"\"` on `work`"];
    let of_graph = "digraph {\n    graph [\"tool_hooks.pre\"=\"exit 1\"]\n    start -> work -> exit\n    \
        work [prompt=x, backend=coder]\n}\n";
    refused(of_graph, "a.dot:2:29", hook);
    let of_node = "digraph {\n    start -> work -> exit\n    \
        work [prompt=x, backend=coder, \"tool_hooks.pre\"=\"exit 1\"]\n}\n";
    refused(of_node, "a.dot:3:53", hook);
    // A node may disable the hook explicitly.
    let without = of_graph.replace("backend=coder", "backend=coder, \"tool_hooks.pre\"=\"\"");
    let project = with_program(&without);
    project.call(&["run", "a.dot"]).exits(0);
    assert!(project.scratch.path("ran").exists());
}

#[test]
fn a_hook_that_only_logs_is_a_warning() {
    let flow = "digraph {\n    graph [\"tool_hooks.post\"=\"true\"]\n    start -> work -> exit\n    \
        work [prompt=x, backend=coder]\n}\n";
    let project = with_program(flow);
    let compiled = project.call(&["compile", "a.dot"]).exits(0).stderr;
    assert!(
        compiled.contains("warning[backend_capability]") && compiled.contains("a.dot:2:30"),
        "{compiled}"
    );
    project.call(&["run", "a.dot"]).exits(0);
}

#[test]
fn a_conversation_with_a_program_is_refused_where_it_is_asked_for() {
    let flow = "digraph {\n    start -> work -> exit\n    \
        work [prompt=x, backend=coder, \"agent.mode\"=interactive]\n}\n";
    refused(flow, "a.dot:3:49", &["cannot talk with a person"]);
}

#[test]
fn hooks_run_around_the_calls_of_every_tool_and_receive_what_is_documented() {
    let project = Project::new(
        "tools: {greet: {command: 'echo hello; touch greeted', description: Greets.}}\nagents: {host: {tools: [greet]}}\n",
    );
    project.scratch.write(
        "hook.sh",
        "cat >> reported.jsonl; echo >> reported.jsonl\n\
         echo \"$ORCHESTRA_HOOK $ORCHESTRA_TOOL_NAME $ORCHESTRA_TOOL_CALL_ID $ORCHESTRA_NODE_ID ${ORCHESTRA_TOOL_STATUS-}\" >> reported.txt\n\
         if [ $ORCHESTRA_TOOL_NAME = shell ] && [ $ORCHESTRA_HOOK = pre ]; then echo no shells; exit 3; fi\n",
    );
    project.scratch.write(
        "a.dot",
        "digraph {\n    graph [\"tool_hooks.pre\"=\"sh hook.sh\", \"tool_hooks.post\"=\"sh hook.sh\"]\n    \
         start -> work -> exit\n    work [prompt=x, agent=host]\n}\n",
    );
    project
        .server
        .push(Answer::call("greet", "{}").and_call("shell", r#"{"command": "touch forbidden"}"#));
    project.server.push(reports("Greeted."));
    let run = project.call(&["run", "a.dot"]).exits(0);
    assert!(project.scratch.path("greeted").exists() && !project.scratch.path("forbidden").exists());
    assert_eq!(
        project.scratch.read("reported.txt"),
        "pre greet call_1 work \npost greet call_1 work success\npre shell call_2 work \n"
    );
    let reported = project.scratch.read("reported.jsonl");
    let reported: Vec<Value> = reported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let result = reported[1]["result"].as_str().unwrap();
    assert!(
        result.ends_with("hello") && reported[1]["error"].is_null(),
        "{result}"
    );
    assert_eq!(reported[2]["arguments"]["command"], "touch forbidden");
    assert_eq!(reported[2]["node"], "work");
    assert!(
        run.stderr.contains("no shells"),
        "the log tells of it: {}",
        run.stderr
    );
    let results = project.asked()[1].last().unwrap().to_string();
    assert!(results.contains("no shells"), "the model reads why: {results}");
}
