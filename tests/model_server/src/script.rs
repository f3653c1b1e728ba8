use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use regex_lite::Regex;
use serde::Deserialize;
use serde_json::Value;

use crate::answer::Answer;
use crate::faults::Fault;
use crate::heard::Heard;
use crate::{Request, locked};

/// The behaviour of a model as rules on what it is sent, written in YAML.
///
/// The first rule that fits a request answers it, so a scripted model does the right thing only if the text that it needs
/// has reached it. A request that no rule fits is refused with the status 400 and kept in [`unmatched`](Script::unmatched).
///
/// What a rule asks of a request; a rule without any of these fits every request:
///
/// | Key | Fits when |
/// |---|---|
/// | `stage` | the text stands in the system prompt or in the first or latest message of the user; one text or a list of which all must |
/// | `request` | the text stands anywhere in the request; one or all of a list |
/// | `body` | the text stands in the JSON body of the request, such as `"model":"owl-7b"`; one or all of a list |
/// | `absent` | the text stands nowhere in it; one or none of a list |
/// | `last` | the text stands in what came since the model spoke last; one or all of a list |
/// | `after` | the result of this tool came since the model spoke last; `nothing` where the model has not spoken yet |
/// | `times` | the rule has answered fewer requests than this |
/// | `take` | each regular expression, by name, matches; `{name}` in the answer is the first group of its last match |
/// | `gather` | like `take`, and `{name}` is every different match in turn, joined by `, ` |
///
/// What it answers: `text` (behind `padding` bytes of prose, if that is said), `calls` of tools, `report` (a call of
/// `report_outcome`), a `stop` reason of the format, an `error` by its HTTP status with an optional `retry_after`, `breaks` (`hang`, `cut` or `reset`),
/// and `tokens: [in, out]`. A rule with `optional: true` is not in [`unused`](Script::unused) where it answers nothing.
///
/// ```
/// use orchestra_model_server_tests::{ModelServer, Script};
/// use std::sync::Arc;
/// let script = Arc::new(Script::parse(
///     r#"
///     - rule: fixes the case that it was shown
///       stage: Make the tests pass
///       take: {case: 'FAILED (\w+)'}
///       calls:
///         - write_file: {path: "cases/{case}", content: "ok"}
///     - rule: sees no failure
///       stage: Make the tests pass
///       report: {status: fail, failure_reason: nobody said what fails}
///     "#,
/// )?);
/// let server = ModelServer::start();
/// server.play(&script);
/// assert!(script.played().is_empty() && script.unmatched().is_empty());
///
/// let error = Script::parse("- {rule: misspelt, stgae: x, text: y}").unwrap_err();
/// assert!(error.to_string().contains("stgae"));
/// # Ok::<(), orchestra_model_server_tests::ScriptError>(())
/// ```
#[derive(Debug)]
pub struct Script {
    rules: Vec<Rule>,
    record: Mutex<Record>,
}

/// A script that cannot be read, and why.
///
/// ```
/// use orchestra_model_server_tests::Script;
/// let error = Script::parse("- {rule: silent}").unwrap_err();
/// assert_eq!(error.to_string(), "the rule `silent` answers nothing");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError(String);

impl fmt::Display for ScriptError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for ScriptError {}

impl Script {
    /// Parses a list of rules.
    ///
    /// # Errors
    /// Returns an error if the text is no YAML, a key is unknown, a regular expression is invalid or a rule answers nothing.
    pub fn parse(text: &str) -> Result<Script, ScriptError> {
        let written: Vec<Written> =
            serde_saphyr::from_str(text).map_err(|error| ScriptError(error.to_string()))?;
        let rules = written.into_iter().map(Rule::new).collect::<Result<_, _>>()?;
        Ok(Script {
            rules,
            record: Mutex::default(),
        })
    }

