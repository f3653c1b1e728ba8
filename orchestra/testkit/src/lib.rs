//! Simulations of pipelines in ordinary tests.
//!
//! # Test your pipeline
//!
//! A pipeline is code, so `cargo test` should check its paths. A simulation runs the whole pipeline with the engine
//! that runs it in production: routing, retries, gates, parallel blocks and questions to people are real. The test only
//! determines what the stages *do*. No model, tool, handler, person or waiting time is needed.
//!
//! ```toml
//! [dev-dependencies]
//! orchestra-workflow = { path = "path/to/orchestra/orchestra", features = ["testkit"] }
//! ```
//!
//! Each module that `pipeline!` generates then has a function `simulate()`, in tests only:
//!
//! ```
//! use std::time::Duration;
//!
//! orchestra::pipeline! {
//!     pub mod release = digraph release {
//!         start   -> build -> review
//!         build   [type="cargo.build", retry_policy=patient, retry_jitter=false]
//!         review  [shape=hexagon, label="Ship it?"]
//!         review  -> publish [label="[S] Ship"]
//!         review  -> build   [label="[M] Mend"]
//!         publish [type="cargo.publish"]
//!         publish -> exit
//!     }
//! }
//! use release::{Node, choices};
//!
//! // #[test]
//! fn a_release_that_is_sent_back_is_built_again() {
//!     let run = release::simulate()
//!         .outcome(Node::Build, ["fail", "success"])
//!         .answer(Node::Review, choices::Review::Mend)
//!         .answer(Node::Review, choices::Review::Ship)
//!         .run();
//!     run.assert_success()
//!         .assert_path([Node::Start, Node::Build, Node::Review, Node::Build, Node::Review, Node::Publish, Node::Exit]);
//!     assert_eq!(run.delays(Node::Build), [Duration::from_secs(2)]);
//! }
//!
//! // #[test]
//! fn nothing_is_published_without_an_answer() {
//!     release::simulate().run().assert_waits_for(Node::Review);
//! }
//! # a_release_that_is_sent_back_is_built_again();
//! # nothing_is_published_without_an_answer();
//! ```
//!
//! If a run takes another path, the panic message shows where the paths diverge, and why:
//!
//! ```text
//! the run took another path
//!   expected: start -> test -> review -> publish -> exit
//!   taken:    start -> test -> mend -> test -> review -> publish -> exit
//! behind `test` came `mend` instead of `review`
//!   because test -> mend (condition holds): `outcome=success` to review is false, outcome is `fail`; ..
//! how the run went:
//!      0s  start: success
//!      0s    start -> test (only edge)
//!      0s  test: fail, simulated failure
//!      0s  test: attempt 2 of 2 in 200ms
//!   200ms  test (attempt 2): fail, simulated failure
//! ```
//!
//! - **Time** advances only when nothing else can happen, and then jumps to the next timer. A back-off of minutes, a
//!   gate that waits two days for an answer, or a stage that takes an hour ([`takes`](Simulation::takes)) costs
//!   microseconds. Delays, durations and the timestamps of events are exact to the millisecond.
//! - **Randomness** depends on the [seed](Simulation::seed). Two runs of one simulation have identical events.
//! - **Handlers** may [run for real](Simulation::handlers) if they are what the test is about.
//! - **Names** are checked by the compiler in a compiled pipeline. [`Simulation::load_file`] loads any other pipeline,
//!   and its nodes are named by strings. A wrong name is rejected with a suggestion.
//! - **Silence never approves.** A gate without an answer ends the run as waiting for a person.
//!
//! # Every edge
//!
//! Failure paths that no run takes are untested. [`Coverage`] collects the edges that runs took:
//!
//! ```
//! # use orchestra_testkit::{Simulation, SimulationError};
//! # fn main() -> Result<(), SimulationError> {
//! # let text = "digraph { start -> test; test [prompt=Test]
//! #     test -> exit [condition=\"outcome=success\"]; test -> mend [condition=\"outcome=fail\"]; mend -> test }";
//! let simulation = Simulation::load(text)?;
//! let mut coverage = simulation.coverage();
//! for test in [&["success"][..], &["fail", "success"]] {
//!     coverage.add(simulation.clone().outcome("test", test.iter().copied()).run().transitions());
//! }
//! coverage.assert_complete();
//! # Ok(()) }
//! ```
//!
//! `pipeline!(.., paths)` generates a test for each edge and each jump, with scripts that a search has found.
//!
//! `orchestra run --simulate script.yaml` runs a script from the command line and, at the end, prints the edges that
//! were taken. [`read_script_file`] reads the same file in a test.
//!
//! # Without a simulation
//!
//! A test that builds its own engine can use a [`FakeClock`] in a runtime whose time is paused. Without the feature
//! `simulation`, this crate provides only scripts and coverage, and does not need tokio's test mode.
//!
//! # Glossary
//!
//! - **Simulation**: a run with the real engine and simulated stages, in simulated time.
//! - **Script**: the outcomes and durations of stages and the answers of gates, in the order in which they are taken.
//! - **Outcome**: the result of an attempt, such as `success`, `fail`, or a custom name.
//! - **Gate**: a human gate, a stage that asks a person to choose an edge.
//! - **Path**: the nodes that a run completed, in order.
//! - **Transition**: the choice of the next node, with the rule that decided and the conditions that were tested.
//! - **Coverage**: the edges of a pipeline with the number of times each was taken.
//! - **Child pipeline**: a pipeline that a stage of another pipeline runs.
//!
//! # Modules, in reading order
//!
//! - `simulation`: [`Simulation`], which configures and runs a simulated run.
//! - `node`: [`NodeOf`], the nodes that simulations and their results accept.
//! - `run`: the result of a simulation and its assertions.
//! - `report`: the human-readable report of a run.
//! - `clock`: the clock with simulated time.
//! - `script`: scripts in YAML.
//! - `check`: checks of a script against its pipeline.
//! - `coverage`: [`Coverage`], the edges that runs took.
//! - `paths`: the tests that `pipeline!(.., paths)` generates.
//! - `error`: [`ScriptError`].

#![cfg_attr(docsrs, feature(doc_cfg))]

mod check;
#[cfg(feature = "simulation")]
mod clock;
mod coverage;
mod error;
#[cfg(feature = "simulation")]
mod node;
#[cfg(feature = "simulation")]
mod paths;
#[cfg(feature = "simulation")]
mod report;
#[cfg(feature = "simulation")]
mod run;
mod script;
#[cfg(feature = "simulation")]
mod simulation;

pub use check::{answered_gate, check_answer, check_script, gate_question, scripted_answer};
#[cfg(feature = "simulation")]
pub use clock::FakeClock;
pub use coverage::{Coverage, CoveredEdge};
pub use error::ScriptError;
#[cfg(feature = "simulation")]
pub use node::NodeOf;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub use paths::PathTests;
#[cfg(feature = "simulation")]
pub use run::SimulationRun;
pub use script::{read_script, read_script_file};
#[cfg(feature = "simulation")]
pub use simulation::{Simulation, SimulationError};
