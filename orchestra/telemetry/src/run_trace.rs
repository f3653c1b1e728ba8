//! The spans of one run, as a fold of its events.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::SpanData;
use orchestra_engine::{
    AttemptEnd, AttemptResult, EventKind, ModelCall, ReplayedFrom, RunEvent, RunId, RunSummary, StageRef,
    Timestamp,
};

use crate::conventions as names;
use crate::ids::{span_id, trace_id, traceparent};
use crate::run_spans::{Agent, Gate, Place, RunSpans, ToolCall, spaced};
use crate::span::{Span, moment};

/// Maximum number of tool calls of an attempt whose parent is not known yet.
const MAX_PENDING_TOOLS: usize = 1_000;
/// Maximum number of cancelled attempts whose spans wait for the end of the run.
const MAX_CANCELLED: usize = 256;

/// The spans of a run. Each event ends some of them.
pub(crate) struct RunTrace {
    spans: RunSpans,
    name: String,
    /// The span of the stage whose child run this is; no id for an outermost run.
    parent: SpanId,
    summary: RunSummary,
    /// The start of the segment.
    started: Option<Timestamp>,
    has_ended: bool,
    restart: u32,
    /// The checkpoint of another run from which this one started, if it is known.
    origin: Option<ReplayedFrom>,
    /// `true` while the events are those of the other run, whose spans that run has exported.
    copied: bool,
    /// The attempts in progress by their keys.
    attempts: BTreeMap<String, Attempt>,
    /// The open gates by branch and node.
    gates: BTreeMap<Place, Gate>,
}

/// An attempt in progress.
struct Attempt {
    stage: StageRef,
    /// The span of the fan-out or of the run to which it belongs.
    parent: SpanId,
    started: Timestamp,
    /// The times at which processes stopped that executed it.
    interrupted: Vec<Timestamp>,
    /// The time at which it was cancelled. If that was because the run paused, the attempt goes on later.
    cancelled: Option<Timestamp>,
    /// The model calls of the attempt together; `None` before the first one.
    agent: Option<Agent>,
    /// The tool calls before the first model call. The calls of a program are reported when it has ended.
    tools: Vec<ToolCall>,
}

/// The place of a run among other runs.
#[derive(Clone, Copy)]
pub(crate) struct ParentSpan {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
}

impl RunTrace {
    /// Creates the trace of a run of which no event was applied.
    pub(crate) fn new(run: RunId, parent: Option<ParentSpan>, contents: bool) -> RunTrace {
        RunTrace {
            spans: RunSpans {
                trace: parent.map_or_else(|| trace_id(&run), |parent| parent.trace),
                run,
                segment: 0,
                contents,
            },
            parent: parent.map_or(SpanId::INVALID, |parent| parent.span),
            name: String::new(),
            summary: RunSummary::default(),
            started: None,
            has_ended: false,
            restart: 0,
            origin: None,
            copied: false,
            attempts: BTreeMap::new(),
            gates: BTreeMap::new(),
        }
    }

    /// Sets the name of the pipeline, which the events of a replay do not contain.
    pub(crate) fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Returns the name of the pipeline.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sets the checkpoint of another run from which this one started. The events up to that checkpoint are copies.
    pub(crate) fn set_origin(&mut self, origin: ReplayedFrom) {
        self.origin = Some(origin);
        self.copied = true;
    }

    /// Returns `true` if the next event is a copy of one of the run that this one replays, unless it begins the replay.
    pub(crate) fn is_copied(&self) -> bool {
        self.copied
    }

    /// Returns the number of questions that wait for an answer.
    pub(crate) fn waiting(&self) -> usize {
        if self.copied {
            return 0;
        }
        let is_open = |(branch, node): &&Place| {
            let key = self.attempt_at(node, branch.as_deref());
            let attempt = key.and_then(|key| self.attempts.get(key));
            attempt.is_none_or(|attempt| attempt.cancelled.is_none())
        };
        self.gates.keys().filter(is_open).count()
    }

    /// Returns the value of `TRACEPARENT` for the commands of an attempt.
    pub(crate) fn traceparent(&self, attempt_key: &str) -> String {
        traceparent(self.spans.trace, self.spans.stage_span(attempt_key))
    }

