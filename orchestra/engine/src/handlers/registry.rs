//! The handlers of a program by kind (Attractor 4.2).

use std::sync::Arc;

use crate::handlers::handler::Handler;
use crate::handlers::kinds::KindSpec;

/// A registry of handlers by kind; `#[handlers]` and `#[handler]` fill it.
///
/// ```
/// use std::sync::Arc;
/// use orchestra_engine::{Handler, HandlerFuture, KindSpec, Outcome, Registry, StageContext, Words};
/// struct Lint;
/// impl Handler for Lint {
///     fn run<'a>(&'a self, _: StageContext) -> HandlerFuture<'a> {
///         Box::pin(async { Outcome::success().into() })
///     }
/// }
/// let mut registry = Registry::default();
/// registry.add(KindSpec { kind: "lint.run", fields: &[], words: Words::Open }, Arc::new(Lint));
/// assert!(registry.get("lint.run").is_some());
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    /// Programs have few kinds, and each is looked up once per run, so a list is faster than a map.
    handlers: Vec<(KindSpec, Arc<dyn Handler>)>,
}

impl Registry {
    /// Adds a handler. It replaces an earlier handler of the same kind.
    pub fn add(&mut self, spec: KindSpec, handler: Arc<dyn Handler>) {
        match self
            .handlers
            .iter_mut()
            .find(|(present, _)| present.kind == spec.kind)
        {
            Some(present) => *present = (spec, handler),
            None => self.handlers.push((spec, handler)),
        }
    }

    fn find(&self, kind: &str) -> Option<&(KindSpec, Arc<dyn Handler>)> {
        self.handlers.iter().find(|(spec, _)| spec.kind == kind)
    }

    /// Returns the handler of a kind.
    pub fn get(&self, kind: &str) -> Option<&Arc<dyn Handler>> {
        self.find(kind).map(|(_, handler)| handler)
    }

    /// Returns the requirements of the handler of a kind.
    pub fn spec(&self, kind: &str) -> Option<&KindSpec> {
        self.find(kind).map(|(spec, _)| spec)
    }

    /// Returns the kinds that have a handler.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.handlers.iter().map(|(spec, _)| spec.kind)
    }
}
