//! A Restate server on this machine, as a child process.

mod error;
mod http;
mod ports;
mod process;

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orchestra_engine::process::{ProcessError, ShellCommand};
use tokio::time::timeout;

pub use error::LocalServerError;
use http::{get, wait_for_reply};
use ports::{Ports, choose};
use process::{End, ServerProcess};

/// The oldest version that is supported.
const OLDEST: (u64, u64) = (1, 7);
/// The number of starts if another program takes a chosen port before the server does.
const STARTS: u32 = 4;
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Between TERM and KILL. The server is told to need less.
const GRACE: Duration = Duration::from_secs(15);
/// The name of the log in the data folder.
const LOG: &str = "server.log";
/// Asks every partition, and reads nothing: Orchestra uses no promises of workflows.
const QUERY: &str = r#"{"query":"SELECT COUNT(*) FROM sys_promise"}"#;

/// Options of the server that are always the same. Each is the environment variable of an option of its configuration.
const SETTINGS: &[(&str, &str)] = &[
    ("RESTATE_CLUSTER_NAME", "orchestra"),
    ("RESTATE_LISTEN_MODE", "tcp"),
    ("RESTATE_BIND_IP", "127.0.0.1"),
    ("RESTATE_ADVERTISED_HOST", "127.0.0.1"),
    ("RESTATE_DISABLE_TELEMETRY", "true"),
    ("RESTATE_SHUTDOWN_TIMEOUT", "10s"),
    // The server looks for a new release at each start; a machine without a network is no error.
    ("RESTATE_LOG_FILTER", "warn,restate=info,octocrab=off"),
    ("RESTATE_LOG_FORMAT", "compact"),
    ("RESTATE_LOG_DISABLE_ANSI_CODES", "true"),
    // The defaults are those of a machine that serves nothing else.
    ("RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE", "256MiB"),
    ("RESTATE_ADMIN__QUERY_ENGINE__MEMORY_SIZE", "128MiB"),
    // Long stages hold slots, and without a free slot no turn begins. Workers limit what they execute.
    ("RESTATE_WORKER__INVOKER__CONCURRENT_INVOCATIONS_LIMIT", "20000"),
];

/// A Restate server that runs as a child process, on loopback addresses.
///
/// It ends with this process, also if this process is killed. What it stores is durable: a server that was killed
/// continues after [`restart`](Self::restart).
///
/// ```
/// use std::path::PathBuf;
/// use orchestra_restate::LocalServer;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let data = folder.path();
/// if let Some(program) = std::env::var_os("ORCHESTRA_RESTATE_SERVER").map(PathBuf::from) {
///     let mut server = LocalServer::builder(program, data).start().await?;
///     assert!(server.ingress_url().starts_with("http://127.0.0.1:"));
///     server.kill().await;
///     server.restart().await?;
///     server.stop().await;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LocalServer {
    settings: LocalServerBuilder,
    version: String,
    ingress_url: String,
    admin_url: String,
    process: ServerProcess,
}

impl LocalServer {
    /// The command that installs a server below the current folder.
    pub const INSTALL: &str = error::INSTALL;

    /// Finds the program of the server: the explicit one, else one that npm installed in one of the project folders,
    /// else one in `path`, a value of the variable `PATH`.
    ///
    /// ```
    /// use std::path::Path;
    /// use orchestra_restate::LocalServer;
    ///
    /// let error = LocalServer::find(None, &["/no/project"], None).unwrap_err();
    /// assert!(error.to_string().contains(LocalServer::INSTALL));
    /// let error = LocalServer::find(Some(Path::new("/no/server")), &["."], None).unwrap_err();
    /// assert!(error.to_string().contains("/no/server"));
    /// ```
    ///
    /// # Errors
    /// Fails if there is no server, or if the explicit program is not a file.
    pub fn find(
        explicit: Option<&Path>,
        projects: &[impl AsRef<Path>],
        path: Option<&OsStr>,
    ) -> Result<PathBuf, LocalServerError> {
        if let Some(program) = explicit {
            let is_file = program.is_file();
            return is_file
                .then(|| program.to_owned())
                .ok_or_else(|| LocalServerError::NotAFile {
                    program: program.to_owned(),
                });
        }
        let installed = installed();
        let installed = projects.iter().map(|project| project.as_ref().join(&installed));
        let folders = path.into_iter().flat_map(std::env::split_paths);
        let mut programs = installed.chain(folders.map(|folder| folder.join("restate-server")));
        programs
            .find(|program| program.is_file())
            .ok_or(LocalServerError::NotInstalled)
    }

    /// Describes a server that stores everything in the folder `data`, which is created if it does not exist.
    pub fn builder(program: impl Into<PathBuf>, data: impl Into<PathBuf>) -> LocalServerBuilder {
        LocalServerBuilder {
            program: program.into(),
            data: data.into(),
            node_name: "local".to_owned(),
            ports: Ports::default(),
            partitions: 4,
            start_timeout: Duration::from_secs(60),
            options: Vec::new(),
        }
    }

