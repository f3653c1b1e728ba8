//! A manager that supervises another pipeline while it runs, steers it to a better method, and stops it in time.
//!
//! The child, `digits.dot`, computes one more digit of pi in each round, with a series that needs ten times as many
//! terms for each digit. The manager observes it every tenth of a second (`stack.child.*`). When the child makes no
//! progress, the guard of the manager holds, and the running stage receives the instruction to use Machin's formula
//! instead. Twelve digits are enough: the stop condition then ends the child, which would otherwise continue. After
//! three seconds the manager would give up.
//!
//! `cargo run -p supervisor` shows this. In `cargo run -p supervisor -- deaf`, the child ignores the instruction.

#![allow(clippy::print_stdout)]

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use orchestra::engine::{EventKind, RunEvent};
use orchestra::prelude::*;

orchestra::pipeline! {
    /// Computes pi under supervision.
    pub mod supervisor = "supervisor.dot", handlers = Mathematician;
}

/// The handlers of the manager's pipeline and of its child.
struct Mathematician {
    /// `true` if the child follows instructions.
    listens: bool,
    /// The known digits of pi. The manager sees the progress of the child, not its results.
    pi: Mutex<String>,
}

impl Mathematician {
    fn new(listens: bool) -> Mathematician {
        let pi = Mutex::default();
        Mathematician { listens, pi }
    }
}

#[handlers]
impl Mathematician {
    /// Computes one more digit. A method from an instruction is kept for later rounds.
    #[handler("pi.approximate")]
    async fn approximate(&self, stage: StageContext) -> Outcome {
        let digits = stage.visit();
        let mut series = Series::new(Method::from_name(&stage.context().text("method")));
        while !series.is_good_for(digits) {
            series.go_on();
            // Let other tasks run. The manager may have sent an instruction.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let instructions = stage.instructions();
            if self.listens
                && instructions
                    .iter()
                    .any(|instruction| instruction.contains("Machin"))
            {
                series = Series::new(Method::Machin);
            }
        }
        let pi = series.text(digits);
        let notes = format!("{pi} by {} terms of {}", series.terms, series.method.name());
        *self.pi.lock().unwrap_or_else(PoisonError::into_inner) = pi;
        Outcome::success()
            .set("digits", digits)
            .set("method", series.method.name())
            .notes(notes)
    }

    #[handler("pi.report")]
    async fn report(&self) -> Outcome {
        let pi = self.pi.lock().unwrap_or_else(PoisonError::into_inner);
        Outcome::success()
            .set("pi", pi.as_str())
            .notes(format!("pi is {pi}"))
    }

    #[handler("pi.give_up")]
    async fn give_up(&self, stage: StageContext) -> Outcome {
        let rounds = stage.context().text("stack.child.completed_stages");
        Outcome::success().notes(format!("given up after {rounds} stages"))
    }
}

/// A method to compute pi.
#[derive(Clone, Copy, PartialEq)]
enum Method {
    /// 4 (1 - 1/3 + 1/5 - 1/7 ..), which needs ten times as many terms for each digit.
    Leibniz,
    /// 4 (4 arctan 1/5 - arctan 1/239), where each term gives more than one digit.
    Machin,
}

impl Method {
    fn from_name(name: &str) -> Method {
        match name {
            "Machin" => Method::Machin,
            _ => Method::Leibniz,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Method::Leibniz => "Leibniz",
            Method::Machin => "Machin",
        }
    }
}

/// A series that converges to pi.
struct Series {
    method: Method,
    terms: u64,
    sum: f64,
}

impl Series {
    fn new(method: Method) -> Series {
        Series {
            method,
            terms: 0,
            sum: 0.0,
        }
    }

    /// Returns the size of the next term, which bounds the error.
    fn next(&self) -> f64 {
        let odd = (2 * self.terms + 1) as f64;
        match self.method {
            Method::Leibniz => 4.0 / odd,
            Method::Machin => (16.0 * 5_f64.powf(-odd) - 4.0 * 239_f64.powf(-odd)) / odd,
        }
    }

    /// Adds more terms.
    fn go_on(&mut self) {
        let row = match self.method {
            Method::Leibniz => 50_000,
            Method::Machin => 1,
        };
        for _ in 0..row {
            let sign = if self.terms.is_multiple_of(2) { 1.0 } else { -1.0 };
            self.sum += sign * self.next();
            self.terms += 1;
        }
    }

    fn is_good_for(&self, digits: u32) -> bool {
        self.next() < 0.1_f64.powf(digits.into())
    }

    /// Returns pi with this number of digits.
    fn text(&self, digits: u32) -> String {
        let places = digits.saturating_sub(1) as usize;
        format!("{:.places$}", self.sum)
    }
}

/// Prints the progress of the run and of its child.
fn show(event: &RunEvent) {
    match &event.kind {
        EventKind::StageCompleted {
            stage,
            notes: Some(notes),
            ..
        } => println!("{}: {notes}", stage.node),
        EventKind::StageFailed { stage, error, .. } => println!("{}: {error}", stage.node),
        EventKind::StageLog { node, message } => println!("{node}: {message}"),
        _ => {}
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let listens = std::env::args().nth(1).as_deref() != Some("deaf");
    let engine = Engine::builder().on_event(show).build()?;
    let run = engine
        .start(&supervisor::PIPELINE, Mathematician::new(listens))
        .await?;
    let result = run.wait().await?;
    println!("\npath: {}", result.path.join(" -> "));
    if let Some(failure) = &result.failure {
        println!("failed: {failure}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
