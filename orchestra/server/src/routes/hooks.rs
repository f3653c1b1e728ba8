//! Deliveries of other programs, which start runs.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{AUTHORIZATION, HeaderName};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use orchestra_engine::StartSettings;
use orchestra_graph::Contract;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::once::{Key, KeyedStart, key_in, start_keyed};
use super::request::{PIPELINE, Query, RunName, body, is_json};
use crate::app::App;
use crate::connections::Stranger;
use crate::error::{ApiError, json_response};
use crate::guard::bearer;
use crate::openapi::described;
use crate::webhook::Webhook;

/// The token that GitLab sends.
const X_GITLAB_TOKEN: HeaderName = HeaderName::from_static("x-gitlab-token");
/// The signature that GitHub, Gitea and Forgejo send.
const X_HUB_SIGNATURE: HeaderName = HeaderName::from_static("x-hub-signature-256");
/// The headers that name an event.
const EVENTS: [HeaderName; 2] = [
    HeaderName::from_static("x-github-event"),
    HeaderName::from_static("x-gitlab-event"),
];
/// The headers that identify a delivery.
const DELIVERIES: [HeaderName; 2] = [
    HeaderName::from_static("x-github-delivery"),
    HeaderName::from_static("idempotency-key"),
];

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(deliver))
}

described!(Request: Payload);
described!(Reply: Ignored);

/// The payload of a delivery.
#[derive(Deserialize, JsonSchema)]
struct Payload {
    /// What the sender tells of the event. The webhook names the places whose values become inputs.
    #[serde(flatten)]
    #[expect(
        dead_code,
        reason = "describes a body that is read as bytes, which the signature covers"
    )]
    fields: Map<String, Value>,
}

/// A delivery that starts no run.
#[derive(Serialize, JsonSchema)]
struct Ignored {
    /// The reason.
    ignored: String,
}

/// Starts a run of the pipeline of a webhook.
#[utoipa::path(
    post, path = "/hooks/{webhook}", operation_id = "deliver", tag = "webhooks", request_body = Payload,
    params(
        ("X-GitHub-Delivery" = Option<String>, Header, description =
            "Identifies the delivery, so that a repeated one starts no second run."),
        ("Idempotency-Key" = Option<String>, Header, description =
            "Identifies a delivery without `X-GitHub-Delivery`."),
        ("X-GitHub-Event" = Option<String>, Header, description = "The event."),
        ("X-Gitlab-Event" = Option<String>, Header, description = "The event of a delivery without `X-GitHub-Event`."),
    ),
    responses(
        (status = 200, description = "An earlier delivery with this id has started the run.", body = RunName),
        (status = 201, description = "The run has started.", body = RunName, headers(("Location" = String))),
        (status = 202, description = "The webhook ignores the delivery.", body = Ignored),
        (status = 401, description = "`unauthorized`: the delivery has neither the token nor a signature of the webhook."),
        (status = 404, description = "`unknown_webhook`"),
        (status = 409, description = "The run cannot be started; the code tells why."),
        (status = 422, description =
            "`inputs`: the payload lacks an input or has another type. `invalid_pipeline`, `key_reused`, or another reason."),
    ),
)]
pub(super) async fn deliver(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    stranger: Option<Extension<Stranger>>,
    uri: Uri,
    headers: HeaderMap,
    content: Body,
) -> Result<Response, ApiError> {
    Query::of(&uri, &[])?;
    let Some(webhook) = app.webhooks.get(&name).cloned() else {
        count_failure(&app)?;
        return Err(ApiError::not_found("webhook", &name));
    };
    let bytes = authentic_body(&app, &webhook, &headers, content).await?;
    if let Some(Extension(stranger)) = stranger {
        stranger.leave();
    }
    if !app.access.count_write(webhook.path().as_bytes()) {
        return Err(ApiError::too_many("too many deliveries in a second", 1));
    }
    let event = first_of(&headers, &EVENTS);
    if let Some(ignored) = webhook.ignored_event(event) {
        return Ok(json_response(StatusCode::ACCEPTED, &Ignored { ignored }));
    }
    let payload = parse(&headers, &bytes)?;
    if let Some(ignored) = webhook.ignored_payload(&payload) {
        return Ok(json_response(StatusCode::ACCEPTED, &Ignored { ignored }));
    }
    let run = delivery_id(&headers)?.map(|key| key.run_id(&format!("hook-{name}")));
    let pipeline = webhook.pipeline().to_owned();
    let (entry, engine) = app.startable(pipeline, None).await?;
    let contract = Contract::from_pipeline(entry.pipeline());
    let inputs = webhook.inputs(&payload, &contract);
    let params = inputs.map_err(|why| {
        ApiError::unprocessable("inputs", why).help(format!(
            "correct where the webhook `{name}` reads its inputs, or the types that `{}` declares",
            webhook.pipeline()
        ))
    })?;
    let settings = StartSettings {
        params,
        limits: webhook.run_limits(),
        ..StartSettings::default()
    };
    // A pipeline that was changed since its first delivery is not run once more.
    let start = KeyedStart {
        run,
        settings,
        simulated: false,
        any_configuration: true,
    };
    let started = start_keyed(&app, entry, engine, start).await?;
    Ok(started.reply("/pipelines"))
}

/// Reads the body of a delivery that proves who has sent it: by the secret as a token, or by a signature of the body.
async fn authentic_body(
    app: &App,
    webhook: &Webhook,
    headers: &HeaderMap,
    content: Body,
) -> Result<Vec<u8>, ApiError> {
    let token = match headers.get(AUTHORIZATION) {
        Some(header) => bearer(header),
        None => headers.get(X_GITLAB_TOKEN).map(|header| header.as_bytes()),
    };
    let signature = headers.get(X_HUB_SIGNATURE).map(|header| header.as_bytes());
    if let Some(token) = token {
        if !webhook.is_secret(token) {
            return Err(unauthorized(app));
        }
        return body(content, PIPELINE).await;
    }
    // Nothing is read from those who cannot know the secret.
    let Some(signature) = signature else {
        return Err(unauthorized(app));
    };
    let bytes = body(content, PIPELINE).await?;
    if webhook.is_signature(signature, &bytes) {
        Ok(bytes)
    } else {
        Err(unauthorized(app))
    }
}

fn count_failure(app: &App) -> Result<(), ApiError> {
    if app.access.count_failure() {
        Ok(())
    } else {
        Err(ApiError::too_many("too many requests without a valid token", 1))
    }
}

fn unauthorized(app: &App) -> ApiError {
    if let Err(error) = count_failure(app) {
        return error;
    }
    let message = "the delivery has neither the token of the webhook nor a signature that fits its body";
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message).help(
        "give the sender the secret of the webhook; programs send it as `Authorization: Bearer SECRET`, or sign the body \
         in `X-Hub-Signature-256`",
    )
}

fn parse(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, ApiError> {
    if bytes.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    if !is_json(headers) {
        let message = "the payload is not declared as `application/json`";
        let error = ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            message,
        );
        return Err(error.help("choose `application/json` as the content type of the webhook"));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| ApiError::malformed(format!("the payload is not JSON: {error}")))
}

/// Returns the value of the first of these headers that a delivery has.
fn first_of<'h>(headers: &'h HeaderMap, names: &[HeaderName]) -> Option<&'h str> {
    let value = names.iter().find_map(|name| headers.get(name))?;
    value.to_str().ok()
}

fn delivery_id(headers: &HeaderMap) -> Result<Option<Key>, ApiError> {
    for name in &DELIVERIES {
        if let Some(key) = key_in(headers, name)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}
