//! `mcp lock`: the tools of servers are recorded once they were reviewed.

#![cfg(unix)]

use serde_json::Value;

use crate::agents_support::Project;
use crate::mcp_support::{call, configuration, project};

#[test]
fn the_tools_of_a_server_are_recorded_and_compared() {
    let project = Project::new(&configuration("plain", ""));
    project.scratch.write(
        "a.dot",
        "digraph { start -> work -> exit; work [prompt=x, agent=worker] }",
    );
    let check = call(&project, &["check", "a.dot"]).exits(3);
    assert!(check.stderr.contains("orchestra mcp lock") || check.stdout.contains("orchestra mcp lock"));
    let checked = call(&project, &["mcp", "lock", "--check"]).exits(3);
    assert_eq!(checked.stdout, "tools: not locked; run `orchestra mcp lock`\n");
    assert!(!project.scratch.path("orchestra.mcp.lock").exists());
    let locked = call(&project, &["mcp", "lock"]).exits(0);
    assert_eq!(locked.stdout, "tools: locked with 2 tools: echo, ask\n");
    let text = project.scratch.read("orchestra.mcp.lock");
    let json: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let tools = json["servers"]["tools"].as_array().unwrap();
    assert_eq!(
        (&tools[0]["name"], &tools[1]["name"]),
        (&"ask".into(), &"echo".into())
    );
    assert_eq!(tools[1]["description"], "Says it again.");
    assert_eq!(tools[1]["sha256"].as_str().unwrap().len(), 64);
    call(&project, &["check", "a.dot"]).exits(0);
    call(&project, &["mcp", "lock", "--check"]).exits(0);
    call(&project, &["mcp", "lock"]).exits(0);
    assert_eq!(
        project.scratch.read("orchestra.mcp.lock"),
        text,
        "it stays the same"
    );
}

#[test]
fn a_change_is_refused_until_it_is_accepted_by_name() {
    for (mode, difference) in [
        ("changed", "the description of `echo` has changed"),
        ("added", "the tool `remove` was added"),
        ("removed", "the tool `ask` was removed"),
    ] {
        let project = project(mode, "");
        let before = project.scratch.read("orchestra.mcp.lock");
        let refused = call(&project, &["mcp", "lock"]).exits(3);
        assert!(refused.stdout.contains(difference), "{}", refused.stdout);
        assert!(
            refused.stdout.contains("orchestra mcp lock --accept tools"),
            "{}",
            refused.stdout
        );
        assert_eq!(project.scratch.read("orchestra.mcp.lock"), before);
        call(&project, &["mcp", "lock", "--check"]).exits(3);
        let accepted = call(&project, &["mcp", "lock", "--accept", "tools"]).exits(0);
        assert!(accepted.stdout.contains(difference), "{}", accepted.stdout);
        call(&project, &["mcp", "lock", "--check"]).exits(0);
    }
}

#[test]
fn wrong_uses_say_what_to_do() {
    let project = project("plain", "");
    let misspelt = call(&project, &["mcp", "lock", "--accept", "tolls"]).exits(2);
    assert!(
        misspelt.stderr.contains("did you mean `tools`?"),
        "{}",
        misspelt.stderr
    );
    project.scratch.write("orchestra.mcp.lock", "{");
    let damaged = call(&project, &["mcp", "lock"]).exits(3);
    assert!(
        damaged.stderr.contains("restore it from version control"),
        "{}",
        damaged.stderr
    );
    let text = project.scratch.read("orchestra.yaml");
    project.scratch.write(
        "orchestra.yaml",
        text.replace("command: [", "command: [/no/such/program, "),
    );
    std::fs::remove_file(project.scratch.path("orchestra.mcp.lock")).unwrap();
    let missing = call(&project, &["mcp", "lock"]).exits(1);
    assert!(
        missing.stderr.contains("`/no/such/program`"),
        "{}",
        missing.stderr
    );
    project.scratch.write("orchestra.yaml", "backend: agent\n");
    let none = call(&project, &["mcp", "lock"]).exits(2);
    assert!(none.stderr.contains("no `mcp_servers`"), "{}", none.stderr);
}