    /// Returns the URL at which the server accepts calls of services, such as `http://127.0.0.1:8080`.
    #[must_use]
    pub fn ingress_url(&self) -> &str {
        &self.ingress_url
    }

    /// Returns the URL at which deployments are registered, such as `http://127.0.0.1:9070`. It also serves the page of
    /// the server.
    #[must_use]
    pub fn admin_url(&self) -> &str {
        &self.admin_url
    }

    /// Returns the version of the server, such as `1.7.12`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the path of the log. It begins anew at each start.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.settings.data.join(LOG)
    }

    /// Returns the process id while the server runs.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        let id = self.process.started.get().map(|(id, _)| *id);
        id.filter(|_| self.is_running())
    }

    /// Returns whether the server runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.end().is_none()
    }

    /// Waits until the server has ended. Returns the reason as an error.
    pub async fn ended(&self) -> LocalServerError {
        let end = self.process.wait().await;
        self.settings.ended(end)
    }

    /// Kills the server as a crash would, and waits until it has ended.
    pub async fn kill(&mut self) {
        self.process.kill();
        self.process.wait().await;
    }

    /// Ends the server and waits until it has ended. It is killed if that takes longer than 15 s.
    pub async fn stop(&mut self) {
        self.process.stop.cancel();
        self.process.wait().await;
    }

    /// Starts the server again with the same data and the same ports. A server that runs is stopped first.
    ///
    /// # Errors
    /// Fails like [`LocalServerBuilder::start`]. The server does not run then.
    pub async fn restart(&mut self) -> Result<(), LocalServerError> {
        self.stop().await;
        self.settings.check_ports()?;
        self.process = self.settings.launch().await?;
        Ok(())
    }
}

/// The settings of a [`LocalServer`].
///
/// ```
/// use std::time::Duration;
/// use orchestra_restate::LocalServer;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let server = LocalServer::builder("/no/server", "/no/data")
///     .node_name("not a name")
///     .ingress_port(8080)
///     .start_timeout(Duration::from_secs(10))
///     .start();
/// let error = server.await.unwrap_err();
/// assert!(error.to_string().contains("`not a name`"));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a server does nothing until it is started"]
pub struct LocalServerBuilder {
    program: PathBuf,
    data: PathBuf,
    node_name: String,
    ports: Ports,
    partitions: u16,
    start_timeout: Duration,
    options: Vec<(OsString, OsString)>,
}

impl LocalServerBuilder {
    /// Sets the port for calls of services. The default, 0, chooses a free one.
    pub fn ingress_port(mut self, port: u16) -> Self {
        self.ports.ingress = port;
        self
    }

    /// Sets the port for registrations and queries. The default, 0, chooses a free one.
    pub fn admin_port(mut self, port: u16) -> Self {
        self.ports.admin = port;
        self
    }

    /// Sets the port at which other nodes would connect. The default, 0, chooses a free one.
    pub fn node_port(mut self, port: u16) -> Self {
        self.ports.node = port;
        self
    }

    /// Sets the name of the node, which names its folder in the data folder. The default is `local`.
    pub fn node_name(mut self, name: impl Into<String>) -> Self {
        self.node_name = name.into();
        self
    }

    /// Sets the number of partitions of a new data folder. The default is 4; an existing folder keeps its number.
    pub fn partitions(mut self, partitions: u16) -> Self {
        self.partitions = partitions;
        self
    }

    /// Sets the time in which the server must become ready. The default is 60 s.
    pub fn start_timeout(mut self, limit: Duration) -> Self {
        self.start_timeout = limit;
        self
    }

    /// Sets another option of the server by its environment variable, such as `RESTATE_WORKER__CLEANUP_INTERVAL`.
    pub fn option(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.options.push((name.into(), value.into()));
        self
    }