    /// Returns the span of the stage whose child run has this id.
    pub(crate) fn parent_of(&self, child: &RunId) -> Option<ParentSpan> {
        let mut keys = self.attempts.keys();
        let key = keys.find(|key| RunId::of_child(&self.spans.run, key) == *child)?;
        Some(ParentSpan {
            trace: self.spans.trace,
            span: self.spans.stage_span(key),
        })
    }

    /// Returns the key of an attempt, as [`StageContext::attempt_key`](orchestra_engine::StageContext::attempt_key).
    fn key(&self, attempt: &impl Display) -> String {
        match self.restart {
            0 => attempt.to_string(),
            restart => format!("restart-{restart}/{attempt}"),
        }
    }

    /// Returns the span to which a stage belongs: that of the fan-out if it is in a branch, else that of the run.
    fn parent_of_stage(&self, stage: &StageRef) -> SpanId {
        let fan_out = stage.branch.as_deref().and_then(fan_out_of);
        let key = fan_out.map(|fan_out| self.key(&fan_out));
        match key.filter(|key| self.attempts.contains_key(key)) {
            Some(key) => self.spans.stage_span(&key),
            None => self.spans.root_span(),
        }
    }

    /// Returns the attempt in progress at a node.
    fn attempt_at(&self, node: &str, branch: Option<&str>) -> Option<&String> {
        let at =
            |attempt: &Attempt| &*attempt.stage.node == node && attempt.stage.branch.as_deref() == branch;
        let found = self.attempts.iter().filter(|(_, attempt)| at(attempt));
        let latest = found.max_by_key(|(_, attempt)| (attempt.cancelled.is_none(), attempt.stage.index));
        latest.map(|(key, _)| key)
    }

    /// Applies an event. Adds the spans that it ends to `ended`, unless it is a copy. Returns `false` if it was applied
    /// before.
    pub(crate) fn apply(&mut self, event: &RunEvent, ended: &mut Vec<SpanData>) -> bool {
        let stopped = self.summary.updated;
        if !self.summary.apply(event) {
            return false;
        }
        let (is_copied, before) = (self.copied, ended.len());
        let time = event.time;
        match &event.kind {
            EventKind::PipelineStarted { name, .. } => {
                self.name.clone_from(name);
                self.started = Some(time);
            }
            // A replay that is resumed names the other run again.
            EventKind::PipelineResumed {
                replayed_from: Some(_),
                ..
            } if self.copied || self.origin.is_none() => self.begin_replay(time),
            EventKind::PipelineResumed { .. } => self.resume(time, stopped),
            EventKind::StageStarted {
                stage,
                repeat,
                replay,
            } => self.start_stage(time, stage, *repeat || *replay),
            EventKind::ModelCallCompleted { node, branch, call } => {
                self.call_model(event, (node, branch.as_deref()), call, ended);
            }
            EventKind::ToolCallCompleted {
                node,
                branch,
                tool,
                call_id,
                error,
                duration,
            } => {
                let call = ToolCall {
                    seq: event.seq,
                    ended: time,
                    tool: tool.clone(),
                    call_id: call_id.clone(),
                    error: error.clone(),
                    duration: *duration,
                };
                self.call_tool((node, branch.as_deref()), call, ended);
            }
            EventKind::InterviewStarted {
                node,
                branch,
                question,
            } => {
                let place = (branch.clone(), node.to_string());
                // A run that is resumed asks an open question again.
                self.gates.entry(place).or_insert_with(|| Gate {
                    asked: time,
                    question: question.text.clone(),
                });
            }
            EventKind::InterviewCompleted {
                node,
                branch,
                answer,
                answered_by,
                ..
            } => {
                self.end_gate(
                    event,
                    (node, branch.as_deref()),
                    (answered_by.word(), answer),
                    ended,
                );
            }
            EventKind::InterviewTimeout {
                node,
                branch,
                default,
                ..
            } => {
                let default = default.as_deref().unwrap_or_default();
                self.end_gate(event, (node, branch.as_deref()), ("timeout", default), ended);
            }
            EventKind::PipelineRestarted { restart, .. } => {
                self.interrupt_all(time, ended);
                self.restart = *restart;
            }
            EventKind::PipelineCompleted { .. } => self.end(time, None, ended),
            EventKind::PipelineFailed { error, .. } => self.end(time, Some(error), ended),
            EventKind::PipelineCancelled { reason, .. } => self.end(time, Some(reason), ended),
            kind => {
                if let Some(end) = kind.attempt_end() {
                    self.end_stage(time, &end, ended);
                }
            }
        }
        if is_copied {
            ended.truncate(before);
        }
        true
    }

