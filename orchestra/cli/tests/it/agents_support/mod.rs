//! A project whose model provider is a server on the loopback interface.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use crate::support;

use std::process::{Command, Stdio};

use orchestra_model_server_tests::{Answer, ModelServer, Wire};
use serde_json::{Value, json};
#[allow(unused_imports, reason = "not every test file needs all")]
pub use support::{Done, SLOW, Scratch, Started, done, gate};

/// The API key of the provider.
pub const KEY: &str = "key-of-the-tests-0123456789";

/// A folder with a configuration, and its model server.
pub struct Project {
    pub scratch: Scratch,
    pub server: ModelServer,
}

impl Project {
    /// Creates a project with `more` in its configuration.
    pub fn new(more: &str) -> Project {
        let project = Project {
            scratch: Scratch::new(),
            server: ModelServer::start(),
        };
        let base = project.server.base(Wire::Anthropic);
        let yaml = format!(
            "providers:\n  anthropic:\n    api_base: {base:?}\n    models: {{smart: claude-sonnet-4-5}}\n    \
             max_tokens: 200\n    timeout: 60s\n{more}"
        );
        project.scratch.write("orchestra.yaml", yaml);
        project
    }

    /// Returns a command of the program with the API key in its environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.scratch.command(args);
        command.env("ANTHROPIC_API_KEY", KEY);
        // Do not use prompts of the user who runs the tests.
        command.env("HOME", self.scratch.path("home"));
        command
    }

    pub fn call(&self, args: &[&str]) -> Done {
        done(self.command(args).output().unwrap())
    }

    /// Runs the program with piped standard input.
    pub fn call_with(&self, args: &[&str], input: &str) -> Done {
        let mut command = self.command(args);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pipes.stderr(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // The program may have ended without reading its input.
        let _ = std::io::Write::write_all(&mut pipe, input.as_bytes());
        drop(pipe);
        done(child.wait_with_output().unwrap())
    }

    /// Returns the messages of each request, in order of arrival.
    pub fn asked(&self) -> Vec<Vec<Value>> {
        let requests = self.server.requests();
        let messages = requests
            .iter()
            .map(|request| request.body["messages"].as_array().unwrap().clone());
        messages.collect()
    }
}

/// Returns the text of a message.
pub fn text(message: &Value) -> &str {
    message["content"][0]["text"].as_str().unwrap()
}

/// Returns an answer that reports the success of its stage.
pub fn reports(notes: &str) -> Answer {
    let report = json!({"status": "success", "notes": notes});
    Answer::call("report_outcome", report.to_string())
}
