//! Compares the requests and answers of each wire format with recordings.

use std::path::{Path, PathBuf};

use orchestra_agent::{
    Arguments, KeySource, Message, Model, ModelReply, ModelRequest, Models, ProviderKind, ProviderSettings,
    ReasoningEffort, ToolCall, ToolResult, ToolSpec,
};
use orchestra_model_server_tests::{Answer, Fault, ModelServer, Request, Wire};
use serde_json::{Value, json};

/// A wire format: the folder of its recordings, and a provider and model that use it.
struct Case {
    folder: &'static str,
    kind: ProviderKind,
    wire: Wire,
    model: &'static str,
    reply: &'static str,
    stream: &'static str,
}

macro_rules! case {
    ($folder:literal, $kind:ident, $wire:ident, $model:literal) => {
        Case {
            folder: $folder,
            kind: ProviderKind::$kind,
            wire: Wire::$wire,
            model: $model,
            reply: include_str!(concat!("../recordings/", $folder, "/reply.json")),
            stream: include_str!(concat!("../recordings/", $folder, "/reply.sse")),
        }
    };
}

const CASES: [Case; 5] = [
    case!("anthropic", Anthropic, Anthropic, "claude-sonnet-4-5"),
    case!("openai", OpenAi, OpenAi, "gpt-5"),
    case!("responses", OpenAi, OpenAiResponses, "gpt-5.4"),
    case!("openrouter", OpenRouter, OpenAi, "anthropic/claude-sonnet-4.5"),
    case!("gemini", Gemini, Gemini, "gemini-3-pro-preview"),
];

impl Case {
    fn models(&self, server: &ModelServer) -> Models {
        let mut settings = ProviderSettings::new("provider", self.kind);
        settings.api_base = Some(server.base(self.wire));
        settings.key = KeySource::Value("the-secret-key".into());
        settings.headers = [("x-team".to_owned(), "parsers".to_owned())].into();
        Models::new([settings]).unwrap()
    }

    /// Compares a value with a recording. To renew the recording, remove the file and run the test twice.
    fn compare(&self, name: &str, value: &Value) {
        let path = recordings().join(self.folder).join(name);
        let text = format!("{value:#}\n");
        match std::fs::read_to_string(&path) {
            Ok(recorded) => {
                let recorded: Value = serde_json::from_str(&recorded).unwrap();
                assert_eq!(recorded, *value, "{}: now it is\n{text}", path.display());
            }
            Err(_) => {
                std::fs::write(&path, text).unwrap();
                panic!(
                    "{} was recorded; look at it and run the test again",
                    path.display()
                );
            }
        }
    }
}

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

fn tools() -> Vec<ToolSpec> {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Relative to the root."}},
        "required": ["path"],
        "additionalProperties": false,
    });
    vec![
        ToolSpec {
            name: "read_file".into(),
            description: "Reads a file.".into(),
            parameters: schema,
        },
        ToolSpec {
            name: "list_tests".into(),
            description: "Lists the tests.".into(),
            parameters: json!({"type": "object", "properties": {}}),
        },
    ]
}

/// Returns a conversation with every kind of message and option.
fn conversation(case: &Case, opening: &ModelReply) -> ModelRequest {
    let mut request = ModelRequest::new("provider", case.model)
        .system("You mend parsers.")
        .user("The tests fail.")
        .tools(tools());
    request.messages.push(Message::assistant("Which of them?"));
    request.messages.push(Message::user("All of them."));
    request.messages.push(opening.message());
    let results = opening.tool_calls.iter().enumerate();
    let results = results.map(|(index, call)| ToolResult {
        id: call.id.clone(),
        name: call.name.clone(),
        content: format!("result {index}"),
        is_error: index == 1,
    });
    request.messages.push(Message::Tools {
        results: results.collect(),
    });
    let malformed = ToolCall {
        id: "call_of_another".into(),
        name: "read_file".into(),
        arguments: Arguments::parse("{\"path\": "),
    };
    // An answer of another provider, whose opaque value must be ignored.
    request.messages.push(Message::Assistant {
        text: String::new(),
        tool_calls: vec![malformed],
        opaque: Some(json!({"wire": "elsewhere", "parts": []})),
    });
    request.messages.push(Message::Tools {
        results: vec![ToolResult {
            id: "call_of_another".into(),
            name: "read_file".into(),
            content: "the arguments are no JSON".into(),
            is_error: true,
        }],
    });
    request.messages.push(Message::user("Go on."));
    request.max_output_tokens = Some(12_000);
    request.temperature = Some(0.25);
    request.reasoning_effort = Some(ReasoningEffort::High);
    request
}

/// Returns the reproducible parts of a request as a provider receives it.
fn seen(request: &Request) -> Value {
    let own = ["host", "content-length", "user-agent"];
    let headers = request
        .headers
        .iter()
        .filter(|(name, _)| !own.contains(&name.as_str()));
    let headers: serde_json::Map<String, Value> = headers
        .map(|(name, value)| (name.clone(), value.as_str().into()))
        .collect();
    json!({"method": request.method, "path": request.path, "headers": headers, "body": request.body})
}

async fn call(models: &Models, request: &ModelRequest, streamed: bool) -> (ModelReply, String) {
    let mut text = String::new();
    let mut take = |piece: &str| text.push_str(piece);
    let reply = if streamed {
        models.call(request, Some(&mut take)).await
    } else {
        models.call(request, None).await
    };
    (reply.unwrap(), text)
}

async fn recorded(case: &Case, streamed: bool) -> (ModelReply, String) {
    let server = ModelServer::start();
    server.push(Answer::fault(Fault::Raw {
        status: 200,
        content_type: if streamed {
            "text/event-stream; charset=utf-8"
        } else {
            "application/json"
        },
        body: if streamed { case.stream } else { case.reply },
    }));
    let request = ModelRequest::new("provider", case.model).user("Hello.");
    call(&case.models(&server), &request, streamed).await
}

#[tokio::test]
async fn recorded_answers_are_read_alike_whole_and_streamed() {
    for case in &CASES {
        let (whole, nothing) = recorded(case, false).await;
        let (streamed, text) = recorded(case, true).await;
        assert_eq!(whole, streamed, "{}", case.folder);
        assert_eq!(text, whole.text, "{}: what was streamed is the text", case.folder);
        assert_eq!(nothing, "");
        case.compare("parsed.json", &serde_json::to_value(&whole).unwrap());
    }
}

#[tokio::test]
async fn requests_are_those_of_the_recordings() {
    for case in &CASES {
        let (opening, _) = recorded(case, false).await;
        let server = ModelServer::start();
        server.respond_with(|_| Answer::text("Done."));
        let models = case.models(&server);
        let request = conversation(case, &opening);
        call(&models, &request, false).await;
        call(&models, &request, true).await;
        let plain = ModelRequest::new("provider", case.model).user("Hello.");
        call(&models, &plain, false).await;
        let requests = server.requests();
        case.compare("request.json", &seen(&requests[0]));
        case.compare("request-plain.json", &seen(&requests[2]));
        // Streaming must not change anything else in the request.
        let mut streamed = seen(&requests[1]);
        let fields = streamed["body"].as_object_mut().unwrap();
        fields.remove("stream");
        fields.remove("stream_options");
        assert_eq!(streamed["body"], seen(&requests[0])["body"], "{}", case.folder);
        assert!(requests[1].streamed && !requests[0].streamed);
    }
}
