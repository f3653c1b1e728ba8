//! What came of it, as a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use orchestra_crash_tests::processes::Use;

use crate::engine::Samples;
use crate::run::Tally;
use crate::scenario::SCENARIOS;
use crate::server::Served;

/// What came of all rounds.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) took: Duration,
    pub(crate) rounds: u64,
    /// Requests that the model answered with a fault.
    pub(crate) faults: u64,
    /// How often a reader looked.
    pub(crate) looks: u64,
    /// The most bytes that the runs of a round had before they were removed.
    pub(crate) largest: u64,
    pub(crate) engine: Samples,
    pub(crate) server: Served,
    pub(crate) failures: Vec<String>,
    rows: BTreeMap<&'static str, Row>,
}

#[derive(Debug, Default)]
struct Row {
    runs: u64,
    failed: u64,
    tally: Tally,
}

impl Report {
    pub(crate) fn new(seed: u64) -> Report {
        Report {
            seed,
            ..Report::default()
        }
    }

    /// Adds a run.
    pub(crate) fn add(&mut self, scenario: &'static str, run: &Tally) {
        let row = self.rows.entry(scenario).or_default();
        row.runs += 1;
        row.tally.kills += run.kills;
        row.tally.stops += run.stops;
        row.tally.take_overs += run.take_overs;
        row.tally.resumes += run.resumes;
        row.tally.most.raise(run.most);
    }

    /// Notes a failure, and prints it.
    pub(crate) fn fail(&mut self, what: String) {
        eprintln!("FAILED {what}");
        self.failures.push(what);
    }

    /// Notes the failure of a run.
    pub(crate) fn fail_in(&mut self, scenario: &'static str, what: String) {
        self.rows.entry(scenario).or_default().failed += 1;
        self.fail(what);
    }

    /// The report in Markdown.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "# Soak: seed {}, {} s, {} rounds\n",
            self.seed,
            self.took.as_secs(),
            self.rounds
        )?;
        writeln!(
            text,
            "| Scenario | Runs | Kills | Stops | Take-overs | Resumes | Most memory (MiB) | Descriptors | Threads | Result |"
        )?;
        writeln!(text, "|---|---|---|---|---|---|---|---|---|---|")?;
        let mut all = Row::default();
        for scenario in SCENARIOS {
            let Some(row) = self.rows.get(scenario.name) else {
                continue;
            };
            line(text, scenario.name, row)?;
            all.runs += row.runs;
            all.failed += row.failed;
            all.tally.kills += row.tally.kills;
            all.tally.stops += row.tally.stops;
            all.tally.take_overs += row.tally.take_overs;
            all.tally.resumes += row.tally.resumes;
            all.tally.most.raise(row.tally.most);
        }
        line(text, "all", &all)?;
        writeln!(text)?;
        writeln!(
            text,
            "- requests that the model answered with a fault: {}",
            self.faults
        )?;
        writeln!(text, "- looks of readers beside the runs: {}", self.looks)?;
        writeln!(
            text,
            "- most bytes of a round's run folders before they were removed: {}",
            self.largest
        )?;
        if let (Some((_, first)), Some((runs, last))) = (self.engine.warm(), self.engine.last()) {
            writeln!(
                text,
                "- one engine in one process: {runs} runs; memory {} MiB after it was warm, {} MiB at the end; descriptors {} and {}; threads {} and {}",
                first.memory / 1024,
                last.memory / 1024,
                first.descriptors,
                last.descriptors,
                first.threads,
                last.threads,
            )?;
        }
        let Served {
            requests,
            events,
            most,
        } = self.server;
        writeln!(
            text,
            "- a server over the runs: {requests} requests, {events} streamed events; most memory {} MiB, {} descriptors, {} threads",
            most.memory / 1024,
            most.descriptors,
            most.threads,
        )?;
        match self.failures.len() {
            0 => writeln!(text, "\nResult: nothing was lost, done twice or left behind."),
            count => {
                writeln!(text, "\nResult: {count} failures.\n")?;
                for failure in &self.failures {
                    writeln!(text, "```text\n{failure}\n```")?;
                }
                Ok(())
            }
        }
    }
}

fn line(text: &mut String, name: &str, row: &Row) -> std::fmt::Result {
    let Row { runs, failed, tally } = row;
    let Use {
        memory,
        descriptors,
        threads,
    } = tally.most;
    let result = match failed {
        0 => "ok".to_owned(),
        failed => format!("{failed} failed"),
    };
    writeln!(
        text,
        "| {name} | {runs} | {} | {} | {} | {} | {} | {descriptors} | {threads} | {result} |",
        tally.kills,
        tally.stops,
        tally.take_overs,
        tally.resumes,
        memory / 1024,
    )
}
