//! The parser of the pipeline language: text to tokens to a syntax tree, with diagnostics for all errors.

mod attributes;
mod cursor;
pub(crate) mod lexer;
pub(crate) mod literal;
mod parser;
pub(crate) mod rules;
mod statements;
mod strings;
mod unquoted;
pub(crate) mod words;

pub use cursor::{AttributeOwner, Cursor, SyntaxContext};
pub use literal::{value_fix, value_range, value_text};
pub use parser::{Limits, Parsed, parse, parse_bytes};
pub use words::is_identifier;
pub(crate) use words::shorten;
