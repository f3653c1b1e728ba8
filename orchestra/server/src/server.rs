//! The server.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::{Binding, Engine, Entry, HandlerSet};
use orchestra_graph::Contract;
use orchestra_sessions::{SessionError, SessionIndex};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::access::{Access, Hosts, Token};
use crate::app::App;
use crate::connections;
use crate::live::watcher;
use crate::options::Submit;
use crate::project::{CompiledProject, Project};
use crate::routes::router;
use crate::webhook::Webhook;

/// Number of runs that the server executes at once by default.
const MAX_RUNS: usize = 16;

/// Maximum time in which runs are paused and connections end when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// A server that shows runs, starts them, and answers their questions.
///
/// ```
/// use orchestra_engine::Engine;
/// use orchestra_server::Server;
/// # use orchestra_engine::Entry;
/// # use orchestra_graph::{Source, load};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let runs_dir = directory.path();
/// # let hello = load(Source::new("hello.dot", "digraph hello { start -> exit }"), &Default::default()).pipeline().expect("sound");
/// # let hello = Entry::loaded("hello", hello.into(), Vec::new());
/// # let interrupted = async {};
/// let engine = Engine::builder().runs_dir(runs_dir).build()?;
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// let server = Server::new(engine).entry(hello).listen(listener)?;
/// println!("open {}", server.link());
/// let paused = server.serve(interrupted).await;
/// assert!(paused.is_empty(), "no run was started");
/// # Ok(()) }
/// ```
pub struct Server {
    source: SourceOfPipelines,
    entries: Vec<Entry>,
    stations: Option<PathBuf>,
    submit: Submit,
    max_runs: usize,
    read_only: bool,
    public_url: Option<String>,
    token_file: Option<PathBuf>,
    webhooks: BTreeMap<String, Webhook>,
}

enum SourceOfPipelines {
    Engine(Box<Engine>),
    Project(Arc<dyn Project>),
}

impl Server {
    /// Creates a server whose runs this engine executes. The engine must persist its runs
    /// ([`runs_dir`](orchestra_engine::EngineBuilder::runs_dir)).
    pub fn new(engine: Engine) -> Server {
        Server::of(SourceOfPipelines::Engine(Box::new(engine)))
    }

    /// Creates a server for the pipelines of a project.
    pub fn with_project(project: impl Project) -> Server {
        Server::of(SourceOfPipelines::Project(Arc::new(project)))
    }

    fn of(source: SourceOfPipelines) -> Server {
        Server {
            source,
            entries: Vec::new(),
            stations: None,
            submit: Submit::default(),
            max_runs: MAX_RUNS,
            read_only: false,
            public_url: None,
            token_file: None,
            webhooks: BTreeMap::new(),
        }
    }

    /// Adds a compiled pipeline. `handlers` creates new handlers for each run. Has no effect on a server
    /// [of a project](Server::with_project).
    #[must_use]
    pub fn pipeline<B, H>(
        self,
        name: &str,
        pipeline: B,
        handlers: impl Fn() -> H + Send + Sync + 'static,
    ) -> Server
    where
        B: Binding<H> + Clone + Send + Sync + 'static,
        H: HandlerSet,
    {
        self.entry(Entry::new(name, pipeline, handlers))
    }

    /// Adds a pipeline. Has no effect on a server [of a project](Server::with_project).
    #[must_use]
    pub fn entry(mut self, entry: Entry) -> Server {
        self.entries.push(entry);
        self
    }

    /// Offers the station workflows of a database: clients edit, activate and run their versions. The database is created
    /// for the first workflow. The stations of a version are models, tools and people; it cannot name the handlers of the
    /// program. Has no effect on a server [of a project](Server::with_project), which names its database itself.
    #[must_use]
    pub fn stations(mut self, database: impl Into<PathBuf>) -> Server {
        self.stations = Some(database.into());
        self
    }

    /// Sets which pipelines clients may submit as text, and which versions of station workflows that were written over
    /// HTTP they may run. The default is [`Submit::Safe`].
    #[must_use]
    pub fn submit(mut self, submit: Submit) -> Server {
        self.submit = submit;
        self
    }

    /// Sets the number of runs that the server executes at once. The default is 16.
    #[must_use]
    pub fn max_runs(mut self, runs: usize) -> Server {
        self.max_runs = runs;
        self
    }

