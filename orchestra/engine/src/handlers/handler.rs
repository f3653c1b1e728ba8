//! Handlers: the code that executes stages (Attractor 4.1, 4.12).

use std::future::Future;
use std::pin::Pin;

use orchestra_graph::Stage;

use crate::run::stage::StageContext;
use crate::stage_end::StageEnd;

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
/// let result = Engine::builder().build()?.start(pipeline, Ship).await?.wait().await?;
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
