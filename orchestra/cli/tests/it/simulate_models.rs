//! `run --simulate-models`: no model is called, and everything else is real, also when the run is resumed or replayed.

#![cfg(unix)]

use crate::agents_support;

use std::process::Command;

use agents_support::{Done, Project, Scratch};
use serde_json::{Value, json};

/// Model stages around a tool and a gate.
const RELEASE: &str = r#"digraph release {
    start -> plan -> build -> approve
    plan    [prompt="Plan it."]
    build   [shape=parallelogram, tool_command="echo built | tee -a built"]
    approve [shape=hexagon, label="Ship it?"]
    approve -> ship [label="[Y] Yes"]
    approve -> plan [label="[N] No"]
    ship    [prompt="Write the announcement."]
    ship -> sent
    sent    [shape=parallelogram, tool_command="cat built | wc -l"]
    sent -> exit
}
"#;

fn scratch(text: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("release.dot", text);
    scratch
}

fn context(run: &Done) -> Value {
    let folder = run.result()["run_dir"].as_str().unwrap().to_owned();
    let checkpoint = std::fs::read(format!("{folder}/checkpoint.json")).unwrap();
    serde_json::from_slice::<Value>(&checkpoint).unwrap()["context"].clone()
}

#[test]
fn models_are_simulated_tools_run_and_gates_are_answered() {
    let scratch = scratch(RELEASE);
    let run = ["run", "release.dot", "--simulate-models", "--json"];
    let run = scratch.call_with(&run, "N\nY\n").exits(0);
    let path = [
        "start", "plan", "build", "approve", "plan", "build", "approve", "ship", "sent", "exit",
    ];
    assert_eq!(run.result()["path"], json!(path));
    assert_eq!(scratch.lines("built"), 2);
    let context = context(&run);
    assert_eq!(context["tool.output"].as_str().unwrap().trim(), "2");
    assert_eq!(context["last_response"], "[Simulated] Response for stage: ship");
}

#[test]
fn the_file_may_stand_behind_the_option_and_nobody_to_ask_pauses() {
    let run = scratch(RELEASE)
        .call(&["run", "--simulate-models", "release.dot"])
        .exits(5);
    assert_eq!(run.stdout, "paused: start -> plan -> build\n");
    let both = ["run", "release.dot", "--simulate", "--simulate-models"];
    let both = scratch(RELEASE).call(&both).exits(2);
    assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
}

#[test]
fn what_the_script_names_is_simulated_whatever_it_is() {
    let scratch = scratch(RELEASE);
    scratch.write(
        "script.yaml",
        "plan: [{outcome: success, context: {size: 3}}]\nship: [fail]\nbuild: [success]\n",
    );
    let by_script = [
        "run",
        "release.dot",
        "--answer",
        "approve=Y",
        "--simulate-models",
        "script.yaml",
        "--json",
    ];
    let run = scratch.call(&by_script).exits(1);
    assert_eq!(run.result()["failure"]["node"], "ship");
    assert_eq!(context(&run)["size"], 3);
    assert!(
        !scratch.path("built").exists(),
        "the tool that the script names did not run"
    );
    let inline = [
        "run",
        "release.dot",
        "--simulate-models",
        "--outcome",
        "plan=fail",
        "--auto-approve",
    ];
    let run = scratch.call(&inline).exits(1);
    assert!(run.stderr.contains("simulated failure"), "{}", run.stderr);
}

#[test]
fn a_tool_that_fails_fails_its_run() {
    let scratch = scratch(&RELEASE.replace("echo built | tee -a built", "echo broken >&2; exit 3"));
    let run = scratch
        .call(&["run", "release.dot", "--simulate-models"])
        .exits(1);
    assert!(run.stderr.contains("exit code 3: broken"), "{}", run.stderr);
}

