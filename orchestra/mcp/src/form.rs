//! Questions of servers as questions to people, and their answers.

use std::cmp::Ordering;
use std::fmt;

use orchestra_engine::{Answer, Question, QuestionKind, QuestionOption, Reply};
use serde_json::{Map, Number, Value};

use crate::sanitize::{shortened, visible};

/// Maximum length of the text of a question, in characters.
const MAX_TEXT: usize = 2_000;
/// Maximum number of values that are offered as options.
const MAX_OPTIONS: usize = 40;
/// The key of the option that declines.
const DECLINE: &str = "decline";

/// A question of a server.
pub(crate) struct Form {
    text: String,
    fields: Vec<Field>,
}

/// A value that a server asks for.
struct Field {
    name: String,
    about: String,
    kind: FieldKind,
    is_required: bool,
}

enum FieldKind {
    Text {
        characters: Range<u64>,
    },
    Boolean,
    Number {
        integer: bool,
        range: Range<Number>,
    },
    /// One of these values, each with its title.
    One(Vec<(String, String)>),
    /// A list of these values, each with its title.
    Many {
        values: Vec<(String, String)>,
        items: Range<u64>,
    },
    /// A value of another form, which is given as JSON.
    Other,
}

/// The least and the greatest value that a schema allows.
struct Range<T> {
    least: Option<T>,
    greatest: Option<T>,
}

/// The reply of a person.
#[derive(Debug, PartialEq)]
pub(crate) enum Filled {
    Accepted(Value),
    Declined,
    /// The answer does not fit, and why.
    Wrong(String),
}

impl Form {
    /// Creates the form of a question from its text and the JSON schema of its answer.
    pub(crate) fn new(server: &str, message: &str, schema: &Value) -> Form {
        let required = schema.get("required").and_then(Value::as_array);
        let properties = schema.get("properties").and_then(Value::as_object);
        let fields = properties.into_iter().flatten().map(|(name, schema)| {
            let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
            let about = match (text("title"), text("description")) {
                ("", description) => description.to_owned(),
                (title, "") => title.to_owned(),
                (title, description) => format!("{title}: {description}"),
            };
            Field {
                name: name.clone(),
                about: shortened(&about, 200),
                kind: FieldKind::new(schema),
                is_required: required.is_some_and(|names| names.iter().any(|known| known == name)),
            }
        });
        let message: String = visible(message).chars().take(MAX_TEXT).collect();
        Form {
            text: format!("The MCP server `{server}` asks: {message}"),
            fields: fields.collect(),
        }
    }

    /// Returns the question to a person. `wrong` says what was wrong with the answer before.
    pub(crate) fn question(&self, wrong: Option<&str>) -> Question {
        let first = self.question_in_words(self.text.clone());
        match wrong {
            None => first,
            Some(wrong) => {
                let text = format!("{}\n\n(The last answer does not fit: {wrong}.)", self.text);
                self.question_in_words(text).about(first.text)
            }
        }
    }

    fn question_in_words(&self, mut text: String) -> Question {
        let decline = || QuestionOption::new(DECLINE, "Decline");
        let options = match self.fields.as_slice() {
            [] => Some(vec![QuestionOption::new("accept", "Accept")]),
            [
                Field {
                    kind: FieldKind::Boolean,
                    ..
                },
            ] => Some(vec![
                QuestionOption::new("yes", "Yes"),
                QuestionOption::new("no", "No"),
            ]),
            [
                Field {
                    kind: FieldKind::One(values),
                    ..
                },
            ] if values.len() <= MAX_OPTIONS => Some(
                values
                    .iter()
                    .enumerate()
                    .map(|(at, (_, title))| QuestionOption::new((at + 1).to_string(), title))
                    .collect(),
            ),
            _ => None,
        };
        if let [field] = self.fields.as_slice()
            && !field.about.is_empty()
        {
            text = format!("{text}\n\n{}", field.about);
        }
        match options {
            Some(mut options) => {
                options.push(decline());
                Question::select(text, options)
            }
            None => Question::new(
                QuestionKind::FreeText,
                format!("{text}\n\n{}", self.instructions()),
            ),
        }
    }

