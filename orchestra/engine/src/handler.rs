//! Handlers: the code that executes stages, and how a program supplies its own (Attractor 4.1, 4.12).

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use orchestra_core::Outcome;
use orchestra_graph::Stage;
use orchestra_graph::table::Constant;

use crate::registry::Registry;
use crate::stage::StageContext;
use crate::stage_end::{StageEnd, Suspension};

/// The future of an attempt.
pub type HandlerFuture<'a> = Pin<Box<dyn Future<Output = StageEnd> + Send + 'a>>;

/// A handler, which executes stages of one kind (Attractor 4.1). `#[handler]` turns a function into one.
///
/// If a handler panics, its stage fails. Dropping the future cancels the attempt.
///
/// ```
/// use orchestra_engine::{Engine, Handler, HandlerFuture, Outcome, StageContext};
/// # use orchestra_engine::{HandlerSet, KindSpec, Kinds, Registry, Words};
/// # use orchestra_graph::{Source, load};
/// # use std::sync::Arc;
///
/// struct Ship;
/// impl Handler for Ship {
///     fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
///         Box::pin(async move {
///             let target = stage.node().text("target").unwrap_or("nowhere").to_owned();
///             Outcome::success().set("shipped_to", target).into()
///         })
///     }
/// }
///
/// # const SHIP: KindSpec = KindSpec { kind: "ship.run", fields: &[], words: Words::Open };
/// # impl HandlerSet for Ship {
/// #     const KINDS: Kinds = Kinds::List(&[SHIP]);
/// #
/// #     fn register(self, registry: &mut Registry) {
/// #         registry.add(SHIP, Arc::new(self));
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "digraph { start -> ship -> exit; ship [type=\"ship.run\", target=production] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let result = Engine::builder().build()?.start_loaded(pipeline, Ship).await?.wait().await?;
/// assert_eq!(result.context.text("shipped_to"), "production");
/// # Ok(()) }
/// ```
pub trait Handler: Send + Sync {
    /// Executes one attempt of a stage.
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a>;

    /// Returns whether stages of this node may change files. A stage that may not needs no files of its own in a
    /// parallel block, and its files are not searched for changes. So return `false` only if that is certain.
    fn may_write(&self, stage: Stage<'_>) -> bool {
        let _ = stage;
        true
    }
}

/// The type of a custom attribute's value (Attractor 2.4).
///
/// ```
/// use orchestra_engine::{FieldSpec, FieldType, KindSpec, Registry, Words, check_registry};
/// # use orchestra_engine::{Handler, HandlerFuture, Outcome, StageContext};
/// # use std::sync::Arc;
/// # use orchestra_graph::{Source, load};
/// # struct Idle;
/// # impl Handler for Idle {
/// #     fn run<'a>(&'a self, _: StageContext) -> HandlerFuture<'a> {
/// #         Box::pin(async { Outcome::success().into() })
/// #     }
/// # }
/// const REPLICAS: FieldSpec = FieldSpec { name: "replicas", ty: FieldType::Integer, required: true };
/// const SHIP: KindSpec = KindSpec { kind: "ship", fields: &[&[REPLICAS]], words: Words::Open };
/// let mut registry = Registry::default();
/// registry.add(SHIP, Arc::new(Idle));
/// let text = "digraph { start -> ship -> exit; ship [type=ship, replicas=many] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let faults = check_registry(&pipeline, &registry);
/// assert_eq!(faults[0].code, "attribute_value");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A decimal number; a whole number is accepted too.
    Float,
    /// `true` or `false`.
    Boolean,
    /// A duration; a whole number means seconds.
    Duration,
    /// Any value.
    Any,
}

