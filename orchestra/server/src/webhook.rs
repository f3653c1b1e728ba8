//! Webhooks: the deliveries of other programs that start runs.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use orchestra_engine::Limits;
use orchestra_graph::{Contract, Field};
use serde_json::Value;
use sha2::Sha256;

use crate::bytes::{from_hexadecimal, is_same_secret};

/// Minimum length of a secret, in bytes.
const MIN_SECRET: usize = 16;

/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 48;

/// A webhook: what posts a JSON payload to `/hooks/NAME` with its secret starts a run of one pipeline.
///
/// The secret is the token of an `Authorization` header, or the key of the signature in `X-Hub-Signature-256`. Values of the
/// payload become inputs that the pipeline declares, and nothing else of it reaches the run.
///
/// ```
/// use orchestra_server::Webhook;
/// let review = Webhook::new("review", "review.dot", "3b0e8c5f9d417a26")?
///     .event("pull_request")
///     .when("/action", ["opened", "synchronize"])
///     .input("pr", "/pull_request/number");
/// assert_eq!(review.name(), "review");
/// # Ok::<(), orchestra_server::WebhookError>(())
/// ```
#[derive(Clone)]
pub struct Webhook {
    name: String,
    pipeline: String,
    secret: Vec<u8>,
    events: Vec<String>,
    when: Vec<(String, Vec<Value>)>,
    inputs: Vec<(String, String)>,
    limits: Limits,
}

impl Webhook {
    /// Creates a webhook that starts a pipeline of the server. The name is a part of the path and of the ids of runs.
    ///
    /// # Errors
    /// The name has other characters than letters, digits, `-` and `_`, or more than 48 of them, or the secret has fewer
    /// than 16 bytes.
    pub fn new(
        name: impl Into<String>,
        pipeline: impl Into<String>,
        secret: impl Into<Vec<u8>>,
    ) -> Result<Webhook, WebhookError> {
        let (name, secret) = (name.into(), secret.into());
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(allowed) {
            return Err(WebhookError::Name { name });
        }
        if secret.len() < MIN_SECRET {
            return Err(WebhookError::ShortSecret { name });
        }
        Ok(Webhook {
            name,
            pipeline: pipeline.into(),
            secret,
            events: Vec::new(),
            when: Vec::new(),
            inputs: Vec::new(),
            limits: Limits::default(),
        })
    }

    /// Adds an event that starts a run: the value of `X-GitHub-Event` or `X-Gitlab-Event`. Without any, all events do.
    #[must_use]
    pub fn event(mut self, event: impl Into<String>) -> Webhook {
        self.events.push(event.into());
        self
    }

    /// Ignores payloads whose value at a JSON pointer is none of these. `null` also means that there is no value.
    #[must_use]
    pub fn when(
        mut self,
        pointer: impl Into<String>,
        values: impl IntoIterator<Item = impl Into<Value>>,
    ) -> Webhook {
        let values = values.into_iter().map(Into::into).collect();
        self.when.push((pointer.into(), values));
        self
    }

    /// Gives an input of the pipeline the value at a JSON pointer into the payload; the empty pointer is the whole payload.
    #[must_use]
    pub fn input(mut self, input: impl Into<String>, pointer: impl Into<String>) -> Webhook {
        self.inputs.push((input.into(), pointer.into()));
        self
    }

    /// Sets the limits at which its runs pause.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Webhook {
        self.limits = limits;
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the pipeline.
    pub fn pipeline(&self) -> &str {
        &self.pipeline
    }

    /// Returns the path to which deliveries are posted.
    pub fn path(&self) -> String {
        format!("{HOOKS}{}", self.name)
    }

    pub(crate) fn run_limits(&self) -> Limits {
        self.limits
    }

    /// Returns whether a text is the secret, in a time that does not depend on the difference.
    pub(crate) fn is_secret(&self, text: &[u8]) -> bool {
        is_same_secret(&self.secret, text)
    }

    /// Returns whether a signature, `sha256=` and hexadecimal digits, is that of a body.
    pub(crate) fn is_signature(&self, signature: &[u8], body: &[u8]) -> bool {
        let digits = signature.strip_prefix(b"sha256=");
        let Some(code) = digits.and_then(from_hexadecimal) else {
            return false;
        };
        // A key may have any length.
        let Ok(mut expected) = Hmac::<Sha256>::new_from_slice(&self.secret) else {
            return false;
        };
        expected.update(body);
        expected.verify_slice(&code).is_ok()
    }

    /// Returns the reason for which an event starts no run; `None` if it may.
    pub(crate) fn ignored_event(&self, event: Option<&str>) -> Option<String> {
        // A forge sends it to try a new webhook.
        if event == Some("ping") {
            return Some("a `ping` starts no run".to_owned());
        }
        if self.events.is_empty() || event.is_some_and(|event| self.events.iter().any(|own| own == event)) {
            return None;
        }
        let wanted = self.events.join("`, `");
        Some(match event {
            Some(event) => format!("the event is `{}`, not `{wanted}`", event.escape_debug()),
            None => format!("the delivery names no event, and only `{wanted}` starts a run"),
        })
    }

