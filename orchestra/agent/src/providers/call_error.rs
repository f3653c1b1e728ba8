//! Errors of a call, and their classification (rule Y2).

use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::model::{ModelErrorKind, TokenUsage};

/// Maximum accepted value of a provider's requested delay. The engine waits less.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// Maximum length of a provider's message in an error, in characters.
const MAX_MESSAGE_CHARS: usize = 500;

/// An error to which provider and model are not yet added.
#[derive(Debug)]
pub(super) struct CallError {
    pub(super) kind: ModelErrorKind,
    pub(super) text: String,
    pub(super) status: Option<u16>,
    pub(super) retry_after: Option<Duration>,
    pub(super) usage: Option<TokenUsage>,
    pub(super) source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl CallError {
    pub(super) fn new(kind: ModelErrorKind, text: impl Into<String>) -> CallError {
        CallError {
            kind,
            text: text.into(),
            status: None,
            retry_after: None,
            usage: None,
            source: None,
        }
    }

    /// Creates the error of an invalid answer.
    pub(super) fn malformed(text: impl Into<String>) -> CallError {
        CallError::new(ModelErrorKind::Malformed, text)
    }

    /// Adds the token usage of the failed call.
    pub(super) fn with_usage(mut self, usage: Option<TokenUsage>) -> CallError {
        self.usage = usage;
        self
    }
}

/// The details of a provider's error, from any of the formats.
#[derive(Debug, Default)]
struct ErrorDetails {
    /// The identifiers of the kind of error: type, code, status, reason.
    identifiers: Vec<String>,
    message: String,
    /// The status code in the body.
    status: Option<u16>,
    retry_after: Option<Duration>,
    /// The ids of exhausted Gemini quotas.
    quotas: Vec<String>,
}

/// Returns the error in a body or an event, if there is one.
pub(super) fn error_inside(body: &Value) -> Option<CallError> {
    let details = error_details(body)?;
    // The HTTP status of the answer was another one; the status in the body only classifies the error.
    let code = details.status.map(|code| format!(" (code {code})"));
    Some(error(details.status, &code.unwrap_or_default(), details))
}

/// Returns the error of an answer whose status is not 200.
pub(super) fn from_status(status: u16, retry_after: Option<Duration>, body: &[u8]) -> CallError {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let mut error = match parsed.as_ref().and_then(error_details) {
        Some(details) => error(Some(status), &format!(" (HTTP {status})"), details),
        // Without a message of the provider, the path is more likely wrong than the model.
        None if matches!(status, 404 | 405) => CallError::new(
            ModelErrorKind::Configuration,
            format!(
                "there is no such API (HTTP {status}): check `api_base` and the kind of the provider; it says {}",
                excerpt(body)
            ),
        ),
        None => {
            let kind = kind(Some(status), &ErrorDetails::default());
            CallError::new(kind, format!("HTTP {status}; it says {}", excerpt(body)))
        }
    };
    error.status = Some(status);
    error.retry_after = retry_after.or(error.retry_after);
    error
}

fn error(status: Option<u16>, code: &str, details: ErrorDetails) -> CallError {
    let kind = kind(status, &details);
    let what = match kind {
        ModelErrorKind::Authentication => "the key is not accepted",
        ModelErrorKind::Quota => "the account has no credit or quota left",
        ModelErrorKind::UnknownModel => "the provider does not have this model",
        ModelErrorKind::ContextTooLong => "the conversation is too long for the model",
        ModelErrorKind::RateLimited => "too many requests",
        ModelErrorKind::Unavailable => "the provider cannot answer now",
        ModelErrorKind::Timeout => "the provider took too long",
        _ => "the provider does not take the request",
    };
    let identifiers = details.identifiers.join(", ");
    let message = match (details.message.is_empty(), identifiers.is_empty()) {
        (true, true) => "it gives no reason".to_owned(),
        (true, false) => format!("it says \"{}\"", bounded(&identifiers)),
        (false, _) => format!("it says \"{}\"", bounded(&details.message)),
    };
    let mut error = CallError::new(kind, format!("{what}{code}; {message}"));
    error.retry_after = details.retry_after;
    error
}

/// Parses the details of an error in any of the formats: `{"error": {..}}`, `{"error": ".."}`, `[{"error": {..}}]`.
fn error_details(body: &Value) -> Option<ErrorDetails> {
    let body = body.as_array().and_then(|list| list.first()).unwrap_or(body);
    let error = body.get("error").filter(|error| !error.is_null())?;
    if let Some(text) = error.as_str() {
        return Some(ErrorDetails {
            message: text.to_owned(),
            ..ErrorDetails::default()
        });
    }
    let mut details = ErrorDetails {
        message: error
            .get("message")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        ..ErrorDetails::default()
    };
    for field in ["type", "code", "status"] {
        match error.get(field) {
            Some(Value::String(word)) => details.identifiers.push(word.clone()),
            Some(Value::Number(number)) => {
                details.status = number.as_u64().and_then(|number| u16::try_from(number).ok())
            }
            _ => {}
        }
    }
    for detail in error
        .get("details")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if let Some(reason) = detail.get("reason").and_then(Value::as_str) {
            details.identifiers.push(reason.to_owned());
        }
        if let Some(delay) = detail.get("retryDelay").and_then(Value::as_str) {
            details.retry_after = delay.strip_suffix('s').and_then(|text| count(text, 1.0));
        }
        for violation in detail
            .get("violations")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            details.quotas.extend(
                violation
                    .get("quotaId")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
        }
    }
    Some(details)
}

