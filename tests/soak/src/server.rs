//! A server over the runs of a round, with clients: it lists runs and streams their events while their processes are
//! killed, and stops without a loss.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use orchestra_crash_tests::processes::Use;
use orchestra_oracle_tests::random::Random;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long a server may take to stop: a little more than it promises.
const STOP: Duration = Duration::from_secs(20);

/// How long a client waits for a reply, and how often a stream without events looks whether the round is over.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);

/// How long clients rest between two requests.
const REST: Duration = Duration::from_millis(100);

/// What a server did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served {
    pub(crate) requests: u64,
    pub(crate) events: u64,
    pub(crate) most: Use,
}

impl Served {
    pub(crate) fn add(&mut self, other: Served) {
        self.requests += other.requests;
        self.events += other.events;
        self.most.raise(other.most);
    }
}

/// A server process.
pub(crate) struct Server {
    child: Child,
    address: String,
    token: String,
    requests: AtomicU64,
    events: AtomicU64,
    most: Mutex<Use>,
}

impl Server {
    /// Starts it with a command of the program, and waits for its link.
    pub(crate) fn start(mut command: Command) -> Result<Server, String> {
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot start the server: {error}"))?;
        let output = child.stdout.take().ok_or("the server has no output")?;
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let link = lines.find_map(|line| {
            let line: Value = serde_json::from_str(&line).ok()?;
            Some(line["link"].as_str()?.to_owned())
        });
        // It must not wait for somebody who reads its output.
        std::thread::spawn(move || lines.for_each(drop));
        let parts = link
            .as_deref()
            .and_then(|link| link.strip_prefix("http://")?.split_once("/ui/#token="));
        let (address, token) = parts.ok_or("the server printed no link")?;
        Ok(Server {
            address: address.to_owned(),
            token: token.to_owned(),
            child,
            requests: AtomicU64::new(0),
            events: AtomicU64::new(0),
            most: Mutex::default(),
        })
    }

    fn ask(&self, path: &str, patience: Duration) -> Result<TcpStream, String> {
        let stream = TcpStream::connect(&self.address).and_then(|mut stream| {
            stream.set_read_timeout(Some(patience))?;
            // In version 1.0 of the protocol, a reply is not cut into chunks.
            write!(
                stream,
                "GET {path} HTTP/1.0\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
                self.address, self.token
            )?;
            Ok(stream)
        });
        self.requests.fetch_add(1, Ordering::Relaxed);
        stream.map_err(|error| format!("`{path}` of the server: {error}"))
    }

    /// Returns the reply to a request, which must succeed.
    pub(crate) fn get(&self, path: &str) -> Result<Value, String> {
        let mut reply = String::new();
        let mut stream = self.ask(path, PATIENCE)?;
        stream
            .read_to_string(&mut reply)
            .map_err(|error| format!("`{path}` of the server: {error}"))?;
        let body = reply
            .split_once("\r\n\r\n")
            .map(|(_, body)| body)
            .unwrap_or_default();
        match serde_json::from_str(body) {
            Ok(value) if reply.split(' ').nth(1) == Some("200") => Ok(value),
            _ => Err(format!("`{path}` of the server: {reply:.600}")),
        }
    }

    /// Reads lists, runs and questions until the round is over.
    pub(crate) fn read(&self, seed: u64, over: &AtomicBool) -> Result<(), String> {
        let mut random = Random::new(seed);
        while !over.load(Ordering::SeqCst) {
            let runs = self.get("/api/v1/runs?limit=200")?;
            self.get("/api/v1/gates")?;
            let runs = runs["runs"].as_array().cloned().unwrap_or_default();
            if !runs.is_empty() {
                let run = random.pick(&runs)["run"].as_str().unwrap_or_default().to_owned();
                let rows = self.get(&format!("/api/v1/runs/{run}"))?;
                if rows["run"]["run"] != *run {
                    return Err(format!("the server showed another run than `{run}`: {rows:.600}"));
                }
                self.get(&format!("/api/v1/runs/{run}/reachable"))?;
            }
            if let Some(used) = Use::of_process(self.child.id()) {
                self.most
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .raise(used);
            }
            std::thread::sleep(REST);
        }
        Ok(())
    }

    /// Follows the events of one run after the other until the round is over: none may be missing or come twice.
    pub(crate) fn follow(&self, seed: u64, over: &AtomicBool) -> Result<(), String> {
        let mut random = Random::new(seed);
        while !over.load(Ordering::SeqCst) {
            std::thread::sleep(REST);
            let runs = self.get("/api/v1/runs?limit=10")?;
            let runs = runs["runs"].as_array().cloned().unwrap_or_default();
            if !runs.is_empty() {
                let run = random.pick(&runs)["run"].as_str().unwrap_or_default().to_owned();
                self.follow_run(&run, over)?;
            }
        }
        Ok(())
    }

    fn follow_run(&self, run: &str, over: &AtomicBool) -> Result<(), String> {
        let stream = self.ask(&format!("/pipelines/{run}/events"), LOOK)?;
        let (mut stream, mut line) = (BufReader::new(stream), String::new());
        // After a reset, the events begin where the file was cut.
        let (mut next, mut is_reset) = (Some(1), false);
        while !over.load(Ordering::SeqCst) {
            match stream.read_line(&mut line) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                // What was read of the line stays.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(error) => return Err(format!("the stream of `{run}`: {error}")),
            }
            if line.starts_with("event: reset") {
                is_reset = true;
            } else if let Some(data) = line.strip_prefix("data: ") {
                let event: Value = serde_json::from_str(data).unwrap_or_default();
                match (event["seq"].as_u64(), std::mem::take(&mut is_reset)) {
                    (Some(seq), false) if next.is_none_or(|next| next == seq) => {
                        next = Some(seq + 1);
                        self.events.fetch_add(1, Ordering::Relaxed);
                    }
                    (Some(seq), false) => {
                        return Err(format!(
                            "the stream of `{run}` has event {seq} in place of {next:?}"
                        ));
                    }
                    (None, false) => {}
                    (_, true) => next = None,
                }
            }
            line.clear();
        }
        Ok(())
    }

    /// Asks it to stop, which it must do in time and with success.
    pub(crate) fn end(mut self) -> Result<Served, String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM);
        }
        let began = Instant::now();
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if began.elapsed() < STOP => std::thread::sleep(Duration::from_millis(10)),
                Ok(None) => return Err(format!("the server did not stop within {STOP:?}")),
                Err(error) => return Err(format!("the server: {error}")),
            }
        };
        if !status.success() {
            return Err(format!("the server left with {status}"));
        }
        Ok(Served {
            requests: self.requests.load(Ordering::Relaxed),
            events: self.events.load(Ordering::Relaxed),
            most: *self.most.lock().unwrap_or_else(PoisonError::into_inner),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