    /// Returns the reason for which a payload starts no run; `None` if it does.
    pub(crate) fn ignored_payload(&self, payload: &Value) -> Option<String> {
        let mut conditions = self.when.iter();
        let (pointer, _) = conditions.find(|(pointer, values)| {
            let found = payload.pointer(pointer).unwrap_or(&Value::Null);
            !values.contains(found)
        })?;
        Some(format!("the value at `{pointer}` is not one that starts a run"))
    }

    /// Returns the reason for which no payload can start this pipeline; `None` if one can.
    pub(crate) fn mismatch(&self, contract: &Contract) -> Option<String> {
        let declared = |input: &str| contract.inputs().iter().any(|field| field.key == input);
        if let Some((input, _)) = self.inputs.iter().find(|(input, _)| !declared(input)) {
            let inputs: Vec<String> = contract.inputs().iter().map(Field::to_string).collect();
            let inputs = if inputs.is_empty() {
                "it declares none; add `inputs=\"..\"` to its graph".to_owned()
            } else {
                format!("it declares `{}`", inputs.join(", "))
            };
            return Some(format!(
                "the pipeline `{}` does not declare the input `{input}`: {inputs}",
                self.pipeline
            ));
        }
        let is_mapped = |field: &Field| self.inputs.iter().any(|(input, _)| *input == field.key);
        let mut inputs = contract.inputs().iter();
        let missing = inputs.find(|field| !field.optional && !is_mapped(field))?;
        Some(format!(
            "the pipeline `{}` needs the input `{missing}`, for which no place in the payload is named",
            self.pipeline
        ))
    }

    /// Returns the inputs of a run that a payload starts.
    ///
    /// # Errors
    /// The payload lacks an input, or a value has another type than the pipeline declares. Returns the reason.
    pub(crate) fn inputs(
        &self,
        payload: &Value,
        contract: &Contract,
    ) -> Result<Vec<(String, Value)>, String> {
        let mut values = Vec::new();
        for (input, pointer) in &self.inputs {
            let field = contract.inputs().iter().find(|field| field.key == *input);
            match (payload.pointer(pointer), field) {
                (None | Some(Value::Null), Some(field)) if !field.optional => {
                    return Err(format!(
                        "the payload has no value at `{pointer}`, from which the input `{field}` is read"
                    ));
                }
                (None | Some(Value::Null), _) => {}
                (Some(value), _) => values.push((input.clone(), value.clone())),
            }
        }
        let value = |key: &str| {
            let found = values.iter().find(|(input, _)| input == key);
            found.map(|(_, value)| value)
        };
        contract.check_inputs(value)?;
        Ok(values)
    }
}

impl fmt::Debug for Webhook {
    /// Leaves the secret out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("name", &self.name)
            .field("pipeline", &self.pipeline)
            .finish_non_exhaustive()
    }
}

/// The beginning of the paths of webhooks.
pub(crate) const HOOKS: &str = "/hooks/";

/// The error of a webhook that would not be safe.
///
/// ```
/// use orchestra_server::{Webhook, WebhookError};
/// let error = Webhook::new("review", "review.dot", "secret").unwrap_err();
/// assert_eq!(error, WebhookError::ShortSecret { name: "review".to_owned() });
/// assert_eq!(error.code(), "webhook_secret");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// The name cannot be a part of a path and of the id of a run.
    #[error(
        "`{}` is not the name of a webhook: use letters, digits, `-` and `_`, at most {MAX_NAME}",
        name.escape_debug()
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The secret can be guessed.
    #[error(
        "the secret of the webhook `{name}` has fewer than {MIN_SECRET} bytes; draw a new one, as with `openssl rand -hex 32`"
    )]
    ShortSecret {
        /// The name of the webhook.
        name: String,
    },
}

impl WebhookError {
    /// Returns the machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            WebhookError::Name { .. } => "webhook_name",
            WebhookError::ShortSecret { .. } => "webhook_secret",
        }
    }
}

#[cfg(test)]
mod tests {
    use orchestra_graph::{Source, load};
    use serde_json::json;

    use super::*;

    fn webhook() -> Webhook {
        Webhook::new("review", "review.dot", "It's a Secret to Everybody").expect("sound")
    }

    fn contract(inputs: &str) -> Contract {
        let text = format!("digraph {{ inputs={inputs:?}; start -> exit }}");
        let loaded = load(Source::new("review.dot", text), &Default::default());
        Contract::from_pipeline(&loaded.pipeline().expect("sound"))
    }

