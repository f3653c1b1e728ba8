//! A manager that watches another pipeline at work, tells it a better way, and stops it when it is enough.
//!
//! The child, `digits.dot`, works out one digit of pi more in each round, by a series that takes ten times as long for
//! each. The manager looks at it every tenth of a second and sees how it stands (`stack.child.*`). When the child gets
//! stuck the manager's guard holds, and the stage that is at work is told, in the midst of it, to take Machin's formula
//! instead. Twelve digits are enough, so the stop condition ends the child, which would go on. If it were still at it
//! after three seconds the manager would give it up.
//!
//! `cargo run -p supervisor` shows all that. In `cargo run -p supervisor -- deaf` the child does not listen.

#![allow(clippy::print_stdout)]

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use orchestra::engine::{EventKind, RunEvent};
use orchestra::prelude::*;

orchestra::pipeline! {
    /// Has pi worked out, under supervision.
    pub mod supervisor = "supervisor.dot", handlers = Mathematician;
}

/// The handlers of the manager's pipeline and of its child.
struct Mathematician {
    /// Whether instructions are heard.
    listens: bool,
    /// What is known of pi. A manager sees how its child stands, but not what that found.
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
    /// One digit more. A method that was learned is kept for later rounds.
    #[handler("pi.approximate")]
    async fn approximate(&self, stage: StageContext) -> Outcome {
        let digits = stage.visit();
        let mut series = Series::new(Method::from_name(&stage.context().text("method")));
        while !series.is_good_for(digits) {
            series.go_on();
            // Others get their turn, and the manager may have said something.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let told = stage.instructions();
            if self.listens && told.iter().any(|instruction| instruction.contains("Machin")) {
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

/// How pi can be worked out.
#[derive(Clone, Copy, PartialEq)]
enum Method {
    /// 4 (1 - 1/3 + 1/5 - 1/7 ..), which needs ten times as many terms for each digit.
    Leibniz,
    /// 4 (4 arctan 1/5 - arctan 1/239), where each term gives more than a digit.
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

/// A series that comes nearer to pi with each term.
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

    /// The size of the next term; pi is no farther away.
    fn next(&self) -> f64 {
        let odd = (2 * self.terms + 1) as f64;
        match self.method {
            Method::Leibniz => 4.0 / odd,
            Method::Machin => (16.0 * 5_f64.powf(-odd) - 4.0 * 239_f64.powf(-odd)) / odd,
        }
    }

    /// Adds some terms more.
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

    /// Pi to so many digits.
    fn text(&self, digits: u32) -> String {
        let places = digits.saturating_sub(1) as usize;
        format!("{:.places$}", self.sum)
    }
}

/// Tells how the run goes, that of the child included.
fn show(event: &RunEvent) {
    match &event.kind {
        EventKind::StageCompleted {
            node,
            notes: Some(notes),
            ..
        } => println!("{node}: {notes}"),
        EventKind::StageFailed { node, error, .. } => println!("{node}: {error}"),
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
