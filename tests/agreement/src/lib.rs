//! Compiled and loaded pipelines give the same traces; see `tests/agreement.rs`.
