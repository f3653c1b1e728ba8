//! The checks that every request passes before a handler sees it.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::access::Access;
use crate::app::App;
use crate::connections::Stranger;
use crate::error::ApiError;
use crate::webhook::HOOKS;

/// The policy of the page: nothing but its own files, and no text ever becomes markup.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// The policy of every other reply, in case a browser shows it.
const DATA_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const X_ORCHESTRA: HeaderName = HeaderName::from_static("x-orchestra");

/// The paths that need no token: the page without any data, the health, and the exchange of the token itself.
pub(crate) const OPEN_API: [&str; 2] = ["/api/v1/health", "/api/v1/session"];
const PAGE: &str = "/ui/";

/// Checks host, origin, token and kind of a request, and adds the headers that every reply has.
pub(crate) async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = match check(&app, &request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers
        .entry(CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(DATA_POLICY));
    response
}

/// Adds the policy of the page to its files.
pub(crate) async fn protect_page(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let policy = HeaderValue::from_static(PAGE_POLICY);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    response
}

fn check(app: &App, request: &Request) -> Result<(), ApiError> {
    let access = &app.access;
    let headers = request.headers();
    if !access.hosts.allow_host(headers) || !access.hosts.allow_authority(request.uri()) {
        let message = "the request names a host that is not this server";
        return Err(
            ApiError::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", message)
                .help("open the address that the server printed"),
        );
    }
    let path = request.uri().path();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    // Following a link from another site to the page itself shows nothing yet.
    let is_page = reads && (path == "/" || path == "/ui" || path.starts_with(PAGE));
    if !is_page && !is_own(access.hosts.allow_origin(headers), headers) {
        let message = "the request comes from a page of another site";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "cross_site", message));
    }
    if app.is_stopping() && !is_page {
        return Err(ApiError::stopping());
    }
    if is_page || (OPEN_API.contains(&path) && !(path.ends_with("/session") && reads)) {
        return check_open_write(headers, reads);
    }
    // A delivery proves itself by the secret of its webhook, which the route knows.
    if path.starts_with(HOOKS) && *request.method() == Method::POST {
        if access.read_only {
            return Err(ApiError::read_only());
        }
        return check_write(headers, false);
    }
    let key = authenticate(app, headers)?;
    if matches!(key, Key::Session(_)) {
        check_session_key(access, headers)?;
    }
    if let Some(stranger) = request.extensions().get::<Stranger>() {
        stranger.leave();
    }
    if reads {
        return Ok(());
    }
    if access.read_only {
        return Err(ApiError::read_only());
    }
    check_write(headers, false)?;
    if !access.count_write(key.bytes()) {
        return Err(ApiError::too_many("too many writes in a second", 1));
    }
    Ok(())
}

/// Who sent a request.
enum Key {
    Token,
    Session([u8; 32]),
}

impl Key {
    fn bytes(&self) -> &[u8] {
        match self {
            Key::Token => &[],
            Key::Session(key) => key,
        }
    }
}

fn authenticate(app: &App, headers: &HeaderMap) -> Result<Key, ApiError> {
    let access = &app.access;
    let found = match headers.get(AUTHORIZATION).and_then(bearer) {
        Some(token) => access.token.is(token).then_some(Key::Token),
        None => access.sessions.find(headers, Instant::now()).map(Key::Session),
    };
    if let Some(key) = found {
        return Ok(key);
    }
    if !access.count_failure() {
        return Err(ApiError::too_many("too many requests without a valid token", 1));
    }
    let message = "the request has no valid token, or its session has expired";
    Err(ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
        .help("open the link that the server printed, or send `Authorization: Bearer TOKEN`"))
}

/// Returns the token of an `Authorization` header. The name of the scheme may have any case (RFC 9110).
pub(crate) fn bearer(header: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = header.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// Returns whether a request comes from a page of this server, or from no page. Another port of the same machine is
/// the same site for cookies, so the cookie alone says nothing.
fn is_own(origin_allowed: bool, headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    origin_allowed && sites.all(|site| site == "same-origin" || site == "none")
}

fn check_open_write(headers: &HeaderMap, reads: bool) -> Result<(), ApiError> {
    match reads {
        true => Ok(()),
        false => check_write(headers, true),
    }
}

/// A session needs the key that only the page has: other ports of the machine receive the cookie.
fn check_session_key(access: &Access, headers: &HeaderMap) -> Result<(), ApiError> {
    let key = headers.get(X_ORCHESTRA).map(HeaderValue::as_bytes);
    if key.is_some_and(|key| access.sessions.is_key(headers, key)) {
        return Ok(());
    }
    let message = "a request with a session needs its key in the header `X-Orchestra`";
    Err(ApiError::new(StatusCode::FORBIDDEN, "cross_site", message)
        .help("open the link that the server printed: `POST /api/v1/session` returns the key"))
}

/// A write needs what a form of another site cannot send.
fn check_write(headers: &HeaderMap, by_page: bool) -> Result<(), ApiError> {
    if by_page && !headers.contains_key(X_ORCHESTRA) {
        let message = "a write with a session needs the header `X-Orchestra`";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "cross_site", message));
    }
    if headers.contains_key(CONTENT_ENCODING) {
        let message = "the server reads no compressed bodies";
        let error = ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            message,
        );
        return Err(error.help("send the body as it is, without `Content-Encoding`"));
    }
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let Some(kind) = kind else { return Ok(()) };
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    let allowed = ["application/json", "text/vnd.graphviz"];
    if !allowed
        .iter()
        .any(|one| kind.trim_ascii().eq_ignore_ascii_case(one.as_bytes()))
    {
        let message = "the body of a request is `application/json`, or `text/vnd.graphviz` for a pipeline";
        let error = ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            message,
        );
        return Err(error.help(
            "set the content type of the request, or of the webhook of a forge, to `application/json`",
        ));
    }
    Ok(())
}
