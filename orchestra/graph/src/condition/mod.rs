//! The condition language of edges (Attractor 10, rules C1-C6).
//!
//! A condition is parsed once into an [`Expression`]. A loaded pipeline evaluates this tree; a compiled pipeline
//! contains a closure that calls the same primitives of [`Facts`], so that both always agree.

mod comparison;
mod cursor;
mod describe;
mod expression;
mod facts;
mod keys;
mod parser;
pub(crate) mod space;

pub use comparison::Comparison;
pub use cursor::ConditionCursor;
pub use expression::Expression;
pub use facts::{Facts, Lookup, Pattern, StageRecords};
pub(crate) use facts::{equal, number};
pub use keys::{OUTCOME_WORDS, PLAIN_KEYS};
pub(crate) use keys::{STAGES, VISITS, foreign_key, is_label, stage_outcome};
pub use parser::{ConditionError, find_literal, parse_condition};
pub(crate) use parser::{clauses, find_key};
