//! The program itself, with real git.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

fn run(args: &[&Path]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_two_repos"));
    program.args(args).output().unwrap()
}

fn git(folder: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(name);
    }
    git.env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    let said = git.arg("-C").arg(folder).args(words).output();
    String::from_utf8(said.unwrap().stdout).unwrap()
}

#[test]
fn it_merges_three_features_settles_the_conflict_and_leaves_the_user_alone() {
    let dir = tempfile::tempdir().unwrap();
    let done = run(&[dir.path()]);
    let reported = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(0), "{reported}");
    assert!(
        reported.contains("settle: settled frontend: menu.txt"),
        "{reported}"
    );
    for (name, file, text) in [
        (
            "backend",
            "routes.txt",
            "/accounts\n/customers\n/export\n/help\n/invoices\n/login\n/orders\n/products\n/reports\n/search\n/users\n",
        ),
        (
            "frontend",
            "menu.txt",
            "Log in\nHome\nOrders\nProducts\nSearch\nExport\n",
        ),
    ] {
        let repository = dir.path().join(name);
        let branches = git(&repository, &["branch", "--format=%(refname:short)"]);
        let branches: Vec<&str> = branches.lines().collect();
        let [main, session] = branches[..] else {
            panic!("{branches:?}");
        };
        assert_eq!(main, "main");
        assert!(session.starts_with("orchestra/two_repos/"), "{session}");
        assert_eq!(git(&repository, &["show", &format!("{session}:{file}")]), text);
        assert_eq!(git(&repository, &["status", "--porcelain"]), "");
        assert_eq!(
            git(&repository, &["log", "--format=%s", "main"]),
            "First version\n"
        );
        assert_eq!(git(&repository, &["worktree", "list"]).lines().count(), 1);
    }
}

#[test]
fn a_folder_that_is_a_file_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let done = run(&[&file]);
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8(done.stderr).unwrap().contains("backend"));
}