#[test]
fn a_resumed_and_a_replayed_run_still_call_no_model() {
    let project = Project::new("");
    project.scratch.write("release.dot", RELEASE);
    project
        .call(&["run", "release.dot", "--simulate-models"])
        .exits(5);
    let resumed = ["resume", "last", "--answer", "approve=Y", "--json"];
    let resumed = project.call(&resumed).exits(0);
    assert_eq!(
        context(&resumed)["last_response"],
        "[Simulated] Response for stage: ship"
    );
    assert_eq!(context(&resumed)["tool.output"].as_str().unwrap().trim(), "1");
    let replay = [
        "replay",
        "last",
        "--checkpoint",
        "cp_000000",
        "--auto-approve",
        "--json",
    ];
    let replayed = project.call(&replay).exits(0);
    assert_eq!(context(&replayed)["tool.output"].as_str().unwrap().trim(), "2");
    assert_eq!(project.server.requests().len(), 0);
    // Without simulation, the same pipeline calls its models.
    project
        .server
        .push(orchestra_model_server_tests::Answer::text("Planned."));
    project.call(&["run", "release.dot"]).exits(5);
    assert_eq!(project.server.requests().len(), 1);
}

#[test]
fn a_gate_that_nobody_executes_is_answered_and_the_run_goes_on() {
    let scratch = scratch(RELEASE);
    scratch
        .call(&["run", "release.dot", "--simulate-models"])
        .exits(5);
    scratch.call(&["answer", "last", "approve", "Y"]).exits(0);
    let resumed = scratch.call(&["resume", "last"]).exits(0);
    assert_eq!(
        resumed.stdout,
        "success: start -> plan -> build -> approve -> ship -> sent -> exit\n"
    );
}

#[test]
fn keys_of_providers_are_not_asked_for() {
    let project = Project::new("");
    project.scratch.write("release.dot", RELEASE);
    let args = ["run", "release.dot", "--simulate-models", "--auto-approve"];
    let run = project
        .scratch
        .command(&args)
        .env_remove("ANTHROPIC_API_KEY")
        .output()
        .unwrap();
    assert_eq!(
        run.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
}

#[test]
fn a_stage_in_which_a_person_talks_with_the_model_is_simulated() {
    let project = Project::new("");
    project.scratch.write(
        "talk.dot",
        "digraph talk { start -> draft -> exit; draft [prompt=\"Draft it.\", interactive=true] }",
    );
    let run = project.call(&["run", "talk.dot", "--simulate-models"]).exits(0);
    assert_eq!(run.stdout, "success: start -> draft -> exit\n");
    assert_eq!(project.server.requests().len(), 0);
}

#[test]
fn children_run_and_their_models_are_simulated() {
    let scratch = scratch(RELEASE);
    let folder = "work [shape=folder, label=Release, subpipeline.file=\"release.dot\"]";
    scratch.write(
        "parent.dot",
        format!("digraph parent {{ start -> work -> exit; {folder} }}"),
    );
    scratch
        .call(&["run", "parent.dot", "--simulate-models", "--answer", "approve=Y"])
        .exits(0);
    assert_eq!(scratch.lines("built"), 1);
}

#[test]
fn a_fan_in_that_asks_a_model_is_simulated() {
    let scratch = scratch(
        r#"digraph release {
    start -> fan
    fan [shape=component]
    fan -> first; fan -> second
    first  [prompt="Write a poem."]
    second [shape=parallelogram, tool_command="echo poem"]
    first -> judge; second -> judge
    judge [shape=tripleoctagon, prompt="Choose the better one."]
    judge -> exit
}"#,
    );
    scratch
        .call(&["run", "release.dot", "--simulate-models"])
        .exits(0);
}

#[test]
fn tools_work_in_the_repositories_of_the_project() {
    let scratch = scratch(
        r#"digraph release {
    start -> plan -> build -> exit
    plan  [prompt="Plan it."]
    build [shape=parallelogram, tool_command="echo more >> list.txt"]
}"#,
    );
    scratch.write("orchestra.yaml", "workspace:\n  repos:\n    code: {path: code}\n");
    scratch.write("code/list.txt", "one\n");
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C")
            .arg(scratch.path("code"))
            .args(["-c", "user.name=me", "-c", "user.email=me@localhost"]);
        let said = git
            .args(words)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap()
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "start"]);
    let run = scratch
        .call(&["run", "release.dot", "--simulate-models", "--json"])
        .exits(0);
    let branch = run.result()["workspace"]["code"]["branch"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(git(&["show", &format!("{branch}:list.txt")]), "one\nmore\n");
    assert_eq!(
        scratch.read("code/list.txt"),
        "one\n",
        "a person's own tree is only read"
    );
}