/// Classifies an error: first by the provider's identifiers, then by the status.
fn kind(status: Option<u16>, details: &ErrorDetails) -> ModelErrorKind {
    use ModelErrorKind as Kind;
    let is = |known: &[&str]| {
        let mut identifiers = details.identifiers.iter();
        identifiers.any(|identifier| known.contains(&identifier.as_str()))
    };
    let message = details.message.to_lowercase();
    let message_has = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    let no_credit = is(&[
        "insufficient_quota",
        "billing_error",
        "billing_hard_limit_reached",
        "billing_not_active",
    ]) || status == Some(402)
        || message_has(&["credit balance is too low"])
        || details.quotas.iter().any(|quota| quota.contains("PerDay"));
    if no_credit {
        return Kind::Quota;
    }
    // A request may also be too large for a rate limit, which the status 429 shows.
    let too_long = is(&[
        "context_length_exceeded",
        "request_too_large",
        "string_above_max_length",
    ]) || status == Some(413)
        || message_has(&[
            "prompt is too long",
            "maximum context length",
            "context length exceeded",
            "exceed context limit",
            "exceeds the context window",
            "exceeds the maximum number of tokens",
        ]);
    if too_long && status != Some(429) {
        return Kind::ContextTooLong;
    }
    if is(&[
        "authentication_error",
        "permission_error",
        "invalid_api_key",
        "API_KEY_INVALID",
    ]) || is(&["PERMISSION_DENIED", "UNAUTHENTICATED", "API_KEY_SERVICE_BLOCKED"])
    {
        return Kind::Authentication;
    }
    if is(&["model_not_found", "not_found_error", "NOT_FOUND"]) {
        return Kind::UnknownModel;
    }
    if is(&["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"]) {
        return Kind::RateLimited;
    }
    if is(&["timeout_error", "DEADLINE_EXCEEDED"]) {
        return Kind::Timeout;
    }
    if is(&[
        "overloaded_error",
        "api_error",
        "server_error",
        "engine_overloaded",
        "UNAVAILABLE",
        "INTERNAL",
    ]) {
        return Kind::Unavailable;
    }
    match status {
        Some(401 | 403) => Kind::Authentication,
        Some(404) => Kind::UnknownModel,
        Some(429) => Kind::RateLimited,
        Some(408 | 504) => Kind::Timeout,
        // Conflicts and early data are temporary.
        Some(409 | 425) => Kind::Unavailable,
        Some(400..=499) => Kind::BadRequest,
        None if is(&["invalid_request_error", "INVALID_ARGUMENT", "FAILED_PRECONDITION"]) => Kind::BadRequest,
        // An error inside an answer without further details: the request was accepted, so the provider failed.
        _ => Kind::Unavailable,
    }
}

/// Returns the delay that the provider's headers request before a retry, in milliseconds, seconds or as a date.
pub(super) fn retry_after<'h>(header: impl Fn(&str) -> Option<&'h str>, now: SystemTime) -> Option<Duration> {
    if let Some(delay) = header("retry-after-ms").and_then(|text| count(text, 1000.0)) {
        return Some(delay);
    }
    let text = header("retry-after")?.trim();
    if let Some(delay) = count(text, 1.0) {
        return Some(delay);
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default().min(MAX_RETRY_AFTER))
}

