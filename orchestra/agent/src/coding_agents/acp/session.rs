//! A turn of an agent: the session is opened, the prompt is sent, and the agent is followed until it has answered.

use std::pin::pin;
use std::time::Duration;

use orchestra_config::Permissions;
use orchestra_engine::process::{ProcessError, ShellCommand, ToolOutput};
use orchestra_engine::{BackendError, StageContext};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::coding_agents::acp::connection::{Connection, Incoming, Line, RpcError, write_lines};
use crate::coding_agents::acp::permission::decide;
use crate::coding_agents::acp::updates::{Updates, turn_usage};
use crate::coding_agents::event::{AgentEvent, text};
use crate::coding_agents::listener::{Listener, OutputPart};
use crate::coding_agents::sessions::SessionKeeper;

/// The version of the protocol.
const VERSION: u64 = 1;
/// The time that an agent has to end by itself after its answer.
const LEAVING: Duration = Duration::from_secs(2);
/// The code of the error that asks the client to log in.
const LOGIN_REQUIRED: i64 = -32000;

/// What an agent does in a stage.
pub(in crate::coding_agents) struct AcpStage<'a> {
    pub(in crate::coding_agents) stage: &'a StageContext,
    /// The name of the backend.
    pub(in crate::coding_agents) agent: &'a str,
    pub(in crate::coding_agents) permissions: Permissions,
    pub(in crate::coding_agents) folder: &'a str,
    pub(in crate::coding_agents) prompt: &'a str,
    pub(in crate::coding_agents) model: Option<&'a str>,
    /// The session to continue.
    pub(in crate::coding_agents) session: Option<&'a str>,
}

/// Why a program ended without a result.
pub(in crate::coding_agents) enum AcpError {
    /// The program could not be run.
    Process(ProcessError),
    Stage(BackendError),
}

/// Runs an agent until it has answered, and then until it has ended. Stores the session as soon as it is
/// known.
///
/// # Errors
/// The program cannot be run, it does not know the model, or nobody can answer what it asks.
pub(in crate::coding_agents) async fn run(
    command: ShellCommand,
    work: &AcpStage<'_>,
    listener: &mut Listener<'_>,
    keeper: &mut SessionKeeper<'_>,
) -> Result<ToolOutput, AcpError> {
    let stop = work.stage.cancellation().child_token();
    let (sender, lines) = mpsc::unbounded_channel();
    let (mut connection, written) = Connection::new(lines);
    let command = command
        .input_pipe(move |pipe| write_lines(pipe, written))
        .cancel(stop.clone())
        .on_line(move |stream, line| {
            if let Some(line) = Line::read(stream, line) {
                // Nobody receives it after the turn.
                let _ = sender.send(line);
            }
        });
    let mut running = pin!(command.run());
    let mut ended = None;
    let gone = CancellationToken::new();
    let turn = {
        let turn = Turn {
            work,
            connection: &mut connection,
            gone: &gone,
            updates: Updates::default(),
            listener,
            keeper,
        };
        let mut turn = pin!(turn.take());
        loop {
            tokio::select! {
                biased;
                turn = &mut turn => break turn,
                output = &mut running, if ended.is_none() => {
                    ended = Some(output);
                    gone.cancel();
                }
            }
        }
    };
    connection.close();
    let output = match (ended, &turn) {
        (Some(output), _) => output,
        (None, Ok(())) => match tokio::time::timeout(LEAVING, &mut running).await {
            Ok(output) => output,
            Err(_) => {
                stop.cancel();
                running.await
            }
        },
        (None, Err(_)) => {
            stop.cancel();
            running.await
        }
    };
    let output = output.map_err(AcpError::Process)?;
    turn.map(|()| output).map_err(AcpError::Stage)
}

/// A turn that is taken.
struct Turn<'t, 'l, 'k> {
    work: &'t AcpStage<'t>,
    connection: &'t mut Connection,
    /// Cancelled when the agent has ended.
    gone: &'t CancellationToken,
    updates: Updates,
    listener: &'t mut Listener<'l>,
    keeper: &'t mut SessionKeeper<'k>,
}

/// How a request ended.
enum Ended {
    Result(Value),
    /// The agent refused it, or ended. The transcript says why.
    Failed,
}

