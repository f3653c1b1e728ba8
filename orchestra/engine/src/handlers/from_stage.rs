//! The arguments of annotated handlers: the context of the stage, or attributes of its node.

use std::time::Duration;

use orchestra_graph::table::Constant;

use crate::handlers::kinds::{FieldSpec, FieldType};
use crate::run::stage::StageContext;

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
/// let result = Engine::builder().build()?.start(pipeline, Ship).await?.wait().await?;
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
/// assert_eq!(u8::read(Some(Constant::Integer(7))), Ok(7));
/// assert_eq!(Option::<u8>::read(None), Ok(None));
/// assert_eq!(
///     u8::read(Some(Constant::Integer(300))),
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
    fn read(value: Option<Constant<&str>>) -> Result<Self, String>;
}

fn problem(expected: &str, found: Option<Constant<&str>>) -> String {
    match found {
        None => "is missing".to_owned(),
        Some(found) => format!("is `{}`, but should be {expected}", found.to_value()),
    }
}

impl AttributeField for String {
    const TYPE: FieldType = FieldType::String;
    const REQUIRED: bool = true;

    fn read(value: Option<Constant<&str>>) -> Result<String, String> {
        value
            .map(|value| value.to_value().to_string())
            .ok_or_else(|| problem("text", None))
    }
}

impl AttributeField for bool {
    const TYPE: FieldType = FieldType::Boolean;
    const REQUIRED: bool = true;

    fn read(value: Option<Constant<&str>>) -> Result<bool, String> {
        match value {
            Some(Constant::Boolean(value)) => Ok(value),
            Some(Constant::String(text)) if text == "true" || text == "false" => Ok(text == "true"),
            other => Err(problem("`true` or `false`", other)),
        }
    }
}

impl AttributeField for f64 {
    const TYPE: FieldType = FieldType::Float;
    const REQUIRED: bool = true;

    fn read(value: Option<Constant<&str>>) -> Result<f64, String> {
        match value {
            Some(Constant::Float(number)) => Ok(number),
            Some(Constant::Integer(number)) => Ok(number as f64),
            Some(Constant::String(text)) => text.trim().parse().map_err(|_| problem("a number", value)),
            other => Err(problem("a number", other)),
        }
    }
}

impl AttributeField for Duration {
    const TYPE: FieldType = FieldType::Duration;
    const REQUIRED: bool = true;

    fn read(value: Option<Constant<&str>>) -> Result<Duration, String> {
        let expected = "a duration such as `15m`";
        match value {
            Some(Constant::Duration(duration)) => Ok(duration),
            Some(Constant::Integer(seconds)) => u64::try_from(seconds)
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

            fn read(value: Option<Constant<&str>>) -> Result<$ty, String> {
                let number = match value {
                    Some(Constant::Integer(number)) => Some(number),
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

    fn read(value: Option<Constant<&str>>) -> Result<Option<T>, String> {
        value.map(|value| T::read(Some(value))).transpose()
    }
}
