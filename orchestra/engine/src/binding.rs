//! Binding a compiled pipeline to handlers: the wrong pair cannot be written.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use orchestra_graph::Pipeline;

use crate::handler::HandlerSet;

/// A pipeline together with the type `H` of the handlers that it was checked against when the program was built.
///
/// The handlers are an argument of the trait, not a type inside it, so that a public pipeline may be bound to private
/// handlers; there is never more than one of them for a pipeline.
#[diagnostic::on_unimplemented(
    message = "this pipeline is not bound to handlers, so it cannot be run",
    label = "not bound to handlers",
    note = "say `pipeline!(.., handlers = MyHandlers)`, or bind it with `orchestra::bind!`"
)]
pub trait Binding<H: HandlerSet> {
    /// The pipeline.
    fn pipeline(&self) -> &'static Pipeline;
}

/// The mark of a generated module that is bound to handlers; `pipeline!` implements it when handlers are named.
#[diagnostic::on_unimplemented(
    message = "this pipeline is not bound to handlers, so it cannot be run",
    label = "not bound to handlers",
    note = "say `pipeline!(.., handlers = MyHandlers)`, or bind it with `orchestra::bind!`"
)]
pub trait Bound<H>: 'static {}

/// A compiled pipeline: constant data, and the mark that tells what it is bound to.
pub struct Compiled<M> {
    pipeline: &'static Pipeline,
    mark: PhantomData<fn() -> M>,
}

impl<M> Compiled<M> {
    /// Used by generated code.
    #[doc(hidden)]
    pub const fn new(pipeline: &'static Pipeline) -> Compiled<M> {
        Compiled {
            pipeline,
            mark: PhantomData,
        }
    }
}

impl<M> Deref for Compiled<M> {
    type Target = Pipeline;

    fn deref(&self) -> &Pipeline {
        self.pipeline
    }
}

impl<M> fmt::Debug for Compiled<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Compiled").field(&self.pipeline.name).finish()
    }
}

impl<M: Bound<H>, H: HandlerSet> Binding<H> for Compiled<M> {
    fn pipeline(&self) -> &'static Pipeline {
        self.pipeline
    }
}

impl<B: Binding<H>, H: HandlerSet> Binding<H> for &B {
    fn pipeline(&self) -> &'static Pipeline {
        (*self).pipeline()
    }
}

/// The built-in handlers, named in a set for the reader; every engine has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Builtin;

impl HandlerSet for Builtin {
    const KINDS: crate::handler::Kinds = crate::handler::Kinds::List(&[]);

    fn register(self, _: &mut crate::registry::Registry) {}
}

/// A value that supplies a handler set: the set itself, or it without [`Builtin`].
pub trait Supplies<S: HandlerSet> {
    /// The set.
    fn supply(self) -> S;
}

impl<S: HandlerSet> Supplies<S> for S {
    fn supply(self) -> S {
        self
    }
}

impl<S: HandlerSet> Supplies<(Builtin, S)> for S {
    fn supply(self) -> (Builtin, S) {
        (Builtin, self)
    }
}

impl Supplies<Builtin> for () {
    fn supply(self) -> Builtin {
        Builtin
    }
}
