//! A sequence of stages, compiled into a program and run with simulated models.
//!
//! `cargo run -p hello`

#![allow(clippy::print_stdout)]

use orchestra::prelude::*;

orchestra::pipeline! {
    /// Welcomes a new colleague in two stages.
    pub mod hello = "hello.dot";
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().backend(SimulationBackend).build()?;
    let run = engine.start(&hello::PIPELINE, ()).await?;
    let result = run.wait().await?;
    println!("{}: {}", hello::PIPELINE.title(), result.path.join(" -> "));
    println!("last response: {}", result.context.text("last_response"));
    println!("the draft's prompt was: {}", hello::nodes::Draft::PROMPT);
    Ok(())
}
