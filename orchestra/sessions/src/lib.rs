//! The index of runs.
