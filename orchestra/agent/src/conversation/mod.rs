//! A conversation between a model, its tools and possibly a person, as a state machine: events go in, the next action
//! comes out. The machine performs no I/O, and the same events always result in the same conversation.

mod event;
mod rules;
mod step;

use orchestra_engine::ChatTurn;
use serde_json::Value;

pub(crate) use self::event::events;
pub use self::event::{ConversationEvent, FailedModel};
pub use self::rules::ConversationRules;
pub use self::step::{ConversationEnd, ConversationStep, EndReason};
use crate::answer_format::AnswerFormat;
use crate::compaction;
use crate::judge::{self, Choice};
use crate::model::{Arguments, Message, ModelReply, StopReason, ToolCall, ToolResult};
use crate::report::{self, Report};

/// Maximum number of consecutive answers that contain only invalid tool calls.
const MAX_MALFORMED: u32 = 3;
/// Maximum number of times that the model is asked to continue an answer that was cut off.
const MAX_CUTS: u32 = 2;
/// Maximum number of times that the model is asked again because its answer does not have the required form.
const MAX_MISFITS: u32 = 1;

/// A conversation between a model, its tools and possibly a person.
///
/// ```
/// use orchestra_agent::{
///     Arguments, Conversation, ConversationEvent, ConversationRules, ConversationStep, Message, ModelReply, StopReason,
///     ToolCall, ToolResult,
/// };
/// let mut conversation = Conversation::new(ConversationRules::default());
/// conversation.on(ConversationEvent::Began { system: String::new(), messages: vec![Message::user("What is in a.txt?")] });
/// let call = ToolCall { id: "1".into(), name: "read_file".into(), arguments: Arguments::parse(r#"{"path":"a.txt"}"#) };
/// let mut reply = ModelReply::text("");
/// reply.tool_calls = vec![call.clone()];
/// reply.stop = StopReason::ToolCalls;
/// conversation.on(ConversationEvent::Replied { reply });
/// assert_eq!(conversation.next(), ConversationStep::CallTools(vec![call]));
/// let result = ToolResult { id: "1".into(), name: "read_file".into(), content: "tea".into(), is_error: false };
/// conversation.on(ConversationEvent::Called { results: vec![result] });
/// assert_eq!((conversation.next(), conversation.turns()), (ConversationStep::AskModel, 1));
/// ```
#[derive(Clone, Debug)]
pub struct Conversation {
    rules: ConversationRules,
    system: String,
    messages: Vec<Message>,
    next: ConversationStep,
    turns: u32,
    malformed: u32,
    cuts: u32,
    misfits: u32,
    reminded: bool,
    /// The id of the report call, and the report. The other calls of the same answer are made before the end.
    reported: Option<(String, Report)>,
    chosen: Option<Choice>,
    last_text: String,
    failed_models: Vec<FailedModel>,
    /// The index of the task in `messages`.
    task: usize,
}

impl Conversation {
    /// Creates a conversation that has not begun.
    pub fn new(rules: ConversationRules) -> Conversation {
        Conversation {
            rules,
            system: String::new(),
            messages: Vec::new(),
            next: ConversationStep::AskModel,
            turns: 0,
            malformed: 0,
            cuts: 0,
            misfits: 0,
            reminded: false,
            reported: None,
            chosen: None,
            last_text: String::new(),
            failed_models: Vec::new(),
            task: 0,
        }
    }

    /// Returns the system prompt.
    pub fn system(&self) -> &str {
        &self.system
    }

    /// Returns the messages so far.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the number of model calls since the conversation began or the person last replied.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Returns `true` if the next model call is the last one allowed.
    pub fn is_last_turn(&self) -> bool {
        self.turns + 1 >= self.rules.max_turns
    }

    /// Returns the next action.
    pub fn next(&self) -> ConversationStep {
        self.next.clone()
    }

    /// Returns the last text of the model.
    pub fn last_text(&self) -> &str {
        &self.last_text
    }

    /// Returns the models that did not answer, and are not asked again.
    pub fn failed_models(&self) -> &[FailedModel] {
        &self.failed_models
    }