    /// Refuses all requests that change anything.
    #[must_use]
    pub fn read_only(mut self) -> Server {
        self.read_only = true;
        self
    }

    /// Sets the URL under which a proxy with TLS publishes the server, such as `https://flow.example`. Without it, the
    /// server listens on addresses of this machine only.
    #[must_use]
    pub fn public_url(mut self, url: impl Into<String>) -> Server {
        self.public_url = Some(url.into());
        self
    }

    /// Keeps the token in a file, for programs and for the next start of the server. The file is created if it is
    /// missing, and only its owner can read it. By default, the token is new with each start and only part of the
    /// [link](ListeningServer::link): the tools of a run belong to the same user, and one that reads the file could
    /// answer the questions of its own run.
    #[must_use]
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Server {
        self.token_file = Some(path.into());
        self
    }

    /// Starts runs for the deliveries of another program. Replaces a webhook of the same name. The pipeline may do what
    /// its author wrote, as one that is [started by name](Server::pipeline).
    #[must_use]
    pub fn webhook(mut self, webhook: Webhook) -> Server {
        self.webhooks.insert(webhook.name().to_owned(), webhook);
        self
    }

    /// Prepares the server to serve a listener.
    ///
    /// # Errors
    /// The runs folder, its index or a file of the token cannot be opened, the listener is open to other machines
    /// without a [public URL](Server::public_url), or no delivery of a [webhook](Server::webhook) could start its pipeline.
    pub fn listen(self, listener: TcpListener) -> Result<ListeningServer, ServerError> {
        let address = listener.local_addr().map_err(ServerError::Listener)?;
        check_exposure(address, self.public_url.as_deref())?;
        let project: Arc<dyn Project> = match self.source {
            SourceOfPipelines::Project(project) => project,
            SourceOfPipelines::Engine(engine) => Arc::new(CompiledProject {
                runs_dir: engine.runs_dir().ok_or(ServerError::NoRunsFolder)?.to_owned(),
                engine: *engine,
                entries: self.entries,
                stations: self.stations,
            }),
        };
        for webhook in self.webhooks.values() {
            check_webhook(webhook, &*project)?;
        }
        let runs_dir = project.runs_dir();
        let index = SessionIndex::open(&runs_dir)?;
        index.set_search_interval(watcher::SEARCH_INTERVAL)?;
        let token = match &self.token_file {
            Some(path) => Token::in_file(path).map_err(|source| ServerError::Token {
                path: path.clone(),
                source,
            })?,
            None => Token::random().map_err(ServerError::Randomness)?,
        };
        let hosts = Hosts::new(address, self.public_url.as_deref());
        let base = match &self.public_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("http://{address}"),
        };
        let link = format!("{base}/ui/#token={}", token.text());
        let webhooks = self.webhooks.values();
        let webhooks = webhooks
            .map(|webhook| format!("{base}{}", webhook.path()))
            .collect();
        let access = Access::new(hosts, token, self.read_only).map_err(ServerError::Randomness)?;
        Ok(ListeningServer {
            app: Arc::new(App::new(
                access,
                project,
                index,
                self.submit,
                self.max_runs,
                self.webhooks,
            )),
            listener,
            link,
            webhooks,
        })
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("submit", &self.submit)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

fn check_exposure(address: SocketAddr, public_url: Option<&str>) -> Result<(), ServerError> {
    match public_url {
        None if address.ip().is_loopback() => Ok(()),
        None => Err(ServerError::Exposed { address }),
        Some(url) => {
            let host = url
                .strip_prefix("https://")
                .map(|rest| rest.trim_end_matches('/'));
            match host {
                Some(host) if !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']) => Ok(()),
                _ => Err(ServerError::PublicUrl { url: url.to_owned() }),
            }
        }
    }
}

fn check_webhook(webhook: &Webhook, project: &dyn Project) -> Result<(), ServerError> {
    let failed = |message: String| ServerError::Webhook {
        name: webhook.name().to_owned(),
        message,
    };
    let entry = project.load_entry(webhook.pipeline());
    let entry = entry.map_err(|error| failed(error.to_string()))?;
    if let Some(mismatch) = webhook.mismatch(&Contract::from_pipeline(entry.pipeline())) {
        return Err(failed(mismatch));
    }
    // An engine for it cannot be built if a key of a model provider is missing, for example.
    let engine = project.engine(&entry, None);
    engine.map(drop).map_err(|error| failed(error.to_string()))
}

/// A server that is ready to accept connections; see [`Server::listen`].
///
/// ```
/// # use orchestra_engine::Engine;
/// # use orchestra_server::Server;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let engine = Engine::builder().runs_dir(directory.path()).build()?;
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// let address = listener.local_addr()?;
/// let server = Server::new(engine).listen(listener)?;
/// assert!(server.link().starts_with(&format!("http://{address}/ui/#token=")));
/// # Ok(()) }
/// ```
pub struct ListeningServer {
    app: Arc<App>,
    listener: TcpListener,
    link: String,
    webhooks: Vec<String>,
}

impl ListeningServer {
    /// Returns the link that opens the page with the token. The token is in the fragment, which browsers do not send.
    pub fn link(&self) -> &str {
        &self.link
    }

