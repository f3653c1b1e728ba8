//! A temporary folder, and running the program in it.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A temporary folder for a test.
pub struct Scratch {
    folder: tempfile::TempDir,
}

/// The result of a finished program.
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Copies a program. A child process does it: a program that this process has open for writing cannot be started, and
/// children that other threads start at that moment inherit the open file.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to.as_ref()).status();
    assert!(copied.unwrap().success());
}

impl Scratch {
    pub fn new() -> Scratch {
        Scratch {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Scratch {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Returns a command of the program in this folder, with a plain environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orchestra"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        command
    }

    /// Runs the program with piped standard input.
    pub fn call_with(&self, args: &[&str], input: &str) -> Done {
        let mut command = self.command(args);
        let pipes = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("the program starts");
        let mut pipe = child.stdin.take().unwrap();
        // The program may have ended without reading its input.
        let _ = std::io::Write::write_all(&mut pipe, input.as_bytes());
        drop(pipe);
        done(child.wait_with_output().unwrap())
    }

    /// Starts the program with `--json` without waiting for its end.
    pub fn start(&self, args: &[&str]) -> Started {
        Started::from_command(self.command(args)).0
    }

    /// Waits until a condition holds.
    pub fn until(&self, what: &str, is: impl Fn(&Scratch) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "it never came to it: {what}"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns the number of lines of a file; zero if it does not exist.
    pub fn lines(&self, name: &str) -> usize {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().count()
    }

    /// Returns the ids of the runs, the latest first.
    pub fn runs(&self) -> Vec<String> {
        let listed = self.call(&["status", "--json"]).exits(0).objects();
        let id = |session: &Value| session["run"].as_str().unwrap().to_owned();
        listed.iter().map(id).collect()
    }

    /// Returns the `status` of the only run.
    pub fn status(&self) -> Value {
        let mut listed = self.call(&["status", "--json"]).exits(0).objects();
        assert_eq!(listed.len(), 1, "{listed:?}");
        listed.remove(0)
    }

    pub fn call(&self, args: &[&str]) -> Done {
        done(self.command(args).output().expect("the program starts"))
    }
}

/// A running program.
pub struct Started {
    child: Option<Child>,
    lines: BufReader<ChildStdout>,
    /// The objects that were read so far.
    pub objects: Vec<Value>,
}

impl Started {
    /// Starts a command with `--json`. Also returns its standard input if that is a pipe.
    pub fn from_command(mut command: Command) -> (Started, Option<ChildStdin>) {
        let piped = command
            .arg("--json")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = piped.spawn().expect("the program starts");
        let lines = BufReader::new(child.stdout.take().unwrap());
        let input = child.stdin.take();
        let started = Started {
            child: Some(child),
            lines,
            objects: Vec::new(),
        };
        (started, input)
    }

    /// Reads objects until one matches.
    #[track_caller]
    pub fn until(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "it ended before it came to it: {:#?}", self.objects);
            let object: Value = serde_json::from_str(&line).unwrap();
            self.objects.push(object.clone());
            if is(&object) {
                return object;
            }
        }
    }

    /// Reads objects until a stage starts.
    #[track_caller]
    pub fn until_stage(&mut self, node: &str) -> Value {
        self.until(|object| object["event"] == "StageStarted" && object["node"] == node)
    }

    /// Returns the output for callers that read it directly.
    pub fn reader(&mut self) -> &mut BufReader<ChildStdout> {
        &mut self.lines
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Sends a signal, such as `INT`.
    pub fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for the end of the program. The returned standard output contains everything since the start.
    pub fn end(mut self) -> Done {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.lines, &mut rest).unwrap();
        let reported = self.objects.iter().map(|object| format!("{object}\n"));
        let stdout = reported.collect::<String>() + &rest;
        let child = self.child.take().unwrap();
        let output = child.wait_with_output().unwrap();
        Done {
            code: output.status.code().unwrap_or(-1),
            stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Clean up after a failed test.
            let _ = child.kill();
            let _ = child.wait();
        }
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
    /// Returns the lines of standard output as JSON.
    pub fn objects(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }

    /// Returns the last line of standard error.
    pub fn last_line(&self) -> &str {
        self.stderr.trim_end().lines().next_back().unwrap_or_default()
    }

    /// Returns the result object, which comes last.
    pub fn result(&self) -> Value {
        let result = self.objects().pop().unwrap();
        assert_eq!(result["schema"], "orchestra.result/1", "{result}");
        result
    }

    /// Returns the values of a field in all events with a name.
    pub fn reported(&self, event: &str, field: &str) -> Vec<Value> {
        let objects = self.objects();
        let of = objects.iter().filter(|object| object["event"] == event);
        of.map(|object| object[field].clone()).collect()
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

/// A gate with an edge to the exit and an edge back, after a tool that counts its runs. `attributes` are the attributes
/// of the gate.
pub fn gate(attributes: &str) -> String {
    format!(
        r#"digraph gate {{
    start -> build -> approve
    build   [shape=parallelogram, tool_command="echo built >> built; echo built"]
    approve [shape=hexagon, label="Ship it?"{attributes}]
    approve -> ship [label="[Y] Yes, ship"]
    approve -> mend [label="[N] No"]
    mend    [shape=parallelogram, tool_command="echo mended"]
    mend -> approve
    ship    [shape=parallelogram, tool_command="echo shipped >> shipped"]
    ship -> exit
}}
"#
    )
}

/// A stage that runs once, a stage that waits for the file `go` and counts its starts, and an exit.
pub const SLOW: &str = r#"digraph slow {
    start -> once -> wait -> exit
    once [shape=parallelogram, tool_command="echo once >> once"]
    wait [shape=parallelogram, tool_command="echo $$ >> wait; while ! test -f go; do sleep 0.01; done; echo went"]
}
"#;

/// Returns whether a process exists.
pub fn lives(pid: &str) -> bool {
    let asked = Command::new("kill")
        .args(["-0", pid])
        .stderr(Stdio::null())
        .status();
    asked.unwrap().success()
}

/// Tools in sequence. The last one fails if `broken` is set.
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
