//! The output data of model stages: the prompt requests values, and the response must contain them (rules R11, T2).

use std::fmt;

use orchestra_core::Outcome;
use orchestra_graph::{Stage, ValueType, declared_outputs};
use serde_json::{Map, Value};

/// Maximum length in characters of an excerpt in an error message.
const EXCERPT: usize = 200;

/// A value that the response of a stage provides.
pub(crate) struct Requested {
    pub(crate) key: String,
    /// The type of the value, if the stage declares it (`outputs`).
    value_type: Option<ValueType>,
    /// `true` if a success may lack the value.
    optional: bool,
}

impl fmt::Display for Requested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        match (&self.value_type, self.optional) {
            (Some(value_type), true) => write!(f, ": {value_type} (optional)"),
            (Some(value_type), false) => write!(f, ": {value_type}"),
            (None, _) => Ok(()),
        }
    }
}

/// Returns the values that the response of a stage provides (`output_keys`, `outputs`), without duplicates, in order.
pub(crate) fn requested(node: Stage<'_>) -> Vec<Requested> {
    let keys = node.text("output_keys").unwrap_or_default().split(',');
    let keys = keys.map(str::trim).filter(|key| !key.is_empty());
    let mut requested: Vec<Requested> = Vec::new();
    let mut add = |new: Requested| match requested.iter_mut().find(|known| known.key == new.key) {
        Some(known) => *known = new,
        None => requested.push(new),
    };
    keys.for_each(|key| {
        add(Requested {
            key: key.to_owned(),
            value_type: None,
            optional: false,
        });
    });
    for field in declared_outputs(node) {
        add(Requested {
            key: field.key,
            value_type: Some(field.value_type),
            optional: field.optional,
        });
    }
    requested
}

/// Returns the keys that a response must contain.
pub(crate) fn required(requested: &[Requested]) -> Vec<&str> {
    let required = requested.iter().filter(|requested| !requested.optional);
    required.map(|requested| requested.key.as_str()).collect()
}

/// Returns the prompt of a stage. Appends a request for the values that the response provides, if there are any.
pub(crate) fn prompt(node: Stage<'_>) -> String {
    let requested = requested(node);
    let prompt = node.prompt();
    if requested.is_empty() {
        return prompt.into_owned();
    }
    let list: String = requested
        .iter()
        .map(|requested| format!("- {requested}\n"))
        .collect();
    let form: Vec<String> = requested
        .iter()
        .map(|requested| format!("  {}: ...", Value::from(requested.key.as_str())))
        .collect();
    format!(
        "{prompt}\n\n## Expected outputs\n\nEnd your answer with one JSON code block (```json ... ```) that holds \
         exactly these keys:\n{list}\nGive each value in its JSON type: true or false, a number, a text in quotes, \
         a list or an object. The form is:\n```json\n{{\n{}\n}}\n```\n",
        form.join(",\n")
    )
}

/// Returns the last fenced JSON block of a response that is an object.
///
/// # Errors
/// Returns a message of one line that describes what was found instead.
pub(crate) fn last_object(response: &str) -> Result<Map<String, Value>, String> {
    let blocks = json_blocks(response);
    let mut problem = None;
    for block in blocks.iter().rev() {
        match serde_json::from_str(block) {
            Ok(Value::Object(fields)) => return Ok(fields),
            Ok(other) => {
                problem = problem.or_else(|| Some((format!("it holds {}", type_name(&other)), block)))
            }
            Err(error) => problem = problem.or_else(|| Some((error.to_string(), block))),
        }
    }
    Err(match problem {
        Some((problem, block)) => {
            let shown = excerpt(block.chars());
            format!("the last JSON code block is not a JSON object ({problem}): `{shown}`")
        }
        None if response.trim().is_empty() => "the response is empty".to_owned(),
        None => {
            // The block belongs at the end of the response, so show the end.
            let tail: Vec<char> = response.trim_end().chars().rev().take(EXCERPT).collect();
            let shown = excerpt(tail.into_iter().rev());
            format!("the response holds no JSON code block; it ends with `{shown}`")
        }
    })
}

/// Returns the failure of a stage whose response does not contain its output. It is retryable.
pub(crate) fn unparsed(keys: &[&str], found: &str) -> Outcome {
    let reason = format!(
        "output_parse: expected a JSON code block with the keys {}, but {found}",
        quoted(keys)
    );
    Outcome::fail(reason).with_code("output_parse")
}

/// Returns keys as a quoted list for a message.
pub(crate) fn quoted(keys: &[&str]) -> String {
    let quoted: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
    quoted.join(", ")
}

