//! A server, and workers in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orchestra_restate::{Admin, Blobs, Client, LocalServer, Worker, WorkerBuilder};
use orchestra_restate_server_tests::server_or_skip;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::case::{Actor, Case};

/// A server with a folder for its data and the blobs.
pub struct Fleet {
    /// The server.
    pub server: LocalServer,
    /// The folder.
    pub folder: TempDir,
}

impl Fleet {
    /// Starts a server. Returns `None`, and says that the test is skipped, if none is installed.
    pub async fn start(test: &str) -> Option<Fleet> {
        Fleet::of(&server_or_skip(test)?).await
    }

    async fn of(program: &Path) -> Option<Fleet> {
        let folder = tempfile::tempdir().unwrap();
        let builder = LocalServer::builder(program, folder.path().join("server"));
        let server = builder.start().await.unwrap();
        Some(Fleet { server, folder })
    }

    /// Returns the folder of the blobs.
    pub fn blobs_folder(&self) -> PathBuf {
        self.folder.path().join("blobs")
    }

    /// Returns the store of the workers.
    pub fn blobs(&self) -> Blobs {
        Blobs::in_folder(&self.blobs_folder()).unwrap()
    }

    /// Returns a client.
    pub fn client(&self) -> Client {
        Client::new(self.server.ingress_url(), self.blobs()).unwrap()
    }

    /// Returns the administration.
    pub fn admin(&self) -> Admin {
        Admin::new(self.server.admin_url()).unwrap()
    }

    /// Returns a builder of a worker.
    pub fn worker(&self) -> WorkerBuilder {
        Worker::builder(self.server.ingress_url(), self.blobs())
    }

    /// Returns a builder of a worker of cases.
    pub fn worker_of(&self, cases: &[Arc<Case>], actor: &Actor) -> WorkerBuilder {
        let engine = Case::engine();
        let add =
            |worker: WorkerBuilder, case: &Arc<Case>| worker.pipeline(case.entry(actor), engine.clone());
        cases.iter().fold(self.worker(), add)
    }

    /// Serves a worker in this process, and registers it. Aborting the task is like cutting its network.
    pub async fn serve(&self, worker: &Worker) -> JoinHandle<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(worker.serve(listener, std::future::pending()));
        self.admin().register(&url).await.unwrap();
        serving
    }
}
