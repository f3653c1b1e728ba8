//! A decision that depends on the outcome of a stage, in a program with the whole command line.
//!
//! `cargo run -p branching -- run branching --simulate`
//! `cargo run -p branching -- run branching --simulate --outcome translate=fail`

orchestra::pipeline! {
    /// Translates a manual. A failed translation takes another edge.
    pub mod branching = "branching.dot";
}

orchestra::main!(branching);

#[cfg(test)]
mod tests;
