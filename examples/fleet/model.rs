//! The model: a server on loopback, in the place of a provider. It speaks the HTTP format of Anthropic.

use std::time::Duration;

use orchestra::agents::{KeySource, ModelError, Models, ProviderKind, ProviderSettings};
use orchestra_model_server_tests::{Answer, ModelServer, Request, Wire};
use serde_json::{Value, json};

/// The time that an answer takes.
const THINKS: Duration = Duration::from_millis(800);
/// The parcels that the model looks up, one in each turn.
const PARCELS: [&str; 3] = ["A-17", "A-18", "B-02"];
/// The number of turns of the conversation: one for each parcel, and one for the reply.
pub(crate) const TURNS: usize = PARCELS.len() + 1;
/// The header in which a worker names itself.
const WORKER: &str = "x-worker";

/// The server of the model.
pub(crate) struct Model(ModelServer);

/// A request to the model.
pub(crate) struct Asked {
    /// The number of the worker that sent it.
    pub(crate) worker: usize,
    /// The number of the turn in the conversation, from 1.
    pub(crate) turn: usize,
    /// What the model is told in this turn.
    pub(crate) content: String,
}

impl Model {
    pub(crate) fn start() -> Model {
        let server = ModelServer::start();
        server.respond_with(|request| {
            std::thread::sleep(THINKS);
            answer(turn(request))
        });
        Model(server)
    }

    /// Returns the address of the server.
    pub(crate) fn url(&self) -> String {
        self.0.base(Wire::Anthropic)
    }

    /// Returns the requests so far, in their order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        let asked = |request: &Request| Asked {
            worker: request
                .header(WORKER)
                .and_then(|worker| worker.parse().ok())
                .unwrap_or_default(),
            turn: turn(request),
            content: content(request),
        };
        self.0.requests().iter().map(asked).collect()
    }
}

/// Returns the turn of a request. A conversation is sent as a whole, so each answer in it is an earlier turn.
fn turn(request: &Request) -> usize {
    let messages = request.body["messages"].as_array().into_iter().flatten();
    1 + messages.filter(|message| message["role"] == "assistant").count()
}

/// Returns what is new in a request: the task, or where the last parcel is.
fn content(request: &Request) -> String {
    let messages = request.body["messages"].as_array();
    let last = messages.and_then(|messages| messages.last());
    let result = last.map_or(&Value::Null, |last| &last["content"][0]["content"]);
    // The result of a command begins with its exit code.
    let result = result.as_str().or(result[0]["text"].as_str());
    let place = result.and_then(|result| result.lines().last());
    let parcel = turn(request).checked_sub(2).and_then(|at| PARCELS.get(at));
    match (parcel, place) {
        (Some(parcel), Some(place)) => format!("the tool says that {parcel} is {place}"),
        _ => "the task".to_owned(),
    }
}

fn answer(turn: usize) -> Answer {
    match PARCELS.get(turn - 1) {
        Some(parcel) => Answer::text(format!("I look up parcel {parcel}."))
            .and_call("find_parcel", json!({ "number": parcel }).to_string()),
        None => {
            let reply = "A-17 and A-18 arrive today. B-02 is at the depot and arrives tomorrow.";
            let report = json!({
                "status": "success", "notes": "The reply names all parcels.", "context_updates": { "reply": reply },
            });
            Answer::call("report_outcome", report.to_string())
        }
    }
}

/// Returns the models of a worker: the provider of `orchestra.yaml`, at the address of the server.
pub(crate) fn models(url: &str, worker: usize) -> Result<Models, ModelError> {
    let mut provider = ProviderSettings::new("anthropic", ProviderKind::Anthropic);
    provider.api_base = Some(url.to_owned());
    provider.key = KeySource::Value("loopback".into());
    provider.headers.insert(WORKER.to_owned(), worker.to_string());
    Models::new([provider])
}