    /// Returns how to answer a question in free text.
    fn instructions(&self) -> String {
        if let [field] = self.fields.as_slice() {
            return format!("Answer with {}, or `{DECLINE}`.", field.kind.describe());
        }
        let lines = self.fields.iter().map(|field| {
            let optional = if field.is_required {
                ""
            } else {
                ", may be left out"
            };
            let about = if field.about.is_empty() {
                String::new()
            } else {
                format!(" ({})", field.about)
            };
            format!("- `{}`: {}{optional}{about}", field.name, field.kind.describe())
        });
        let lines: Vec<String> = lines.collect();
        format!(
            "Answer with a JSON object that holds the following, or `{DECLINE}`.\n{}",
            lines.join("\n")
        )
    }

    /// Returns the content of an answer. Silence and whatever is not an answer decline.
    pub(crate) fn fill(&self, question: &Question, answer: &Answer) -> Filled {
        let Reply::Chosen(texts) = &answer.reply else {
            return Filled::Declined;
        };
        if !question.options.is_empty() {
            let Ok(accepted) = question.accept(answer) else {
                return Filled::Wrong("it is not offered".to_owned());
            };
            let key = accepted
                .options
                .first()
                .map_or(DECLINE, |option| option.key.as_str());
            return match (key, self.fields.as_slice()) {
                (DECLINE, _) => Filled::Declined,
                ("accept", []) => Filled::Accepted(Value::Object(Map::new())),
                (key, [field]) => match field.kind.option(key) {
                    Some(value) => accepted_field(&field.name, value),
                    None => Filled::Declined,
                },
                _ => Filled::Declined,
            };
        }
        let text = texts.join("\n");
        let text = text.trim();
        if text.is_empty() || text.trim_start_matches('/').eq_ignore_ascii_case(DECLINE) {
            return Filled::Declined;
        }
        if let [field] = self.fields.as_slice() {
            return match field.kind.parse(text) {
                Ok(value) => accepted_field(&field.name, value),
                Err(wrong) => Filled::Wrong(wrong),
            };
        }
        self.fill_object(text)
    }

    fn fill_object(&self, text: &str) -> Filled {
        let values = match serde_json::from_str(text) {
            Ok(Value::Object(values)) => values,
            Ok(_) => return Filled::Wrong("it is not a JSON object".to_owned()),
            Err(error) => return Filled::Wrong(format!("it is not a JSON object: {error}")),
        };
        for (name, value) in &values {
            let Some(field) = self.fields.iter().find(|field| field.name == *name) else {
                return Filled::Wrong(format!("`{}` is not asked for", shortened(name, 60)));
            };
            if !field.kind.fits(value) {
                return Filled::Wrong(format!("`{name}` is not {}", field.kind.describe()));
            }
        }
        let missing = self
            .fields
            .iter()
            .find(|field| field.is_required && !values.contains_key(&field.name));
        match missing {
            Some(field) => Filled::Wrong(format!("`{}` is missing", field.name)),
            None => Filled::Accepted(Value::Object(values)),
        }
    }
}

fn accepted_field(name: &str, value: Value) -> Filled {
    Filled::Accepted(Value::Object(Map::from_iter([(name.to_owned(), value)])))
}

