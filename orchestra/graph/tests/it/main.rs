//! The integration tests of the crate, in one program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod answer_schemas;
mod assertions;
mod checks;
mod children;
mod command_values;
mod contracts;
mod corpus;
mod differences;
mod editing;
mod fan_outs;
mod fixes;
mod formatting;
mod hostile;
mod injections;
mod limits;
mod lock;
mod long_lists;
mod occurrences;
mod printing;
mod reference;
mod rendering;
mod rules;
mod spellings;
