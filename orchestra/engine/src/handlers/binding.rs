//! Bindings of compiled pipelines to handlers. A pipeline cannot be started with handlers of another type.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use orchestra_graph::{Pipeline, SharedPipeline};

use crate::handlers::handler_set::HandlerSet;

/// A pipeline that handlers of type `H` can run.
///
/// A compiled pipeline implements this only for the handlers that it was checked against when the program was built. A
/// pipeline that was loaded at run time implements it for all handlers, because the engine compares the two when it
/// starts a run. `orchestra::bind!` implements it for a type of the program.
///
/// `H` is a parameter of the trait and not an associated type, so that a public pipeline can be bound to private
/// handlers. A compiled pipeline is bound to at most one `H`.
///
/// ```
/// use orchestra_engine::{Binding, Engine, SharedPipeline, Startable};
/// # use orchestra_graph::{Pipeline, Source, load};
/// # use std::sync::LazyLock;
/// # static HELLO: LazyLock<Pipeline> = LazyLock::new(|| {
/// #     let source = Source::new("hello.dot", "digraph hello { start -> exit }");
/// #     load(source, &Default::default()).pipeline().expect("sound")
/// # });
///
/// /// A type as `orchestra::bind!` generates it.
/// struct Hello;
/// impl Binding<()> for Hello {
///     fn into_pipeline(self) -> SharedPipeline {
///         SharedPipeline::Static(&HELLO)
///     }
/// }
/// impl Startable<()> for Hello {}
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let result = Engine::builder().build()?.start(Hello, ()).await?.wait().await?;
/// assert_eq!(result.path, ["start", "exit"]);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "this pipeline is not bound to these handlers, so they cannot run it",
    label = "not bound to these handlers",
    note = "bind it to its handlers with `pipeline!(.., handlers = MyHandlers)` or `orchestra::bind!`"
)]
pub trait Binding<H: HandlerSet>: Sized {
    /// Returns the pipeline.
    fn into_pipeline(self) -> SharedPipeline;

    /// Returns the project configuration that the pipeline was checked with. Returns `None` if the configuration is not
    /// part of the program.
    fn configuration(&self) -> Option<CompiledConfiguration> {
        None
    }

    /// Returns the locked versions that differ from the pipeline, if the program contains them. A run that was started with
    /// one of them is resumed with it (rule U5).
    fn versions(&self) -> &'static [CompiledVersion] {
        &[]
    }
}

impl<H: HandlerSet> Binding<H> for SharedPipeline {
    fn into_pipeline(self) -> SharedPipeline {
        self
    }
}

impl<H: HandlerSet> Binding<H> for Pipeline {
    fn into_pipeline(self) -> SharedPipeline {
        self.into()
    }
}

impl<H: HandlerSet> Binding<H> for Arc<Pipeline> {
    fn into_pipeline(self) -> SharedPipeline {
        self.into()
    }
}

impl<H: HandlerSet> Binding<H> for &'static Pipeline {
    fn into_pipeline(self) -> SharedPipeline {
        self.into()
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

/// A locked version of a compiled pipeline, as constant data. `pipeline!(.., lock)` generates a list of them, `VERSIONS`.
///
/// ```
/// use orchestra_engine::{CompiledVersion, PinnedSource};
/// # use orchestra_graph::{Pipeline, Source, load};
/// # use std::sync::LazyLock;
/// # static HELLO: LazyLock<Pipeline> = LazyLock::new(|| {
/// #     let source = Source::new("hello.dot", "digraph hello { start -> exit }");
/// #     load(source, &Default::default()).pipeline().expect("sound")
/// # });
/// let version = CompiledVersion { number: 1, hash: "sha256:00", pipeline: &HELLO };
/// assert_ne!(PinnedSource::from_pipeline(version.pipeline).hash, version.hash, "the lock file was edited");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CompiledVersion {
    /// The number of the version.
    pub number: u32,
    /// The hash of the version in the lock file.
    pub hash: &'static str,
    /// The pipeline.
    pub pipeline: &'static Pipeline,
}

/// The marker of a generated module that is bound to handlers. `pipeline!` implements it if handlers are named.
///
/// ```
/// use orchestra_engine::{Binding, Bound, Compiled};
/// # use orchestra_graph::{Pipeline, Source, load};
/// # use std::sync::LazyLock;
/// # static HELLO: LazyLock<Pipeline> = LazyLock::new(|| {
/// #     let source = Source::new("hello.dot", "digraph hello { start -> exit }");
/// #     load(source, &Default::default()).pipeline().expect("sound")
/// # });
///
/// /// The marker that `pipeline!(.., handlers = ())` generates in its module.
/// struct Mark;
/// impl Bound<()> for Mark {}
///
/// let compiled: Compiled<Mark> = Compiled::new(&HELLO);
/// assert_eq!(Binding::<()>::into_pipeline(&compiled).name, "hello");
/// ```
#[diagnostic::on_unimplemented(
    message = "this pipeline is not bound to these handlers, so they cannot run it",
    label = "not bound to these handlers",
    note = "bind it to its handlers with `pipeline!(.., handlers = MyHandlers)` or `orchestra::bind!`"
)]
pub trait Bound<H>: 'static {}

/// A compiled pipeline: constant data, with a marker type that determines the handlers that it is bound to.
///
/// ```
/// use orchestra_engine::{Bound, Compiled, Engine};
/// # use orchestra_graph::{Pipeline, Source, load};
/// # use std::sync::LazyLock;
/// # static HELLO: LazyLock<Pipeline> = LazyLock::new(|| {
/// #     let source = Source::new("hello.dot", "digraph hello { start -> exit }");
/// #     load(source, &Default::default()).pipeline().expect("sound")
/// # });
/// # struct Mark;
/// # impl Bound<()> for Mark {}
/// # impl orchestra_engine::StartsWithoutInputs for Mark {}
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
    versions: &'static [CompiledVersion],
    mark: PhantomData<fn() -> M>,
}

impl<M> Compiled<M> {
    /// Creates a compiled pipeline. Used by generated code.
    #[doc(hidden)]
    pub const fn new(pipeline: &'static Pipeline) -> Compiled<M> {
        Compiled {
            pipeline,
            configuration: None,
            versions: &[],
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

    /// Adds the locked versions. Used by generated code.
    #[doc(hidden)]
    pub const fn with_versions(mut self, versions: &'static [CompiledVersion]) -> Compiled<M> {
        self.versions = versions;
        self
    }

    /// Returns the locked versions that differ from the pipeline.
    pub const fn versions(&self) -> &'static [CompiledVersion] {
        self.versions
    }

    /// Returns a copy, which needs no `M: Copy`.
    pub(crate) const fn copied(&self) -> Compiled<M> {
        Compiled {
            pipeline: self.pipeline,
            configuration: self.configuration,
            versions: self.versions,
            mark: PhantomData,
        }
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
    fn into_pipeline(self) -> SharedPipeline {
        self.pipeline.into()
    }

    fn configuration(&self) -> Option<CompiledConfiguration> {
        self.configuration
    }

    fn versions(&self) -> &'static [CompiledVersion] {
        self.versions
    }
}

impl<M: Bound<H>, H: HandlerSet> Binding<H> for &Compiled<M> {
    fn into_pipeline(self) -> SharedPipeline {
        self.pipeline.into()
    }

    fn configuration(&self) -> Option<CompiledConfiguration> {
        self.configuration
    }

    fn versions(&self) -> &'static [CompiledVersion] {
        self.versions
    }
}
