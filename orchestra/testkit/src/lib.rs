//! Pipelines in ordinary tests.
//!
//! # Test your pipeline
//! A pipeline is code, and whether it goes where it should is a question for `cargo test`. A simulation runs the whole
//! pipeline by the very engine that will run it later: its routing, retries, gates, parallel blocks and questions to people
//! are real. Only what stages *do* is said by the test. No model, no tool, no handler, no person and no minute of waiting
//! is needed.
//!
//! ```toml
//! [dev-dependencies]
//! orchestra = { path = "path/to/orchestra/orchestra", features = ["testkit"] }
//! ```
//!
//! Each module that `pipeline!` makes has a function `simulate()` then, in tests alone:
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
//! When a run takes another path, the test does not only say that it did, but where the two part and why:
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
//! - **Time** passes only when nothing else can happen, and then it jumps. A back-off of minutes, a gate that waits two
//!   days for an answer, a stage that takes an hour ([`takes`](Simulation::takes)) cost microseconds, and last exactly as
//!   long as they should: delays, durations and the timestamps of events are right to the millisecond.
//! - **Chance** is that of the [seed](Simulation::seed). Two runs of one simulation are equal in every event.
//! - **Handlers** may [run for real](Simulation::handlers) where they are what is tested.
//! - **Names** are checked by the compiler in a compiled pipeline. [`Simulation::load_file`] takes any other one, whose
//!   nodes are named by texts; a wrong one is refused with the right one.
//! - **Silence never approves.** A gate without an answer ends the run as waiting for a person.
//!
//! # Every edge
//! A pipeline whose failure paths were never walked has untested code in it. [`Coverage`] adds up what runs took:
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
//! `orchestra run --simulate script.yaml` runs a script from the command line, and ends with the edges that it took;
//! [`read_script_file`] reads the same file for a test.
//!
//! # Without a simulation
//! A test that makes an engine of its own gives it a [`FakeClock`], inside a runtime whose time is paused. Scripts and
//! coverage alone, without tokio's test mode, are there without the feature `simulation`.

mod check;
#[cfg(feature = "simulation")]
mod clock;
mod coverage;
mod error;
#[cfg(feature = "simulation")]
mod run;
mod script;
#[cfg(feature = "simulation")]
mod simulation;
#[cfg(feature = "simulation")]
mod story;

pub use check::{answered_gate, check_answer, check_script, gate_question, scripted_answer};
#[cfg(feature = "simulation")]
pub use clock::FakeClock;
pub use coverage::{Coverage, CoveredEdge};
pub use error::ScriptError;
#[cfg(feature = "simulation")]
pub use run::SimulationRun;
pub use script::{read_script, read_script_file};
#[cfg(feature = "simulation")]
pub use simulation::{NodeOf, Simulation, SimulationError};
