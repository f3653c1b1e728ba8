//! Runs a coding agent for a stage.

use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use orchestra_config::Chosen;
use orchestra_engine::process::{Exit, OutputStream, ProcessError, ShellCommand, ToolOutput};
use orchestra_engine::{BackendError, Budget, CodergenReply, Fidelity, ModelCall, Usage};
use tokio::sync::mpsc;

use crate::cli_backend::{CliBackend, CliCall};
use crate::coding_agents::acp::{self, AcpError, AcpStage};
use crate::coding_agents::event::AgentParser;
use crate::coding_agents::listener::{Listener, OutputPart};
use crate::coding_agents::presets;
use crate::coding_agents::program::{AgentProgram, AgentProtocol};
use crate::coding_agents::sessions::{AgentSession, AgentSessions, SessionKeeper, interrupted};
use crate::coding_agents::transcript::Transcript;
use crate::driver::ConversationDriver;
use crate::model::TokenUsage;
use crate::threads::EarlierConversation;
use crate::tools::error_line;

/// Maximum length of a line of output, in bytes. A longer line is not an event.
const MAX_LINE_BYTES: usize = 8 << 20;
/// Maximum number of bytes of output that are kept besides the events.
const MAX_OUTPUT_BYTES: usize = 64 << 10;

/// The beginning of the prompt of an agent that is resumed in the middle of its work.
const INTERRUPTED: &str = "You were interrupted while you worked on the task below. Look at what you have done so far, and finish \
it. Do not begin anew.";

/// Runs a stage with a coding agent.
///
/// # Errors
/// Returns an error if the agent cannot be run, or did not do its work.
pub(crate) async fn run_coding_agent(
    driver: ConversationDriver<'_>,
    agent: &AgentProgram,
    program: &CliBackend,
) -> Result<CodergenReply, BackendError> {
    driver.check_program()?;
    program.check_hooks(&driver.stage)?;
    let folder = program.folder(&driver.stage);
    let folder = folder.as_deref().unwrap_or(Path::new("."));
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let task = AgentTask {
        agent,
        program,
        folder: folder.to_string_lossy().into_owned(),
        driver,
    };
    task.run().await
}

/// The work of a stage.
struct AgentTask<'a> {
    driver: ConversationDriver<'a>,
    agent: &'a AgentProgram,
    program: &'a CliBackend,
    folder: String,
}

/// The session that an agent is to continue.
struct Continued {
    session: AgentSession,
    /// What the agent does not know yet.
    description: String,
}

