//! The handler kinds of a program as constant data: the attributes that each reads and the words that it returns.

use crate::into_outcome::Words;

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
/// let violations = check_registry(&pipeline, &registry);
/// assert_eq!(violations[0].code, "attribute_value");
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
/// let violations = check_registry(&pipeline, &registry);
/// assert_eq!((violations[0].code, &*violations[0].node), ("missing_attribute", "ship"));
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
/// let violations = check_registry(&pipeline, &registry);
/// assert_eq!((violations.len(), violations[0].code, &*violations[0].node), (1, "missing_handler", "b"));
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
/// use orchestra_engine::{HandlerSet, Kinds};
/// let Kinds::Both(first, second) = <((), ())>::KINDS else { panic!("two sets are joined") };
/// assert!(matches!((first, second), (Kinds::List([]), Kinds::List([]))));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Kinds {
    /// A list of kinds.
    List(&'static [KindSpec]),
    /// The kinds of two sets.
    Both(&'static Kinds, &'static Kinds),
}