    /// Applies an event. An event that does not fit the current state, such as results of calls that were not made, is
    /// ignored.
    pub fn on(&mut self, event: ConversationEvent) {
        match (event, &self.next) {
            (ConversationEvent::Began { system, messages }, ConversationStep::AskModel)
                if self.turns == 0 =>
            {
                self.system = system;
                self.task = messages.len().saturating_sub(1);
                self.messages = messages;
                self.ask();
            }
            (ConversationEvent::Replied { reply }, ConversationStep::AskModel) => self.replied(&reply),
            (ConversationEvent::Called { results }, ConversationStep::CallTools(calls)) => {
                let results = in_order(calls, results);
                self.called(results);
            }
            (ConversationEvent::PersonReplied { text }, ConversationStep::AskPerson) => {
                self.person_replied(&text)
            }
            (ConversationEvent::ModelFailed { failed }, ConversationStep::AskModel) => {
                self.failed_models.push(failed);
            }
            (ConversationEvent::Steered { instructions }, ConversationStep::AskModel) => {
                self.messages.push(Message::user(steering(&instructions)));
                self.ask();
            }
            _ => {}
        }
    }

    fn replied(&mut self, reply: &ModelReply) {
        self.turns += 1;
        // Providers reject an assistant message that contains only reasoning.
        if !reply.text.trim().is_empty() || !reply.tool_calls.is_empty() {
            self.messages.push(reply.message());
        }
        if !reply.text.trim().is_empty() {
            self.last_text.clone_from(&reply.text);
        }
        if reply.stop == StopReason::Refused {
            let calls = reply.tool_calls.iter();
            let results: Vec<ToolResult> = calls
                .map(|call| refusal(call, "The call was not made.".to_owned()))
                .collect();
            if !results.is_empty() {
                self.messages.push(Message::Tools { results });
            }
            return self.end(EndReason::Refused);
        }
        let is_cut = reply.stop == StopReason::MaxTokens;
        if reply.tool_calls.is_empty() {
            return if is_cut {
                self.continue_after_cut()
            } else {
                self.answered(reply)
            };
        }
        // Invalid calls, the report and the choice are answered here; the tools handle the other calls.
        let mut answered = Vec::new();
        let mut problem = None;
        let mut calls = Vec::new();
        for call in &reply.tool_calls {
            match (&call.arguments, self.rules.reports && call.name == report::NAME) {
                (Arguments::Malformed { problem: what, .. }, _) => {
                    let cut = if is_cut {
                        " The answer was cut off because it was too long; call with less."
                    } else {
                        ""
                    };
                    let content = format!(
                        "The arguments are not a JSON object: {what}.{cut} Call again with a JSON object that fits the schema."
                    );
                    problem = Some(what.clone());
                    answered.push(refusal(call, content));
                }
                // The arguments were cut off, so the call must not be made without them.
                (Arguments::Object(fields), _) if is_cut && fields.is_empty() => {
                    problem = Some("the answer was cut off".to_owned());
                    let content = "The answer was cut off before the arguments came. Call again.";
                    answered.push(refusal(call, content.to_owned()));
                }
                (Arguments::Object(fields), true) => match self.report(fields) {
                    Ok(report) => {
                        self.reported = Some((call.id.clone(), report));
                        answered.push(ToolResult {
                            id: call.id.clone(),
                            name: call.name.clone(),
                            content: "Noted.".to_owned(),
                            is_error: false,
                        });
                    }
                    Err(what) => {
                        problem = Some(what.clone());
                        answered.push(refusal(call, format!("{what} Report again.")));
                    }
                },
                (Arguments::Object(fields), false) if self.is_choice(call) => {
                    match Choice::parse(fields, &self.rules.choices) {
                        Ok(choice) => {
                            self.chosen = Some(choice);
                            answered.push(ToolResult {
                                id: call.id.clone(),
                                name: call.name.clone(),
                                content: "Noted.".to_owned(),
                                is_error: false,
                            });
                        }
                        Err(what) => {
                            problem = Some(what.clone());
                            answered.push(refusal(call, format!("{what} Choose again.")));
                        }
                    }
                }
                (Arguments::Object(_), false) => calls.push(call.clone()),
            }
        }
        let followed = !calls.is_empty() || self.reported.is_some() || self.chosen.is_some();
        self.malformed = if followed { 0 } else { self.malformed + 1 };
        if !answered.is_empty() {
            self.messages.push(Message::Tools { results: answered });
        }
        if self.malformed > MAX_MALFORMED {
            let problem = problem.unwrap_or_default();
            return self.end(EndReason::Malformed { problem });
        }
        if calls.is_empty() {
            self.proceed()
        } else {
            self.next = ConversationStep::CallTools(calls)
        }
    }

