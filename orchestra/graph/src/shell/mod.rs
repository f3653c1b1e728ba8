//! A scanner of shell commands (POSIX, with the common extensions of bash): finds where a command executes the value of
//! a variable, or splits it.
//!
//! It knows the quoting of words, expansions, and the commands that execute their arguments. It reports only what it is
//! sure of: what it cannot parse, it leaves out.

mod commands;
mod interpreters;
mod lexer;
mod names;
mod parser;
mod scan;
mod syntax;

pub(crate) use names::changes_programs;
pub(crate) use scan::{Finding, Problem, scan};

#[cfg(test)]
mod tests;
