//! What a coding agent did, and whether it did its work.

use orchestra_engine::BackendError;

use crate::coding_agents::event::{AgentEvent, AgentUsage, ToolEnd, ToolEnding, ToolKind, UsageScope, says};
use crate::model::TokenUsage;
use crate::tools::line_start;

/// Maximum length of a reason in an error message, in bytes.
const MAX_REASON_BYTES: usize = 1_500;
/// Maximum number of lines for people that an error message contains.
const MAX_LINES: usize = 5;
/// Maximum length of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Maximum number of denied calls that are remembered.
const MAX_DENIED: usize = 64;

/// What a coding agent did, as its events say.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    pub(crate) session: Option<String>,
    answer: String,
    /// Whether the answer became longer than it may be.
    is_too_long: bool,
    has_ended: bool,
    failure: Option<(String, Option<u16>)>,
    trouble: String,
    denied: Vec<ToolEnd>,
    usage: Option<(TokenUsage, Option<f64>, UsageScope)>,
    /// `true` if the model answered or called a tool.
    pub(crate) is_active: bool,
    /// The last lines for people.
    lines: Vec<String>,
}

impl Transcript {
    /// Applies an event.
    pub(crate) fn apply(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::Session(session) => {
                if is_session_id(&session) {
                    self.session = Some(session);
                }
            }
            AgentEvent::Working => {
                self.answer.clear();
                self.is_too_long = false;
                self.has_ended = false;
                self.failure = None;
            }
            AgentEvent::Text(text) => {
                self.is_active |= !text.is_empty();
                self.answer = text;
            }
            AgentEvent::Piece(text) => {
                self.is_active |= !text.is_empty();
                self.is_too_long |= self.answer.len() + text.len() > MAX_ANSWER_BYTES;
                if !self.is_too_long {
                    self.answer.push_str(&text);
                }
            }
            AgentEvent::Tool(end) => self.tool(end),
            AgentEvent::DeniedTarget(target) => {
                if let Some(denied) = self.denied.iter_mut().rev().find(|call| call.target.is_none()) {
                    denied.target = Some(target);
                }
            }
            AgentEvent::Usage(usage) => self.count(usage),
            AgentEvent::Trouble(reason) => self.trouble = reason,
            AgentEvent::Failed { reason, status } => {
                let reason = if reason.is_empty() {
                    self.trouble.clone()
                } else {
                    reason
                };
                self.failure = Some((reason, status));
            }
            AgentEvent::Ended => self.has_ended = true,
        }
    }

    /// Adds a line for people, of which only the last ones are stored.
    pub(crate) fn complain(&mut self, line: String) {
        if line.trim().is_empty() {
            return;
        }
        if self.lines.len() == MAX_LINES {
            self.lines.remove(0);
        }
        self.lines.push(line);
    }

    fn tool(&mut self, end: ToolEnd) {
        self.is_active = true;
        match &end.result {
            ToolEnding::Denied(_) if end.kind != ToolKind::Reading && self.denied.len() < MAX_DENIED => {
                self.denied.push(end);
            }
            ToolEnding::Succeeded if end.kind != ToolKind::Reading => {
                self.denied.retain(|denied| !overcomes(&end, denied));
            }
            _ => {}
        }
    }

    fn count(&mut self, usage: AgentUsage) {
        let AgentUsage { tokens, cost, scope } = usage;
        self.is_active |= tokens.total() > 0;
        let before = match (scope, self.usage) {
            (UsageScope::Call, Some((before, paid, _))) => (before, paid),
            _ => (TokenUsage::default(), None),
        };
        let (known, paid) = before;
        let sum = TokenUsage {
            input: known.input.saturating_add(tokens.input),
            output: known.output.saturating_add(tokens.output),
            cached_input: known.cached_input.saturating_add(tokens.cached_input),
            cache_write: known.cache_write.saturating_add(tokens.cache_write),
        };
        let cost = match (paid, cost) {
            (None, cost) => cost,
            (paid, None) => paid,
            (Some(paid), Some(cost)) => Some(paid + cost),
        };
        self.usage = Some((sum, cost, scope));
    }

    /// Returns the tokens and the cost of this program, and the tokens of the whole session. `before` are the tokens of
    /// the session before the program started, which some agents count again.
    pub(crate) fn usage(&self, before: TokenUsage) -> Option<(TokenUsage, Option<f64>, TokenUsage)> {
        let (tokens, cost, scope) = self.usage?;
        let counts_again = tokens.input >= before.input && tokens.output >= before.output;
        if scope != UsageScope::Session || !counts_again {
            return Some((tokens, cost, tokens));
        }
        let own = TokenUsage {
            input: tokens.input - before.input,
            output: tokens.output - before.output,
            cached_input: tokens.cached_input.saturating_sub(before.cached_input),
            cache_write: tokens.cache_write.saturating_sub(before.cache_write),
        };
        Some((own, cost, tokens))
    }

    /// Returns whether the agent reported the end of its work.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns the failure that the agent reported.
    pub(crate) fn failure(&self, name: &str) -> Option<BackendError> {
        let (reason, status) = self.failure.as_ref()?;
        Some(failure(name, reason, *status))
    }

    /// Returns the failure of an agent that exited with an error and reported none.
    pub(crate) fn exit_failure(&self, name: &str, how: &str) -> BackendError {
        let said = match (self.trouble.as_str(), self.lines.is_empty()) {
            (_, false) => self.lines.join("\n"),
            (trouble, true) => trouble.to_owned(),
        };
        let (said, _) = line_start(&said, MAX_REASON_BYTES);
        let reason = if said.is_empty() {
            how.to_owned()
        } else {
            format!("{how}: {said}")
        };
        failure(name, &reason, None)
    }

    /// Returns the answer if the agent did its work.
    ///
    /// # Errors
    /// The agent did not report the end of its work, gave no answer, or was denied a change.
    pub(crate) fn answer(&self, name: &str, help: &str) -> Result<String, BackendError> {
        if !self.has_ended {
            let how = "it ended without the event that ends its work";
            return Err(self.exit_failure(name, how).code("cli_output"));
        }
        if let Some(denied) = self.denied.first() {
            return Err(refusal(name, denied, help));
        }
        if self.is_too_long {
            let message = format!("the answer of `{name}` has more than {MAX_ANSWER_BYTES} bytes");
            return Err(BackendError::retryable(message).code("cli_output"));
        }
        if self.answer.trim().is_empty() {
            let message = format!("`{name}` gave an empty answer");
            return Err(BackendError::retryable(message).code("cli_empty"));
        }
        Ok(self.answer.clone())
    }
}