/// Returns the contents of the fenced blocks that are marked as JSON.
///
/// Such a block begins at every line with its mark, even inside a block of another kind, because models wrap whole
/// answers. The end of the text ends a block too, so that the error message for a truncated response is about the
/// truncated JSON.
fn json_blocks(response: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<(Fence<'_>, String)> = None;
    for line in response.lines() {
        let fence = Fence::parse(line);
        match (&mut open, fence) {
            (_, Some(fence)) if fence.is_json() => {
                blocks.extend(open.replace((fence, String::new())).map(|(_, text)| text));
            }
            (Some((begun, _)), Some(fence)) if fence.closes(begun) => {
                blocks.extend(open.take().map(|(_, text)| text));
            }
            (Some((_, text)), _) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    blocks.extend(open.map(|(_, text)| text));
    blocks
}

/// A line that begins or ends a block: three or more marks of one kind, and the info string after them.
struct Fence<'l> {
    mark: char,
    length: usize,
    info: &'l str,
}

impl<'l> Fence<'l> {
    fn parse(line: &'l str) -> Option<Fence<'l>> {
        let line = line.trim();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        (length >= 3).then_some(Fence {
            mark,
            length,
            info: info.trim(),
        })
    }

    fn is_json(&self) -> bool {
        let word = self.info.split_whitespace().next();
        word.is_some_and(|word| word.eq_ignore_ascii_case("json"))
    }

    fn closes(&self, begun: &Fence<'_>) -> bool {
        self.info.is_empty() && self.mark == begun.mark && self.length >= begun.length
    }
}

/// Returns the beginning of a text as one line.
fn excerpt(text: impl Iterator<Item = char>) -> String {
    let shown: String = text.take(EXCERPT).collect();
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(response: &str) -> Value {
        Value::Object(last_object(response).unwrap())
    }

    #[test]
    fn the_last_block_that_is_an_object_is_taken() {
        let response =
            "First:\n```json\n{\"a\": 1}\n```\nthen\n```json\n{\"a\": 2, \"b\": [true]}\n```\nDone.";
        assert_eq!(object(response), json!({"a": 2, "b": [true]}));
        let list_last = "```json\n{\"a\": 1}\n```\n```json\n[1, 2]\n```";
        assert_eq!(object(list_last), json!({"a": 1}));
        let broken_last = "```json\n{\"a\": 1}\n```\n```json\n{\"a\": \n```";
        assert_eq!(object(broken_last), json!({"a": 1}));
    }

    #[test]
    fn blocks_are_found_as_models_write_them() {
        for response in [
            "```json\r\n{\"a\": 1}\r\n```\r\n",
            "```JSON\n{\"a\": 1}\n```",
            "~~~json\n{\"a\": 1}\n~~~",
            "````json title=\"out\"\n{\"a\": 1}\n````",
            "1. The result:\n\n   ``` json\n   {\"a\": 1}\n   ```\n",
            "```json\n{\"a\": 1}",
            "```markdown\n# Answer\n```json\n{\"a\": 1}\n```\n```\n",
            "```rust\nlet a = 1;\n```\n```json\n{\"a\": 1}\n```",
        ] {
            assert_eq!(object(response), json!({"a": 1}), "{response:?}");
        }
        let inner = "```json\n{\"a\": \"```\"}\n```";
        assert_eq!(object(inner), json!({"a": "```"}));
    }

    #[test]
    fn what_is_found_instead_is_reported() {
        let error = |response: &str| last_object(response).unwrap_err();
        assert_eq!(error(" \n"), "the response is empty");
        assert_eq!(
            error("It went\nwell. {\"a\": 1}"),
            "the response holds no JSON code block; it ends with `It went well. {\"a\": 1}`"
        );
        let unmarked = error("```\n{\"a\": 1}\n```");
        assert!(
            unmarked.starts_with("the response holds no JSON code block"),
            "{unmarked}"
        );
        let cut = error("```json\n{\"a\": 1,\n");
        assert!(
            cut.starts_with("the last JSON code block is not a JSON object (EOF")
                && cut.ends_with(": `{\"a\": 1,`"),
            "{cut}"
        );
        let list = error("```json\n{\n```\n```json\n[1]\n```");
        assert_eq!(
            list,
            "the last JSON code block is not a JSON object (it holds a list): `[1]`"
        );
        let long = error(&"wörter ".repeat(1_000));
        assert!(long.chars().count() < EXCERPT + 80, "{long}");
    }
}
