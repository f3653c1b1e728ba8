//! `serve-restate`: a worker that executes runs for a Restate server.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use orchestra_engine::{Engine, Entry};
use orchestra_restate::{Admin, ClientError, LocalServer, LocalServerError, Worker};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::on_restate::errors::{client_error, local_server_error, worker_error};
use super::on_restate::server_runs::{check_url, open_blobs};
use super::pipeline_files::pipeline_files;
use super::served::{ServedPipelines, pipeline_name};
use crate::args::{Lints, ServeRestateArgs};
use crate::error::{CliError, Exit};
use crate::project::pipelines::Pipelines;
use crate::project::root::parents_in_repository;
use crate::runs::Runs;
use crate::runs::signals::Signals;
use crate::terminal::format::{count, indented};
use crate::terminal::{Paint, Terminal};

/// The oldest version of the server that is supported.
const OLDEST: (u64, u64) = (1, 7);

/// The variable that names the program of the server.
const SERVER: &str = "ORCHESTRA_RESTATE_SERVER";

pub(crate) fn serve_restate(
    args: &ServeRestateArgs,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    check_url("--on", &args.on)?;
    check_url("--admin", &args.admin)?;
    if let Some(url) = &args.url {
        check_url("--url", url)?;
    }
    let served = work(args, program, pipelines, terminal)?;
    let blobs = open_blobs(&args.runs, args.blobs.as_deref())?;
    let names: Vec<String> = served.iter().map(|(entry, _)| entry.name().to_owned()).collect();
    let mut builder = Worker::builder(&args.on, blobs);
    for (entry, engine) in served {
        builder = builder.pipeline(entry, engine);
    }
    for pool in &args.pool {
        builder = builder.pool(pool);
    }
    if let Some(stages) = args.stages {
        builder = builder.stages(stages.get());
    }
    let service = Service {
        args,
        program,
        worker: builder.build().map_err(|error| worker_error(&error))?,
        pipelines: names,
        terminal,
    };
    let runtime = crate::runs::runtime::parallel_runtime()?;
    let exit = runtime.block_on(service.serve());
    runtime.shutdown_background();
    exit
}

/// Returns the pipelines of the worker with their engines.
fn work(
    args: &ServeRestateArgs,
    program: &str,
    pipelines: &Pipelines,
    terminal: &Terminal,
) -> Result<Vec<(Entry, Engine)>, CliError> {
    let served = |terminal: Terminal| ServedPipelines {
        pipelines: pipelines.clone(),
        runs: Runs::new(&args.runs, program),
        config: args.config.clone(),
        terminal,
        secrets: Vec::new(),
    };
    let named: Vec<String> = match (&args.files[..], &pipelines.entries[..]) {
        ([], entries) => entries.iter().map(|entry| entry.name().to_owned()).collect(),
        (files, _) => files.to_vec(),
    };
    if !named.is_empty() {
        let served = served(*terminal);
        return named.iter().map(|name| with_engine(&served, name)).collect();
    }
    // A draft in the folder does not keep the other pipelines from being served.
    let served = served(Terminal {
        quiet: true,
        ..*terminal
    });
    let mut found = Vec::new();
    for name in pipeline_files() {
        match with_engine(&served, &name) {
            Ok(pipeline) => found.push(pipeline),
            Err(error) => {
                let mark = terminal.paint(Paint::Warn, "warning");
                let message = indented(&error.message);
                terminal.message(&format!("{mark}: `{name}` is left out: {message}"));
            }
        }
    }
    if found.is_empty() {
        return Err(CliError::usage(
            "no_pipeline",
            "there is no pipeline to serve below the current folder",
        )
        .help(format!("name files: `{program} serve-restate FILE`")));
    }
    Ok(found)
}

/// Loads a pipeline, and creates its engine.
fn with_engine(served: &ServedPipelines, name: &str) -> Result<(Entry, Engine), CliError> {
    let loaded = served.pipelines.load_to_run(name, &Lints::default())?;
    let served_name = pipeline_name(&served.pipelines, name);
    let Some(entry) = served.entry(&served_name, &loaded) else {
        let errors = loaded.report.errors().count();
        let message = format!("{name} has {}", count(errors, "error"));
        return Err(CliError::usage("invalid_pipeline", message)
            .exit(Exit::Invalid)
            .help(format!("`check {name}` shows them")));
    };
    let engine = served.engine(&entry, None)?;
    // The worker would refuse all pipelines because of one.
    match entry.host(&engine, entry.pipeline().clone()) {
        Ok(_) => Ok((entry, engine)),
        Err(refusals) => Err(worker_error(&refusals.into())),
    }
}

