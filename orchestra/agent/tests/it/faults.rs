//! All faults of providers and networks, streamed and not, in each wire format: each results in a typed error, tokens
//! are counted once, time and size are bounded, and no error contains the key.

use std::error::Error;
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::join_all;
use orchestra_agent::{
    Arguments, KeySource, Model, ModelError, ModelErrorKind as Kind, ModelReply, ModelRequest, Models,
    ProviderKind, ProviderSettings, TokenUsage, ToolSpec,
};
use orchestra_model_server_tests::{Answer, Fault, ModelServer, Wire};
use serde_json::json;

const KEY: &str = "sk-very-secret-4711";

const WIRES: [(ProviderKind, Wire); 4] = [
    (ProviderKind::Anthropic, Wire::Anthropic),
    (ProviderKind::OpenAi, Wire::OpenAi),
    (ProviderKind::OpenAi, Wire::OpenAiResponses),
    (ProviderKind::Gemini, Wire::Gemini),
];

/// Returns the input and output tokens that an error reports, by wire format and whether it is streamed.
type Told = fn(Wire, bool) -> Option<(u64, u64)>;

/// The expected error of a fault.
struct Expected {
    kind: Kind,
    status: Option<u16>,
    retry_after: Option<(u64, u64)>,
    /// The expected tokens; `None` skips the check.
    usage: Option<Told>,
    /// A part of the message.
    says: &'static str,
}

struct Row {
    name: &'static str,
    answer: fn(Wire) -> Answer,
    expected: Expected,
    /// Time limits in milliseconds: of the whole call, and without data.
    limits: (u64, u64),
}

fn row(name: &'static str, kind: Kind, answer: fn(Wire) -> Answer) -> Row {
    Row {
        name,
        answer,
        expected: Expected {
            kind,
            status: None,
            retry_after: None,
            usage: Some(|_, _| None),
            says: "",
        },
        limits: (120_000, 60_000),
    }
}

impl Row {
    fn status(mut self, status: u16) -> Row {
        self.expected.status = Some(status);
        self
    }

    fn says(mut self, text: &'static str) -> Row {
        self.expected.says = text;
        self
    }

    fn retry_after(mut self, least: u64, most: u64) -> Row {
        self.expected.retry_after = Some((least, most));
        self
    }

    fn usage(mut self, usage: Option<Told>) -> Row {
        self.expected.usage = usage;
        self
    }

    fn limits(mut self, whole: u64, idle: u64) -> Row {
        self.limits = (whole, idle);
        self
    }
}

