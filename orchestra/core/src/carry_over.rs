//! The adaptation of a saved state to a changed pipeline (rule D6).

use orchestra_graph::{Contract, EdgeIndex, Mapping, NodeIndex, Pipeline};
use serde_json::Value;

use crate::context::Context;
use crate::foreach;
use crate::id::{BranchPath, BranchStep, EffectId};
use crate::machine::set_graph_attributes;
use crate::saved::{SavedContext, SavedPath, SavedPhase, SavedState, SavedStateError};

/// An old and a new pipeline, with the mapping of their nodes and edges.
struct Change<'c> {
    old: &'c Pipeline,
    new: &'c Pipeline,
    mapping: &'c Mapping,
    /// The old and the new contract.
    contracts: [Contract; 2],
}

impl SavedState {
    /// Adapts the state to a changed pipeline. The counters of removed nodes and edges are dropped. The current node of
    /// the run must still exist and be of the same kind. The context must meet the contract of the new pipeline, as far as
    /// it differs from that of the old one.
    ///
    /// ```
    /// use orchestra_core::{Context, Machine, Mapping};
    /// # use orchestra_graph::{Source, load};
    /// # let of = |text: &str| load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let old = of("digraph { start -> build -> exit }");
    /// let machine = Machine::start(old.clone(), Context::new(), 7, &mut Vec::new());
    /// let over = |new: &str| {
    ///     let new = of(new);
    ///     machine.saved().carry_over(&old, &new, &Mapping::between(&old, &new))
    /// };
    /// assert!(over("digraph { start -> lint -> build -> exit }").is_ok());
    /// let error = over("digraph { start -> lint -> exit }").unwrap_err();
    /// assert_eq!(error.to_string(), "the run stands at `build`, which is gone");
    /// ```
    ///
    /// # Errors
    /// Returns an error if the current node of the run, or a branch of an open block, no longer exists or has changed
    /// in an incompatible way. Returns an error if the context lacks an input that is required only now, or has a value
    /// of a key whose type changed; [`SavedStateError::is_contract_violation`] tells this error from the others.
    pub fn carry_over(
        mut self,
        old: &Pipeline,
        new: &Pipeline,
        mapping: &Mapping,
    ) -> Result<SavedState, SavedStateError> {
        let change = Change {
            old,
            new,
            mapping,
            contracts: [old, new].map(Contract::from_pipeline),
        };
        if let SavedContext::All(context) = &self.main.context {
            change.inputs(|key| context.get(key))?;
        }
        change.path(&mut self.main)?;
        let taken = std::mem::take(&mut self.totals.taken);
        self.totals.taken = change.edges(taken);
        let spent = std::mem::take(&mut self.totals.spent).into_iter();
        self.totals.spent = spent
            .filter_map(|(node, usage)| Some((change.node(node)?, usage)))
            .collect();
        Ok(self)
    }
}

impl BranchPath {
    /// Returns the same path in a changed pipeline; `None` if one of its branches was removed.
    fn carried_over(&self, mapping: &Mapping) -> Option<BranchPath> {
        self.steps().iter().try_fold(BranchPath::default(), |path, step| {
            Some(path.then(BranchStep {
                fan_out: mapping.node(step.fan_out)?,
                edge: mapping.edge(step.edge)?,
                ..*step
            }))
        })
    }
}

impl EffectId {
    /// Returns the id of the same effect in a changed pipeline; `None` if its node or branch was removed.
    pub fn carried_over(&self, mapping: &Mapping) -> Option<EffectId> {
        Some(EffectId {
            branch: self.branch.carried_over(mapping)?,
            node: mapping.node(self.node)?,
            ..*self
        })
    }
}

