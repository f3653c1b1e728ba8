//! Other users, other processes of the user, and read-only folders. If these tests run as root, to whom nothing is
//! forbidden, the program runs as another user.

#![cfg(target_os = "linux")]

use crate::support;

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{Done, Scratch, copy_program, done};

/// The id of the user and the group `nobody`.
const NOBODY: u32 = 65_534;

/// A folder of an unprivileged user, and the program for that user.
struct Someone {
    scratch: Scratch,
    program: PathBuf,
    is_root: bool,
}

impl Someone {
    fn new() -> Someone {
        let scratch = Scratch::new();
        let program = scratch.path("orchestra");
        let built = Path::new(env!("CARGO_BIN_EXE_orchestra"));
        // The build folder may be inaccessible to other users.
        if fs::hard_link(built, &program).is_err() {
            copy_program(built, &program);
        }
        let is_root = fs::metadata(scratch.path(".")).unwrap().uid() == 0;
        if is_root {
            chown(scratch.path("."), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Someone {
            scratch,
            program,
            is_root,
        }
    }

    /// Returns a command for a shell line, in which `$O` is the program.
    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.scratch.path("."));
        command
            .env("O", &self.program)
            .env("HOME", self.scratch.path("."));
        command.stdin(Stdio::null());
        if self.is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn call(&self, line: &str) -> Done {
        done(self.shell(line).output().unwrap())
    }
}

/// A tool with more output than is stored inline, and a gate at which the run stops.
const PIPELINE: &str = r#"digraph p {
    start -> fan; fan [shape=component]; fan -> one; fan -> two; one -> join; two -> join
    one [shape=parallelogram, tool_command="seq 30000; echo oops >&2"]
    two [shape=parallelogram, tool_command="echo two"]
    join [shape=tripleoctagon]; join -> ask
    ask [shape=hexagon, label="Go on?"]; ask -> exit [label="[Y] Yes"]
}
"#;

/// Returns all files and folders below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(below(&path));
        }
        found.push(path);
    }
    found
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_its_user_may_look_into_a_run() {
    let someone = Someone::new();
    someone.scratch.write("p.dot", PIPELINE);
    // Even with a permissive umask, run folders are private.
    someone.call("umask 000; $O run p.dot").exits(5);
    someone.call("umask 000; $O status").exits(0);
    someone
        .call("umask 000; $O replay last --checkpoint cp_000000")
        .exits(5);
    let runs = someone.scratch.path(".orchestra/runs");
    let found = below(&runs);
    assert!(found.len() > 20, "{found:#?}");
    for path in found {
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), wanted, "{}", path.display());
    }
    // Existing files keep their permissions; new files in the folder are private.
    let run = fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap().path());
    let run = run.into_iter().find(|path| path.is_dir()).unwrap();
    for path in [&run, &run.join("manifest.json")] {
        let open = Permissions::from_mode(if path.is_dir() { 0o755 } else { 0o644 });
        fs::set_permissions(path, open).unwrap();
    }
    let name = run.file_name().unwrap().to_str().unwrap();
    someone.call(&format!("$O answer {name} ask Y")).exits(0);
    assert_eq!((mode(&run), mode(&run.join("manifest.json"))), (0o755, 0o644));
    for path in below(&run) {
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert!(
            path.ends_with("manifest.json") || mode(&path) == wanted,
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_tool_reads_no_key_from_the_processes_around_it() {
    const KEY: &str = "canary-of-the-environment-0123456789";
    let someone = Someone::new();
    someone
        .scratch
        .write(
            "look.sh",
            "pid=$PPID\nwhile [ \"$pid\" -gt 1 ]; do\n  cat /proc/$pid/environ >>seen 2>>refused; \
             head -c 1 /proc/$pid/mem >>seen 2>>refused\n  cat /proc/$pid/maps >>maps 2>>refused\n  \
             pid=$(ps -o ppid= -p $pid | tr -d ' ')\ndone\n",
        )
        .write(
            "p.dot",
            "digraph { start -> look -> exit; look [shape=parallelogram, tool_command=\"sh look.sh\"] }",
        );
    let run = |set: &str| {
        let mut command = someone.shell(&format!("{set} exec $O run p.dot"));
        let ended = done(command.env("ANTHROPIC_API_KEY", KEY).output().unwrap());
        ended.exits(0);
        someone.scratch.read("seen").contains(KEY)
    };
    assert!(!run(""), "the key was seen");
    assert!(someone.scratch.lines("refused") > 0);
    // A user can enable tracing explicitly; then tools can inspect the program.
    assert!(run("ORCHESTRA_DUMPABLE=1"), "this test sees nothing at all");
}

#[test]
fn runs_are_read_in_a_folder_that_cannot_be_written() {
    for indexed in [false, true] {
        let someone = Someone::new();
        someone.scratch.write("p.dot", PIPELINE);
        someone.call("$O run p.dot").exits(5);
        if indexed {
            someone.call("$O status").exits(0);
        }
        let runs = someone.scratch.path(".orchestra/runs");
        let listed = || below(&runs).into_iter().collect::<BTreeSet<PathBuf>>();
        let before = listed();
        let closed: Vec<PathBuf> = before.iter().filter(|path| path.is_dir()).cloned().collect();
        let all = [&runs].into_iter().chain(&closed);
        for folder in all.clone() {
            fs::set_permissions(folder, Permissions::from_mode(0o555)).unwrap();
        }
        let words = ["", " --json"];
        for (line, code, part) in [
            ("$O status", 0, "paused"),
            ("$O status last", 0, "paused"),
            ("$O checkpoints last", 0, "cp_00000"),
            ("$O attach last", 5, "paused"),
            ("$O graph p.dot --run last", 0, ""),
        ] {
            for json in words {
                let read = someone.call(&format!("{line}{json}")).exits(code);
                assert!(read.stdout.contains(part), "{line}{json}: {}", read.stdout);
            }
        }
        // Commands that must write report why they cannot.
        let refused = someone.call("$O answer last ask Y");
        assert!(
            refused.code != 0 && refused.stderr.contains("ermission denied"),
            "{}",
            refused.stderr
        );
        assert_eq!(listed(), before, "nothing was written");
        for folder in all {
            fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
        }
        someone.call("$O answer last ask Y").exits(0);
    }
}
