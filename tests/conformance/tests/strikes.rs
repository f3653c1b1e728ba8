//! Workers and the server are killed while runs go on.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use orchestra_conformance::case::Case;
use orchestra_conformance::driver::{Driver, answer_all};
use orchestra_conformance::fleet::Fleet;
use orchestra_conformance::remote::Remote;
use orchestra_conformance::workers::{Order, free_address};
use orchestra_engine::{EventKind, RunEvent, RunId};
use orchestra_oracle_tests::{case_count, seed};

const PROGRAM: &str = env!("CARGO_BIN_EXE_orchestra-conformance-worker");

/// What is struck, and how often.
struct Strikes {
    workers: Duration,
    server: Duration,
}

/// Executes the cases while workers and the server are killed. Returns the events of each run.
async fn under_strikes(
    fleet: &mut Fleet,
    cases: &[Arc<Case>],
    log: &Path,
    strikes: Strikes,
) -> (Vec<(RunId, Vec<RunEvent>)>, [u64; 2]) {
    let order = Order {
        ingress: fleet.server.ingress_url().to_owned(),
        blobs: fleet.blobs_folder(),
        listen: free_address(),
        log: log.to_owned(),
        takes: Duration::from_millis(20),
        cases: cases.iter().map(|case| case.plan()).collect(),
    };
    let mut workers = [0, 1].map(|_| order.start(PROGRAM.as_ref()));
    let url = format!("http://{}", order.listen);
    while fleet.admin().register(&url).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let client = fleet.client();
    let remote = Arc::new(Remote(client.clone()));
    let runs = futures_util::stream::iter(cases.iter().cloned().map(|case| {
        let (remote, client) = (remote.clone(), client.clone());
        tokio::spawn(async move {
            let run = remote.start(&case).await;
            let (ended, ()) = tokio::join!(remote.ended(&run), answer_all(&*remote, &case, &run));
            let difference = case.expected.difference(&ended);
            assert!(
                difference.is_empty(),
                "{} {run}\n{}\n{difference}",
                case.name,
                case.dot
            );
            let events = loop {
                match client.events(&run, 0).await {
                    Ok(events) => break events,
                    Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                }
            };
            (run, events)
        })
    }));
    let runs = runs.buffer_unordered(48).map(|run| run.unwrap()).collect();
    let mut runs = std::pin::pin!(async move {
        let runs: Vec<(RunId, Vec<RunEvent>)> = runs.await;
        runs
    });
    let (mut worker_struck, mut server_struck) = (Instant::now(), Instant::now());
    let mut struck = [0, 0];
    loop {
        let strike = tokio::time::sleep(Duration::from_millis(100));
        tokio::select! {
            runs = &mut runs => return (runs, struck),
            () = strike => {}
        }
        // One of two workers is killed, while the other one serves.
        let at = (struck[0] % 2) as usize;
        let other = &workers[1 - at];
        if worker_struck.elapsed() >= strikes.workers && other.serves_for() > Duration::from_millis(500) {
            worker_struck = Instant::now();
            struck[0] += 1;
            workers[at] = order.start(PROGRAM.as_ref());
        }
        if server_struck.elapsed() >= strikes.server {
            struck[1] += 1;
            fleet.server.kill().await;
            fleet.server.restart().await.unwrap();
            server_struck = Instant::now();
        }
    }
}

/// Returns the times at which each attempt of a run began, and whether the execution was said to be a repeat.
fn begun(log: &Path) -> BTreeMap<(String, String), Vec<(u64, bool)>> {
    let mut begun: BTreeMap<(String, String), Vec<(u64, bool)>> = BTreeMap::new();
    for line in std::fs::read_to_string(log).unwrap().lines() {
        let [time, run, what, key] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        if what != "ends" {
            let begun = begun.entry((run.to_owned(), key.to_owned())).or_default();
            begun.push((time.parse().unwrap(), what == "again"));
        }
    }
    begun
}

/// Returns the name of an attempt from its event, without the number of restarts.
fn ended(kind: &EventKind) -> Option<String> {
    let (EventKind::StageCompleted { stage, .. } | EventKind::StageFailed { stage, .. }) = kind else {
        return None;
    };
    let branch = stage
        .branch
        .as_ref()
        .map_or_else(String::new, |branch| format!("{branch}/"));
    Some(format!(
        "{branch}{}#{}/{}",
        stage.node, stage.visit, stage.attempt
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_finished_stage_runs_again_whatever_is_killed() {
    let Some(mut fleet) = Fleet::start("no_finished_stage_runs_again_whatever_is_killed").await else {
        return;
    };
    let first = seed(20_000);
    let seeds = first..first + case_count(400) as u64;
    let cases: Vec<Arc<Case>> = seeds.map(|seed| Arc::new(Case::new(seed))).collect();
    let log = fleet.folder.path().join("attempts.log");
    let began = Instant::now();
    let strikes = Strikes {
        workers: Duration::from_secs(1),
        server: Duration::from_secs(8),
    };
    let (runs, struck) = under_strikes(&mut fleet, &cases, &log, strikes).await;
    let begun = begun(&log);
    let (mut attempts, mut repeats) = (0, 0);
    for (run, events) in runs {
        let has_restarts = events
            .iter()
            .any(|event| event.kind.name() == "PipelineRestarted");
        for event in events.iter().filter(|_| !has_restarts) {
            let Some(times) = ended(&event.kind).and_then(|key| begun.get(&(run.to_string(), key))) else {
                continue;
            };
            attempts += 1;
            repeats += times.len() - 1;
            let last = times.iter().map(|(time, _)| *time).max().unwrap();
            assert!(
                last <= event.time.as_millis(),
                "{run}: {} ran again after its end was accepted",
                event.kind.name()
            );
            // The first one may have ended before its handler began.
            let are_repeats = times[1..].iter().all(|(_, is_repeat)| *is_repeat);
            assert!(
                are_repeats,
                "{run}: a repeat is said to be one: {times:?} {:?}",
                event.kind
            );
        }
    }
    println!(
        "{} runs in {:.1} s, {attempts} attempts; {} workers and {} servers killed; {repeats} attempts begun again",
        cases.len(),
        began.elapsed().as_secs_f64(),
        struck[0],
        struck[1]
    );
    assert!(struck[0] > 2, "{struck:?}");
    assert!(attempts > cases.len(), "{attempts}");
}
