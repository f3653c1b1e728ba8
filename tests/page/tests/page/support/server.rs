//! A server in this process.

use std::path::{Path, PathBuf};

use orchestra::Engine;
use orchestra::engine::Durability;
use orchestra::server::Server;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::crew::{Crew, long, release};
use super::{Api, SOON};

pub(crate) struct TestServer {
    pub(crate) api: Api,
    pub(crate) folder: TempDir,
    runtime: Runtime,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<Vec<String>>>,
}

impl TestServer {
    /// Starts a server with the pipelines of the tests, in an empty folder.
    pub(crate) fn start() -> TestServer {
        TestServer::with(|server| server)
    }

    pub(crate) fn with(configure: impl FnOnce(Server) -> Server) -> TestServer {
        let folder = tempfile::tempdir().expect("a folder");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let engine = Engine::builder()
            .runs_dir(folder.path().join("runs"))
            .working_dir(folder.path())
            .durability(Durability::Process)
            .build()
            .expect("an engine");
        let crew = Crew::in_folder(folder.path());
        let crew_of_long = crew.clone();
        let server = Server::new(engine)
            .pipeline("release", &release::PIPELINE, move || crew.clone())
            .pipeline("long", &long::PIPELINE, move || crew_of_long.clone());
        let listening = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            configure(server).listen(listener).expect("a server")
        });
        let api = Api::new(listening.link());
        let (stop, stopped) = oneshot::channel();
        let serving = runtime.spawn(listening.serve(async {
            let _ = stopped.await;
        }));
        TestServer {
            api,
            folder,
            runtime,
            stop: Some(stop),
            serving: Some(serving),
        }
    }

    /// Returns the folder of a run.
    pub(crate) fn run_folder(&self, run: &str) -> PathBuf {
        self.folder.path().join("runs").join(run)
    }

    /// Makes the stage `publish` fail, or no longer.
    pub(crate) fn break_registry(&self, broken: bool) {
        let file = Path::new(self.folder.path()).join(super::crew::BROKEN);
        match broken {
            true => std::fs::write(file, "").unwrap(),
            false => std::fs::remove_file(file).unwrap(),
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            let _ = self
                .runtime
                .block_on(async { tokio::time::timeout(SOON, serving).await });
        }
    }
}
