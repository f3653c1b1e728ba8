//! The conversion of requests for each model: efforts, limits, and the choice of the provider.

use orchestra_agent::{
    Arguments, DEFAULT_MAX_OUTPUT_TOKENS, KeySource, Message, Model, ModelRequest, Models, ProviderKind,
    ProviderSettings, ReasoningEffort, ToolCall, ToolSpec,
};
use orchestra_model_server_tests::{Answer, ModelServer, Wire};
use serde_json::{Value, json};

fn hello(model: &str) -> ModelRequest {
    ModelRequest::new("p", model).user("Hello.")
}

fn tool() -> Vec<ToolSpec> {
    vec![ToolSpec {
        name: "look".into(),
        description: "Looks.".into(),
        parameters: json!({"type": "object"}),
    }]
}

/// Returns the body of the request that is sent to a model.
async fn sent(kind: ProviderKind, wire: Wire, request: &ModelRequest) -> Value {
    let server = ModelServer::start();
    server.push(Answer::text("Fine."));
    let mut settings = ProviderSettings::new("p", kind);
    settings.api_base = Some(server.base(wire));
    settings.key = KeySource::Value("the-secret-key".into());
    let models = Models::new([settings]).unwrap();
    models.call(request, None).await.unwrap();
    server.requests().remove(0).body
}

#[tokio::test]
async fn efforts_are_said_to_models_that_know_them() {
    let request = |model: &str, tools: bool| {
        let mut request = hello(model);
        request.reasoning_effort = Some(ReasoningEffort::Medium);
        request.temperature = Some(0.5);
        if tools {
            request.tools = tool();
        }
        request
    };
    let cases = [
        (
            ProviderKind::Anthropic,
            Wire::Anthropic,
            "claude-3-5-haiku-latest",
            false,
            json!({"temperature": 0.5}),
        ),
        (
            ProviderKind::Anthropic,
            Wire::Anthropic,
            "claude-haiku-4-5",
            false,
            json!({"thinking": {"type": "enabled", "budget_tokens": 8192}}),
        ),
        (
            ProviderKind::Anthropic,
            Wire::Anthropic,
            "claude-opus-4-8",
            false,
            json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}}),
        ),
        (
            ProviderKind::OpenAi,
            Wire::OpenAi,
            "gpt-4.1",
            true,
            json!({"temperature": 0.5}),
        ),
        (
            ProviderKind::OpenAi,
            Wire::OpenAi,
            "o4-mini",
            true,
            json!({"reasoning_effort": "medium"}),
        ),
        (
            ProviderKind::OpenAi,
            Wire::OpenAi,
            "gpt-5.4",
            false,
            json!({"reasoning": {"effort": "medium"}}),
        ),
        (
            ProviderKind::OpenAi,
            Wire::OpenAi,
            "gpt-5.4",
            true,
            json!({"reasoning": {"effort": "medium"}}),
        ),
        (
            ProviderKind::Ollama,
            Wire::OpenAi,
            "llama3:8b",
            true,
            json!({"temperature": 0.5}),
        ),
        (
            ProviderKind::OpenRouter,
            Wire::OpenAi,
            "meta/llama-3",
            true,
            json!({"reasoning": {"effort": "medium"}, "temperature": 0.5}),
        ),
    ];
    let about = [
        "thinking",
        "output_config",
        "temperature",
        "reasoning_effort",
        "reasoning",
    ];
    for (kind, wire, model, tools, expected) in cases {
        let body = sent(kind, wire, &request(model, tools)).await;
        let said = body
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| about.contains(&name.as_str()));
        let said: Value = said
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into();
        assert_eq!(said, expected, "{model}, tools: {tools}");
    }
}

#[tokio::test]
async fn thinking_does_not_begin_in_the_middle_of_a_turn() {
    let mut request = hello("claude-haiku-4-5");
    request.reasoning_effort = Some(ReasoningEffort::Low);
    request.tools = tool();
    request.messages.push(Message::Assistant {
        text: String::new(),
        tool_calls: vec![ToolCall {
            id: "1".into(),
            name: "look".into(),
            arguments: Arguments::parse("{}"),
        }],
        opaque: None,
    });
    request.messages.push(Message::Tools { results: Vec::new() });
    let body = sent(ProviderKind::Anthropic, Wire::Anthropic, &request).await;
    assert_eq!(body.get("thinking"), None);
    request.messages.push(Message::user("And now?"));
    let body = sent(ProviderKind::Anthropic, Wire::Anthropic, &request).await;
    assert_eq!(body["thinking"]["budget_tokens"], 2_048);
}

#[test]
fn the_most_that_an_answer_may_have_is_known_before_the_call() {
    let mut house = ProviderSettings::new("p", ProviderKind::OpenAi);
    house.max_output_tokens = Some(500);
    let claude = ProviderSettings::new("c", ProviderKind::Anthropic);
    let models = Models::new([house, claude, ProviderSettings::new("g", ProviderKind::Gemini)]).unwrap();
    let limit = |provider: &str, most: Option<u32>, effort: Option<ReasoningEffort>| {
        let mut request = ModelRequest::new(provider, "claude-sonnet-4-5");
        request.max_output_tokens = most;
        request.reasoning_effort = effort;
        models.output_limit(&request).unwrap()
    };
    assert_eq!(limit("p", None, None), Some(500));
    assert_eq!(limit("p", Some(70), None), Some(70));
    assert_eq!(limit("g", None, None), None);
    assert_eq!(limit("c", None, None), Some(DEFAULT_MAX_OUTPUT_TOKENS));
    assert_eq!(
        limit("c", None, Some(ReasoningEffort::High)),
        Some(DEFAULT_MAX_OUTPUT_TOKENS + 16_384)
    );
    assert!(models.output_limit(&ModelRequest::new("x", "m")).is_err());
}

#[test]
fn a_model_tells_who_has_it() {
    use ProviderKind as Kind;
    let cases = [
        ("claude-sonnet-4-5", Some(Kind::Anthropic)),
        ("Claude-Opus-5", Some(Kind::Anthropic)),
        ("gpt-4o-mini", Some(Kind::OpenAi)),
        ("chatgpt-4o-latest", Some(Kind::OpenAi)),
        ("o3", Some(Kind::OpenAi)),
        ("o4-mini-2025-04-16", Some(Kind::OpenAi)),
        ("ft:gpt-4o-mini:house::1", Some(Kind::OpenAi)),
        ("gemini-2.5-pro", Some(Kind::Gemini)),
        ("anthropic/claude-sonnet-4.5", Some(Kind::OpenRouter)),
        ("llama3:8b", Some(Kind::Ollama)),
        ("gpt-oss-120b", None),
        ("opus", None),
        ("o", None),
        ("", None),
    ];
    for (model, kind) in cases {
        assert_eq!(ProviderKind::of_model(model), kind, "{model}");
    }
}
