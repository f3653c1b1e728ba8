//! Coding agents that run as programs: what they are started with, the events that they write, and their sessions.
//!
//! The exit code of a coding agent proves nothing: all of them exit with 0 after an edit that was denied, and some after
//! rejected credentials. A stage succeeds only if the agent wrote the event that ends its work, with an answer, and no
//! denied tool call left work undone.

mod acp;
mod claude;
mod codex;
mod event;
mod gemini;
mod invocation;
mod json_lines;
mod listener;
mod opencode;
mod pi;
mod presets;
mod program;
mod runner;
mod sessions;
#[cfg(test)]
mod tests;
mod transcript;

pub(crate) use program::AgentProgram;
pub(crate) use runner::run_coding_agent;
