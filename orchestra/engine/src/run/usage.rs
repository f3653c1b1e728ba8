//! The usage of models and tools by stages, the data that they share, and their limits.

use std::any::TypeId;
use std::sync::Arc;

use orchestra_core::{Budget, EffectId, Usage};
use orchestra_graph::NodeIndex;

use crate::budget::{less, node_budget, stricter};
use crate::lock::lock;
use crate::run::history::ToolTally;
use crate::run::requests::Request;
use crate::run::state::{Parent, Run};

impl Run {
    /// Adds to the usage of an attempt.
    pub(crate) fn add_usage(&self, id: &EffectId, usage: Usage) {
        self.spend(id.node, usage);
        self.attempts.usage.add(id, usage);
    }

    /// Adds usage to the usage meters of this run and its parent runs.
    pub(crate) fn spend(&self, node: NodeIndex, usage: Usage) {
        self.models().meter.used(node, usage);
        if let Some(parent) = &self.origin.parent {
            parent.run.spend(parent.stage.node, usage);
        }
    }

    /// Adds the total usage of this run to the stage that started it.
    pub(crate) fn add_to_parent(&self, parent: &Parent, usage: Usage) {
        // The meters have not counted usage from before this process.
        let counted = self
            .models
            .get()
            .map(|models| models.meter.spent())
            .unwrap_or_default();
        parent.run.spend(parent.stage.node, less(usage, counted));
        parent.run.attempts.usage.add(&parent.stage, usage);
    }

    /// Returns the budget of the run and its usage so far. If the run has no budget, returns those of its parent run.
    pub(crate) fn budget(&self) -> (Budget, Usage) {
        let own = self
            .models
            .get()
            .map(|models| (models.meter.budget(), models.meter.spent()));
        match (own, &self.origin.parent) {
            (Some(own), _) if !own.0.is_empty() => own,
            (_, Some(parent)) => parent.run.budget(),
            (own, None) => own.unwrap_or_default(),
        }
    }

    /// Returns the strictest budget of the run, its parent runs, and the stages that started them.
    pub(crate) fn bounds(&self) -> Budget {
        let own = self
            .models
            .get()
            .map_or_else(Budget::default, |models| models.meter.budget());
        match &self.origin.parent {
            None => own,
            Some(parent) => {
                let stage = parent.run.pipeline.stage(parent.stage.node);
                let of_stage = node_budget(stage);
                stricter(own, stricter(of_stage, parent.run.bounds()))
            }
        }
    }

    /// Counts a tool call of a stage.
    pub(crate) fn count_tool_call(&self, node: NodeIndex, tool: &str, failed: bool) {
        let mut tools = lock(&self.models().tools);
        let (calls, failures) = tools.entry((node.0, tool.to_owned())).or_default();
        *calls += 1;
        *failures += u64::from(failed);
    }

    /// Returns the tool calls of stages since this process took the run.
    pub(crate) fn tool_calls(&self) -> Vec<ToolTally> {
        let tools = lock(&self.models().tools);
        tools
            .iter()
            .map(|((node, tool), (calls, failures))| ToolTally {
                node: self.pipeline.stage(NodeIndex(*node)).id().to_owned(),
                tool: tool.clone(),
                calls: *calls,
                failures: *failures,
            })
            .collect()
    }

    pub(crate) fn shared_data<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut data = lock(&self.models().data);
        let data = data
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        // The value under a type id is always of that type.
        data.clone().downcast().unwrap_or_default()
    }

    /// Takes the next request of a stage to the driver.
    pub(crate) fn take_request(&self) -> Option<Request> {
        self.models.get()?.requests.take()
    }

    /// Sends a request to the driver.
    pub(crate) fn request(&self, request: Request) {
        self.models().requests.send(request);
        self.questions.nudge();
    }
}
