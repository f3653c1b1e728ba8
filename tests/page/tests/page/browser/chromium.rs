//! Chromium as a child process, controlled by the DevTools protocol over a pipe.
//!
//! The pipe needs neither a port nor a driver, and Chromium ends when the other side of the pipe is closed. So it never
//! outlives the tests, not even if they are killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longest wait for the answer to a command.
const ANSWER: Duration = Duration::from_secs(30);

/// Starts Chromium with the pipe as its file descriptors 3 and 4, and removes its folder after it.
const START: &str = r#"folder=$1; shift; "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1; rm -rf "$folder""#;

pub(super) struct Chromium {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    last_id: u64,
    events: Vec<Value>,
    is_broken: bool,
}

impl Chromium {
    pub(super) fn start(program: &Path) -> Chromium {
        let folder = tempfile::tempdir().expect("a folder").keep();
        let mut child = Command::new("sh")
            .args(["-c", START, "sh"])
            .arg(&folder)
            .arg(program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args([
                "--remote-debugging-pipe",
                "--no-first-run",
                "--disable-background-networking",
            ])
            .args([
                "--disable-component-update",
                "--disable-sync",
                "--disable-breakpad",
                "--mute-audio",
            ])
            // No other name or address exists, so nothing can leave this machine.
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
            .arg(format!("--user-data-dir={}", folder.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("a shell");
        let output = child.stdout.take().expect("a pipe");
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else {
                    return;
                };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Chromium {
            input: child.stdin.take(),
            child,
            messages,
            last_id: 0,
            events: Vec::new(),
            is_broken: false,
        }
    }

    /// Returns whether it no longer answers.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Sends a command to a session, or to the browser if it is empty, and waits for the answer.
    pub(super) fn call(&mut self, session: &str, method: &str, parameters: Value) -> Result<Value, String> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": parameters });
        if !session.is_empty() {
            message["sessionId"] = session.into();
        }
        let bytes = [message.to_string().as_bytes(), b"\0"].concat();
        let sent = self.input.as_mut().map(|input| input.write_all(&bytes));
        if !matches!(sent, Some(Ok(()))) {
            self.is_broken = true;
            return Err("the browser has ended".to_owned());
        }
        let end = Instant::now() + ANSWER;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(mut message) = self.messages.recv_timeout(left) else {
                self.is_broken = true;
                return Err(format!("the browser does not answer `{method}`"));
            };
            if message["id"] == self.last_id {
                return match message.get("error") {
                    Some(error) => Err(error["message"].to_string()),
                    None => Ok(message["result"].take()),
                };
            }
            if message.get("method").is_some() {
                self.events.push(message);
            }
        }
    }

    /// Returns the events of a session that have arrived so far.
    pub(super) fn events(&mut self, session: &str) -> Vec<Value> {
        self.events.extend(self.messages.try_iter());
        let own = self.events.iter().filter(|event| event["sessionId"] == session);
        own.cloned().collect()
    }

    pub(super) fn forget_events(&mut self) {
        self.events.clear();
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        drop(self.input.take());
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
