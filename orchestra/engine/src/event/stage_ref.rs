//! The attempt of a stage in an event.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{NodeName, stage_label};

/// An attempt of a stage, as the events of the attempt name it.
///
/// It is displayed as the name of the attempt, such as `build#2/1` or `fan#1:left/build#1/1`.
///
/// ```
/// use orchestra_engine::{EventKind, RunEvent};
/// let line = br#"{"schema":"orchestra.event/1","seq":3,"time":"2026-11-21T15:30:00.042Z","run":"nightly",
///     "event":"StageStarted","node":"build","branch":"fan#1:left","index":1,"visit":1,"attempt":2}"#;
/// let EventKind::StageStarted { stage, .. } = RunEvent::from_json(line)?.kind else {
///     panic!("the event of another kind");
/// };
/// assert_eq!((&*stage.node, stage.attempt), ("build", 2));
/// assert_eq!(stage.to_string(), "fan#1:left/build#1/2");
/// # Ok::<(), orchestra_engine::EventError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageRef {
    /// The stage.
    pub node: NodeName,
    /// The branch of a parallel block. `None` on the main path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The number of stages that started earlier in the run.
    pub index: u64,
    /// The number of this visit of the node, from 1.
    pub visit: u32,
    /// The number of this attempt of the visit, from 1.
    pub attempt: u32,
}

impl StageRef {
    /// Returns the stage with its branch as people read it; see [`stage_label`].
    pub fn label(&self) -> String {
        stage_label(self.branch.as_deref(), &self.node)
    }
}

impl fmt::Display for StageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(branch) = &self.branch {
            write!(f, "{branch}/")?;
        }
        write!(f, "{}#{}/{}", self.node, self.visit, self.attempt)
    }
}
