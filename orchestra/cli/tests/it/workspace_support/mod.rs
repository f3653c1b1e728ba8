//! Two git repositories of a user, and pipelines that work in them.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use crate::support;

use std::process::Command;

#[allow(unused_imports, reason = "not every test file needs all")]
pub use support::{Scratch, Started, gate};

/// A configuration that names both repositories.
pub const CONFIGURATION: &str = "workspace:
  repos:
    backend: {path: backend}
    frontend: {path: frontend, branch_prefix: bot/}
";

/// The text of the file that both repositories contain.
pub const LIST: &str = "one\n-\n-\n-\ntwo\n";

/// A user's repositories with one commit each, and the configuration that names them. There is no git identity.
pub fn pair() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("orchestra.yaml", CONFIGURATION);
    for name in ["backend", "frontend"] {
        scratch.write(&format!("{name}/list.txt"), LIST);
        git(&scratch, name, &["init", "-q", "-b", "main"]);
        git(&scratch, name, &["add", "-A"]);
        let (user, mail) = ("user.name=me", "user.email=me@localhost");
        git(
            &scratch,
            name,
            &["-c", user, "-c", mail, "commit", "-q", "-m", "start"],
        );
    }
    scratch
}

/// Runs git in a repository without the configuration of the user who runs the test.
#[track_caller]
pub fn git(scratch: &Scratch, name: &str, words: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(scratch.path(name))
        .args(words)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the branches of a repository besides the user's own.
pub fn branches(scratch: &Scratch, name: &str) -> Vec<String> {
    let names = git(
        scratch,
        name,
        &["for-each-ref", "--format=%(refname:short)", "refs/heads"],
    );
    names
        .lines()
        .filter(|branch| *branch != "main")
        .map(str::to_owned)
        .collect()
}

/// Returns the branch of the only run in a repository.
#[track_caller]
pub fn branch(scratch: &Scratch, name: &str) -> String {
    let [branch] = &branches(scratch, name)[..] else {
        panic!("{:?}", branches(scratch, name));
    };
    branch.clone()
}

/// Returns the number of worktrees of runs in a repository.
pub fn trees(scratch: &Scratch, name: &str) -> usize {
    git(scratch, name, &["worktree", "list"]).lines().count() - 1
}

/// Asserts that the worktrees and the branches of the user are unchanged.
#[track_caller]
pub fn user_is_left_alone(scratch: &Scratch) {
    for name in ["backend", "frontend"] {
        assert_eq!(git(scratch, name, &["status", "--porcelain"]), "", "{name}");
        assert_eq!(
            git(scratch, name, &["log", "--format=%s", "main"]),
            "start\n",
            "{name}"
        );
        assert_eq!(scratch.read(&format!("{name}/list.txt")), LIST);
    }
}

/// One stage that writes to one repository.
pub const ONE: &str = r#"digraph one {
    start -> write -> exit
    write [shape=parallelogram, repo=backend, tool_command="echo new > new.txt"]
}
"#;

/// Two branches that change the same line of the frontend, each with a separate file in the backend.
pub fn conflict(join: &str) -> String {
    format!(
        r#"digraph two {{
    node [shape=parallelogram]
    start [shape=Mdiamond]
    exit [shape=Msquare]
    fan [shape=component]
    left [tool_command="sed 's/two/two left/' frontend/list.txt > l && mv l frontend/list.txt; echo left > backend/left.txt"]
    right [tool_command="sed 's/two/two right/' frontend/list.txt > r && mv r frontend/list.txt; echo right > backend/right.txt"]
    join [shape=tripleoctagon, {join}]
    start -> fan
    fan -> left -> join
    fan -> right -> join
    join -> exit
}}
"#
    )
}
