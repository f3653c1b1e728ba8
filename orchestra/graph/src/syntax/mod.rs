//! The pipeline language: text to tokens to a syntax tree, with every fault on the way.

pub(crate) mod lexer;
mod parser;

pub use lexer::is_identifier;
pub(crate) use parser::shorten;
pub use parser::{Limits, Parsed, parse, parse_bytes};