/// Parses a number of time units, `per_second` of which make a second. The result is capped. Returns `None` for an
/// invalid number.
fn count(text: &str, per_second: f64) -> Option<Duration> {
    let seconds = text.trim().parse::<f64>().ok()? / per_second;
    (seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(MAX_RETRY_AFTER.as_secs_f64())))
}

/// Returns the beginning of a body, quoted for people.
pub(super) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    if text.trim().is_empty() {
        "nothing".to_owned()
    } else {
        format!("\"{}\"", bounded(&text))
    }
}

/// Returns a text on one line, with a bounded length.
pub(super) fn bounded(text: &str) -> String {
    let mut line = String::new();
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    for (count, word) in words.filter(|word| !word.is_empty()).enumerate() {
        if count > 0 {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > 8 * MAX_MESSAGE_CHARS {
            break;
        }
    }
    match line.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((at, _)) => format!("{}..", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn by_status(status: u16, body: &Value) -> ModelErrorKind {
        from_status(status, None, body.to_string().as_bytes()).kind
    }

    /// Documented errors of the providers, with their expected classification.
    #[test]
    fn the_words_of_the_providers_are_understood() {
        use ModelErrorKind as Kind;
        let anthropic =
            |word: &str, text: &str| json!({"type": "error", "error": {"type": word, "message": text}});
        let open_ai = |word: &str, text: &str| json!({"error": {"message": text, "type": "invalid_request_error", "code": word}});
        let gemini = |code: u16, word: &str, text: &str| json!({"error": {"code": code, "message": text, "status": word}});
        let cases = [
            (
                401,
                anthropic("authentication_error", "invalid x-api-key"),
                Kind::Authentication,
            ),
            (403, anthropic("permission_error", "no"), Kind::Authentication),
            (402, anthropic("billing_error", "pay"), Kind::Quota),
            (
                400,
                anthropic(
                    "invalid_request_error",
                    "Your credit balance is too low to access",
                ),
                Kind::Quota,
            ),
            (
                400,
                anthropic("invalid_request_error", "max_tokens: must be positive"),
                Kind::BadRequest,
            ),
            (
                400,
                anthropic(
                    "invalid_request_error",
                    "prompt is too long: 250000 tokens > 200000",
                ),
                Kind::ContextTooLong,
            ),
            (
                413,
                anthropic("request_too_large", "Request exceeds the maximum size"),
                Kind::ContextTooLong,
            ),
            (
                404,
                anthropic("not_found_error", "model: claude-0"),
                Kind::UnknownModel,
            ),
            (429, anthropic("rate_limit_error", "slow"), Kind::RateLimited),
            (500, anthropic("api_error", "oops"), Kind::Unavailable),
            (504, anthropic("timeout_error", "long"), Kind::Timeout),
            (
                529,
                anthropic("overloaded_error", "Overloaded"),
                Kind::Unavailable,
            ),
            (
                401,
                open_ai("invalid_api_key", "Incorrect API key"),
                Kind::Authentication,
            ),
            (
                429,
                open_ai("insufficient_quota", "You exceeded your current quota"),
                Kind::Quota,
            ),
            (
                429,
                open_ai(
                    "rate_limit_exceeded",
                    "Request too large for gpt on tokens per min",
                ),
                Kind::RateLimited,
            ),
            (
                400,
                open_ai("context_length_exceeded", "too long"),
                Kind::ContextTooLong,
            ),
            (
                404,
                open_ai("model_not_found", "no such model"),
                Kind::UnknownModel,
            ),
            (
                400,
                open_ai("unsupported_parameter", "temperature"),
                Kind::BadRequest,
            ),
            (
                404,
                json!({"error": "model 'qwen9' not found"}),
                Kind::UnknownModel,
            ),
            (
                402,
                json!({"error": {"code": 402, "message": "Insufficient credits"}}),
                Kind::Quota,
            ),
            (
                502,
                json!({"error": {"code": 502, "message": "Provider returned error"}}),
                Kind::Unavailable,
            ),
            (
                408,
                json!({"error": {"code": 408, "message": "timed out"}}),
                Kind::Timeout,
            ),
            (503, gemini(503, "UNAVAILABLE", "overloaded"), Kind::Unavailable),
            (
                404,
                gemini(404, "NOT_FOUND", "models/x is not found"),
                Kind::UnknownModel,
            ),
            (403, gemini(403, "PERMISSION_DENIED", "no"), Kind::Authentication),
            (
                400,
                gemini(
                    400,
                    "INVALID_ARGUMENT",
                    "The input token count (9) exceeds the maximum number of tokens allowed (8).",
                ),
                Kind::ContextTooLong,
            ),
            (
                400,
                gemini(400, "INVALID_ARGUMENT", "bad schema"),
                Kind::BadRequest,
            ),
            (422, json!({"detail": "nonsense"}), Kind::BadRequest),
            (404, json!({"detail": "Not Found"}), Kind::Configuration),
            (409, json!({}), Kind::Unavailable),
            (418, json!(null), Kind::BadRequest),
        ];
        for (status, body, kind) in cases {
            assert_eq!(by_status(status, &body), kind, "{status} {body}");
        }
    }

    #[test]
    fn a_refused_key_of_gemini_is_no_bad_request() {
        let body = json!([{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT",
            "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}}]);
        assert_eq!(by_status(400, &body), ModelErrorKind::Authentication);
    }

    #[test]
    fn gemini_says_in_its_body_how_long_to_wait_and_which_quota_is_used_up() {
        let body = |quota: &str| {
            json!({"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED", "details": [
                {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36.5s"},
            ]}})
        };
        let minute = from_status(
            429,
            None,
            body("RequestsPerMinutePerProject").to_string().as_bytes(),
        );
        assert_eq!(minute.kind, ModelErrorKind::RateLimited);
        assert_eq!(minute.retry_after, Some(Duration::from_millis(36_500)));
        assert_eq!(
            by_status(429, &body("RequestsPerDayPerProject")),
            ModelErrorKind::Quota
        );
    }

    #[test]
    fn an_error_inside_an_answer_is_judged_by_its_own_status() {
        let inside = |body: Value| error_inside(&body).map(|error| error.kind);
        assert_eq!(
            inside(json!({"error": {"code": 429, "message": "x"}})),
            Some(ModelErrorKind::RateLimited)
        );
        assert_eq!(
            inside(json!({"error": {"message": "x"}})),
            Some(ModelErrorKind::Unavailable)
        );
        assert_eq!(
            inside(json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}})),
            Some(ModelErrorKind::Unavailable)
        );
        assert_eq!(
            inside(json!({"error": {"type": "invalid_request_error", "message": "x"}})),
            Some(ModelErrorKind::BadRequest)
        );
        assert_eq!(inside(json!({"error": null, "choices": []})), None);
    }

    #[test]
    fn a_wish_to_be_left_alone_is_read_and_capped() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let read = |name: &'static str, value: &'static str| {
            retry_after(|header| (header == name).then_some(value), now)
        };
        assert_eq!(read("retry-after", " 7 "), Some(Duration::from_secs(7)));
        assert_eq!(read("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(read("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(
            read("retry-after", "Fri, 15 Jan 2027 08:00:09 GMT"),
            Some(Duration::from_secs(9))
        );
        assert_eq!(
            read("retry-after", "Fri, 15 Jan 1999 08:00:09 GMT"),
            Some(Duration::ZERO)
        );
        for absurd in [
            "99999999999999999999999",
            "1e300",
            "inf",
            "Sat, 15 Jan 2050 08:00:00 GMT",
        ] {
            assert_eq!(read("retry-after", absurd), Some(MAX_RETRY_AFTER), "{absurd}");
        }
        for nonsense in ["-1", "NaN", "soon", "", "-inf"] {
            assert_eq!(read("retry-after", nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn words_of_a_provider_are_bounded_and_stand_on_one_line() {
        let page = format!(
            "<html>\n<h1>502\tBad\u{1b}[31m Gateway</h1>{}",
            "x ".repeat(10_000)
        );
        let excerpt = excerpt(page.as_bytes());
        assert!(
            excerpt.starts_with("\"<html> <h1>502 Bad [31m Gateway</h1>x x"),
            "{excerpt}"
        );
        assert!(excerpt.chars().count() <= MAX_MESSAGE_CHARS + 4);
        assert_eq!(super::excerpt(b" \n"), "nothing");
    }
}
