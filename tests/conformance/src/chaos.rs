//! Runs while workers and the server are killed, connections break, and other versions of the program are deployed.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use orchestra_engine::{EventKind, RunEvent, RunId};
use orchestra_restate_server_tests::{FaultProxy, Faults};
use serde_json::json;

use crate::case::Case;
use crate::driver::{Driver as _, answer_all};
use crate::fleet::Fleet;
use crate::remote::Remote;
use crate::workers::{Killed, Order, free_address};

/// The time after which a run counts as stuck. Undisturbed, none takes seconds.
const STUCK: Duration = Duration::from_secs(300);

/// What happens, and how often. `None` for what does not.
#[derive(Clone, Debug, Default)]
pub struct Chaos {
    /// The interval at which one of two workers is killed.
    pub workers: Option<Duration>,
    /// The interval at which the server is killed.
    pub server: Option<Duration>,
    /// The faults of the connections.
    pub faults: Option<Faults>,
    /// The interval at which another version of the program is deployed.
    pub deploys: Option<Duration>,
    /// The time that an attempt takes.
    pub takes: Duration,
    /// The number of runs at a time.
    pub at_once: usize,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The runs that ended as they do undisturbed.
    pub runs: usize,
    /// The attempts whose ends were accepted.
    pub attempts: usize,
    /// The attempts that began again.
    pub repeats: usize,
    /// The calls that were noted.
    pub calls: usize,
    /// The calls that were made again, because they were not noted.
    pub calls_again: usize,
    /// The workers that were killed.
    pub workers: u64,
    /// The times that the server was killed.
    pub servers: u64,
    /// The versions that were deployed after the first one.
    pub deploys: u64,
    /// The faults of connections.
    pub faults: u64,
}

impl Summary {
    /// Adds what happened in another round.
    pub fn add(&mut self, other: &Summary) {
        self.runs += other.runs;
        self.attempts += other.attempts;
        self.repeats += other.repeats;
        self.calls += other.calls;
        self.calls_again += other.calls_again;
        self.workers += other.workers;
        self.servers += other.servers;
        self.deploys += other.deploys;
        self.faults += other.faults;
    }
}

/// A version of the program that is deployed: two workers at one address.
struct Release {
    order: Order,
    workers: [Killed; 2],
    /// The way from the server to the workers, and the way back.
    proxies: Option<(FaultProxy, FaultProxy)>,
}

/// The world of a chaos.
struct World<'w> {
    fleet: &'w mut Fleet,
    chaos: &'w Chaos,
    program: PathBuf,
    log: PathBuf,
    cases: &'w [Arc<Case>],
    seed: u64,
    summary: Summary,
}

