//! Follows an agent that works: shows what it does, and records it.

use std::time::Duration;

use orchestra_engine::{StageContext, TextStream};

use crate::coding_agents::event::{AgentEvent, ToolEnding};
use crate::coding_agents::transcript::Transcript;
use crate::tools::error_line;

/// A part of the output.
pub(super) enum OutputPart {
    Event(AgentEvent),
    /// A line for people.
    Line(String),
}

/// Follows the events of an agent.
pub(super) struct Listener<'a> {
    stage: &'a StageContext,
    pub(super) transcript: Transcript,
    text: TextStream,
    /// The time of the latest event.
    latest: Duration,
}

impl Listener<'_> {
    pub(super) fn new(stage: &StageContext) -> Listener<'_> {
        Listener {
            stage,
            transcript: Transcript::default(),
            text: stage.text(),
            latest: stage.elapsed(),
        }
    }

    /// Processes a part of the output. Returns the session if it became known.
    pub(super) fn on(&mut self, part: OutputPart) -> Option<String> {
        let event = match part {
            OutputPart::Event(event) => event,
            OutputPart::Line(line) => {
                self.transcript.complain(line);
                return None;
            }
        };
        match &event {
            AgentEvent::Tool(end) => {
                let error = match &end.result {
                    ToolEnding::Succeeded => None,
                    ToolEnding::Failed(reason) => Some(error_line(reason)),
                    ToolEnding::Denied(reason) => Some(error_line(&format!("denied: {reason}"))),
                };
                self.stage.record_tool_call(
                    &end.tool,
                    None,
                    self.stage.elapsed().saturating_sub(self.latest),
                    error.as_deref(),
                );
            }
            AgentEvent::Text(text) | AgentEvent::Piece(text) => self.text.push(text),
            _ => {}
        }
        self.latest = self.stage.elapsed();
        let before = self.transcript.session.clone();
        self.transcript.apply(event);
        let session = &self.transcript.session;
        session.clone().filter(|_| *session != before)
    }
}
