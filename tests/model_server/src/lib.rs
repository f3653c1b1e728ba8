//! A model server for tests: real HTTP on loopback, with the wire formats of Anthropic, OpenAI and Gemini, streamed and
//! whole. It answers in a fixed order or by rules on what it is sent ([`Script`]), keeps what it was asked, and breaks in
//! the ways that providers and networks break.
//!
//! It runs on threads of its own, so that it serves tests with and without a runtime, and programs that a test starts.
//!
//! ```
//! use orchestra_model_server_tests::{Answer, ModelServer, Wire};
//! let server = ModelServer::start();
//! server.push(Answer::text("Fine."));
//! // A provider of the test gets this base, and any key.
//! assert!(server.base(Wire::OpenAi).starts_with("http://127.0.0.1:"));
//! assert!(server.requests().is_empty());
//! ```

mod answer;
mod faults;
mod heard;
mod http;
mod script;
mod wire;

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde_json::Value;

pub use answer::{Answer, AnswerCall, Usage};
pub use faults::Fault;
pub use script::{Script, ScriptError};
pub use wire::Wire;

/// What a server was asked.
///
/// ```
/// use orchestra_model_server_tests::ModelServer;
/// let server = ModelServer::start();
/// for request in server.requests() {
///     println!("{} {}", request.path, request.body);
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    /// The method of HTTP.
    pub method: String,
    /// The path, with what follows `?`.
    pub path: String,
    /// The headers, their names in lower case, in the order in which they came.
    pub headers: Vec<(String, String)>,
    /// The body; `null` where it is no JSON.
    pub body: Value,
    /// Which format it speaks, by its path.
    pub wire: Option<Wire>,
    /// Whether the answer is to be streamed.
    pub streamed: bool,
}

impl Request {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

type Responder = Box<dyn Fn(&Request) -> Answer + Send>;

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Answer>>,
    responder: Mutex<Option<Responder>>,
    requests: Mutex<Vec<Request>>,
    stopped: AtomicBool,
    /// Connections that the other side closed while an answer was due.
    abandoned: AtomicUsize,
    /// Bytes that connections took which are over, or whose request was answered.
    sent: AtomicU64,
}

/// A server that runs until it is dropped.
///
/// ```
/// use orchestra_model_server_tests::{Answer, ModelServer};
/// let server = ModelServer::start();
/// server.push(Answer::call("read_file", r#"{"path": "a.txt"}"#));
/// server.push(Answer::text("It says hello."));
/// ```
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

impl ModelServer {
    /// Starts a server on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// Panics when there is no port or no thread to be had.
    #[allow(clippy::expect_used)]
    pub fn start() -> ModelServer {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port of loopback");
        let address = listener.local_addr().expect("the address of a listener");
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("model-server".into())
            .spawn(move || serve(&listener, &serving))
            .expect("a thread");
        ModelServer {
            address,
            shared,
            listener: Some(thread),
        }
    }

    /// A base at which nobody listens: connections are refused.
    ///
    /// # Panics
    /// Panics when there is no port to be had.
    #[allow(clippy::expect_used)]
    pub fn refusing(wire: Wire) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port of loopback");
        let address = listener.local_addr().expect("the address of a listener");
        wire.base(address)
    }

    /// The base that a provider of this format is given.
    pub fn base(&self, wire: Wire) -> String {
        wire.base(self.address)
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds an answer to the script. Requests take answers from it in the order in which they come.
    pub fn push(&self, answer: Answer) {
        locked(&self.shared.script).push_back(answer);
    }

    /// Answers the requests for which the script holds nothing more.
    pub fn respond_with(&self, responder: impl Fn(&Request) -> Answer + Send + 'static) {
        *locked(&self.shared.responder) = Some(Box::new(responder));
    }

    /// Answers the requests for which the script holds nothing more by the rules of a [`Script`].
    pub fn play(&self, script: &Arc<Script>) {
        let script = Arc::clone(script);
        self.respond_with(move |request| script.answer(request));
    }

    /// What was asked so far, in the order in which it came.
    pub fn requests(&self) -> Vec<Request> {
        locked(&self.shared.requests).clone()
    }

    /// How many answers of the script nobody has asked for.
    pub fn left(&self) -> usize {
        locked(&self.shared.script).len()
    }

    /// How many bytes of answers were taken by the system of the other side. What an answer under way has sent is counted
    /// when it is over.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }

    /// How many connections the other side has closed while an answer was due.
    pub fn abandoned(&self) -> usize {
        self.shared.abandoned.load(Ordering::SeqCst)
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the listener, which then sees that it is to stop.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.listener.take() {
            drop(thread.join());
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = Arc::clone(shared);
        let serving = std::thread::Builder::new().name("model-connection".into());
        // A connection that has no thread is closed, which a test sees as a fault.
        drop(serving.spawn(move || connection(stream, &shared)));
    }
}

/// Serves one connection until one side has enough of it.
fn connection(stream: TcpStream, shared: &Shared) {
    let mut connection = http::Connection::new(stream, &shared.stopped);
    while let Some(request) = connection.request() {
        locked(&shared.requests).push(request.clone());
        let scripted = locked(&shared.script).pop_front();
        let answer = scripted.unwrap_or_else(|| match &*locked(&shared.responder) {
            Some(responder) => responder(&request),
            None => Answer::fault(Fault::Error {
                status: 500,
                code: "no_answer_scripted",
                message: "the script of the test holds no answer for this request",
                retry_after: None,
            }),
        });
        let before = connection.sent();
        let goes_on = faults::answer(&mut connection, &request, &answer);
        shared
            .sent
            .fetch_add(connection.sent() - before, Ordering::SeqCst);
        if connection.abandoned() {
            shared.abandoned.fetch_add(1, Ordering::SeqCst);
        }
        if !goes_on {
            return;
        }
    }
}
