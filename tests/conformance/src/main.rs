//! A worker that is killed.

fn main() {}
