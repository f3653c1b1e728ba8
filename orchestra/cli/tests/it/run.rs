//! `orchestra run`, through the program.

#![cfg(unix)]

use crate::support;

use serde_json::Value;
use support::{Scratch, tools};

fn names(objects: &[Value]) -> Vec<&str> {
    objects
        .iter()
        .filter_map(|object| object["event"].as_str())
        .collect()
}

#[test]
fn a_run_of_tools_succeeds_with_code_0() {
    let scratch = Scratch::new();
    scratch.write("a.dot", tools(false));
    let run = scratch.call(&["run", "a.dot"]).exits(0);
    assert_eq!(run.stdout, "success: start -> first -> second -> exit\n");
    assert!(run.stderr.contains("-> exit (outcome=success)"), "{}", run.stderr);
    assert!(
        !run.stderr.contains('\x1b') && !run.stdout.contains('\x1b'),
        "a pipe takes no colours"
    );
}

#[test]
fn a_failed_run_says_why_and_exits_with_code_1() {
    let scratch = Scratch::new();
    scratch.write("a.dot", tools(true));
    let run = scratch.call(&["run", "a.dot"]).exits(1);
    assert_eq!(run.stdout, "failed: start -> first -> second -> mend\n");
    assert!(run.stderr.contains("on the wall"), "{}", run.stderr);
    assert!(run.stderr.contains("exit code 3"), "{}", run.stderr);
}

#[test]
fn wrong_usage_exits_with_code_2_and_a_suggestion() {
    let scratch = Scratch::new();
    scratch.write("release.dot", tools(false));
    let unknown = scratch.call(&["rum", "release.dot"]).exits(2);
    assert!(unknown.stderr.contains("'run'"), "{}", unknown.stderr);
    let missing = scratch.call(&["run", "relaese.dot"]).exits(2);
    assert!(
        missing.stderr.contains("did you mean `./release.dot`?"),
        "{}",
        missing.stderr
    );
    let node = scratch
        .call(&["run", "release.dot", "--simulate", "--outcome", "secnod=fail"])
        .exits(2);
    assert!(node.stderr.contains("did you mean `second`?"), "{}", node.stderr);
    scratch
        .call(&["run", "release.dot", "--outcome", "second=fail"])
        .exits(2);
    scratch
        .call(&["run", "release.dot", "--max-time", "soon"])
        .exits(2);
}

#[test]
fn an_invalid_pipeline_exits_with_code_3_and_runs_nothing() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        "digraph a {\n    start -> work -> exit\n    work -> Buidl\n}\n",
    );
    let run = scratch.call(&["run", "a.dot"]).exits(3);
    assert!(run.stderr.contains("error[edge_target_exists]"), "{}", run.stderr);
    assert!(!scratch.path(".orchestra").exists());
}

#[test]
fn model_stages_without_a_model_are_refused_with_the_way_out() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        "digraph a { start -> draft -> exit; draft [prompt=\"Draft it\"] }",
    );
    let run = scratch.call(&["run", "a.dot"]);
    assert_ne!(run.code, 0);
    assert!(
        run.stderr.contains("--simulate") && run.stderr.contains("draft"),
        "{}",
        run.stderr
    );
    scratch.call(&["run", "a.dot", "--simulate"]).exits(0);
}

#[test]
fn json_events_come_in_order_and_the_result_comes_last() {
    let scratch = Scratch::new();
    scratch.write("a.dot", tools(false));
    let run = scratch.call(&["run", "a.dot", "--json"]).exits(0);
    let objects = run.objects();
    let (result, events) = objects.split_last().unwrap();
    let sequence: Vec<u64> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(sequence, (1..=events.len() as u64).collect::<Vec<_>>());
    assert!(events.iter().all(|event| event["schema"] == "orchestra.event/1"));
    let names = names(events);
    assert_eq!(names.first(), Some(&"PipelineStarted"));
    assert_eq!(names.last(), Some(&"PipelineCompleted"));
    assert_eq!(result["schema"], "orchestra.result/1");
    assert_eq!(result["status"], "success");
    assert_eq!(
        result["path"],
        serde_json::json!(["start", "first", "second", "exit"])
    );
    assert!(run.stderr.is_empty(), "{}", run.stderr);
    let written = std::fs::read_to_string(
        std::path::Path::new(&scratch.path("."))
            .join(result["run_dir"].as_str().unwrap())
            .join("events.jsonl"),
    )
    .unwrap();
    assert_eq!(
        written.lines().count(),
        events.len(),
        "the file holds the same events"
    );
}