/// Returns an error with the identifier of each format.
fn error(wire: Wire, status: u16, words: [&'static str; 3], message: &'static str) -> Answer {
    Answer::fault(Fault::Error {
        status,
        code: word(wire, words),
        message,
        retry_after: None,
    })
}

fn word(wire: Wire, words: [&'static str; 3]) -> &'static str {
    match wire {
        Wire::Anthropic => words[0],
        Wire::OpenAi | Wire::OpenAiResponses => words[1],
        Wire::Gemini => words[2],
    }
}

fn slow_down(wire: Wire, retry_after: String) -> Answer {
    Answer::fault(Fault::Error {
        status: 429,
        code: word(
            wire,
            ["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"],
        ),
        message: "Slow down.",
        retry_after: Some(retry_after),
    })
}

/// Returns the tokens that a stream reports in its first half. An answer that is not streamed reports none.
fn reported_in_the_middle(wire: Wire, streamed: bool) -> Option<(u64, u64)> {
    match (wire, streamed) {
        (Wire::Anthropic | Wire::Gemini, true) => Some((10, 1)),
        _ => None,
    }
}

fn table() -> Vec<Row> {
    vec![
        row("hang before headers", Kind::Timeout, |_| {
            Answer::fault(Fault::HangBeforeHeaders)
        })
        .limits(60_000, 2_000)
        .says("nothing came for 2 s"),
        row("hang in the middle", Kind::Timeout, |_| {
            Answer::fault(Fault::HangInTheMiddle)
        })
        .limits(60_000, 3_000)
        .usage(Some(reported_in_the_middle))
        .says("nothing came for"),
        row("drip", Kind::Timeout, |_| {
            Answer::fault(Fault::Drip(Duration::from_millis(50)))
        })
        .limits(3_000, 60_000)
        .usage(None)
        .says("no whole answer came within 3 s"),
        row("429 with seconds", Kind::RateLimited, |wire| {
            slow_down(wire, "7".into())
        })
        .status(429)
        .retry_after(7, 7)
        .says("Slow down."),
        row("429 with a date", Kind::RateLimited, |wire| {
            let date = SystemTime::now() + Duration::from_secs(1_000);
            slow_down(wire, httpdate::fmt_http_date(date))
        })
        .status(429)
        .retry_after(100, 1_000),
        row("429 with an absurd delay", Kind::RateLimited, |wire| {
            slow_down(wire, "99999999999999999999".into())
        })
        .status(429)
        .retry_after(3_600, 3_600),
        row("401", Kind::Authentication, |wire| {
            let words = ["authentication_error", "invalid_api_key", "UNAUTHENTICATED"];
            error(
                wire,
                401,
                words,
                "Incorrect API key provided: sk-very-secret-4711.",
            )
        })
        .status(401)
        .says("Incorrect API key provided: [secret]."),
        row("403", Kind::Authentication, |wire| {
            error(
                wire,
                403,
                ["permission_error", "forbidden", "PERMISSION_DENIED"],
                "Not for you.",
            )
        })
        .status(403),
        row("404 unknown model", Kind::UnknownModel, |wire| {
            error(
                wire,
                404,
                ["not_found_error", "model_not_found", "NOT_FOUND"],
                "No such model.",
            )
        })
        .status(404)
        .says("No such model."),
        row("404 wrong address", Kind::Configuration, |_| {
            Answer::fault(Fault::Raw {
                status: 404,
                content_type: "text/html",
                body: "<h1>Not Found</h1>",
            })
        })
        .status(404)
        .says("check `api_base`"),
        row("400", Kind::BadRequest, |wire| {
            let words = ["invalid_request_error", "invalid_value", "INVALID_ARGUMENT"];
            error(wire, 400, words, "tools.0: must be better")
        })
        .status(400)
        .says("tools.0: must be better"),
        row("413", Kind::ContextTooLong, |wire| {
            let words = ["request_too_large", "too_large", "INVALID_ARGUMENT"];
            error(wire, 413, words, "Too much.")
        })
        .status(413),
        row("context too long", Kind::ContextTooLong, |wire| {
            let words = [
                "invalid_request_error",
                "context_length_exceeded",
                "INVALID_ARGUMENT",
            ];
            let message = match wire {
                Wire::Anthropic => "prompt is too long: 210000 tokens > 200000 maximum",
                Wire::OpenAi | Wire::OpenAiResponses => "Your messages are too long.",
                Wire::Gemini => "The input token count (9) exceeds the maximum number of tokens allowed (8).",
            };
            error(wire, 400, words, message)
        })
        .status(400),
        row("quota", Kind::Quota, |wire| {
            error(
                wire,
                402,
                ["billing_error", "insufficient_quota", "FAILED_PRECONDITION"],
                "Pay.",
            )
        })
        .status(402),
        row("500", Kind::Unavailable, |wire| {
            error(wire, 500, ["api_error", "server_error", "INTERNAL"], "Oops.")
        })
        .status(500),
        row("502 with a page", Kind::Unavailable, |_| {
            Answer::fault(Fault::Raw {
                status: 502,
                content_type: "text/html",
                body: "<html>\r\n<h1>502 Bad Gateway</h1></html>",
            })
        })
        .status(502)
        .says("<h1>502 Bad Gateway</h1>"),
        row("503", Kind::Unavailable, |wire| {
            error(wire, 503, ["api_error", "server_error", "UNAVAILABLE"], "Later.")
        })
        .status(503),
        row("529 overloaded", Kind::Unavailable, |wire| {
            error(
                wire,
                529,
                ["overloaded_error", "overloaded", "UNAVAILABLE"],
                "Overloaded.",
            )
        })
        .status(529),
        row("200 with an error", Kind::Unavailable, |wire| {
            let code = word(wire, ["overloaded_error", "server_error", "UNAVAILABLE"]);
            Answer::fault(Fault::ErrorInside {
                code,
                message: "Overloaded inside.",
            })
        })
        .says("Overloaded inside."),
        row("200 with broken JSON", Kind::Malformed, |_| {
            Answer::fault(Fault::BrokenJson)
        })
        .says("not JSON"),
        row("cut", Kind::Network, |_| Answer::fault(Fault::Cut))
            .usage(Some(reported_in_the_middle))
            .says("the connection broke"),
        row("endless body or event", Kind::Malformed, |_| {
            Answer::fault(Fault::Endless)
        })
        .says("is larger than"),
        row("endless events", Kind::Malformed, |_| {
            Answer::fault(Fault::EndlessEvents)
        })
        .says("is larger than"),
        row("wrong content type", Kind::Malformed, |_| {
            Answer::fault(Fault::Raw {
                status: 200,
                content_type: "text/html",
                body: "<html>Please log in</html>",
            })
        })
        .says("its content type is `text/html`, and it says \"<html>Please log in</html>\""),
        row("JSON that is no answer", Kind::Malformed, |_| {
            Answer::fault(Fault::Raw {
                status: 200,
                content_type: "application/json",
                body: r#"{"status": "ok"}"#,
            })
        }),
        row("empty", Kind::Malformed, |_| Answer::fault(Fault::Empty)).says("the answer is empty"),
        row(
            "error after the tokens were reported",
            Kind::Unavailable,
            |wire| {
                let code = word(wire, ["overloaded_error", "server_error", "UNAVAILABLE"]);
                Answer::text("Half of an answer, and then")
                    .tokens(100, 50)
                    .breaking(Fault::ErrorAfterUsage {
                        code,
                        message: "Gone.",
                    })
            },
        )
        .usage(Some(|wire, streamed| match (wire, streamed) {
            // Only the last chunk contains the total output.
            (Wire::Gemini, true) => Some((100, 1)),
            // Only the last event, which does not arrive, contains the tokens.
            (Wire::OpenAiResponses, true) => None,
            _ => Some((100, 50)),
        }))
        .says("Gone."),
        row("reset in the middle", Kind::Network, |_| {
            Answer::fault(Fault::Reset)
        })
        .usage(None),
        row("reset at once", Kind::Network, |_| {
            Answer::fault(Fault::ResetAtOnce)
        }),
    ]
}

fn models(kind: ProviderKind, base: String, limits: (u64, u64)) -> Models {
    let mut settings = ProviderSettings::new("provider", kind);
    settings.api_base = Some(base);
    settings.key = KeySource::Value(KEY.into());
    settings.timeout = Duration::from_millis(limits.0);
    settings.idle_timeout = Duration::from_millis(limits.1);
    Models::new([settings]).unwrap()
}

/// Returns the name of a model that uses this format.
fn model_of(wire: Wire) -> &'static str {
    match wire {
        Wire::OpenAiResponses => "gpt-5.2",
        _ => "some-model",
    }
}

fn request(wire: Wire) -> ModelRequest {
    ModelRequest::new("provider", model_of(wire))
        .user("Hello.")
        .tools(vec![ToolSpec {
            name: "read_file".into(),
            description: "Reads a file.".into(),
            parameters: json!({"type": "object"}),
        }])
}

async fn call(models: &Models, wire: Wire, streamed: bool) -> Result<ModelReply, ModelError> {
    let request = request(wire);
    if streamed {
        models.call(&request, Some(&mut |_| {})).await
    } else {
        models.call(&request, None).await
    }
}

/// Returns all texts of an error and its sources.
fn all_words(error: &ModelError) -> String {
    let mut words = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(cause) = source {
        words += &format!(" {cause} {cause:?}");
        source = cause.source();
    }
    words
}

/// Returns the deviations of an outcome from the expected error.
fn faults_of(
    expected: &Expected,
    wire: Wire,
    streamed: bool,
    outcome: &Result<ModelReply, ModelError>,
) -> Vec<String> {
    let error = match outcome {
        Ok(reply) => return vec![format!("an answer: {reply:?}")],
        Err(error) => error,
    };
    let mut wrong = Vec::new();
    if error.kind != expected.kind || error.status != expected.status {
        wrong.push(format!(
            "{:?} with status {:?}: {error}",
            error.kind, error.status
        ));
    }
    let seconds = error.retry_after.map(|delay| delay.as_secs());
    if expected.retry_after.is_some() != seconds.is_some()
        || expected
            .retry_after
            .is_some_and(|(least, most)| !(Some(least)..=Some(most)).contains(&seconds))
    {
        wrong.push(format!("retry after {seconds:?} s"));
    }
    let reported = error.usage.map(|usage: TokenUsage| (usage.input, usage.output));
    if let Some(usage) = expected.usage.map(|usage| usage(wire, streamed))
        && usage != reported
    {
        wrong.push(format!("tokens {reported:?}, not {usage:?}"));
    }
    let message = error.to_string();
    let beginning = format!("provider `provider`, model `{}`: ", model_of(wire));
    if !message.starts_with(&beginning) || !message.contains(expected.says) {
        wrong.push(format!("it says: {message}"));
    }
    if message.chars().count() > 1_000 || message.contains('\n') {
        wrong.push(format!("it says too much: {message}"));
    }
    if all_words(error).contains(KEY) {
        wrong.push(format!("the key is reported: {error:?}"));
    }
    wrong
}

/// Returns the maximum number of bytes of an answer that is read, plus the size of the buffers of two systems.
fn largest(streamed: bool) -> u64 {
    let mib = if streamed { 64 } else { 8 };
    (mib + 16) * 1024 * 1024
}

#[tokio::test]
async fn every_fault_has_its_outcome() {
    let table = table();
    let mut runs = Vec::new();
    for row in &table {
        for (kind, wire) in WIRES {
            for streamed in [false, true] {
                runs.push(async move {
                    let server = ModelServer::start();
                    server.push((row.answer)(wire));
                    let models = models(kind, server.base(wire), row.limits);
                    let began = Instant::now();
                    let outcome = call(&models, wire, streamed).await;
                    let mut wrong = faults_of(&row.expected, wire, streamed, &outcome);
                    if began.elapsed() > Duration::from_secs(100) {
                        wrong.push(format!("it took {:?}", began.elapsed()));
                    }
                    if server.requests().len() != 1 {
                        wrong.push(format!("{} requests", server.requests().len()));
                    }
                    if row.name.starts_with("endless") {
                        // The number of bytes sent is final once the server notices that the connection was closed.
                        while server.abandoned() == 0 && began.elapsed() < Duration::from_secs(100) {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                        if server.abandoned() != 1 || !(1_000_000..largest(streamed)).contains(&server.sent())
                        {
                            wrong.push(format!("{} bytes were taken", server.sent()));
                        }
                    }
                    let name = format!("{}, {wire:?}, streamed: {streamed}", row.name);
                    wrong
                        .into_iter()
                        .map(|wrong| format!("{name}: {wrong}"))
                        .collect::<Vec<_>>()
                });
            }
        }
    }
    assert!(runs.len() >= 24 * 6, "only {} runs", runs.len());
    let wrong = join_all(runs).await.concat();
    assert!(
        wrong.is_empty(),
        "{} outcomes are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test]
async fn a_stream_that_ends_too_early_is_no_answer() {
    for (kind, wire) in WIRES {
        let server = ModelServer::start();
        server.push(Answer::fault(Fault::EndsEarly));
        let error = call(&models(kind, server.base(wire), (60_000, 60_000)), wire, true)
            .await
            .unwrap_err();
        assert_eq!(error.kind, Kind::Malformed, "{error}");
        let usage = error.usage.map(|usage| (usage.input, usage.output));
        assert_eq!(usage, reported_in_the_middle(wire, true), "{wire:?}");
    }
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_a_fault_of_the_network() {
    for (kind, wire) in WIRES {
        for streamed in [false, true] {
            let models = models(kind, ModelServer::refusing(wire), (60_000, 60_000));
            let error = call(&models, wire, streamed).await.unwrap_err();
            assert_eq!(error.kind, Kind::Network, "{error}");
            assert!(
                error.to_string().contains("the provider was not reached"),
                "{error}"
            );
            assert!(!all_words(&error).contains(KEY));
        }
    }
}

#[tokio::test]
async fn credentials_never_follow_a_redirect() {
    for (kind, wire) in WIRES {
        for streamed in [false, true] {
            let (server, other) = (ModelServer::start(), ModelServer::start());
            let location = format!("http://user:pass@{}/v1/messages?key=abc", other.address());
            server.push(Answer::fault(Fault::Redirect(location)));
            let error = call(&models(kind, server.base(wire), (60_000, 60_000)), wire, streamed)
                .await
                .unwrap_err();
            assert_eq!(
                (error.kind, error.status),
                (Kind::Redirected, Some(307)),
                "{error}"
            );
            assert!(
                error
                    .to_string()
                    .contains(&format!("`http://{}`", other.address())),
                "{error}"
            );
            assert!(
                !all_words(&error).contains("pass") && !all_words(&error).contains("abc"),
                "{error:?}"
            );
            assert_eq!(other.requests().len(), 0, "somebody else was asked");
        }
    }
}

#[tokio::test]
async fn broken_arguments_of_a_call_are_handed_on() {
    for (kind, wire) in WIRES {
        for streamed in [false, true] {
            let server = ModelServer::start();
            server.push(Answer::call("read_file", "{\"path\": ").and_call("read_file", r#"{"path": "b"}"#));
            let models = models(kind, server.base(wire), (60_000, 60_000));
            let reply = call(&models, wire, streamed).await.unwrap();
            let arguments: Vec<_> = reply.tool_calls.iter().map(|call| &call.arguments).collect();
            assert!(
                matches!(arguments[..], [Arguments::Malformed { text, .. }, Arguments::Object(_)] if text.contains("{\"path\": ")),
                "{wire:?}, {streamed}: {arguments:?}"
            );
        }
    }
}
