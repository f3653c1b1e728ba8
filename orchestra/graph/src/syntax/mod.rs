//! The parser of the pipeline language: text to tokens to a syntax tree, with diagnostics for all errors.

mod attributes;
mod cursor;
pub(crate) mod lexer;
mod parser;
pub(crate) mod rules;
mod statements;

pub use cursor::{AttributeOwner, Cursor, SyntaxContext, value_range};
pub use lexer::is_identifier;
pub(crate) use parser::shorten;
pub use parser::{Limits, Parsed, parse, parse_bytes};
