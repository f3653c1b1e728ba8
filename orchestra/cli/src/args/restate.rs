//! The options of workers of a Restate server, and of commands about runs on one.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;

use super::RunsDir;

/// Where calls of services are accepted, unless it is said.
const INGRESS: &str = "http://127.0.0.1:8080";

/// Where workers are registered, unless it is said.
const ADMIN: &str = "http://127.0.0.1:9070";

/// The run is one on a Restate server.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerOptions {
    /// The ingress of the Restate server that has the run, such as `http://127.0.0.1:8080`; the run is named by its
    /// complete id
    #[arg(long, value_name = "URL")]
    pub(crate) on: Option<String>,
    /// The folder of large values, which all workers and clients of the server share, or a bucket as in
    /// `s3://BUCKET/PREFIX` [default: `blobs` beside the folder of runs]
    #[arg(long, value_name = "DIR or URL", requires = "on")]
    pub(crate) blobs: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeRestateArgs {
    /// The pipelines [default: those of the program, else all files below the current folder]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// The address at which the worker listens for the server; a worker that is started again needs the same one, because
    /// stages in progress return to it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9080")]
    pub(crate) listen: String,
    /// Let several workers of this machine listen at the same address, which share the work
    #[arg(long)]
    pub(crate) shared: bool,
    /// The address under which the server reaches the worker [default: that of `--listen`]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The ingress of the Restate server; the worker that is registered last gets all new work of the server
    #[arg(long, value_name = "URL", default_value = INGRESS)]
    pub(crate) on: String,
    /// The administration of the Restate server
    #[arg(long, value_name = "URL", default_value = ADMIN)]
    pub(crate) admin: String,
    /// Start a Restate server on this machine at these addresses; it stores its data beside the folder of runs
    #[arg(long)]
    pub(crate) with_server: bool,
    /// The folder of large values, which all workers and clients of the server share, or a bucket as in
    /// `s3://BUCKET/PREFIX` [default: `blobs` beside the folder of runs]
    #[arg(long, value_name = "DIR or URL")]
    pub(crate) blobs: Option<PathBuf>,
    /// Also execute the stages whose attribute `pool` is this
    #[arg(long, value_name = "NAME")]
    pub(crate) pool: Vec<String>,
    /// The number of stages that the worker executes at once
    #[arg(long, value_name = "N")]
    pub(crate) stages: Option<NonZeroUsize>,
    /// Take the place of the present worker even if runs could not go on at this one; they wait until a worker has what they
    /// need
    #[arg(long, conflicts_with = "no_register")]
    pub(crate) force: bool,
    /// Do not tell the server about the worker; it is registered in another way
    #[arg(long, conflicts_with = "with_server")]
    pub(crate) no_register: bool,
    /// The project configuration [default: the `orchestra.yaml` beside the pipeline or above it]
    #[arg(long, value_name = "orchestra.yaml")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

/// The Restate server whose runs are exported.
#[derive(Debug, Args)]
pub(crate) struct ExportedServer {
    /// The ingress of the Restate server
    #[arg(long, value_name = "URL", default_value = INGRESS)]
    pub(crate) on: String,
    /// The folder of large values, which all workers and clients of the server share, or a bucket as in
    /// `s3://BUCKET/PREFIX` [default: `blobs` beside the folder of runs]
    #[arg(long, value_name = "DIR or URL")]
    pub(crate) blobs: Option<PathBuf>,
}

impl ExportedServer {
    /// Returns the same options as those of other commands.
    pub(crate) fn options(&self) -> ServerOptions {
        ServerOptions {
            on: Some(self.on.clone()),
            blobs: self.blobs.clone(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The complete id of the run; that of a child run is `RUN-STAGE-NUMBER`
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) server: ExportedServer,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

#[derive(Debug, Args)]
pub(crate) struct SyncArgs {
    #[command(flatten)]
    pub(crate) server: ExportedServer,
    /// The administration of the Restate server, which lists the runs
    #[arg(long, value_name = "URL", default_value = ADMIN)]
    pub(crate) admin: String,
    #[command(flatten)]
    pub(crate) runs: RunsDir,
}

impl RunsDir {
    /// Returns the folder of large values: the requested one, else one beside the folder of runs.
    pub(crate) fn blobs(&self, requested: Option<&Path>) -> PathBuf {
        requested.map_or_else(|| self.beside("blobs"), Path::to_owned)
    }

    /// Returns the folder of the data of a local Restate server.
    pub(crate) fn server_data(&self) -> PathBuf {
        self.beside("restate")
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.dir.parent().unwrap_or(Path::new("")).join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_are_beside_the_runs() {
        let runs = |dir: &str| RunsDir { dir: dir.into() };
        assert_eq!(
            runs(super::super::RUNS).blobs(None),
            Path::new(".orchestra/blobs")
        );
        assert_eq!(runs("elsewhere").blobs(None), Path::new("blobs"));
        assert_eq!(runs("elsewhere").blobs(Some(Path::new("b"))), Path::new("b"));
    }
}