impl FieldKind {
    fn new(schema: &Value) -> FieldKind {
        if let Some(values) = values(schema) {
            return FieldKind::One(values);
        }
        let count = |key: &str| schema.get(key).and_then(Value::as_u64);
        let counts = |least: &str, greatest: &str| Range {
            least: count(least),
            greatest: count(greatest),
        };
        let number = |key: &str| schema.get(key).and_then(Value::as_number).cloned();
        let numbers = |integer: bool| FieldKind::Number {
            integer,
            range: Range {
                least: number("minimum"),
                greatest: number("maximum"),
            },
        };
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => FieldKind::Text {
                characters: counts("minLength", "maxLength"),
            },
            Some("boolean") => FieldKind::Boolean,
            Some("number") => numbers(false),
            Some("integer") => numbers(true),
            Some("array") => match schema.get("items").and_then(values) {
                Some(values) => FieldKind::Many {
                    values,
                    items: counts("minItems", "maxItems"),
                },
                None => FieldKind::Other,
            },
            _ => FieldKind::Other,
        }
    }

    fn describe(&self) -> String {
        match self {
            FieldKind::Text { characters } => match characters.describe() {
                Some(range) => format!("text of {range} characters"),
                None => "text".to_owned(),
            },
            FieldKind::Boolean => "`true` or `false`".to_owned(),
            FieldKind::Number { integer, range } => {
                let number = if *integer { "a whole number" } else { "a number" };
                match range.describe() {
                    Some(range) => format!("{number} ({range})"),
                    None => number.to_owned(),
                }
            }
            FieldKind::One(values) => format!("one of {}", list(values)),
            FieldKind::Many { values, items } => match items.describe() {
                Some(range) => format!("a JSON list of {} ({range} of them)", list(values)),
                None => format!("a JSON list of {}", list(values)),
            },
            FieldKind::Other => "a JSON value".to_owned(),
        }
    }

    /// Returns the value of an option.
    fn option(&self, key: &str) -> Option<Value> {
        match self {
            FieldKind::Boolean => Some(Value::Bool(key == "yes")),
            FieldKind::One(values) => {
                let at: usize = key.parse().ok()?;
                let (value, _) = values.get(at.checked_sub(1)?)?;
                Some(Value::String(value.clone()))
            }
            _ => None,
        }
    }

    /// Parses the text of a value.
    fn parse(&self, text: &str) -> Result<Value, String> {
        let value = match self {
            FieldKind::Text { .. } | FieldKind::One(_) => Some(Value::String(text.to_owned())),
            _ => serde_json::from_str(text).ok(),
        };
        let wrong = || format!("it is not {}", self.describe());
        value.filter(|value| self.fits(value)).ok_or_else(wrong)
    }

    fn fits(&self, value: &Value) -> bool {
        match self {
            FieldKind::Text { characters } => value
                .as_str()
                .is_some_and(|text| characters.contains(&(text.chars().count() as u64), u64::cmp)),
            FieldKind::Boolean => value.is_boolean(),
            FieldKind::Number { integer, range } => value.as_number().is_some_and(|number| {
                (!integer || value.is_i64() || value.is_u64()) && range.contains(number, compare)
            }),
            FieldKind::One(values) => is_one(values, value),
            FieldKind::Many { values, items } => value.as_array().is_some_and(|list| {
                items.contains(&(list.len() as u64), u64::cmp)
                    && list.iter().all(|value| is_one(values, value))
            }),
            FieldKind::Other => true,
        }
    }
}

impl<T: fmt::Display> Range<T> {
    /// Returns the range as words; `None` if everything is allowed.
    fn describe(&self) -> Option<String> {
        match (&self.least, &self.greatest) {
            (Some(least), Some(greatest)) => Some(format!("{least} to {greatest}")),
            (Some(least), None) => Some(format!("at least {least}")),
            (None, Some(greatest)) => Some(format!("at most {greatest}")),
            (None, None) => None,
        }
    }
}

impl<T> Range<T> {
    fn contains(&self, value: &T, compare: impl Fn(&T, &T) -> Ordering) -> bool {
        let is_less = |a: &T, b: &T| compare(a, b) == Ordering::Less;
        !self.least.as_ref().is_some_and(|least| is_less(value, least))
            && !self
                .greatest
                .as_ref()
                .is_some_and(|greatest| is_less(greatest, value))
    }
}

