//! The data that the driver needs to emit the events of stages.

use std::collections::HashMap;
use std::time::Duration;

use orchestra_core::{EffectId, Usage};

/// The data that the driver needs to emit the events of stages.
#[derive(Default)]
pub(crate) struct Emission {
    pub(crate) began: StageTimes,
    /// The usage of the attempt whose end is emitted next.
    pub(crate) used: Option<Box<(EffectId, Usage)>>,
}

/// The start times of running stages. The main path runs one stage at a time.
#[derive(Default)]
pub(crate) struct StageTimes {
    main: Duration,
    branches: HashMap<EffectId, Duration>,
}

impl StageTimes {
    pub(crate) fn set(&mut self, id: &EffectId, time: Duration) {
        if id.branch.is_empty() {
            self.main = time;
        } else {
            self.branches.insert(id.clone(), time);
        }
    }

    pub(crate) fn take(&mut self, id: &EffectId) -> Duration {
        if id.branch.is_empty() {
            self.main
        } else {
            self.branches.remove(id).unwrap_or_default()
        }
    }

    pub(crate) fn get(&self, id: &EffectId) -> Duration {
        if id.branch.is_empty() {
            self.main
        } else {
            self.branches.get(id).copied().unwrap_or_default()
        }
    }
}