/// Returns whether a tool call that succeeded does what a denied one was to do: it changed the same file or ran the same
/// command. A change of any file makes up for a denied command, because the files of a command are not known.
fn overcomes(done: &ToolEnd, denied: &ToolEnd) -> bool {
    if done.kind == ToolKind::Edit && denied.kind == ToolKind::Command {
        return true;
    }
    let Some((done, denied)) = done.target.as_deref().zip(denied.target.as_deref()) else {
        return false;
    };
    // Tools name the same file with and without its folder.
    let names = |long: &str, short: &str| {
        long.strip_suffix(short)
            .is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
    };
    names(done, denied) || names(denied, done)
}

fn refusal(name: &str, denied: &ToolEnd, help: &str) -> BackendError {
    let ToolEnding::Denied(reason) = &denied.result else {
        return BackendError::terminal(format!("`{name}` was denied a tool call")).code("cli_denied");
    };
    let (reason, _) = line_start(reason.trim(), MAX_REASON_BYTES);
    let target = denied.target.as_ref().map_or(String::new(), |target| {
        format!(" of `{}`", line_start(target, 200).0)
    });
    let message = format!(
        "`{name}` was denied `{}`{target} and did not overcome it ({help}): {reason}",
        denied.tool
    );
    BackendError::terminal(message).code("cli_denied")
}

fn failure(name: &str, reason: &str, status: Option<u16>) -> BackendError {
    let status = status.or_else(|| status_in(reason));
    let (shown, _) = line_start(reason.trim(), MAX_REASON_BYTES);
    let message = format!("`{name}` failed: {shown}");
    let is_rejected = matches!(status, Some(401 | 403))
        || status.is_none()
            && says(
                reason,
                &[
                    "unauthorized",
                    "unauthenticated",
                    "authentication_failed",
                    "invalid api key",
                    "incorrect api key",
                    "api key not valid",
                    "not logged in",
                    "please run /login",
                    "no api key",
                    "auth method",
                    "must specify the gemini_api_key",
                ],
            );
    if is_rejected {
        let help = "log in with the agent, or name the variable of its key in `environment` of the backend";
        return BackendError::terminal(format!("{message}; {help}")).code("cli_credentials");
    }
    if says(reason, &["insufficient_quota", "credit balance"]) {
        return BackendError::terminal(message).code("cli_credentials");
    }
    let is_busy = matches!(status, Some(408 | 409 | 429 | 500..=599))
        || status.is_none() && says(reason, &["overloaded", "rate limit", "temporarily unavailable"]);
    match status {
        _ if is_busy => BackendError::retryable(message).code("cli_overloaded"),
        Some(400..=499) => BackendError::terminal(message).code("cli_failed"),
        _ => BackendError::retryable(message).code("cli_failed"),
    }
}

