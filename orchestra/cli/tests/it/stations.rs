//! Station workflows on the command line: stored, versioned, activated and run by their names.
use crate::support;

use serde_json::Value;
use support::*;

const SHOP: &str = r#"digraph shop { routing=first_match; start -> pick
    pick [shape=parallelogram, tool_command="echo first"]
    pick -> exit }"#;

fn shop() -> Scratch {
    let project = Scratch::new();
    project.write("shop.dot", SHOP);
    project
}

#[test]
fn a_workflow_is_run_by_its_active_version() {
    let project = shop();
    project
        .call(&["stations", "import", "shop.dot", "--activate"])
        .exits(0);
    project.write("shop.dot", SHOP.replace("echo first", "echo second"));
    let imported = project
        .call(&["stations", "import", "shop.dot", "--note", "says more"])
        .exits(0);
    assert!(
        imported.stderr.contains("version 2 of `shop`"),
        "{}",
        imported.stderr
    );
    let output = |run: &[&str]| {
        let result: Value =
            serde_json::from_str(project.call(run).exits(0).stdout.lines().last().unwrap()).unwrap();
        result["outcomes"]["pick"]["notes"]
            .as_str()
            .unwrap()
            .trim()
            .to_owned()
    };
    assert_eq!(output(&["run", "stations:shop", "--json"]), "first");
    assert_eq!(output(&["run", "stations:shop@2", "--json"]), "second");
    project.call(&["stations", "activate", "shop"]).exits(0);
    assert_eq!(output(&["run", "stations:shop", "--json"]), "second");
    let listed = project.call(&["stations", "list", "--json"]).exits(0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        (&listed["name"], &listed["active"], &listed["latest"]),
        (&"shop".into(), &2.into(), &2.into())
    );
    let runs = project.call(&["status", "--json"]).exits(0);
    let files: Vec<String> = runs
        .stdout
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["file"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(files, ["stations:shop@2", "stations:shop@2", "stations:shop@1"]);
}

#[test]
fn a_version_is_exported_as_it_was_imported_and_compared() {
    let project = shop();
    project.call(&["stations", "import", "shop.dot"]).exits(0);
    // The same text is no new version.
    project.call(&["stations", "import", "shop.dot"]).exits(0);
    project.write("shop.dot", SHOP.replace("echo first", "echo second"));
    project.call(&["stations", "import", "shop.dot"]).exits(0);
    assert_eq!(
        project
            .call(&["stations", "export", "shop@1"])
            .exits(0)
            .stdout
            .trim(),
        SHOP
    );
    let diff = project
        .call(&["stations", "diff", "shop@1", "shop@2"])
        .exits(0)
        .stdout;
    assert!(
        diff.contains("tool_command: \"echo first\" -> \"echo second\""),
        "{diff}"
    );
    let missing = project.call(&["stations", "export", "shop@3"]).exits(2);
    assert!(
        missing
            .stderr
            .contains("workflow `shop` has no version 3; the latest is 2"),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_workflow_with_errors_is_stored_but_not_run() {
    let project = Scratch::new();
    project.write("shop.dot", "digraph { start -> pick }");
    let imported = project.call(&["stations", "import", "shop.dot"]).exits(3);
    assert!(
        imported.stderr.contains("is version 1 of `shop`"),
        "{}",
        imported.stderr
    );
    project.call(&["stations", "activate", "shop"]).exits(3);
    let run = project.call(&["run", "stations:shop"]).exits(2);
    assert!(run.stderr.contains("error[no_active_version]"), "{}", run.stderr);
    let other = project.call(&["run", "stations:shpo"]).exits(2);
    assert!(other.stderr.contains("did you mean `shop`?"), "{}", other.stderr);
    project.write("torn.dot", "digraph { start -> ");
    project.call(&["stations", "import", "torn.dot"]).exits(3);
    assert_eq!(
        project
            .call(&["stations", "list", "--json"])
            .exits(0)
            .stdout
            .lines()
            .count(),
        1
    );
}

#[test]
fn a_run_keeps_its_version_unless_changes_are_accepted() {
    let project = Scratch::new();
    let gated = r#"digraph shop { start -> ask; ask [shape=hexagon]; ask -> ship [label=Ship]
        ship [shape=parallelogram, tool_command="echo first"]; ship -> exit }"#;
    project.write("shop.dot", gated);
    project
        .call(&["stations", "import", "shop.dot", "--activate"])
        .exits(0);
    project
        .call(&["run", "stations:shop", "--run-dir", "one"])
        .exits(5);
    project
        .call(&["run", "stations:shop", "--run-dir", "two"])
        .exits(5);
    project.write("shop.dot", gated.replace("echo first", "echo second"));
    project
        .call(&["stations", "import", "shop.dot", "--activate"])
        .exits(0);
    let kept = project
        .call(&["resume", "one", "--answer", "ask=Ship", "--json"])
        .exits(0);
    assert!(
        kept.stdout.contains("first") && !kept.stdout.contains("second"),
        "{}",
        kept.stdout
    );
    let changed = project
        .call(&[
            "resume",
            "two",
            "--accept-changes",
            "--answer",
            "ask=Ship",
            "--json",
        ])
        .exits(0);
    assert!(changed.stdout.contains("second"), "{}", changed.stdout);
}

#[test]
fn without_a_database_the_first_import_is_named() {
    let project = shop();
    for command in [&["stations", "export", "shop"][..], &["run", "stations:shop"]] {
        let missing = project.call(command).exits(2);
        assert!(
            missing.stderr.contains("`stations import FILE.dot` creates it"),
            "{}",
            missing.stderr
        );
    }
    assert!(
        project
            .call(&["stations", "list"])
            .exits(0)
            .stderr
            .contains("there are no workflows")
    );
}
