//! The declared values of a compiled pipeline as Rust types: its inputs, and its results.

use std::fmt;

use orchestra_core::Context;
use orchestra_graph::SharedPipeline;
use serde_json::{Map, Value};

use crate::handlers::binding::{Binding, Bound, Compiled, CompiledConfiguration, CompiledVersion};
use crate::handlers::handler_set::HandlerSet;

/// A Rust type for the values of a declared key (rule T1).
///
/// ```
/// use orchestra_engine::ContextValue;
/// assert_eq!(i64::from_value(&7.into()), Some(7));
/// assert_eq!(i64::from_value(&"7".into()), None);
/// assert_eq!(vec!["a".to_owned()].into_value(), serde_json::json!(["a"]));
/// ```
pub trait ContextValue: Sized {
    /// Converts to the value in the context.
    fn into_value(self) -> Value;

    /// Converts from the value in the context. Returns `None` if it has another type.
    fn from_value(value: &Value) -> Option<Self>;
}

impl ContextValue for String {
    fn into_value(self) -> Value {
        Value::String(self)
    }

    fn from_value(value: &Value) -> Option<String> {
        value.as_str().map(str::to_owned)
    }
}

impl ContextValue for i64 {
    fn into_value(self) -> Value {
        self.into()
    }

    fn from_value(value: &Value) -> Option<i64> {
        value.as_i64()
    }
}

impl ContextValue for f64 {
    fn into_value(self) -> Value {
        self.into()
    }

    fn from_value(value: &Value) -> Option<f64> {
        value.as_f64()
    }
}

impl ContextValue for bool {
    fn into_value(self) -> Value {
        Value::Bool(self)
    }

    fn from_value(value: &Value) -> Option<bool> {
        value.as_bool()
    }
}

impl ContextValue for Value {
    fn into_value(self) -> Value {
        self
    }

    fn from_value(value: &Value) -> Option<Value> {
        Some(value.clone()).filter(|value| !value.is_null())
    }
}

impl ContextValue for Map<String, Value> {
    fn into_value(self) -> Value {
        Value::Object(self)
    }

    fn from_value(value: &Value) -> Option<Map<String, Value>> {
        value.as_object().cloned()
    }
}

impl<T: ContextValue> ContextValue for Vec<T> {
    fn into_value(self) -> Value {
        self.into_iter().map(T::into_value).collect()
    }

    fn from_value(value: &Value) -> Option<Vec<T>> {
        value.as_array()?.iter().map(T::from_value).collect()
    }
}

/// A declared key with the Rust type of its values. A generated module has one for each key, in `keys`.
///
/// ```
/// use orchestra_engine::{Context, DeclaredKey};
/// const SCORE: DeclaredKey<i64> = DeclaredKey::new("score");
/// let context: Context = [("score", 7)].into_iter().collect();
/// assert_eq!((SCORE.name(), SCORE.get(&context)), ("score", Some(7)));
/// ```
pub struct DeclaredKey<T> {
    name: &'static str,
    value: std::marker::PhantomData<fn() -> T>,
}

impl<T: ContextValue> DeclaredKey<T> {
    /// Creates a key.
    pub const fn new(name: &'static str) -> DeclaredKey<T> {
        DeclaredKey {
            name,
            value: std::marker::PhantomData,
        }
    }

    /// Returns the key as the pipeline writes it.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the value in a context. Returns `None` if it is missing or has another type.
    pub fn get(&self, context: &Context) -> Option<T> {
        context.get(self.name).and_then(T::from_value)
    }
}

impl<T> fmt::Debug for DeclaredKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeclaredKey").field(&self.name).finish()
    }
}