/// A custom attribute that a handler reads.
///
/// ```
/// use orchestra_engine::{FieldSpec, FieldType, KindSpec, Registry, Words, check_registry};
/// # use orchestra_engine::{Handler, HandlerFuture, Outcome, StageContext};
/// # use std::sync::Arc;
/// # use orchestra_graph::{Source, load};
/// # struct Idle;
/// # impl Handler for Idle {
/// #     fn run<'a>(&'a self, _: StageContext) -> HandlerFuture<'a> {
/// #         Box::pin(async { Outcome::success().into() })
/// #     }
/// # }
/// const TARGET: FieldSpec = FieldSpec { name: "target", ty: FieldType::String, required: true };
/// const SHIP: KindSpec = KindSpec { kind: "ship", fields: &[&[TARGET]], words: Words::Open };
/// let mut registry = Registry::default();
/// registry.add(SHIP, Arc::new(Idle));
/// let text = "digraph { start -> ship -> exit; ship [type=ship] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let faults = check_registry(&pipeline, &registry);
/// assert_eq!((faults[0].code, &*faults[0].node), ("missing_attribute", "ship"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FieldSpec {
    /// The name of the attribute.
    pub name: &'static str,
    /// The type of its value.
    pub ty: FieldType,
    /// `true` if the attribute is required.
    pub required: bool,
}

/// The outcome words that a handler may return (rule C4). `fail` is always possible.
///
/// ```
/// use orchestra_engine::{KindSpec, Registry, Words, check_registry};
/// # use orchestra_engine::{Handler, HandlerFuture, Outcome, StageContext};
/// # use std::sync::Arc;
/// # use orchestra_graph::{Source, load};
/// # struct Idle;
/// # impl Handler for Idle {
/// #     fn run<'a>(&'a self, _: StageContext) -> HandlerFuture<'a> {
/// #         Box::pin(async { Outcome::success().into() })
/// #     }
/// # }
/// const SHIP: KindSpec = KindSpec { kind: "ship", fields: &[], words: Words::Only(&["done", "held"]) };
/// let mut registry = Registry::default();
/// registry.add(SHIP, Arc::new(Idle));
/// let text = r#"digraph { start -> ship; ship [type=ship, outcomes="don"]
///     ship -> exit [condition="outcome=don"] }"#;
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let faults = check_registry(&pipeline, &registry);
/// assert_eq!(faults[0].code, "outcome_never_returned");
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Words {
    /// The built-in words, and those that the node declares with `outcomes`.
    Open,
    /// Only these words.
    Only(&'static [&'static str]),
}

/// The requirements of a handler kind for the nodes that use it, known when the program is built (Attractor 4.12).
///
/// ```
/// use orchestra_engine::{KindSpec, Registry, Words, check_registry};
/// # use orchestra_engine::{Handler, HandlerFuture, Outcome, StageContext};
/// # use std::sync::Arc;
/// # use orchestra_graph::{Source, load};
/// # struct Idle;
/// # impl Handler for Idle {
/// #     fn run<'a>(&'a self, _: StageContext) -> HandlerFuture<'a> {
/// #         Box::pin(async { Outcome::success().into() })
/// #     }
/// # }
/// const SHIP: KindSpec = KindSpec { kind: "ship", fields: &[], words: Words::Open };
/// let mut registry = Registry::default();
/// registry.add(SHIP, Arc::new(Idle));
/// let text = "digraph { start -> a -> b -> exit; a [type=ship]; b [type=deploy] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let faults = check_registry(&pipeline, &registry);
/// assert_eq!((faults.len(), faults[0].code, &*faults[0].node), (1, "missing_handler", "b"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KindSpec {
    /// The handler kind, which is the `type` of its nodes.
    pub kind: &'static str,
    /// The attributes that the handler reads; one slice for each of its arguments.
    pub fields: &'static [&'static [FieldSpec]],
    /// The outcome words that the handler may return.
    pub words: Words,
}

/// The kinds of a handler set, as constant data.
///
/// ```
/// use orchestra_engine::{Builtin, HandlerSet, Kinds};
/// let Kinds::Both(first, second) = <(Builtin, ())>::KINDS else { panic!("two sets are joined") };
/// assert!(matches!((first, second), (Kinds::List([]), Kinds::List([]))));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Kinds {
    /// A list of kinds.
    List(&'static [KindSpec]),
    /// The kinds of two sets.
    Both(&'static Kinds, &'static Kinds),
}

