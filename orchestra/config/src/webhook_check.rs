//! Consistency checks of webhooks.

use orchestra_graph::Span;
use serde_json::Value;

use crate::decode::Diagnostics;
use crate::located::{Located, Names};
use crate::names::position;
use crate::webhook::Webhook;

/// Maximum length of the name of a webhook. It is a part of the ids of its runs.
const MAX_NAME: usize = 48;

/// Checks the webhooks of a configuration.
pub(crate) fn check(webhooks: &Names<Webhook>, diagnostics: &mut Diagnostics) {
    for (name, webhook) in webhooks {
        check_name(name, webhook.span, diagnostics);
        let named = |text: &&Located<String>| !text.trim().is_empty();
        if webhook.pipeline.as_ref().filter(named).is_none() {
            diagnostics.value(
                format!("the webhook `{name}` names no pipeline"),
                webhook.span,
                "add `pipeline:` with the file of a pipeline",
            );
        }
        check_secret(name, webhook, diagnostics);
        if let Some(event) = &webhook.event
            && !event.values.iter().all(Value::is_string)
        {
            diagnostics.value(
                "an event is a name",
                event.span,
                "write the name that the sender gives it, such as `pull_request`",
            );
        }
        for pointer in webhook.when.keys() {
            diagnostics.pointer(pointer, position(&webhook.when, pointer));
        }
        for (input, pointer) in &webhook.inputs {
            if input.trim().is_empty() {
                let help = "name an input that the pipeline declares";
                diagnostics.value("an input has no name", pointer.span, help);
            }
            diagnostics.pointer(pointer, pointer.span);
        }
    }
}

fn check_name(name: &str, span: Span, diagnostics: &mut Diagnostics) {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(allowed) {
        diagnostics.value(
            format!("`{name}` is not a valid name of a webhook"),
            span,
            format!("use letters, digits, `-` and `_`, at most {MAX_NAME}: the name is a part of a path"),
        );
    }
}

fn check_secret(name: &str, webhook: &Located<Webhook>, diagnostics: &mut Diagnostics) {
    match (&webhook.secret_env, &webhook.secret_file) {
        (None, None) => diagnostics.value(
            format!("the webhook `{name}` has no secret, so anybody could start its runs"),
            webhook.span,
            "add `secret_env:` with the environment variable that holds the secret, or `secret_file:`",
        ),
        (Some(_), Some(file)) => diagnostics.value(
            format!("the webhook `{name}` has two sources of its secret"),
            file.span,
            "keep either `secret_env` or `secret_file`",
        ),
        (Some(variable), None) => diagnostics.variable_name(variable),
        (None, Some(file)) if file.trim().is_empty() || file.contains('\0') => diagnostics.value(
            "this is not a file",
            file.span,
            "write the path of the file that holds the secret",
        ),
        (None, Some(_)) => {}
    }
}