/// The inputs of a compiled pipeline. `pipeline!` implements it for the type `Inputs` of a module.
///
/// ```
/// use orchestra_engine::{Bound, Compiled, DeclaredInputs, Engine};
/// # use orchestra_graph::{Pipeline, Source, load};
/// # use serde_json::Value;
/// # use std::sync::LazyLock;
/// # static RELEASE: LazyLock<Pipeline> = LazyLock::new(|| {
/// #     let source = Source::new("release.dot", "digraph { inputs=\"pr: int\"; start -> exit }");
/// #     load(source, &Default::default()).pipeline().expect("sound")
/// # });
/// # struct Mark;
/// # impl Bound<()> for Mark {}
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let release: Compiled<Mark> = Compiled::new(&RELEASE);
///
/// /// The inputs as `pipeline!` generates them.
/// struct Inputs {
///     pr: i64,
/// }
/// impl DeclaredInputs<Mark> for Inputs {
///     fn into_values(self) -> Vec<(&'static str, Value)> {
///         vec![("pr", self.pr.into())]
///     }
/// }
///
/// let engine = Engine::builder().build()?;
/// let run = engine.start(release.with(Inputs { pr: 42 }), ()).await?;
/// assert_eq!(run.wait().await?.context.text("pr"), "42");
/// # Ok(()) }
/// ```
pub trait DeclaredInputs<M> {
    /// Returns the values that are given, by their keys.
    fn into_values(self) -> Vec<(&'static str, Value)>;
}

/// The marker of a generated module whose pipeline has no required inputs. `pipeline!` implements it.
///
/// ```
/// use orchestra_engine::{Bound, StartsWithoutInputs};
/// struct Mark;
/// impl Bound<()> for Mark {}
/// impl StartsWithoutInputs for Mark {}
/// ```
#[diagnostic::on_unimplemented(
    message = "this pipeline has required inputs, and is started without them",
    label = "started without its inputs",
    note = "give it the inputs: `engine.start(release::PIPELINE.with(release::Inputs {{ .. }}), handlers)`"
)]
pub trait StartsWithoutInputs: 'static {}

/// A pipeline that handlers of type `H` can run, with the values that it needs to start.
///
/// A compiled pipeline with required inputs implements it only [together with them](Compiled::with). For all others the
/// engine checks the inputs when it starts a run.
///
/// ```
/// use orchestra_engine::{Engine, Startable};
/// # use orchestra_graph::{Source, load};
/// fn name(pipeline: impl Startable<()>) -> String {
///     pipeline.into_pipeline().name.to_string()
/// }
/// let loaded = load(Source::new("a.dot", "digraph a { start -> exit }"), &Default::default());
/// assert_eq!(name(loaded.pipeline().expect("sound")), "a");
/// ```
pub trait Startable<H: HandlerSet>: Binding<H> {
    /// Takes the values with which a run starts, by their keys.
    fn take_inputs(&mut self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }
}

impl<H: HandlerSet> Startable<H> for SharedPipeline {}
impl<H: HandlerSet> Startable<H> for orchestra_graph::Pipeline {}
impl<H: HandlerSet> Startable<H> for std::sync::Arc<orchestra_graph::Pipeline> {}
impl<H: HandlerSet> Startable<H> for &'static orchestra_graph::Pipeline {}
impl<M: Bound<H> + StartsWithoutInputs, H: HandlerSet> Startable<H> for Compiled<M> {}
impl<M: Bound<H> + StartsWithoutInputs, H: HandlerSet> Startable<H> for &Compiled<M> {}

/// A compiled pipeline with its inputs.
///
/// ```
/// use orchestra_engine::{Compiled, DeclaredInputs, WithInputs};
/// fn prepare<M, I: DeclaredInputs<M>>(pipeline: &Compiled<M>, inputs: I) -> WithInputs<M> {
///     pipeline.with(inputs)
/// }
/// ```
#[derive(Debug)]
pub struct WithInputs<M> {
    pipeline: Compiled<M>,
    values: Vec<(&'static str, Value)>,
}

impl<M> Compiled<M> {
    /// Returns the pipeline with its inputs, for [`Engine::start`](crate::Engine::start).
    pub fn with(&self, inputs: impl DeclaredInputs<M>) -> WithInputs<M> {
        WithInputs {
            pipeline: self.copied(),
            values: inputs.into_values(),
        }
    }
}

impl<M: Bound<H>, H: HandlerSet> Binding<H> for WithInputs<M> {
    fn into_pipeline(self) -> SharedPipeline {
        self.pipeline.into_pipeline()
    }

    fn configuration(&self) -> Option<CompiledConfiguration> {
        self.pipeline.configuration()
    }

    fn versions(&self) -> &'static [CompiledVersion] {
        self.pipeline.versions()
    }
}

impl<M: Bound<H>, H: HandlerSet> Startable<H> for WithInputs<M> {
    fn take_inputs(&mut self) -> Vec<(&'static str, Value)> {
        std::mem::take(&mut self.values)
    }
}
