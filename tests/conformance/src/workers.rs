//! Workers that are processes of their own, and die.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::case::Plan;

/// What a worker does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The ingress to which it reports.
    pub ingress: String,
    /// The folder of the blobs.
    pub blobs: PathBuf,
    /// Where it listens, together with others.
    pub listen: SocketAddr,
    /// The log of its attempts.
    pub log: PathBuf,
    /// How long an attempt takes.
    pub takes: Duration,
    /// Its cases.
    pub cases: Vec<Plan>,
}

/// A worker. Dropping it kills it.
pub struct Killed {
    child: Child,
    ready: Arc<Mutex<Option<Instant>>>,
}

impl Order {
    /// Starts a worker.
    pub fn start(&self, program: &Path) -> Killed {
        let mut command = Command::new(program);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let order = serde_json::to_string(self).unwrap();
        child.stdin.take().unwrap().write_all(order.as_bytes()).unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let ready: Arc<Mutex<Option<Instant>>> = Arc::default();
        let serves = ready.clone();
        std::thread::spawn(move || {
            if stdout.read_exact(&mut [0; 6]).is_ok() {
                *serves.lock().unwrap() = Some(Instant::now());
            }
        });
        Killed { child, ready }
    }
}

impl Killed {
    /// Returns for how long the worker has been serving.
    pub fn serves_for(&self) -> Duration {
        self.ready
            .lock()
            .unwrap()
            .map_or(Duration::ZERO, |ready| ready.elapsed())
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Returns an address at which nobody listens.
pub fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}
