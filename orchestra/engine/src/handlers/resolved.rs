//! The handlers of a pipeline, as a run uses them.

use std::sync::Arc;

use orchestra_graph::Stage;

use crate::handlers::handler::Handler;

/// A handler as a run uses it.
pub(crate) struct Resolved {
    pub(crate) handler: Arc<dyn Handler>,
    /// `true` if the handler applies a status file itself; otherwise the driver does.
    pub(crate) heeds_status: bool,
    /// `true` if the handler enforces the timeout itself and ends soon after its token is cancelled. The engine waits
    /// for it, so that nothing of it is left when the stage has ended.
    pub(crate) ends_itself: bool,
    /// `true` if the stages run child pipelines by the built-in handler.
    pub(crate) runs_children: bool,
}

/// The handlers of a pipeline, by the index of their kind.
pub(crate) struct Handlers {
    by_kind: Box<[Option<Resolved>]>,
}

impl Handlers {
    /// Creates the set from the handlers of the kinds, in the order of the kinds.
    pub(crate) fn new(by_kind: impl IntoIterator<Item = Option<Resolved>>) -> Handlers {
        Handlers {
            by_kind: by_kind.into_iter().collect(),
        }
    }

    /// Returns an empty set, for a run whose stages are not executed.
    pub(crate) fn none() -> Handlers {
        Handlers {
            by_kind: Box::default(),
        }
    }

    /// Returns the handler of a stage.
    pub(crate) fn handler(&self, stage: Stage<'_>) -> Option<&Resolved> {
        self.by_kind
            .get(stage.row().kind as usize)
            .and_then(Option::as_ref)
    }
}
