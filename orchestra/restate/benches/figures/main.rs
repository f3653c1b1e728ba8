//! The figures of runs on a Restate server, beside those of the bare SDK in the same process and on the same server.
//!
//! `cargo bench -p orchestra-restate` prints one table; with names of figures behind `--`, only these. Without a server it
//! prints that it was skipped.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orchestra_conformance::fleet::Fleet;
use orchestra_conformance::workers::free_address;
use orchestra_engine::{
    Clock as _, Engine, Entry, Handler, HandlerFuture, HandlerSet, KindSpec, Kinds, Outcome, Registry, RunId,
    SharedPipeline, StageContext, SystemClock, Words,
};
use orchestra_oracle_tests::load_pipeline;
use orchestra_restate::{Blobs, Client, RemoteStart, Worker, WorkerBuilder};
use serde_json::{Value, json};
use tokio::sync::mpsc;

mod bare;

use bare::{Http, serve_bare};

/// Counts its visits in the context; stores notes if the node says so.
#[derive(Clone)]
struct Work;

const SPEC: KindSpec = KindSpec {
    kind: "work",
    fields: &[],
    words: Words::Open,
};

impl Handler for Work {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        Box::pin(async move {
            let notes = stage
                .node()
                .text("notes")
                .map_or(0, |notes| notes.len() as u32 * 100);
            let began = Instant::now();
            for number in 0..notes {
                stage
                    .note(json!({ "number": number, "text": "x".repeat(1_000) }))
                    .await;
            }
            let micros = began.elapsed().as_micros() as u64 / u64::from(u32::max(notes, 1));
            let count = stage
                .context()
                .get("count")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            Outcome::success()
                .set("count", count + 1)
                .set("note_micros", micros)
                .into()
        })
    }
}

impl HandlerSet for Work {
    const KINDS: Kinds = Kinds::List(&[SPEC]);

    fn register(self, registry: &mut Registry) {
        registry.add(SPEC, Arc::new(self));
    }
}

fn line(name: &str, stages: usize) -> String {
    let names: Vec<String> = (0..stages).map(|at| format!("s{at}")).collect();
    let nodes: String = names.iter().map(|name| format!("{name} [type=work]; ")).collect();
    format!(
        "digraph {name} {{ start -> {} -> exit; {nodes} }}",
        names.join(" -> ")
    )
}

fn wide(branches: usize) -> String {
    let each = |at: usize| format!("fan -> b{at} -> join; b{at} [type=work]; ");
    let all: String = (0..branches).map(each).collect();
    format!(
        "digraph wide {{ start -> fan; fan [shape=component, max_parallel={branches}]; {all} \
         join [shape=tripleoctagon]; join -> exit }}"
    )
}

fn again(name: &str, times: usize) -> String {
    format!(
        "digraph {name} {{ max_node_visits={times}; start -> work; work [type=work]; \
         work -> work [condition=\"context.count<{times}\"]; work -> exit [condition=\"context.count>={times}\"] }}"
    )
}

const GATE: &str = r#"digraph gate { start -> s; s [type=work]; s -> ask; ask [shape=hexagon, label="Ship it?"]
    ask -> exit [label="[Y] Yes"]; ask -> t [label="[N] No"]; t [type=work]; t -> exit }"#;

fn add(worker: WorkerBuilder, name: &str, dot: &str) -> WorkerBuilder {
    let pipeline = SharedPipeline::from(load_pipeline(dot).unwrap_or_else(|error| panic!("{name}: {error}")));
    worker.pipeline(
        Entry::new(name, pipeline, || Work),
        Engine::builder().build().unwrap(),
    )
}

fn new_run() -> RunId {
    RunId::generate(SystemClock::new().now())
}

/// Executes a run to its end. Returns the execution time that the run itself counted.
async fn run(client: &Client, pipeline: &str) -> (RunId, Duration) {
    let run = new_run();
    client.start(&run, RemoteStart::of(pipeline)).await.unwrap();
    let result = client.wait(&run).await.unwrap();
    assert_eq!(result.failure, None, "{pipeline}");
    let executed = client.status(&run).await.unwrap().executed;
    (run, executed)
}

/// Returns the median of some measurements.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn row(figure: &str, ours: String, bare: String, ratio: String, limit: &str) {
    println!("| {figure} | {ours} | {bare} | {ratio} | {limit} |");
}

/// Prints a figure that the bare SDK does not have.
fn row_alone(figure: &str, ours: String, limit: &str) {
    row(figure, ours, String::new(), String::new(), limit);
}

fn row_of_times(figure: &str, ours: Duration, bare: Duration, limit: &str) {
    let (ours, bare) = (millis(ours), millis(bare));
    row(
        figure,
        format!("{ours:.2}"),
        format!("{bare:.2}"),
        format!("{:.2}x", ours / bare),
        limit,
    );
}

/// The names of the figures, in the order of the table.
const FIGURES: [&str; 8] = [
    "stage",
    "throughput",
    "note",
    "long",
    "wide",
    "waiting",
    "inline",
    "killed",
];

/// The size of the stored outcome of a stage in bytes.
const OUTCOME: usize = 220;

