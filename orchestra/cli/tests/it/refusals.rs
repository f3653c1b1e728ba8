//! Rejected `resume` and `replay` commands: nothing is created, and `last` keeps its meaning (rule D10). The commands
//! that `checkpoints` prints work.

#![cfg(unix)]

use crate::agents_support;

use std::path::Path;
use std::process::Command;

use agents_support::{Done, Project, SLOW, Scratch, done, gate, reports};

/// Two tools in sequence. The second one fails if the file `broken` exists.
const TOOLS: &str = r#"digraph tools {
    start -> first -> second -> exit
    first  [shape=parallelogram, tool_command="echo first >> first"]
    second [shape=parallelogram, tool_command="echo second >> second; ! test -f broken"]
}
"#;

fn finished() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("a.dot", TOOLS);
    scratch.call(&["run", "a.dot"]).exits(0);
    scratch
}

/// Returns the names below a folder, the listed runs, and the run that `last` means.
fn there_is(scratch: &Scratch) -> (Vec<String>, Vec<String>, String) {
    let mut names = Vec::new();
    below(&scratch.path("."), &mut names);
    // The index may be written when it is read.
    names.retain(|name| !name.contains("index") && !name.contains(".sqlite") && !name.contains(".db"));
    names.sort();
    let last = scratch
        .call(&["status", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    (names, scratch.runs(), last["run"].as_str().unwrap().to_owned())
}

fn below(folder: &Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        names.push(path.display().to_string());
        if path.is_dir() && !path.is_symlink() {
            below(&path, names);
        }
    }
}

/// Asserts that a command is rejected and changes nothing.
#[track_caller]
fn refused(scratch: &Scratch, args: &[&str], code: i32, part: &str) {
    refused_by(scratch, scratch.command(args), code, part);
}

#[track_caller]
fn refused_by(scratch: &Scratch, mut command: Command, code: i32, part: &str) {
    let before = there_is(scratch);
    let refused = done(command.output().unwrap()).exits(code);
    assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    assert_eq!(there_is(scratch), before);
}

/// Runs the command that the program printed in its last line after `before`.
#[track_caller]
fn call_printed(scratch: &Scratch, reported: &Done, before: &str) -> Done {
    let line = reported.last_line();
    let command = line.strip_prefix(before).unwrap_or_else(|| panic!("{line}"));
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], "orchestra");
    scratch.call(&words[1..])
}

#[test]
fn the_command_that_checkpoints_prints_works_for_a_finished_run() {
    let scratch = finished();
    let first = scratch.runs().remove(0);
    let reported = scratch.call(&["checkpoints", "last"]).exits(0);
    let replayed = call_printed(&scratch, &reported, "replay from one with: ").exits(0);
    assert_eq!(replayed.stdout, "success: start -> first -> second -> exit\n");
    assert_eq!((scratch.lines("first"), scratch.lines("second")), (1, 2));
    // The command for a run that is itself a replay works too.
    let reported = scratch.call(&["checkpoints", "last"]).exits(0);
    call_printed(&scratch, &reported, "replay from one with: ").exits(0);
    let reported = scratch.call(&["checkpoints", &first]).exits(0);
    call_printed(&scratch, &reported, "replay from one with: ").exits(0);
    assert_eq!((scratch.lines("first"), scratch.lines("second")), (1, 4));
    assert_eq!(scratch.runs().len(), 4);
}

#[test]
fn the_command_that_checkpoints_prints_works_for_runs_that_failed_paused_or_did_nothing() {
    let scratch = Scratch::new();
    scratch.write("a.dot", TOOLS).write("broken", "");
    scratch.call(&["run", "a.dot"]).exits(1);
    std::fs::remove_file(scratch.path("broken")).unwrap();
    let reported = scratch.call(&["checkpoints", "last"]).exits(0);
    call_printed(&scratch, &reported, "replay from one with: ").exits(0);
    assert_eq!((scratch.lines("first"), scratch.lines("second")), (1, 2));

    let scratch = Scratch::new();
    scratch.write("g.dot", gate(""));
    scratch.call(&["run", "g.dot"]).exits(5);
    let reported = scratch.call(&["checkpoints", "last"]).exits(0);
    call_printed(&scratch, &reported, "replay from one with: ").exits(5);
    call_printed(
        &scratch,
        &scratch.call(&["replay", "last", "--checkpoint", "cp_000000"]),
        "resume with: ",
    )
    .exits(5);

    let scratch = Scratch::new();
    scratch.write("a.dot", "digraph { start -> exit }");
    scratch.call(&["run", "a.dot"]).exits(0);
    let reported = scratch.call(&["checkpoints", "last"]).exits(0);
    assert!(!reported.stderr.contains("replay from"), "{}", reported.stderr);
}

