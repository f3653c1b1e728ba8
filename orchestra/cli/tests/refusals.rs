//! `resume` and `replay` that are refused: nothing is made, and `last` means what it meant before (rule D10). The commands
//! that `checkpoints` prints work.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic)]

mod agents_support;

use std::path::Path;
use std::process::Command;

use agents_support::{Done, Place, Project, SLOW, done, gate, reports};

/// Two tools in a line, of which the second fails where there is a file `broken`.
const TOOLS: &str = r#"digraph tools {
    start -> first -> second -> exit
    first  [shape=parallelogram, tool_command="echo first >> first"]
    second [shape=parallelogram, tool_command="echo second >> second; ! test -f broken"]
}
"#;

fn finished() -> Place {
    let place = Place::new();
    place.write("a.dot", TOOLS);
    place.call(&["run", "a.dot"]).exits(0);
    place
}

/// What there is: the names below a folder, the runs that are listed, and the run that `last` means.
fn there_is(place: &Place) -> (Vec<String>, Vec<String>, String) {
    let mut names = Vec::new();
    below(&place.path("."), &mut names);
    // The index may be written when it is asked.
    names.retain(|name| !name.contains("index") && !name.contains(".sqlite") && !name.contains(".db"));
    names.sort();
    let last = place
        .call(&["status", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    (names, place.runs(), last["run"].as_str().unwrap().to_owned())
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

/// Calls the program, which refuses and leaves everything as it was.
#[track_caller]
fn refused(place: &Place, args: &[&str], code: i32, part: &str) {
    refused_by(place, place.command(args), code, part);
}

#[track_caller]
fn refused_by(place: &Place, mut command: Command, code: i32, part: &str) {
    let before = there_is(place);
    let refused = done(command.output().unwrap()).exits(code);
    assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    assert_eq!(there_is(place), before);
}

/// Calls what a command of the program has printed behind some words in its last line.
#[track_caller]
fn call_printed(place: &Place, told: &Done, before: &str) -> Done {
    let line = told.last_line();
    let command = line.strip_prefix(before).unwrap_or_else(|| panic!("{line}"));
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], "orchestra");
    place.call(&words[1..])
}

#[test]
fn the_command_that_checkpoints_prints_works_for_a_finished_run() {
    let place = finished();
    let first = place.runs().remove(0);
    let told = place.call(&["checkpoints", "last"]).exits(0);
    let replayed = call_printed(&place, &told, "replay from one with: ").exits(0);
    assert_eq!(replayed.stdout, "success: start -> first -> second -> exit\n");
    assert_eq!((place.lines("first"), place.lines("second")), (1, 2));
    // That of a run that replays another one works too.
    let told = place.call(&["checkpoints", "last"]).exits(0);
    call_printed(&place, &told, "replay from one with: ").exits(0);
    let told = place.call(&["checkpoints", &first]).exits(0);
    call_printed(&place, &told, "replay from one with: ").exits(0);
    assert_eq!((place.lines("first"), place.lines("second")), (1, 4));
    assert_eq!(place.runs().len(), 4);
}

#[test]
fn the_command_that_checkpoints_prints_works_for_runs_that_failed_paused_or_did_nothing() {
    let place = Place::new();
    place.write("a.dot", TOOLS).write("broken", "");
    place.call(&["run", "a.dot"]).exits(1);
    std::fs::remove_file(place.path("broken")).unwrap();
    let told = place.call(&["checkpoints", "last"]).exits(0);
    call_printed(&place, &told, "replay from one with: ").exits(0);
    assert_eq!((place.lines("first"), place.lines("second")), (1, 2));

    let place = Place::new();
    place.write("g.dot", gate(""));
    place.call(&["run", "g.dot"]).exits(5);
    let told = place.call(&["checkpoints", "last"]).exits(0);
    call_printed(&place, &told, "replay from one with: ").exits(5);
    call_printed(
        &place,
        &place.call(&["replay", "last", "--checkpoint", "cp_000000"]),
        "resume with: ",
    )
    .exits(5);

    let place = Place::new();
    place.write("a.dot", "digraph { start -> exit }");
    place.call(&["run", "a.dot"]).exits(0);
    let told = place.call(&["checkpoints", "last"]).exits(0);
    assert!(!told.stderr.contains("replay from"), "{}", told.stderr);
}

#[test]
fn a_replay_from_the_end_makes_nothing_and_last_means_the_same_run() {
    let place = finished();
    let listed = place
        .call(&["checkpoints", "last", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    let end = listed["checkpoints"].as_array().unwrap().last().unwrap()["checkpoint"].clone();
    let end = end.as_str().unwrap();
    let id = place.runs().remove(0);
    let told = format!("run `{id}` had ended at the checkpoint `{end}`");
    refused(&place, &["replay", "last", "--checkpoint", end], 2, &told);
    refused(
        &place,
        &["replay", "last", "--checkpoint", "second#1/1", "--run-dir", "new"],
        2,
        &told,
    );
    let help = format!("`orchestra checkpoints {id}` lists them");
    refused(&place, &["replay", "last", "--checkpoint", end], 2, &help);
    refused(
        &place,
        &["resume", "last"],
        2,
        &format!("`orchestra checkpoints {id}`"),
    );
    refused(
        &place,
        &["resume", "last", "--accept-changes"],
        2,
        "has ended in success",
    );
    assert_eq!((place.lines("first"), place.lines("second")), (1, 1));
}

#[test]
fn a_replay_that_is_refused_makes_nothing() {
    let place = finished();
    let replay = ["replay", "last", "--checkpoint", "cp_000000"];
    refused(
        &place,
        &["replay", "last", "--checkpoint", "cp_000099"],
        2,
        "cp_000099",
    );
    refused(
        &place,
        &["replay", "last", "--checkpoint", "third#1/1"],
        2,
        "third#1/1",
    );
    refused(
        &place,
        &["replay", "nobody", "--checkpoint", "cp_000000"],
        2,
        "nobody",
    );
    refused(
        &place,
        &[&replay[..], &["--run-dir", "first"]].concat(),
        2,
        "first",
    );

    place.write("a.dot", TOOLS.replace("echo second", "echo another"));
    let id = place.runs().remove(0);
    refused(
        &place,
        &replay,
        3,
        &format!("the pipeline was changed since run `{id}` began"),
    );
    refused(
        &place,
        &[&replay[..], &["--run-dir", "new"]].concat(),
        3,
        "--accept-changes",
    );
    let moved = TOOLS.replace("second", "other");
    place.write("a.dot", &moved);
    let behind = ["replay", "last", "--checkpoint", "first#1/1", "--accept-changes"];
    refused(
        &place,
        &behind,
        3,
        &format!("run `{id}` cannot go on under the changed pipeline"),
    );
    place.write("a.dot", "digraph {");
    refused(&place, &replay, 3, "error[");
    place.write("a.dot", TOOLS);
    place.call(&replay).exits(0);
    assert_eq!(place.runs().len(), 2);
}

#[test]
fn a_resume_that_is_refused_makes_nothing_and_changes_nothing() {
    let place = Place::new();
    place.write("g.dot", gate(""));
    place.call(&["run", "g.dot"]).exits(5);
    let resume = ["resume", "last", "--answer", "approve=Y"];
    refused(
        &place,
        &["resume", "last", "--answer", "aprove=Y"],
        2,
        "did you mean",
    );
    refused(&place, &["resume", "nobody"], 2, "nobody");
    place.write("g.dot", gate("").replace("[N] No", "[N] Not yet"));
    refused(&place, &resume, 3, "--accept-changes");
    place.write(
        "g.dot",
        "digraph gate { start -> other -> exit; other [shape=parallelogram, tool_command=true] }",
    );
    refused(
        &place,
        &["resume", "last", "--accept-changes"],
        3,
        "orchestra checkpoints ",
    );
    place.write("g.dot", gate(""));
    let resumed = place.call(&resume).exits(0);
    assert_eq!(
        resumed.stdout,
        "success: start -> build -> approve -> ship -> exit\n"
    );
}

#[test]
fn without_the_key_or_the_models_of_a_run_nothing_is_made() {
    let project = Project::new("");
    project.server.push(reports("done"));
    project.place.write(
        "a.dot",
        "digraph { start -> ask -> exit; ask [prompt=x, agent.tools=\"\"] }",
    );
    project.call(&["run", "a.dot"]).exits(0);
    let replay = ["replay", "last", "--checkpoint", "cp_000000"];
    let mut keyless = project.command(&replay);
    keyless.env_remove("ANTHROPIC_API_KEY");
    refused_by(&project.place, keyless, 4, "ANTHROPIC_API_KEY");
    project
        .place
        .write("orchestra.yaml", "providers: {default: nobody}\n");
    refused_by(&project.place, project.command(&replay), 3, "nobody");
    std::fs::remove_file(project.place.path("orchestra.yaml")).unwrap();
    refused_by(&project.place, project.command(&replay), 4, "orchestra.yaml");
    assert_eq!(project.server.requests().len(), 1);
}

/// A repository with one commit, of somebody who has configured nothing.
fn repository(place: &Place, name: &str) {
    place.write(&format!("{name}/list.txt"), "one\n");
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(place.path(name)).args(words);
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
    let place = Place::new();
    repository(&place, "backend");
    repository(&place, "frontend");
    let of = |name: &str| format!("workspace:\n  repos:\n    {name}: {{path: {name}}}\n");
    let gate = r#"digraph gate {
    start -> write -> ask
    write [shape=parallelogram, tool_command="echo new > new.txt"]
    ask [shape=hexagon]
    ask -> exit [label="Ship"]
}
"#;
    place.write("orchestra.yaml", of("backend")).write("g.dot", gate);
    place.call(&["run", "g.dot"]).exits(5);
    let manifest = format!(".orchestra/runs/{}/manifest.json", place.runs().remove(0));
    let before = place.read(&manifest);
    place.write("orchestra.yaml", of("frontend"));
    let said = "frontend";
    refused(&place, &["replay", "last", "--checkpoint", "write#1/1"], 3, said);
    refused(&place, &["resume", "last"], 3, said);
    place.write("g.dot", gate.replace("Ship", "Release"));
    refused(&place, &["resume", "last", "--accept-changes"], 3, said);
    refused(
        &place,
        &["replay", "last", "--checkpoint", "write#1/1", "--accept-changes"],
        3,
        said,
    );
    assert_eq!(place.read(&manifest), before, "the change is not accepted");
    place.write("orchestra.yaml", of("backend"));
    refused(&place, &["resume", "last"], 3, "--accept-changes");
    let shipped = ["resume", "last", "--accept-changes", "--answer", "ask=Release"];
    place.call(&shipped).exits(0);
}

#[test]
fn a_run_that_another_process_owns_stays_as_it_is() {
    let place = Place::new();
    place.write("s.dot", SLOW);
    let mut run = place.start(&["run", "s.dot"]);
    run.until_stage("wait");
    let owned = place.call(&["resume", "last"]).exits(7);
    assert!(owned.stderr.contains("orchestra attach "), "{}", owned.stderr);
    assert_eq!(place.runs().len(), 1);
    place.write("go", "");
    run.end().exits(0);
    assert_eq!((place.lines("once"), place.lines("wait")), (1, 1));
}
