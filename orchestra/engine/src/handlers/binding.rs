//! Bindings of compiled pipelines to handlers. A pipeline cannot be started with handlers of another type.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use orchestra_graph::Pipeline;

use crate::handlers::handler_set::HandlerSet;
use crate::handlers::kinds::Kinds;
use crate::handlers::registry::Registry;

/// A pipeline together with the type `H` of the handlers that it was checked against when the program was built.
///
/// `H` is a parameter of the trait and not an associated type, so that a public pipeline can be bound to private
/// handlers. A pipeline is bound to at most one `H`.
///
/// ```
/// use orchestra_engine::{Binding, Builtin, Engine};
/// # use orchestra_graph::{Pipeline, Source, load};
/// # use std::sync::LazyLock;
/// # static HELLO: LazyLock<Pipeline> = LazyLock::new(|| {
/// #     let source = Source::new("hello.dot", "digraph hello { start -> exit }");
/// #     load(source, &Default::default()).pipeline().expect("sound")
/// # });
///
/// /// What `orchestra::bind!` writes.
/// struct Hello;
/// impl Binding<Builtin> for Hello {
///     fn pipeline(&self) -> &'static Pipeline {
///         &HELLO
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let result = Engine::builder().build()?.start(Hello, ()).await?.wait().await?;
/// assert_eq!(result.path, ["start", "exit"]);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "this pipeline is not bound to handlers, so it cannot be run",
    label = "not bound to handlers",
    note = "say `pipeline!(.., handlers = MyHandlers)`, or bind it with `orchestra::bind!`"
)]
pub trait Binding<H: HandlerSet> {
    /// Returns the pipeline.
    fn pipeline(&self) -> &'static Pipeline;

    /// Returns the project configuration that the pipeline was checked with. Returns `None` if the configuration is not
    /// part of the program.
    fn configuration(&self) -> Option<CompiledConfiguration> {
        None
    }
}

/// A project configuration in constant data: its path, and the paths and texts of all files that it needs.
///
/// ```
/// use orchestra_engine::CompiledConfiguration;
/// let configuration = CompiledConfiguration {
///     path: "orchestra.yaml",
///     files: &[("orchestra.yaml", "backend: direct")],
/// };
/// assert_eq!(configuration.files[0].0, configuration.path);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompiledConfiguration {
    /// The path of the configuration file.
    pub path: &'static str,
    /// The path and text of each file, including the configuration file.
    pub files: &'static [(&'static str, &'static str)],
}

/// The marker of a generated module that is bound to handlers. `pipeline!` implements it if handlers are named.
///
/// ```
/// use orchestra_engine::{Binding, Bound, Builtin, Compiled};
/// # use orchestra_graph::{Pipeline, Source, load};
/// # use std::sync::LazyLock;
/// # static HELLO: LazyLock<Pipeline> = LazyLock::new(|| {
/// #     let source = Source::new("hello.dot", "digraph hello { start -> exit }");
/// #     load(source, &Default::default()).pipeline().expect("sound")
/// # });
///
/// /// What `pipeline!(.., handlers = Builtin)` writes into its module.
/// struct Mark;
/// impl Bound<Builtin> for Mark {}
///
/// let compiled: Compiled<Mark> = Compiled::new(&HELLO);
/// assert_eq!(Binding::<Builtin>::pipeline(&compiled).name, "hello");
/// ```
#[diagnostic::on_unimplemented(
    message = "this pipeline is not bound to handlers, so it cannot be run",
    label = "not bound to handlers",
    note = "say `pipeline!(.., handlers = MyHandlers)`, or bind it with `orchestra::bind!`"
)]
pub trait Bound<H>: 'static {}

/// A compiled pipeline: constant data, with a marker type that determines the handlers that it is bound to.
///
/// ```
/// use orchestra_engine::{Bound, Builtin, Compiled, Engine};
/// # use orchestra_graph::{Pipeline, Source, load};
/// # use std::sync::LazyLock;
/// # static HELLO: LazyLock<Pipeline> = LazyLock::new(|| {
/// #     let source = Source::new("hello.dot", "digraph hello { start -> exit }");
/// #     load(source, &Default::default()).pipeline().expect("sound")
/// # });
/// # struct Mark;
/// # impl Bound<Builtin> for Mark {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let hello: Compiled<Mark> = Compiled::new(&HELLO);
/// // `hello` is the `PIPELINE` of a generated module.
/// assert_eq!(hello.stage(hello.start).id(), "start");
/// let result = Engine::builder().build()?.start(hello, ()).await?.wait().await?;
/// assert!(result.is_success());
/// # Ok(()) }
/// ```
pub struct Compiled<M> {
    pipeline: &'static Pipeline,
    configuration: Option<CompiledConfiguration>,
    mark: PhantomData<fn() -> M>,
}

impl<M> Compiled<M> {
    /// Creates a compiled pipeline. Used by generated code.
    #[doc(hidden)]
    pub const fn new(pipeline: &'static Pipeline) -> Compiled<M> {
        Compiled {
            pipeline,
            configuration: None,
            mark: PhantomData,
        }
    }

    /// Adds the project configuration. Used by generated code.
    #[doc(hidden)]
    pub const fn configured(
        mut self,
        path: &'static str,
        files: &'static [(&'static str, &'static str)],
    ) -> Compiled<M> {
        self.configuration = Some(CompiledConfiguration { path, files });
        self
    }

    /// Returns the project configuration that the pipeline was checked with, if it is part of the program.
    pub const fn configuration(&self) -> Option<CompiledConfiguration> {
        self.configuration
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

    fn configuration(&self) -> Option<CompiledConfiguration> {
        self.configuration
    }
}

impl<B: Binding<H>, H: HandlerSet> Binding<H> for &B {
    fn pipeline(&self) -> &'static Pipeline {
        (*self).pipeline()
    }

    fn configuration(&self) -> Option<CompiledConfiguration> {
        (*self).configuration()
    }
}

/// The built-in handlers as a handler set. It only makes them visible to the reader: every engine has them already.
///
/// ```
/// use orchestra_engine::{Builtin, HandlerSet, Registry};
/// let mut registry = Registry::default();
/// Builtin.register(&mut registry);
/// assert_eq!(registry.kinds().count(), 0, "every engine has them already");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Builtin;

impl HandlerSet for Builtin {
    const KINDS: Kinds = Kinds::List(&[]);

    fn register(self, _: &mut Registry) {}
}

/// A value that provides a handler set: the set itself, or the set without [`Builtin`].
///
/// ```
/// use orchestra_engine::{Builtin, HandlerSet, Kinds, Registry, Supplies};
/// #[derive(Debug, PartialEq)]
/// struct Mine;
/// # impl HandlerSet for Mine {
/// #     const KINDS: Kinds = Kinds::List(&[]);
/// #     fn register(self, _: &mut Registry) {}
/// # }
///
/// fn start<S: HandlerSet>(handlers: impl Supplies<S>) -> S {
///     handlers.supply()
/// }
///
/// let (Builtin, mine): (Builtin, Mine) = start(Mine);
/// assert_eq!(mine, Mine);
/// ```
pub trait Supplies<S: HandlerSet> {
    /// Returns the set.
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
