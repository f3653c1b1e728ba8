//! Neovim without a screen, with the settings of `editors/neovim`: diagnostics, hover, rename, quick fix and formatting.

use std::process::{Command, Stdio};

use orchestra_installed_tests::{find, skip};
use serde_json::Value;

use crate::support::{PIPELINE, PROGRAM, Project, repository};

/// Lets Neovim take a step of `neovim.lua` in a project, and returns its answer. `None` without Neovim.
#[track_caller]
fn step(project: &Project, name: &str) -> Option<Value> {
    let Some(program) = find("nvim") else {
        skip("there is no program `nvim`");
        return None;
    };
    let home = tempfile::tempdir().unwrap();
    let answer = home.path().join("answer.json");
    let output = Command::new(program)
        .args(["--headless", "--clean", "-n", "-i", "NONE", "-S"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/neovim.lua"))
        .current_dir(project.folder.path())
        .env("HOME", home.path())
        .env("XDG_STATE_HOME", home.path())
        .env("EDITOR_PROGRAM", PROGRAM)
        .env(
            "EDITOR_SETTINGS",
            repository().join("editors/neovim/orchestra.lua"),
        )
        .env("EDITOR_STEP", name)
        .env("EDITOR_ANSWER", &answer)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    let text = std::fs::read_to_string(answer).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let mut answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["error"], Value::Null, "{text}\n{printed}");
    Some(answer["answer"].take())
}

#[track_caller]
fn list(answer: &Value) -> Vec<&str> {
    let items = answer.as_array().expect("a list").iter();
    items.map(|item| item.as_str().expect("a text")).collect()
}

#[test]
fn diagnostics_are_those_of_check() {
    let project = Project::new();
    project.replace(PIPELINE, "collect -> critic", "collect -> critc");
    project.replace(PIPELINE, "most=3", "max_visits=0, most=3");
    let Some(answer) = step(&project, "diagnostics") else {
        return;
    };
    let checked = project.checked(PIPELINE);
    assert!(checked.len() >= 2, "{checked:?}");
    assert_eq!(list(&answer), checked);
}

#[test]
fn the_configuration_has_diagnostics_of_its_own() {
    let project = Project::new();
    project.replace(
        "orchestra.yaml",
        "role: architecture-reviewer",
        "role: architect-reviewer",
    );
    let Some(answer) = step(&project, "configuration") else {
        return;
    };
    let line = project.read("orchestra.yaml");
    let line = line
        .lines()
        .position(|line| line.contains("architect-reviewer"))
        .unwrap()
        + 1;
    let found = list(&answer);
    assert!(
        found.len() == 1 && found[0].starts_with(&format!("{line}:")),
        "{found:?}"
    );
}

#[test]
fn a_diagnostic_comes_and_goes_while_a_person_types() {
    let project = Project::new();
    let Some(answer) = step(&project, "typing") else {
        return;
    };
    project.replace(PIPELINE, "collect -> critic", "collect -> critc");
    assert_eq!(list(&answer), project.checked(PIPELINE));
}

#[test]
fn a_quick_fix_corrects_the_text() {
    let project = Project::new();
    let right = project.read(PIPELINE);
    project.replace(PIPELINE, "collect -> critic", "collect -> critc");
    let Some(answer) = step(&project, "fix") else {
        return;
    };
    assert_eq!(list(&answer["titles"]), ["replace `critc` with `critic`"]);
    assert_eq!(answer["text"], right);
}

#[test]
fn hover_explains_an_attribute() {
    let project = Project::new();
    let Some(answer) = step(&project, "hover") else {
        return;
    };
    let shown = answer.as_str().unwrap();
    assert!(
        shown.contains("goal_gate") && shown.contains("default `false`"),
        "{shown}"
    );
}

#[test]
fn a_rename_changes_every_occurrence_of_a_node() {
    let project = Project::new();
    let before = project.read(PIPELINE);
    let Some(answer) = step(&project, "rename") else {
        return;
    };
    assert!(before.matches("collect").count() > 4);
    assert_eq!(answer, before.replace("collect", "gather"));
}

#[test]
fn formatting_is_that_of_fmt() {
    let project = Project::new();
    project.replace(
        PIPELINE,
        "    start -> review\n",
        "         start->review\n\n\n\n",
    );
    let Some(answer) = step(&project, "format") else {
        return;
    };
    let unformatted = project.read(PIPELINE);
    project.run(&["fmt", PIPELINE]);
    assert_ne!(project.read(PIPELINE), unformatted);
    assert_eq!(answer, project.read(PIPELINE));
}
