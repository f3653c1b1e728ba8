//! What requests contain: query parameters and JSON bodies.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use orchestra_engine::RunId;
use orchestra_graph::did_you_mean;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{ApiError, json_response};
use crate::openapi::described;

/// Maximum size of a body, in bytes.
pub(crate) const SMALL: usize = 64 << 10;

/// Maximum size of a body with a pipeline, in bytes.
pub(crate) const PIPELINE: usize = 1 << 20;

/// Maximum time for a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The query parameters of a request.
#[derive(Debug)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    /// Parses the parameters. Refuses those that the route does not know.
    pub(crate) fn of(uri: &Uri, known: &[&str]) -> Result<Query, ApiError> {
        let mut values = BTreeMap::new();
        for (key, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            if !known.contains(&&*key) {
                let error = ApiError::malformed(format!("unknown query parameter `{}`", key.escape_debug()));
                return Err(match did_you_mean(&key, known.iter().copied()) {
                    Some(near) => error.help(format!("did you mean `{near}`?")),
                    None if known.is_empty() => error.help("there are no parameters here"),
                    None => error.help(format!("the parameters are {}", known.join(", "))),
                });
            }
            if values.insert(key.to_string(), value.into_owned()).is_some() {
                return Err(ApiError::malformed(format!(
                    "the parameter `{key}` is given twice"
                )));
            }
        }
        Ok(Query(values))
    }

    /// Returns a parameter; `None` if it is missing or empty.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0
            .get(key)
            .map(String::as_str)
            .filter(|text| !text.is_empty())
    }

    /// Returns a number.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, ApiError> {
        let parse = |text: &str| {
            text.parse()
                .map_err(|_| ApiError::malformed(format!("`{key}={}` is not a number", text.escape_debug())))
        };
        self.text(key).map(parse).transpose()
    }
}

/// Reads a body of limited size.
pub(crate) async fn body(body: Body, most: usize) -> Result<Vec<u8>, ApiError> {
    let collected = Limited::new(body, most).collect();
    let collected = tokio::time::timeout(BODY_TIMEOUT, collected).await.map_err(|_| {
        let message = "the body of the request did not arrive in time";
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message)
    })?;
    match collected {
        Ok(collected) => Ok(collected.to_bytes().into()),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("the body of the request has more than {most} bytes");
            Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message))
        }
        Err(error) => Err(ApiError::malformed(format!("the body cannot be read: {error}"))),
    }
}

/// Reads a JSON object. No body is an empty object.
pub(crate) async fn json<T: DeserializeOwned>(
    headers: &HeaderMap,
    content: Body,
    most: usize,
) -> Result<T, ApiError> {
    let bytes = body(content, most).await?;
    if !bytes.is_empty() && !is_json(headers) {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "the body of the request is not declared as `application/json`",
        ));
    }
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    // A list would be taken for the fields in the order of their declaration.
    if text.trim_ascii_start().first() == Some(&b'[') {
        return Err(ApiError::malformed(
            "the body is wrong: it is a list, not an object",
        ));
    }
    serde_json::from_slice(text).map_err(|error| ApiError::malformed(format!("the body is wrong: {error}")))
}

/// The run that a request has started or controlled.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RunName {
    /// The id of the run.
    pub(crate) id: RunId,
}

described!(Reply: RunName);

/// Returns the reply to a request that has started a run.
pub(crate) fn created(id: RunId) -> Response {
    let location = [(header::LOCATION, format!("/pipelines/{id}"))];
    (location, json_response(StatusCode::CREATED, &RunName { id })).into_response()
}

/// Returns the reply to a request whose effect on a run may come later.
pub(crate) fn accepted(id: RunId) -> Response {
    json_response(StatusCode::ACCEPTED, &RunName { id })
}

/// Returns whether a body is declared as JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        let of = |text: &str| Query::of(&text.parse().expect("a URI"), &["limit", "name"]);
        let query = of("/x?limit=5&name=a%20b").expect("sound");
        assert_eq!(
            (query.number("limit").ok(), query.text("name")),
            (Some(Some(5)), Some("a b"))
        );
        for wrong in ["/x?limits=5", "/x?name=a&name=b", "/x?x"] {
            assert_eq!(of(wrong).expect_err("refused").code(), "malformed", "{wrong}");
        }
        assert!(of("/x?limit=five").expect("parsed").number("limit").is_err());
    }
}