/// A worker that is about to serve.
struct Service<'s> {
    args: &'s ServeRestateArgs,
    program: &'s str,
    worker: Worker,
    pipelines: Vec<String>,
    terminal: &'s Terminal,
}

impl Service<'_> {
    /// Serves until a signal arrives, then waits for the stages in progress.
    async fn serve(self) -> Result<Exit, CliError> {
        let mut signals = Signals::new();
        let begin = async {
            let listener = self.listen().await?;
            Ok::<_, CliError>((listener, self.start_server().await?))
        };
        let (listener, mut server) = tokio::select! {
            begun = begin => begun?,
            () = signals.next() => return Ok(Exit::Cancelled),
        };
        let url = self.url(&listener)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = self.worker.serve(listener, async move {
            // The sender is dropped.
            let _ = stopped.await;
        });
        let mut serving = tokio::spawn(serving);
        let registered = tokio::select! {
            registered = self.register(&url) => registered,
            () = signals.next() => Ok(None),
        };
        let ended = match registered {
            Ok(version) => {
                self.announce(&url, version.as_deref());
                tokio::select! {
                    () = signals.next() => Ok(Exit::Ok),
                    error = ended(server.as_ref()) => Err(local_server_error(&error)),
                }
            }
            Err(error) => Err(error),
        };
        drop(stop);
        if ended.is_ok() {
            self.terminal
                .progress("stopping: waits for stages in progress, 20 s at most; once more stops at once");
            tokio::select! {
                _ = &mut serving => {}
                () = signals.next() => {}
            }
        }
        if let Some(server) = &mut server {
            server.stop().await;
        }
        ended
    }

    async fn listen(&self) -> Result<TcpListener, CliError> {
        let address = &self.args.listen;
        let bound = match self.args.shared {
            false => TcpListener::bind(address).await,
            true => match tokio::net::lookup_host(address).await {
                Ok(mut found) => match found.next() {
                    Some(found) => Worker::listen(found),
                    None => Err(std::io::ErrorKind::AddrNotAvailable.into()),
                },
                Err(error) => Err(error),
            },
        };
        bound.map_err(|error| {
            CliError::usage("listen", format!("cannot listen on `{address}`: {error}"))
                .exit(Exit::RunFailed)
                .help("name another address with `--listen 127.0.0.1:0`, which chooses a free port")
        })
    }

    /// Returns the address under which the server reaches the worker.
    fn url(&self, listener: &TcpListener) -> Result<String, CliError> {
        if let Some(url) = &self.args.url {
            return Ok(url.clone());
        }
        let address = listener.local_addr();
        match address {
            Ok(address) if !address.ip().is_unspecified() => Ok(format!("http://{address}")),
            _ => Err(CliError::usage(
                "worker_url",
                format!("the server cannot reach `{}`", self.args.listen),
            )
            .help("name the address of this machine with `--url http://HOST:PORT`")),
        }
    }

    /// Starts a server on this machine, if one is wanted.
    async fn start_server(&self) -> Result<Option<LocalServer>, CliError> {
        if !self.args.with_server {
            return Ok(None);
        }
        let (ingress, admin) = (
            local_port("--on", &self.args.on)?,
            local_port("--admin", &self.args.admin)?,
        );
        let program = find_server().map_err(|error| local_server_error(&error))?;
        self.terminal.progress("starting the server");
        let builder = LocalServer::builder(program, self.args.runs.server_data());
        let started = builder.ingress_port(ingress).admin_port(admin).start().await;
        started.map(Some).map_err(|error| local_server_error(&error))
    }

    /// Registers the worker, and checks that the server reaches it. Returns the version of the server.
    async fn register(&self, url: &str) -> Result<Option<String>, CliError> {
        if self.args.no_register {
            return Ok(None);
        }
        let failed = |error| client_error(&error, self.program);
        let admin = Admin::new(&self.args.admin).map_err(failed)?;
        let version = admin.version().await.map_err(failed)?;
        if is_too_old(&version) {
            let admin = &self.args.admin;
            let message =
                format!("the server at `{admin}` has the version {version}, but 1.7 or later is needed");
            return Err(CliError::usage("server_too_old", message)
                .exit(Exit::RunFailed)
                .help(format!("install one with `{}`", LocalServer::INSTALL)));
        }
        let registered = match self.args.force {
            true => admin.register_by_force(url).await,
            false => match self.worker.check_versions(&admin).await {
                Ok(()) => admin.register(url).await,
                refused => refused,
            },
        };
        registered.map_err(|error| {
            let code = match &error {
                ClientError::Refused { code, .. } => code.clone(),
                _ => String::new(),
            };
            let failed = failed(error);
            match &*code {
                "pipelines_missing" => failed.help("serve those too, or take its place with `--force`"),
                "versions_missing" => failed.help(
                    "deploy a program that has what they need, or use `--force`: these runs are parked until one is deployed",
                ),
                _ => failed,
            }
        })?;
        let reached = self.worker.check_reachable(url).await;
        reached.map_err(|error| client_error(&error, self.program))?;
        Ok(Some(version))
    }

    fn announce(&self, url: &str, version: Option<&str>) {
        let (args, terminal) = (self.args, self.terminal);
        if terminal.json {
            terminal.object(&json!({
                "schema": "orchestra.serve_restate/1", "worker": url, "pipelines": self.pipelines, "server": args.on,
                "admin": args.admin, "version": version, "pools": args.pool,
            }));
            return;
        }
        let server = match version {
            Some(version) => format!("{} (Restate {version})", args.on),
            None => args.on.clone(),
        };
        let link = terminal.paint_result(Paint::Bold, url);
        terminal.result(&format!("worker {link} of the server {server}"));
        for name in &self.pipelines {
            terminal.result(&format!("  {name}"));
        }
        if let Some(first) = self.pipelines.first() {
            let command = format!("{} run {first} --on {}", self.program, args.on);
            let command = terminal.paint(Paint::Bold, &command);
            terminal.progress(&format!("start a run with: {command}"));
        }
        if version.is_some() {
            terminal.progress(&format!("the page of the server: {}", args.admin));
        }
        terminal.progress("stop with Ctrl-C");
    }
}

