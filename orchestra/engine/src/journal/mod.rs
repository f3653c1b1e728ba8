//! The journal of a run: its records, and the writer that makes them durable.

pub(crate) mod records;
pub(crate) mod writer;
