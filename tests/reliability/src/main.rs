//! Runs the commands of the figures of reliability, and writes the table of their results.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program prints")]

use std::process::{Command as Process, ExitCode};
use std::time::Instant;

use orchestra_reliability_tests::{Command, Outcome, Results, read_figures, render, root};

const USAGE: &str = "usage: orchestra-reliability [--long] [--render] [ROW]..
  --long    run the longer commands too
  --render  run nothing, write the table from the results that there are
  ROW       run the rows of these numbers only";

fn main() -> ExitCode {
    let (mut long, mut only_render, mut rows) = (false, false, Vec::new());
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--long" => long = true,
            "--render" => only_render = true,
            number => match number.parse::<usize>() {
                Ok(row) => rows.push(row),
                Err(_) => {
                    eprintln!("{USAGE}");
                    return ExitCode::from(2);
                }
            },
        }
    }
    match run(long, only_render, &rows) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether every command that ran has passed.
fn run(long: bool, only_render: bool, rows: &[usize]) -> Result<bool, String> {
    let (file, mut results, mut passed) = (read_figures()?, Results::read()?, true);
    for (index, figure) in file.figures.iter().enumerate() {
        if only_render || !(rows.is_empty() || rows.contains(&(index + 1))) {
            continue;
        }
        for command in figure.commands()? {
            if command.is_long && !long {
                continue;
            }
            let outcome = outcome_of(&command)?;
            println!("{}: {} ({} s)", command.line, outcome.summary, outcome.seconds);
            passed &= outcome.passed;
            results.0.insert(command.line, outcome);
            results.write()?;
        }
    }
    // A command that no figure names any more has no result to show.
    let mut named = Vec::new();
    for figure in &file.figures {
        named.extend(figure.commands()?.into_iter().map(|command| command.line));
    }
    results.0.retain(|line, _| named.contains(line));
    results.write()?;
    let table = render(&file, &results)?;
    let path = root().join("tests/reliability/FIGURES.md");
    std::fs::write(&path, table).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(passed)
}

fn outcome_of(command: &Command) -> Result<Outcome, String> {
    let began = Instant::now();
    let output = Process::new("sh")
        .args(["-c", &format!("{} 2>&1", command.line)])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cannot start a shell: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names = command
        .line
        .split_once(" -- ")
        .map_or(0, |(_, names)| names.split(' ').count());
    let summary = if command.line.contains("cargo test ") {
        tests_of(&text)
    } else {
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        last.unwrap_or_default().trim().to_owned()
    };
    // Fewer tests than names means that a filter matched none.
    let ran = summary
        .split_whitespace()
        .find_map(|word| word.parse::<usize>().ok());
    let complete = command.is_long || ran.is_some_and(|ran| ran >= names);
    Ok(Outcome {
        passed: output.status.success() && complete,
        summary: summary.replace('|', "/"),
        seconds: began.elapsed().as_secs(),
    })
}

/// How many tests of all targets passed and failed.
fn tests_of(text: &str) -> String {
    let (mut passed, mut failed) = (0, 0);
    for line in text.lines().filter(|line| line.starts_with("test result: ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |what: &str| {
            let at = words.iter().position(|word| word.trim_end_matches(';') == what)?;
            words.get(at.checked_sub(1)?)?.parse::<usize>().ok()
        };
        passed += number("passed").unwrap_or(0);
        failed += number("failed").unwrap_or(0);
    }
    format!("{passed} passed, {failed} failed")
}