    /// Begins the trace of a replay. What was in progress at the checkpoint begins here.
    fn begin_replay(&mut self, time: Timestamp) {
        self.copied = false;
        self.started = Some(time);
        self.gates.clear();
        self.attempts.retain(|_, attempt| attempt.cancelled.is_none());
        for attempt in self.attempts.values_mut() {
            attempt.started = time;
            attempt.interrupted.clear();
            attempt.agent = None;
            attempt.tools.clear();
        }
    }

    fn resume(&mut self, time: Timestamp, stopped: Option<Timestamp>) {
        if std::mem::take(&mut self.has_ended) {
            self.spans.segment += 1;
            self.started = Some(time);
            self.attempts.clear();
            self.gates.clear();
        }
        self.started.get_or_insert(time);
        let running = self
            .attempts
            .values_mut()
            .filter(|attempt| attempt.cancelled.is_none());
        for attempt in running {
            attempt.interrupted.push(stopped.unwrap_or(time));
        }
    }

    /// Starts an attempt. `again` is `true` if it may have started before.
    fn start_stage(&mut self, time: Timestamp, stage: &StageRef, again: bool) {
        let key = self.key(stage);
        if again && let Some(attempt) = self.attempts.get_mut(&key) {
            attempt.interrupted.extend(attempt.cancelled.take());
            return;
        }
        self.gates.remove(&(stage.branch.clone(), stage.node.to_string()));
        let parent = self.parent_of_stage(stage);
        self.attempts.insert(
            key,
            Attempt {
                stage: stage.clone(),
                parent,
                started: time,
                interrupted: Vec::new(),
                cancelled: None,
                agent: None,
                tools: Vec::new(),
            },
        );
    }

    fn call_model(
        &mut self,
        event: &RunEvent,
        (node, branch): (&str, Option<&str>),
        call: &ModelCall,
        ended: &mut Vec<SpanData>,
    ) {
        let key = self.attempt_at(node, branch).cloned();
        let Some(attempt) = key.as_ref().and_then(|key| self.attempts.get_mut(key)) else {
            return;
        };
        let began = millis_before(event.time, call.duration).max(attempt.started);
        let agent = attempt.agent.get_or_insert_with(|| Agent {
            started: began,
            name: call.agent.clone(),
            conversation: call.conversation.clone(),
            program: None,
        });
        let earliest = moment(agent.started);
        if call.program {
            agent.conversation = call.conversation.clone().or(agent.conversation.take());
            agent.program = Some(call.clone());
        }
        let tools = std::mem::take(&mut attempt.tools);
        let key = key.unwrap_or_default();
        for tool in tools {
            ended.push(self.spans.tool_span(self.spans.agent_span(&key), tool));
        }
        if call.program {
            return;
        }
        let span = Span::new(
            self.spans.trace,
            self.spans.agent_span(&key),
            self.spans.event_span(event.seq),
            spaced(names::CHAT, call.model_name()),
            // Durations are more exact than times, so the difference may lie before the start of the agent.
            moment(event.time)
                .checked_sub(call.duration)
                .map_or(earliest, |start| start.max(earliest)),
            moment(event.time),
        );
        let span = span.client().with(names::OPERATION, names::CHAT);
        ended.push(self.spans.with_call(span, call).end());
    }