/// Executes cases while everything breaks.
///
/// # Panics
/// Panics if a run does not end as it does undisturbed, if an attempt begins after its end was accepted, or if a call
/// that was noted is made again.
pub async fn run(
    fleet: &mut Fleet,
    program: &Path,
    cases: &[Arc<Case>],
    chaos: &Chaos,
    seed: u64,
) -> Summary {
    let log = fleet.folder.path().join(format!("attempts-{seed}.log"));
    let client = fleet.client();
    let mut world = World {
        fleet,
        chaos,
        program: program.to_owned(),
        log: log.clone(),
        cases,
        seed,
        summary: Summary::default(),
    };
    let mut releases = vec![world.release(0).await];
    let remote = Arc::new(Remote(client.clone()));
    let runs = futures_util::stream::iter(cases.iter().cloned().map(|case| {
        let (remote, client) = (remote.clone(), client.clone());
        tokio::spawn(async move {
            let run = remote.start(&case).await;
            let ends = async { tokio::join!(remote.ended(&run), answer_all(&*remote, &case, &run)).0 };
            let ended = tokio::time::timeout(STUCK, ends).await;
            let ended = ended.unwrap_or_else(|_| panic!("{} {run} does not end\n{}", case.name, case.dot));
            let difference = case.difference(&ended.without_repeats());
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
    let runs = runs.buffer_unordered(chaos.at_once).map(|run| run.unwrap());
    let mut runs = std::pin::pin!(async move {
        let runs: Vec<(RunId, Vec<RunEvent>)> = runs.collect().await;
        runs
    });
    let begun = Instant::now();
    let (mut worker, mut server, mut deploy) = (begun, begun, begun);
    let is_due =
        |interval: Option<Duration>, last: Instant| interval.is_some_and(|every| last.elapsed() >= every);
    let ended = loop {
        let pause = tokio::time::sleep(Duration::from_millis(100));
        tokio::select! {
            runs = &mut runs => break runs,
            () = pause => {}
        }
        let newest = releases.last_mut().unwrap();
        // One of two workers is killed, while the other one serves.
        let at = (world.summary.workers % 2) as usize;
        let other = newest.workers[1 - at].serves_for();
        if is_due(chaos.workers, worker) && other > Duration::from_millis(500) {
            worker = Instant::now();
            world.summary.workers += 1;
            newest.workers[at] = newest.order.start(&world.program);
        }
        if is_due(chaos.server, server) {
            world.summary.servers += 1;
            world.fleet.server.kill().await;
            world.fleet.server.restart().await.unwrap();
            server = Instant::now();
        }
        if is_due(chaos.deploys, deploy) {
            deploy = Instant::now();
            world.summary.deploys += 1;
            let number = world.summary.deploys;
            releases.push(world.release(number).await);
        }
        if releases.len() > 1 && world.is_drained(&releases[0]).await {
            world.retire(&releases.remove(0));
        }
    };
    releases.iter().for_each(|release| world.retire(release));
    world.check(&ended);
    world.summary
}

impl World<'_> {
    /// Deploys a version of the program.
    async fn release(&self, number: u64) -> Release {
        let listen = free_address();
        let mut ingress = self.fleet.server.ingress_url().to_owned();
        let mut url = format!("http://{listen}");
        let proxies = self.chaos.faults.as_ref().map(|faults| {
            let server = ingress.strip_prefix("http://").unwrap().parse().unwrap();
            let to_workers = FaultProxy::start(listen, self.seed ^ number).unwrap();
            let to_server = FaultProxy::start(server, self.seed ^ number ^ 0xff).unwrap();
            to_workers.faults(*faults);
            to_server.faults(*faults);
            ingress = to_server.url();
            url = to_workers.url();
            (to_workers, to_server)
        });
        let order = Order {
            ingress,
            blobs: self.fleet.blobs_folder(),
            listen,
            log: self.log.clone(),
            takes: self.chaos.takes,
            cases: self.cases.iter().map(|case| case.plan(number)).collect(),
        };
        let workers = [order.start(&self.program), order.start(&self.program)];
        while self.fleet.admin().register(&url).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Release {
            order,
            workers,
            proxies,
        }
    }

    /// Returns whether nothing is executed by a release any more, so that its workers can go.
    async fn is_drained(&self, release: &Release) -> bool {
        let port = match &release.proxies {
            Some((to_workers, _)) => to_workers.address().port(),
            None => release.order.listen.port(),
        };
        let query = format!(
            "SELECT count(*) AS n FROM sys_invocation i JOIN sys_deployment d ON i.pinned_deployment_id = d.id \
             WHERE d.endpoint LIKE '%:{port}%' AND i.status <> 'completed'"
        );
        let found = self.fleet.query(&query).await;
        found["rows"][0]["n"] == json!(0)
    }

    fn retire(&mut self, release: &Release) {
        if let Some((to_workers, to_server)) = &release.proxies {
            self.summary.faults += to_workers.counts().faults() + to_server.counts().faults();
        }
    }

    /// Compares the log of the attempts with the events of the runs.
    fn check(&mut self, runs: &[(RunId, Vec<RunEvent>)]) {
        let log = std::fs::read_to_string(&self.log).unwrap();
        let mut begun: HashMap<(&str, &str), Vec<(u64, bool)>> = HashMap::new();
        let mut noted: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
        for line in log.lines() {
            let [time, run, what, key] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            match what.split_once('-') {
                None if what != "ends" => {
                    let begun = begun.entry((run, key)).or_default();
                    begun.push((time.parse().unwrap(), what == "again"));
                }
                Some(("noted", number)) => {
                    noted.insert((run, key, number), 0);
                }
                Some(("call", number)) => {
                    assert!(
                        !noted.contains_key(&(run, key, number)),
                        "a noted call is made again: {line}"
                    );
                    self.summary.calls_again += 1;
                }
                _ => {}
            }
        }
        self.summary.calls = noted.len();
        self.summary.calls_again -= noted.len();
        for (run, events) in runs {
            self.summary.runs += 1;
            // Names of attempts come again after a restart.
            if events
                .iter()
                .any(|event| event.kind.name() == "PipelineRestarted")
            {
                continue;
            }
            for event in events {
                let Some(key) = ended(&event.kind) else {
                    continue;
                };
                let Some(times) = begun.get(&(&**run, &*key)) else {
                    continue;
                };
                self.summary.attempts += 1;
                self.summary.repeats += times.len() - 1;
                let last = times.iter().map(|(time, _)| *time).max().unwrap();
                let kind = event.kind.name();
                assert!(
                    last <= event.time.as_millis(),
                    "{run}: {kind} ran again after its end was accepted"
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
        assert!(self.summary.calls > 0, "{:?}", self.summary);
    }
}

/// Returns the name of an attempt from the event of its end.
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

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} runs ended as undisturbed: {} attempts, {} begun again; {} calls noted, {} made again before they were; \
             killed: {} workers, the server {} times; {} deploys; {} faults of connections",
            self.runs,
            self.attempts,
            self.repeats,
            self.calls,
            self.calls_again,
            self.workers,
            self.servers,
            self.deploys,
            self.faults
        )
    }
}
