//! Runs the conversation of one stage: calls the model, runs the tools, asks the person, and persists each event, so
//! that an interrupted run resumes in the middle of the conversation.

use orchestra_config::{BackendKind, Chosen, Mode, ResolvedStage};
use orchestra_engine::{
    Answer, BackendError, ChatVerdict, CodergenBackend as _, CodergenReply, Fidelity, Outcome, Question,
    QuestionKind, Reply, StageContext, StageFile, StageHistory, StoreError,
};
use orchestra_graph::{Contract, kind};

use crate::agents::Agents;
use crate::answer_format::AnswerFormat;
use crate::cli_backend::{CliBackend, CliCall};
use crate::conversation::{
    Conversation, ConversationEnd, ConversationEvent, ConversationRules, ConversationStep, EndReason, events,
    steering,
};
use crate::fidelity::{Past, preamble, since};
use crate::files::files;
use crate::judge::{self, Choice};
use crate::model::{Message, ModelRequest};
use crate::model_calls::{Called, ModelCalls, all_failed, is_of_model};
use crate::report::Reportable;
use crate::threads::{EarlierConversation, ThreadConversation, with_user_message, without_tool_calls};
use crate::tools::ToolRunner;
use crate::values::values;
use crate::{ToolContext, ToolHooks, ToolLease};

/// The number of tokens above which a conversation is compacted.
const COMPACT_AT: u64 = 100_000;

/// The text that is appended to the system prompt of every model which reports its outcome.
const AUTONOMOUS: &str = "You do one stage of an automated pipeline. Nobody reads what you write while you work, and nobody \
answers questions: use the tools until the task is done, check what you did, and then report the outcome by calling \
`report_outcome`. Report `fail` with the reason where the task cannot be done; never claim what you have not seen.";

/// The conversation of one attempt of a stage.
pub(crate) struct ConversationDriver<'a> {
    pub(crate) agents: &'a Agents,
    pub(crate) stage: StageContext,
    pub(crate) resolved: &'a ResolvedStage,
    /// The prompt as the engine provides it, including the request for output keys.
    pub(crate) prompt: String,
}