/// A set of handlers: a type marked with `#[handlers]` or `#[handler]`, or a tuple of such types.
///
/// ```
/// use orchestra_engine::{Engine, HandlerSet, KindSpec, Kinds, Registry, Words};
/// # use orchestra_engine::{Handler, HandlerFuture, Outcome, StageContext};
/// # use orchestra_graph::{Source, load};
/// use std::sync::Arc;
/// # struct Ship;
/// # impl Handler for Ship {
/// #     fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
/// #         Box::pin(async move {
/// #             let target = stage.node().text("target").unwrap_or("nowhere").to_owned();
/// #             Outcome::success().set("shipped_to", target).into()
/// #         })
/// #     }
/// # }
///
/// /// What `#[handler("ship.run")]` writes; `Ship` is a `Handler`.
/// const SHIP: KindSpec = KindSpec { kind: "ship.run", fields: &[], words: Words::Open };
/// impl HandlerSet for Ship {
///     const KINDS: Kinds = Kinds::List(&[SHIP]);
///
///     fn register(self, registry: &mut Registry) {
///         registry.add(SHIP, Arc::new(self));
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = "digraph { start -> ship -> exit; ship [type=\"ship.run\", target=production] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let result = Engine::builder().build()?.start_loaded(pipeline, Ship).await?.wait().await?;
/// assert_eq!(result.context.text("shipped_to"), "production");
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of handlers",
    label = "not a set of handlers",
    note = "mark its `impl` block with `#[orchestra::handlers]`, a function with `#[orchestra::handler(\"KIND\")]`, \
            or give a tuple of such sets"
)]
pub trait HandlerSet: Send + Sync + Sized + 'static {
    /// The kinds that the set handles.
    const KINDS: Kinds;

    /// Adds the handlers to a registry. A later handler of the same kind replaces an earlier one.
    fn register(self, registry: &mut Registry);
}

impl HandlerSet for () {
    const KINDS: Kinds = Kinds::List(&[]);

    fn register(self, _: &mut Registry) {}
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: HandlerSet),+> HandlerSet for ($($name,)+) {
            const KINDS: Kinds = tuples!(@kinds $($name)+);

            #[allow(non_snake_case)]
            fn register(self, registry: &mut Registry) {
                let ($($name,)+) = self;
                $($name.register(registry);)+
            }
        }
    };
    (@kinds $last:ident) => { $last::KINDS };
    (@kinds $first:ident $($rest:ident)+) => { Kinds::Both(&$first::KINDS, &tuples!(@kinds $($rest)+)) };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);

/// An argument of a handler: the context of the stage, or attributes of the node with `#[derive(Attributes)]`.
///
/// ```
/// use orchestra_engine::{AttributeError, AttributeField, FieldSpec, FieldType, FromStage, StageContext};
/// # use orchestra_engine::{Engine, Handler, HandlerFuture, HandlerSet, IntoOutcome, KindSpec, Kinds};
/// # use orchestra_engine::{Outcome, Registry, Words};
/// # use orchestra_graph::{Source, load};
/// # use std::sync::Arc;
///
/// /// What `#[derive(Attributes)]` writes for a struct with one field.
/// struct Target(String);
/// impl FromStage for Target {
///     const FIELDS: &'static [FieldSpec] =
///         &[FieldSpec { name: "target", ty: FieldType::String, required: true }];
///
///     fn from_stage(stage: &StageContext) -> Result<Target, AttributeError> {
///         String::read(stage.attribute("target")).map(Target).map_err(|problem| AttributeError {
///             node: stage.node().id().to_owned(),
///             name: "target".to_owned(),
///             problem,
///         })
///     }
/// }
///
/// # struct Ship;
/// # impl Handler for Ship {
/// #     fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
/// #         Box::pin(async move {
/// #             let found = Target::from_stage(&stage);
/// #             found.map(|target| Outcome::success().set("shipped_to", target.0)).into_stage_end()
/// #         })
/// #     }
/// # }
/// # const SHIP: KindSpec = KindSpec { kind: "ship.run", fields: &[], words: Words::Open };
/// # impl HandlerSet for Ship {
/// #     const KINDS: Kinds = Kinds::List(&[SHIP]);
/// #
/// #     fn register(self, registry: &mut Registry) {
/// #         registry.add(SHIP, Arc::new(self));
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "digraph { start -> ship -> exit; ship [type=\"ship.run\", target=production] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let result = Engine::builder().build()?.start_loaded(pipeline, Ship).await?.wait().await?;
/// assert_eq!(result.context.text("shipped_to"), "production");
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler",
    label = "not an argument of a handler",
    note = "arguments are `StageContext`, and structs that derive `orchestra::Attributes`"
)]
pub trait FromStage: Sized {
    /// The custom attributes that the argument reads.
    const FIELDS: &'static [FieldSpec];

