//! A server in this process, and a client that sends exactly what a test says.

pub(crate) mod description;

use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra_engine::{Engine, EngineBuilder, Entry, RunFolder, SharedPipeline};
use orchestra_graph::{Source, load};
use orchestra_server::Server;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longest wait for something that happens soon.
pub(crate) const SOON: Duration = Duration::from_secs(120);

/// A gate between two tool stages, whose commands write files in the working folder.
pub(crate) const RELEASE: &str = r#"digraph release {
    graph [goal="Ship the crate"]
    start -> test -> approve
    test [shape=parallelogram, tool_command="echo tested"]
    approve [shape=hexagon, label="Ship it?"]
    approve -> publish [label="[A] Approve"]
    approve -> stop [label="[R] Reject"]
    publish [shape=parallelogram, tool_command="echo published"]
    stop [shape=parallelogram, tool_command="echo stopped"]
    publish -> exit
    stop -> exit
}"#;

pub(crate) fn entry(name: &str, text: &str) -> Entry {
    let loaded = load(Source::new(format!("{name}.dot"), text), &Default::default());
    let pipeline = loaded.pipeline().expect("a sound pipeline");
    Entry::loaded(name, SharedPipeline::from(pipeline), Vec::new())
}

pub(crate) struct TestServer {
    pub(crate) address: String,
    pub(crate) token: String,
    pub(crate) runs_dir: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<Vec<String>>>,
    /// The folder of a server that has its own.
    _dir: Option<TempDir>,
}

impl TestServer {
    /// Starts a server with the pipeline `release` in a folder of its own.
    pub(crate) async fn start() -> TestServer {
        TestServer::with(|server| server.entry(entry("release", RELEASE))).await
    }

    pub(crate) async fn with(configure: impl FnOnce(Server) -> Server) -> TestServer {
        let dir = tempfile::tempdir().expect("a folder");
        let mut server = TestServer::in_folder(dir.path(), |engine| engine, configure).await;
        server._dir = Some(dir);
        server
    }

    pub(crate) async fn in_folder(
        dir: &Path,
        engine: impl FnOnce(EngineBuilder) -> EngineBuilder,
        configure: impl FnOnce(Server) -> Server,
    ) -> TestServer {
        let runs_dir = dir.join("runs");
        let builder = Engine::builder().runs_dir(&runs_dir).working_dir(dir);
        let engine = engine(builder).build().expect("a sound engine");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let listening = configure(Server::new(engine)).listen(listener).expect("a server");
        let (_, token) = listening.link().split_once("#token=").expect("a token");
        let token = token.to_owned();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(listening.serve(async {
            let _ = stopped.await;
        }));
        TestServer {
            address,
            token,
            runs_dir,
            stop: Some(stop),
            serving: Some(serving),
            _dir: None,
        }
    }

    /// Stops the server. Returns the runs that it paused.
    pub(crate) async fn stop(&mut self) -> Vec<String> {
        drop(self.stop.take());
        let serving = self.serving.take().expect("it serves");
        timeout(SOON, serving).await.expect("it stops").expect("no panic")
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> TestRequest {
        let request = TestRequest {
            address: self.address.clone(),
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        request.header("Host", &self.address)
    }

    /// A request of a program with the token.
    pub(crate) fn authorized(&self, method: &str, path: &str) -> TestRequest {
        let bearer = format!("Bearer {}", self.token);
        self.request(method, path).header("Authorization", &bearer)
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.authorized("GET", path).send().await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.authorized("POST", path).json(&body).send().await
    }

    /// Starts a run of a pipeline. Returns its id.
    pub(crate) async fn begin(&self, name: &str) -> String {
        let reply = self
            .post(&format!("/api/v1/definitions/{name}/runs"), serde_json::json!({}))
            .await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()["id"].as_str().expect("an id").to_owned()
    }

    /// Waits until the rows of a run say something.
    pub(crate) async fn until(&self, run: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/api/v1/runs/{run}");
        let waiting = async {
            loop {
                let rows = self.get(&path).await.json();
                if is_so(&rows) {
                    return rows;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(SOON, waiting).await.expect("it happens soon")
    }

    pub(crate) async fn until_status(&self, run: &str, status: &str) -> Value {
        self.until(run, |rows| rows["run"]["status"] == status).await
    }

    pub(crate) async fn until_asked(&self, run: &str) -> Value {
        self.until(run, |rows| {
            rows["questions"]
                .as_array()
                .is_some_and(|asked| !asked.is_empty())
        })
        .await
    }

    pub(crate) fn folder(&self, run: &str) -> RunFolder {
        RunFolder::open(self.runs_dir.join(run)).expect("a run folder")
    }
}

#[derive(Clone)]
pub(crate) struct TestRequest {
    address: String,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl TestRequest {
    pub(crate) fn header(mut self, name: &str, value: &str) -> TestRequest {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Replaces a header, or removes it.
    pub(crate) fn replace(mut self, name: &str, value: Option<&str>) -> TestRequest {
        self.headers.retain(|(other, _)| other != name);
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    pub(crate) fn json(self, body: &Value) -> TestRequest {
        let text = body.to_string();
        self.body("application/json", text.as_bytes())
    }

    pub(crate) fn body(mut self, kind: &str, body: &[u8]) -> TestRequest {
        self.body = body.to_owned();
        self.header("Content-Type", kind)
    }

    /// Sends the request without waiting for the reply.
    pub(crate) async fn open(self) -> TcpStream {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!(
            "Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.body.len()
        ));
        let mut stream = TcpStream::connect(&self.address).await.expect("a connection");
        // A server that refuses the request may close the connection before it has read the body.
        let _ = stream.write_all(&[head.as_bytes(), &self.body].concat()).await;
        stream
    }

    /// Sends the request again as long as there were too many in this second.
    pub(crate) async fn send_patiently(self) -> Reply {
        loop {
            let reply = self.clone().send().await;
            if reply.status != 429 {
                return reply;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn send(self) -> Reply {
        let (method, path) = (self.method.clone(), self.path.clone());
        let mut stream = self.open().await;
        let mut bytes = Vec::new();
        let read = timeout(SOON, stream.read_to_end(&mut bytes)).await;
        // The rest of a refused body may reset the connection after the reply.
        let _ = read.expect("a reply soon");
        let reply = Reply::parse(&bytes);
        description::check(
            &method,
            &path,
            reply.status,
            reply.header("content-type"),
            &reply.body,
        );
        reply
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn parse(bytes: &[u8]) -> Reply {
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no reply: {:?}", String::from_utf8_lossy(bytes)));
        let head = std::str::from_utf8(&bytes[..end]).expect("a textual head");
        let mut lines = head.lines();
        let status = lines
            .next()
            .expect("a status")
            .split(' ')
            .nth(1)
            .expect("a number");
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let body = &bytes[end + 4..];
        let chunked = headers
            .iter()
            .any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        Reply {
            status: status.parse().expect("a number"),
            body: if chunked { unchunked(body) } else { body.to_owned() },
            headers,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn code(&self) -> String {
        let body = self.json();
        assert_eq!(body["schema"], "orchestra.error/1");
        body["code"].as_str().expect("a code").to_owned()
    }
}

/// Returns the content of chunks, of which the last one may be cut.
pub(crate) fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let Some(end) = bytes.windows(2).position(|part| part == b"\r\n") {
        let size = std::str::from_utf8(&bytes[..end]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a hexadecimal size");
        let rest = &bytes[end + 2..];
        content.extend_from_slice(&rest[..size.min(rest.len())]);
        bytes = rest.get(size + 2..).unwrap_or_default();
    }
    content
}
