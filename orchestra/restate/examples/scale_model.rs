//! A model on paper of the machines that many runs need: change the assumptions, and run it again.
//!
//! ```sh
//! cargo run -p orchestra-restate --example scale_model
//! ```

#![allow(clippy::print_stdout)]

/// What is assumed of the load, the implementation and the prices.
struct Assumptions {
    /// Runs that are open at a time, most of which wait.
    open_runs: f64,
    /// Runs that end each day.
    runs_a_day: f64,
    /// Agent stages of a run.
    stages: f64,
    /// Notes of a stage: answers of its model, and results of its tools.
    notes: f64,
    /// Calls of models of a stage. Each reserves and releases a part of the budget.
    calls: f64,
    /// The state of a run that waits, in KiB.
    state_kib: f64,
    /// The state of the notes of an attempt in progress, in KiB.
    notes_kib: f64,
    /// The texts and events of a stage in the store of blobs, in KiB.
    blobs_kib: f64,
    /// The part of the runs that execute a stage at a time.
    running: f64,
    /// Invocations that one core of the server handles each second.
    invocations_a_core: f64,
    /// The copies of the log that the server keeps.
    replicas: f64,
    /// The CPU time that a worker needs for one invocation, in milliseconds.
    worker_ms: f64,
    /// US dollars for a core with 4 GiB of memory, a month.
    core_price: f64,
    /// US dollars for a TiB of blobs, a month.
    tib_price: f64,
    /// Days for which blobs are kept.
    kept_days: f64,
}

const ASSUMED: Assumptions = Assumptions {
    open_runs: 1e6,
    runs_a_day: 1e6,
    stages: 20.0,
    notes: 20.0,
    calls: 10.0,
    state_kib: 8.0,
    notes_kib: 200.0,
    blobs_kib: 200.0,
    running: 0.01,
    invocations_a_core: 800.0,
    replicas: 3.0,
    worker_ms: 0.6,
    core_price: 25.0,
    tib_price: 23.0,
    kept_days: 30.0,
};

fn main() {
    println!(
        "| Open runs | Stages/s | Invocations/s | Server cores | Worker cores | State, GiB | Blobs a day, TiB | US dollars a month |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for scale in [0.001, 0.01, 0.1, 1.0] {
        row(scale);
    }
    let a = ASSUMED;
    println!();
    println!(
        "Of each stage: its invocation, a turn, {} notes, and {} turns for reservations and usage.",
        a.notes,
        turns(&a)
    );
}

/// The turns of a stage beside the one of its end: two for the reservation of each call, and one for its usage.
fn turns(a: &Assumptions) -> f64 {
    3.0 * a.calls
}

fn row(scale: f64) {
    let a = ASSUMED;
    let stages = a.runs_a_day * scale * a.stages / 86_400.0;
    let invocations = stages * (2.0 + a.notes + turns(&a));
    let server = (invocations / a.invocations_a_core * a.replicas).max(1.0);
    let worker = (invocations * a.worker_ms / 1_000.0).max(1.0);
    let running = a.open_runs * scale * a.running;
    let state = (a.open_runs * scale * a.state_kib + running * a.notes_kib) / 1024.0 / 1024.0;
    let blobs = a.runs_a_day * scale * a.stages * a.blobs_kib / 1024.0 / 1024.0 / 1024.0;
    let price = (server + worker) * a.core_price + blobs * a.kept_days * a.tib_price;
    println!(
        "| {:.0} | {stages:.1} | {invocations:.0} | {server:.0} | {worker:.0} | {state:.1} | {blobs:.2} | {price:.0} |",
        a.open_runs * scale
    );
}