impl AgentTask<'_> {
    async fn run(&self) -> Result<CodergenReply, BackendError> {
        let stage = &self.driver.stage;
        let history = stage.history().await;
        let is_thread = history.fidelity == Fidelity::Full;
        if (is_thread || history.degraded) && !self.agent.has_sessions() {
            return Err(self.driver.no_conversation());
        }
        let (mut sessions, is_own) = if is_thread || history.degraded {
            AgentSessions::read(stage, &history)
        } else {
            (AgentSessions::default(), false)
        };
        let name = self.agent.name();
        let in_thread = sessions.find(name, &self.folder).filter(|_| is_thread);
        let continued = match (interrupted(stage.notes(), name, &self.folder), in_thread) {
            (Some(session), _) => Some(Continued {
                session,
                description: INTERRUPTED.to_owned(),
            }),
            (None, Some((session, is_latest))) => {
                let earlier = EarlierConversation::without_messages(stage, &history, is_own);
                // Another agent worked on the thread meanwhile, so this one needs to know what it did.
                let earlier = Some(&earlier).filter(|_| is_latest);
                Some(Continued {
                    session: session.clone(),
                    description: self.driver.describe_run(&history, earlier),
                })
            }
            (None, None) => None,
        };
        let instructions = stage.instructions();
        if let Some(Continued { session, description }) = continued {
            let call = self.call(description, &instructions).await?;
            let done = self.start(&call, Some(&session), &mut sessions).await?;
            if done.transcript.is_active || !done.has_lost_session() {
                return done.reply(self);
            }
            let reason = done
                .reply(self)
                .err()
                .map_or(String::new(), |error| error.message);
            stage.log(format!(
                "a new session begins, because the earlier one cannot be continued: {reason}"
            ));
        }
        let description = self.driver.describe_run(&history, None);
        let call = self.call(description, &instructions).await?;
        let done = self.start(&call, None, &mut sessions).await?;
        done.reply(self)
    }

    /// Returns the call with the prompt of the stage.
    async fn call(&self, description: String, instructions: &[String]) -> Result<CliCall, BackendError> {
        let (system, prompt) = self.driver.opening(description, false, instructions).await?;
        let resolved = self.driver.resolved;
        let text = |chosen: &Option<Chosen<String>>| chosen.as_ref().map(|chosen| chosen.value.clone());
        let mut call = CliCall::new(self.driver.stage.clone(), prompt);
        call.system = system;
        call.provider = text(&resolved.provider);
        call.model = text(&resolved.model).filter(|_| self.knows_model());
        call.effort = resolved.reasoning_effort.as_ref().map(|effort| effort.value);
        Ok(call)
    }

    /// Returns whether the agent can call the model. It cannot if the model is the default of a provider whose models
    /// it does not call.
    fn knows_model(&self) -> bool {
        let resolved = self.driver.resolved;
        let (Some(preset), Some(model)) = (self.agent.preset(), &resolved.model) else {
            return true;
        };
        if model.reason != orchestra_config::Reason::Provider {
            return true;
        }
        let configuration = &self.driver.agents.project().configuration;
        let provider = resolved.provider.as_ref();
        let kind = provider.and_then(|provider| configuration.provider_kind(&provider.value));
        kind.is_some_and(|kind| presets::calls(preset, kind))
    }

    /// Runs the program until it ends, and stores its session as soon as it is known.
    async fn start(
        &self,
        call: &CliCall,
        continued: Option<&AgentSession>,
        sessions: &mut AgentSessions,
    ) -> Result<Ended, BackendError> {
        let began = self.driver.stage.elapsed();
        let counted = continued.map_or(TokenUsage::default(), |session| session.counted);
        let id = continued.map(|session| session.session.as_str());
        let mut listener = Listener::new(&self.driver.stage);
        let command = self.program.prepare(self.agent.command(call, id)?, call)?;
        let command = command.capture_limit(MAX_OUTPUT_BYTES).line_limit(MAX_LINE_BYTES);
        let mut keeper = SessionKeeper {
            stage: &self.driver.stage,
            agent: self.agent.name(),
            folder: &self.folder,
            counted,
            sessions: self.agent.has_sessions().then_some(sessions),
        };
        let protocol = self.agent.protocol();
        let is_told_to_end = matches!(protocol, AgentProtocol::Acp(_));
        let output = match protocol {
            AgentProtocol::Acp(permissions) => {
                let work = AcpStage {
                    stage: &self.driver.stage,
                    agent: self.agent.name(),
                    permissions,
                    folder: &self.folder,
                    prompt: &call.text(),
                    model: call.model.as_deref(),
                    session: id,
                };
                match acp::run(command, &work, &mut listener, &mut keeper).await {
                    Ok(output) => Ok(output),
                    Err(AcpError::Process(error)) => Err(error),
                    Err(AcpError::Stage(error)) => return Err(error),
                }
            }
            AgentProtocol::Lines(parser) => self.follow(command, parser, &mut listener, &mut keeper).await,
        };
        let output = output.map_err(|error| self.start_error(error))?;
        let transcript = listener.transcript;
        if let (Some(session), Some((_, _, all))) = (&transcript.session, transcript.usage(counted)) {
            keeper.count(session, all);
        }
        Ok(Ended {
            output,
            transcript,
            counted,
            model: call.model.clone(),
            duration: self.driver.stage.elapsed().saturating_sub(began),
            is_told_to_end,
        })
    }

    /// Runs the program until it ends. Stores its session as soon as it is known.
    async fn follow(
        &self,
        command: ShellCommand,
        mut parser: Box<dyn AgentParser>,
        listener: &mut Listener<'_>,
        keeper: &mut SessionKeeper<'_>,
    ) -> Result<ToolOutput, ProcessError> {
        let (sender, mut lines) = mpsc::unbounded_channel();
        let command = command.on_line(move |stream, line| {
            for part in read_line(&mut *parser, stream, line) {
                // Nobody receives it if the stage was cancelled.
                let _ = sender.send(part);
            }
        });
        let mut running = pin!(command.run());
        let output = loop {
            tokio::select! {
                biased;
                Some(part) = lines.recv() => {
                    if let Some(session) = listener.on(part) {
                        keeper.keep(session).await;
                    }
                }
                output = &mut running => break output,
            }
        };
        while let Ok(part) = lines.try_recv() {
            if let Some(session) = listener.on(part) {
                keeper.keep(session).await;
            }
        }
        output
    }

    fn start_error(&self, error: ProcessError) -> BackendError {
        let (Some(preset), ProcessError::Spawn { source, .. }) = (self.agent.preset(), &error) else {
            return self.program.start_error(error);
        };
        if source.kind() != std::io::ErrorKind::NotFound {
            return self.program.start_error(error);
        }
        let message = format!(
            "the program `{}` is not in `PATH`; install it with `npm install -g {}`",
            preset.program(),
            preset.package()
        );
        BackendError::terminal(message).code("cli_not_found")
    }
}

