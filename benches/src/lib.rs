//! What Orchestra costs, each figure beside its physical limit from the same run and beside its target.
//!
//! `cargo bench -p orchestra-benches` measures everything, prints one table, and writes it to `target/figures.json`.
//! Words select workloads by the beginning of their names, and `--save FILE` chooses the file:
//!
//! ```text
//! cargo bench -p orchestra-benches -- W1 W5 --save before.json
//! benches/compare before.json after.json
//! cargo run -p orchestra-benches --bin bench-report -- target/figures.json PERFORMANCE.md benches/growth
//! ```
//!
//! A target is a goal, not a test: a figure that misses it is shown as missed, and the program succeeds.
//!
//! # Modules, in reading order
//!
//! - [`figure`]: figures and curves, the table of them, and their file.
//! - [`machine`]: the description of the machine.
//! - [`pipelines`]: the pipelines and handlers that the workloads share.
//! - [`measure`]: medians, and the collection of figures.
//! - [`compare`]: two sets of figures side by side.
//! - [`curves`]: pictures of curves.
//! - [`generate`]: large pipelines.
//! - [`allocator`]: an allocator that counts.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program that measures prints its figures, and fails by panicking"
)]

pub mod allocator;
pub mod compare;
pub mod curves;
pub mod figure;
pub mod generate;
pub mod machine;
pub mod measure;
pub mod pipelines;
