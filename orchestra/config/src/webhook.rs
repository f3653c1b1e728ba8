//! The settings of webhooks: the deliveries with which another program starts runs on a server.

use serde_json::Value;

use crate::decode::{Decode, Diagnostics, section};
use crate::located::{Located, Names};
use crate::timespan::Timespan;
use crate::tree::{Node, Tree};

section! {
    /// A webhook of `orchestra serve`: another program posts a JSON payload to `/hooks/NAME`, and a run begins.
    ///
    /// ```
    /// use orchestra_config::Configuration;
    /// let text = b"webhooks:\n  review:\n    pipeline: review.dot\n    secret_env: REVIEW_SECRET\n    inputs: {pr: /number}\n";
    /// let (configuration, report) = Configuration::parse("orchestra.yaml", text);
    /// assert!(!report.has_errors());
    /// let review = &configuration.webhooks["review"];
    /// assert_eq!(review.inputs["pr"].as_str(), "/number");
    /// ```
    pub struct Webhook {
        /// The pipeline that a delivery starts, by the name under which the server lists it.
        pub pipeline: Option<Located<String>>,
        /// The environment variable that holds the secret which the sender shares.
        pub secret_env: Option<Located<String>>,
        /// The file that holds the secret, and nothing else.
        pub secret_file: Option<Located<String>>,
        /// The events that start a run; by default all of them.
        pub event: Option<Located<PayloadValues>>,
        /// The values that a payload must have to start a run, by JSON pointers into it.
        pub when: Names<PayloadValues>,
        /// The inputs of the pipeline, each with the JSON pointer to its value in the payload.
        pub inputs: Names<String>,
        /// The cost in dollars at which a run pauses.
        pub max_cost: Option<Located<f64>>,
        /// The duration at which a run pauses.
        pub max_time: Option<Located<Timespan>>,
    }
}

/// The values that are accepted at one place of a payload: a value, or a list of values. `null` also accepts a place that
/// the payload does not have.
///
/// ```
/// use orchestra_config::Configuration;
/// let text = b"webhooks:\n  review:\n    pipeline: review.dot\n    secret_env: S\n    when: {/action: [opened, reopened], /draft: false}\n";
/// let (configuration, report) = Configuration::parse("orchestra.yaml", text);
/// assert!(!report.has_errors());
/// let when = &configuration.webhooks["review"].when;
/// assert_eq!(when["/action"].values, ["opened", "reopened"]);
/// assert_eq!(when["/draft"].values, [false]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PayloadValues {
    /// The values.
    pub values: Vec<Value>,
}

impl Decode for PayloadValues {
    fn decode(tree: &Tree, diagnostics: &mut Diagnostics) -> Option<PayloadValues> {
        let trees = match &tree.node {
            Node::List(items) if items.is_empty() => {
                diagnostics.value(
                    "the list of values is empty, so nothing starts a run",
                    tree.span,
                    "name the values that do",
                );
                return None;
            }
            Node::List(items) => items.as_slice(),
            _ => std::slice::from_ref(tree),
        };
        let mut values = Vec::with_capacity(trees.len());
        for tree in trees {
            if matches!(tree.node, Node::List(_) | Node::Map(_)) {
                diagnostics.expected("text, a number, `true`, `false` or `null`", tree);
                return None;
            }
            values.push(Value::decode(tree, diagnostics)?);
        }
        Some(PayloadValues { values })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for PayloadValues {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PayloadValues".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let value = serde_json::json!({"type": ["string", "number", "boolean", "null"]});
        schemars::json_schema!({
            "description": "The values that are accepted at one place of a payload: a value, or a list of values.",
            "anyOf": [value, {"type": "array", "items": value, "minItems": 1}],
        })
    }
}
