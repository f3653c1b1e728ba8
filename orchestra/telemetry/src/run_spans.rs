//! The ids of the spans of one run, and the spans without children.

use std::time::Duration;

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::SpanData;
use orchestra_engine::{ModelCall, RunId, StageRef, Timestamp};

use crate::conventions as names;
use crate::ids::span_id;
use crate::span::{Span, moment};

/// A node on an execution path.
pub(crate) type Place = (Option<String>, String);

/// The model calls of an attempt together.
pub(crate) struct Agent {
    pub(crate) started: Timestamp,
    pub(crate) name: Option<String>,
    pub(crate) conversation: Option<String>,
    /// The calls of a program, which are one span.
    pub(crate) program: Option<ModelCall>,
}

/// A tool call that ended.
pub(crate) struct ToolCall {
    pub(crate) seq: u64,
    pub(crate) ended: Timestamp,
    pub(crate) tool: String,
    pub(crate) call_id: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) duration: Duration,
}

/// An open gate.
pub(crate) struct Gate {
    pub(crate) asked: Timestamp,
    pub(crate) question: String,
}

/// The place of a run in its trace. It names the spans.
pub(crate) struct RunSpans {
    pub(crate) run: RunId,
    pub(crate) trace: TraceId,
    /// The number of times that the run ended before and was retried.
    pub(crate) segment: u32,
    /// `true` if spans contain messages, questions and answers.
    pub(crate) contents: bool,
}

impl RunSpans {
    /// Returns the span of the run.
    pub(crate) fn root_span(&self) -> SpanId {
        span_id(&self.run, self.segment, "run", "")
    }

    /// Returns the span of an attempt.
    pub(crate) fn stage_span(&self, key: &str) -> SpanId {
        span_id(&self.run, self.segment, "stage", key)
    }

    /// Returns the span of the model calls of an attempt together.
    pub(crate) fn agent_span(&self, key: &str) -> SpanId {
        span_id(&self.run, self.segment, "agent", key)
    }

    /// Returns the span of an event. Sequence numbers are unique in a run.
    pub(crate) fn event_span(&self, seq: u64) -> SpanId {
        span_id(&self.run, self.segment, "event", &seq.to_string())
    }

    /// Adds what a span shows of a model call.
    pub(crate) fn with_call(&self, span: Span, call: &ModelCall) -> Span {
        let mut span = span
            .text(names::PROVIDER, &*call.provider)
            .text(names::REQUEST_MODEL, &*call.model)
            .text(names::RESPONSE_MODEL, call.response_model.as_deref())
            .one_text(names::FINISH_REASONS, call.stop.as_deref())
            .number(names::INPUT_TOKENS, call.usage.input_tokens)
            .number(names::OUTPUT_TOKENS, call.usage.output_tokens)
            .number(names::CACHED_TOKENS, call.cached_input_tokens)
            .with(names::COST, call.usage.cost_usd());
        if let Some(contents) = call.contents.as_ref().filter(|_| self.contents) {
            span = span
                .text(names::INPUT_MESSAGES, &*contents.input)
                .text(names::OUTPUT_MESSAGES, &*contents.output);
        }
        match &call.error {
            Some(error) => span
                .text(names::ERROR_TYPE, call.error_code.as_deref().unwrap_or("failed"))
                .failed(error),
            None => span,
        }
    }

    /// Returns the span of a tool call.
    pub(crate) fn tool_span(&self, parent: SpanId, call: ToolCall) -> SpanData {
        let end = moment(call.ended);
        let span = Span::new(
            self.trace,
            parent,
            self.event_span(call.seq),
            spaced(names::EXECUTE_TOOL, &call.tool),
            end.checked_sub(call.duration).unwrap_or(end),
            end,
        );
        let span = span
            .with(names::OPERATION, names::EXECUTE_TOOL)
            .text(names::TOOL_NAME, &*call.tool)
            .text(names::TOOL_CALL_ID, call.call_id.as_deref());
        match &call.error {
            Some(error) => span.with(names::ERROR_TYPE, "failed").failed(error).end(),
            None => span.end(),
        }
    }

    /// Returns the span of a gate. Without an answer, its question was withdrawn.
    pub(crate) fn gate_span(
        &self,
        time: Timestamp,
        parent: SpanId,
        (branch, node): &Place,
        gate: &Gate,
        name: &str,
        answer: Option<(&str, &str)>,
    ) -> SpanData {
        let waited = time.as_millis().saturating_sub(gate.asked.as_millis());
        let span = Span::new(
            self.trace,
            parent,
            span_id(&self.run, self.segment, "gate", name),
            spaced("gate", node),
            moment(gate.asked),
            moment(time),
        )
        .text(names::NODE, &**node)
        .text(names::BRANCH, branch.as_deref())
        .number(names::GATE_WAITED, waited)
        .text(names::GATE_ANSWERED_BY, answer.map_or("withdrawn", |(by, _)| by));
        if !self.contents {
            return span.end();
        }
        span.text(names::GATE_QUESTION, &*gate.question)
            .text(names::GATE_ANSWER, answer.map(|(_, answer)| answer))
            .end()
    }

    /// Returns the span of the model calls of an attempt together.
    pub(crate) fn agent_of_stage(
        &self,
        time: Timestamp,
        key: &str,
        stage: &StageRef,
        agent: &Agent,
    ) -> SpanData {
        let name = agent.name.as_deref().unwrap_or(&stage.node);
        let conversation = match &agent.conversation {
            Some(conversation) if agent.program.is_some() => conversation.clone(),
            Some(thread) => format!("{}/{thread}", self.run),
            None => format!("{}/{key}", self.run),
        };
        let span = Span::new(
            self.trace,
            self.stage_span(key),
            self.agent_span(key),
            spaced(names::INVOKE_AGENT, name),
            moment(agent.started),
            moment(time),
        )
        .with(names::OPERATION, names::INVOKE_AGENT)
        .text(names::AGENT_NAME, name)
        .text(names::CONVERSATION, &*conversation);
        match &agent.program {
            Some(call) => self.with_call(span, call).end(),
            None => span.end(),
        }
    }
}

/// Returns the name of a span: an operation, and what it is applied to.
pub(crate) fn spaced(operation: &str, to: &str) -> String {
    match to {
        "" => operation.to_owned(),
        to => format!("{operation} {to}"),
    }
}
