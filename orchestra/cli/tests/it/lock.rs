//! The lock file, through the program: `lock`, `check --locked` and `check --locked --runs`.

use crate::support;

use serde_json::Value;
use support::{Done, Scratch, gate};

/// A gate behind a tool, and a second tool.
fn release() -> String {
    gate("")
}

/// The same without the gate.
fn ungated() -> String {
    let text = release();
    let (head, _) = text.split_once("approve [shape").unwrap();
    let head = head.replace("start -> build -> approve", "start -> build -> ship");
    format!(
        "{head}ship [shape=parallelogram, tool_command=\"echo shipped >> shipped\"]\n    ship -> exit\n}}\n"
    )
}

fn locked() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("flows/release.dot", release());
    let done = scratch.call(&["lock", "flows/release.dot"]).exits(0);
    assert_eq!(done.stdout, "flows/release.dot: locked as version 1\n");
    scratch
}

/// Begins a run that waits at the gate, and returns its id.
fn waiting(scratch: &Scratch) -> String {
    scratch.call(&["run", "flows/release.dot"]).exits(5);
    scratch.runs().pop().unwrap()
}

fn says(done: &Done, text: &str) {
    let all = format!("{}{}", done.stdout, done.stderr);
    assert!(all.contains(text), "`{text}` is missing in\n{all}");
}

#[test]
fn lock_pins_the_texts_and_is_deterministic() {
    let scratch = locked();
    let lock = scratch.read("orchestra.lock");
    assert!(lock.starts_with("# The locked versions"), "{lock}");
    assert!(lock.contains("\"name\": \"flows/release.dot\"") && lock.contains("\"hash\": \"sha256:"));
    assert_eq!(scratch.read("orchestra.lock.d/flows/release-1.dot"), release());
    let again = scratch.call(&["lock"]).exits(0);
    assert_eq!(again.stdout, "flows/release.dot: version 1, unchanged\n");
    assert_eq!(scratch.read("orchestra.lock"), lock);
    // A comment is not a change.
    scratch.write("flows/release.dot", format!("// hello\n{}", release()));
    scratch.call(&["check", "--locked"]).exits(0);
}

#[test]
fn a_removed_gate_is_refused_with_its_position() {
    let scratch = locked();
    scratch.write("flows/release.dot", ungated());
    let lock = scratch.read("orchestra.lock");
    for command in [&["check", "--locked"][..], &["lock"]] {
        let done = scratch.call(command).exits(3);
        says(
            &done,
            "error[resume_breaks]: `approve` was removed; a run that waits there cannot go on",
        );
        says(&done, "flows/release.dot:3:5");
        says(&done, "version 1 is locked in `orchestra.lock`");
        says(
            &done,
            "keep the node `approve`, or let `orchestra lock --accept` keep version 1 beside the new one",
        );
    }
    let checked = scratch.call(&["check", "--locked"]).exits(3);
    says(&checked, "invalid: 1 file checked, 2 errors\n");
    assert_eq!(scratch.read("orchestra.lock"), lock, "nothing was locked");
    let done = scratch.call(&["check", "--locked", "--json"]).exits(3);
    let objects = done.objects();
    let object = objects
        .iter()
        .find(|object| object["schema"] == "orchestra.compatibility/1")
        .unwrap();
    assert_eq!(
        (&object["class"], &object["version"]),
        (&"breaks".into(), &1.into())
    );
    let change = &object["changes"][0];
    assert_eq!(
        (&change["class"], &change["id"]),
        (&"breaks".into(), &"approve".into())
    );
    assert_eq!(change["position"], "3:5");
}

#[test]
fn compatible_changes_are_listed_and_replace_the_version() {
    let scratch = locked();
    let changed = release().replace("Ship it?", "Ship it now?");
    scratch.write("flows/release.dot", changed);
    let done = scratch.call(&["check", "--locked", "flows/release.dot"]).exits(0);
    says(&done, "flows/release.dot: compatible with version 1");
    says(&done, "flows/release.dot:4:5: `label` of `approve` changed");
    let done = scratch.call(&["lock"]).exits(0);
    assert_eq!(
        done.stdout,
        "flows/release.dot: version 2 replaces version 1, 1 compatible change\n"
    );
    assert!(!scratch.path("orchestra.lock.d/flows/release-1.dot").exists());
    assert!(scratch.path("orchestra.lock.d/flows/release-2.dot").exists());
    let done = scratch.call(&["check", "--locked"]).exits(0);
    says(&done, "flows/release.dot: same as version 2");
}