    /// Returns the URLs of the webhooks, sorted by their names.
    pub fn webhooks(&self) -> &[String] {
        &self.webhooks
    }

    /// Serves requests until `shutdown` completes. Then refuses further requests, pauses the runs that it executes, and
    /// ends the connections, for at most 15 seconds. Returns the runs that were paused.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Vec<String> {
        let app = self.app;
        let end = watch::Sender::new(false);
        let accepting = connections::accept(
            self.listener,
            router(app.clone()),
            app.stop.subscribe(),
            end.subscribe(),
        );
        let accepting = tokio::spawn(accepting);
        let watching = tokio::spawn(watcher::watch(app.clone()));
        shutdown.await;
        let paused = app.own_runs();
        app.begin_stop();
        // What has not stopped by then is recovered when its run is resumed.
        let stopped = async {
            app.runs_have_stopped().await;
            // The tasks end because the server stops.
            let _ = accepting.await;
            let _ = watching.await;
        };
        let _ = tokio::time::timeout(STOP_TIMEOUT, stopped).await;
        end.send_replace(true);
        paused
    }
}

impl std::fmt::Debug for ListeningServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListeningServer")
            .field("listener", &self.listener)
            .finish_non_exhaustive()
    }
}

/// The error of a server that cannot start.
///
/// ```
/// use orchestra_engine::Engine;
/// use orchestra_server::{Server, ServerError};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// let error = Server::new(Engine::builder().build()?).listen(listener).unwrap_err();
/// assert!(matches!(error, ServerError::NoRunsFolder));
/// assert_eq!(error.code(), "no_runs_folder");
/// # Ok(()) }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The engine does not persist its runs.
    #[error("the engine has no folder of runs, so there is nothing to show; set one with `runs_dir`")]
    NoRunsFolder,
    /// The listener has no address.
    #[error("the listener has no address: {0}")]
    Listener(std::io::Error),
    /// Other machines could reach the server without TLS.
    #[error(
        "{address} can be reached from other machines, and the server itself has no TLS; listen on 127.0.0.1, or set the public URL of a proxy"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// The public URL is not of the form `https://HOST`.
    #[error("`{url}` is not a URL of the form https://HOST")]
    PublicUrl {
        /// The URL.
        url: String,
    },
    /// No delivery of a webhook could start its pipeline.
    #[error("the webhook `{name}` cannot start a run: {message}")]
    Webhook {
        /// The name of the webhook.
        name: String,
        /// The reason.
        message: String,
    },
    /// The operating system has no randomness for a token.
    #[error("cannot draw a token: {0}")]
    Randomness(std::io::Error),
    /// The file of the token cannot be read or written.
    #[error("cannot read or write the token in `{}`: {source}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The index of the runs cannot be opened.
    #[error(transparent)]
    Index(#[from] SessionError),
}

impl ServerError {
    /// Returns the machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            ServerError::NoRunsFolder => "no_runs_folder",
            ServerError::Listener(_) => "listener",
            ServerError::Webhook { .. } => "webhook",
            ServerError::Exposed { .. } => "exposed",
            ServerError::PublicUrl { .. } => "public_url",
            ServerError::Randomness(_) => "randomness",
            ServerError::Token { .. } => "token_io",
            ServerError::Index(error) => error.code(),
        }
    }
}
