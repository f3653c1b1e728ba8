//! A server, and workers in this process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orchestra_restate::{Admin, Blobs, Client, LocalServer, Worker, WorkerBuilder};
use orchestra_restate_server_tests::server_or_skip;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
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

    /// Queries the administration of the server.
    pub async fn query(&self, query: &str) -> Value {
        let body = json!({ "query": query }).to_string();
        post(self.server.admin_url(), "/query", &body).await.1
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

    /// Serves a worker in this process, and registers it. Aborting the task ends its listener only.
    pub async fn serve(&self, worker: &Worker) -> JoinHandle<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(worker.serve(listener, std::future::pending()));
        self.admin().register_by_force(&url).await.unwrap();
        serving
    }
}

/// A worker with threads of its own, which stops in the middle of whatever it does.
pub struct Doomed(Option<Runtime>);

impl Doomed {
    /// Stops the worker: nothing of it is executed any more, and its connections are cut.
    pub fn kill(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Fleet {
    /// Serves a worker in threads of its own at an address, and registers it. Attempts in progress belong to an address, so
    /// another worker must take the place of one that was killed there.
    pub async fn serve_doomed(&self, worker: &Worker, address: SocketAddr) -> Doomed {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let worker = worker.clone();
        let (bound, is_bound) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let listener = Worker::listen(address).unwrap();
            bound.send(()).unwrap();
            worker.serve(listener, std::future::pending()).await;
        });
        is_bound.await.unwrap();
        self.admin()
            .register_by_force(&format!("http://{address}"))
            .await
            .unwrap();
        Doomed(Some(runtime))
    }
}

/// Sends a request as any HTTP client does. Returns the status and the body.
pub async fn post(url: &str, path: &str, body: &str) -> (u16, Value) {
    request("POST", url, path, body).await
}

/// Requests something as any HTTP client does. Returns the status and the body.
pub async fn get(url: &str, path: &str) -> (u16, Value) {
    request("GET", url, path, "").await
}

async fn request(method: &str, url: &str, path: &str, body: &str) -> (u16, Value) {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await.unwrap();
    let reply = String::from_utf8(reply).unwrap();
    let status = reply.split(' ').nth(1).unwrap().parse().unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let body = match head.to_lowercase().contains("transfer-encoding: chunked") {
        true => body.split("\r\n").skip(1).step_by(2).collect(),
        false => body.to_owned(),
    };
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}
