//! Tests of answers that are bound to a schema (rule T8), and of fallback models (rule F14).

use crate::support;

use orchestra_agent::{
    KeySource, Message, Model, ModelError, ModelErrorKind, ModelReply, ModelRequest, Models, ProviderKind,
    ProviderSettings, StopReason,
};
use orchestra_engine::{Engine, EventKind, RunStatus};
use orchestra_model_server_tests::{Answer, ModelServer, Wire};
use serde_json::{Value, json};
use support::{Scripted, agents, builder, engine, pipeline, report, run};

/// A pipeline with one stage, whose answer has a score from 0 to 10.
const RATE: &str = r#"digraph { start -> rate -> exit; rate [prompt="Rate it.", backend=direct,
    output_schema="{\"type\": \"object\", \"properties\": {\"score\": {\"type\": \"integer\", \"maximum\": 10}},
        \"required\": [\"score\"], \"additionalProperties\": false}"] }"#;

fn last_message(request: &ModelRequest) -> &str {
    match request.messages.last().unwrap() {
        Message::User { text } => text,
        Message::Tools { results } => &results[0].content,
        Message::Assistant { .. } => panic!("the model answers itself"),
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_once_more() {
    let replies = ["Eleven!", r#"{"score": 9}"#].map(ModelReply::text);
    let model = Scripted::list(replies);
    let (result, _place) = run(&agents("", &[], model.clone()), RATE).await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.get("score"), Some(&json!(9)));
    let asked = model.asked();
    assert_eq!(
        asked[0].answer_schema.as_ref().unwrap()["required"],
        json!(["score"])
    );
    assert!(last_message(&asked[0]).contains("## Expected answer"));
    let correction = last_message(&asked[1]);
    assert!(
        correction.contains("the response holds no JSON code block"),
        "{correction}"
    );
    assert_eq!(asked[1].messages.len(), 3, "the model sees its answer");
}

#[tokio::test]
async fn an_answer_that_still_does_not_fit_fails_the_stage() {
    let replies = [r#"{"score": 11}"#, r#"{"score": 9, "mood": "good"}"#].map(ModelReply::text);
    let (result, _place) = run(&agents("", &[], Scripted::list(replies)), RATE).await;
    assert_eq!(
        result.failure.unwrap().to_string(),
        "stage `rate` failed: output_schema: the answer does not fit the schema of the stage: `/mood` is not a \
         property of the schema"
    );
    assert_eq!(result.context.get("score"), None);
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_asked_for_as_a_whole() {
    let mut cut = ModelReply::text(r#"{"score": "#);
    cut.stop = StopReason::MaxTokens;
    let model = Scripted::list([cut, ModelReply::text(r#"{"score": 9}"#)]);
    let (result, _place) = run(&agents("", &[], model.clone()), RATE).await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert!(last_message(&model.asked()[1]).contains("Give the whole answer again"));
}

#[tokio::test]
async fn declared_outputs_are_asked_for_once_more() {
    let text = r#"digraph { start -> rate -> exit; rate [prompt="Rate it.", backend=direct, outputs="score: int"] }"#;
    let replies = ["It is good.", "It is good.\n```json\n{\"score\": 9}\n```"].map(ModelReply::text);
    let model = Scripted::list(replies);
    let (result, _place) = run(&agents("", &[], model.clone()), text).await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.get("score"), Some(&json!(9)));
    // The model answers in its own words.
    assert_eq!(model.asked()[0].answer_schema, None);
    let replies = ["It is good.", "It is very good."].map(ModelReply::text);
    let (result, _place) = run(&agents("", &[], Scripted::list(replies)), text).await;
    let reason = result.failure.unwrap().to_string();
    assert!(reason.contains("output_parse: "), "{reason}");
}

#[tokio::test]
async fn an_agent_reports_values_that_fit_the_schema() {
    let text = RATE.replace("backend=direct", "backend=agent");
    let values = |score: u32| json!({"status": "success", "notes": "x", "context_updates": {"score": score}});
    let model = Scripted::list([report(values(11)), report(values(9))]);
    let (result, _place) = run(&agents("", &[], model.clone()), &text).await;
    assert!(result.is_success(), "{:?}", result.failure);
    let asked = model.asked();
    assert_eq!(asked[0].answer_schema, None, "only the report is bound");
    let tool = asked[0]
        .tools
        .iter()
        .find(|tool| tool.name == "report_outcome")
        .unwrap();
    let updates = &tool.parameters["properties"]["context_updates"];
    assert_eq!(updates["properties"]["score"]["maximum"], 10);
    assert!(last_message(&asked[1]).contains("`/score` must be at most 10, but is 11"));
    let model = Scripted::list([report(values(11)), report(values(12))]);
    let (result, _place) = run(&agents("", &[], model), &text).await;
    let reason = result.failure.unwrap().to_string();
    assert!(
        reason.contains("output_schema: ") && reason.contains("but is 12"),
        "{reason}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_program_corrects_its_answer_once() {
    let yaml = r#"
backends:
  coder:
    kind: cli
    command: |
      prompt=$(cat)
      echo x >> called
      case "$prompt" in
      *'cannot be used: `/score` must be at most 10, but is 11'*'change no files'*) echo '{"score": 9}' ;;
      *"Expected answer"*) echo '{"score": 11}' ;;
      esac
"#;
    let text = RATE.replace("backend=direct", "backend=coder");
    let (result, place) = run(&agents(yaml, &[], Scripted::list([])), &text).await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.get("score"), Some(&json!(9)));
    let called = std::fs::read_to_string(place.path().join("called")).unwrap();
    assert_eq!(called, "x\nx\n");
}

#[tokio::test]
async fn a_schema_that_was_not_read_fails_the_stage() {
    let text =
        r#"digraph { start -> rate -> exit; rate [prompt=x, backend=direct, output_schema="rating.json"] }"#;
    let (result, _place) = run(&agents("", &[], Scripted::list([])), text).await;
    let reason = result.failure.unwrap().to_string();
    assert!(
        reason.contains("output_schema: the schema file `rating.json` was not read"),
        "{reason}"
    );
}

/// Returns the body of a request with a schema.
async fn sent(kind: ProviderKind, wire: Wire, model: &str, schema: Value) -> Value {
    let server = ModelServer::start();
    server.push(Answer::text("{}"));
    let mut settings = ProviderSettings::new("p", kind);
    settings.api_base = Some(server.base(wire));
    settings.key = KeySource::Value("the-secret-key".into());
    let models = Models::new([settings]).unwrap();
    let mut request = ModelRequest::new("p", model).user("Rate it.");
    request.answer_schema = Some(schema);
    models.call(&request, None).await.unwrap();
    server.requests().remove(0).body
}

#[tokio::test]
async fn each_provider_gets_the_schema_in_its_form() {
    let schema = json!({
        "type": "object",
        "properties": {
            "score": {"type": "integer", "minimum": 0},
            "text": {"oneOf": [{"type": "string", "minLength": 2}, {"type": "null"}]},
        },
        "required": ["score", "text"],
        "additionalProperties": false,
    });
    let simple = |score: Value| {
        let mut simple = schema.clone();
        simple["properties"]["score"] = score;
        simple["properties"]["text"] = json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
        simple
    };
    let limited = simple(json!({"type": "integer", "minimum": 0}));
    let body = sent(ProviderKind::OpenAi, Wire::OpenAi, "gpt-4.1", schema.clone()).await;
    let format = json!({"name": "answer", "schema": limited, "strict": true});
    assert_eq!(
        body["response_format"],
        json!({"type": "json_schema", "json_schema": format})
    );

    let body = sent(
        ProviderKind::OpenAi,
        Wire::OpenAiResponses,
        "gpt-5.2",
        schema.clone(),
    )
    .await;
    let format = json!({"type": "json_schema", "name": "answer", "schema": limited, "strict": true});
    assert_eq!(body["text"]["format"], format);

    let body = sent(
        ProviderKind::Anthropic,
        Wire::Anthropic,
        "claude-sonnet-4-5",
        schema.clone(),
    )
    .await;
    let format = json!({"type": "json_schema", "schema": simple(json!({"type": "integer"}))});
    assert_eq!(body["output_config"], json!({"format": format}));

    let body = sent(
        ProviderKind::Gemini,
        Wire::Gemini,
        "gemini-2.5-pro",
        schema.clone(),
    )
    .await;
    let config = json!({"responseMimeType": "application/json", "responseJsonSchema": limited});
    assert_eq!(body["generationConfig"], config);

    let routed = sent(
        ProviderKind::OpenRouter,
        Wire::OpenAi,
        "openai/gpt-4o:floor",
        schema.clone(),
    )
    .await;
    assert_eq!(routed["response_format"]["type"], "json_schema");
    for (kind, wire, model) in [
        (ProviderKind::OpenAi, Wire::OpenAi, "gpt-3.5-turbo"),
        (ProviderKind::OpenAiCompatible, Wire::OpenAi, "large"),
        (ProviderKind::OpenRouter, Wire::OpenAi, "mistralai/large"),
        (
            ProviderKind::Anthropic,
            Wire::Anthropic,
            "claude-3-5-haiku-latest",
        ),
        (ProviderKind::Gemini, Wire::Gemini, "gemini-2.0-flash"),
    ] {
        let body = sent(kind, wire, model, schema.clone()).await;
        for option in ["response_format", "output_config", "generationConfig"] {
            assert_eq!(body.get(option), None, "{model}");
        }
    }
}

#[tokio::test]
async fn a_schema_that_a_provider_would_reject_is_not_bound_strictly() {
    let optional = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]});
    let body = sent(ProviderKind::OpenAi, Wire::OpenAi, "gpt-4.1", optional.clone()).await;
    let format = &body["response_format"]["json_schema"];
    assert_eq!((&format["strict"], &format["schema"]), (&json!(false), &optional));
    // Anthropic knows optional properties, but no others than those that are named.
    let body = sent(
        ProviderKind::Anthropic,
        Wire::Anthropic,
        "claude-opus-4-6",
        optional.clone(),
    )
    .await;
    let mut closed = optional.clone();
    closed["additionalProperties"] = false.into();
    assert_eq!(body["output_config"]["format"]["schema"], closed);
    for property in [
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"allOf": [{"type": "string"}]}),
        json!({"type": "array", "items": {"$ref": "#/properties/a"}}),
        json!({}),
    ] {
        let schema = json!({"type": "object", "properties": {"a": property}, "required": ["a"]});
        let body = sent(
            ProviderKind::Anthropic,
            Wire::Anthropic,
            "claude-opus-4-6",
            schema.clone(),
        )
        .await;
        assert_eq!(body.get("output_config"), None, "{schema}");
    }
}

