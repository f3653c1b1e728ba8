//! Calls of models: keys, addresses, headers, efforts, cancellation and time limits, and optional parts of answers.

use std::time::{Duration, Instant};

use orchestra_agent::{
    Arguments, ExposeSecret, KeySource, Model, ModelErrorKind, ModelReply, ModelRequest, Models,
    ProviderKind, ProviderSettings, StopReason, TokenUsage, ToolCall,
};
use orchestra_model_server_tests::{Answer, Fault, ModelServer, Usage, Wire};

/// The wire formats, each with a model that uses it.
const WIRES: [(ProviderKind, Wire, &str); 4] = [
    (ProviderKind::Anthropic, Wire::Anthropic, "m"),
    (ProviderKind::OpenAi, Wire::OpenAi, "m"),
    (ProviderKind::OpenAi, Wire::OpenAiResponses, "gpt-5.2"),
    (ProviderKind::Gemini, Wire::Gemini, "m"),
];

fn settings(kind: ProviderKind, base: String) -> ProviderSettings {
    let mut settings = ProviderSettings::new("p", kind);
    settings.api_base = Some(base);
    settings.key = KeySource::Value("the-secret-key".into());
    settings
}

fn models(kind: ProviderKind, server: &ModelServer, wire: Wire) -> Models {
    Models::new([settings(kind, server.base(wire))]).unwrap()
}

fn hello(model: &str) -> ModelRequest {
    ModelRequest::new("p", model).user("Hello.")
}

/// Waits for a condition that another thread fulfils.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn dropping_a_call_closes_its_connection() {
    for (kind, wire, model) in WIRES {
        let server = ModelServer::start();
        server.push(Answer::fault(Fault::HangBeforeHeaders));
        server.push(Answer::fault(Fault::HangInTheMiddle));
        let models = models(kind, &server, wire);
        let request = hello(model);
        {
            let mut call = models.call(&request, None);
            tokio::select! {
                outcome = &mut call => assert!(outcome.is_err(), "nothing answers"),
                () = until("the request", || server.requests().len() == 1) => {}
            }
        }
        until("the end of the connection", || server.abandoned() == 1).await;

        // Text that was streamed before the call is dropped has already been delivered.
        let (sender, mut pieces) = tokio::sync::mpsc::unbounded_channel();
        let mut on_text = move |piece: &str| drop(sender.send(piece.to_owned()));
        {
            let mut call = models.call(&request, Some(&mut on_text));
            tokio::select! {
                outcome = &mut call => assert!(outcome.is_err(), "the rest never comes"),
                piece = pieces.recv() => assert_eq!(piece.as_deref(), Some("All is well with ")),
            }
        }
        until("the end of the connection", || server.abandoned() == 2).await;
    }
}