    /// The example with which GitHub documents its signatures.
    #[test]
    fn the_documented_signature_is_accepted_and_no_other() {
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let is = |signature: &str, body: &[u8]| webhook().is_signature(signature.as_bytes(), body);
        assert!(is(signature, b"Hello, World!"));
        assert!(is(
            &signature.to_uppercase().replace("SHA256", "sha256"),
            b"Hello, World!"
        ));
        assert!(!is(signature, b"Hello, World?"));
        for wrong in [
            "",
            "sha256=",
            &signature[..70],
            &signature[7..],
            "sha256=zz",
            &signature.replace("sha256", "sha1"),
        ] {
            assert!(!is(wrong, b"Hello, World!"), "{wrong}");
        }
        assert!(webhook().is_secret(b"It's a Secret to Everybody"));
        assert!(!webhook().is_secret(b"It's a Secret to Everybod") && !webhook().is_secret(b""));
        assert!(!format!("{:?}", webhook()).contains("Secret"));
    }

    #[test]
    fn names_and_secrets_are_checked() {
        for name in ["", "a/b", "a b", "é", &"a".repeat(49)] {
            let refused = Webhook::new(name, "a.dot", [7; 32]);
            assert_eq!(
                refused.map(drop).map_err(|error| error.code()),
                Err("webhook_name")
            );
        }
        assert!(Webhook::new("a".repeat(48), "a.dot", [7; 16]).is_ok());
        assert!(Webhook::new("a", "a.dot", [7; 15]).is_err());
    }

    #[test]
    fn events_and_values_decide_whether_a_run_starts() {
        let hook = webhook()
            .event("pull_request")
            .event("Merge Request Hook")
            .when("/action", ["opened", "reopened"])
            .when("/merged_at", [Value::Null])
            .when("/a~1b/0", [json!(1)]);
        assert_eq!(hook.ignored_event(Some("pull_request")), None);
        assert_eq!(hook.ignored_event(Some("Merge Request Hook")), None);
        assert!(
            hook.ignored_event(Some("push"))
                .is_some_and(|why| why.contains("`push`"))
        );
        assert!(hook.ignored_event(None).is_some());
        assert_eq!(webhook().ignored_event(None), None);
        assert!(webhook().ignored_event(Some("ping")).is_some());
        assert_eq!(
            hook.ignored_payload(&json!({"action": "opened", "a/b": [1]})),
            None
        );
        for (payload, at) in [
            (json!({"action": "closed", "a/b": [1]}), "/action"),
            (
                json!({"action": "opened", "merged_at": "x", "a/b": [1]}),
                "/merged_at",
            ),
            (json!({"action": "opened", "a/b": ["1"]}), "/a~1b/0"),
            (json!([]), "/action"),
        ] {
            let why = hook.ignored_payload(&payload).expect("ignored");
            assert!(why.contains(&format!("`{at}`")), "{why}");
        }
    }

    #[test]
    fn values_become_the_declared_inputs() {
        let hook = webhook().input("pr", "/number").input("draft", "/draft");
        let contract = contract("pr: int, draft: bool?");
        assert_eq!(hook.mismatch(&contract), None);
        let inputs = hook.inputs(&json!({"number": 7, "draft": null, "other": 1}), &contract);
        assert_eq!(inputs, Ok(vec![("pr".to_owned(), json!(7))]));
        for (payload, why) in [
            (
                json!({"draft": true}),
                "the payload has no value at `/number`, from which the input `pr: int` is read",
            ),
            (
                json!({"number": "7; rm -rf /"}),
                "`pr` is declared as `int`, but is the text \"7; rm -rf /\"",
            ),
            (
                json!({"number": 7, "draft": 1}),
                "`draft` is declared as `bool?`, but is the number 1",
            ),
        ] {
            let refused = hook.inputs(&payload, &contract).expect_err("refused");
            assert_eq!(refused.replace("`bool`", "`bool?`"), why);
        }
        assert_eq!(
            webhook()
                .input("all", "")
                .inputs(&json!({"a": 1}), &self::contract("all: object")),
            Ok(vec![("all".to_owned(), json!({"a": 1}))])
        );
    }

    #[test]
    fn a_webhook_that_cannot_start_its_pipeline_is_found_without_a_delivery() {
        let hook = webhook().input("pr", "/number");
        let undeclared = hook.mismatch(&contract("tag: text?")).expect("a mismatch");
        assert!(
            undeclared.contains("`pr`") && undeclared.contains("tag: text?"),
            "{undeclared}"
        );
        let missing = hook
            .mismatch(&contract("pr: int, tag: text"))
            .expect("a mismatch");
        assert!(missing.contains("`tag: text`"), "{missing}");
        assert!(
            hook.mismatch(&Contract::default())
                .is_some_and(|why| why.contains("none"))
        );
    }
}
