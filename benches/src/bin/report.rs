//! Writes the figures of a file into a document, and the pictures of its curves into a folder:
//! `bench-report target/figures.json PERFORMANCE.md benches/growth`.
//!
//! What the document says outside of the two marked lines stays. A document that does not exist is begun.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command says what it did"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use orchestra_benches::curves;
use orchestra_benches::figure::{Curve, Results, aligned, amount};

/// The lines of the document between which the figures are written.
const BEGIN: &str = "<!-- The figures, written by bench-report -->\n";
const END: &str = "<!-- The end of the figures -->\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [figures, document, pictures] = arguments.as_slice() else {
        eprintln!("usage: bench-report FIGURES DOCUMENT PICTURES");
        return ExitCode::from(2);
    };
    match report(Path::new(figures), Path::new(document), pictures) {
        Ok(()) => {
            println!("wrote {document} and {pictures}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report(figures: &Path, document: &Path, pictures: &str) -> Result<(), String> {
    let results = Results::read(figures)?;
    let written = if document.exists() {
        std::fs::read_to_string(document).map_err(|error| format!("{}: {error}", document.display()))?
    } else {
        format!("# Performance\n\n{BEGIN}{END}")
    };
    let around = written
        .split_once(BEGIN)
        .and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let Some((head, tail)) = around else {
        return Err(format!(
            "{}: add the two lines between which the figures go:\n{BEGIN}{END}",
            document.display()
        ));
    };
    std::fs::create_dir_all(pictures).map_err(|error| format!("{pictures}: {error}"))?;
    let mut body = String::from("\n");
    for fact in &results.machine {
        let _ = writeln!(body, "- {fact}");
    }
    let _ = write!(body, "\n{}", results.table());
    for curve in &results.curves {
        let name = curves::file_name(curve);
        std::fs::write(Path::new(pictures).join(&name), curves::svg(curve)?)
            .map_err(|error| format!("{name}: {error}"))?;
        let _ = write!(
            body,
            "\n![{}]({pictures}/{name})\n\n{}",
            curve.name,
            points(curve)
        );
    }
    body.push('\n');
    std::fs::write(document, [head, BEGIN, &body, END, tail].concat())
        .map_err(|error| format!("{}: {error}", document.display()))
}

/// Returns the points of a curve as a table.
fn points(curve: &Curve) -> String {
    let mut rows = vec![[curve.counted.clone(), curve.unit.clone()]];
    for (size, figure) in &curve.points {
        rows.push([amount(*size), amount(*figure)]);
    }
    aligned(&rows)
}