#[tokio::test]
async fn calls_run_side_by_side() {
    let server = ModelServer::start();
    server.respond_with(|request| {
        Answer::text(
            request.body["messages"][0]["content"]
                .as_str()
                .unwrap_or_default(),
        )
    });
    let models = models(ProviderKind::OpenAi, &server, Wire::OpenAi);
    let requests: Vec<_> = (0..20)
        .map(|n| ModelRequest::new("p", "m").user(format!("{n}")))
        .collect();
    let replies =
        futures_util::future::join_all(requests.iter().map(|request| models.call(request, None))).await;
    let texts: Vec<_> = replies.into_iter().map(|reply| reply.unwrap().text).collect();
    assert_eq!(texts, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_missing_key_says_how_to_give_one() {
    let providers = ProviderKind::ALL.map(|kind| {
        let mut settings = ProviderSettings::new(kind.word(), kind);
        settings.api_base = Some("http://127.0.0.1:9/v1".into());
        if let KeySource::Environment(name) = &mut settings.key {
            name.push_str("_OF_NOBODY_AT_ALL");
        }
        settings
    });
    let models = Models::new(providers).unwrap();
    let names: Vec<String> = models.providers().map(str::to_owned).collect();
    let missing = models.missing_keys(names.iter().map(String::as_str));
    let messages: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let says = |provider: &str, variable: &str| {
        format!(
            "the provider `{provider}` has no key: set the environment variable `{variable}_OF_NOBODY_AT_ALL` to the key"
        )
    };
    assert_eq!(
        messages,
        [
            says("anthropic", "ANTHROPIC_API_KEY"),
            says("gemini", "GEMINI_API_KEY"),
            says("openai", "OPENAI_API_KEY"),
            says("openrouter", "OPENROUTER_API_KEY"),
        ]
    );
    assert!(
        missing
            .iter()
            .all(|error| error.kind == ModelErrorKind::MissingKey)
    );
}

#[tokio::test]
async fn a_key_file_is_read_when_the_key_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let server = ModelServer::start();
    server.respond_with(|_| Answer::text("Fine."));
    let mut settings = settings(ProviderKind::OpenAi, server.base(Wire::OpenAi));
    settings.key = KeySource::File(path.clone());
    let models = Models::new([settings]).unwrap();

    let error = models.call(&hello("m"), None).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::MissingKey);
    assert!(
        error
            .to_string()
            .contains(&format!("the key file `{}` cannot be read", path.display())),
        "{error}"
    );
    for (text, problem) in [
        (" \n", "holds no key"),
        ("sk-one\nsk-two\n", "holds more than a key"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = models.call(&hello("m"), None).await.unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
        assert!(!format!("{error:?}").contains("sk-"), "{error:?}");
    }
    assert!(server.requests().is_empty() && models.secrets().is_empty());

    std::fs::write(&path, "sk-of-the-file\n").unwrap();
    models.call(&hello("m"), None).await.unwrap();
    // The key is read only once.
    std::fs::remove_file(&path).unwrap();
    models.call(&hello("m"), None).await.unwrap();
    assert_eq!(
        server.requests()[1].header("authorization"),
        Some("Bearer sk-of-the-file")
    );
    assert_eq!(models.secrets()[0].expose_secret(), "sk-of-the-file");
}

#[test]
fn a_provider_that_cannot_be_called_is_refused_with_the_reason() {
    type Change = fn(&mut ProviderSettings);
    let refused = |change: Change, kind: ProviderKind| {
        let mut settings = ProviderSettings::new("house", kind);
        change(&mut settings);
        let error = Models::new([settings]).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Configuration);
        error.to_string()
    };
    let cases: [(Change, ProviderKind, &str); 6] = [
        (
            |_| {},
            ProviderKind::OpenAiCompatible,
            "a provider of the kind `openai-compatible` needs an `api_base`",
        ),
        (
            |s| s.api_base = Some("models".into()),
            ProviderKind::OpenAi,
            "its `api_base` is not a valid address",
        ),
        (
            |s| s.api_base = Some("ftp://models".into()),
            ProviderKind::OpenAi,
            "must begin with `https://` or `http://`",
        ),
        (
            |s| s.api_base = Some("https://me:pass@models".into()),
            ProviderKind::OpenAi,
            "holds a password",
        ),
        (
            |s| s.headers = [("a b".into(), "c".into())].into(),
            ProviderKind::OpenAi,
            "`a b` is not a valid header name",
        ),
        (
            |s| s.headers = [("a".into(), "c\n".into())].into(),
            ProviderKind::OpenAi,
            "the header `a` cannot be sent",
        ),
    ];
    for (change, kind, problem) in cases {
        let message = refused(change, kind);
        assert!(
            message.contains(problem) && message.contains("`house`"),
            "{message}"
        );
        assert!(!message.contains("pass@"), "{message}");
    }
    let twice = [ProviderKind::OpenAi, ProviderKind::Gemini].map(|kind| ProviderSettings::new("house", kind));
    assert!(
        Models::new(twice)
            .unwrap_err()
            .to_string()
            .contains("configured twice")
    );
}

#[tokio::test]
async fn an_unknown_provider_is_said_to_be_unknown() {
    let models = Models::new([ProviderSettings::new("anthropic", ProviderKind::Anthropic)]).unwrap();
    let error = models
        .call(&ModelRequest::new("antropic", "m"), None)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown provider `antropic`; did you mean `anthropic`?"
    );
    let error = Models::new([])
        .unwrap()
        .call(&hello("m"), None)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "unknown provider `p`; none is configured");
}

#[tokio::test]
async fn configured_headers_win_and_are_not_shown() {
    let server = ModelServer::start();
    server.push(Answer::fault(Fault::Error {
        status: 400,
        code: "invalid_value",
        message: "What is gateway-token-99 doing here?",
        retry_after: None,
    }));
    let mut settings = settings(ProviderKind::OpenAi, server.base(Wire::OpenAi));
    settings.headers = [
        ("Authorization".to_owned(), "gateway-token-99".to_owned()),
        ("x-team".to_owned(), "a".to_owned()),
    ]
    .into();
    let models = Models::new([settings]).unwrap();
    let error = models.call(&hello("m"), None).await.unwrap_err();
    let request = server.requests().remove(0);
    assert_eq!(request.header("authorization"), Some("gateway-token-99"));
    assert_eq!(request.header("x-team"), Some("a"));
    assert!(
        error.to_string().contains("What is [secret] doing here?"),
        "{error}"
    );
    let shown = format!("{models:?}");
    assert!(
        !shown.contains("token-99") && !shown.contains("the-secret-key"),
        "{shown}"
    );
    let secrets: Vec<_> = models
        .secrets()
        .iter()
        .map(|secret| secret.expose_secret().to_owned())
        .collect();
    assert!(
        secrets.contains(&"gateway-token-99".to_owned()) && secrets.contains(&"the-secret-key".to_owned())
    );
}

