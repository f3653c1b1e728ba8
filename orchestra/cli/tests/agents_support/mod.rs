//! A folder whose models are a server on loopback.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

use std::process::{Command, Stdio};

use orchestra_model_server_tests::{Answer, ModelServer, Wire};
use serde_json::{Value, json};
#[allow(unused_imports, reason = "not every test file needs all")]
pub use support::{Done, Place, SLOW, Started, done, gate};

/// The key of the provider.
pub const KEY: &str = "key-of-the-tests-0123456789";

/// A folder with a configuration, and the server that its models are.
pub struct Project {
    pub place: Place,
    pub server: ModelServer,
}

impl Project {
    /// A project that says `more` besides where its models come from.
    pub fn new(more: &str) -> Project {
        let project = Project {
            place: Place::new(),
            server: ModelServer::start(),
        };
        let base = project.server.base(Wire::Anthropic);
        let yaml = format!(
            "providers:\n  anthropic:\n    api_base: {base:?}\n    models: {{smart: claude-sonnet-4-5}}\n    \
             max_tokens: 200\n    timeout: 60s\n{more}"
        );
        project.place.write("orchestra.yaml", yaml);
        project
    }

    /// The program with the key in its environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(args);
        command.env("ANTHROPIC_API_KEY", KEY);
        // No prompts of whoever runs the tests.
        command.env("HOME", self.place.path("home"));
        command
    }

    pub fn call(&self, args: &[&str]) -> Done {
        done(self.command(args).output().unwrap())
    }

    /// Calls the program with lines of standard input from a pipe.
    pub fn call_with(&self, args: &[&str], input: &str) -> Done {
        let mut command = self.command(args);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pipes.stderr(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // A program that reads nothing may be gone already.
        let _ = std::io::Write::write_all(&mut pipe, input.as_bytes());
        drop(pipe);
        done(child.wait_with_output().unwrap())
    }

    /// The messages of each request, in the order in which they came.
    pub fn asked(&self) -> Vec<Vec<Value>> {
        let requests = self.server.requests();
        let messages = requests
            .iter()
            .map(|request| request.body["messages"].as_array().unwrap().clone());
        messages.collect()
    }
}

/// The text of a message.
pub fn text(message: &Value) -> &str {
    message["content"][0]["text"].as_str().unwrap()
}

/// An answer that ends its stage well.
pub fn reports(notes: &str) -> Answer {
    let report = json!({"status": "success", "notes": notes});
    Answer::call("report_outcome", report.to_string())
}