/// A configuration with three models for an alias, one of another provider.
const CHAIN: &str = "providers:
  default: house
  house: {kind: ollama, max_tokens: 900, models: {smart: [first, second, {provider: other, model: small}]}}
  other: {kind: ollama, models: {small: third}}
";

const WORK: &str = "digraph { start -> work -> exit; work [prompt=x, backend=direct] }";

/// Runs a stage with a chain of models that fail as a function says. Returns the models that were asked, the reason of
/// the failure, and the warnings.
async fn chain(
    answer: impl Fn(&str) -> Result<ModelReply, ModelError> + Send + 'static,
) -> (Vec<String>, Option<String>, Vec<String>) {
    let model = Scripted::new(move |request| answer(&request.model));
    let files = support::files(&[("orchestra.yaml", CHAIN)]);
    let project = orchestra_config::Project::load("orchestra.yaml", &files);
    assert!(!project.report.has_errors(), "{:#?}", project.report.diagnostics);
    let agents = orchestra_agent::Agents::builder(project)
        .reader(files)
        .model(model.clone());
    let agents = agents.build().unwrap();
    let mut warnings = Vec::new();
    let engine = Engine::builder().backend(agents).build().unwrap();
    let run = engine.start(pipeline(WORK), ()).await.unwrap();
    let mut events = run.events();
    let result = run.wait().await.unwrap();
    while let Some(event) = events.recv().await {
        if let EventKind::StageWarning { code, message, .. } = &event.kind {
            assert_eq!(code, "model_fallback");
            warnings.push(message.clone());
        }
    }
    let asked = model.asked();
    let asked = asked
        .iter()
        .map(|request| format!("{}/{}", request.provider, request.model));
    let failure = result.failure.map(|failure| failure.to_string());
    (asked.collect(), failure, warnings)
}

