//! The `orchestra` program.
fn main() {}