    /// Answers a request by the first rule that fits it.
    pub fn answer(&self, request: &Request) -> Answer {
        let heard = Heard::in_request(request);
        let mut record = locked(&self.record);
        for (index, rule) in self.rules.iter().enumerate() {
            let used = record.used.get(&index).copied().unwrap_or(0);
            if rule.written.times.is_some_and(|times| used >= times) {
                continue;
            }
            if let Some(values) = rule.fits(&heard) {
                record.used.insert(index, used + 1);
                record.played.push(rule.written.rule.clone());
                return rule.answer(&values);
            }
        }
        record.unmatched.push(heard.all);
        Answer::fault(Fault::Error {
            status: 400,
            code: "invalid_request_error",
            message: "no rule of the script fits this request",
            retry_after: None,
        })
    }

    /// Returns the names of the rules that answered, in the order of the requests.
    pub fn played(&self) -> Vec<String> {
        locked(&self.record).played.clone()
    }

    /// Returns the texts of the requests that no rule fitted.
    pub fn unmatched(&self) -> Vec<String> {
        locked(&self.record).unmatched.clone()
    }

    /// Returns the names of the rules that answered nothing, except those that are optional.
    pub fn unused(&self) -> Vec<String> {
        let record = locked(&self.record);
        let rules = self.rules.iter().enumerate();
        let unused = rules.filter(|(index, rule)| !rule.written.optional && !record.used.contains_key(index));
        unused.map(|(_, rule)| rule.written.rule.clone()).collect()
    }
}

#[derive(Debug, Default)]
struct Record {
    used: BTreeMap<usize, usize>,
    played: Vec<String>,
    unmatched: Vec<String>,
}

/// A rule as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    rule: String,
    #[serde(default)]
    stage: Texts,
    #[serde(default)]
    request: Texts,
    #[serde(default)]
    body: Texts,
    #[serde(default)]
    absent: Texts,
    #[serde(default)]
    last: Texts,
    #[serde(default)]
    after: Option<String>,
    #[serde(default)]
    times: Option<usize>,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    take: BTreeMap<String, String>,
    #[serde(default)]
    gather: BTreeMap<String, String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    padding: usize,
    #[serde(default)]
    calls: Vec<BTreeMap<String, Value>>,
    #[serde(default)]
    report: Option<Value>,
    #[serde(default)]
    error: Option<u16>,
    #[serde(default)]
    retry_after: Option<String>,
    #[serde(default)]
    stop: Option<String>,
    #[serde(default)]
    breaks: Option<Break>,
    #[serde(default)]
    tokens: Option<(u64, u64)>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    All(Vec<String>),
}

impl Default for Texts {
    fn default() -> Texts {
        Texts::All(Vec::new())
    }
}