impl Turn<'_, '_, '_> {
    /// Takes the turn. A failure of the agent is in the transcript.
    async fn take(mut self) -> Result<(), BackendError> {
        let capabilities = json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
        let client = json!({"name": "orchestra", "version": env!("CARGO_PKG_VERSION")});
        let hello = json!({
            "protocolVersion": VERSION, "clientCapabilities": capabilities, "clientInfo": client,
        });
        let Ended::Result(agent) = self.call("initialize", &hello, false).await? else {
            return Ok(());
        };
        if agent.get("protocolVersion").and_then(Value::as_u64) != Some(VERSION) {
            let version = agent.get("protocolVersion").cloned().unwrap_or_default();
            let message = format!(
                "`{}` speaks version {version} of the Agent Client Protocol, and Orchestra speaks {VERSION}",
                self.work.agent
            );
            return Err(BackendError::terminal(message).code("acp_version"));
        }
        let Some((session, opened)) = self.open(&agent).await? else {
            return Ok(());
        };
        if let Some(model) = self.work.model
            && !self.choose_model(model, &session, &opened).await?
        {
            return Ok(());
        }
        let prompt = json!([{"type": "text", "text": self.work.prompt}]);
        let params = json!({"sessionId": session, "prompt": prompt});
        let Ended::Result(response) = self.call("session/prompt", &params, true).await? else {
            return Ok(());
        };
        // An agent counts the cost of a session from its beginning.
        let cost = self.updates.cost.filter(|_| self.work.session.is_none());
        if let Some(usage) = turn_usage(&response, cost) {
            self.event(AgentEvent::Usage(usage)).await;
        }
        self.event(match text(&response, "/stopReason") {
            "end_turn" => AgentEvent::Ended,
            "max_tokens" => AgentEvent::failed("the model reached its limit of tokens"),
            "max_turn_requests" => AgentEvent::failed("the agent reached its limit of model calls"),
            "refusal" => AgentEvent::failed("the model declined to answer"),
            other => AgentEvent::failed(format!("the agent stopped: {other}")),
        })
        .await;
        Ok(())
    }

    /// Opens a new session, or the one to continue. Returns its id and what the agent says about it.
    async fn open(&mut self, agent: &Value) -> Result<Option<(String, Value)>, BackendError> {
        let mut params = json!({"cwd": self.work.folder, "mcpServers": []});
        let Some(session) = self.work.session else {
            let Ended::Result(opened) = self.call("session/new", &params, false).await? else {
                return Ok(None);
            };
            let session = text(&opened, "/sessionId").to_owned();
            self.event(AgentEvent::Session(session.clone())).await;
            return Ok(Some((session, opened)));
        };
        if agent.pointer("/agentCapabilities/loadSession") != Some(&Value::Bool(true)) {
            let reason = "the agent cannot continue sessions";
            self.event(AgentEvent::failed(reason)).await;
            return Ok(None);
        }
        params["sessionId"] = session.into();
        // The agent repeats the earlier messages of the session, which are not those of this stage.
        let Ended::Result(opened) = self.call("session/load", &params, false).await? else {
            return Ok(None);
        };
        self.event(AgentEvent::Session(session.to_owned())).await;
        Ok(Some((session.to_owned(), opened)))
    }

    /// Chooses the model of the stage, among those that the agent offers. Returns `false` if the agent refused it.
    ///
    /// # Errors
    /// The agent does not offer the model.
    async fn choose_model(
        &mut self,
        model: &str,
        session: &str,
        opened: &Value,
    ) -> Result<bool, BackendError> {
        let list = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_array).cloned();
        let options = list(opened, "/configOptions").unwrap_or_default();
        let option = options.iter().find(|option| text(option, "/category") == "model");
        let (current, offered, field) = match option {
            Some(option) => {
                let offered = list(option, "/options").unwrap_or_default();
                (text(option, "/currentValue"), offered, "/value")
            }
            None => {
                let offered = list(opened, "/models/availableModels").unwrap_or_default();
                (text(opened, "/models/currentModelId"), offered, "/modelId")
            }
        };
        if current == model {
            return Ok(true);
        }
        let names: Vec<&str> = offered.iter().map(|offer| text(offer, field)).collect();
        if !names.contains(&model) {
            let agent = self.work.agent;
            let help = if names.is_empty() {
                "it lets no client choose one; name it in its `command`, and take `llm_model` away".to_owned()
            } else {
                format!("it offers {}", names.join(", "))
            };
            let message = format!("`{agent}` does not offer the model `{model}`: {help}");
            return Err(BackendError::terminal(message).code("cli_model"));
        }
        let (method, params) = match option {
            Some(option) => (
                "session/set_config_option",
                json!({"sessionId": session, "configId": text(option, "/id"), "value": model}),
            ),
            None => (
                "session/set_model",
                json!({"sessionId": session, "modelId": model}),
            ),
        };
        Ok(matches!(
            self.call(method, &params, false).await?,
            Ended::Result(_)
        ))
    }

    /// Sends a request and waits for its response. Meanwhile answers what the agent asks, and follows its updates.
    async fn call(&mut self, method: &str, params: &Value, is_work: bool) -> Result<Ended, BackendError> {
        let id = self.connection.request(method, params);
        loop {
            let Some(message) = self.connection.receive().await else {
                return Ok(Ended::Failed);
            };
            match message {
                Incoming::Response { id: answered, result } if answered == id => {
                    return Ok(match result {
                        Ok(result) => Ended::Result(result),
                        Err(error) => {
                            self.fail(error).await;
                            Ended::Failed
                        }
                    });
                }
                Incoming::Response { .. } => {}
                Incoming::Request { id, method, params } if method == "session/request_permission" => {
                    let AcpStage {
                        permissions,
                        stage,
                        agent,
                        ..
                    } = *self.work;
                    let decision = tokio::select! {
                        decision = decide(permissions, stage, agent, &mut self.updates, &params) => decision?,
                        // Nobody needs the answer any more, so the question is withdrawn.
                        () = self.gone.cancelled() => return Ok(Ended::Failed),
                    };
                    self.connection.respond(&id, &decision.response);
                    for event in decision.events {
                        self.event(event).await;
                    }
                }
                Incoming::Request { id, method, .. } => self.connection.refuse(&id, &method),
                Incoming::Notification { method, params } if method == "session/update" && is_work => {
                    for event in self.updates.events(&params) {
                        self.event(event).await;
                    }
                }
                Incoming::Notification { .. } => {}
                Incoming::Text(line) => {
                    self.listener.on(OutputPart::Line(line));
                }
            }
        }
    }

    async fn fail(&mut self, error: RpcError) {
        let status = match error.code {
            LOGIN_REQUIRED => Some(401),
            code => u16::try_from(code).ok().filter(|code| (400..=599).contains(code)),
        };
        let reason = error.message;
        self.event(AgentEvent::Failed { reason, status }).await;
    }

    async fn event(&mut self, event: AgentEvent) {
        if let Some(session) = self.listener.on(OutputPart::Event(event)) {
            self.keeper.keep(session).await;
        }
    }
}
