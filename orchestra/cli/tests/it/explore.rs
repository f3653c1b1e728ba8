//! `explore`, through the program.

use crate::support;

use std::path::Path;

use serde_json::Value;
use support::Scratch;

const LOOP: &str = "digraph a { graph [assert=\"at_most(build, 6); handled(build)\"]
    start [shape=Mdiamond]; exit [shape=Msquare]
    build [prompt=Build, max_visits=3, max_retries=1]; ask [shape=hexagon]; never [prompt=Never]
    start -> build -> ask; ask -> exit [label=Ship]; ask -> build [label=Again]
    build -> build [condition=\"outcome=fail\"]; build -> never [condition=\"outcome=success && outcome=fail\"]; never -> exit }";

#[test]
fn explore_shows_limits_ends_and_what_no_run_uses() {
    let scratch = Scratch::new();
    scratch.write("a.dot", LOOP);
    let explored = scratch.call(&["explore", "a.dot"]).exits(0);
    for part in [
        "build       3         6  `max_visits=3` of `build`; up to 2 attempts each",
        "a run has at most ",
        "2 assertions hold",
        "explored ",
        "  success: ",
        "  max_visits at `build`: ",
        "nodes that no explored run uses: `never`",
        "edges that no explored run uses: `build -> never`, `never -> exit`",
    ] {
        assert!(
            explored.stdout.contains(part),
            "{part} is missing in\n{}",
            explored.stdout
        );
    }
    assert!(!explored.stdout.contains("bounded") && !explored.stdout.contains("default"));
    assert!(!scratch.path(".orchestra").exists(), "nothing was run");
}

#[test]
fn explore_writes_one_object() {
    let scratch = Scratch::new();
    scratch.write("a.dot", LOOP);
    let explored = scratch.call(&["explore", "a.dot", "--json"]).exits(0);
    let object: Value = serde_json::from_str(&explored.stdout).unwrap();
    assert_eq!(object["schema"], "orchestra.exploration/1");
    assert_eq!(object["complete"], true);
    assert_eq!(object["assertions"], 2);
    assert_eq!(object["violations"], serde_json::json!([]));
    let nodes = object["limits"]["nodes"].as_array().unwrap();
    let build = nodes.iter().find(|node| node["node"] == "build").unwrap();
    assert_eq!(
        (&build["visits"], &build["attempts"], &build["by_default"]),
        (&3.into(), &6.into(), &false.into())
    );
    let ends = object["ends"].as_array().unwrap();
    assert!(
        ends.iter()
            .any(|end| end["end"] == "success" && end["node"].is_null())
    );
}

#[test]
fn explore_says_what_only_a_default_limits_and_what_was_not_tried() {
    let scratch = Scratch::new();
    let text = "digraph a { work [prompt=Work]; start -> work -> exit; work -> work [condition=\"context.k matches ^a\"] }";
    scratch.write("a.dot", text);
    let explored = scratch.call(&["explore", "a.dot"]).exits(0);
    for part in [
        "only the default of 1,000 visits limits `work`",
        "; not all context values were tried",
    ] {
        assert!(
            explored.stdout.contains(part),
            "{part} is missing in\n{}",
            explored.stdout
        );
    }
}

#[test]
fn explore_refuses_what_check_refuses() {
    let scratch = Scratch::new();
    scratch.write("a.dot", "digraph a { start -> wrok; work -> exit }");
    let explored = scratch.call(&["explore", "a.dot"]).exits(3);
    assert!(
        explored.stderr.contains("error[edge_target_exists]"),
        "{}",
        explored.stderr
    );
    scratch.call(&["explore", "missing.dot"]).exits(2);
}

#[test]
fn every_example_is_explored() {
    let scratch = Scratch::new();
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let mut explored = 0;
    for folder in std::fs::read_dir(examples).unwrap() {
        let folder = folder.unwrap().path();
        let Ok(files) = std::fs::read_dir(&folder) else {
            continue;
        };
        for file in files {
            let file = file.unwrap().path();
            // The largest one takes long without optimization; `tests/oracle/tests/limits.rs` explores it too.
            let is_large = file.ends_with("pr_review.dot");
            if file.extension().is_some_and(|extension| extension == "dot") && !is_large {
                let file = file.display().to_string();
                let done = scratch.call(&["explore", &file, "--json"]).exits(0);
                let object: Value = serde_json::from_str(&done.stdout).unwrap();
                assert_eq!(object["complete"], true, "{file}");
                explored += 1;
            }
        }
    }
    assert!(explored >= 9);
}