#[test]
fn a_replay_from_the_end_makes_nothing_and_last_means_the_same_run() {
    let scratch = finished();
    let listed = scratch
        .call(&["checkpoints", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    let end = listed["checkpoints"].as_array().unwrap().last().unwrap()["checkpoint"].clone();
    let end = end.as_str().unwrap();
    let id = scratch.runs().remove(0);
    let reported = format!("run `{id}` had ended at the checkpoint `{end}`");
    refused(&scratch, &["replay", "last", "--checkpoint", end], 2, &reported);
    refused(
        &scratch,
        &["replay", "last", "--checkpoint", "second#1/1", "--run-dir", "new"],
        2,
        &reported,
    );
    let help = format!("`orchestra checkpoints {id}` lists them");
    refused(&scratch, &["replay", "last", "--checkpoint", end], 2, &help);
    refused(
        &scratch,
        &["resume", "last"],
        2,
        &format!("`orchestra checkpoints {id}`"),
    );
    refused(
        &scratch,
        &["resume", "last", "--accept-changes"],
        2,
        "has ended in success",
    );
    assert_eq!((scratch.lines("first"), scratch.lines("second")), (1, 1));
}

#[test]
fn a_replay_that_is_refused_makes_nothing() {
    let scratch = finished();
    let replay = ["replay", "last", "--checkpoint", "cp_000000"];
    refused(
        &scratch,
        &["replay", "last", "--checkpoint", "cp_000099"],
        2,
        "cp_000099",
    );
    refused(
        &scratch,
        &["replay", "last", "--checkpoint", "third#1/1"],
        2,
        "third#1/1",
    );
    refused(
        &scratch,
        &["replay", "nobody", "--checkpoint", "cp_000000"],
        2,
        "nobody",
    );
    refused(
        &scratch,
        &[&replay[..], &["--run-dir", "first"]].concat(),
        2,
        "first",
    );

    scratch.write("a.dot", TOOLS.replace("echo second", "echo another"));
    let id = scratch.runs().remove(0);
    refused(
        &scratch,
        &replay,
        3,
        &format!("the pipeline was changed since run `{id}` began"),
    );
    refused(
        &scratch,
        &[&replay[..], &["--run-dir", "new"]].concat(),
        3,
        "--accept-changes",
    );
    let moved = TOOLS.replace("second", "other");
    scratch.write("a.dot", &moved);
    let behind = ["replay", "last", "--checkpoint", "first#1/1", "--accept-changes"];
    refused(
        &scratch,
        &behind,
        3,
        &format!("run `{id}` cannot go on under the changed pipeline"),
    );
    scratch.write("a.dot", "digraph {");
    refused(&scratch, &replay, 3, "error[");
    scratch.write("a.dot", TOOLS);
    scratch.call(&replay).exits(0);
    assert_eq!(scratch.runs().len(), 2);
}

#[test]
fn a_resume_that_is_refused_makes_nothing_and_changes_nothing() {
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(""));
    scratch.call(&["run", "g.dot"]).exits(5);
    let resume = ["resume", "last", "--answer", "approve=Y"];
    refused(
        &scratch,
        &["resume", "last", "--answer", "aprove=Y"],
        2,
        "did you mean",
    );
    refused(&scratch, &["resume", "nobody"], 2, "nobody");
    scratch.write("g.dot", gate("").replace("[N] No", "[N] Not yet"));
    refused(&scratch, &resume, 3, "--accept-changes");
    scratch.write(
        "g.dot",
        "digraph gate { start -> other -> exit; other [shape=parallelogram, tool_command=true] }",
    );
    refused(
        &scratch,
        &["resume", "last", "--accept-changes"],
        3,
        "orchestra checkpoints ",
    );
    scratch.write("g.dot", gate(""));
    let resumed = scratch.call(&resume).exits(0);
    assert_eq!(
        resumed.stdout,
        "success: start -> build -> approve -> ship -> exit\n"
    );
}

#[test]
fn without_the_key_or_the_models_of_a_run_nothing_is_made() {
    let project = Project::new("");
    project.server.push(reports("done"));
    project.scratch.write(
        "a.dot",
        "digraph { start -> ask -> exit; ask [prompt=x, agent.tools=\"\"] }",
    );
    project.call(&["run", "a.dot"]).exits(0);
    let replay = ["replay", "last", "--checkpoint", "cp_000000"];
    let mut keyless = project.command(&replay);
    keyless.env_remove("ANTHROPIC_API_KEY");
    refused_by(&project.scratch, keyless, 4, "ANTHROPIC_API_KEY");
    project
        .scratch
        .write("orchestra.yaml", "providers: {default: nobody}\n");
    refused_by(&project.scratch, project.command(&replay), 3, "nobody");
    std::fs::remove_file(project.scratch.path("orchestra.yaml")).unwrap();
    refused_by(&project.scratch, project.command(&replay), 4, "orchestra.yaml");
    assert_eq!(project.server.requests().len(), 1);
}

/// A repository with one commit, of a user without git configuration.
fn repository(scratch: &Scratch, name: &str) {
    scratch.write(&format!("{name}/list.txt"), "one\n");
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(scratch.path(name)).args(words);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null");
        assert!(git.output().unwrap().status.success(), "{words:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "-A"]);
    git(&[
        "-c",
        "user.name=me",
        "-c",
        "user.email=me@localhost",
        "commit",
        "-q",
        "-m",
        "start",
    ]);
}

#[test]
fn in_other_repositories_nothing_is_made_and_no_change_is_accepted() {
    let scratch = Scratch::new();
    repository(&scratch, "backend");
    repository(&scratch, "frontend");
    let of = |name: &str| format!("workspace:\n  repos:\n    {name}: {{path: {name}}}\n");
    let gate = r#"digraph gate {
    start -> write -> ask
    write [shape=parallelogram, tool_command="echo new > new.txt"]
    ask [shape=hexagon]
    ask -> exit [label="Ship"]
}
"#;
    scratch
        .write("orchestra.yaml", of("backend"))
        .write("g.dot", gate);
    scratch.call(&["run", "g.dot"]).exits(5);
    let manifest = format!(".orchestra/runs/{}/manifest.json", scratch.runs().remove(0));
    let before = scratch.read(&manifest);
    scratch.write("orchestra.yaml", of("frontend"));
    let said = "frontend";
    refused(
        &scratch,
        &["replay", "last", "--checkpoint", "write#1/1"],
        3,
        said,
    );
    refused(&scratch, &["resume", "last"], 3, said);
    scratch.write("g.dot", gate.replace("Ship", "Release"));
    refused(&scratch, &["resume", "last", "--accept-changes"], 3, said);
    refused(
        &scratch,
        &["replay", "last", "--checkpoint", "write#1/1", "--accept-changes"],
        3,
        said,
    );
    assert_eq!(scratch.read(&manifest), before, "the change is not accepted");
    scratch.write("orchestra.yaml", of("backend"));
    refused(&scratch, &["resume", "last"], 3, "--accept-changes");
    let shipped = ["resume", "last", "--accept-changes", "--answer", "ask=Release"];
    scratch.call(&shipped).exits(0);
}

#[test]
fn a_run_that_another_process_owns_stays_as_it_is() {
    let scratch = Scratch::new();
    scratch.write("s.dot", SLOW);
    let mut run = scratch.start(&["run", "s.dot"]);
    run.until_stage("wait");
    let owned = scratch.call(&["resume", "last"]).exits(7);
    assert!(owned.stderr.contains("orchestra attach "), "{}", owned.stderr);
    assert_eq!(scratch.runs().len(), 1);
    scratch.write("go", "");
    run.end().exits(0);
    assert_eq!((scratch.lines("once"), scratch.lines("wait")), (1, 1));
}