/// Returns the HTTP status of an error that a text contains, such as `401` in `unexpected status 401 Unauthorized`.
fn status_in(text: &str) -> Option<u16> {
    let mut before = "";
    for part in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '.') {
        let number = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        // A line of a file, such as `main.js:401:7`, is no status.
        let is_line = before.ends_with(':');
        if !is_line
            && let Ok(status) = number.parse()
            && matches!(
                status,
                400 | 401 | 403 | 404 | 408 | 409 | 429 | 500 | 502..=504 | 529
            )
        {
            return Some(status);
        }
        before = if number.is_empty() { "" } else { part };
    }
    None
}

/// Returns whether a text can be the id of a session: it must not be an option when it is passed to the agent.
fn is_session_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && !text.starts_with('-')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(kind: ToolKind, target: Option<&str>, result: ToolEnding) -> AgentEvent {
        AgentEvent::Tool(ToolEnd {
            tool: "tool".to_owned(),
            kind,
            target: target.map(str::to_owned),
            result,
        })
    }

    fn answer(events: impl IntoIterator<Item = AgentEvent>) -> Result<String, Option<String>> {
        let mut transcript = Transcript::default();
        events.into_iter().for_each(|event| transcript.apply(event));
        transcript.apply(AgentEvent::Text("Done.".to_owned()));
        transcript.apply(AgentEvent::Ended);
        transcript.answer("agent", "help").map_err(|error| error.code)
    }

    #[test]
    fn a_denied_change_fails_unless_it_was_made_later() {
        let no = || ToolEnding::Denied("no".to_owned());
        let (edit, command) = (ToolKind::Edit, ToolKind::Command);
        let denied = || end(edit, Some("src/a.rs"), no());
        let refused = Err(Some("cli_denied".to_owned()));
        assert_eq!(answer([denied()]), refused);
        let other = end(edit, Some("b.rs"), ToolEnding::Succeeded);
        assert_eq!(answer([denied(), other.clone()]), refused);
        let same = end(edit, Some("/w/src/a.rs"), ToolEnding::Succeeded);
        assert_eq!(answer([denied(), same]), Ok("Done.".to_owned()));
        let run = end(command, Some("ls"), ToolEnding::Succeeded);
        let echo = || end(command, Some("echo x > y"), no());
        assert_eq!(answer([echo(), run]), refused);
        assert_eq!(answer([echo(), other]), Ok("Done.".to_owned()));
        assert_eq!(
            answer([end(ToolKind::Reading, None, no())]),
            Ok("Done.".to_owned())
        );
    }

    #[test]
    fn a_status_is_found_in_the_text_of_an_error() {
        assert_eq!(
            status_in("unexpected status 401 Unauthorized: at 127.0.0.1:4010"),
            Some(401)
        );
        assert_eq!(status_in(r#"{"error":{"code":429,"message":"x"}}"#), Some(429));
        assert_eq!(
            status_in("took 500ms, 0.401 USD, line 4010, at main.js:401:7"),
            None
        );
    }

    #[test]
    fn an_answer_in_pieces_has_a_limit() {
        let piece = "x".repeat(MAX_ANSWER_BYTES / 2 + 1);
        let mut transcript = Transcript::default();
        transcript.apply(AgentEvent::Piece(piece.clone()));
        transcript.apply(AgentEvent::Piece(piece));
        transcript.apply(AgentEvent::Ended);
        let error = transcript.answer("agent", "help").unwrap_err();
        assert_eq!(error.code.as_deref(), Some("cli_output"));
        assert!(transcript.answer.len() <= MAX_ANSWER_BYTES);
    }

    #[test]
    fn a_session_id_is_no_option() {
        assert!(is_session_id("ses_1-2.3"));
        for text in ["", "-r", "--resume=x", "a b", "a;b", "$(id)", "a/b"] {
            assert!(!is_session_id(text), "{text}");
        }
    }

    #[test]
    fn tokens_of_a_session_are_counted_once() {
        let mut transcript = Transcript::default();
        let tokens = |input, output| TokenUsage {
            input,
            output,
            ..TokenUsage::default()
        };
        transcript.apply(AgentEvent::Usage(AgentUsage {
            tokens: tokens(400, 80),
            cost: None,
            scope: UsageScope::Session,
        }));
        let (own, _, all) = transcript.usage(tokens(200, 40)).unwrap();
        assert_eq!((own, all), (tokens(200, 40), tokens(400, 80)));
        // An agent that begins to count anew has not counted the earlier ones.
        let (own, ..) = transcript.usage(tokens(500, 90)).unwrap();
        assert_eq!(own, tokens(400, 80));
    }
}
