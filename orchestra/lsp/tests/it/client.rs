//! A scripted client: it speaks with a server in a thread, through pipes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use orchestra_graph::ReadError;
use orchestra_lsp::{Ended, Host, UserFolder, serve};
use serde_json::{Value, json};

/// The folder of all files of a client.
pub(crate) const ROOT: &str = "/work";

/// Files in memory.
#[derive(Clone, Default)]
pub(crate) struct MapHost {
    pub(crate) files: Arc<Mutex<BTreeMap<String, String>>>,
    pub(crate) user: UserFolder,
}

impl Host for MapHost {
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        let files = self.files.lock().unwrap();
        let text = files.get(path).ok_or(ReadError::Missing)?;
        if text.len() as u64 > limit {
            return Err(ReadError::TooLong(text.len() as u64));
        }
        Ok(text.clone().into_bytes())
    }

    fn list(&self, folder: &str, endings: &[&str], limit: usize) -> Vec<String> {
        let files = self.files.lock().unwrap();
        let prefix = format!("{folder}/");
        let listed = files.keys().filter(|path| {
            let ending = path.rsplit('.').next().unwrap_or_default();
            path.starts_with(&prefix) && endings.contains(&ending)
        });
        listed.take(limit).cloned().collect()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let files = self.files.lock().unwrap();
        let inside = files
            .keys()
            .filter_map(|path| path.strip_prefix(folder)?.strip_prefix('/'));
        inside
            .filter(|name| !name.contains('/'))
            .map(str::to_owned)
            .collect()
    }

    fn user(&self) -> UserFolder {
        self.user.clone()
    }
}

/// A client with its server.
pub(crate) struct Client {
    input: Option<PipeWriter>,
    output: BufReader<PipeReader>,
    server: Option<JoinHandle<Ended>>,
    host: MapHost,
    next_id: i32,
    versions: BTreeMap<String, i32>,
    /// The texts of open documents, as the client has them.
    pub(crate) texts: BTreeMap<String, String>,
    /// The diagnostics of each file that the server sent last.
    pub(crate) diagnostics: BTreeMap<String, Vec<Value>>,
    /// The notifications and requests of the server, in order, except diagnostics.
    pub(crate) received: Vec<Value>,
    /// The answer to `initialize`.
    pub(crate) initialized: Value,
}

/// Returns the URI of a file.
pub(crate) fn uri(name: &str) -> String {
    format!("file://{ROOT}/{name}")
}

impl Client {
    /// Starts a server with these files on its disk. The client counts UTF-16 units.
    pub(crate) fn new(files: &[(&str, &str)]) -> Client {
        Client::with(files, UserFolder::default(), json!({}))
    }

    /// Starts a server for a client with these parameters of `initialize`, which replace those of a client with one
    /// folder.
    pub(crate) fn with(files: &[(&str, &str)], user: UserFolder, params: Value) -> Client {
        let mut client = Client::unconnected(files, user);
        let mut all = json!({
            "processId": null,
            "capabilities": {},
            "workspaceFolders": [{"uri": format!("file://{ROOT}"), "name": "work"}],
            "initializationOptions": {"delay": 0},
        });
        for (key, value) in params.as_object().unwrap() {
            all[key] = value.clone();
        }
        client.initialized = client.request("initialize", all);
        client.notify("initialized", json!({}));
        client
    }

    /// Starts a server without initializing it.
    pub(crate) fn unconnected(files: &[(&str, &str)], user: UserFolder) -> Client {
        let files = files
            .iter()
            .map(|(name, text)| (format!("{ROOT}/{name}"), (*text).to_owned()));
        let host = MapHost {
            files: Arc::new(Mutex::new(files.collect())),
            user,
        };
        let (server_input, input) = std::io::pipe().unwrap();
        let (output, server_output) = std::io::pipe().unwrap();
        let own = host.clone();
        let server = std::thread::spawn(move || serve(server_input, server_output, &own).unwrap());
        Client {
            input: Some(input),
            output: BufReader::new(output),
            server: Some(server),
            host,
            next_id: 0,
            versions: BTreeMap::new(),
            texts: BTreeMap::new(),
            diagnostics: BTreeMap::new(),
            received: Vec::new(),
            initialized: Value::Null,
        }
    }