impl Texts {
    fn iter(&self) -> std::slice::Iter<'_, String> {
        match self {
            Texts::One(text) => std::slice::from_ref(text).iter(),
            Texts::All(texts) => texts.iter(),
        }
    }

    fn all_in(&self, text_to_search: &str) -> bool {
        self.iter().all(|text| text_to_search.contains(text.as_str()))
    }

    fn none_in(&self, text_to_search: &str) -> bool {
        !self.iter().any(|text| text_to_search.contains(text.as_str()))
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Break {
    Hang,
    Cut,
    Reset,
}

#[derive(Debug)]
struct Rule {
    written: Written,
    patterns: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    name: String,
    expression: Regex,
    every: bool,
}

impl Rule {
    fn new(written: Written) -> Result<Rule, ScriptError> {
        let name = &written.rule;
        let silent = written.text.is_none()
            && written.calls.is_empty()
            && written.report.is_none()
            && written.error.is_none()
            && written.breaks.is_none();
        if silent {
            return Err(ScriptError(format!("the rule `{name}` answers nothing")));
        }
        let taken = written.take.iter().map(|pattern| (pattern, false));
        let gathered = written.gather.iter().map(|pattern| (pattern, true));
        let patterns = taken.chain(gathered).map(|((value, expression), every)| {
            let expression = Regex::new(expression)
                .map_err(|error| ScriptError(format!("the rule `{name}`: `{value}`: {error}")))?;
            if expression.captures_len() < 2 {
                return Err(ScriptError(format!("the rule `{name}`: `{value}` has no group")));
            }
            Ok(Pattern {
                name: value.clone(),
                expression,
                every,
            })
        });
        let patterns = patterns.collect::<Result<_, _>>()?;
        Ok(Rule { written, patterns })
    }

    /// Returns the values that the rule took from a request that it fits.
    fn fits(&self, heard: &Heard) -> Option<BTreeMap<String, String>> {
        let written = &self.written;
        let after = match written.after.as_deref() {
            None => true,
            Some("nothing") => heard.begins,
            Some(tool) => heard.after.iter().any(|name| name == tool),
        };
        let fits = after
            && written.stage.all_in(&heard.task)
            && written.request.all_in(&heard.all)
            && written.body.all_in(&heard.body)
            && written.absent.none_in(&heard.all)
            && written.last.all_in(&heard.last);
        if !fits {
            return None;
        }
        let mut values = BTreeMap::new();
        for pattern in &self.patterns {
            let found = pattern.expression.captures_iter(&heard.all);
            let mut found: Vec<String> = found
                .filter_map(|captures| captures.get(1).map(|group| group.as_str().to_owned()))
                .collect();
            if !pattern.every {
                found.drain(..found.len().saturating_sub(1));
            }
            let mut different: Vec<String> = Vec::new();
            for text in found {
                if !different.contains(&text) {
                    different.push(text);
                }
            }
            if different.is_empty() {
                return None;
            }
            values.insert(pattern.name.clone(), different.join(", "));
        }
        Some(values)
    }

    fn answer(&self, values: &BTreeMap<String, String>) -> Answer {
        let written = &self.written;
        if let Some(status) = written.error {
            let (code, message) = match status {
                401 => ("authentication_error", "The key is not valid."),
                404 => ("not_found_error", "There is no such model."),
                408 => ("timeout_error", "The request took too long."),
                409 => ("conflict_error", "Another request is under way."),
                429 => ("rate_limit_error", "Too many requests."),
                529 => ("overloaded_error", "The service is overloaded."),
                _ => ("api_error", "The service failed."),
            };
            return Answer::fault(Fault::Error {
                status,
                code,
                message,
                retry_after: written.retry_after.clone(),
            });
        }
        let text = written.text.as_deref().unwrap_or_default();
        let mut answer = Answer::text(prose(written.padding) + &filled(text, values));
        for (tool, arguments) in written.calls.iter().flatten() {
            answer = answer.and_call(tool, filled_in(arguments, values).to_string());
        }
        if let Some(report) = &written.report {
            answer = answer.and_call("report_outcome", filled_in(report, values).to_string());
        }
        if let Some((input, output)) = written.tokens {
            answer = answer.tokens(input, output);
        }
        if let Some(stop) = &written.stop {
            answer = answer.stopping(stop);
        }
        match written.breaks {
            Some(Break::Hang) => answer.breaking(Fault::HangBeforeHeaders),
            Some(Break::Cut) => answer.breaking(Fault::Cut),
            Some(Break::Reset) => answer.breaking(Fault::Reset),
            None => answer,
        }
    }
}

/// A text with the values in the places of their names.
fn filled(text: &str, values: &BTreeMap<String, String>) -> String {
    let named = values.iter();
    named.fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    })
}

fn filled_in(value: &Value, values: &BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) => filled(text, values).into(),
        Value::Array(items) => items.iter().map(|item| filled_in(item, values)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let filled = fields.map(|(name, field)| (filled(name, values), filled_in(field, values)));
            Value::Object(filled.collect())
        }
        other => other.clone(),
    }
}

/// Numbered lines of prose, at least this many bytes of them.
fn prose(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 80);
    let mut line = 0;
    while text.len() < bytes {
        line += 1;
        text.push_str(&format!(
            "{line}. This part was read with care, and nothing in it is worth a remark.\n"
        ));
    }
    text
}
