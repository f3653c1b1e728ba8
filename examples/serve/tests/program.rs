//! The program: it serves the pipeline that is compiled into it, with its handlers.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Program {
    child: Child,
    address: String,
    token: String,
    _folder: tempfile::TempDir,
}

impl Program {
    fn start() -> Program {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_serve"))
            .arg("127.0.0.1:0")
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let link = line.trim().strip_prefix("open http://").expect("a link");
        let (address, token) = link.split_once("/ui/#token=").expect("a token");
        Program {
            child,
            address: address.to_owned(),
            token: token.to_owned(),
            _folder: folder,
        }
    }

    /// Sends a request. Returns the reply, which must be a success.
    fn send(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (host, token, length) = (&self.address, &self.token, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let status = reply.split(' ').nth(1).unwrap().to_owned();
        assert!(status.starts_with('2'), "{path}: {reply}");
        reply
    }

    fn until(&self, run: &str, part: &str) -> String {
        let began = Instant::now();
        loop {
            let reply = self.send("GET", &format!("/api/v1/runs/{run}"), "");
            if reply.contains(part) {
                return reply;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "no {part}: {reply}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_run_is_started_and_answered_by_http() {
    let program = Program::start();
    let reply = program.send("POST", "/api/v1/definitions/release_note/runs", "{}");
    let (_, id) = reply.split_once("{\"id\":\"").expect("an id");
    let run = id.split('"').next().unwrap();
    program.until(
        run,
        "\"node\":\"approve\",\"branch\":null,\"text\":\"Publish this note?\"",
    );
    let path = format!("/pipelines/{run}/questions/approve/answer");
    program.send("POST", &path, "{\"choice\":\"P\"}");
    let rows = program.until(run, "\"status\":\"success\"");
    assert!(rows.contains("published: Draft 1: faster"), "{rows}");
}