    fn call_tool(&mut self, (node, branch): (&str, Option<&str>), call: ToolCall, ended: &mut Vec<SpanData>) {
        let Some(key) = self.attempt_at(node, branch).cloned() else {
            return;
        };
        let Some(attempt) = self.attempts.get_mut(&key) else {
            return;
        };
        // Like that of a call of a model, its start does not lie before that of the stage.
        let since = call.ended.as_millis().saturating_sub(attempt.started.as_millis());
        let call = ToolCall {
            duration: call.duration.min(Duration::from_millis(since)),
            ..call
        };
        if attempt.agent.is_none() && attempt.tools.len() < MAX_PENDING_TOOLS {
            attempt.tools.push(call);
            return;
        }
        let parent = match attempt.agent {
            Some(_) => self.spans.agent_span(&key),
            None => self.spans.stage_span(&key),
        };
        ended.push(self.spans.tool_span(parent, call));
    }

    /// Ends the span of a gate.
    fn end_gate(
        &mut self,
        event: &RunEvent,
        (node, branch): (&str, Option<&str>),
        answer: (&str, &str),
        ended: &mut Vec<SpanData>,
    ) {
        let place = (branch.map(str::to_owned), node.to_owned());
        let Some(gate) = self.gates.remove(&place) else {
            return;
        };
        let parent = self
            .attempt_at(node, branch)
            .map(|key| self.spans.stage_span(key));
        let parent = parent.unwrap_or_else(|| self.spans.root_span());
        let name = event.seq.to_string();
        ended.push(
            self.spans
                .gate_span(event.time, parent, &place, &gate, &name, Some(answer)),
        );
    }

    fn end_stage(&mut self, time: Timestamp, end: &AttemptEnd<'_>, ended: &mut Vec<SpanData>) {
        let key = self.key(end.stage);
        if end.result == AttemptResult::Cancelled {
            return self.cancel_stage(time, key, ended);
        }
        let attempt = self.attempts.remove(&key).unwrap_or_else(|| Attempt {
            stage: end.stage.clone(),
            parent: self.parent_of_stage(end.stage),
            started: millis_before(time, end.duration),
            interrupted: Vec::new(),
            cancelled: None,
            agent: None,
            tools: Vec::new(),
        });
        let outcome = end.outcome.unwrap_or(end.result.word());
        let failure = match end.result {
            AttemptResult::Failed => Some(end.error.unwrap_or_default()),
            _ => None,
        };
        self.push_stage(
            time,
            &key,
            attempt,
            |span| {
                let span = span.text(names::OUTCOME, outcome);
                let span = if end.usage.is_zero() {
                    span
                } else {
                    span.number(names::INPUT_TOKENS, end.usage.input_tokens)
                        .number(names::OUTPUT_TOKENS, end.usage.output_tokens)
                        .with(names::COST, end.usage.cost_usd())
                };
                match failure {
                    Some(reason) => span.with(names::ERROR_TYPE, "stage_failed").failed(reason),
                    None => span,
                }
            },
            ended,
        );
    }

    /// Marks an attempt as cancelled. Its span ends with the run, because it is the same span if the run only pauses.
    fn cancel_stage(&mut self, time: Timestamp, key: String, ended: &mut Vec<SpanData>) {
        if let Some(attempt) = self.attempts.get_mut(&key) {
            attempt.cancelled = Some(time);
        }
        let cancelled = self
            .attempts
            .iter()
            .filter_map(|(key, attempt)| Some((attempt.cancelled?, key)));
        let mut cancelled: Vec<(Timestamp, &String)> = cancelled.collect();
        if cancelled.len() > MAX_CANCELLED {
            cancelled.sort_unstable();
            if let Some(oldest) = cancelled.first().map(|(_, key)| String::clone(key)) {
                self.give_up(time, &oldest, ended);
            }
        }
    }

    /// Ends the span of an attempt that was cancelled or interrupted, and of its question.
    fn give_up(&mut self, time: Timestamp, key: &str, ended: &mut Vec<SpanData>) {
        let Some(attempt) = self.attempts.remove(key) else {
            return;
        };
        let stage = &attempt.stage;
        let time = attempt.cancelled.unwrap_or(time);
        let place = (stage.branch.clone(), stage.node.to_string());
        if let Some(gate) = self.gates.remove(&place) {
            ended.push(
                self.spans
                    .gate_span(time, self.spans.stage_span(key), &place, &gate, key, None),
            );
        }
        let is_cancelled = attempt.cancelled.is_some();
        let finish = |span: Span| {
            if is_cancelled {
                span.text(names::OUTCOME, AttemptResult::Cancelled.word())
            } else {
                span.text(names::OUTCOME, names::INTERRUPTED)
                    .failed(names::INTERRUPTED)
            }
        };
        self.push_stage(time, key, attempt, finish, ended);
    }

