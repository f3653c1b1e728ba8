//! E1 to E3: the language server as an editor sees it, with a pipeline of 1,000 nodes. Prints one line of JSON per figure.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program that measures prints its figures"
)]

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::time::Instant;

use orchestra_benches::allocator::{self, Counting};
use orchestra_benches::figure::Figure;
use orchestra_benches::generate::large;
use orchestra_benches::measure::middle;
use orchestra_graph::ReadError;
use orchestra_lsp::{Host, serve};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of nodes of the pipeline.
const NODES: usize = 1_000;
/// The number of edits whose memory is counted.
const EDITS: usize = 10_000;
const URI: &str = "file:///work/large.dot";

/// A disk without files.
struct Nothing;

impl Host for Nothing {
    fn read(&self, _: &str, _: u64) -> Result<Vec<u8>, ReadError> {
        Err(ReadError::Missing)
    }
}

/// A client with its server, which runs in a thread.
struct Client {
    input: PipeWriter,
    output: BufReader<PipeReader>,
    version: i32,
}

impl Client {
    fn new(delay: u64) -> Client {
        let (server_input, input) = std::io::pipe().expect("a pipe");
        let (output, server_output) = std::io::pipe().expect("a pipe");
        std::thread::spawn(move || serve(server_input, server_output, &Nothing));
        let output = BufReader::new(output);
        let mut client = Client {
            input,
            output,
            version: 1,
        };
        let params = json!({"capabilities": {}, "initializationOptions": {"delay": delay}});
        client.request("initialize", params);
        client.notify("initialized", json!({}));
        let document = json!({"uri": URI, "languageId": "dot", "version": 1, "text": large(NODES)});
        client.notify("textDocument/didOpen", json!({"textDocument": document}));
        client
    }

    fn send(&mut self, message: &Value) {
        let body = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{body}", body.len()).expect("the server reads");
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        loop {
            let message = self.receive();
            if message["id"] == 1 {
                return message;
            }
        }
    }

    fn receive(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).expect("the server writes") > 0);
            match line.trim().strip_prefix("Content-Length: ") {
                Some(value) => length = value.parse().expect("a length"),
                None if line.trim().is_empty() => break,
                None => {}
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).expect("the server writes");
        serde_json::from_slice(&body).expect("it is JSON")
    }

    /// Replaces some characters in the first line of the attributes of `stage_2`.
    fn edit(&mut self, line: usize, from: usize, to: usize, text: &str) {
        self.version += 1;
        let position = |character| json!({"line": line, "character": character});
        let range = json!({"start": position(from), "end": position(to)});
        let document = json!({"uri": URI, "version": self.version});
        let changes = json!([{"range": range, "text": text}]);
        self.notify(
            "textDocument/didChange",
            json!({"textDocument": document, "contentChanges": changes}),
        );
    }

    /// Waits for the diagnostics of the document.
    fn diagnostics(&mut self) -> usize {
        loop {
            let message = self.receive();
            if message["method"] == "textDocument/publishDiagnostics" {
                return message["params"]["diagnostics"].as_array().map_or(0, Vec::len);
            }
        }
    }
}

/// Returns the line of `stage_2`, and the column of its `label`.
fn place() -> (usize, usize) {
    let text = large(NODES);
    let line = text
        .lines()
        .position(|line| line.starts_with("  stage_2 ["))
        .expect("it has one");
    let column = text
        .lines()
        .nth(line)
        .and_then(|line| line.find("label"))
        .expect("it has a label");
    (line, column)
}

/// Measures the time from an edit to its diagnostics, the delay included.
fn diagnostics() {
    let mut client = Client::new(50);
    client.diagnostics();
    let (line, column) = place();
    let mut times = Vec::new();
    for round in 0..40 {
        let text = if round % 2 == 0 { "lable" } else { "label" };
        let start = Instant::now();
        client.edit(line, column, column + 5, text);
        client.diagnostics();
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    print_figure(
        "E1 diagnostics after an edit of 1,000 nodes",
        "ms",
        middle(&mut times),
        50.0,
        100.0,
    );
}

/// Measures a completion directly after an edit.
fn completion() {
    let mut client = Client::new(50);
    client.diagnostics();
    let (line, column) = place();
    let mut times = Vec::new();
    for round in 0..40 {
        let (text, end) = if round % 2 == 0 {
            ("la", column + 5)
        } else {
            ("label", column + 2)
        };
        client.edit(line, column, end, text);
        let position = json!({"line": line, "character": column + 2});
        let start = Instant::now();
        let params = json!({"textDocument": {"uri": URI}, "position": position});
        client.request("textDocument/completion", params);
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    print_figure(
        "E2 completion after an edit of 1,000 nodes",
        "ms",
        middle(&mut times),
        None,
        50.0,
    );
}

/// Counts the memory that edits leave.
fn memory() {
    let mut client = Client::new(0);
    client.diagnostics();
    let (line, column) = place();
    let edits = |client: &mut Client, count: usize| {
        for round in 0..count {
            let text = if round % 2 == 0 { "lable" } else { "label" };
            client.edit(line, column, column + 5, text);
            client.diagnostics();
        }
        allocator::held()
    };
    let before = edits(&mut client, EDITS / 10);
    let after = edits(&mut client, EDITS);
    let grown = after.saturating_sub(before) as f64;
    print_figure("E3 memory that 10,000 edits leave", "bytes", grown, 0.0, 65_536.0);
}

fn print_figure(name: &str, unit: &str, ours: f64, limit: impl Into<Option<f64>>, target: f64) {
    let figure = Figure::with_target(name, unit, ours, limit, target);
    println!("{}", serde_json::to_string(&figure).expect("it is JSON"));
}

fn main() {
    diagnostics();
    completion();
    memory();
}
