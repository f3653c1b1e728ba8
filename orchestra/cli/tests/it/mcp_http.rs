//! MCP servers that are reached over HTTP.

#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use orchestra_model_server_tests::Answer;
use serde_json::{Value, json};

use crate::agents_support::{Done, Project, done, reports};
use crate::mcp_support::results;

const TOKEN: &str = "Bearer token-of-the-tracker-0123";

/// A server on loopback that answers each message with one JSON document.
struct HttpServer {
    address: String,
    /// The `Authorization` headers of the requests.
    heard: Arc<Mutex<Vec<String>>>,
}

impl HttpServer {
    /// Starts the server. With `redirect`, it sends every request there.
    fn start(redirect: Option<String>) -> HttpServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/mcp", listener.local_addr().unwrap());
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let kept = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, redirect) = (kept.clone(), redirect.clone());
                std::thread::spawn(move || serve(stream, &kept, redirect.as_deref()));
            }
        });
        HttpServer { address, heard }
    }
}

fn serve(stream: TcpStream, heard: &Mutex<Vec<String>>, redirect: Option<&str>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let is_post = line.starts_with("POST");
        let (mut length, mut authorization) = (0, String::new());
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim_end().split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().ok()?,
                "authorization" => value.clone_into(&mut authorization),
                _ => {}
            }
        }
        heard.lock().unwrap().push(authorization);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let response = match redirect {
            Some(to) => {
                format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
            }
            None if !is_post => "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n".to_owned(),
            None => answer(&serde_json::from_slice(&body).ok()?),
        };
        stream.write_all(response.as_bytes()).ok()?;
    }
}

fn answer(message: &Value) -> String {
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "tracker", "version": "1"},
        }),
        "tools/list" => {
            json!({"tools": [{"name": "search", "description": "Searches.", "inputSchema": {"type": "object"}}]})
        }
        "tools/call" => json!({"content": [{"type": "text", "text": "3 issues"}]}),
        _ => return "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
    };
    let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn project(address: &str) -> Project {
    let project = Project::new(&format!(
        "backend: agent\nmcp_servers:\n  tracker: {{url: {address:?}, headers_env: {{Authorization: TRACKER_AUTH}}, tools: \
         [search], start_timeout: 5s}}\nagents: {{worker: {{only_tools: [\"tracker:search\"]}}}}\n"
    ));
    project.scratch.write(
        "a.dot",
        "digraph a { start -> work -> exit; work [prompt=\"Do it.\", agent=worker] }",
    );
    project
}

fn call(project: &Project, args: &[&str]) -> Done {
    done(project.command(args).env("TRACKER_AUTH", TOKEN).output().unwrap())
}

#[test]
fn a_model_calls_a_tool_over_http_with_the_headers_of_the_server() {
    let server = HttpServer::start(None);
    let project = project(&server.address);
    call(&project, &["mcp", "lock"]).exits(0);
    project.server.push(Answer::call("tracker__search", "{}"));
    project.server.push(reports("Done."));
    call(&project, &["run", "a.dot"]).exits(0);
    assert_eq!(results(&project), ["3 issues"]);
    let heard = server.heard.lock().unwrap();
    assert!(
        !heard.is_empty() && heard.iter().all(|value| value == TOKEN),
        "{heard:?}"
    );
}

#[test]
fn a_proxy_of_the_environment_gets_nothing_that_is_meant_for_this_machine() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let proxy_address = format!("http://{}", proxy.local_addr().unwrap());
    let server = HttpServer::start(None);
    let project = project(&server.address);
    let mut command = project.command(&["mcp", "lock"]);
    command.env("TRACKER_AUTH", TOKEN);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, &proxy_address);
    }
    command.env_remove("NO_PROXY").env_remove("no_proxy");
    done(command.output().unwrap()).exits(0);
    assert!(!server.heard.lock().unwrap().is_empty());
    let connected = proxy.accept();
    assert!(connected.is_err(), "{connected:?}");
}

#[test]
fn headers_never_follow_a_redirect() {
    let target = HttpServer::start(None);
    let server = HttpServer::start(Some(target.address.clone()));
    let project = project(&server.address);
    let refused = call(&project, &["mcp", "lock"]).exits(1);
    assert!(!refused.stderr.contains(TOKEN), "{}", refused.stderr);
    assert!(!server.heard.lock().unwrap().is_empty());
    assert!(target.heard.lock().unwrap().is_empty());
}

#[test]
fn a_server_that_cannot_be_reached_is_reported_with_the_cause() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let project = project(&format!("http://{address}/mcp"));
    let refused = call(&project, &["mcp", "lock"]).exits(1);
    assert!(
        refused.stderr.contains("Connection refused"),
        "{}",
        refused.stderr
    );
    assert!(!refused.stderr.contains("Transport"), "{}", refused.stderr);
}

#[test]
fn a_variable_that_is_missing_is_named() {
    let server = HttpServer::start(None);
    let project = project(&server.address);
    let missing = project.call(&["mcp", "lock"]).exits(1);
    assert!(missing.stderr.contains("`TRACKER_AUTH`"), "{}", missing.stderr);
    assert!(server.heard.lock().unwrap().is_empty());
}
