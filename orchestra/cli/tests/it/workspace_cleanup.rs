//! `orchestra cleanup` in git repositories: branches, worktrees and refs of runs.

#![cfg(unix)]

use crate::workspace_support;

use serde_json::Value;
use workspace_support::{ONE, Scratch, branch, branches, conflict, git, pair, trees, user_is_left_alone};

/// Returns the report of `cleanup` on repositories: the status, the kind, and the name up to the id of the run.
fn cleaned(scratch: &Scratch, options: &[&str]) -> Vec<(String, String, String)> {
    let words = [&["cleanup", "--older-than", "0s", "--json"], options].concat();
    let objects = scratch.call(&words).exits(0).objects();
    let of = objects
        .iter()
        .filter(|object| object["schema"] == "orchestra.cleanup_repository/1");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    of.map(|object| {
        (
            text(&object["status"]),
            text(&object["kind"]),
            text(&object["name"]),
        )
    })
    .collect()
}

fn is(found: &[(String, String, String)], status: &str, name: &str) -> bool {
    found
        .iter()
        .any(|(one, _, other)| one == status && other.ends_with(name))
}

#[test]
fn cleanup_removes_what_is_merged_and_never_what_would_be_lost() {
    let scratch = pair();
    scratch.write("one.dot", ONE);
    scratch.call(&["run", "one.dot"]).exits(0);
    let (own, empty) = (branch(&scratch, "backend"), branch(&scratch, "frontend"));
    let dry = cleaned(&scratch, &["--dry-run"]);
    assert!(
        is(&dry, "kept", &own) && is(&dry, "would_be_removed", &empty),
        "{dry:?}"
    );
    assert_eq!(branches(&scratch, "frontend"), [empty.as_str()]);
    let reported = scratch
        .call(&["cleanup", "--older-than", "0s", "--dry-run"])
        .exits(0);
    let row = reported.stdout.lines().find(|line| line.contains(&own)).unwrap();
    assert!(
        row.starts_with("kept ") && row.ends_with("one commit would be lost; merge it, or force its removal"),
        "{row}"
    );

    let found = cleaned(&scratch, &[]);
    assert!(
        is(&found, "kept", &own) && is(&found, "removed", &empty),
        "{found:?}"
    );
    assert_eq!(branches(&scratch, "backend"), [own.as_str()]);
    assert_eq!(branches(&scratch, "frontend"), Vec::<String>::new());
    // The run folder is gone, but the configuration still names the repositories.
    assert_eq!(scratch.runs(), Vec::<String>::new());
    git(&scratch, "backend", &["merge", "-q", "--ff-only", &own]);
    let found = cleaned(&scratch, &[]);
    assert!(is(&found, "removed", &own), "{found:?}");
    assert_eq!(git(&scratch, "backend", &["for-each-ref", "refs/orchestra"]), "");
}

#[test]
fn cleanup_by_force_removes_what_is_old_enough() {
    let scratch = pair();
    scratch.write("one.dot", ONE);
    scratch.call(&["run", "one.dot"]).exits(0);
    let own = branch(&scratch, "backend");
    scratch
        .call(&["cleanup", "--older-than", "1d", "--force"])
        .exits(0);
    assert_eq!(branches(&scratch, "backend"), [own.as_str()]);
    let found = cleaned(&scratch, &["--force"]);
    assert!(is(&found, "removed", &own), "{found:?}");
    assert_eq!(
        git(
            &scratch,
            "backend",
            &["for-each-ref", "refs/orchestra", "refs/heads/orchestra"]
        ),
        ""
    );
}

#[test]
fn cleanup_leaves_a_paused_run_alone_unless_its_folder_goes() {
    let scratch = pair();
    scratch.write("two.dot", conflict("on_conflict=human"));
    scratch.call(&["run", "two.dot"]).exits(5);
    let (before, made) = (branches(&scratch, "backend"), trees(&scratch, "backend"));
    assert!(made > 0);
    assert_eq!(cleaned(&scratch, &[]), []);
    assert_eq!(cleaned(&scratch, &["--force"]), []);
    assert_eq!(
        (branches(&scratch, "backend"), trees(&scratch, "backend")),
        (before.clone(), made)
    );

    let found = cleaned(&scratch, &["--paused"]);
    assert!(
        found
            .iter()
            .any(|(status, kind, _)| status == "removed" && kind == "tree"),
        "{found:?}"
    );
    assert_eq!(trees(&scratch, "backend"), 0);
    // The work is still on branches, because nothing of it is merged.
    let all = git(&scratch, "frontend", &["log", "--branches", "--format=%s"]);
    assert!(all.contains("left: ") && all.contains("right: "), "{all}");
    cleaned(&scratch, &["--force"]);
    assert_eq!(branches(&scratch, "backend"), Vec::<String>::new());
    user_is_left_alone(&scratch);
}

#[test]
fn a_leftover_of_a_run_that_is_gone_is_swept_and_blocks_no_other() {
    let scratch = pair();
    scratch.write("two.dot", conflict("on_conflict=human"));
    scratch.call(&["run", "two.dot"]).exits(5);
    std::fs::remove_dir_all(scratch.path(".orchestra/runs")).unwrap();
    // The run may be stored elsewhere as long as its worktrees are recent.
    let young = scratch.call(&["cleanup", "--json"]).exits(0).objects();
    assert!(
        young.iter().all(|object| object["status"] != "removed"),
        "{young:?}"
    );
    assert!(trees(&scratch, "backend") > 0);
    let found = cleaned(&scratch, &[]);
    assert!(
        found
            .iter()
            .any(|(status, kind, _)| status == "removed" && kind == "tree"),
        "{found:?}"
    );
    assert_eq!(trees(&scratch, "backend"), 0);
    scratch.call(&["run", "two.dot", "--answer", "join=O"]).exits(0);
    user_is_left_alone(&scratch);
}
