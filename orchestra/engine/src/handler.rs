//! Handlers: what runs a stage, and how a program supplies its own (Attractor 4.1, 4.12).

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use orchestra_core::Outcome;
use orchestra_graph::table::Constant;

use crate::registry::Registry;
use crate::stage::StageContext;

/// The future of a stage.
pub type HandlerFuture<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// Something that runs stages of one kind. `#[handler]` makes one of a function.
///
/// A handler that panics fails its stage; dropping the future cancels it.
pub trait Handler: Send + Sync {
    /// Runs one attempt of a stage.
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a>;
}

/// The type of a custom attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// A decimal number; a whole one is taken too.
    Float,
    /// `true` or `false`.
    Boolean,
    /// A span of time; a whole number means seconds.
    Duration,
    /// Any value.
    Any,
}

/// A custom attribute that a handler reads.
#[derive(Clone, Copy, Debug)]
pub struct FieldSpec {
    /// The attribute's name.
    pub name: &'static str,
    /// The type of its value.
    pub ty: FieldType,
    /// Whether it must be there.
    pub required: bool,
}

/// The outcome words that a handler may return (rule C4). `fail` may always happen.
#[derive(Clone, Copy, Debug)]
pub enum Words {
    /// The built-in words, and those that the node declares by `outcomes`.
    Open,
    /// These only.
    Only(&'static [&'static str]),
}

/// What a handler kind asks of the nodes that use it, known when the program is built.
#[derive(Clone, Copy, Debug)]
pub struct KindSpec {
    /// The handler kind, the `type` of its nodes.
    pub kind: &'static str,
    /// The attributes that it reads; one slice for each argument of the handler.
    pub fields: &'static [&'static [FieldSpec]],
    /// The outcome words that it may return.
    pub words: Words,
}

/// The kinds of a handler set, as constant data.
#[derive(Clone, Copy, Debug)]
pub enum Kinds {
    /// These.
    List(&'static [KindSpec]),
    /// Those of two sets.
    Both(&'static Kinds, &'static Kinds),
}

/// A set of handlers: a type marked by `#[handlers]` or `#[handler]`, or a tuple of such.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of handlers",
    label = "not a set of handlers",
    note = "mark its `impl` block with `#[orchestra::handlers]`, a function with `#[orchestra::handler(\"KIND\")]`, \
            or give a tuple of such sets"
)]
pub trait HandlerSet: Send + Sync + Sized + 'static {
    /// The kinds that the set handles.
    const KINDS: Kinds;

    /// Puts the handlers into a registry; a later one of the same kind replaces an earlier one.
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

/// An argument of a handler: the stage's context, or attributes of the node by `#[derive(Attributes)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a handler",
    label = "not an argument of a handler",
    note = "arguments are `StageContext`, and structs that derive `orchestra::Attributes`"
)]
pub trait FromStage: Sized {
    /// The custom attributes that the argument reads.
    const FIELDS: &'static [FieldSpec];

    /// Makes the argument.
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

/// A node's attribute that is missing or of the wrong type.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("attribute `{name}` of node `{node}` {problem}")]
pub struct AttributeError {
    /// The node.
    pub node: String,
    /// The attribute.
    pub name: String,
    /// What is wrong, such as "is missing".
    pub problem: String,
}

/// The type of a field of a struct that derives `Attributes`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot hold an attribute",
    label = "not the type of an attribute",
    note = "use `String`, an integer, `f64`, `bool`, `std::time::Duration`, or an `Option` of one of these"
)]
pub trait AttributeField: Sized {
    /// The type of the value.
    const TYPE: FieldType;
    /// Whether the attribute must be there.
    const REQUIRED: bool;

    /// Reads the value.
    ///
    /// # Errors
    /// Says what is wrong, such as "is missing".
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

/// What a handler may return: an [`Outcome`], nothing, an enum that derives `Outcome`, or a `Result` of one.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not an outcome",
    note = "return `Outcome`, `()`, an enum that derives `orchestra::Outcome`, or a `Result` of one of these"
)]
pub trait IntoOutcome {
    /// The words that it may become.
    const WORDS: Words;

    /// The outcome.
    fn into_outcome(self) -> Outcome;
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
}

/// An error with its causes in one line.
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