    /// Adds the spans of an attempt that is over: the pending tool calls, the model calls together, and the stage.
    fn push_stage(
        &self,
        time: Timestamp,
        key: &str,
        attempt: Attempt,
        finish: impl FnOnce(Span) -> Span,
        ended: &mut Vec<SpanData>,
    ) {
        let id = self.spans.stage_span(key);
        for tool in attempt.tools {
            ended.push(self.spans.tool_span(id, tool));
        }
        if let Some(agent) = &attempt.agent {
            ended.push(self.spans.agent_of_stage(time, key, &attempt.stage, agent));
        }
        let stage = &attempt.stage;
        let mut span = Span::new(
            self.spans.trace,
            attempt.parent,
            id,
            spaced("stage", &stage.node),
            moment(attempt.started),
            moment(time),
        )
        .text(names::NODE, &*stage.node)
        .text(names::BRANCH, stage.branch.as_deref())
        .number(names::VISIT, stage.visit.into())
        .number(names::ATTEMPT, stage.attempt.into());
        for stopped in attempt.interrupted {
            span = span.event(names::INTERRUPTED, stopped);
        }
        ended.push(finish(span).end());
    }

    /// Ends all attempts that are cancelled or in progress, and the questions that they asked.
    fn interrupt_all(&mut self, time: Timestamp, ended: &mut Vec<SpanData>) {
        while let Some(key) = self.attempts.keys().next_back().cloned() {
            self.give_up(time, &key, ended);
        }
        self.gates.clear();
    }

    fn end(&mut self, time: Timestamp, failure: Option<&str>, ended: &mut Vec<SpanData>) {
        self.interrupt_all(time, ended);
        self.has_ended = true;
        let began = self.started.unwrap_or(time);
        // The first segment is the parent of those of its retries.
        let parent = match self.spans.segment {
            0 => self.parent,
            _ => span_id(&self.spans.run, 0, "run", ""),
        };
        let mut span = Span::new(
            self.spans.trace,
            parent,
            self.spans.root_span(),
            spaced(names::INVOKE_WORKFLOW, &self.name),
            moment(began),
            moment(time),
        )
        .with(names::OPERATION, names::INVOKE_WORKFLOW)
        .text(names::AGENT_NAME, &*self.name)
        .text(names::RUN_ID, &*self.spans.run)
        .text(names::RUN_STATUS, self.summary.phase.word());
        if let Some(ReplayedFrom { run, checkpoint }) = &self.origin {
            span = span
                .with(names::REPLAYED_FROM, format!("{run} at {checkpoint}"))
                .link(trace_id(run), span_id(run, 0, "run", ""));
        }
        let span = match failure {
            Some(reason) => span
                .text(
                    names::ERROR_TYPE,
                    self.summary.code.as_deref().unwrap_or(self.summary.phase.word()),
                )
                .failed(reason),
            None => span,
        };
        ended.push(span.end());
    }
}

/// Returns the name of the attempt of a fan-out to which a branch belongs. The branches `a#1:left/fan#2:b` and
/// `a#1:left/fan#2.3:b` belong to the first and third attempt of `a#1:left/fan#2`.
fn fan_out_of(branch: &str) -> Option<String> {
    let (fan_out, _) = branch.rsplit_once(':')?;
    let (visit, attempt) = match fan_out.rsplit_once('.') {
        // The steps before may have attempts too.
        Some((visit, attempt)) if !attempt.contains('/') => (visit, attempt),
        _ => (fan_out, "1"),
    };
    Some(format!("{visit}/{attempt}"))
}

/// Returns the time this long before another one.
fn millis_before(time: Timestamp, duration: Duration) -> Timestamp {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(time.as_millis().saturating_sub(millis))
}
