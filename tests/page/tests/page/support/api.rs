//! The requests of a program.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::until;

/// A program with the token of a server.
#[derive(Clone)]
pub(crate) struct Api {
    address: String,
    token: String,
}

impl Api {
    /// Creates the client of the server that printed a link.
    #[track_caller]
    pub(crate) fn new(link: &str) -> Api {
        let link = link.strip_prefix("http://").expect("a link");
        let (address, token) = link.split_once("/ui/#token=").expect("a token");
        Api {
            address: address.to_owned(),
            token: token.to_owned(),
        }
    }

    /// Returns the link that opens the page.
    pub(crate) fn link(&self) -> String {
        format!("{}/ui/#token={}", self.origin(), self.token)
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request. Returns the status and the body of the reply.
    #[track_caller]
    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send_with("", method, path, body)
    }

    /// Sends a change of the state with an entity tag.
    #[track_caller]
    pub(crate) fn change(&self, path: &str, etag: &str, body: &Value) {
        let (status, reply) = self.send_with(&format!("If-Match: \"{etag}\"\r\n"), "POST", path, body);
        assert!(status < 300, "{path}: {status} {reply}");
    }

    #[track_caller]
    fn send_with(&self, headers: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (host, token) = (&self.address, &self.token);
        // What a server does not read would reset the connection before the reply has arrived.
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{headers}\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").expect("a reply");
        let status = head.split(' ').nth(1).expect("a status");
        (
            status.parse().unwrap(),
            serde_json::from_str(body).unwrap_or_default(),
        )
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.send("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: Value) -> Value {
        let (status, reply) = self.send("POST", path, &body);
        assert!(status < 300, "{path}: {status} {reply}");
        reply
    }

    /// Starts a run of a definition with context values. Returns its id.
    #[track_caller]
    pub(crate) fn begin(&self, definition: &str, params: Value) -> String {
        let reply = self.post(
            &format!("/api/v1/definitions/{definition}/runs"),
            json!({ "params": params }),
        );
        reply["id"].as_str().expect("an id").to_owned()
    }

    /// Starts a run of `release` and waits for its question.
    #[track_caller]
    pub(crate) fn begin_to_gate(&self, params: Value) -> String {
        let run = self.begin("release", params);
        self.until_asked(&run);
        run
    }

    #[track_caller]
    pub(crate) fn answer(&self, run: &str, question: &str, choice: &str) -> (u16, Value) {
        let path = format!("/pipelines/{run}/questions/{question}/answer");
        self.send("POST", &path, &json!({ "choice": choice }))
    }

    /// Waits until the rows of a run are as wanted.
    #[track_caller]
    pub(crate) fn until(&self, run: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        until(what, || {
            Some(self.get(&format!("/api/v1/runs/{run}"))).filter(&wanted)
        })
    }

    #[track_caller]
    pub(crate) fn until_status(&self, run: &str, status: &str) -> Value {
        self.until(run, status, |rows| rows["run"]["status"] == status)
    }

    /// Waits for a question. Returns its id, as a part of a path.
    #[track_caller]
    pub(crate) fn until_asked(&self, run: &str) -> String {
        let rows = self.until(run, "a question", |rows| rows["questions"][0]["id"].is_string());
        let id = rows["questions"][0]["id"].as_str().expect("an id");
        id.replace('#', "%23").replace('/', "%2F")
    }
}