    fn is_choice(&self, call: &ToolCall) -> bool {
        !self.rules.choices.is_empty() && call.name == judge::NAME
    }

    /// Parses a report. Returns a message for the model if the report is invalid or incomplete.
    fn report(&mut self, fields: &serde_json::Map<String, Value>) -> Result<Report, String> {
        let report = Report::parse(fields, &self.rules.words, &self.rules.successors)?;
        let lacks = |key: &&String| !report.context_updates.contains_key(*key);
        let missing: Vec<&str> = self.rules.keys.iter().filter(lacks).map(String::as_str).collect();
        if report.status.is_success() && !missing.is_empty() {
            return Err(format!(
                "`context_updates` must also hold: {}.",
                missing.join(", ")
            ));
        }
        let kept =
            self.rules
                .contract
                .check_outcome(self.rules.node, report.status.word(), &report.context_updates);
        kept.map_err(|violations| format!("`context_updates` is wrong: {violations}."))?;
        if let Some(format) = &self.rules.answer
            && report.status.is_success()
            && self.misfits < MAX_MISFITS
            && let Err(violations) = format.check_values(&report.context_updates)
        {
            self.misfits += 1;
            return Err(format!(
                "`context_updates` does not fit its schema: {violations}."
            ));
        }
        Ok(report)
    }

    /// Handles an answer without tool calls.
    fn answered(&mut self, reply: &ModelReply) {
        let is_last = self.turns >= self.rules.max_turns;
        let must_report = self.rules.reports && self.rules.reminds && !self.rules.interactive;
        if reply.text.trim().is_empty() && !must_report {
            let reason = match &reply.stop {
                StopReason::Other(reason) => reason.clone(),
                _ => String::new(),
            };
            return self.end(EndReason::Stopped { reason });
        }
        if must_report && is_last {
            let turns = self.turns;
            return self.end(EndReason::TurnsUsedUp { turns });
        }
        if must_report && self.reminded {
            return self.end(EndReason::Unreported);
        }
        if self.rules.interactive {
            self.next = ConversationStep::AskPerson;
        } else if must_report {
            self.reminded = true;
            let keys = match self.rules.keys.join("`, `") {
                none if none.is_empty() => none,
                keys => format!(" Its `context_updates` must hold `{keys}`."),
            };
            self.messages
                .push(Message::user(format!("{}{keys}", report::REMINDER)));
            self.ask();
        } else if !self.corrects() {
            self.end(EndReason::Answered);
        }
    }

    /// Asks the model again if its last text does not have the required form, and returns whether it does so. The engine
    /// rejects what is still wrong at the end of the stage.
    fn corrects(&mut self) -> bool {
        if self.misfits >= MAX_MISFITS || self.turns >= self.rules.max_turns {
            return false;
        }
        let Some(format) = &self.rules.answer else {
            return false;
        };
        let (contract, node) = (&self.rules.contract, self.rules.node);
        let Err(problem) = format.check(&self.last_text, contract, node) else {
            return false;
        };
        self.misfits += 1;
        let message = format.correction(&problem);
        self.messages.push(Message::user(message));
        self.ask();
        true
    }

    fn continue_after_cut(&mut self) {
        self.cuts += 1;
        if self.cuts > MAX_CUTS || self.turns >= self.rules.max_turns {
            return self.end(EndReason::Cut);
        }
        // The rest of a cut object would not be one.
        let is_bound = self.rules.answer.as_ref().is_some_and(AnswerFormat::is_bound);
        self.messages.push(Message::user(if is_bound {
            "Your answer was cut off because it was too long. Give the whole answer again, in fewer words."
        } else {
            "Your answer was cut off because it was too long. Go on from where it ends."
        }));
        self.ask();
    }

