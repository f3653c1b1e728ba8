//! Pipelines with child pipelines in other files, and the output of the commands about them.

use crate::support;

use support::Scratch;

const LINT: &str = "digraph lint {
    start -> check -> exit
    check [shape=parallelogram, tool_command=\"true\"]
}
";

/// A pipeline that runs `parts/lint.dot` and, in a manager loop, `build.dot`, which runs the former too.
fn scratch(lint: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write(
        "release.dot",
        "digraph release {
    graph [stack.child_dotfile=\"build.dot\"]
    start -> lint -> watch -> exit
    lint  [shape=folder, label=\"Lint\", subpipeline.file=\"parts/lint.dot\"]
    watch [shape=house, label=\"Watch\"]
}
",
    );
    scratch.write(
        "build.dot",
        "digraph build {
    start -> lint -> exit
    lint [shape=folder, label=\"Lint\", subpipeline.file=\"./parts/lint.dot\"]
}
",
    );
    scratch.write("parts/lint.dot", lint);
    scratch
}

fn unsound() -> String {
    LINT.replace("exit\n", "exit [weight=heavy]\n")
}

#[test]
fn check_looks_at_children_each_file_once() {
    let scratch = scratch(LINT);
    let check = scratch.call(&["check", "release.dot"]).exits(0);
    assert_eq!(check.stderr.trim(), "ok: 3 files checked, no problems found");
    let files = ["check", "./release.dot", "parts/lint.dot", "build.dot", "--json"];
    let summary = scratch.call(&files).exits(0).objects().pop().expect("a summary");
    assert_eq!((&summary["files"], &summary["errors"]), (&3.into(), &0.into()));
}

#[test]
fn a_broken_child_fails_with_its_own_diagnostic() {
    let scratch = scratch(&unsound());
    let check = scratch.call(&["check", "release.dot"]).exits(3);
    for part in [
        "error[child_invalid]: child pipeline `parts/lint.dot` has 1 error",
        "--> release.dot:4:57",
        "error[attribute_type]: `weight` must be a whole number",
        "--> parts/lint.dot:2:36",
        "start -> check -> exit [weight=heavy]",
        "invalid: 3 files checked, 4 errors",
    ] {
        assert!(check.stderr.contains(part), "{part} in\n{}", check.stderr);
    }
    let objects = scratch
        .call(&["check", "release.dot", "--json"])
        .exits(3)
        .objects();
    let own: Vec<_> = objects
        .iter()
        .filter(|object| object["file"] == "parts/lint.dot")
        .collect();
    assert_eq!(own.len(), 1, "{objects:?}");
    assert_eq!(
        (&own[0]["code"], &own[0]["line"], &own[0]["column"]),
        (&"attribute_type".into(), &2.into(), &36.into())
    );
    let concise = scratch
        .call(&["check", "release.dot", "--format", "concise"])
        .exits(3);
    assert!(
        concise
            .stderr
            .contains("\nparts/lint.dot:2:36: error[attribute_type]: ")
    );
    // From another directory, paths are relative to that directory.
    let folder = scratch.path("");
    let away = scratch
        .command(&["check", "../release.dot"])
        .current_dir(folder.join("parts"))
        .output();
    let away = support::done(away.expect("the program starts")).exits(3);
    assert!(
        away.stderr.contains("--> ../parts/lint.dot:2:36"),
        "{}",
        away.stderr
    );
}

#[test]
fn every_command_that_loads_looks_at_children() {
    let scratch = scratch(&unsound());
    for command in [
        &["run", "release.dot", "--simulate"][..],
        &["compile", "release.dot"],
        &["graph", "release.dot", "--format", "dot"],
    ] {
        let done = scratch.call(command).exits(3);
        assert!(done.stderr.contains("--> parts/lint.dot:2:36"), "{}", done.stderr);
    }
}

#[test]
fn compile_shows_what_a_stage_runs() {
    let scratch = scratch(LINT);
    let table = scratch.call(&["compile", "release.dot"]).exits(0).stdout;
    let line = |start: &str| {
        table
            .lines()
            .find(|line| line.starts_with(start))
            .unwrap_or_default()
    };
    assert!(line("lint").contains("parts/lint.dot"), "{table}");
    assert!(line("watch").contains("build.dot"), "{table}");
    let object = scratch
        .call(&["compile", "release.dot", "--json"])
        .exits(0)
        .objects()
        .remove(0);
    let nodes = object["nodes"].as_array().expect("nodes");
    let children: Vec<Option<&str>> = nodes.iter().map(|node| node["child"].as_str()).collect();
    assert_eq!(children, [None, Some("parts/lint.dot"), Some("build.dot"), None]);
}

#[test]
fn a_child_that_cannot_be_read_or_leads_back_is_reported() {
    let scratch = scratch(LINT);
    let run = |file: &str| {
        let text = format!(
            "digraph a {{ start -> r -> exit; r [shape=folder, label=R, subpipeline.file=\"{file}\"] }}"
        );
        scratch.write("a.dot", text);
        scratch
            .call(&["check", "a.dot", "--format", "concise"])
            .exits(3)
            .stderr
    };
    std::fs::create_dir(scratch.path("folder.dot")).expect("a folder");
    for (file, said) in [
        (
            "nowhere.dot",
            "error[child_not_found]: no child pipeline `nowhere.dot`",
        ),
        (
            "parts/lint.dot/x",
            "error[child_not_found]: no child pipeline `parts/lint.dot/x`",
        ),
        (
            "folder.dot",
            "error[child_not_found]: child pipeline `folder.dot` cannot be read: it is not a regular file",
        ),
        (
            "a.dot",
            "error[child_cycle]: child pipelines run each other in a cycle: `a.dot` -> `a.dot`",
        ),
        (
            "parts/../a.dot",
            "error[child_cycle]: child pipelines run each other in a cycle: `a.dot` -> `a.dot`",
        ),
    ] {
        let stderr = run(file);
        // A file that is not found is underlined without its quotes.
        let column = if said.contains("child_cycle") { 76 } else { 77 };
        assert!(
            stderr.contains(&format!("a.dot:1:{column}: {said}")),
            "{file}: {stderr}"
        );
    }
}

#[cfg(unix)]
#[test]
fn neither_pipes_nor_links_without_end_hold_the_program_up() {
    let scratch = scratch(LINT);
    scratch.write(
        "a.dot",
        "digraph a {
    start -> one -> two -> exit
    one [shape=folder, label=One, subpipeline.file=\"x/a.dot\"]
    two [shape=folder, label=Two, subpipeline.file=\"y/a.dot\"]
}
",
    );
    for link in ["x", "y"] {
        std::os::unix::fs::symlink(".", scratch.path(link)).expect("a link");
    }
    let check = scratch.call(&["check", "a.dot", "--format", "concise"]).exits(3);
    assert!(check.stderr.contains("error[child_nesting]"), "{}", check.stderr);
    let pipe = scratch.path("pipe.dot");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .expect("mkfifo");
    assert!(made.success());
    scratch.write(
        "b.dot",
        "digraph b { start -> r -> exit; r [shape=folder, label=R, subpipeline.file=\"pipe.dot\"] }",
    );
    let check = scratch.call(&["check", "b.dot"]).exits(3);
    assert!(
        check.stderr.contains("it is not a regular file"),
        "{}",
        check.stderr
    );
}