    /// Writes bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let body = message.to_string();
        self.send_bytes(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and returns its whole answer, with `result` or `error`.
    pub(crate) fn answer(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.receive();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Sends a request and returns its result.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Returns the next message of the server. Records diagnostics and notifications.
    pub(crate) fn receive(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the server ended");
            let line = line.trim();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap();
        if message["method"] == "textDocument/publishDiagnostics" {
            let params = &message["params"];
            let uri = params["uri"].as_str().unwrap().to_owned();
            let list = params["diagnostics"].as_array().unwrap().clone();
            self.diagnostics.insert(uri, list);
        } else if message.get("method").is_some() {
            self.received.push(message.clone());
        }
        message
    }

    pub(crate) fn open(&mut self, name: &str, text: &str) {
        let language = if name.ends_with("yaml") { "yaml" } else { "dot" };
        self.versions.insert(name.to_owned(), 1);
        self.texts.insert(name.to_owned(), text.to_owned());
        let document = json!({"uri": uri(name), "languageId": language, "version": 1, "text": text});
        self.notify("textDocument/didOpen", json!({"textDocument": document}));
    }

    /// Replaces the whole text of a document.
    pub(crate) fn replace(&mut self, name: &str, text: &str) {
        self.texts.insert(name.to_owned(), text.to_owned());
        self.change(name, json!([{"text": text}]));
    }

    /// Sends changes of a document as they are; the caller keeps `texts` up to date.
    pub(crate) fn change(&mut self, name: &str, changes: Value) {
        let version = self.versions.get_mut(name).unwrap();
        *version += 1;
        let document = json!({"uri": uri(name), "version": *version});
        self.notify(
            "textDocument/didChange",
            json!({"textDocument": document, "contentChanges": changes}),
        );
    }

    pub(crate) fn close(&mut self, name: &str) {
        self.texts.remove(name);
        self.notify(
            "textDocument/didClose",
            json!({"textDocument": {"uri": uri(name)}}),
        );
    }

    /// Changes a file on disk, and reports it as an editor does.
    pub(crate) fn write(&mut self, name: &str, text: &str) {
        let path = format!("{ROOT}/{name}");
        self.host.files.lock().unwrap().insert(path, text.to_owned());
        let change = json!({"uri": uri(name), "type": 2});
        self.notify("workspace/didChangeWatchedFiles", json!({"changes": [change]}));
    }

    /// Waits until the server has published the diagnostics of all changes, and returns those of a file as
    /// [`shown`](Client::shown) does. The delay must be 0, as it is unless a test sets it.
    pub(crate) fn wait_for_diagnostics(&mut self, name: &str) -> Vec<String> {
        // The server publishes before it reads the next message, so any answer comes after the diagnostics.
        self.request(
            "textDocument/foldingRange",
            json!({"textDocument": {"uri": uri("none.dot")}}),
        );
        self.shown(name)
    }

    /// Returns the diagnostics of a file as `line code: message`.
    pub(crate) fn shown(&self, name: &str) -> Vec<String> {
        let list = self.diagnostics.get(&uri(name)).map_or(&[][..], Vec::as_slice);
        list.iter()
            .map(|diagnostic| {
                let line = &diagnostic["range"]["start"]["line"];
                let message = diagnostic["message"].as_str().unwrap();
                let message = message.lines().next().unwrap_or_default();
                format!("{line} {}: {message}", diagnostic["code"].as_str().unwrap())
            })
            .collect()
    }

    /// Returns the parameters of a request at the `n`th (from 0) occurrence of a text in a document, plus `inside`
    /// bytes. The text before it in its line must be ASCII.
    pub(crate) fn at_nth(&self, name: &str, needle: &str, n: usize, inside: usize) -> Value {
        let text = &self.texts[name];
        let (offset, _) = text.match_indices(needle).nth(n).expect("the text occurs");
        let before = &text[..offset + inside];
        let line = before.matches('\n').count();
        let character = before.rsplit('\n').next().unwrap_or_default().len();
        json!({"textDocument": {"uri": uri(name)}, "position": {"line": line, "character": character}})
    }

    /// Returns the parameters of a request at the beginning of the first occurrence of a text.
    pub(crate) fn at(&self, name: &str, needle: &str) -> Value {
        self.at_nth(name, needle, 0, 0)
    }

    /// Ends the server as the protocol demands, and returns why it ended.
    pub(crate) fn shut_down(mut self) -> Ended {
        self.request("shutdown", Value::Null);
        self.notify("exit", Value::Null);
        self.server.take().unwrap().join().unwrap()
    }

    /// Ends the input without a word, and returns why the server ended.
    pub(crate) fn hang_up(mut self) -> Ended {
        drop(self.input.take());
        self.server.take().unwrap().join().unwrap()
    }
}

/// Applies edits of the protocol (UTF-16) to a text.
pub(crate) fn applied(text: &str, edits: &[Value]) -> String {
    let mut list: Vec<(usize, usize, &str)> = edits
        .iter()
        .map(|edit| {
            let range = &edit["range"];
            let new = edit.get("newText").or_else(|| edit.get("text")).unwrap();
            (
                offset(text, &range["start"]),
                offset(text, &range["end"]),
                new.as_str().unwrap(),
            )
        })
        .collect();
    list.sort_unstable();
    let mut result = text.to_owned();
    for (start, end, new) in list.into_iter().rev() {
        result.replace_range(start..end.max(start), new);
    }
    result
}

/// Returns the offset of a position, by a search character by character.
fn offset(text: &str, position: &Value) -> usize {
    let [line, character] = ["line", "character"].map(|key| position[key].as_u64().unwrap());
    let (mut at_line, mut at_character) = (0, 0);
    let mut characters = text.char_indices().peekable();
    while let Some((at, character_here)) = characters.next() {
        let next_is_feed = characters.peek().is_some_and(|(_, next)| *next == '\n');
        let ends = character_here == '\n' || character_here == '\r';
        if at_line == line && (at_character >= character || ends) {
            return at;
        }
        if character_here == '\n' || (character_here == '\r' && !next_is_feed) {
            (at_line, at_character) = (at_line + 1, 0);
        } else if character_here != '\r' {
            at_character += character_here.len_utf16() as u64;
            // A position inside of a character is its beginning.
            if at_line == line && at_character > character {
                return at;
            }
        }
    }
    text.len()
}
