//! The worker: a program that takes turns of runs and executes their attempts.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use orchestra_engine::{Engine, Entry, Refusals};
use restate_sdk::endpoint::{Endpoint, ServiceOptions};
use restate_sdk::hyper::HyperEndpoint;
use restate_sdk::service::{IntoServiceDefinition as _, ServiceDefinition};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::{Admin, PIPELINES};
use crate::attempt_object::AttemptObject;
use crate::blobs::Blobs;
use crate::client_error::{ClientError, WORKER_UNREACHABLE};
use crate::hosts::{Hosts, Place};
use crate::ingress::{Backoff, Ingress, RequestError};
use crate::readiness::ReadinessService;
use crate::reporter::Reporter;
use crate::run_object::RunObject;
use crate::served_pools::ServedPools;
use crate::shared::Shared;
use crate::stage_service::{ServicePool, StageService};
use crate::wire::WORKER;
use crate::workspaces::Workspaces;

/// The time after which the server gives an attempt up that shows no sign of progress. Time-outs of stages are those of
/// their pipelines.
const INACTIVITY: Duration = Duration::from_secs(25 * 3600);
/// The number of tries after which the server pauses an invocation until a person resumes it, which by default takes a
/// minute. Workers may be away for any time.
const ATTEMPTS: u64 = u32::MAX as u64;
/// The window of a connection. Small frames would make replays of a journal slow.
const WINDOW: u32 = 64 * 1024 * 1024;
/// The number of attempts that a worker executes at the same time, unless it is set.
const STAGES: usize = 256;
/// The time for which a worker that stops waits for attempts.
const DRAINED: Duration = Duration::from_secs(20);
/// The time that connections have to close after that.
const CLOSED: Duration = Duration::from_secs(2);
/// The time within which the server reaches a worker that was registered.
const REACHED: Duration = Duration::from_secs(10);
/// The interval of keep-alive messages, and the time for their answers. A worker that is cut off must have stopped its
/// attempts before the server starts them elsewhere, which takes longer.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A worker: it takes turns of runs and executes their attempts, for a Restate server that calls it.
///
/// ```
/// use orchestra_engine::{Engine, Entry};
/// use orchestra_restate::{Admin, Blobs, Worker};
/// # async fn work(entry: Entry) -> Result<(), Box<dyn std::error::Error>> {
/// let blobs = Blobs::in_folder("/var/lib/orchestra/blobs".as_ref())?;
/// let worker = Worker::builder("http://127.0.0.1:8080", blobs)
///     .pipeline(entry, Engine::builder().build()?)
///     .build()?;
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:9080").await?;
/// let serving = worker.serve(listener, std::future::pending());
/// Admin::new("http://127.0.0.1:9070")?.register("http://127.0.0.1:9080").await?;
/// serving.await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Worker {
    shared: Arc<Shared>,
    pools: Vec<ServicePool>,
}

/// A builder of a [`Worker`].
///
/// ```
/// use orchestra_restate::{Blobs, Worker};
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// let blobs = Blobs::in_folder(folder.path())?;
/// let worker = Worker::builder("http://127.0.0.1:8080", blobs).pool("gpu").stages(8).build()?;
/// # let _ = worker;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WorkerBuilder {
    ingress: String,
    blobs: Blobs,
    entries: Vec<(Entry, Engine)>,
    inline: BTreeSet<String>,
    pools: BTreeSet<String>,
    stages: usize,
}