#[tokio::test]
async fn a_provider_without_a_key_is_sent_none() {
    let server = ModelServer::start();
    server.push(Answer::text("Fine."));
    let mut settings = ProviderSettings::new("p", ProviderKind::Ollama);
    settings.api_base = Some(server.base(Wire::OpenAi));
    let models = Models::new([settings]).unwrap();
    models.call(&hello("qwen3:8b"), None).await.unwrap();
    assert_eq!(server.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn a_server_without_encryption_is_not_spoken_to_as_if_it_had_some() {
    let server = ModelServer::start();
    server.push(Answer::text("Fine."));
    let base = format!("https://{}/v1", server.address());
    let models = Models::new([settings(ProviderKind::OpenAi, base)]).unwrap();
    let error = models.call(&hello("m"), None).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Network, "{error}");
    assert!(
        server.requests().is_empty(),
        "nothing is said before the connection is encrypted"
    );
}

#[tokio::test]
async fn a_name_of_a_model_does_not_lead_to_another_address() {
    let server = ModelServer::start();
    server.respond_with(|_| Answer::text("Fine."));
    let models = models(ProviderKind::Gemini, &server, Wire::Gemini);
    for (model, path) in [
        (
            "models/gemini-2.5-pro",
            "/v1beta/models/gemini-2.5-pro:generateContent",
        ),
        (
            "../../x?key=1#y",
            "/v1beta/models/..%2F..%2Fx%3Fkey=1%23y:generateContent",
        ),
    ] {
        models.call(&hello(model), None).await.unwrap();
        assert_eq!(server.requests().last().unwrap().path, path);
    }
}

#[tokio::test]
async fn an_address_may_have_its_version_and_a_query() {
    let server = ModelServer::start();
    server.respond_with(|_| Answer::text("Fine."));
    let base = format!("http://{}", server.address());
    for (kind, base, path) in [
        (
            ProviderKind::Anthropic,
            format!("{base}/proxy/"),
            "/proxy/v1/messages",
        ),
        (ProviderKind::Anthropic, format!("{base}/v1"), "/v1/messages"),
        (
            ProviderKind::OpenAi,
            format!("{base}/d/gpt/?api-version=7"),
            "/d/gpt/chat/completions?api-version=7",
        ),
    ] {
        let models = Models::new([settings(kind, base)]).unwrap();
        models.call(&hello("m"), None).await.unwrap();
        assert_eq!(server.requests().last().unwrap().path, path);
    }
}

#[tokio::test]
async fn tokens_of_the_cache_are_counted_once() {
    let usage = Usage {
        input: 1_000,
        output: 51,
        cached: 700,
        cache_write: 200,
    };
    for (kind, wire, model) in WIRES {
        for streamed in [false, true] {
            let server = ModelServer::start();
            server.push(Answer::text("Fine.").usage(usage));
            server.push(Answer::text("Fine.").without_usage());
            let models = models(kind, &server, wire);
            let mut on_text = |_: &str| {};
            let request = hello(model);
            let reply = if streamed {
                models.call(&request, Some(&mut on_text)).await
            } else {
                models.call(&request, None).await
            };
            // Only Anthropic reports cache writes.
            let expected = TokenUsage {
                input: 1_000,
                output: 51,
                cached_input: 700,
                cache_write: if wire == Wire::Anthropic { 200 } else { 0 },
            };
            assert_eq!(
                reply.unwrap().usage,
                Some(expected),
                "{wire:?}, streamed: {streamed}"
            );
            assert_eq!(models.call(&request, None).await.unwrap().usage, None, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn why_a_model_stops_is_reported_in_one_language() {
    use StopReason as Stop;
    let cases = [
        (Wire::Anthropic, "max_tokens", Stop::MaxTokens),
        (Wire::Anthropic, "stop_sequence", Stop::End),
        (Wire::Anthropic, "refusal", Stop::Refused),
        (Wire::Anthropic, "pause_turn", Stop::Other("pause_turn".into())),
        (Wire::OpenAi, "length", Stop::MaxTokens),
        (Wire::OpenAi, "content_filter", Stop::Refused),
        (Wire::OpenAi, "moon", Stop::Other("moon".into())),
        (Wire::OpenAiResponses, "max_output_tokens", Stop::MaxTokens),
        (Wire::OpenAiResponses, "content_filter", Stop::Refused),
        (Wire::OpenAiResponses, "moon", Stop::Other("moon".into())),
        (Wire::Gemini, "MAX_TOKENS", Stop::MaxTokens),
        (Wire::Gemini, "SAFETY", Stop::Refused),
        (Wire::Gemini, "LANGUAGE", Stop::Other("LANGUAGE".into())),
    ];
    for (wire, word, stop) in cases {
        let mut wires = WIRES.into_iter();
        let (kind, _, model) = wires.find(|(_, known, _)| *known == wire).unwrap();
        let server = ModelServer::start();
        server.push(Answer::text("Fine.").stopping(word));
        let reply = models(kind, &server, wire)
            .call(&hello(model), None)
            .await
            .unwrap();
        assert_eq!(reply.stop, stop, "{wire:?} {word}");
    }
}

#[tokio::test]
async fn a_call_that_was_cut_by_the_limit_is_malformed_and_says_so() {
    for streamed in [false, true] {
        let server = ModelServer::start();
        server.push(Answer::call("look", "{\"path\": \"src/").stopping("max_tokens"));
        let models = models(ProviderKind::Anthropic, &server, Wire::Anthropic);
        let reply = if streamed {
            models.call(&hello("m"), Some(&mut |_| {})).await.unwrap()
        } else {
            models.call(&hello("m"), None).await.unwrap()
        };
        assert_eq!(reply.stop, StopReason::MaxTokens);
        assert!(matches!(
            reply.tool_calls[0].arguments,
            Arguments::Malformed { .. }
        ));
    }
}

#[tokio::test]
async fn a_call_of_a_tool_that_gemini_cannot_read_is_asked_for_again() {
    let server = ModelServer::start();
    server.push(Answer::text("").stopping("MALFORMED_FUNCTION_CALL"));
    let models = models(ProviderKind::Gemini, &server, Wire::Gemini);
    let error = models.call(&hello("m"), None).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert_eq!(
        error.usage.map(|usage| usage.total()),
        Some(15),
        "the tokens were used all the same"
    );
}

#[tokio::test]
async fn a_blocked_request_of_gemini_is_refused() {
    let server = ModelServer::start();
    server.push(Answer::fault(Fault::Raw {
        status: 200,
        content_type: "application/json",
        body: r#"{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 4}}"#,
    }));
    let models = models(ProviderKind::Gemini, &server, Wire::Gemini);
    let reply = models.call(&hello("m"), None).await.unwrap();
    assert_eq!((reply.stop, reply.usage.unwrap().input), (StopReason::Refused, 4));
}

async fn streamed(
    kind: ProviderKind,
    content_type: &'static str,
    body: &'static str,
) -> (Result<ModelReply, ModelErrorKind>, Vec<String>) {
    let server = ModelServer::start();
    server.push(Answer::fault(Fault::Raw {
        status: 200,
        content_type,
        body,
    }));
    let models = models(kind, &server, Wire::OpenAi);
    let mut pieces = Vec::new();
    let mut on_text = |piece: &str| pieces.push(piece.to_owned());
    let reply = models.call(&hello("m"), Some(&mut on_text)).await;
    (reply.map_err(|error| error.kind), pieces)
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let body = r#"{"choices": [{"message": {"content": "All at once."}, "finish_reason": "stop"}]}"#;
    let (reply, pieces) = streamed(ProviderKind::OpenAiCompatible, "application/json", body).await;
    assert_eq!(reply.unwrap().text, "All at once.");
    assert_eq!(pieces, ["All at once."]);
}

#[tokio::test]
async fn who_may_leave_out_the_end_of_a_stream() {
    let body = "data: {\"choices\": [{\"delta\": {\"content\": \"Hi\"}, \"finish_reason\": \"stop\"}]}\n\n";
    let (reply, _) = streamed(ProviderKind::OpenAiCompatible, "text/event-stream", body).await;
    assert_eq!(reply.unwrap().text, "Hi");
    let (reply, pieces) = streamed(ProviderKind::OpenAi, "text/event-stream", body).await;
    assert_eq!(reply.unwrap_err(), ModelErrorKind::Malformed);
    assert_eq!(pieces, ["Hi"]);
}

#[tokio::test]
async fn calls_without_a_number_are_distinguished_by_their_names() {
    let body = concat!(
        "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"id\": \"a\", \"function\": {\"name\": \"look\", \"arguments\": {\"at\": 1}}}]}}]}\n\n",
        "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"id\": \"b\", \"function\": {\"name\": \"hear\", \"arguments\": \"{\"}}, {\"function\": {\"arguments\": \"}\"}}]}}]}\n\n",
        "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"index\": 18446744073709551615, \"function\": {\"name\": \"feel\"}}]}, \"finish_reason\": \"stop\"}]}\n\n",
    );
    let (reply, _) = streamed(ProviderKind::OpenAiCompatible, "text/event-stream", body).await;
    let reply = reply.unwrap();
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: Arguments::parse(arguments),
    };
    assert_eq!(reply.stop, StopReason::ToolCalls);
    assert_eq!(
        reply.tool_calls,
        [
            call("a", "look", "{\"at\": 1}"),
            call("b", "hear", "{}"),
            call("call_2", "feel", "")
        ]
    );
}