#[test]
fn an_accepted_version_keeps_the_old_one_until_no_run_needs_it() {
    let scratch = locked();
    let run = waiting(&scratch);
    scratch.write("flows/release.dot", ungated());
    let done = scratch
        .call(&["check", "--locked", "--runs", ".orchestra/runs"])
        .exits(3);
    says(
        &done,
        &format!("{run}: waits at `approve`: breaks: the run stands at `approve`, which is gone"),
    );
    let done = scratch.call(&["lock", "--accept"]).exits(0);
    assert_eq!(done.stdout, "flows/release.dot: version 2 beside version 1\n");
    let done = scratch
        .call(&["check", "--locked", "--runs", ".orchestra/runs"])
        .exits(0);
    says(
        &done,
        &format!("{run}: waits at `approve`: goes on with version 1"),
    );
    let done = scratch
        .call(&["lock", "--retire", "1", "flows/release.dot"])
        .exits(3);
    says(
        &done,
        &format!("version 1 of `flows/release.dot` is needed by 1 unfinished run: {run}"),
    );
    let done = scratch
        .call(&["lock", "--retire", "2", "flows/release.dot"])
        .exits(2);
    says(&done, "is the released one");
    let done = scratch
        .call(&["lock", "--retire", "7", "flows/release.dot"])
        .exits(2);
    says(&done, "the versions are 1, 2");

    // The run goes on with the version that it began with.
    scratch.call(&["resume", &run, "--answer", "approve=Y"]).exits(0);
    assert_eq!(scratch.lines("shipped"), 1);
    let done = scratch
        .call(&["lock", "--retire", "1", "flows/release.dot"])
        .exits(0);
    assert_eq!(done.stdout, "flows/release.dot: version 1 retired\n");
    assert!(!scratch.path("orchestra.lock.d/flows/release-1.dot").exists());
    scratch
        .call(&["lock", "--retire", "2", "flows/release.dot"])
        .exits(0);
    assert!(!scratch.path("orchestra.lock").exists() && !scratch.path("orchestra.lock.d").exists());
}

#[test]
fn a_run_that_can_go_on_is_listed() {
    let scratch = locked();
    let run = waiting(&scratch);
    scratch.write(
        "flows/release.dot",
        release().replace("echo mended", "echo repaired"),
    );
    let done = scratch
        .call(&["check", "--locked", "--runs", ".orchestra/runs"])
        .exits(0);
    says(&done, &format!("{run}: waits at `approve`: goes on\n"));
    let done = scratch
        .call(&["check", "--locked", "--runs", ".orchestra/runs", "--json"])
        .exits(0);
    let mut objects = done.objects().into_iter();
    let object = objects
        .find(|object| object["schema"] == "orchestra.locked_run/1")
        .unwrap();
    assert_eq!(object["schema"], "orchestra.locked_run/1");
    assert_eq!(
        (&object["goes_on"], &object["waits_at"]),
        (&Value::Bool(true), &serde_json::json!(["approve"]))
    );
}

#[test]
fn children_and_prompts_are_pinned_too() {
    let scratch = Scratch::new();
    let child = "digraph lint {\n    start -> check -> exit\n    check [shape=hexagon, label=\"Fine?\"]\n}\n";
    scratch.write("parts/lint.dot", child);
    scratch.write(
        "flows/release.dot",
        "digraph release {\n    start -> lint -> exit\n    lint [shape=folder, label=Lint, subpipeline.file=\"../parts/lint.dot\"]\n}\n",
    );
    scratch.call(&["lock", "flows/release.dot"]).exits(0);
    assert_eq!(
        scratch.read("orchestra.lock.d/flows/release-1/parts/lint.dot"),
        child
    );
    scratch.write("parts/lint.dot", "digraph lint {\n    start -> check -> exit\n    check [shape=parallelogram, tool_command=\"true\"]\n}\n");
    let done = scratch.call(&["check", "--locked"]).exits(3);
    says(&done, "parts/lint.dot:3:5");
    says(&done, "`check` was `wait.human` and is `tool` now");
}