pub(super) fn read_line(parser: &mut dyn AgentParser, stream: OutputStream, line: &str) -> Vec<OutputPart> {
    if stream == OutputStream::Stderr {
        return match parser.error_line(line) {
            Some(events) => events.into_iter().map(OutputPart::Event).collect(),
            None => vec![OutputPart::Line(line.to_owned())],
        };
    }
    if !line.starts_with('{') || parser.ignores(line) {
        return Vec::new();
    }
    let Ok(value) = serde_json::from_str(line) else {
        return Vec::new();
    };
    parser.event(&value).into_iter().map(OutputPart::Event).collect()
}

/// A program that ended.
struct Ended {
    output: ToolOutput,
    transcript: Transcript,
    /// The tokens of the session before the program started.
    counted: TokenUsage,
    model: Option<String>,
    duration: Duration,
    /// Whether the agent ends only when it is told to.
    is_told_to_end: bool,
}

impl Ended {
    /// Returns whether the program, which did nothing, may have failed because it did not find its session.
    fn has_lost_session(&self) -> bool {
        let failed = matches!(self.output.exit, Exit::Code(code) if code != 0);
        let reason = match self.transcript.failure("agent") {
            Some(error) => Some(error),
            None => failed.then(|| self.transcript.exit_failure("agent", "")),
        };
        reason.is_some_and(|error| error.code.as_deref() == Some("cli_failed"))
    }

    fn reply(&self, task: &AgentTask<'_>) -> Result<CodergenReply, BackendError> {
        let used = self.transcript.usage(self.counted).map(|(tokens, cost, _)| {
            let prices = task.driver.agents.prices();
            let known = self
                .model
                .as_ref()
                .and_then(|model| prices.cost_micros(model, tokens));
            let reported = cost.filter(|cost| *cost >= 0.0);
            let reported = reported.map(Budget::micros_of_dollars);
            Usage {
                input_tokens: tokens.input,
                output_tokens: tokens.output,
                cost_micros: reported.or(known).unwrap_or_default(),
            }
        });
        let answer = self.answer(task);
        self.record(task, used.unwrap_or_default(), answer.as_ref().err());
        match (answer, used) {
            (Ok(text), Some(usage)) => Ok(CodergenReply::from(text).used(usage)),
            (Ok(text), None) => Ok(text.into()),
            (Err(error), usage) => {
                // The usage of a failed attempt counts as well.
                task.driver.stage.record_usage(usage.unwrap_or_default());
                Err(error)
            }
        }
    }

    /// Emits the calls of the program as an event.
    fn record(&self, task: &AgentTask<'_>, usage: Usage, error: Option<&BackendError>) {
        let model = self.model.clone().unwrap_or_default();
        let mut call = ModelCall::new(task.agent.name(), model, self.duration);
        call.program = true;
        let agent = task.driver.resolved.agent.as_ref();
        call.agent = agent.map(|agent| agent.value.clone());
        call.conversation.clone_from(&self.transcript.session);
        call.usage = usage;
        let tokens = self.transcript.usage(self.counted);
        call.cached_input_tokens = tokens.map_or(0, |(tokens, _, _)| tokens.cached_input);
        call.error = error.map(|error| error_line(&error.message));
        call.error_code = error.and_then(|error| error.code.clone());
        task.driver.stage.record_model_call(call);
    }

    fn answer(&self, task: &AgentTask<'_>) -> Result<String, BackendError> {
        let name = task.agent.name();
        let help = task.agent.help_for_denied();
        // Such an agent waits for its next prompt when it has answered, and is ended.
        if self.is_told_to_end && self.output.exit != Exit::TimedOut {
            if let Some(failure) = self.transcript.failure(name) {
                return Err(failure);
            }
            if self.transcript.has_ended() {
                return self.transcript.answer(name, help);
            }
        }
        match self.output.exit {
            Exit::Code(code) => {
                if let Some(failure) = self.transcript.failure(name) {
                    return Err(failure);
                }
                if code != 0 && task.agent.preset().is_none() {
                    // A shell has its own codes for a command that it cannot run.
                    task.program.check_exit(&self.output)?;
                }
                if code != 0 {
                    return Err(self.transcript.exit_failure(name, &format!("exit code {code}")));
                }
                self.transcript.answer(name, help)
            }
            _ => {
                task.program.check_exit(&self.output)?;
                self.transcript.answer(name, help)
            }
        }
    }
}
