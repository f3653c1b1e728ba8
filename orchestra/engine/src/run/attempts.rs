//! The state of the attempts that a run executes: their cancellation tokens, their model usage, and the simulated
//! visits of nodes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use orchestra_core::{EffectId, Usage};
use orchestra_graph::NodeIndex;
use tokio_util::sync::CancellationToken;

use crate::lock::lock;
use crate::run::steering::Steering;

/// The state of the attempts that a run executes.
#[derive(Default)]
pub(crate) struct Attempts {
    pub(crate) tokens: CancellationTokens,
    pub(crate) usage: AttemptUsage,
    pub(crate) steering: Steering,
    /// The number of simulated visits of each node, not counting the first one.
    turns: Mutex<Vec<(NodeIndex, usize)>>,
    /// `true` if the run was resumed and no stage has learned it yet (rule D7).
    resumed: AtomicBool,
}

impl Attempts {
    /// Returns how often a node was simulated before, and counts one more visit.
    pub(crate) fn next_turn(&self, node: NodeIndex) -> usize {
        let mut counts = lock(&self.turns);
        match counts.iter_mut().find(|(of, _)| *of == node) {
            Some((_, turns)) => {
                *turns += 1;
                *turns
            }
            None => {
                counts.push((node, 0));
                0
            }
        }
    }

    /// Restores the number of simulated visits of each node.
    pub(crate) fn simulated_before(&self, turns: &[(u32, usize)]) {
        let turns = turns.iter().filter(|(_, turns)| *turns > 0);
        *lock(&self.turns) = turns.map(|(node, turns)| (NodeIndex(*node), turns - 1)).collect();
    }

    /// Marks the run as resumed.
    pub(crate) fn set_resumed(&self) {
        self.resumed.store(true, Ordering::Release);
    }

    /// Returns whether the run was resumed, and removes the mark.
    pub(crate) fn take_resumed(&self) -> bool {
        self.resumed.swap(false, Ordering::AcqRel)
    }
}

/// The cancellation tokens that stages requested.
#[derive(Default)]
pub(crate) struct CancellationTokens {
    /// `true` if any stage requested a token, so that other stages need not search the list.
    any: AtomicBool,
    list: Mutex<Vec<(EffectId, CancellationToken)>>,
}

impl CancellationTokens {
    /// Returns a token that is cancelled when this attempt is.
    pub(crate) fn get(&self, id: &EffectId) -> CancellationToken {
        let mut list = lock(&self.list);
        if let Some((_, token)) = list.iter().find(|(of, _)| of == id) {
            return token.clone();
        }
        let token = CancellationToken::new();
        list.push((id.clone(), token.clone()));
        self.any.store(true, Ordering::Release);
        token
    }

    /// Drops the token of an attempt that has ended. Cancels it if `cancel` is `true`.
    pub(crate) fn release(&self, id: &EffectId, cancel: bool) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut list = lock(&self.list);
        let Some(at) = list.iter().position(|(of, _)| of == id) else {
            return;
        };
        let (_, token) = list.swap_remove(at);
        drop(list);
        if cancel {
            token.cancel();
        }
    }
}

/// The model usage of running attempts.
#[derive(Default)]
pub(crate) struct AttemptUsage {
    /// `true` if any stage used a model, so that other stages need not search the list.
    any: AtomicBool,
    list: Mutex<Vec<(EffectId, Usage)>>,
}

impl AttemptUsage {
    /// Adds to the usage of an attempt.
    pub(crate) fn add(&self, id: &EffectId, usage: Usage) {
        let mut list = lock(&self.list);
        match list.iter_mut().find(|(of, _)| of == id) {
            Some((_, sum)) => *sum += usage,
            None => list.push((id.clone(), usage)),
        }
        self.any.store(true, Ordering::Release);
    }

    /// Takes the usage of an attempt that has ended.
    pub(crate) fn take(&self, id: &EffectId) -> Option<Usage> {
        if !self.any() {
            return None;
        }
        let mut list = lock(&self.list);
        let at = list.iter().position(|(of, _)| of == id)?;
        Some(list.swap_remove(at).1)
    }

    /// Marks that attempts may have used models before this process resumed the run.
    pub(crate) fn set_used_before(&self) {
        self.any.store(true, Ordering::Release);
    }

    /// Returns whether any attempt used models.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }
}
