//! Entity tags: a writer names the state of a workflow that it has read, so that no change of somebody else is lost.

use axum::http::header::{ETAG, HeaderName, IF_MATCH, IF_NONE_MATCH, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use orchestra_stations::Workflow;
use serde::Serialize;

use crate::error::{ApiError, json_response, quoted_tag};

/// Returns the entity tag that a write requires, of exactly one `If-Match`.
pub(super) fn if_match(headers: &HeaderMap) -> Result<String, ApiError> {
    let mut values = headers.get_all(IF_MATCH).iter();
    let value = values
        .next()
        .map(|value| value.to_str().unwrap_or_default().trim());
    let help = "read the workflow, and send its `ETag` as `If-Match`";
    match (value, values.next()) {
        (None, _) | (Some("*"), None) => {
            let message = "a change of a workflow names the state that it was made for";
            Err(ApiError::new(StatusCode::PRECONDITION_REQUIRED, "if_match_required", message).help(help))
        }
        (Some(value), None) => unquoted(value)
            .map(str::to_owned)
            .ok_or_else(|| ApiError::malformed("`If-Match` is not one entity tag in quotes").help(help)),
        (Some(_), Some(_)) => Err(ApiError::malformed("`If-Match` is given twice").help(help)),
    }
}

fn unquoted(tag: &str) -> Option<&str> {
    let inner = tag.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.is_empty() && !inner.contains(['"', ',', ' '])).then_some(inner)
}

/// Returns whether the client has the present state of a workflow.
pub(super) fn is_known(headers: &HeaderMap, workflow: &Workflow) -> bool {
    let present = quoted_tag(&workflow.etag);
    let values = headers.get_all(IF_NONE_MATCH).iter();
    let tags = values.filter_map(|value| value.to_str().ok());
    tags.flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == present)
}

/// Returns a reply about a workflow, with its entity tag.
pub(super) fn tagged(status: StatusCode, workflow: &Workflow, body: &impl Serialize) -> Response {
    let mut response = json_response(status, body);
    insert(&mut response, ETAG, &quoted_tag(&workflow.etag));
    response
}

/// Returns the reply to a request that has created something at a path.
pub(super) fn created(path: &str, workflow: &Workflow, body: &impl Serialize) -> Response {
    let mut response = tagged(StatusCode::CREATED, workflow, body);
    insert(&mut response, LOCATION, path);
    response
}

/// Returns the reply to a client that has the present state.
pub(super) fn not_modified(workflow: &Workflow) -> Response {
    let tag = [(ETAG, quoted_tag(&workflow.etag))];
    (StatusCode::NOT_MODIFIED, tag).into_response()
}

fn insert(response: &mut Response, name: HeaderName, value: &str) {
    // Ids and tags consist of letters and digits.
    if let Ok(value) = value.parse() {
        response.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(values: &[&str]) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_MATCH, value.parse().expect("a value"));
        }
        if_match(&headers).map_err(|error| error.code().to_owned())
    }

    #[test]
    fn a_write_names_exactly_one_tag() {
        assert_eq!(required(&["\"a1\""]), Ok("a1".to_owned()));
        for values in [&[][..], &["*"]] {
            assert_eq!(
                required(values),
                Err("if_match_required".to_owned()),
                "{values:?}"
            );
        }
        for values in [
            &["a1"][..],
            &["W/\"a1\""],
            &["\"a1\", \"b2\""],
            &["\"\""],
            &["\"a1\"", "\"b2\""],
        ] {
            assert_eq!(required(values), Err("malformed".to_owned()), "{values:?}");
        }
    }
}
