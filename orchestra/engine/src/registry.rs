//! The handlers of a program by kind (Attractor 4.2).

use std::collections::HashMap;
use std::sync::Arc;

use crate::handler::{Handler, KindSpec};

/// Handlers by kind; `#[handlers]` and `#[handler]` fill it.
#[derive(Clone, Default)]
pub struct Registry {
    handlers: HashMap<&'static str, (KindSpec, Arc<dyn Handler>)>,
}

impl Registry {
    /// Adds a handler; an earlier one of the same kind is replaced.
    pub fn add(&mut self, spec: KindSpec, handler: Arc<dyn Handler>) {
        self.handlers.insert(spec.kind, (spec, handler));
    }

    /// The handler of a kind.
    pub fn get(&self, kind: &str) -> Option<&Arc<dyn Handler>> {
        self.handlers.get(kind).map(|(_, handler)| handler)
    }

    /// What the handler of a kind asks of its nodes.
    pub fn spec(&self, kind: &str) -> Option<&KindSpec> {
        self.handlers.get(kind).map(|(spec, _)| spec)
    }
}