/// The argument with which this program serves as a worker that is killed.
const WORKER: &str = "worker";

fn main() {
    // Cargo passes `--bench`.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    if let [WORKER, ingress, blobs, address] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return runtime.block_on(serve_killed(ingress, Path::new(blobs), address.parse().unwrap()));
    }
    let is_wanted = |name: &&str| arguments.is_empty() || arguments.iter().any(|wanted| wanted == name);
    let wanted: Vec<&str> = FIGURES.into_iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        // The words are those of other benches.
        return;
    }
    runtime.block_on(measure(&wanted));
}

async fn measure(wanted: &[&str]) {
    let Some(fleet) = Fleet::start("the figures").await else {
        return;
    };
    // It decides about the cryptography of the process.
    let client = fleet.client();
    let http = Arc::new(Http {
        url: fleet.server.ingress_url().to_owned(),
        client: reqwest::Client::builder().no_proxy().build().unwrap(),
    });
    let bare_ends = serve_bare(&fleet, &http).await;
    let lines = [
        ("line", line("line", 100)),
        ("wide", wide(300)),
        ("gate", GATE.to_owned()),
        (
            "notes",
            "digraph notes { start -> s -> exit; s [type=work, notes=\"xx\"] }".to_owned(),
        ),
        ("again1000", again("again1000", 1_000)),
        ("again10000", again("again10000", 10_000)),
        ("short", line("short", 20)),
    ];
    let mut worker = fleet.worker();
    for (name, dot) in &lines {
        worker = add(worker, name, dot);
    }
    let worker = worker.stages(1_000).build().unwrap();
    fleet.serve(&worker).await;
    let mut measured = Measured {
        client,
        http,
        bare_ends,
        fleet,
    };
    println!("| Figure | Orchestra | bare SDK | ratio | limit |\n|---|---|---|---|---|");

    // Warm connections and code.
    run(&measured.client, "line").await;
    measured.http.post("BareService/calls", &json!(100)).await;
    for name in wanted {
        match *name {
            "stage" => measured.stage().await,
            "throughput" => measured.throughput().await,
            "note" => measured.note().await,
            "long" => measured.long().await,
            "wide" => measured.wide().await,
            "waiting" => measured.waiting().await,
            "inline" => measured.inline().await,
            _ => measured.killed().await,
        }
    }
    measured.fleet.server.stop().await;
}

/// What the figures are measured with.
struct Measured {
    fleet: Fleet,
    client: Client,
    http: Arc<Http>,
    /// Receives the ends of [`BareRun`](bare::BareRun)s.
    bare_ends: mpsc::UnboundedReceiver<()>,
}

impl Measured {
    /// A stage on a worker.
    async fn stage(&self) {
        let mut ours = Vec::new();
        let mut bare = Vec::new();
        for _ in 0..5 {
            ours.push(run(&self.client, "line").await.1 / 100);
            let began = Instant::now();
            self.http.post("BareService/calls", &json!(100)).await;
            bare.push(began.elapsed() / 100);
        }
        row_of_times(
            "remote stage, 1 run, ms",
            median(ours),
            median(bare),
            "<= 2.0x a call",
        );
    }

