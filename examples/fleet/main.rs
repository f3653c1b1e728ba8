//! A fleet on one machine: a Restate server, two worker processes, and a run that loses one of them and goes on.
//!
//! `cargo run -p fleet` starts all of it and prints what happens. Two stages of `fleet.dot` are executed at once. One of
//! them fails at first, and is tried again after a delay. Then an agent looks up three parcels with a tool, one in each
//! turn of its conversation. While the model answers, the worker of the agent is killed with SIGKILL. The other worker
//! goes on behind the last answer that was noted. A human gate asks whether the reply is sent, and the program answers.
//! At the end, the run is copied to a run folder, which all commands and the page read.
//!
//! It needs a Restate server: `npm install --ignore-scripts @restatedev/restate-server@1.7.12`. The model is a server on
//! loopback, in this process. All ports are free ones, and nothing is left running.
//!
//! `cargo run -p fleet -- --ask` lets you answer the gate. `--runs DIR` copies the run to a folder of runs, otherwise it
//! is a new temporary one. `--serve` shows the copy in a browser.
//!
//! A program of your own need not start processes: `orchestra::main!`, with the features `cli` and `restate`, provides
//! workers and clients as commands, `serve-restate` and `run --on`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use orchestra::Engine;
use orchestra::engine::{Clock as _, RunId, SystemClock};
use orchestra::restate::{Admin, Blobs, Client, Exporter, LocalServer, LocalServerError, RemoteStart};
use orchestra::server::Server;

use model::{Model, TURNS};
use options::Options;
use progress::Progress;
use worker::{Desk, WorkerProcess, WorkerSettings, work};

mod model;
mod options;
mod progress;
mod worker;

orchestra::pipeline! {
    /// Answers a customer who asks for three parcels.
    pub mod fleet = "fleet.dot", handlers = Desk, config = "orchestra.yaml";
}

/// The errors of this program. They are only printed.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The variable that names the program of the server, if it is not installed here.
const SERVER: &str = "ORCHESTRA_RESTATE_SERVER";
/// The delay between two looks at the run.
const LOOK: Duration = Duration::from_millis(100);

/// Prints a line about a part of the fleet.
fn show(part: &str, line: &str) {
    println!("{part:<9}| {line}");
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|argument| argument == "worker").is_some() {
        return exit_code(work(arguments).await);
    }
    match Options::parse(arguments) {
        Ok(Some(options)) => run_fleet(&options).await,
        Ok(None) => {
            println!("{}", Options::USAGE);
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}\n{}", Options::USAGE);
            ExitCode::from(2)
        }
    }
}

