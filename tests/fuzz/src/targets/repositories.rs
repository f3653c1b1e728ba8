//! What git writes: lists of refs, trees, objects, merges.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use orchestra_workspace::{
    Favour, Git, GitCommand, GitError, GitOutput, Message, Repository, Sha, Side, Sweep, SweepMode,
    UnmergedCommits, branches, plan, resolve, sweep,
};
use tempfile::TempDir;

use super::{Target, no_corpus};
use crate::Random;

/// Every command of the workspace gets a part of the input as its output: no panic, and no file outside of the
/// repository.
pub(super) const GIT_OUTPUT: Target = Target {
    name: "git_output",
    run: git_output,
    generate: a_session,
    corpus: no_corpus,
    words: &[
        "\0",
        "\n",
        "\t",
        " ",
        SHA,
        "100644 blob ",
        "040000 tree ",
        "refs/heads/orchestra/x",
        "refs/orchestra/base/x",
        "worktree ",
        "CONFLICT (contents)",
        "Auto-merging",
        "../../..",
        ".gitattributes",
        "1",
        "2",
        "3",
        "18446744073709551615",
        "blob 99999999",
        "HEAD",
        "branch refs/heads/x",
        "bare",
        "detached",
        "missing",
        "commit ",
        "\u{1}",
    ],
    suite: 400,
    share: 10,
};

const SHA: &str = "89e6c98d92887913cadf06b2adb97f26cde4849b";

/// The end of one output, and of the status before it.
const NEXT: u8 = 0x01;

/// Gives out the parts of an input, and then nothing.
struct Scripted {
    top: Vec<u8>,
    /// Whether the repository is open: what opening it asks beside its folders has no answer.
    is_open: AtomicBool,
    parts: Mutex<VecDeque<Vec<u8>>>,
}

impl Git for Scripted {
    fn run(&self, command: &GitCommand) -> Result<GitOutput, GitError> {
        let says = |word: &str| command.arguments().iter().any(|argument| argument == word);
        let stdout = |stdout: &[u8]| GitOutput {
            status: 0,
            stdout: stdout.to_vec(),
            stderr: String::new(),
        };
        if says("--is-bare-repository") {
            return Ok(stdout(b"false\ntrue\n"));
        }
        if says("--show-prefix") {
            return Ok(stdout(b"\n"));
        }
        if says("--show-toplevel") || says("--git-common-dir") {
            return Ok(stdout(&[&self.top[..], b"\n"].concat()));
        }
        if !self.is_open.load(Ordering::Relaxed) {
            return Ok(stdout(b""));
        }
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let part = parts.pop_front().unwrap_or_default();
        Ok(match part.split_first() {
            Some((b'!', said)) => GitOutput {
                status: i32::from(said.first().copied().unwrap_or(1)),
                stdout: said.to_vec(),
                stderr: String::from_utf8_lossy(said).into_owned(),
            },
            _ => stdout(&part),
        })
    }
}

fn git_output(input: &[u8]) {
    let outer = TempDir::new_in(if Path::new("/dev/shm").is_dir() {
        "/dev/shm"
    } else {
        "."
    })
    .expect("a folder");
    let top = outer.path().join("one/two/three/top");
    fs::create_dir_all(&top).expect("a folder");
    let (kind, text) = input
        .split_first()
        .map_or((0, input), |(kind, rest)| (kind % 6, rest));
    let parts = text.split(|byte| *byte == NEXT).map(<[u8]>::to_vec).collect();
    let git = Arc::new(Scripted {
        top: top.to_string_lossy().into_owned().into_bytes(),
        is_open: AtomicBool::new(false),
        parts: Mutex::new(parts),
    });
    let repository = Repository::open(git.clone(), "backend", &top).expect("the repository is there");
    git.is_open.store(true, Ordering::Relaxed);
    let sha: Sha = SHA.parse().expect("it is one");
    match kind {
        0 => drop((
            repository.head(),
            repository.tip("x"),
            repository.has_commit(&sha),
            repository.branch_exists("x"),
        )),
        1 => drop(branches(&repository, "orchestra/")),
        2 => drop(sweep(
            &repository,
            &Sweep {
                prefix: "orchestra/",
                worktrees: top.join("trees"),
                is_live: &|_| false,
                now: SystemTime::now(),
                unmerged: UnmergedCommits::Remove {
                    older_than: Some(Duration::from_secs(1)),
                },
                mode: SweepMode::DryRun,
            },
        )),
        3 => drop(repository.delete_branch("x", &sha)),
        4 => drop(resolve(&repository, &sha, Favour::Ours, &Message::default())),
        _ => {
            let side = |digit: &str| Side {
                name: format!("side {digit}"),
                sha: digit.repeat(40).parse().expect("it is one"),
            };
            drop(plan(&repository, &sha, &[side("a"), side("b")], &|_| {
                Message::default()
            }));
        }
    }
    let mut folder = outer.path().to_owned();
    for name in ["one", "two", "three", "top"] {
        let names: Vec<_> = fs::read_dir(&folder)
            .expect("a folder")
            .filter_map(Result::ok)
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(names, [name], "something is written outside of the repository");
        folder.push(name);
    }
}

/// Outputs that fit the commands, mostly.
fn a_session(random: &mut Random) -> Vec<u8> {
    let mut all = vec![vec![b'0' + random.below(6) as u8]];
    for _ in 0..random.below(14) {
        let mut part = Vec::new();
        match random.below(9) {
            0 | 1 => part.extend_from_slice(format!("{SHA}\n").as_bytes()),
            2 => {
                for name in ["a.txt", "dir/.gitattributes", ".gitattributes"] {
                    part.extend_from_slice(format!("100644 blob {SHA}\t{name}\0").as_bytes());
                }
            }
            3 => part.extend_from_slice(format!("{SHA} blob 5\nhello\n").as_bytes()),
            4 => part.extend_from_slice(
                format!(
                    "{SHA}\0100644 {SHA} 1\ta\0100644 {SHA} 2\ta\0\0{}\0a\0CONFLICT (contents)\0said\0",
                    random.below(3)
                )
                .as_bytes(),
            ),
            5 => part.extend_from_slice(
                format!("{SHA} refs/orchestra/base/orchestra/x\n{SHA} refs/heads/orchestra/x\n").as_bytes(),
            ),
            6 => part.extend_from_slice(
                format!("worktree /w/t\0HEAD {SHA}\0branch refs/heads/orchestra/x\0\0").as_bytes(),
            ),
            7 => part.push(b'!'),
            _ => part.extend_from_slice(
                format!(
                    "!{}",
                    random.pick(&["\u{1}", "unrelated histories", ".lock': File exists", "\u{7f}"])
                )
                .as_bytes(),
            ),
        }
        all.push(part);
    }
    let kind = all.remove(0);
    [kind, all.join(&NEXT)].concat()
}