impl Change<'_> {
    fn node(&self, node: u32) -> Option<u32> {
        self.mapping.node(NodeIndex(node)).map(|node| node.0)
    }

    fn edge(&self, edge: u32) -> Option<u32> {
        self.mapping.edge(EdgeIndex(edge)).map(|edge| edge.0)
    }

    fn name(&self, node: u32) -> &str {
        self.old.stage(NodeIndex(node)).id()
    }

    /// Maps the entries of nodes that still exist, in the order of the node table.
    fn nodes(&self, list: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
        let kept = list.into_iter();
        let mut kept: Vec<_> = kept
            .filter_map(|(node, count)| Some((self.node(node)?, count)))
            .collect();
        kept.sort_unstable();
        kept
    }

    fn edges(&self, list: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
        let kept = list.into_iter();
        let mut kept: Vec<_> = kept
            .filter_map(|(edge, count)| Some((self.edge(edge)?, count)))
            .collect();
        kept.sort_unstable();
        kept
    }

    fn inputs<'v>(&self, value: impl Fn(&str) -> Option<&'v Value>) -> Result<(), SavedStateError> {
        let [old, new] = &self.contracts;
        new.check_new_inputs(old, value)
            .map_err(SavedStateError::contract)
    }

    fn types<'v>(&self, value: impl Fn(&str) -> Option<&'v Value>) -> Result<(), SavedStateError> {
        let [old, new] = &self.contracts;
        new.check_changed_types(old, value)
            .map_err(SavedStateError::contract)
    }

    fn path(&self, path: &mut SavedPath) -> Result<(), SavedStateError> {
        match &path.context {
            SavedContext::All(context) => self.types(|key| context.get(key))?,
            SavedContext::Changed(changed) => self.types(|key| changed.get(key)?.first())?,
        }
        let at = path.at.node;
        let waits = !matches!(path.phase, SavedPhase::Idle);
        path.at.node = match self.node(at) {
            Some(node) => node,
            None if waits => {
                return Err(SavedStateError::new(format!(
                    "the run stands at `{}`, which is gone",
                    self.name(at)
                )));
            }
            // A branch that has ended has no current node.
            None => self.new.start.0,
        };
        if waits && !self.mapping.same_shape(NodeIndex(at)) {
            return Err(SavedStateError::new(format!(
                "the run stands at `{}`, which is of another kind now",
                self.name(at)
            )));
        }
        path.visits = self.nodes(std::mem::take(&mut path.visits));
        path.retries = self.nodes(std::mem::take(&mut path.retries));
        path.revisits = self.edges(std::mem::take(&mut path.revisits));
        path.at.edge = path.at.edge.and_then(|edge| self.edge(edge));
        path.completed = path
            .completed
            .iter()
            .filter_map(|node| self.node(*node))
            .collect();
        path.last.node = path.last.node.and_then(|node| self.node(node));
        path.outcomes.retain_mut(|outcome| match self.node(outcome.0) {
            Some(node) => {
                outcome.0 = node;
                let branch = BranchPath::from_saved(&outcome.4).carried_over(self.mapping);
                outcome.4 = branch.unwrap_or_default().to_saved();
                true
            }
            None => false,
        });
        path.outcomes.sort_by_key(|outcome| outcome.0);
        path.failing.retain_mut(|failing| match self.node(failing.0) {
            Some(node) => {
                failing.0 = node;
                true
            }
            None => false,
        });
        path.errors.retain_mut(|error| match self.node(error.0) {
            Some(node) => {
                error.0 = node;
                true
            }
            None => false,
        });
        if let SavedContext::All(context) = &mut path.context {
            self.update_graph_attributes(context);
        }
        let SavedPhase::Parallel(block) = &mut path.phase else {
            return Ok(());
        };
        if !self.mapping.same_join(NodeIndex(at)) {
            return Err(SavedStateError::new(format!(
                "the branches of `{}` are open, and join elsewhere now",
                self.name(at)
            )));
        }
        // The branches that have yet to begin take their items from the list.
        let list = |pipeline: &Pipeline, node: u32| {
            let stage = pipeline.stage(NodeIndex(node));
            foreach::list_key(stage).map(str::to_owned)
        };
        if self.node(at).map(|node| list(self.new, node)) != Some(list(self.old, at)) {
            return Err(SavedStateError::new(format!(
                "the branches of `{}` are open, and their list is another one now",
                self.name(at)
            )));
        }
        block.visits = self.nodes(std::mem::take(&mut block.visits));
        for branch in &mut block.branches {
            let row = self.old.edge(EdgeIndex(branch.edge));
            branch.edge = self.edge(branch.edge).ok_or_else(|| {
                SavedStateError::new(format!(
                    "the branch `{}` -> `{}` is open, and its edge is gone",
                    self.name(row.from.0),
                    self.name(row.to.0)
                ))
            })?;
            if let Some(path) = &mut branch.path {
                self.path(path)?;
            }
        }
        if !block
            .branches
            .is_sorted_by_key(|branch| (branch.edge, branch.item))
        {
            return Err(SavedStateError::new(format!(
                "the branches of `{}` are open, and stand in another order now",
                self.name(at)
            )));
        }
        Ok(())
    }

    /// Replaces the attributes of the old graph with those of the new one, except those that the run has changed.
    fn update_graph_attributes(&self, context: &mut Context) {
        let [mut before, mut after] = [Context::new(), Context::new()];
        set_graph_attributes(self.old, &mut before);
        set_graph_attributes(self.new, &mut after);
        for (key, value) in before.iter() {
            if context.get(key) == Some(value) && after.get(key).is_none() {
                context.remove(key);
            }
        }
        for (key, value) in after.iter() {
            if context.get(key) == before.get(key) {
                context.set(key, value.clone());
            }
        }
    }
}
