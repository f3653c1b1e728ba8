//! The sources of the values that a tool stage gives to its command (rule T6).

use std::collections::BTreeMap;

use crate::attribute::AttributeFamily;

/// The prefix of a source that is a text of another stage.
const STAGES: &str = "stages.";

/// The source of a value of `tool_env_from.NAME` or `tool_stdin` (rule T6).
///
/// ```
/// use orchestra_graph::{StageOutput, ValueSource};
/// assert_eq!(ValueSource::parse("context.plan"), Some(ValueSource::Context("plan")));
/// let output = ValueSource::Stage { node: "build", output: StageOutput::Output };
/// assert_eq!(ValueSource::parse("stages.build.output"), Some(output));
/// assert_eq!(ValueSource::parse("stages.build.notes"), None);
/// assert_eq!(ValueSource::parse("two words"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource<'t> {
    /// The context value of this key, which is given without `context.`.
    Context(&'t str),
    /// A text of the latest visit of a stage.
    Stage {
        /// The id of the node.
        node: &'t str,
        /// The text.
        output: StageOutput,
    },
}

/// A text that a stage stores, as a [`ValueSource`] names it.
///
/// ```
/// use orchestra_graph::{StageOutput, ValueSource};
/// let source = ValueSource::parse("stages.plan.response");
/// assert_eq!(source, Some(ValueSource::Stage { node: "plan", output: StageOutput::Response }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageOutput {
    /// `response`: the response of the stage; the output of a tool if there is no response.
    Response,
    /// `output`: the output of the stage's tool; the response if there is no tool.
    Output,
}

impl<'t> ValueSource<'t> {
    /// Parses the value of an attribute. Returns `None` if it names neither a key nor a text of a stage.
    pub fn parse(text: &'t str) -> Option<ValueSource<'t>> {
        let text = text.trim();
        let key = crate::contract::plain_key(text);
        let is_key = |key: &str| !key.is_empty() && !key.contains(|c: char| c.is_whitespace() || c == '=');
        if !is_key(key) {
            return None;
        }
        let Some(rest) = key.strip_prefix(STAGES) else {
            return Some(ValueSource::Context(key));
        };
        let (node, field) = rest.rsplit_once('.')?;
        let output = match field {
            "response" => StageOutput::Response,
            "output" => StageOutput::Output,
            _ => return None,
        };
        (!node.is_empty()).then_some(ValueSource::Stage { node, output })
    }
}

/// Returns the variables of a command that hold context values, with the values of their attributes. The attributes of
/// the graph come before those of the node, which override them: `tool_env.NAME` removes the variable again.
///
/// ```
/// use orchestra_graph::given_variables;
/// let graph = [("tool_env_from.PLAN", "plan"), ("tool_env_from.TITLE", "title")];
/// let node = [("tool_env.TITLE", "fixed"), ("timeout", "5m")];
/// let given = given_variables(graph.into_iter().chain(node));
/// assert!(given.into_iter().eq([("PLAN", "plan")]));
/// ```
pub fn given_variables<'a, V>(attributes: impl IntoIterator<Item = (&'a str, V)>) -> BTreeMap<&'a str, V> {
    let mut given = BTreeMap::new();
    for (key, value) in attributes {
        match AttributeFamily::find(key) {
            Some((family, name)) if *family == *AttributeFamily::TOOL_ENV_FROM => {
                given.insert(name, value);
            }
            Some((family, name)) if *family == *AttributeFamily::TOOL_ENV => {
                given.remove(name);
            }
            _ => {}
        }
    }
    given
}