#[test]
fn a_damaged_lock_is_refused() {
    let scratch = Scratch::new();
    scratch.write("a.dot", release());
    says(&scratch.call(&["lock"]).exits(2), "name the pipelines to lock");
    says(
        &scratch.call(&["check", "--locked"]).exits(2),
        "there is no `orchestra.lock`",
    );
    scratch.call(&["lock", "a.dot"]).exits(0);
    scratch.write("b.dot", release());
    says(
        &scratch.call(&["check", "--locked", "b.dot"]).exits(2),
        "`b.dot` is not in `orchestra.lock`",
    );
    scratch.write("orchestra.lock.d/a-1.dot", ungated());
    says(
        &scratch.call(&["check", "--locked"]).exits(3),
        "the text of version 1 of `a.dot` in `orchestra.lock.d` was changed",
    );
    std::fs::remove_file(scratch.path("orchestra.lock.d/a-1.dot")).unwrap();
    says(
        &scratch.call(&["lock"]).exits(3),
        "the text of version 1 of `a.dot` is missing",
    );
    scratch.write("orchestra.lock", "# comment\n{\"schema\": 1}");
    says(
        &scratch.call(&["check", "--locked"]).exits(3),
        "invalid orchestra.lock:2:",
    );
}

#[test]
fn the_lock_file_stands_beside_the_configuration() {
    let scratch = Scratch::new();
    scratch.write("app/flows/a.dot", release());
    scratch.write("app/orchestra.yaml", "backend: simulation\n");
    scratch.call(&["lock", "app/flows/a.dot"]).exits(0);
    assert!(
        scratch
            .read("app/orchestra.lock")
            .contains("\"name\": \"flows/a.dot\"")
    );
    scratch.call(&["check", "--locked", "app/flows/a.dot"]).exits(0);
    scratch.write("b.dot", release());
    let done = scratch.call(&["lock", "app/flows/a.dot", "b.dot"]).exits(2);
    says(&done, "`b.dot` is outside of the folder of `app/orchestra.lock`");
}

#[test]
fn a_run_needs_the_inputs_of_the_changed_pipeline() {
    let scratch = Scratch::new();
    let text = |inputs: &str| {
        release().replace(
            "digraph gate {",
            &format!("digraph gate {{ graph [inputs=\"{inputs}\"]"),
        )
    };
    scratch.write("flows/release.dot", text("pr: text?"));
    scratch
        .call(&["run", "flows/release.dot", "--set", "pr=seven"])
        .exits(5);
    let run = scratch.runs().pop().unwrap();
    let resume = |text: String| {
        scratch.write("flows/release.dot", text);
        scratch.call(&["resume", &run, "--accept-changes", "--answer", "approve=Y"])
    };
    let done = resume(text("pr: text?, tag: text")).exits(3);
    says(
        &done,
        "the input `tag` is missing; it is declared as `text` in `flows/release.dot`",
    );
    says(&done, "contract_changed");
    let done = resume(text("pr: int?")).exits(3);
    says(&done, "`pr` is declared as `int`, but is the text \"seven\"");
    resume(text("pr: text")).exits(0);
}

#[test]
fn a_template_that_reads_what_a_waiting_run_lacks_is_an_error_in_its_file() {
    let scratch = Scratch::new();
    scratch.write(
        "orchestra.yaml",
        "backend: simulation\nagents:\n  writer: {task: publish}\n",
    );
    let task = |text: &str| format!("task:\n  name: publish\n  template: |\n    {text}\n");
    scratch.write("prompts/tasks/publish.yaml", task("Publish."));
    let flow = |outputs: &str| {
        format!(
            "digraph review {{
    start -> rate
    rate -> ask [condition=\"outcome=success\"]
    rate -> exit
    ask -> publish [label=Ship]
    publish -> exit
    rate    [prompt=\"Rate it.\"{outputs}]
    ask     [shape=hexagon]
    publish [agent=writer]
}}
"
        )
    };
    scratch.write("a.dot", flow(""));
    scratch.call(&["lock", "a.dot"]).exits(0);
    scratch.write("a.dot", flow(", outputs=\"score: int\""));
    scratch.call(&["check", "--locked"]).exits(0);
    scratch.write("prompts/tasks/publish.yaml", task("Publish with {{ score }}."));
    for command in [&["check", "--locked"][..], &["lock"]] {
        let done = scratch.call(command).exits(3);
        says(
            &done,
            "error[resume_unset]: `score` may not be set when `publish` reads it",
        );
        says(&done, "prompts/tasks/publish.yaml:4:21");
        says(
            &done,
            "if a run of the locked version waits at `ask` and goes on: `ask` (Ship) -> `publish`",
        );
    }
    scratch.call(&["lock", "--accept"]).exits(0);
}