    fn called(&mut self, results: Vec<ToolResult>) {
        // Providers require all results of one answer in a single message.
        match self.messages.last_mut() {
            Some(Message::Tools { results: answered }) => answered.extend(results),
            _ => self.messages.push(Message::Tools { results }),
        }
        self.put_in_order();
        self.proceed();
    }

    /// Sorts the results of the last answer in the order of its calls.
    fn put_in_order(&mut self) {
        let [
            ..,
            Message::Assistant { tool_calls, .. },
            Message::Tools { results },
        ] = &mut self.messages[..]
        else {
            return;
        };
        let index = |id: &str| tool_calls.iter().position(|call| call.id == id);
        results.sort_by_key(|result| index(&result.id).unwrap_or(usize::MAX));
    }

    /// Continues after the results of an answer: ends the conversation if the model reported or chose, else calls the
    /// model again.
    fn proceed(&mut self) {
        if let Some((_, report)) = self.reported.take() {
            return self.end(EndReason::Reported(report));
        }
        if let Some(Choice { best, reason }) = self.chosen.take() {
            return self.end(EndReason::Chosen { best, reason });
        }
        if self.turns >= self.rules.max_turns {
            let turns = self.turns;
            return self.end(EndReason::TurnsUsedUp { turns });
        }
        self.ask();
    }

    fn person_replied(&mut self, text: &str) {
        // Unknown commands were already rejected before this event.
        match ChatTurn::parse(text).unwrap_or(ChatTurn::Say(text)) {
            // The person sees the corrected answer before the conversation ends.
            ChatTurn::Done | ChatTurn::Approve if self.corrects() => {}
            ChatTurn::Done => self.end(EndReason::Done),
            ChatTurn::Approve => self.end(EndReason::Approved),
            ChatTurn::Reject(reason) => self.end(EndReason::Rejected {
                reason: reason.to_owned(),
            }),
            ChatTurn::Say(text) => {
                self.messages.push(Message::user(text));
                // A person who keeps replying is not an endless loop, so reset the limits.
                self.turns = 0;
                self.malformed = 0;
                self.cuts = 0;
                self.ask();
            }
        }
    }

    fn ask(&mut self) {
        if let Some(limit) = self.rules.compact_at {
            compaction::compact(&self.system, &mut self.messages, &mut self.task, limit);
        }
        self.next = ConversationStep::AskModel;
    }

    fn end(&mut self, reason: EndReason) {
        self.next = ConversationStep::End(ConversationEnd {
            text: self.last_text.clone(),
            reason,
        });
    }
}

/// Returns the message with which a model receives the instructions of a manager.
pub(crate) fn steering(instructions: &[String]) -> String {
    format!(
        "The manager that supervises this work gives you this instruction; follow it from here on:\n\n{}",
        instructions.join("\n\n")
    )
}

fn refusal(call: &ToolCall, content: String) -> ToolResult {
    ToolResult {
        id: call.id.clone(),
        name: call.name.clone(),
        content,
        is_error: true,
    }
}