fn exit_code(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts the fleet, executes the run, and stops everything, also after an error or Ctrl-C.
async fn run_fleet(options: &Options) -> ExitCode {
    let started = tokio::select! {
        started = Fleet::start() => started,
        () = interrupted() => return interrupted_exit(),
    };
    let mut fleet = match started {
        Ok(fleet) => fleet,
        Err(error) => return exit_code(Err(error)),
    };
    let copied = tokio::select! {
        copied = fleet.execute(options) => Some(copied),
        () = interrupted() => None,
    };
    fleet.stop().await;
    match copied {
        None => interrupted_exit(),
        Some(Err(error)) => exit_code(Err(error)),
        Some(Ok(runs)) if options.serve => exit_code(serve(&runs).await),
        Some(Ok(runs)) => {
            let runs = runs.display();
            println!("\nlook at the run with: cargo run -p orchestra-cli -- serve --runs {runs}");
            ExitCode::SUCCESS
        }
    }
}

/// Waits for Ctrl-C.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

fn interrupted_exit() -> ExitCode {
    eprintln!("interrupted; the workers and the server are stopped");
    ExitCode::from(130)
}

/// Shows the copies of runs in a browser, until Ctrl-C.
async fn serve(runs: &Path) -> Result<(), Failure> {
    let engine = Engine::builder().runs_dir(runs).build()?;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let server = Server::new(engine).read_only().listen(listener)?;
    println!("\nopen {}\nstop with Ctrl-C", server.link());
    server.serve(interrupted()).await;
    Ok(())
}

/// Everything that this program starts.
struct Fleet {
    model: Model,
    workers: Vec<WorkerProcess>,
    server: LocalServer,
    client: Client,
    blobs: PathBuf,
    /// The data of the server and the blobs. It is removed on drop, so it is the last field.
    _folder: tempfile::TempDir,
}

impl Fleet {
    async fn start() -> Result<Fleet, Failure> {
        let program = find_server()
            .map_err(|error| format!("{error}\n  help: `{SERVER}` names its program, if it is elsewhere"))?;
        let folder = tempfile::tempdir()?;
        show("server", "starting");
        let server = LocalServer::builder(program, folder.path().join("server"));
        let server = server.start().await?;
        let (version, page) = (server.version(), server.admin_url());
        show(
            "server",
            &format!("Restate {version} accepts calls at {}", server.ingress_url()),
        );
        show("server", &format!("its own page is {page}"));
        let model = Model::start();
        show(
            "model",
            &format!("a stand-in for a provider answers at {}", model.url()),
        );
        let blobs = folder.path().join("blobs");
        let client = Client::new(server.ingress_url(), Blobs::in_folder(&blobs)?)?;
        let mut fleet = Fleet {
            model,
            workers: Vec::new(),
            server,
            client,
            blobs,
            _folder: folder,
        };
        // A stage in progress stays with the URL of its worker. At the same URL, another worker can take it over.
        let first = fleet.start_worker(1, (Ipv4Addr::LOCALHOST, 0).into()).await?;
        fleet.start_worker(2, first).await?;
        let admin = Admin::new(fleet.server.admin_url())?;
        admin.register(&format!("http://{first}")).await?;
        Ok(fleet)
    }

    /// Starts a worker. Returns the address at which it listens.
    async fn start_worker(&mut self, worker: usize, listen: SocketAddr) -> Result<SocketAddr, Failure> {
        let settings = WorkerSettings {
            worker,
            ingress: self.server.ingress_url().to_owned(),
            blobs: self.blobs.clone(),
            model: self.model.url(),
            listen,
        };
        let process = WorkerProcess::start(&settings).await?;
        let (id, address) = (process.id().unwrap_or_default(), process.address);
        show(
            &format!("worker {worker}"),
            &format!("process {id} listens at {address}"),
        );
        self.workers.push(process);
        Ok(address)
    }

    /// Stops everything. The data is temporary, so the server need not store it in order.
    async fn stop(mut self) {
        for worker in &mut self.workers {
            // It has ended already if it cannot be killed.
            drop(worker.kill().await);
        }
        self.server.kill().await;
    }

    /// Executes a run, and copies it to a folder of runs. Returns the folder.
    async fn execute(&mut self, options: &Options) -> Result<PathBuf, Failure> {
        let run = RunId::generate(SystemClock::new().now());
        self.client.start(&run, RemoteStart::of("fleet")).await?;
        show("run", &format!("started as {run}"));
        let mut progress = Progress::new(run.clone(), options.ask);
        while progress.look(self).await? {
            tokio::time::sleep(LOOK).await;
        }
        let result = self.client.result(&run).await?;
        println!("\npath:         {}", result.path.join(" -> "));
        for (attempt, executions) in &progress.executions {
            println!("begun again:  {attempt}, with {executions} executions");
        }
        let runs = options.runs()?;
        let exporter = Exporter::new(self.client.clone());
        let copy = exporter.export(&run, runs.join(&*run)).await?;
        if let Some(failure) = result.failure {
            return Err(failure.to_string().into());
        }
        self.check_requests(progress.killed_in)?;
        println!("run folder:   {}, {} events", copy.folder.display(), copy.events);
        Ok(runs)
    }

    /// Checks that the model was asked once in each turn. Only the answer that was on its way to the killed worker may
    /// have been asked for again.
    fn check_requests(&self, killed_in: Option<usize>) -> Result<(), Failure> {
        let asked = self.model.asked();
        println!("model:        {} requests for {TURNS} answers", asked.len());
        for turn in 1..=TURNS {
            let requests = asked.iter().filter(|asked| asked.turn == turn).count();
            match requests {
                1 => {}
                2 if killed_in == Some(turn) => {
                    println!("asked twice:  turn {turn}, whose answer was on its way to the killed worker");
                }
                _ => return Err(format!("the model was asked {requests} times in turn {turn}").into()),
            }
        }
        println!("asked once:   all other turns; their answers were noted");
        Ok(())
    }

    /// Returns the command that answers a gate from another terminal.
    fn answer_command(&self, run: &RunId, gate: &str, choice: &str) -> String {
        format!(
            "cargo run -p orchestra-cli --features restate -- answer {run} {gate} {choice} --on {} --blobs {}",
            self.client.url(),
            self.blobs.display()
        )
    }

    /// Kills a worker in the middle of its work.
    async fn kill_worker(&mut self, worker: usize) -> Result<(), Failure> {
        let process = worker.checked_sub(1).and_then(|at| self.workers.get_mut(at));
        let process = process.ok_or("an unknown worker asked the model")?;
        let id = process.id().unwrap_or_default();
        process.kill().await?;
        show(
            "fleet",
            &format!("killed worker {worker} (process {id}) while it waits for the model"),
        );
        Ok(())
    }
}

/// Finds the program of the server: in the environment, else installed in the current folder or by the tests of Orchestra,
/// else in the search path.
fn find_server() -> Result<PathBuf, LocalServerError> {
    let variable =
        |name: &str| -> Option<OsString> { std::env::var_os(name).filter(|value| !value.is_empty()) };
    let explicit = variable(SERVER);
    let path = variable("PATH");
    LocalServer::find(
        explicit.as_deref().map(Path::new),
        &[".", "target/restate"],
        path.as_deref(),
    )
}

#[cfg(test)]
mod tests;
