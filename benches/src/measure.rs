//! Medians, and the collection of figures.

use std::path::PathBuf;
use std::time::Instant;

use crate::figure::{Curve, Figure, Results, amount};
use crate::machine;

/// The figures of this run of the benchmarks, and the words that select workloads.
#[derive(Debug)]
pub struct Bench {
    wanted: Vec<String>,
    file: Option<PathBuf>,
    results: Results,
}

impl Bench {
    /// Reads the arguments of the program: the beginnings of names, and `--save FILE`.
    pub fn from_arguments() -> Bench {
        let mut bench = Bench {
            wanted: Vec::new(),
            file: None,
            results: Results {
                machine: machine::describe(),
                ..Results::default()
            },
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // Cargo passes it to every bench.
                "--bench" => {}
                "--save" => bench.file = arguments.next().map(PathBuf::from),
                _ => bench.wanted.push(argument),
            }
        }
        bench
    }

    /// Returns the words that select workloads.
    pub fn wanted(&self) -> &[String] {
        &self.wanted
    }

    /// Returns whether the workload with this name or id is wanted.
    pub fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|word| name.starts_with(word.as_str()))
    }

    /// Adds a figure and prints it.
    pub fn record(
        &mut self,
        name: &str,
        unit: &str,
        ours: f64,
        limit: impl Into<Option<f64>>,
        target: impl Into<Option<f64>>,
    ) {
        self.add(Figure {
            name: name.to_owned(),
            unit: unit.to_owned(),
            ours,
            limit: limit.into(),
            target: target.into(),
        });
    }

    /// Adds a figure that another program measured, and prints it.
    pub fn add(&mut self, figure: Figure) {
        println!("{}: {} {}", figure.name, amount(figure.ours), figure.unit);
        self.results.figures.push(figure);
    }

    /// Adds a curve and prints its points.
    pub fn curve(&mut self, curve: Curve) {
        let points: Vec<String> = curve
            .points
            .iter()
            .map(|(size, figure)| format!("{} at {}", amount(*figure), amount(*size)))
            .collect();
        println!("{}: {} {}", curve.name, points.join(", "), curve.unit);
        self.results.curves.push(curve);
    }

    /// Prints the table of all figures, and writes them to the file.
    pub fn finish(self, default: PathBuf) {
        println!("\n{}", self.results.table());
        // A part of the figures does not replace the whole ones, unless it is told to.
        let file = match self.file {
            Some(file) => file,
            None if self.wanted.is_empty() => default,
            None => return,
        };
        self.results.write(&file).expect("the figures are written");
        println!("written to {}", file.display());
    }
}

/// Returns the median of some figures.
pub fn middle(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Returns the median time of the rounds, divided by `parts`, in microseconds. A first round is not counted.
pub fn median(rounds: usize, parts: usize, mut round: impl FnMut()) -> f64 {
    round();
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| seconds(&mut round) * 1e6 / parts as f64)
        .collect();
    middle(&mut times)
}

/// Returns how long some work takes, in seconds.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

/// Returns a runtime with one thread.
pub fn single() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}
