//! The figures of reliability, each with the tests that show it and their last result.
//!
//! `figures.yaml` lists the figures, `results.json` holds what the commands gave when they last ran, and `FIGURES.md` is
//! made of both. The program `orchestra-reliability` runs the commands; a test holds every named test to the sources.

mod figures;
mod named;
mod results;

pub use figures::{Command, Figure, FigureFile, read_figures, render};
pub use named::{Target, TestName, named_in, root, tests_in};
pub use results::{Outcome, Results};
