//! Workflow as code for Rust: pipelines in Graphviz DOT, checked when the program is built.
//!
//! A pipeline is a graph: nodes are stages (model tasks, shell commands, questions to a person, functions of your
//! own), edges say what comes next and under which condition. [`pipeline!`] reads the file while your program is
//! built, refuses it with positions in the `.dot` file where it is wrong, and makes a typed module of it.
//!
//! ```
//! use orchestra::prelude::*;
//!
//! orchestra::pipeline! {
//!     /// Ships what has been approved.
//!     pub mod release = digraph release {
//!         goal = "Ship the release"
//!         start  -> review
//!         review [type="review.run", strictness=3, outcomes="approved,rejected"]
//!         review -> ship   [condition="outcome=approved"]
//!         review -> exit   [condition="outcome!=approved"]
//!         ship   [type="ship.run", target="production", timeout=15m]
//!         ship   -> exit
//!     },
//!     handlers = App;
//! }
//!
//! struct App;
//!
//! /// The attributes of a `review.run` node; checked against the graph when the program is built.
//! #[derive(Attributes)]
//! struct Review {
//!     strictness: u8,
//! }
//!
//! /// The outcome words of a review; an edge that waits for another one does not build.
//! #[derive(Outcome)]
//! enum Verdict {
//!     Approved,
//!     Rejected,
//! }
//!
//! #[handlers]
//! impl App {
//!     #[handler("review.run")]
//!     async fn review(&self, node: Review) -> Verdict {
//!         if node.strictness > 5 { Verdict::Rejected } else { Verdict::Approved }
//!     }
//!
//!     #[handler("ship.run")]
//!     async fn ship(&self, stage: StageContext) -> Result<(), std::fmt::Error> {
//!         assert_eq!(stage.node().text("target"), Some("production"));
//!         Ok(())
//!     }
//! }
//!
//! assert_eq!(release::nodes::Review::STRICTNESS, 3);
//! assert_eq!(release::nodes::Ship::TIMEOUT, std::time::Duration::from_secs(900));
//! assert_eq!("ship".parse(), Ok(release::Node::Ship));
//! ```
//!
//! Features: `macros` (on by default) brings the macros and the engine; `engine` the engine alone; without either
//! this is the language alone, [`graph`].

#[cfg(feature = "macros")]
#[doc(hidden)]
#[allow(missing_docs)]
#[path = "private.rs"]
pub mod __private;
#[cfg(feature = "macros")]
mod compiled;
#[cfg(feature = "cli")]
mod main_macro;

pub use orchestra_graph as graph;

#[cfg(feature = "macros")]
pub use compiled::{Answer, Transition, Transitions, UnknownNode};
#[cfg(feature = "engine")]
#[doc(inline)]
pub use orchestra_engine::*;
#[cfg(feature = "macros")]
pub use orchestra_macros::{Attributes, Outcome, bind, handler, handlers, pipeline};

/// What most programs use, for `use orchestra::prelude::*`.
#[cfg(feature = "macros")]
pub mod prelude {
    pub use orchestra_engine::{
        Builtin, CodergenBackend, Context, Engine, FailureCategory, HandlerSet, Outcome, RunResult,
        RunStatus, SimulationBackend, StageContext, Status,
    };
    pub use orchestra_macros::{Attributes, Outcome, bind, handler, handlers, pipeline};
}
