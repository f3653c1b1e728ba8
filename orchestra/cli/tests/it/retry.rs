//! `resume --retry`: failed runs that continue under the same id, through the program (rule D9).

#![cfg(unix)]

use crate::support;

use serde_json::json;
use support::{Scratch, Started};

/// A tool that counts its runs and succeeds once the file `fixed` exists, between two other tools.
const FLAKY: &str = r#"digraph flaky {
    start -> first -> build -> last -> exit
    first [shape=parallelogram, tool_command="echo first >> first"]
    build [shape=parallelogram, max_visits=1, tool_command="echo build >> build; test -f fixed"]
    last  [shape=parallelogram, tool_command="echo last >> last"]
}
"#;

#[test]
fn a_failed_run_is_retried_under_its_id_at_the_stage_that_failed() {
    let scratch = Scratch::new();
    scratch.write("a.dot", FLAKY);
    let failed = scratch.call(&["run", "a.dot"]).exits(1);
    let id = scratch.runs().remove(0);
    let command = failed.last_line().strip_prefix("retry with: orchestra ").unwrap();
    assert_eq!(command, format!("resume {id} --retry"));
    let session = scratch.status();
    assert_eq!(
        (&session["status"], &session["failed_at"]),
        (&"fail".into(), &"build".into())
    );
    let checkpoint = scratch.read(&format!(".orchestra/runs/{id}/checkpoint.json"));
    assert!(checkpoint.contains("\"failed_at\": \"build\""), "{checkpoint}");
    // Without `--retry`, the run has ended; the error contains the command.
    let over = scratch.call(&["resume", "last"]).exits(2);
    assert!(
        over.stderr.contains(&format!("orchestra resume {id} --retry")),
        "{}",
        over.stderr
    );

    // It fails again, and is retried again.
    let words: Vec<&str> = command.split(' ').collect();
    let again = scratch.call(&words).exits(1);
    assert!(again.stderr.contains("retries build"), "{}", again.stderr);
    assert_eq!(again.last_line(), format!("retry with: orchestra {command}"));
    scratch.write("fixed", "");
    let retried = scratch.call(&[&words[..], &["--json"]].concat()).exits(0);
    let result = retried.result();
    assert_eq!(result["run"], id.as_str());
    assert_eq!(
        result["path"],
        json!(["start", "first", "build", "build", "build", "last", "exit"])
    );
    assert_eq!(retried.reported("PipelineResumed", "retry"), ["build"]);
    assert_eq!(
        ["first", "build", "last"].map(|name| scratch.lines(name)),
        [1, 3, 1]
    );
    let session = scratch.status();
    assert_eq!(
        (&session["status"], session.get("failed_at")),
        (&"success".into(), None)
    );
    let shown = scratch
        .call(&["status", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    let failures = shown["path"].as_array().unwrap().iter();
    assert_eq!(
        failures.filter(|row| row["error"].is_string()).count(),
        2,
        "{shown:#}"
    );
    let refused = scratch.call(&["resume", "last", "--retry"]).exits(2);
    assert!(
        refused.stderr.contains("has ended in success"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_retry_whose_process_is_killed_goes_on_by_a_plain_resume() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        FLAKY.replace(
            "test -f fixed",
            "test -f fixed && while ! test -f go; do sleep 0.01; done",
        ),
    );
    scratch.call(&["run", "a.dot"]).exits(1);
    scratch.write("fixed", "");
    let (mut run, _) = Started::from_command(scratch.command(&["resume", "last", "--retry"]));
    run.until_stage("build");
    scratch.until("the tool runs", |scratch| scratch.lines("build") == 2);
    run.signal("KILL");
    run.end();
    assert_eq!(scratch.status()["status"], "interrupted");
    let retried = scratch.call(&["resume", "last", "--retry"]).exits(2);
    assert!(retried.stderr.contains("has not failed"), "{}", retried.stderr);
    scratch.write("go", "");
    let resumed = scratch.call(&["resume", "last"]).exits(0);
    assert_eq!(
        resumed.stdout,
        "success: start -> first -> build -> build -> last -> exit\n"
    );
    assert_eq!(
        ["first", "build", "last"].map(|name| scratch.lines(name)),
        [1, 3, 1]
    );
}

#[test]
fn a_run_without_a_matching_edge_goes_on_where_the_graph_was_fixed() {
    let scratch = Scratch::new();
    let text = |condition: &str| {
        format!(
            "digraph {{\n    start -> count -> route\n    count [shape=parallelogram, \
             tool_command=\"echo x >> counted\"]\n    route [shape=diamond]\n    \
             route -> exit [condition=\"{condition}\"]\n}}\n"
        )
    };
    scratch.write("a.dot", text("context.count=2"));
    let failed = scratch.call(&["run", "a.dot"]).exits(1);
    assert!(
        failed.last_line().ends_with(" --retry --accept-changes"),
        "{}",
        failed.stderr
    );
    let same = scratch.call(&["resume", "last", "--retry"]).exits(2);
    assert!(
        same.stderr.contains("would fail again in the same way") && same.stderr.contains("--accept-changes"),
        "{}",
        same.stderr
    );
    scratch.write("a.dot", text("outcome=success"));
    scratch.call(&["resume", "last", "--retry"]).exits(3);
    let fixed = scratch
        .call(&["resume", "last", "--retry", "--accept-changes"])
        .exits(0);
    assert_eq!(fixed.stdout, "success: start -> count -> route -> exit\n");
    assert_eq!(scratch.lines("counted"), 1);
}

#[test]
fn a_stage_of_a_branch_is_retried_with_its_block() {
    let scratch = Scratch::new();
    scratch.write(
        "a.dot",
        r#"digraph {
    start -> fan
    fan [shape=component, error_policy=fail_fast]
    fan -> left -> join; fan -> right -> join
    left  [shape=parallelogram, tool_command="echo left >> left"]
    right [shape=parallelogram, tool_command="echo right >> right; test -f fixed"]
    join  [shape=tripleoctagon]
    join -> exit
}
"#,
    );
    scratch.call(&["run", "a.dot"]).exits(1);
    scratch.write("fixed", "");
    scratch.call(&["resume", "last", "--retry"]).exits(0);
    assert_eq!(scratch.lines("right"), 2);
    assert_eq!(scratch.status()["status"], "success");
}

#[test]
fn the_replays_that_a_retried_run_prints_work_as_printed() {
    let scratch = Scratch::new();
    scratch.write("a.dot", FLAKY);
    let words = |done: &support::Done, text: &str| -> Vec<String> {
        let line = done
            .stderr
            .lines()
            .find_map(|line| line.split_once(text))
            .unwrap()
            .1;
        line.trim()
            .strip_prefix("orchestra ")
            .unwrap()
            .split(' ')
            .map(str::to_owned)
            .collect()
    };
    let replayed = |words: Vec<String>| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        scratch.call(&words).exits(1);
    };
    scratch.call(&["run", "a.dot"]).exits(1);
    let id = scratch.runs().remove(0);
    for _ in 0..2 {
        let failed = scratch.call(&["resume", &id, "--retry"]).exits(1);
        replayed(words(&failed, "begin again from before it with:"));
        let listed = scratch.call(&["checkpoints", &id]).exits(0);
        replayed(words(&listed, "replay from one with:"));
    }
}
