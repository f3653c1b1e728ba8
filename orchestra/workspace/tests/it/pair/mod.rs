//! Two repositories of a user, and runs in them.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use orchestra_engine::{Durability, Engine, EngineBuilder, RunResult, RunStatus};
use orchestra_graph::{LoadOptions, Pipeline, Source, load};
use orchestra_workspace::GitWorkspace;

/// A file in which changes of different items do not conflict.
pub const LIST: &str = "one\n-\n-\n-\ntwo\n-\n-\n-\nthree\n";

/// The repositories.
pub const NAMES: [&str; 2] = ["backend", "frontend"];

/// Two repositories with one commit each, and a folder for runs.
pub struct Pair {
    pub scratch: tempfile::TempDir,
}

/// The state of a user's repository that a run must not change.
#[derive(Debug, PartialEq)]
pub struct Users {
    head: String,
    branch: Vec<u8>,
    index: Vec<u8>,
    branches: String,
    status: String,
    files: String,
}

impl Pair {
    pub fn new() -> Pair {
        let pair = Pair {
            scratch: tempfile::tempdir().unwrap(),
        };
        for name in NAMES {
            let folder = pair.repository(name);
            std::fs::create_dir_all(&folder).unwrap();
            pair.git(name, &["init", "-q", "-b", "main"]);
            std::fs::write(folder.join("list.txt"), LIST).unwrap();
            std::fs::write(folder.join("name.txt"), name).unwrap();
            pair.git(name, &["add", "-A"]);
            pair.git(name, &["commit", "-q", "-m", "start"]);
        }
        pair
    }

    pub fn folder(&self) -> PathBuf {
        self.scratch.path().canonicalize().unwrap()
    }

    pub fn repository(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Runs git in a repository of the user and returns its output.
    pub fn git(&self, name: &str, words: &[&str]) -> String {
        git(&self.repository(name), words)
    }

    pub fn workspace(&self) -> GitWorkspace {
        let mut builder = GitWorkspace::builder(self.folder().join(".orchestra/worktrees"));
        for name in NAMES {
            builder = builder.repository(name, self.repository(name));
        }
        builder.build().unwrap()
    }

    pub fn engine(&self) -> EngineBuilder {
        Engine::builder()
            .workspace(self.workspace())
            .durability(Durability::Process)
            .runs_dir(self.folder().join(".orchestra/runs"))
    }

    pub async fn run(&self, text: &str) -> RunResult {
        let engine = self.engine().build().unwrap();
        let run = engine.start(pipeline(text), ()).run_id("first").await.unwrap();
        run.wait().await.unwrap()
    }

    /// Returns the text of a file on a branch.
    pub fn on(&self, name: &str, branch: &str, file: &str) -> String {
        self.git(name, &["show", &format!("{branch}:{file}")])
    }

    /// Returns the summaries of the commits of a branch since the start, newest first, following first parents.
    pub fn log(&self, name: &str, branch: &str) -> Vec<String> {
        let range = format!("main..{branch}");
        let reported = self.git(
            name,
            &["log", "--topo-order", "--first-parent", "--format=%s", &range],
        );
        reported.lines().map(str::to_owned).collect()
    }

    pub fn branches(&self, name: &str) -> Vec<String> {
        let reported = self.git(
            name,
            &[
                "for-each-ref",
                "--format=%(refname:short)",
                "refs/heads/orchestra",
            ],
        );
        reported.lines().map(str::to_owned).collect()
    }

    /// Returns the number of worktrees besides the user's own.
    pub fn trees(&self, name: &str) -> usize {
        let reported = self.git(name, &["worktree", "list", "--porcelain"]);
        reported
            .lines()
            .filter(|line| line.starts_with("worktree "))
            .count()
            - 1
    }

    pub fn users(&self) -> Vec<Users> {
        let of = |name: &str| {
            let folder = self.repository(name);
            Users {
                head: self.git(name, &["rev-parse", "HEAD"]),
                branch: std::fs::read(folder.join(".git/HEAD")).unwrap(),
                index: std::fs::read(folder.join(".git/index")).unwrap(),
                branches: self
                    .git(name, &["for-each-ref", "refs/heads", "refs/tags"])
                    .lines()
                    .filter(|line| !line.contains("refs/heads/orchestra/"))
                    .collect(),
                status: self.git(name, &["--no-optional-locks", "status", "--porcelain"]),
                files: files(&folder),
            }
        };
        NAMES.map(of).into()
    }

    /// Returns the commits whose work is lost: no ref leads to them or to another commit with the same files. Merges
    /// that can be computed again from commits do not count as work.
    pub fn lost(&self, name: &str) -> Vec<String> {
        let reported = self.git(name, &["fsck", "--unreachable", "--no-reflogs", "--no-progress"]);
        let named = self.git(name, &["log", "--all", "--format=%T"]);
        let commits = reported
            .lines()
            .filter_map(|line| line.strip_prefix("unreachable commit "));
        let lost = commits.filter(|commit| {
            let about = self.git(name, &["show", "-s", "--format=%T %s", commit]);
            let (tree, summary) = about.trim().split_once(' ').unwrap_or((about.trim(), ""));
            let follows = summary.contains(": merge `") || summary.starts_with("orchestra: ");
            !follows && !named.lines().any(|known| known == tree)
        });
        lost.map(|commit| self.git(name, &["log", "-1", "--stat", commit]))
            .collect()
    }
}

/// Returns the files of a worktree with their contents.
fn files(folder: &Path) -> String {
    let mut reported = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_file() {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            reported.insert(entry.file_name(), text);
        }
    }
    format!("{reported:?}")
}

/// Runs git without the configuration of this machine.
pub fn git(folder: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=user", "-c", "user.email=user@localhost"])
        .arg("-C")
        .arg(folder)
        .args(words)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .env_remove("GIT_DIR")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git {words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

pub fn pipeline(text: &str) -> Pipeline {
    let loaded = load(Source::new("t.dot", text), &LoadOptions::default());
    loaded.pipeline().unwrap_or_else(|| {
        let errors: Vec<String> = loaded
            .report
            .errors()
            .map(|error| error.message.clone())
            .collect();
        panic!("{errors:#?}\n{text}")
    })
}

pub fn succeeded(result: &RunResult) {
    assert_eq!(result.status, RunStatus::Success, "{:?}", result.failure);
}