    /// Creates the argument.
    ///
    /// # Errors
    /// An attribute is missing or has the wrong type.
    fn from_stage(stage: &StageContext) -> Result<Self, AttributeError>;
}

impl FromStage for StageContext {
    const FIELDS: &'static [FieldSpec] = &[];

    fn from_stage(stage: &StageContext) -> Result<Self, AttributeError> {
        Ok(stage.clone())
    }
}

/// The error of a node attribute that is missing or has the wrong type.
///
/// ```
/// use orchestra_engine::{AttributeError, AttributeField, IntoOutcome};
/// let read = u8::read(None).map_err(|problem| AttributeError {
///     node: "review".to_owned(),
///     name: "strictness".to_owned(),
///     problem,
/// });
/// let outcome = read.map(|_| ()).into_outcome();
/// assert_eq!(outcome.failure_reason.as_deref(), Some("attribute `strictness` of node `review` is missing"));
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("attribute `{name}` of node `{node}` {problem}")]
pub struct AttributeError {
    /// The id of the node.
    pub node: String,
    /// The name of the attribute.
    pub name: String,
    /// The problem, such as "is missing".
    pub problem: String,
}

/// The type of a field in a struct that derives `Attributes`.
///
/// ```
/// use orchestra_engine::AttributeField;
/// use orchestra_graph::table::Constant;
/// assert_eq!(u8::read(Some(&Constant::Integer(7))), Ok(7));
/// assert_eq!(Option::<u8>::read(None), Ok(None));
/// assert_eq!(
///     u8::read(Some(&Constant::Integer(300))),
///     Err("is `300`, but should be a whole number that fits `u8`".to_owned())
/// );
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot hold an attribute",
    label = "not the type of an attribute",
    note = "use `String`, an integer, `f64`, `bool`, `std::time::Duration`, or an `Option` of one of these"
)]
pub trait AttributeField: Sized {
    /// The type of the value.
    const TYPE: FieldType;
    /// `true` if the attribute is required.
    const REQUIRED: bool;

    /// Reads the value.
    ///
    /// # Errors
    /// Returns the problem, such as "is missing".
    fn read(value: Option<&Constant>) -> Result<Self, String>;
}

fn problem(expected: &str, found: Option<&Constant>) -> String {
    match found {
        None => "is missing".to_owned(),
        Some(found) => format!("is `{}`, but should be {expected}", found.to_value()),
    }
}

impl AttributeField for String {
    const TYPE: FieldType = FieldType::String;
    const REQUIRED: bool = true;

    fn read(value: Option<&Constant>) -> Result<String, String> {
        value
            .map(|value| value.to_value().to_string())
            .ok_or_else(|| problem("text", None))
    }
}

impl AttributeField for bool {
    const TYPE: FieldType = FieldType::Boolean;
    const REQUIRED: bool = true;

    fn read(value: Option<&Constant>) -> Result<bool, String> {
        match value {
            Some(Constant::Boolean(value)) => Ok(*value),
            Some(Constant::String(text)) if text == "true" || text == "false" => Ok(text == "true"),
            other => Err(problem("`true` or `false`", other)),
        }
    }
}

impl AttributeField for f64 {
    const TYPE: FieldType = FieldType::Float;
    const REQUIRED: bool = true;

