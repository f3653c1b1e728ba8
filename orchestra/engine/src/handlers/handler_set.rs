//! Sets of handlers, which a program passes to the engine (Attractor 4.12).

use crate::handlers::kinds::Kinds;
use crate::handlers::registry::Registry;

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
/// let result = Engine::builder().build()?.start(pipeline, Ship).await?.wait().await?;
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
