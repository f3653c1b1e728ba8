//! The program while it runs, and what it did.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::Value;

use super::PATIENCE;

/// What the program did.
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command to its end, which must come in time.
#[track_caller]
pub fn finish(command: Command, input: Option<&str>) -> Done {
    finish_within(command, input, PATIENCE)
}

/// Runs a command to its end, which must come within a time.
#[track_caller]
pub fn finish_within(mut command: Command, input: Option<&str>, patience: Duration) -> Done {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
        // A program that reads nothing may be gone already.
        let _ = pipe.write_all(input.as_bytes());
    }
    wait(child, patience)
}

/// Waits for the end of a program; one that does not end in time is killed, and its output is shown.
#[track_caller]
fn wait(child: Child, patience: Duration) -> Done {
    let pid = child.id().to_string();
    let (sender, receiver) = channel();
    let waiting = std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(patience) else {
        let _ = Command::new("kill").args(["-KILL", &pid]).status();
        let output = receiver.recv().map(|output| Done::from_output(output.unwrap()));
        panic!(
            "the program did not end: {}",
            output.map(|done| done.stderr).unwrap_or_default()
        );
    };
    let _ = waiting.join();
    Done::from_output(output.unwrap())
}

impl Done {
    fn from_output(output: Output) -> Done {
        Done {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
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

    /// Asserts that standard error holds texts.
    #[track_caller]
    pub fn tells(self, parts: &[&str]) -> Done {
        for part in parts {
            assert!(self.stderr.contains(part), "{part} in\n{}", self.stderr);
        }
        self
    }

    /// The lines of standard output as JSON.
    #[track_caller]
    pub fn objects(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }

    /// The result object, which comes last.
    #[track_caller]
    pub fn result(&self) -> Value {
        let result = self.objects().pop().unwrap();
        assert_eq!(result["schema"], "orchestra.result/1", "{result}");
        result
    }

    /// The events of a name.
    #[track_caller]
    pub fn events(&self, event: &str) -> Vec<Value> {
        let mut objects = self.objects();
        objects.retain(|object| object["event"] == event);
        objects
    }

    /// The last line of standard error.
    pub fn last_line(&self) -> &str {
        self.stderr.trim_end().lines().next_back().unwrap_or_default()
    }
}

/// The program while it runs, with `--json`.
pub struct Running {
    child: Option<Child>,
    lines: BufReader<ChildStdout>,
    /// Its standard input, where that is a pipe.
    pub input: Option<ChildStdin>,
    /// What it has reported.
    pub objects: Vec<Value>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let piped = command
            .arg("--json")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = piped.spawn().expect("the program starts");
        Running {
            lines: BufReader::new(child.stdout.take().unwrap()),
            input: child.stdin.take(),
            child: Some(child),
            objects: Vec::new(),
        }
    }

    /// Reads on until an object is as it is wanted.
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

    /// Reads on until an event of a name, of a node.
    #[track_caller]
    pub fn until_event(&mut self, event: &str, node: &str) -> Value {
        self.until(|object| object["event"] == event && object["node"] == node)
    }

    /// Kills it as a loss of power would, and waits until it is gone.
    pub fn kill(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits for its end; standard output is all that it has reported.
    #[track_caller]
    pub fn end(mut self) -> Done {
        drop(self.input.take());
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        let reported = self.objects.iter().map(|object| format!("{object}\n"));
        let stdout = reported.collect::<String>() + &rest;
        let done = wait(self.child.take().unwrap(), PATIENCE);
        Done { stdout, ..done }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A test that failed leaves nothing behind.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