impl ConversationDriver<'_> {
    /// Runs the stage until its conversation ends.
    pub(crate) async fn run(self) -> Result<CodergenReply, BackendError> {
        let stage = self.stage.clone();
        let interactive = self.resolved.mode.value == Mode::Interactive;
        let with_tools = self.resolved.backend_kind == BackendKind::Agent;
        let reportable = Reportable::from_stage(stage.node());
        // A fan-in needs its choice as text, and in an interactive stage the person ends the conversation.
        let reports = with_tools && !interactive && stage.node().kind() != kind::FAN_IN;
        let tools = self.tools(with_tools)?;
        let _leases = self.prepare(&tools).await?;
        let choices = judge::choices(&stage);
        let answer = AnswerFormat::from_stage(stage.node());
        let is_bound = answer.as_ref().is_some_and(AnswerFormat::is_bound);
        // A person talks with the model in other words than the final answer.
        let answer_schema = answer.as_ref().filter(|_| is_bound && !reports && !interactive);
        let answer_schema = answer_schema.map(|format| format.document().clone());
        let conversation = Conversation::new(ConversationRules {
            max_turns: self.max_turns(with_tools, interactive || !choices.is_empty() || answer.is_some()),
            interactive,
            reports,
            reminds: reports && reportable.matters(stage.node()),
            words: reportable.words().to_vec(),
            successors: reportable.successors().to_vec(),
            keys: reportable.keys().to_vec(),
            contract: Contract::from_pipeline(stage.pipeline()),
            node: stage.node().index(),
            answer,
            choices: choices.clone(),
            compact_at: Some(COMPACT_AT),
        });
        let recorded = events(stage.notes()).map_err(|error| {
            BackendError::terminal("the notes of the interrupted stage cannot be read").caused_by(error)
        })?;
        let history = stage.history().await;
        let mut thread = ThreadConversation::new(conversation, &stage);
        if recorded.is_empty() {
            let began = self.begin(&history, &mut thread, reports).await?;
            self.note(&mut thread.conversation, began, false).await?;
        } else {
            recorded
                .into_iter()
                .for_each(|event| thread.conversation.on(event))
        }
        let conversation = &mut thread.conversation;
        loop {
            match conversation.next() {
                ConversationStep::AskModel => {
                    let instructions = stage.instructions();
                    if !instructions.is_empty() {
                        let steered = ConversationEvent::Steered { instructions };
                        self.note(conversation, steered, false).await?;
                    }
                    let mut request =
                        self.request(conversation, &tools, reports.then_some(&reportable), &choices);
                    request.answer_schema = answer_schema.clone();
                    self.ask_models(conversation, request, &history.thread).await?;
                }
                ConversationStep::CallTools(calls) => {
                    let mut results = tools.call_all(&calls).await;
                    if let Some(error) = tools.take_interruption() {
                        return Err(error);
                    }
                    for result in &mut results {
                        result.content = stage.redacted(&result.content).into_owned();
                    }
                    let called = ConversationEvent::Called { results };
                    self.note(conversation, called, false).await?;
                }
                ConversationStep::AskPerson => {
                    let text = self.ask_person(conversation).await?;
                    let replied = ConversationEvent::PersonReplied { text };
                    self.note(conversation, replied, true).await?;
                }
                ConversationStep::End(end) => {
                    let failed = conversation.failed_models();
                    let is_refused = end.reason == EndReason::Refused;
                    let reply = self.reply(end);
                    return match reply {
                        Err(error) if is_refused && !failed.is_empty() => Err(all_failed(failed, error)),
                        reply => reply,
                    };
                }
            }
        }
    }

    /// Asks the models of the stage in turn until one of them answers, and persists what they do.
    async fn ask_models(
        &self,
        conversation: &mut Conversation,
        mut request: ModelRequest,
        thread: &str,
    ) -> Result<(), BackendError> {
        let calls = ModelCalls {
            agents: self.agents,
            stage: &self.stage,
            resolved: self.resolved,
            thread,
        };
        let models = calls.models(conversation.failed_models());
        let mut models = models.iter().peekable();
        while let Some(model) = models.next() {
            calls.address(&mut request, model);
            let next = models.peek().copied();
            match calls.call_or_fail(&request, next).await {
                Ok(Called::Answered(reply, reserved)) => {
                    let replied = ConversationEvent::Replied { reply };
                    self.note(conversation, replied, false).await?;
                    drop(reserved);
                    return Ok(());
                }
                Ok(Called::Failed(failed, reserved)) => {
                    if let Some(next) = next {
                        calls.warn_of_fallback(&failed, next);
                    }
                    self.note(conversation, ConversationEvent::ModelFailed { failed }, false)
                        .await?;
                    drop(reserved);
                }
                Err(error) if !conversation.failed_models().is_empty() && is_of_model(&error) => {
                    return Err(all_failed(conversation.failed_models(), error));
                }
                Err(error) => return Err(error),
            }
        }
        // The configuration has changed since the models failed.
        let error = BackendError::retryable("the configuration names no other model");
        Err(all_failed(conversation.failed_models(), error))
    }

    fn max_turns(&self, with_tools: bool, answers: bool) -> u32 {
        let configured = self.resolved.max_turns.as_ref().map(|turns| turns.value);
        let turns = match (with_tools, configured) {
            (_, Some(turns)) => turns,
            (true, None) => u64::from(ConversationRules::default().max_turns),
            // One call, plus one if a tool call, a reply of the person or a correction comes in between.
            (false, None) => 1 + u64::from(answers),
        };
        u32::try_from(turns).unwrap_or(u32::MAX).max(1)
    }

    fn tools(&self, with_tools: bool) -> Result<ToolRunner, BackendError> {
        let stage = &self.stage;
        let names = if with_tools {
            self.resolved.tools.as_slice()
        } else {
            &[]
        };
        let selected = self.agents.selected(names).map_err(|error| {
            BackendError::terminal(format!("the tools of the stage cannot be had: {error}")).caused_by(error)
        })?;
        let root = match self.agents.working_dir(stage) {
            Some(folder) => folder,
            None => std::env::current_dir()
                .map_err(|error| BackendError::terminal("there is no working folder").caused_by(error))?,
        };
        let context = ToolContext::new(root)
            .of_stage(stage.clone())
            .inherit_env(self.agents.environment());
        let runner = ToolRunner::new(selected, context).hooks(ToolHooks::from_stage(stage));
        Ok(match self.agents.parallel_tools(&self.resolved.backend.value) {
            Some(most) => runner.parallel(most),
            None => runner,
        })
    }

    /// Prepares the tools of the stage, before the model sees them.
    async fn prepare(&self, tools: &ToolRunner) -> Result<Vec<ToolLease>, BackendError> {
        tools.prepare().await.map_err(|error| {
            let interruption = tools.take_interruption();
            interruption.unwrap_or_else(|| BackendError::terminal(error.message).code("tool_unavailable"))
        })
    }

    /// Persists an event and applies it. The persisted event is redacted, so the redacted form is applied too.
    async fn note(
        &self,
        conversation: &mut Conversation,
        event: ConversationEvent,
        checkpoint: bool,
    ) -> Result<(), BackendError> {
        let mut note = serde_json::to_value(&event)
            .map_err(|error| BackendError::terminal("the conversation cannot be kept").caused_by(error))?;
        if let Some(redactor) = self.stage.redactor() {
            redactor.value(&mut note);
        }
        if checkpoint {
            self.stage.note_checkpoint(note.clone()).await
        } else {
            self.stage.note(note.clone()).await
        }
        let event = serde_json::from_value(note)
            .map_err(|error| BackendError::terminal("the conversation cannot be kept").caused_by(error))?;
        conversation.on(event);
        Ok(())
    }

    /// Returns the first event of the conversation, with the system prompt and the first message.
    async fn begin(
        &self,
        history: &StageHistory,
        thread: &mut ThreadConversation,
        reports: bool,
    ) -> Result<ConversationEvent, BackendError> {
        let earlier = if history.fidelity == Fidelity::Full || history.degraded {
            EarlierConversation::read(&self.stage, history)
        } else {
            EarlierConversation::default()
        };
        let continues = history.fidelity == Fidelity::Full && !earlier.messages.is_empty();
        let description = self.describe_run(history, continues.then_some(&earlier));
        let (system, message) = self.opening(description, reports, &[]).await?;
        let messages = if !continues {
            thread.set_earlier(earlier.messages);
            vec![Message::user(message)]
        } else if self.resolved.backend_kind == BackendKind::Direct {
            with_user_message(without_tool_calls(earlier.messages), message)
        } else {
            with_user_message(earlier.messages, message)
        };
        Ok(ConversationEvent::Began { system, messages })
    }

    /// Returns the description of the run for the model: the whole preamble if no earlier conversation is continued,
    /// else only what happened since.
    pub(crate) fn describe_run(
        &self,
        history: &StageHistory,
        earlier: Option<&EarlierConversation>,
    ) -> String {
        let stage = &self.stage;
        let read = |record: &str, file: StageFile, most: usize| stage.stage_text(record, file, most);
        let past = Past {
            history,
            goal: stage.goal(),
            run: stage.run_id(),
            context: stage.context(),
            read: &read,
        };
        let Some(earlier) = earlier else {
            // A thread that begins has no history, so it needs a preamble.
            let fidelity = match history.fidelity {
                Fidelity::Full => Fidelity::Compact,
                fidelity => fidelity,
            };
            return preamble(fidelity, &past);
        };
        let since = if earlier.is_own {
            String::new()
        } else {
            since(&past)
        };
        let parts = [earlier.failure.clone().unwrap_or_default(), since];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("\n\n")
    }

    /// Returns the system prompt and the first message to the model, and stores both as the prompt of the stage.
    pub(crate) async fn opening(
        &self,
        description: String,
        reports: bool,
        instructions: &[String],
    ) -> Result<(String, String), BackendError> {
        let stage = &self.stage;
        let task = self.task(reports).await?;
        let may_write = self.agents.may_write(stage.node());
        let files = files(stage.workplace(), stage.working_dir(), stage.context(), may_write);
        let before: Vec<String> = [description, files]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        let mut message = if before.is_empty() {
            task
        } else {
            format!("{}\n\n# Your task\n\n{task}", before.join("\n\n"))
        };
        if !instructions.is_empty() {
            message = format!("{message}\n\n{}", steering(instructions));
        }
        let mut system = self.resolved.system.trim().to_owned();
        if reports {
            if !system.is_empty() {
                system.push_str("\n\n");
            }
            system.push_str(AUTONOMOUS);
        }
        let shown = if system.is_empty() {
            message.clone()
        } else {
            format!("{system}\n\n---\n\n{message}")
        };
        stage.keep_prompt(&shown).map_err(unwritable)?;
        Ok((system, message))
    }

    /// Returns an error if the stage needs what no program can do.
    pub(crate) fn check_program(&self) -> Result<(), BackendError> {
        if self.resolved.mode.value != Mode::Interactive {
            return Ok(());
        }
        let reason = "nobody can talk with a program during a stage; use the backend `agent` or `direct`";
        Err(BackendError::terminal(reason).code("backend_capability"))
    }

    /// Returns the error of a program that would have to continue a conversation.
    pub(crate) fn no_conversation(&self) -> BackendError {
        let reason = "a program begins anew at each stage, so the fidelity `full` cannot be kept; use the backend \
                      `agent` or `direct`, or another fidelity";
        BackendError::terminal(reason).code("backend_capability")
    }

    /// Runs the stage with an external program, which has its own agent loop.
    pub(crate) async fn run_program(self, program: &CliBackend) -> Result<CodergenReply, BackendError> {
        self.check_program()?;
        let stage = self.stage.clone();
        let history = stage.history().await;
        if history.fidelity == Fidelity::Full || history.degraded {
            return Err(self.no_conversation());
        }
        // Instructions that arrive while the program runs are delivered to the next model stage.
        let description = self.describe_run(&history, None);
        let (system, prompt) = self.opening(description, false, &stage.instructions()).await?;
        let resolved = self.resolved;
        let text = |chosen: &Option<Chosen<String>>| chosen.as_ref().map(|chosen| chosen.value.clone());
        let mut call = CliCall::new(stage, prompt);
        call.system = system;
        call.provider = text(&resolved.provider);
        call.model = text(&resolved.model);
        call.effort = resolved.reasoning_effort.as_ref().map(|effort| effort.value);
        let format = AnswerFormat::from_stage(call.stage.node());
        let reply = program.answer(call.clone()).await?;
        match format.and_then(|format| format.correction_of(&call.stage, &reply)) {
            None => Ok(reply),
            Some(prompt) => {
                call.stage.record_usage(reply.usage.unwrap_or_default());
                call.stage
                    .log("the answer does not have the required form; asking again");
                call.prompt = prompt;
                program.answer(call).await
            }
        }
    }

    /// Renders the task of the stage.
    async fn task(&self, reports: bool) -> Result<String, BackendError> {
        let stage = &self.stage;
        let node = stage.node();
        let own = node.prompt();
        let own = &*own;
        let is_fan_in = node.kind() == kind::FAN_IN;
        // The engine's addition to the prompt becomes part of the report schema if the model reports.
        let (prompt, appended) = match self.prompt.strip_prefix(own) {
            _ if is_fan_in => (self.prompt.as_str(), ""),
            Some(appended) if node.text("prompt").is_some_and(|text| !text.trim().is_empty()) => {
                (own, appended)
            }
            Some(appended) => ("", appended),
            None => (self.prompt.as_str(), ""),
        };
        let mut values = values(stage, self.resolved).await;
        let built_in = [
            ("goal", stage.goal()),
            ("run_id", stage.run_id()),
            ("node", node.id()),
            ("label", node.label()),
            ("prompt", prompt),
        ];
        for (name, value) in built_in {
            values.set(name, value);
        }
        let mut task = self.resolved.message(&values).map_err(|error| {
            BackendError::terminal(format!("the task of the stage cannot be written: {error}"))
                .code("template")
                .caused_by(error)
        })?;
        if !reports {
            let format = AnswerFormat::from_stage(node).filter(AnswerFormat::is_bound);
            match format.filter(|_| self.resolved.mode.value == Mode::Interactive) {
                Some(format) => task.push_str(&format.request_to_conversation()),
                None => task.push_str(appended),
            }
        }
        Ok(task)
    }

    fn request(
        &self,
        conversation: &Conversation,
        tools: &ToolRunner,
        reportable: Option<&Reportable>,
        choices: &[String],
    ) -> ModelRequest {
        let resolved = self.resolved;
        let mut request = ModelRequest::new("", "");
        request.system = conversation.system().to_owned();
        request.messages = conversation.messages().to_vec();
        // In its last turn a model can only report.
        let all = reportable.is_none() || !conversation.is_last_turn();
        request.tools = if all { tools.tools().specs() } else { Vec::new() };
        request.tools.extend(reportable.map(Reportable::spec));
        if !choices.is_empty() {
            request.tools.push(judge::spec(choices));
        }
        request.reasoning_effort = resolved.reasoning_effort.as_ref().map(|effort| effort.value);
        request.temperature = resolved.temperature.as_ref().map(|temperature| temperature.value);
        request
    }

    /// Asks the person for a reply and waits for it.
    async fn ask_person(&self, conversation: &Conversation) -> Result<String, BackendError> {
        let text = conversation.last_text();
        let question = Question::new(QuestionKind::FreeText, text)
            .chat()
            .metadata("turn", conversation.messages().len() as u64);
        // A timeout must not approve anything: somebody else may answer when the run is resumed.
        let Answer { reply, .. } = self.stage.require_answer(question).await?;
        match reply {
            Reply::Chosen(texts) => Ok(texts.join("\n")),
            _ => {
                let mut error = BackendError::retryable("nobody answered in time");
                error.code = Some("timeout".to_owned());
                Err(error)
            }
        }
    }

    /// Converts the end of the conversation to the reply for the engine.
    fn reply(&self, end: ConversationEnd) -> Result<CodergenReply, BackendError> {
        let ConversationEnd { text, reason } = end;
        let failed = |message: String, code: &str| Err(BackendError::terminal(message).code(code));
        let mut verdict = None;
        let (outcome, text) = match reason {
            EndReason::Answered | EndReason::Done => return Ok(text.into()),
            EndReason::Chosen { best, reason } => {
                return Ok(Choice { best, reason }.response(&text).into());
            }
            EndReason::Reported(report) => {
                let outcome = report.outcome();
                let notes = outcome.notes.clone().unwrap_or_default();
                let text = if text.trim().is_empty() { notes } else { text };
                (outcome, text)
            }
            EndReason::Approved => return Ok(CodergenReply::from(text).with_verdict(ChatVerdict::Approved)),
            EndReason::Rejected { reason } => {
                let message = if reason.is_empty() {
                    "a person rejected it".to_owned()
                } else {
                    format!("a person rejected it: {reason}")
                };
                verdict = Some(ChatVerdict::Rejected { reason });
                (Outcome::fail_terminal(message).prefer("Reject"), text)
            }
            EndReason::TurnsUsedUp { turns } => {
                let message =
                    format!("the model did not come to an end in {turns} turns; `max_turns` allows more");
                return failed(message, "agent_turns");
            }
            EndReason::Malformed { problem } => {
                let message =
                    format!("the model kept calling tools in ways that cannot be followed: {problem}");
                return Err(BackendError::retryable(message).code("agent_malformed_calls"));
            }
            EndReason::Unreported => {
                let message = "the model did not report the outcome of the stage";
                return Err(BackendError::retryable(message).code("agent_no_report"));
            }
            EndReason::Stopped { reason } => {
                let why = if reason.is_empty() {
                    String::new()
                } else {
                    format!(": {reason}")
                };
                let message = format!("the model stopped without an answer{why}");
                return Err(BackendError::retryable(message).code("model_no_answer"));
            }
            EndReason::Cut => {
                let message =
                    "the answer is longer than it may be; `max_tokens` of the agent or provider allows more";
                return failed(message.to_owned(), "model_answer_cut");
            }
            EndReason::Refused => return failed("the model declined to answer".to_owned(), "model_refused"),
        };
        let reply = CodergenReply::from(outcome).with_response(text);
        Ok(match verdict {
            Some(verdict) => reply.with_verdict(verdict),
            None => reply,
        })
    }
}

fn unwritable(error: StoreError) -> BackendError {
    BackendError::retryable("the stage's files cannot be written").caused_by(error)
}
