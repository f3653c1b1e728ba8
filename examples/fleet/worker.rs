//! A worker: a process that takes the turns of runs and executes their stages.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;

use orchestra::agents::Agents;
use orchestra::config::Project;
use orchestra::engine::Entry;
use orchestra::prelude::*;
use orchestra::restate::{Blobs, Worker};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::model::models;
use crate::{Failure, fleet};

/// The handlers of the pipeline. What they print is shown with the number of their worker.
#[derive(Default)]
pub(crate) struct Desk;

#[handlers]
impl Desk {
    #[handler("order.customer")]
    async fn customer(&self) -> Outcome {
        println!("reads who the customer is");
        Outcome::success().notes("Ada has three parcels")
    }

    /// Fails once. The number of the attempt is the same on each worker; a counter of this process would not be.
    #[handler("order.warehouse")]
    async fn warehouse(&self, stage: StageContext) -> Outcome {
        println!("asks the warehouse, attempt {}", stage.attempt());
        match stage.attempt() {
            1 => Outcome::retry("the warehouse does not answer"),
            _ => Outcome::success().notes("all parcels have left the warehouse"),
        }
    }

    #[handler("reply.send")]
    async fn send(&self, stage: StageContext) -> Outcome {
        println!("sends the reply");
        let reply = fleet::keys::REPLY.get(stage.context()).unwrap_or_default();
        Outcome::success().notes(format!("sent: {reply}"))
    }
}

/// What a worker needs to know. It is passed as the arguments of its process.
pub(crate) struct WorkerSettings {
    /// The number of the worker, from 1.
    pub(crate) worker: usize,
    /// The address at which the server accepts calls.
    pub(crate) ingress: String,
    /// The folder of large values, which all workers share.
    pub(crate) blobs: PathBuf,
    /// The address of the model.
    pub(crate) model: String,
    /// The address at which the worker listens; with port 0 at a free port.
    pub(crate) listen: SocketAddr,
}

impl WorkerSettings {
    /// Reads the arguments that [`WorkerProcess::start`] passes.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<WorkerSettings, Failure> {
        let mut next = || arguments.next().ok_or("a worker is started by the fleet");
        Ok(WorkerSettings {
            worker: next()?.parse()?,
            ingress: next()?,
            blobs: next()?.into(),
            model: next()?,
            listen: next()?.parse()?,
        })
    }
}

/// Works until standard input is closed.
pub(crate) async fn work(arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let settings = WorkerSettings::parse(arguments)?;
    let project = Project::load(fleet::CONFIG.configuration(), &fleet::CONFIG);
    let agents = Agents::builder(project)
        .reader(fleet::CONFIG)
        // Without this line, the provider of `orchestra.yaml` is called.
        .model(models(&settings.model, settings.worker)?)
        .build()?;
    let engine = Engine::builder().backend(agents).build()?;
    let entry = Entry::new("fleet", &fleet::PIPELINE, Desk::default);
    let worker = Worker::builder(&settings.ingress, Blobs::in_folder(&settings.blobs)?)
        .pipeline(entry, engine)
        .build()?;
    let listener = Worker::listen(settings.listen)?;
    println!("{}", listener.local_addr()?);
    let closed = tokio::task::spawn_blocking(|| io::stdin().read(&mut [0]));
    tokio::select! {
        () = worker.serve(listener, std::future::pending()) => {}
        // The system closes the input when the fleet ends, also if it is killed. So no worker is left alone.
        _ = closed => {}
    }
    Ok(())
}

/// The process of a worker. It is killed on drop.
pub(crate) struct WorkerProcess {
    child: Child,
    /// The address at which it listens.
    pub(crate) address: SocketAddr,
}

impl WorkerProcess {
    /// Starts this program again, as a worker. Returns when it listens.
    pub(crate) async fn start(settings: &WorkerSettings) -> Result<WorkerProcess, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("worker")
            .args([&settings.worker.to_string(), &settings.ingress])
            .arg(&settings.blobs)
            .args([&settings.model, &settings.listen.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().ok_or("a worker has no output")?;
        let mut lines = BufReader::new(output).lines();
        let address = lines.next_line().await?;
        let address = address.ok_or("a worker ended before it listened")?.parse()?;
        tokio::spawn(forward(settings.worker, lines));
        Ok(WorkerProcess { child, address })
    }

    /// Returns the id of the process; `None` if it was killed.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills the process with SIGKILL. It cannot do anything before it ends.
    pub(crate) async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }
}

/// Prints the lines of a worker.
async fn forward(worker: usize, mut lines: Lines<BufReader<ChildStdout>>) {
    while let Ok(Some(line)) = lines.next_line().await {
        crate::show(&format!("worker {worker}"), &line);
    }
}
