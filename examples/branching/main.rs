//! A decision on the outcome of a stage, as a program with the whole command line.
//!
//! `cargo run -p branching -- run branching --simulate`
//! `cargo run -p branching -- run branching --simulate --outcome translate=fail`

orchestra::pipeline! {
    /// Translates a manual; a failed translation takes another way.
    pub mod branching = "branching.dot";
}

orchestra::main!(branching);

#[cfg(test)]
mod tests;
