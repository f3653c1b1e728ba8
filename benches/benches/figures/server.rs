//! The server: its start, its list and its memory on a folder of many runs, and how long events and answers take on
//! their way. The server is a process of its own; the clients are in this one.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use orchestra_benches::measure::{Bench, middle, single};
use orchestra_benches::pipelines::{Noops, chain};
use orchestra_engine::{Durability, Engine, Timestamp};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Number of runs in the folder of the server.
const RUNS: usize = 10_000;

/// Number of clients that watch one run, events of this run in a second, and their number.
const CLIENTS: usize = 1_000;
const EVENTS_A_SECOND: usize = 20;
const STAGES: usize = 50;

/// Number of stages whose events are timed one by one, and of questions.
const TIMED: usize = 40;
const QUESTIONS: usize = 15;

pub(crate) fn measure(bench: &mut Bench) {
    if bench.wants("server: many runs") {
        many_runs(bench);
    }
    if bench.wants("server: on the way") {
        on_the_way(bench);
    }
    if bench.wants("server: clients") {
        clients(bench);
    }
}

/// A server process on a project folder.
struct Served {
    child: Child,
    address: String,
    token: String,
}

impl Served {
    fn start(project: &Path) -> Served {
        let mut child = command(project, &["serve", "--listen", "127.0.0.1:0", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let output = BufReader::new(child.stdout.take().expect("an output"));
        let link = output.lines().map_while(Result::ok).find_map(|line| {
            let line: Value = serde_json::from_str(&line).ok()?;
            Some(line["link"].as_str()?.to_owned())
        });
        let link = link.expect("the server prints its link");
        let (address, token) = link.split_once("/ui/#token=").expect("a token");
        Served {
            child,
            address: address.trim_start_matches("http://").to_owned(),
            token: token.to_owned(),
        }
    }

    /// The memory of the process that only it uses, in MiB.
    fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let kib = status.lines().find_map(|line| {
            let rest = line.strip_prefix("RssAnon:")?;
            rest.trim().trim_end_matches(" kB").parse::<f64>().ok()
        });
        kib.unwrap_or(f64::NAN) / 1024.0
    }

    async fn connect(&self) -> Connection {
        Connection {
            stream: tokio::io::BufReader::new(TcpStream::connect(&self.address).await.expect("a connection")),
            head: format!(
                "Host: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n",
                self.address, self.token
            ),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to the server.
struct Connection {
    stream: tokio::io::BufReader<TcpStream>,
    head: String,
}

impl Connection {
    /// Sends a request, and returns the body of the reply.
    async fn send(&mut self, method: &str, path: &str, body: &Value) -> Value {
        self.write(method, path, &body.to_string()).await;
        let mut length = 0;
        loop {
            let line = self.line().await.expect("a head");
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.expect("a body");
        serde_json::from_slice(&body).unwrap_or_default()
    }

    async fn write(&mut self, method: &str, path: &str, body: &str) {
        // In version 1.0 of the protocol, a stream is not cut into chunks.
        let version = if path.ends_with("/events") { "1.0" } else { "1.1" };
        let request = format!(
            "{method} {path} HTTP/{version}\r\n{}Content-Length: {}\r\n\r\n{body}",
            self.head,
            body.len()
        );
        self.stream
            .write_all(request.as_bytes())
            .await
            .expect("the request is sent");
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await.ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// Returns the next event of a stream, with the time at which it arrived.
    async fn event(&mut self) -> Option<(Value, f64)> {
        loop {
            let line = self.line().await?;
            if let Some(data) = line.strip_prefix("data: ")
                && let Ok(event) = serde_json::from_str::<Value>(data)
                && event["event"].is_string()
            {
                return Some((event, now()));
            }
        }
    }

    async fn begin(&mut self, name: &str) -> String {
        let path = format!("/api/v1/definitions/{name}.dot/runs");
        let reply = self.send("POST", &path, &json!({})).await;
        reply["id"].as_str().expect("the run starts").to_owned()
    }
}

fn command(project: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-command-line"));
    command
        .args(arguments)
        .current_dir(project)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The present time in milliseconds since 1970.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs_f64() * 1e3
}

/// The time of an event in milliseconds since 1970.
fn time_of(event: &Value) -> f64 {
    let time: Timestamp = serde_json::from_value(event["time"].clone()).expect("an event has a time");
    time.as_millis() as f64
}

/// Measures the start of a server, its list and its memory beside ten thousand runs.
fn many_runs(bench: &mut Bench) {
    let project = tempfile::tempdir().expect("a folder");
    let runs = project.path().join(".orchestra/runs");
    let engine = Engine::builder().durability(Durability::Process).runs_dir(&runs);
    let (runtime, engine) = (single(), engine.build().expect("the engine is sound"));
    let pipeline = chain(3, "noop");
    runtime.block_on(async {
        for _ in 0..RUNS {
            let run = engine.start(pipeline, Noops).await.expect("the run starts");
            assert!(run.wait().await.expect("the run ends").is_success());
        }
    });
    // The index exists, as after every first look.
    assert!(
        command(project.path(), &["status"])
            .status()
            .expect("the command starts")
            .success()
    );
    let mut starts = [0; 5].map(|_| {
        let began = Instant::now();
        let served = Served::start(project.path());
        let took = began.elapsed().as_secs_f64() * 1e3;
        drop(served);
        took
    });
    bench.record(
        "server: many runs, start with 10,000 to its link",
        "ms",
        middle(&mut starts),
        None,
        100.0,
    );
    let served = Served::start(project.path());
    runtime.block_on(async {
        let mut connection = served.connect().await;
        let mut times = [0.0; 51];
        for time in &mut times {
            let began = Instant::now();
            let reply = connection
                .send("GET", "/api/v1/runs?limit=50", &Value::Null)
                .await;
            *time = began.elapsed().as_secs_f64() * 1e3;
            assert_eq!(reply["runs"].as_array().map(Vec::len), Some(50));
        }
        bench.record(
            "server: many runs, a page of the list of 10,000",
            "ms",
            middle(&mut times),
            None,
            20.0,
        );
    });
    bench.record(
        "server: many runs, memory with 10,000",
        "MiB",
        served.memory(),
        None,
        30.0,
    );
}

/// A project with pipelines whose stages take some time each.
fn project() -> tempfile::TempDir {
    let project = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: String| std::fs::write(project.path().join(name), text).expect("a file");
    let stages = |count: usize, sleep: f64| -> String {
        let names: Vec<String> = (0..count).map(|at| format!("s{at}")).collect();
        format!(
            "node [shape=parallelogram, tool_command=\"sleep {sleep}\"]\n\
             start [shape=Mdiamond]; exit [shape=Msquare]; start -> {} -> exit",
            names.join(" -> ")
        )
    };
    write(
        "timed.dot",
        format!("digraph timed {{\n{}\n}}\n", stages(TIMED, 0.05)),
    );
    // A stage emits two events that its clients count: that it started, and that it completed.
    let pause = 2.0 / EVENTS_A_SECOND as f64;
    write(
        "watched.dot",
        format!("digraph watched {{\n{}\n}}\n", stages(STAGES, pause)),
    );
    let mut asks = String::from("digraph asks {\nstart -> q0\n");
    for at in 0..QUESTIONS {
        let next = if at + 1 == QUESTIONS {
            "exit".to_owned()
        } else {
            format!("q{}", at + 1)
        };
        asks.push_str(&format!(
            "q{at} [shape=hexagon, label=\"Go on?\"]\nq{at} -> t{at} [label=\"[Y] Yes\"]\n\
             t{at} [shape=parallelogram, tool_command=\"true\"]\nt{at} -> {next}\n"
        ));
    }
    write("asks.dot", format!("{asks}}}\n"));
    project
}

/// Measures how long an event takes to a client, and an answer to the next stage, in runs of the server and of another
/// process.
fn on_the_way(bench: &mut Bench) {
    let project = project();
    let served = Served::start(project.path());
    let runtime = single();
    for (owner, event_target, answer_target) in [
        ("an own run", 50.0, 300.0),
        ("a run of another process", 250.0, 700.0),
    ] {
        let (mut others, is_own) = (Vec::new(), owner == "an own run");
        let mut begin = |name: &str| {
            if is_own {
                return runtime.block_on(async { served.connect().await.begin(name).await });
            }
            let id = format!("{name}-{}", others.len());
            let file = format!("{name}.dot");
            let folder = format!(".orchestra/runs/{id}");
            let mut run = command(project.path(), &["run", &file, "--run-dir", &folder, "--wait"]);
            others.push(run.spawn().expect("the run starts"));
            id
        };
        let (timed, asks) = (begin("timed"), begin("asks"));
        runtime.block_on(async {
            let mut ways = events_of(&served, &timed).await;
            let name = format!("server: on the way, event of {owner} to a client");
            bench.record(&name, "ms", middle(&mut ways), None, event_target);
            let mut answers = answers_of(&served, &asks).await;
            let name = format!("server: on the way, answer to the next stage of {owner}");
            bench.record(&name, "ms", middle(&mut answers), None, answer_target);
        });
        for mut run in others {
            let _ = run.wait();
        }
    }
}

/// Opens the stream of the events of a run.
async fn watch(served: &Served, run: &str) -> Connection {
    let path = format!("/pipelines/{run}/events");
    loop {
        let mut connection = served.connect().await;
        connection.write("GET", &path, "").await;
        if connection
            .line()
            .await
            .is_some_and(|status| status.contains(" 200 "))
        {
            return connection;
        }
        // Another process has not created its run yet.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the times that the events of a run took to a client, in milliseconds.
async fn events_of(served: &Served, run: &str) -> Vec<f64> {
    let mut connection = watch(served, run).await;
    let mut ways = Vec::new();
    while let Some((event, arrived)) = connection.event().await {
        match event["event"].as_str() {
            Some("PipelineCompleted" | "PipelineFailed") => break,
            Some("StageStarted") => ways.push(arrived - time_of(&event)),
            _ => {}
        }
    }
    // The first ones were there before the client.
    ways.split_off(ways.len() / 2)
}

/// Answers the questions of a run; returns the times from each answer to the start of the next stage, in milliseconds.
async fn answers_of(served: &Served, run: &str) -> Vec<f64> {
    let mut stream = watch(served, run).await;
    let mut client = served.connect().await;
    let (mut answered, mut ways) = (None, Vec::new());
    while let Some((event, _)) = stream.event().await {
        match event["event"].as_str() {
            Some("PipelineCompleted" | "PipelineFailed") => break,
            Some("InterviewStarted") => {
                let node = event["node"].as_str().expect("a node");
                let path = format!("/pipelines/{run}/questions/{node}/answer");
                answered = Some(now());
                let reply = client.send("POST", &path, &json!({ "choice": "Y" })).await;
                assert!(reply["error"].is_null() && reply["code"].is_null(), "{reply}");
            }
            Some("StageStarted") => {
                if event["node"].as_str().is_some_and(|node| node.starts_with('t'))
                    && let Some(answered) = answered.take()
                {
                    ways.push(time_of(&event) - answered);
                }
            }
            _ => {}
        }
    }
    assert_eq!(ways.len(), QUESTIONS, "each answer is followed by a stage");
    ways
}

/// Returns how long a run took by its events, in milliseconds.
async fn duration_of(served: &Served, run: &str) -> f64 {
    let mut connection = watch(served, run).await;
    let (mut first, mut last) = (None, f64::NAN);
    while let Some((event, _)) = connection.event().await {
        last = time_of(&event);
        first.get_or_insert(last);
        if event["event"] == "PipelineCompleted" {
            break;
        }
    }
    last - first.unwrap_or(f64::NAN)
}

/// Measures a thousand clients of one run, every other of which reads nothing after it has connected.
fn clients(bench: &mut Bench) {
    let project = project();
    let served = Served::start(project.path());
    let before = served.memory();
    let (mut late, most, alone, watched) = single().block_on(async {
        let run = served.connect().await.begin("watched").await;
        let alone = duration_of(&served, &run).await;
        let run = served.connect().await.begin("watched").await;
        let (mut tasks, mut stalled) = (Vec::new(), Vec::new());
        for at in 0..CLIENTS {
            let mut connection = watch(&served, &run).await;
            if at % 2 == 1 {
                stalled.push(connection);
                continue;
            }
            tasks.push(tokio::spawn(async move {
                let (began, mut ways, mut seen) = (now(), Vec::new(), Vec::new());
                while let Some((event, arrived)) = connection.event().await {
                    seen.push(event["seq"].as_u64().expect("a number"));
                    if time_of(&event) > began {
                        ways.push(arrived - time_of(&event));
                    }
                    if event["event"] == "PipelineCompleted" {
                        break;
                    }
                }
                // None is lost, and none comes twice.
                assert!(seen.windows(2).all(|pair| pair[0] + 1 == pair[1]) && seen.first() == Some(&1));
                ways
            }));
        }
        let mut most = served.memory();
        let mut late = Vec::new();
        for task in tasks {
            late.extend(task.await.expect("the client ends"));
            most = most.max(served.memory());
        }
        (late, most, alone, duration_of(&served, &run).await)
    });
    late.sort_by(f64::total_cmp);
    let at = late.len() * 99 / 100;
    bench.record(
        "server: clients, 1,000 of one run, 99th percentile of 20 events/s",
        "ms",
        late[at],
        None,
        250.0,
    );
    bench.record(
        "server: clients, memory for 1,000",
        "MiB",
        most - before,
        None,
        64.0,
    );
    bench.record(
        "server: clients, a run of 5 s with 1,000, half of which stall",
        "ms",
        watched,
        Some(alone),
        1.05 * alone,
    );
}