    /// The stages of 200 runs at once.
    async fn throughput(&mut self) {
        let runs = (0..200).map(|_| {
            let client = self.client.clone();
            tokio::spawn(async move {
                let (run, _) = run(&client, "short").await;
                let status = client.status(&run).await.unwrap();
                (status.began.as_millis(), status.now.as_millis())
            })
        });
        let mut times = Vec::new();
        for run in runs.collect::<Vec<_>>() {
            times.push(run.await.unwrap());
        }
        // From the first start to the last turn, because clients look only now and then.
        let began = times.iter().map(|(began, _)| began).min().unwrap();
        let ended = times.iter().map(|(_, ended)| ended).max().unwrap();
        let ours = 4_000_000.0 / (ended - began) as f64;
        let began = Instant::now();
        let calls = (0..200).map(|_| {
            let http = self.http.clone();
            tokio::spawn(async move { http.post("BareService/calls", &json!(20)).await })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        let bare = 4_000.0 / began.elapsed().as_secs_f64();
        row(
            "remote stages/s, 200 runs",
            format!("{ours:.0}"),
            format!("{bare:.0}"),
            format!("{:.2}x", ours / bare),
            ">= 0.6x the calls",
        );
        let began = Instant::now();
        let starts = (0..200).map(|number| {
            let http = self.http.clone();
            let message = json!({ "run": format!("bare-{number}"), "left": 20, "content": "x".repeat(500) });
            tokio::spawn(async move { http.post(&format!("BareRun/bare-{number}/turn"), &message).await })
        });
        for start in starts.collect::<Vec<_>>() {
            start.await.unwrap();
        }
        for _ in 0..200 {
            self.bare_ends.recv().await.unwrap();
        }
        let bare = 4_000.0 / began.elapsed().as_secs_f64();
        row(
            "the same, beside its messages alone",
            format!("{ours:.0}"),
            format!("{bare:.0}"),
            format!("{:.2}x", ours / bare),
            "",
        );
    }

    /// Notes.
    async fn note(&self) {
        let (noted, _) = run(&self.client, "notes").await;
        let result = self.client.result(&noted).await.unwrap();
        let micros = result.context.get("note_micros").and_then(Value::as_u64);
        let value = json!({ "number": 1, "text": "x".repeat(1_000) });
        let began = Instant::now();
        for _ in 0..200 {
            self.http.post("BareObject/one/add", &value).await;
        }
        let bare = began.elapsed() / 200;
        let ours = Duration::from_micros(micros.unwrap());
        row_of_times("note of 1 KB, ms", ours, bare, "<= 1.2x an object call");
    }

    /// Many stages in one run.
    async fn long(&self) {
        let thousand = millis(run(&self.client, "again1000").await.1) / 1_000.0;
        let ten_thousand = millis(run(&self.client, "again10000").await.1) / 10_000.0;
        row(
            "stage of 10,000 beside 1,000, ms",
            format!("{ten_thousand:.2}"),
            format!("{thousand:.2}"),
            format!("{:.2}x", ten_thousand / thousand),
            "<= 1.1x",
        );
    }

    /// One run with many stages at once.
    async fn wide(&self) {
        let mut rates = Vec::new();
        for _ in 0..3 {
            rates.push(300.0 / run(&self.client, "wide").await.1.as_secs_f64());
        }
        rates.sort_by(f64::total_cmp);
        let rate = format!("{:.0}", rates[1]);
        row_alone("finishes/s of one run, 300 at once", rate, ">= 150/s");
    }

    /// Runs that wait for a person.
    async fn waiting(&self) {
        let mut waiting = Vec::new();
        for number in 0..200 {
            let run = RunId::new(format!("waiting-{number}")).unwrap();
            self.client.start(&run, RemoteStart::of("gate")).await.unwrap();
            waiting.push(run);
        }
        for run in &waiting {
            while self.client.status(run).await.unwrap().questions.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        let open = self.query("SELECT count(*) AS n FROM sys_invocation WHERE target_service_name LIKE 'Orchestra%' AND status <> 'completed'").await;
        let bytes = self.query("SELECT sum(length(value)) AS n FROM state WHERE service_name = 'OrchestraRun' AND service_key LIKE 'waiting-%'").await;
        row_alone(
            "waiting run: invocations; KiB of state",
            format!("{}; {:.1}", open, bytes / 200.0 / 1024.0),
            "0; <= 48 KiB",
        );
    }

    async fn query(&self, query: &str) -> f64 {
        let answered = self.fleet.query(query).await;
        let number = answered["rows"][0]["n"].as_f64();
        number.unwrap_or_else(|| panic!("{answered}"))
    }

    /// Stages within turns.
    async fn inline(&self) {
        let worker = add(self.fleet.worker().inline("work"), "inline", &line("inline", 60));
        self.fleet.serve(&worker.build().unwrap()).await;
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        run(&self.client, "inline").await;
        for _ in 0..9 {
            let run = new_run();
            let began = Instant::now();
            self.client.start(&run, RemoteStart::of("inline")).await.unwrap();
            ours.push(began.elapsed() / 60);
            let began = Instant::now();
            self.http.post("BareService/runs", &json!([60, OUTCOME])).await;
            bare.push(began.elapsed() / 60);
        }
        row_of_times(
            "stage within a turn, ms",
            median(ours),
            median(bare),
            "<= 1.2x ctx.run",
        );
    }

    /// One of two workers that is killed.
    async fn killed(&self) {
        let mut gaps = Vec::new();
        for _ in 0..3 {
            let address = free_address();
            let mut first = self.process(address);
            let mut second = self.process(address);
            let admin = self.fleet.admin();
            // Until they listen.
            while admin
                .register_by_force(&format!("http://{address}"))
                .await
                .is_err()
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let id = new_run();
            self.client.start(&id, RemoteStart::of("killed")).await.unwrap();
            while self.client.status(&id).await.unwrap().events < 100 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            first.kill().unwrap();
            first.wait().unwrap();
            self.client.wait(&id).await.unwrap();
            let events = self.client.events(&id, 0).await.unwrap();
            second.kill().unwrap();
            second.wait().unwrap();
            let times: Vec<u64> = events.iter().map(|event| event.time.as_millis()).collect();
            gaps.push(times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap());
        }
        let longest = gaps.into_iter().max().unwrap();
        let longest = longest.to_string();
        row_alone("longest gap, one of two workers killed, ms", longest, "<= 2,000");
    }

    /// Starts a worker that can be killed.
    fn process(&self, address: SocketAddr) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([WORKER, self.fleet.server.ingress_url()]);
        command.arg(self.fleet.blobs_folder()).arg(address.to_string());
        command.spawn().unwrap()
    }
}

async fn serve_killed(ingress: &str, blobs: &Path, address: SocketAddr) {
    let blobs = Blobs::in_folder(blobs).unwrap();
    let worker = add(Worker::builder(ingress, blobs), "killed", &line("killed", 400));
    let listener = Worker::listen(address).unwrap();
    let serving = worker.build().unwrap().serve(listener, std::future::pending());
    serving.await;
}