    /// Starts the server, and waits until it answers and has opened all of its partitions. The partitions
    /// may choose their leaders some milliseconds later.
    ///
    /// # Errors
    /// Fails if the program is older than version 1.7, if a port is in use, or if the server does not become ready.
    pub async fn start(mut self) -> Result<LocalServer, LocalServerError> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if self.node_name.is_empty() || !self.node_name.bytes().all(is_part) {
            return Err(LocalServerError::NodeName { name: self.node_name });
        }
        // The server takes its data folder as its working directory.
        let absolute = std::path::absolute(&self.data).and_then(|data| {
            std::fs::create_dir_all(&data)?;
            Ok(data)
        });
        self.data = absolute.map_err(|source| LocalServerError::DataFolder {
            path: self.data.clone(),
            source,
        })?;
        let version = self.version().await?;
        self.check_ports()?;
        let wanted = self.ports;
        let chooses = wanted.all().contains(&0);
        let mut start = 1;
        let process = loop {
            self.ports = choose(wanted)?;
            match self.launch().await {
                Err(error) if chooses && start < STARTS && error.is_port_in_use() => start += 1,
                other => break other?,
            }
        };
        Ok(LocalServer {
            ingress_url: format!("http://127.0.0.1:{}", self.ports.ingress),
            admin_url: format!("http://127.0.0.1:{}", self.ports.admin),
            version,
            process,
            settings: self,
        })
    }

    /// Returns the version of the program, if it is supported.
    async fn version(&self) -> Result<String, LocalServerError> {
        let command = ShellCommand::new(r#"exec "$ORCHESTRA_PROGRAM" --version"#)
            .minimal_environment()
            .variable("ORCHESTRA_PROGRAM", absolute(&self.program))
            .timeout(VERSION_TIMEOUT)
            .capture_limit(1024);
        let output = command.run().await.map_err(|source| self.cannot_run(source))?;
        let Some((version, number)) = parse_version(&output.stdout) else {
            return Err(LocalServerError::UnknownVersion {
                program: self.program.clone(),
                output: format!("{}{}", output.stdout, output.stderr).trim().to_owned(),
            });
        };
        if number < OLDEST {
            return Err(LocalServerError::TooOld {
                program: self.program.clone(),
                version: version.to_owned(),
            });
        }
        Ok(version.to_owned())
    }

    fn cannot_run(&self, source: ProcessError) -> LocalServerError {
        LocalServerError::CannotRun {
            program: self.program.clone(),
            source,
        }
    }

    /// Returns an error if another program listens at one of the ports. Its answers could be taken for those of the
    /// server.
    fn check_ports(&self) -> Result<(), LocalServerError> {
        for port in self.ports.all() {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port))
                .map_err(|source| LocalServerError::Port { port, source })?;
        }
        Ok(())
    }

    /// Starts the process and waits until it is ready.
    async fn launch(&self) -> Result<ServerProcess, LocalServerError> {
        let process =
            ServerProcess::start(self.command()).map_err(|source| LocalServerError::Thread { source })?;
        let end = tokio::select! {
            end = process.wait() => end,
            ready = timeout(self.start_timeout, self.ready()) => match (ready, process.end()) {
                (Ok(()), None) => return Ok(process),
                (_, Some(end)) => end,
                (Err(_), None) => return Err(LocalServerError::NotReady {
                    after: self.start_timeout,
                    log: self.data.join(LOG),
                }),
            },
        };
        Err(self.ended(end))
    }

    fn command(&self) -> ShellCommand {
        // The first line is the id of the process, which stays the same. Warnings and errors join the other lines.
        let text = r#"echo "$$"; exec "$ORCHESTRA_PROGRAM" --no-logo --base-dir "$ORCHESTRA_DATA" --node-name "$ORCHESTRA_NODE" 2>&1"#;
        // Without the variables of this process, none can change the configuration.
        let mut command = ShellCommand::new(text)
            .minimal_environment()
            .variable("ORCHESTRA_PROGRAM", absolute(&self.program))
            .variable("ORCHESTRA_DATA", &self.data)
            .variable("ORCHESTRA_NODE", &self.node_name)
            .variable("RESTATE_INGRESS__BIND_PORT", self.ports.ingress.to_string())
            .variable("RESTATE_ADMIN__BIND_PORT", self.ports.admin.to_string())
            .variable("RESTATE_BIND_PORT", self.ports.node.to_string())
            .variable("RESTATE_DEFAULT_NUM_PARTITIONS", self.partitions.to_string())
            .grace(GRACE)
            .capture_limit(16 * 1024)
            .stdout_file(self.data.join(LOG));
        for (name, value) in SETTINGS {
            command = command.variable(name, value);
        }
        for (name, value) in &self.options {
            command = command.variable(name, value);
        }
        command
    }

    /// Waits until the server answers and has opened all of its partitions.
    async fn ready(&self) {
        let Ports { ingress, admin, .. } = self.ports;
        wait_for_reply(ingress, &get("/restate/health"), "").await;
        let query = format!(
            "POST /query HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json\r\nContent-Length: {}\r\n\r\n{QUERY}",
            QUERY.len()
        );
        wait_for_reply(admin, &get("/health"), "").await;
        wait_for_reply(admin, &query, "\"rows\"").await;
    }

    fn ended(&self, end: Arc<End>) -> LocalServerError {
        LocalServerError::Ended {
            how: end.how.clone(),
            log: self.data.join(LOG),
            last_lines: end.last_lines.clone(),
        }
    }
}

/// Returns the path of the program below a folder in which npm installed it.
fn installed() -> PathBuf {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let processor = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let package = format!("restate-server-{system}-{processor}");
    let mut path: PathBuf = ["node_modules", "@restatedev"].iter().collect();
    path.extend([&package, "bin", "restate-server"]);
    path
}

/// A name without a slash would be searched for in `PATH`.
fn absolute(program: &Path) -> PathBuf {
    std::path::absolute(program).unwrap_or_else(|_| program.to_owned())
}

/// Parses a line such as `restate-server 1.7.12`. Returns the version, and its first two numbers.
fn parse_version(output: &str) -> Option<(&str, (u64, u64))> {
    let version = output.lines().next()?.strip_prefix("restate-server ")?.trim();
    let mut numbers = version.split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?.parse().ok()?;
    Some((version, (major, minor)))
}

#[cfg(all(test, unix))]
mod tests;
