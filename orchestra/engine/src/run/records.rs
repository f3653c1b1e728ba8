//! What a stage records about its model calls and tool calls.

use std::time::Duration;

use orchestra_core::Usage;

use super::stage::StageContext;
use crate::event::{EventKind, ModelCall};

impl StageContext {
    /// Adds to the model usage of this attempt: tokens and their cost. A stage may call this more than once, also
    /// before it fails. The event that ends the attempt contains its usage.
    pub fn record_usage(&self, usage: Usage) {
        if !usage.is_zero() {
            self.run().add_usage(self.id(), usage);
        }
    }

    /// Returns whether the event of a model call should contain its [messages](ModelCall::contents).
    pub fn wants_model_contents(&self) -> bool {
        self.run().settings.model_contents
    }

    /// Emits that a model call of the stage has ended. Its usage is not added to that of the attempt.
    pub fn record_model_call(&self, mut call: ModelCall) {
        if !self.run().sink.wanted() {
            return;
        }
        for text in [&mut call.error, &mut call.conversation].into_iter().flatten() {
            *text = self.run().redacted(text).into_owned();
        }
        if let Some(contents) = &mut call.contents {
            for text in [&mut contents.input, &mut contents.output] {
                *text = self.run().redacted(text).into_owned();
            }
        }
        self.run().emit(EventKind::ModelCallCompleted {
            node: self.run().name(self.id().node),
            branch: self.branch(),
            call: Box::new(call),
        });
    }

    /// Emits that a tool call of the stage has ended, with the error if it failed. `call_id` is the id that the provider
    /// of the model gave the call; `None` if no model made it.
    pub fn record_tool_call(
        &self,
        tool: &str,
        call_id: Option<&str>,
        duration: Duration,
        error: Option<&str>,
    ) {
        self.run().count_tool_call(self.id().node, tool, error.is_some());
        if self.run().sink.wanted() {
            self.run().emit(EventKind::ToolCallCompleted {
                node: self.run().name(self.id().node),
                branch: self.branch(),
                tool: self.run().redacted(tool).into_owned(),
                call_id: call_id.map(|id| self.run().redacted(id).into_owned()),
                error: error.map(|error| self.run().redacted(error).into_owned()),
                duration,
            });
        }
    }
}
