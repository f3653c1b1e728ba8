//! Commands that the program prints can be typed exactly as printed.

#![cfg(unix)]

use crate::support;

use std::path::Path;
use std::process::Command;

use support::{Done, Scratch, done, gate, tools};

/// Runs a line in a shell, in a folder of the place.
fn typed(scratch: &Scratch, folder: &str, line: &str) -> Done {
    let program = Path::new(env!("CARGO_BIN_EXE_orchestra"));
    let path = std::env::var("PATH").unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).current_dir(scratch.path(folder));
    shell.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
    shell.env("GIT_CONFIG_GLOBAL", "/dev/null");
    for (name, value) in [("NAME", "me"), ("EMAIL", "me@localhost")] {
        shell.env(format!("GIT_AUTHOR_{name}"), value);
        shell.env(format!("GIT_COMMITTER_{name}"), value);
    }
    done(shell.output().unwrap())
}

/// Returns the text after `text` in the output of a run.
#[track_caller]
fn behind<'d>(done: &'d Done, text: &str) -> &'d str {
    let line = done.stderr.lines().find_map(|line| line.split_once(text));
    line.unwrap_or_else(|| panic!("{text}: {}", done.stderr)).1.trim()
}

#[test]
fn the_work_of_a_run_is_shown_and_merged_by_the_commands_that_it_prints() {
    // In the repository itself, next to it, and in a folder whose name must be quoted.
    for (repository, from) in [(".", "."), ("it's code", "."), ("code", "elsewhere")] {
        let scratch = Scratch::new();
        scratch.write("elsewhere/keep", "");
        scratch.write(&format!("{repository}/list.txt"), "one\n");
        let set_up = "git init -q -b main && git add list.txt && git commit -q -m start";
        typed(&scratch, repository, set_up).exits(0);
        let path = scratch.path(repository);
        scratch.write(
            "orchestra.yaml",
            format!(
                "workspace:\n  repos:\n    code: {{path: {:?}}}\n",
                path.to_str().unwrap()
            ),
        );
        scratch.write(
            "a.dot",
            "digraph a { start -> work -> exit; work [shape=parallelogram, tool_command=\"echo two >> list.txt\"] }",
        );
        let configuration = scratch.path("orchestra.yaml");
        let file = scratch.path("a.dot");
        let line = format!(
            "orchestra run {} --config {}",
            file.display(),
            configuration.display()
        );
        let run = typed(&scratch, from, &line).exits(0);
        let shown = typed(&scratch, from, behind(&run, "look at it with: ")).exits(0);
        assert!(shown.stdout.contains("+two"), "{repository}: {}", shown.stdout);
        typed(&scratch, from, behind(&run, "merge it with: ")).exits(0);
        assert_eq!(scratch.read(&format!("{repository}/list.txt")), "one\ntwo\n");
    }
}

#[test]
fn a_paused_run_goes_on_and_a_failed_one_begins_again_by_what_is_printed() {
    let scratch = Scratch::new();
    scratch.write("g.dot", gate(""));
    for folder in [
        "",
        " --runs 'my runs'",
        " --run-dir single",
        " --run-dir \"it's one\"",
    ] {
        let paused = typed(&scratch, ".", &format!("orchestra run g.dot{folder} < /dev/null")).exits(5);
        let resume = format!("{} --auto-approve", behind(&paused, "resume with: "));
        typed(&scratch, ".", &resume).exits(0);
    }
    scratch.write("t.dot", tools(true));
    let failed = typed(&scratch, ".", "orchestra run t.dot --runs 'my runs'").exits(1);
    scratch.write("t.dot", tools(false));
    let replay = format!(
        "{} --accept-changes",
        behind(&failed, "begin again from before it with: ")
    );
    typed(&scratch, ".", &replay).exits(0);
}