    fn read(value: Option<&Constant>) -> Result<f64, String> {
        match value {
            Some(Constant::Float(number)) => Ok(*number),
            Some(Constant::Integer(number)) => Ok(*number as f64),
            Some(Constant::String(text)) => text.trim().parse().map_err(|_| problem("a number", value)),
            other => Err(problem("a number", other)),
        }
    }
}

impl AttributeField for Duration {
    const TYPE: FieldType = FieldType::Duration;
    const REQUIRED: bool = true;

    fn read(value: Option<&Constant>) -> Result<Duration, String> {
        let expected = "a duration such as `15m`";
        match value {
            Some(Constant::Duration(duration)) => Ok(*duration),
            Some(Constant::Integer(seconds)) => u64::try_from(*seconds)
                .map(Duration::from_secs)
                .map_err(|_| problem(expected, value)),
            Some(Constant::String(text)) => {
                orchestra_graph::parse_duration(text.trim()).ok_or_else(|| problem(expected, value))
            }
            other => Err(problem(expected, other)),
        }
    }
}

macro_rules! integers {
    ($($ty:ty)+) => {
        $(impl AttributeField for $ty {
            const TYPE: FieldType = FieldType::Integer;
            const REQUIRED: bool = true;

            fn read(value: Option<&Constant>) -> Result<$ty, String> {
                let number = match value {
                    Some(Constant::Integer(number)) => Some(*number),
                    Some(Constant::String(text)) => text.trim().parse().ok(),
                    _ => None,
                };
                number.and_then(|number| <$ty>::try_from(number).ok()).ok_or_else(|| {
                    problem(concat!("a whole number that fits `", stringify!($ty), "`"), value)
                })
            }
        })+
    };
}

integers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

impl<T: AttributeField> AttributeField for Option<T> {
    const TYPE: FieldType = T::TYPE;
    const REQUIRED: bool = false;

    fn read(value: Option<&Constant>) -> Result<Option<T>, String> {
        value.map(|value| T::read(Some(value))).transpose()
    }
}

/// A return value of a handler: an [`Outcome`], nothing, an enum that derives `Outcome`, or a `Result` of one of these
/// (Attractor 5.2). An error fails the stage, and the reason includes the causes of the error. An error that was caused
/// by a [`Suspension`] suspends the run instead.
///
/// ```
/// use orchestra_engine::{IntoOutcome, Outcome, Status};
/// assert_eq!(().into_outcome().status, Status::Success);
/// let outcome = std::str::from_utf8(b"\xff").map(|_| Outcome::custom("read")).into_outcome();
/// assert_eq!(outcome.status, Status::Fail);
/// assert!(outcome.failure_reason.is_some_and(|reason| reason.contains("invalid utf-8")));
/// ```
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not an outcome",
    note = "return `Outcome`, `()`, an enum that derives `orchestra::Outcome`, or a `Result` of one of these"
)]
pub trait IntoOutcome {
    /// The outcome words that the value may become.
    const WORDS: Words;

    /// Returns the outcome.
    fn into_outcome(self) -> Outcome;

    /// Returns how the attempt ended.
    fn into_stage_end(self) -> StageEnd
    where
        Self: Sized,
    {
        self.into_outcome().into()
    }
}

impl IntoOutcome for Outcome {
    const WORDS: Words = Words::Open;

    fn into_outcome(self) -> Outcome {
        self
    }
}

impl IntoOutcome for () {
    const WORDS: Words = Words::Only(&["success"]);

    fn into_outcome(self) -> Outcome {
        Outcome::success()
    }
}

impl<T: IntoOutcome, E: Into<Box<dyn std::error::Error + Send + Sync>>> IntoOutcome for Result<T, E> {
    const WORDS: Words = T::WORDS;

    fn into_outcome(self) -> Outcome {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => Outcome::fail(chain(&*error.into())),
        }
    }

    fn into_stage_end(self) -> StageEnd {
        match self {
            Ok(value) => value.into_stage_end(),
            Err(error) => {
                let error = error.into();
                match Suspension::in_error(&*error) {
                    Some(suspension) => suspension.into(),
                    None => Outcome::fail(chain(&*error)).into(),
                }
            }
        }
    }
}

/// Formats an error and its causes in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