/// An error that prevents a worker from working.
///
/// ```
/// # fn print(error: orchestra_restate::WorkerError) {
/// use orchestra_restate::WorkerError;
/// if let WorkerError::Pipeline(refusals) = &error {
///     println!("{} things are missing", refusals.list.len());
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The engine or the handlers lack something that a pipeline needs.
    #[error(transparent)]
    Pipeline(#[from] Refusals),
    /// A name cannot be that of a pool.
    #[error("`{0}` cannot be the name of a pool: ASCII letters, digits and `_` are allowed")]
    Pool(String),
    /// No connections can be made.
    #[error("no HTTP client can be created: {0}")]
    Client(#[from] reqwest::Error),
}

impl Worker {
    /// Creates a builder of a worker that reports to the ingress of a server, and shares a store with all others.
    pub fn builder(ingress: &str, blobs: Blobs) -> WorkerBuilder {
        WorkerBuilder {
            ingress: ingress.to_owned(),
            blobs,
            entries: Vec::new(),
            inline: BTreeSet::new(),
            pools: BTreeSet::new(),
            stages: STAGES,
        }
    }

    /// Binds an address on which several workers of one machine may listen at the same time: the system distributes the
    /// connections of the server among them, and to those that are left if one stops. On Windows, only one can.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        #[cfg(unix)]
        {
            socket.set_reuse_address(true)?;
            socket.set_reuse_port(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(1024)?;
        TcpListener::from_std(socket.into())
    }

    /// Serves the calls of a server until `shutdown` is ready. Then it begins no more attempts, and waits twenty seconds for
    /// those in progress; what is not over by then is executed again elsewhere.
    pub fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let endpoint = HyperEndpoint::new(self.endpoint());
        let shared = self.shared.clone();
        async move {
            let mut http = http2::Builder::new(TokioExecutor::new());
            http.timer(TokioTimer::new())
                .initial_stream_window_size(WINDOW)
                .initial_connection_window_size(WINDOW)
                .max_concurrent_streams(u32::MAX)
                .keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE);
            let graceful = GracefulShutdown::new();
            let mut shutdown = std::pin::pin!(shutdown);
            loop {
                let accepted = tokio::select! {
                    biased;
                    () = &mut shutdown => break,
                    accepted = listener.accept() => accepted,
                };
                let Ok((stream, _)) = accepted else {
                    // No more files may be opened now; a connection that ends allows the next.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                // Turns are small messages, which must not wait for each other.
                drop(stream.set_nodelay(true));
                let connection = http.serve_connection(TokioIo::new(stream), endpoint.clone());
                let connection = graceful.watch(connection);
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!("a connection of the server ended: {error}");
                    }
                });
            }
            drop(listener);
            shared.draining.cancel();
            shared.executing.close();
            drop(tokio::time::timeout(DRAINED, shared.executing.wait()).await);
            drop(tokio::time::timeout(CLOSED, graceful.shutdown()).await);
        }
    }

    /// Checks that all runs of a server that have not ended can go on at this worker, with the graphs that they follow: as
    /// versions that the program contains, its locked ones included, or else loaded from the sources of the runs. To be
    /// called before the worker is [registered](Admin::register).
    ///
    /// ```
    /// # async fn deploy(worker: orchestra_restate::Worker) -> Result<(), orchestra_restate::ClientError> {
    /// let admin = orchestra_restate::Admin::new("http://127.0.0.1:9070")?;
    /// worker.check_versions(&admin).await?;
    /// admin.register("http://127.0.0.1:9080").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Runs could not go on; the error names some of them, and what the worker lacks. Or the server or the store of blobs cannot
    /// be reached.
    pub async fn check_versions(&self, admin: &Admin) -> Result<(), ClientError> {
        let mut stuck = Vec::new();
        for used in admin.versions_in_use().await? {
            let place = Place {
                name: used.pipeline.clone(),
                sources: used.sources.clone(),
                stages: Vec::new(),
            };
            if let Some(reason) = self.shared.hosts.obstacle(&place, &self.shared.blobs).await? {
                stuck.push(format!(
                    "{} of pipeline `{}`: {reason}",
                    used.some_runs(),
                    used.pipeline
                ));
            }
        }
        if stuck.is_empty() {
            return Ok(());
        }
        stuck.sort();
        Err(ClientError::Refused {
            status: 409,
            code: "versions_missing".to_owned(),
            message: format!("runs could not go on at the worker:\n  {}", stuck.join("\n  ")),
        })
    }

    /// Calls a worker through the ingress of the server, after this one was registered under a URL. Only a worker that is
    /// reached gets turns and attempts.
    ///
    /// # Errors
    /// The ingress cannot be reached, belongs to another server, or the server does not reach the worker within ten
    /// seconds.
    pub async fn check_reachable(&self, url: &str) -> Result<(), ClientError> {
        let ingress = &self.shared.ingress;
        let unreachable = |reason: &str| ClientError::Refused {
            status: 504,
            code: WORKER_UNREACHABLE.to_owned(),
            message: format!(
                "the server at `{}` did not reach the worker at `{url}` within {} s: {reason}",
                ingress.url(),
                REACHED.as_secs()
            ),
        };
        let mut reason = "it gave no answer".to_owned();
        let reached = async {
            let mut backoff = Backoff::new();
            loop {
                match ingress.call_service(WORKER, "ready").await {
                    Err(RequestError::Refused { status: 404, .. }) => {
                        // Another node of the server may have been told.
                        reason =
                            "the server does not know it; is it the one where the worker was registered?"
                                .to_owned();
                    }
                    Err(RequestError::Failed { message, .. }) => reason = message,
                    called => return called.map_err(ClientError::from),
                }
                backoff.wait().await;
            }
        };
        match tokio::time::timeout(REACHED, reached).await {
            Ok(reached) => reached,
            Err(_) => Err(unreachable(&reason)),
        }
    }

    fn endpoint(&self) -> Endpoint {
        let options = || {
            ServiceOptions::new()
                .journal_retention(Duration::ZERO)
                .idempotency_retention(Duration::ZERO)
                .retry_policy_initial_interval(Duration::from_millis(50))
                .retry_policy_max_interval(Duration::from_secs(1))
                .retry_policy_max_attempts(ATTEMPTS)
        };
        let stage = |definition: ServiceDefinition| {
            definition.options(options().inactivity_timeout(INACTIVITY).abort_timeout(INACTIVITY))
        };
        let pipelines: Vec<&str> = self.shared.hosts.names().collect();
        let pipelines = pipelines.join("\n");
        let service = StageService(self.shared.clone());
        let mut builder = Endpoint::builder()
            .bind(
                RunObject(self.shared.clone())
                    .into_service_definition()
                    .options(options().metadata(PIPELINES, pipelines)),
            )
            .bind(AttemptObject.into_service_definition().options(options()))
            .bind(ReadinessService.into_service_definition().options(options()))
            .bind(stage(service.clone().into_service_definition()));
        for pool in &self.pools {
            builder = builder.bind(stage(service.clone().in_pool(pool)));
        }
        builder.build()
    }
}