/// Waits for the end of a local server; forever without one.
async fn ended(server: Option<&LocalServer>) -> LocalServerError {
    match server {
        Some(server) => server.ended().await,
        None => std::future::pending().await,
    }
}

/// Finds the program of the server: in the environment, else installed in the project, else in the search path.
fn find_server() -> Result<PathBuf, LocalServerError> {
    let variable =
        |name: &str| -> Option<OsString> { std::env::var_os(name).filter(|value| !value.is_empty()) };
    let explicit = variable(SERVER);
    let folder = std::env::current_dir().unwrap_or_default();
    let parents = parents_in_repository(&folder);
    let projects: Vec<&Path> = folder.ancestors().take(parents + 1).collect();
    LocalServer::find(
        explicit.as_deref().map(Path::new),
        &projects,
        variable("PATH").as_deref(),
    )
}

/// Returns the port of an address of this machine.
fn local_port(option: &str, url: &str) -> Result<u16, CliError> {
    let address = url.trim_end_matches('/').strip_prefix("http://");
    let parts = address.and_then(|address| address.rsplit_once(':'));
    let port = parts.and_then(|(host, port)| {
        let port: u16 = port.parse().ok()?;
        ["127.0.0.1", "localhost"].contains(&host).then_some(port)
    });
    port.filter(|port| *port != 0).ok_or_else(|| {
        CliError::usage(
            "server_url",
            format!("`--with-server` cannot start a server at `{url}`"),
        )
        .help(format!(
            "name a port of this machine: `{option} http://127.0.0.1:PORT`"
        ))
    })
}

/// Returns whether a version is older than what is supported. One that cannot be read is not.
fn is_too_old(version: &str) -> bool {
    let mut numbers = version.split('.').map_while(|part| part.parse::<u64>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) < OLDEST,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, old) in [
            ("1.7.0", false),
            ("1.6.12", true),
            ("1.10.0-dev", false),
            ("2.0", false),
            ("0.9.1", true),
        ] {
            assert_eq!(is_too_old(version), old, "{version}");
        }
    }

    #[test]
    fn a_server_of_this_machine_has_a_port() {
        let port = |url| local_port("--on", url).ok();
        assert_eq!(port("http://127.0.0.1:8080"), Some(8080));
        assert_eq!(port("http://localhost:81/"), Some(81));
        for other in [
            "http://10.0.0.1:8080",
            "http://127.0.0.1",
            "https://127.0.0.1:8080",
            "http://127.0.0.1:0",
        ] {
            assert_eq!(port(other), None, "{other}");
        }
    }
}