#[test]
fn a_failed_result_names_its_reason_in_json() {
    let scratch = Scratch::new();
    scratch.write("a.dot", tools(true));
    let run = scratch.call(&["run", "a.dot", "--json"]).exits(1);
    let result = run.objects().pop().unwrap();
    assert_eq!(result["status"], "fail");
    assert!(
        result["failure_reason"].as_str().unwrap().contains("mend"),
        "{result}"
    );
}

#[test]
fn quiet_leaves_the_result_alone() {
    let scratch = Scratch::new();
    scratch.write("a.dot", tools(false));
    let run = scratch.call(&["run", "a.dot", "--quiet"]).exits(0);
    assert_eq!(run.stdout, "success: start -> first -> second -> exit\n");
    assert_eq!(run.stderr, "");
}

#[test]
fn a_script_decides_outcomes_in_turn() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        r#"digraph a {
    start [shape=Mdiamond]
    exit [shape=Msquare]
    work [prompt="Do it"]
    good [shape=diamond]
    start -> work -> good
    good -> exit [condition="outcome=success && context.flag=true"]
    good -> work [condition="outcome=fail"]
    good -> work [condition="outcome=success && context.flag!=true"]
}"#,
    );
    scratch.write(
        "script.yaml",
        "work: [fail, success, {outcome: success, context: {flag: true}, notes: \"second look\"}]\n",
    );
    let run = scratch
        .call(&["run", "a.dot", "--simulate", "script.yaml"])
        .exits(0);
    assert_eq!(
        run.stdout,
        "success: start -> work -> good -> work -> good -> work -> good -> exit\n"
    );
    let inline = scratch.call(&[
        "run",
        "a.dot",
        "--simulate",
        "--outcome",
        "work=fail,fail",
        "--json",
    ]);
    assert_eq!(
        inline.code, 1,
        "the same failure again and again trips the breaker"
    );
    scratch.write("bad.yaml", "work: [fail\n");
    scratch.call(&["run", "a.dot", "--simulate", "bad.yaml"]).exits(2);
}

#[test]
fn values_of_the_command_line_reach_conditions_and_the_run_folder_is_where_it_was_asked_for() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        r#"digraph a {
    start [shape=Mdiamond]
    exit [shape=Msquare]
    pick [shape=diamond]
    small [shape=parallelogram, tool_command="echo small"]
    large [shape=parallelogram, tool_command="echo large"]
    start -> pick
    pick -> small [condition="context.size<10"]
    pick -> large [condition="context.size>=10"]
    small -> exit
    large -> exit
}"#,
    );
    let run = scratch
        .call(&[
            "run",
            "a.dot",
            "--set",
            "size=12",
            "--run-dir",
            "out",
            "--seed",
            "7",
        ])
        .exits(0);
    assert_eq!(run.stdout, "success: start -> pick -> large -> exit\n");
    for file in [
        "manifest.json",
        "checkpoint.json",
        "events.jsonl",
        "large/status.json",
        "large/tool_output.txt",
    ] {
        assert!(scratch.path("out").join(file).is_file(), "{file} is missing");
    }
    assert_eq!(scratch.read("out/large/tool_output.txt"), "large\n");
}

#[test]
fn the_longest_time_pauses_a_run_with_code_6() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        "digraph a { start -> wait -> exit; wait [shape=parallelogram, tool_command=\"sleep 600\"] }",
    );
    let run = scratch.call(&["run", "a.dot", "--max-time", "300ms"]).exits(6);
    assert_eq!(run.stdout, "paused: start\n");
    assert!(
        run.stderr.contains("longer than its limit of 300ms"),
        "{}",
        run.stderr
    );
    assert!(
        run.last_line().starts_with("resume with: orchestra resume "),
        "{}",
        run.stderr
    );
}

#[test]
fn a_reader_that_goes_away_does_no_harm() {
    let scratch = Scratch::new();
    scratch.write("a.dot", tools(false));
    let mut child = scratch
        .command(&["run", "a.dot", "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_file_behind_simulate_is_the_pipeline() {
    let scratch = Scratch::new();
    scratch.write("a.dot", tools(false));
    let run = scratch.call(&["run", "--simulate", "a.dot"]).exits(0);
    assert_eq!(run.stdout, "success: start -> first -> second -> exit\n");
    scratch.call(&["run", "--simulate"]).exits(2);
}

#[test]
fn a_scripted_word_that_a_node_does_not_declare_is_refused() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        "digraph a { start -> lint -> exit; lint [prompt=\"Lint\", outcomes=\"clean,dirty\"] }",
    );
    scratch
        .call(&["run", "a.dot", "--simulate", "--outcome", "lint=dirty"])
        .exits(0);
    let run = scratch
        .call(&["run", "a.dot", "--simulate", "--outcome", "lint=dirtyy"])
        .exits(2);
    assert!(run.stderr.contains("did you mean `dirty`?"), "{}", run.stderr);
}