fn error(kind: ModelErrorKind, model: &str) -> ModelError {
    ModelError::new(kind, format!("model `{model}`: broken"))
}

#[tokio::test]
async fn the_next_model_is_asked_if_one_cannot_answer() {
    for kind in [
        ModelErrorKind::MissingKey,
        ModelErrorKind::Authentication,
        ModelErrorKind::Quota,
        ModelErrorKind::UnknownModel,
    ] {
        let (asked, failure, warnings) = chain(move |model| match model {
            "third" => Ok(ModelReply::text("Done.")),
            model => Err(error(kind, model)),
        })
        .await;
        assert_eq!(
            (asked, failure),
            (
                vec!["house/first".into(), "house/second".into(), "other/third".into()],
                None
            )
        );
        let expected = [
            "model `first`: broken; the model `second` of `house` is asked instead",
            "model `second`: broken; the model `third` of `other` is asked instead",
        ];
        assert_eq!(warnings, expected, "{kind:?}");
    }
}

#[tokio::test]
async fn the_next_model_is_asked_if_one_declines() {
    let (asked, failure, warnings) = chain(|model| {
        let mut reply = ModelReply::text("Done.");
        if model == "first" {
            reply.stop = StopReason::Refused;
        }
        Ok(reply)
    })
    .await;
    assert_eq!((asked.len(), failure), (2, None));
    assert!(
        warnings[0].contains("model `first`: the model declined to answer"),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn a_mistake_of_the_request_is_no_reason_to_ask_another_model() {
    for kind in [
        ModelErrorKind::BadRequest,
        ModelErrorKind::ContextTooLong,
        ModelErrorKind::Configuration,
        ModelErrorKind::Redirected,
    ] {
        let (asked, failure, warnings) = chain(move |model| Err(error(kind, model))).await;
        assert_eq!((asked.len(), warnings.len()), (1, 0), "{kind:?}");
        assert_eq!(failure.unwrap(), "stage `work` failed: model `first`: broken");
    }
}

#[tokio::test]
async fn all_failures_are_named_if_no_model_answers() {
    let (asked, failure, _) = chain(|model| match model {
        "first" => Err(error(ModelErrorKind::Authentication, model)),
        "second" => Err(error(ModelErrorKind::UnknownModel, model)),
        _ => {
            let mut reply = ModelReply::text("");
            reply.stop = StopReason::Refused;
            Ok(reply)
        }
    })
    .await;
    assert_eq!(asked.len(), 3);
    assert_eq!(
        failure.unwrap(),
        "stage `work` failed: no model answered: model `first`: broken; model `second`: broken; the model declined \
         to answer"
    );
}

#[tokio::test]
async fn an_overloaded_model_is_asked_five_times_before_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let model = Scripted::new(|request| match request.model.as_str() {
        "owl-7b" => Err(error(ModelErrorKind::Unavailable, "owl-7b").retry_after(std::time::Duration::ZERO)),
        _ => Ok(ModelReply::text("Done.")),
    });
    // Only an alias has fallbacks.
    let yaml = "pipelines: {named: {model: owl-7b}}\n";
    let agents = builder(yaml, &[], model.clone()).build().unwrap();
    let named = pipeline(&WORK.replace("digraph", "digraph named"));
    assert!(agents.resolve(&named).stage("work").unwrap().fallbacks.is_empty());
    let engine = engine(&agents, dir.path()).build().unwrap();
    let result = engine.start(named, ()).await.unwrap().wait().await.unwrap();
    assert_eq!((result.status, model.asked().len()), (RunStatus::Fail, 5));

    let (asked, failure, _) = chain(|model| match model {
        "first" => Err(error(ModelErrorKind::Unavailable, model).retry_after(std::time::Duration::ZERO)),
        _ => Ok(ModelReply::text("Done.")),
    })
    .await;
    assert_eq!(
        (asked.len(), asked[5].as_str(), failure),
        (6, "house/second", None)
    );
}
