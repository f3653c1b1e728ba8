//! What stages use of models, tools and each other's data, and what bounds that.

use std::any::TypeId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use orchestra_core::{Budget, EffectId, Usage};
use orchestra_graph::NodeIndex;

use crate::ledger::{budget_of, less, stricter};
use crate::requests::Request;
use crate::run::{LongStages, Parent, Run, lock};
use crate::surroundings::ToolTally;

impl Run {
    /// Adds to what an attempt has used of models.
    pub(crate) fn add_usage(&self, id: &EffectId, usage: Usage) {
        self.spend(id.node, usage);
        self.count_usage(id, usage);
    }

    /// Enters into the ledgers of this run and of those around it what was used.
    pub(crate) fn spend(&self, node: NodeIndex, usage: Usage) {
        self.long().ledger.used(node, usage);
        if let Some(parent) = &self.origin.parent {
            parent.run.spend(parent.stage.node, usage);
        }
    }

    /// Tells the stage that started this run what it used in all.
    pub(crate) fn settle_with(&self, parent: &Parent, usage: Usage) {
        // Of what was over before this process came, no ledger has heard.
        let told = self
            .long
            .get()
            .map(|long| long.ledger.spent())
            .unwrap_or_default();
        parent.run.spend(parent.stage.node, less(usage, told));
        parent.run.count_usage(&parent.stage, usage);
    }

    /// Adds what an attempt used, which the ledger has already.
    pub(crate) fn count_usage(&self, id: &EffectId, usage: Usage) {
        let mut own = lock(&self.own);
        match own.usage.iter_mut().find(|(of, _)| of == id) {
            Some((_, sum)) => *sum += usage,
            None => own.usage.push((id.clone(), usage)),
        }
        self.has_usage.store(true, Ordering::Release);
    }

    /// Says that attempts may have used something before this process went on with the run.
    pub(crate) fn used_before(&self) {
        self.has_usage.store(true, Ordering::Release);
    }

    /// Whether any attempt used anything.
    pub(crate) fn has_usage(&self) -> bool {
        self.has_usage.load(Ordering::Acquire)
    }

    /// What it may use of models by itself, and what was used of that; where it has no budget, those of the run around it.
    pub(crate) fn budget(&self) -> (Budget, Usage) {
        let own = self
            .long
            .get()
            .map(|long| (long.ledger.budget(), long.ledger.spent()));
        match (own, &self.origin.parent) {
            (Some(own), _) if !own.0.is_empty() => own,
            (_, Some(parent)) => parent.run.budget(),
            (own, None) => own.unwrap_or_default(),
        }
    }

    /// The budgets of the run, and of all around it: runs and the stages that started them.
    pub(crate) fn bounds(&self) -> Budget {
        let own = self
            .long
            .get()
            .map_or_else(Budget::default, |long| long.ledger.budget());
        match &self.origin.parent {
            None => own,
            Some(parent) => {
                let stage = parent.run.pipeline.stage(parent.stage.node);
                let of_stage = budget_of(|name| stage.attribute(name));
                stricter(own, stricter(of_stage, parent.run.bounds()))
            }
        }
    }

    /// What an attempt that has ended used of models, once.
    pub(crate) fn take_usage(&self, id: &EffectId) -> Option<Usage> {
        if !self.has_usage.load(Ordering::Acquire) {
            return None;
        }
        let mut own = lock(&self.own);
        let at = own.usage.iter().position(|(of, _)| of == id)?;
        Some(own.usage.swap_remove(at).1)
    }

    pub(crate) fn count_tool_call(&self, node: NodeIndex, tool: &str, failed: bool) {
        let mut tools = lock(&self.long().tools);
        let (calls, failures) = tools.entry((node.0, tool.to_owned())).or_default();
        *calls += 1;
        *failures += u64::from(failed);
    }

    /// The tools that stages called since this process has the run.
    pub(crate) fn tool_calls(&self) -> Vec<ToolTally> {
        let tools = lock(&self.long().tools);
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
        let mut data = lock(&self.long().data);
        let data = data
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        // What is kept under a type is of that type.
        data.clone().downcast().unwrap_or_default()
    }

    /// What runs of long stages need; made where it is not there.
    pub(crate) fn long(&self) -> &LongStages {
        self.long.get_or_init(Box::default)
    }

    /// What a stage asks of the driver, if one asks anything.
    pub(crate) fn take_request(&self) -> Option<Request> {
        self.long.get()?.requests.take()
    }

    /// Asks something of the driver.
    pub(crate) fn request(&self, request: Request) {
        self.long().requests.send(request);
        self.questions.nudge();
    }
}