/// Returns exactly one result for each call, in the order of the calls. A call without a result gets an error result.
fn in_order(calls: &[ToolCall], mut results: Vec<ToolResult>) -> Vec<ToolResult> {
    calls
        .iter()
        .map(
            |call| match results.iter().position(|result| result.id == call.id) {
                Some(index) => results.swap_remove(index),
                None => refusal(call, "The call has no result.".to_owned()),
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn call() -> impl Strategy<Value = (&'static str, Arguments)> {
        prop_oneof![
            Just(("read_file", Arguments::parse(r#"{"path": "a"}"#))),
            Just(("read_file", Arguments::parse("{\"path\": "))),
            Just((
                report::NAME,
                Arguments::parse(r#"{"status": "success", "notes": "done"}"#)
            )),
            Just((report::NAME, Arguments::parse(r#"{"state": "success"}"#))),
        ]
    }

    fn reply() -> impl Strategy<Value = ModelReply> {
        let stop = prop_oneof![
            8 => Just(StopReason::ToolCalls),
            4 => Just(StopReason::End),
            2 => Just(StopReason::MaxTokens),
            1 => Just(StopReason::Refused),
        ];
        (proptest::collection::vec(call(), 0..4), stop, "[a-z]{0,8}").prop_map(|(calls, stop, text)| {
            let mut reply = ModelReply::text(text);
            let numbered = calls.into_iter().enumerate();
            reply.tool_calls = numbered
                .map(|(at, (name, arguments))| ToolCall {
                    id: format!("call_{at}"),
                    name: name.to_owned(),
                    arguments,
                })
                .collect();
            reply.stop = stop;
            reply
        })
    }

    /// Checks the invariants that providers require: each call has exactly one result, in order, before any other
    /// message.
    fn is_sound(messages: &[Message]) -> bool {
        let mut messages = messages.iter().peekable();
        while let Some(message) = messages.next() {
            match message {
                Message::Assistant { tool_calls, .. } if !tool_calls.is_empty() => {
                    let Some(Message::Tools { results }) = messages.next() else {
                        return false;
                    };
                    let called = tool_calls.iter().map(|call| &call.id);
                    if !called.eq(results.iter().map(|result| &result.id)) {
                        return false;
                    }
                }
                Message::Tools { .. } => return false,
                _ => {}
            }
        }
        true
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn whatever_a_model_says_the_conversation_is_sound_and_ends(
            replies in proptest::collection::vec(reply(), 60),
            interactive in any::<bool>(),
            reports in any::<bool>(),
            lost in any::<bool>(),
            steered in proptest::collection::vec(any::<bool>(), 60),
            compact_at in prop_oneof![Just(None), Just(Some(60)), Just(Some(400))],
        ) {
            let rules = ConversationRules {
                max_turns: 12,
                interactive,
                reports,
                reminds: reports,
                compact_at,
                ..ConversationRules::default()
            };
            let mut conversation = Conversation::new(rules.clone());
            let began = ConversationEvent::Began { system: "s".into(), messages: vec![Message::user("task")] };
            let mut log = vec![began.clone()];
            conversation.on(began);
            let mut replies = replies.into_iter();
            let mut steered = steered.into_iter();
            let mut answers = 0;
            loop {
                let event = match conversation.next() {
                    ConversationStep::AskModel if steered.next().unwrap_or_default() => {
                        ConversationEvent::Steered { instructions: vec!["Look left.".into()] }
                    }
                    ConversationStep::AskModel => {
                        prop_assert!(is_sound(conversation.messages()), "{:#?}", conversation.messages());
                        let keeps_task = conversation.messages().iter().any(|message| match message {
                            Message::User { text } => text.starts_with("task"),
                            _ => false,
                        });
                        prop_assert!(keeps_task, "the task is gone");
                        let Some(reply) = replies.next() else { break };
                        ConversationEvent::Replied { reply }
                    }
                    ConversationStep::CallTools(calls) => {
                        let results = calls.iter().rev().skip(usize::from(lost)).map(|call| ToolResult {
                            id: call.id.clone(),
                            name: call.name.clone(),
                            content: "fn main() {}\n".repeat(20),
                            is_error: false,
                        });
                        ConversationEvent::Called { results: results.collect() }
                    }
                    ConversationStep::AskPerson => {
                        answers += 1;
                        let text = if answers < 3 { "go on".into() } else { "/done".into() };
                        ConversationEvent::PersonReplied { text }
                    }
                    ConversationStep::End(_) => break,
                };
                log.push(event.clone());
                conversation.on(event);
            }
            let ended = matches!(conversation.next(), ConversationStep::End(_));
            prop_assert!(ended, "it never ends");
            prop_assert!(is_sound(conversation.messages()), "{:#?}", conversation.messages());
            // Replaying the persisted events results in the same conversation.
            let notes: Vec<Value> = log.iter().map(|event| json!(event)).collect();
            let mut again = Conversation::new(rules);
            events(&notes).unwrap().into_iter().for_each(|event| again.on(event));
            prop_assert_eq!(again.next(), conversation.next());
            prop_assert_eq!(again.messages(), conversation.messages());
        }
    }
}
