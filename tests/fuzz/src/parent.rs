//! The process that starts the workers and gathers what they tell.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use orchestra_fuzz_tests::minimise::minimise;
use orchestra_fuzz_tests::regressions::keep;
use orchestra_fuzz_tests::{Failure, Inputs, TARGETS, Target};

use crate::Arguments;
use crate::table;
use crate::worker::Told;

/// The most inputs of one worker process.
const RANGE: u64 = 50_000;

/// What is known of a target.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) inputs: u64,
    /// The time that its workers took, together.
    pub(crate) time: Duration,
    pub(crate) slowest: Duration,
    pub(crate) slowest_number: u64,
    pub(crate) peak_kib: u64,
    /// How often inputs failed at each place.
    pub(crate) failures: BTreeMap<String, u64>,
}

/// Inputs of a target for one worker.
struct Work {
    target: &'static Target,
    first: u64,
    end: u64,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let mut chosen = Vec::new();
    for name in &arguments.target {
        let Some(target) = Target::named(name) else {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("there is no target `{name}`; targets: {}", names.join(", "));
            return ExitCode::from(2);
        };
        chosen.push(target);
    }
    if chosen.is_empty() {
        chosen.extend(TARGETS);
    }
    let mut work = VecDeque::new();
    for target in &chosen {
        let count = (arguments.inputs / target.share).max(1);
        let firsts = (0..count).step_by(RANGE as usize);
        work.extend(firsts.map(|first| Work {
            target,
            first,
            end: (first + RANGE).min(count),
        }));
    }
    let rows: BTreeMap<&str, Row> = chosen
        .iter()
        .map(|target| (target.name, Row::default()))
        .collect();
    let (work, rows) = (Mutex::new(work), Mutex::new(rows));
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let next = work.lock().expect("no panic").pop_front();
                    let Some(next) = next else { return };
                    one(&next, arguments.seed, &rows, &work);
                }
            });
        }
    });
    let rows = rows.into_inner().expect("no panic");
    table::print(&chosen, &rows, arguments, begun.elapsed());
    if rows.values().all(|row| row.failures.is_empty()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs a worker to its end. Where an input ended it, the rest of its inputs go back to the others.
fn one(next: &Work, seed: u64, rows: &Mutex<BTreeMap<&str, Row>>, work: &Mutex<VecDeque<Work>>) {
    let target = next.target;
    let begun = Instant::now();
    let ended = worker(target, seed, next.first, next.end, |reported| {
        let mut rows = rows.lock().expect("no panic");
        let row = rows.entry(target.name).or_default();
        match reported {
            Told::Next(_) => {}
            Told::Failed {
                number,
                location,
                message,
                file,
            } => {
                *row.failures.entry(location.clone()).or_default() += 1;
                if !file.is_empty() {
                    eprintln!(
                        "{}: input {number} of seed {seed} fails: {location}: {message}\n  {file}",
                        target.name
                    );
                }
            }
            Told::Hangs(number) => eprintln!("{}: input {number} of seed {seed} does not end", target.name),
            Told::Done {
                inputs,
                slowest,
                slowest_number,
                peak_kib,
            } => {
                row.inputs += inputs;
                row.peak_kib = row.peak_kib.max(*peak_kib);
                if *slowest > row.slowest {
                    (row.slowest, row.slowest_number) = (*slowest, *slowest_number);
                }
            }
        }
    });
    if let Some(last) = ended {
        let number = culprit(target, seed, last, next.end);
        let mut rows = rows.lock().expect("no panic");
        let row = rows.entry(target.name).or_default();
        row.inputs += number + 1 - next.first;
        *row.failures.entry("the process ended".to_owned()).or_default() += 1;
        drop(rows);
        let small = smaller(target, &Inputs::new(target).input(seed, number));
        let kept =
            keep(target, &small).map_or_else(|error| error.to_string(), |path| path.display().to_string());
        eprintln!(
            "{}: input {number} of seed {seed} ends its process\n  {kept}",
            target.name
        );
        if number + 1 < next.end {
            let mut work = work.lock().expect("no panic");
            work.push_front(Work {
                target,
                first: number + 1,
                end: next.end,
            });
        }
    }
    let mut rows = rows.lock().expect("no panic");
    rows.entry(target.name).or_default().time += begun.elapsed();
}

/// Runs a worker; gives the last input that it reported of, if it ended before it was done.
fn worker(target: &Target, seed: u64, first: u64, end: u64, mut hear: impl FnMut(&Told)) -> Option<u64> {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args(["--target", target.name, "--seed", &seed.to_string()])
        .args(["--worker", &format!("{first}..{end}")])
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be started");
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let (mut last, mut done) = (first, false);
    for line in output.lines().map_while(Result::ok) {
        let Ok(reported) = serde_json::from_str(&line) else {
            continue;
        };
        match &reported {
            Told::Next(number) | Told::Hangs(number) => last = *number,
            Told::Done { .. } => done = true,
            Told::Failed { .. } => {}
        }
        hear(&reported);
    }
    child.wait().expect("it was started");
    (!done).then_some(last)
}

/// Finds the input that ends a process, not far behind the last one that a worker reported of.
fn culprit(target: &Target, seed: u64, last: u64, end: u64) -> u64 {
    let mut from = last;
    while from < end {
        let to = (from + 32).min(end);
        if let Some(number) = worker(target, seed, from, to, |_| {}) {
            return number;
        }
        from = to;
    }
    last
}

/// Makes an input that ends its process smaller, in processes of their own.
fn smaller(target: &'static Target, input: &[u8]) -> Vec<u8> {
    let fails = |input: &[u8]| {
        let path = std::env::temp_dir().join(format!("orchestra-fuzz-{}", std::process::id()));
        std::fs::write(&path, input).ok()?;
        let program = std::env::current_exe().ok()?;
        let status = Command::new(program)
            .args(["--target", target.name, "--one"])
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        drop(std::fs::remove_file(&path));
        let ended = status.ok()?.code().is_none();
        ended.then(|| Failure {
            location: String::new(),
            message: String::new(),
        })
    };
    minimise(input, "", fails)
}