impl WorkerBuilder {
    /// Adds a pipeline, with the engine that executes its attempts.
    #[must_use]
    pub fn pipeline(mut self, entry: Entry, engine: Engine) -> WorkerBuilder {
        self.entries.push((entry, engine));
        self
    }

    /// Executes the stages of a kind within turns, which is quicker than a call of a worker. For handlers that take
    /// milliseconds, can be repeated without harm, call no models and ask nobody. Stages with a `pool` are sent there.
    #[must_use]
    pub fn inline(mut self, kind: &str) -> WorkerBuilder {
        self.inline.insert(kind.to_owned());
        self
    }

    /// Executes the stages with this `pool` besides those without one. If several workers are registered at different URLs,
    /// the stages of a pool go to the one with that pool that was registered last.
    #[must_use]
    pub fn pool(mut self, pool: &str) -> WorkerBuilder {
        self.pools.insert(pool.to_owned());
        self
    }

    /// Sets the number of attempts that are executed at the same time. The default is 256.
    #[must_use]
    pub fn stages(mut self, stages: usize) -> WorkerBuilder {
        self.stages = stages;
        self
    }

    /// Creates the worker.
    ///
    /// # Errors
    /// An engine or its handlers lack something that a pipeline needs, a pool has no valid name, or no connections can
    /// be made.
    pub fn build(self) -> Result<Worker, WorkerError> {
        let mut hosts = Hosts::default();
        for (entry, engine) in self.entries {
            hosts.add(entry, engine)?;
        }
        let pool = |name: String| ServicePool::new(&name).ok_or(WorkerError::Pool(name));
        let pools = self.pools.into_iter().map(pool).collect::<Result<_, _>>()?;
        let ingress = Ingress::new(&self.ingress)?;
        Ok(Worker {
            shared: Arc::new(Shared {
                hosts,
                blobs: self.blobs,
                reporter: Reporter::new(ingress.clone()),
                pools: Arc::new(ServedPools::new(ingress.clone())),
                workspaces: Workspaces::default(),
                ingress,
                inline: self.inline,
                slots: Semaphore::new(self.stages.clamp(1, Semaphore::MAX_PERMITS)),
                draining: CancellationToken::new(),
                executing: TaskTracker::new(),
            }),
            pools,
        })
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pipelines: Vec<&str> = self.shared.hosts.names().collect();
        f.debug_struct("Worker")
            .field("pipelines", &pipelines)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("ingress", &self.ingress)
            .finish_non_exhaustive()
    }
}
