//! A folder to work in, and the program to call there.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A folder of its own for a test.
pub struct Place {
    folder: tempfile::TempDir,
}

/// What the program did.
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    pub fn new() -> Place {
        Place {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Place {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// A command of the program, in this folder, with a plain environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orchestra"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        command
    }

    /// Calls the program with lines of standard input from a pipe.
    pub fn call_with(&self, args: &[&str], input: &str) -> Done {
        let mut command = self.command(args);
        let pipes = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("the program starts");
        let mut pipe = child.stdin.take().unwrap();
        // A program that reads nothing may be gone already.
        let _ = std::io::Write::write_all(&mut pipe, input.as_bytes());
        drop(pipe);
        done(child.wait_with_output().unwrap())
    }

    pub fn call(&self, args: &[&str]) -> Done {
        done(self.command(args).output().expect("the program starts"))
    }
}

pub fn done(output: Output) -> Done {
    Done {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Done {
    /// The lines of standard output as JSON.
    pub fn objects(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Done {
        assert_eq!(
            self.code, code,
            "stdout:\n{}\nstderr:\n{}",
            self.stdout, self.stderr
        );
        self
    }
}

/// Tools in a line; the last one fails where `broken`.
pub fn tools(broken: bool) -> String {
    let command = if broken {
        "echo on the wall >&2; exit 3"
    } else {
        "echo done"
    };
    format!(
        r#"digraph tools {{
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    first  [shape=parallelogram, tool_command="echo first"]
    second [shape=parallelogram, tool_command="{command}"]
    mend   [shape=parallelogram, tool_command="echo mending", end="fail"]
    start -> first -> second
    first -> mend [condition="outcome=fail"]
    second -> exit [condition="outcome=success"]
    second -> mend [condition="outcome=fail"]
}}
"#
    )
}
