//! The backend that runs model stages as a project configures them.

use orchestra_config::BackendKind;
use orchestra_engine::{BackendError, CodergenBackend, CodergenReply, CodergenRequest, SimulationBackend};
use orchestra_graph::Stage;

use crate::agents::Agents;
use crate::cli_backend::CliBackend;
use crate::coding_agents::run_coding_agent;
use crate::driver::ConversationDriver;
use crate::hooks::ToolHooks;

impl CodergenBackend for Agents {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let resolution = self.resolve(request.stage.pipeline());
        let node = request.stage.node().id().to_owned();
        let Some(resolved) = resolution.stage(&node) else {
            return Err(BackendError::terminal(format!("`{node}` is not a model stage")));
        };
        if resolved.backend_kind == BackendKind::Simulation {
            return SimulationBackend.run(request).await;
        }
        let driver = ConversationDriver {
            agents: self,
            stage: request.stage,
            resolved,
            prompt: request.prompt,
        };
        if !resolved.backend_kind.is_program() {
            return driver.run().await;
        }
        let name = &resolved.backend.value;
        if let Some((agent, program)) = self.coding_agent(name, &driver.stage) {
            return run_coding_agent(driver, &agent, &CliBackend::new(program)).await;
        }
        match self.program(name, &driver.stage) {
            Some(program) => driver.run_program(&CliBackend::new(program)).await,
            None => Err(
                BackendError::terminal(format!("the backend `{name}` has no `command`")).code("cli_command"),
            ),
        }
    }

    fn may_write(&self, stage: Stage<'_>) -> bool {
        let resolution = self.resolve(stage.pipeline());
        let Some(resolved) = resolution.stage(stage.id()) else {
            return true;
        };
        // Hooks are commands that run with each tool call, and may write.
        let calls = resolved.backend_kind == BackendKind::Agent && !resolved.tools.is_empty();
        let has_hooks = calls && !ToolHooks::of_node(stage).is_empty();
        has_hooks || resolved.may_write(|tool| self.tool_is_read_only(tool))
    }

    fn key_variables(&self) -> Vec<String> {
        self.key_variable_names()
    }
}