/// Compares numbers of JSON. Whole numbers are compared exactly.
fn compare(a: &Number, b: &Number) -> Ordering {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => {
            let float = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
            float(a).total_cmp(&float(b))
        }
    }
}

fn is_one(values: &[(String, String)], value: &Value) -> bool {
    values.iter().any(|(known, _)| value == known)
}

/// Returns values as words, at most [`MAX_OPTIONS`] of them.
fn list(values: &[(String, String)]) -> String {
    let shown = values.iter().take(MAX_OPTIONS);
    let mut shown: Vec<String> = shown.map(|(value, _)| format!("`{value}`")).collect();
    if let Some(more) = values.len().checked_sub(MAX_OPTIONS).filter(|more| *more > 0) {
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
}

/// Returns the values of a field that allows only some, each with its title.
fn values(schema: &Value) -> Option<Vec<(String, String)>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let titled = |entry: &Value| {
        let value = text(entry.get("const")?)?;
        let title = entry.get("title").and_then(text);
        Some((value.clone(), title.unwrap_or(value)))
    };
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    let found: Vec<(String, String)> = match (list("enum"), list("oneOf").or_else(|| list("anyOf"))) {
        (Some(values), _) => {
            let names = list("enumNames");
            let value = |(at, value): (usize, &Value)| {
                let value = text(value)?;
                let name = names.and_then(|names| text(names.get(at)?));
                Some((value.clone(), name.unwrap_or(value)))
            };
            values.iter().enumerate().map(value).collect::<Option<_>>()?
        }
        (None, Some(entries)) => entries.iter().map(titled).collect::<Option<_>>()?,
        (None, None) => return None,
    };
    let shown = found
        .into_iter()
        .map(|(value, title)| (value, shortened(&title, 80)));
    Some(shown.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fill(schema: &Value, answer: &str) -> Filled {
        let form = Form::new("files", "Go on?", schema);
        let question = form.question(None);
        form.fill(&question, &Answer::choice(answer))
    }

    fn of(properties: Value) -> Value {
        json!({"type": "object", "properties": properties, "required": ["a"]})
    }

    #[test]
    fn a_question_that_is_asked_again_is_about_the_same() {
        for schema in [
            json!({}),
            of(json!({"a": {"type": "string", "description": "A name"}})),
        ] {
            let form = Form::new("files", "Go on?", &schema);
            let (first, again) = (form.question(None), form.question(Some("it is not JSON")));
            assert_ne!(first.text, again.text);
            assert_eq!(first.subject(), again.subject());
        }
    }

    #[test]
    fn only_an_answer_that_fits_is_accepted() {
        let accepted = |value: Value| Filled::Accepted(value);
        let none = json!({"type": "object", "properties": {}});
        assert_eq!(fill(&none, "accept"), accepted(json!({})));
        assert_eq!(fill(&none, "Decline"), Filled::Declined);
        let yes = of(json!({"a": {"type": "boolean"}}));
        assert_eq!(fill(&yes, "no"), accepted(json!({"a": false})));
        assert_eq!(fill(&yes, "decline"), Filled::Declined);
        assert!(matches!(fill(&yes, "perhaps"), Filled::Wrong(_)));
        let one = of(json!({"a": {"type": "string", "enum": ["x", "y"], "enumNames": ["Ex", "Why"]}}));
        assert_eq!(fill(&one, "Why"), accepted(json!({"a": "y"})));
        let one = of(json!({"a": {"type": "string", "oneOf": [{"const": "x", "title": "Ex"}]}}));
        assert_eq!(fill(&one, "1"), accepted(json!({"a": "x"})));
        let text = of(json!({"a": {"type": "string"}}));
        assert_eq!(fill(&text, " Ada "), accepted(json!({"a": "Ada"})));
        assert_eq!(fill(&text, "/decline"), Filled::Declined);
        assert_eq!(fill(&text, ""), Filled::Declined);
        let number = of(json!({"a": {"type": "integer"}}));
        assert_eq!(fill(&number, "3"), accepted(json!({"a": 3})));
        assert_eq!(
            fill(&number, "3.5"),
            Filled::Wrong("it is not a whole number".to_owned())
        );
        let two = of(json!({"a": {"type": "string"}, "b": {"type": "number"}}));
        assert_eq!(fill(&two, r#"{"a": "x"}"#), accepted(json!({"a": "x"})));
        assert_eq!(
            fill(&two, r#"{"b": 1}"#),
            Filled::Wrong("`a` is missing".to_owned())
        );
        assert_eq!(
            fill(&two, r#"{"a": "x", "c": 1}"#),
            Filled::Wrong("`c` is not asked for".to_owned())
        );
        assert_eq!(
            fill(&two, r#"{"a": "x", "b": "1"}"#),
            Filled::Wrong("`b` is not a number".to_owned())
        );
        let form = Form::new("files", "Go on?", &none);
        assert_eq!(
            form.fill(&form.question(None), &Answer::skipped()),
            Filled::Declined
        );
    }

    #[test]
    fn limits_of_values_are_checked() {
        let wrong = |reason: &str| Filled::Wrong(format!("it is not {reason}"));
        let accepted = |value: Value| Filled::Accepted(json!({"a": value}));
        let name = of(json!({"a": {"type": "string", "minLength": 2, "maxLength": 3}}));
        assert_eq!(fill(&name, "äö"), accepted(json!("äö")));
        assert_eq!(fill(&name, "Adas"), wrong("text of 2 to 3 characters"));
        assert_eq!(fill(&name, "A"), wrong("text of 2 to 3 characters"));
        let age = of(json!({"a": {"type": "integer", "minimum": 18}}));
        assert_eq!(fill(&age, "18"), accepted(json!(18)));
        assert_eq!(fill(&age, "17"), wrong("a whole number (at least 18)"));
        let share = of(json!({"a": {"type": "number", "maximum": 0.5}}));
        assert_eq!(fill(&share, "-1"), accepted(json!(-1)));
        assert_eq!(fill(&share, "0.6"), wrong("a number (at most 0.5)"));
        let most = of(json!({"a": {"type": "integer", "maximum": 9_007_199_254_740_993_i64}}));
        assert_eq!(
            fill(&most, "9007199254740994"),
            wrong("a whole number (at most 9007199254740993)")
        );
        let colors = json!({"type": "string", "enum": ["red", "blue"]});
        let some = of(json!({"a": {"type": "array", "items": colors, "minItems": 1}}));
        let described = wrong("a JSON list of `red`, `blue` (at least 1 of them)");
        assert_eq!(fill(&some, r#"["blue"]"#), accepted(json!(["blue"])));
        for answer in ["[]", r#"["green"]"#, r#""red""#, "[1]"] {
            assert_eq!(fill(&some, answer), described, "{answer}");
        }
        let many: Vec<String> = (0..=MAX_OPTIONS).map(|at| format!("v{at}")).collect();
        let one = of(json!({"a": {"type": "string", "enum": many}}));
        assert_eq!(fill(&one, "v40"), accepted(json!("v40")));
        let Filled::Wrong(reason) = fill(&one, "v41") else {
            panic!("`v41` is not one of the values")
        };
        assert!(reason.ends_with("`v39`, and 1 more"), "{reason}");
    }

    #[test]
    fn the_text_names_the_server_and_hides_nothing() {
        let form = Form::new(
            "files",
            "Re\u{202e}ally?",
            &of(json!({"a": {"type": "string"}, "b": {"type": "number", "title": "Size"}})),
        );
        let question = form.question(Some("it is not a number"));
        assert!(
            question.text.starts_with("The MCP server `files` asks: Really?"),
            "{}",
            question.text
        );
        assert!(
            question.text.contains("- `b`: a number, may be left out (Size)"),
            "{}",
            question.text
        );
        assert!(
            question
                .text
                .contains("The last answer does not fit: it is not a number")
        );
    }
}
