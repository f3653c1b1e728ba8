//! A workflow that is edited by HTTP: created, changed as rows, activated, executed and evaluated, while a server runs.
//!
//! The server keeps the workflow in a database, with versions that never change. A change names the state that it was
//! made for (`If-Match`), so that no change of somebody else is lost. The second version adds a station and a transition
//! as rows; the executions show which way each order takes, and the analytics how often each transition was taken.
//!
//! `cargo run -p stations --bin stations_over_http` prints all of this. `orchestra serve` offers the same paths for the
//! workflows of a project.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use orchestra::engine::{BackendError, CodergenReply, CodergenRequest};
use orchestra::prelude::*;
use orchestra::server::Server;
use serde_json::{Value, json};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// The first version: everything goes by courier.
const PARCELS: &str = r#"digraph parcels {
    graph [goal="Send an order", routing="first_match"]
    start -> weigh -> courier -> exit
    weigh [prompt="Weigh the order.", backend=direct, output_keys="grams, light"]
    courier [shape=diamond, label="Courier"]
}"#;

/// Replaces a model: the order is its own weight.
struct Scales;

impl CodergenBackend for Scales {
    async fn run(&self, request: CodergenRequest) -> Result<CodergenReply, BackendError> {
        let order = request.stage.context().get("order").and_then(Value::as_u64);
        let grams = order.unwrap_or_default();
        let output = json!({ "grams": grams, "light": grams <= 500 });
        Ok(format!("It is on the scales.\n\n```json\n{output}\n```\n").into())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let engine = Engine::builder()
        .backend(Scales)
        .runs_dir(folder.path().join("runs"))
        .build()?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let server = Server::new(engine)
        .stations(folder.path().join("stations.sqlite"))
        .listen(listener)?;
    let client = Client::new(server.link())?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async {
        // The sender is dropped when the client is done.
        let _ = stopped.await;
    }));
    let edited = tokio::task::spawn_blocking(move || edit(&client)).await?;
    drop(stop);
    serving.await?;
    edited
}

fn edit(client: &Client) -> Result<()> {
    let body = json!({ "name": "parcels", "dot": PARCELS });
    let created = client.send("POST", "/api/workflows", None, &body)?;
    println!("created `parcels`");

    // An editor shows the rows of a version, and sends the changed ones.
    let mut rows = client.get("/api/workflows/parcels/versions/1")?["rows"].take();
    add_letterbox(&mut rows);
    let body = json!({ "rows": rows, "note": "light orders go by letter" });
    let added = client.send(
        "POST",
        "/api/workflows/parcels/versions",
        Some(&created.tag),
        &body,
    )?;
    println!("added version {}: {}", added.body["version"], body["note"]);

    // Somebody who has not seen the change cannot overwrite it.
    let late = client.request(
        "POST",
        "/api/workflows/parcels/versions",
        Some(&created.tag),
        &body,
    )?;
    println!("the same change again: {} {}", late.status, late.body["code"]);

    let path = "/api/workflows/parcels/versions/2/activate";
    let active = client.send("POST", path, Some(&added.tag), &json!({}))?;
    println!("version {} is active", active.body["active"]);

    for grams in [20, 4_000, 300] {
        let body = json!({ "params": { "order": grams } });
        let begun = client.send("POST", "/api/workflows/parcels/execute", None, &body)?;
        let execution = client.until_ended(begun.body["id"].as_str().unwrap_or_default())?;
        let stations = execution["stations"].as_array().into_iter().flatten();
        let way: Vec<&str> = stations.filter_map(|station| station["node"].as_str()).collect();
        println!("{grams} g: {}", way.join(" -> "));
    }

    let analytics = client.get("/api/workflows/parcels/analytics")?;
    let version = &analytics["versions"][0];
    println!("version {}, {} runs:", version["version"], version["runs"]);
    for row in version["transitions"].as_array().into_iter().flatten() {
        let name = |end: &str| row[end].as_str().unwrap_or_default().to_owned();
        let (source, target) = (name("source"), name("target"));
        println!(
            "  {source} -> {target}: tested {}, taken {}",
            row["tested"], row["taken"]
        );
    }
    Ok(())
}

/// Adds a station, and a transition to it that is tested before the other one.
fn add_letterbox(rows: &mut Value) {
    let station = json!({ "node": "letterbox", "name": "Letterbox", "attributes": { "shape": "diamond" } });
    let condition = json!({ "key": "light", "value": true }).to_string();
    let to_letterbox = json!({
        "source": "weigh", "target": "letterbox", "condition_type": "conditional", "condition_value": condition,
    });
    let from_letterbox = json!({ "source": "letterbox", "target": "exit" });
    if let Some(stations) = rows["stations"].as_array_mut() {
        stations.push(station);
    }
    if let Some(transitions) = rows["transitions"].as_array_mut() {
        transitions.insert(1, to_letterbox);
        transitions.push(from_letterbox);
    }
}

/// A client with as much of HTTP as this needs.
struct Client {
    address: String,
    token: String,
}

struct Reply {
    status: u16,
    tag: String,
    body: Value,
}

impl Client {
    fn new(link: &str) -> Result<Client> {
        let link = link
            .strip_prefix("http://")
            .and_then(|link| link.split_once("/ui/#token="));
        let (address, token) = link.ok_or("the link has another form")?;
        Ok(Client {
            address: address.to_owned(),
            token: token.to_owned(),
        })
    }

    fn get(&self, path: &str) -> Result<Value> {
        Ok(self.send("GET", path, None, &Value::Null)?.body)
    }

    /// Sends a request that must succeed.
    fn send(&self, method: &str, path: &str, tag: Option<&str>, body: &Value) -> Result<Reply> {
        let reply = self.request(method, path, tag, body)?;
        match reply.status {
            200..=299 => Ok(reply),
            status => Err(format!("{method} {path}: {status} {}", reply.body).into()),
        }
    }

    fn request(&self, method: &str, path: &str, tag: Option<&str>, body: &Value) -> Result<Reply> {
        let (host, token) = (&self.address, &self.token);
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let tag = tag.map_or_else(String::new, |tag| format!("If-Match: {tag}\r\n"));
        let mut stream = TcpStream::connect(host)?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{tag}\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or("no reply")?;
        let status = head.split(' ').nth(1).ok_or("no status")?.parse()?;
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: "));
        Ok(Reply {
            status,
            tag: tag.unwrap_or_default().to_owned(),
            body: serde_json::from_str(body)?,
        })
    }

    /// Waits for the end of an execution.
    fn until_ended(&self, run: &str) -> Result<Value> {
        loop {
            let execution = self.get(&format!("/api/workflow-executions/{run}"))?;
            match execution["status"].as_str() {
                Some("accepted" | "running") => std::thread::sleep(Duration::from_millis(20)),
                Some("success") => return Ok(execution),
                other => return Err(format!("the execution ended with {other:?}").into()),
            }
        }
    }
}
