//! Takes secrets out of everything that leaves a run.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use orchestra_core::{Answer, Context, Event, Outcome, Question, Reply};
use serde_json::Value;

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";
/// Shorter values stand everywhere, and say nothing.
const SHORTEST: usize = 6;
/// A piece of base64 must be as long as this, or it stands in texts that have nothing to do with the secret.
const SHORTEST_ENCODED: usize = 8;
/// Lines of a secret of several lines that are as long as this are secrets themselves.
const SHORTEST_LINE: usize = 16;

/// Replaces secrets in texts: as they are, in JSON and URL form, in hexadecimal and base64.
///
/// Values of fewer than 6 bytes are no secrets here. A secret of several lines, such as a key file, is known by each of its
/// longer lines, too.
///
/// ```
/// use orchestra_engine::Redactor;
/// let redactor = Redactor::new(["s3cr3t-value"]);
/// assert_eq!(redactor.text("key=s3cr3t-value"), "key=[redacted]");
/// assert_eq!(redactor.text("czNjcjN0LXZhbHVl in base64"), "[redacted] in base64");
/// assert_eq!(redactor.text("nothing here"), "nothing here");
/// ```
#[derive(Clone)]
pub struct Redactor {
    finder: AhoCorasick,
    /// All forms, in order, to tell whether one may begin at the end of a text.
    forms: Arc<[Vec<u8>]>,
    longest: usize,
}

impl Redactor {
    /// A redactor of these values.
    pub fn new(secrets: impl IntoIterator<Item = impl AsRef<str>>) -> Redactor {
        let mut forms = BTreeSet::new();
        for secret in secrets {
            let secret = secret.as_ref().trim();
            add_forms(secret, &mut forms);
            if secret.contains('\n') {
                let lines = secret.lines().map(str::trim);
                for line in lines.filter(|line| line.len() >= SHORTEST_LINE) {
                    add_forms(line, &mut forms);
                }
            }
        }
        let forms: Vec<Vec<u8>> = forms.into_iter().collect();
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&forms);
        match finder {
            Ok(finder) => Redactor {
                finder,
                longest: forms.iter().map(Vec::len).max().unwrap_or_default(),
                forms: forms.into(),
            },
            // Only more than four thousand million states would do that: then nothing passes at all.
            Err(_) => Redactor::of_everything(),
        }
    }

    fn of_everything() -> Redactor {
        let all: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
        Redactor {
            finder: AhoCorasick::new(&all).unwrap_or_else(|_| Redactor::new([""; 0]).finder),
            forms: all.into(),
            longest: 1,
        }
    }

    /// Whether there is nothing to replace.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Whether a secret stands in these bytes.
    pub(crate) fn finds(&self, bytes: &[u8]) -> bool {
        self.finder.is_match(bytes)
    }

    /// The text without secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// The bytes without secrets.
    pub fn bytes<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let mut found = self.finder.find_iter(bytes).peekable();
        if found.peek().is_none() {
            return Cow::Borrowed(bytes);
        }
        let mut clean = Vec::with_capacity(bytes.len());
        let mut from = 0;
        for found in found {
            clean.extend_from_slice(&bytes[from..found.start()]);
            clean.extend_from_slice(REDACTED.as_bytes());
            from = found.end();
        }
        clean.extend_from_slice(&bytes[from..]);
        Cow::Owned(clean)
    }

    /// Takes secrets out of all texts of a value, names of fields included.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.string(text),
            Value::Array(list) => list.iter_mut().for_each(|value| self.value(value)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|value| self.value(value));
                let named = |name: &String| matches!(self.text(name), Cow::Owned(_));
                if fields.keys().any(named) {
                    let all = std::mem::take(fields).into_iter();
                    *fields = all
                        .map(|(name, value)| (self.text(&name).into_owned(), value))
                        .collect();
                }
            }
            // A number may be a secret, too.
            Value::Number(number) => {
                if let Cow::Owned(clean) = self.text(&number.to_string()) {
                    *value = Value::String(clean);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.text(text) {
            *text = clean;
        }
    }

    fn optional(&self, text: &mut Option<String>) {
        text.iter_mut().for_each(|text| self.string(text));
    }

    /// A redactor of a text that comes in pieces.
    pub fn stream(&self) -> RedactedStream {
        RedactedStream {
            redactor: self.clone(),
            held: Vec::new(),
        }
    }

    /// Takes secrets out of the values that a run starts with.
    pub(crate) fn context(&self, context: &mut Context) {
        let before: Vec<(String, Value)> = context
            .iter()
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect();
        for (key, value) in before {
            let mut clean = value.clone();
            self.value(&mut clean);
            let name = self.text(&key);
            if name != key {
                context.remove(&key);
            }
            if name != key || clean != value {
                context.set(name.into_owned(), clean);
            }
        }
    }

    pub(crate) fn outcome(&self, outcome: &mut Outcome) {
        self.optional(&mut outcome.preferred_label);
        self.optional(&mut outcome.notes);
        self.optional(&mut outcome.failure_reason);
        self.optional(&mut outcome.failure_code);
        for id in &mut outcome.suggested_next_ids {
            self.string(id);
        }
        let mut updates = Value::Object(std::mem::take(&mut outcome.context_updates).into_iter().collect());
        self.value(&mut updates);
        if let Value::Object(updates) = updates {
            outcome.context_updates = updates.into_iter().collect();
        }
        if let orchestra_core::Status::Custom(word) = &mut outcome.status
            && let Cow::Owned(clean) = self.text(word)
        {
            *word = clean.into();
        }
    }

    fn answer(&self, answer: &mut Answer) {
        if let Reply::Chosen(said) = &mut answer.reply {
            said.iter_mut().for_each(|said| self.string(said));
        }
    }

    pub(crate) fn question(&self, question: &mut Question) {
        self.string(&mut question.text);
        for option in &mut question.options {
            self.string(&mut option.label);
        }
        for withheld in &mut question.withheld {
            self.string(&mut withheld.option.label);
            for unmet in &mut withheld.conditions {
                unmet.values.values_mut().for_each(|value| self.string(value));
            }
        }
        question.metadata.values_mut().for_each(|value| self.value(value));
    }

    /// Takes secrets out of what the machine is told, and the journal with it.
    pub(crate) fn event(&self, event: &mut Event) {
        match event {
            Event::NodeFinished { outcome, .. } => self.outcome(outcome),
            Event::Answered { answer, .. } => self.answer(answer),
            Event::Noted { note, .. } => self.value(note),
            Event::Unanswerable { reason, .. }
            | Event::CancelRequested { reason }
            | Event::PauseRequested { reason } => self.string(reason),
            _ => {}
        }
    }

    /// Where the part of some bytes ends in which no secret can begin that goes on behind them.
    fn settled(&self, bytes: &[u8]) -> usize {
        let from = bytes.len().saturating_sub(self.longest.saturating_sub(1));
        let may_begin = |at: usize| {
            let end = &bytes[at..];
            let place = self.forms.partition_point(|form| form.as_slice() < end);
            self.forms.get(place).is_some_and(|form| form.starts_with(end))
        };
        (from..bytes.len())
            .find(|at| may_begin(*at))
            .unwrap_or(bytes.len())
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

/// A text that comes in pieces, without its secrets, also those that lie across the pieces' borders.
///
/// ```
/// use orchestra_engine::Redactor;
/// let mut stream = Redactor::new(["s3cr3t-value"]).stream();
/// let mut shown = stream.push("the key is s3cr3");
/// shown += &stream.push("t-value, no?");
/// shown += &stream.finish();
/// assert_eq!(shown, "the key is [redacted], no?");
/// ```
#[derive(Clone, Debug)]
pub struct RedactedStream {
    redactor: Redactor,
    held: Vec<u8>,
}

impl RedactedStream {
    /// Takes a piece, and gives what can be shown by now.
    pub fn push(&mut self, piece: &str) -> String {
        String::from_utf8_lossy(&self.push_bytes(piece.as_bytes())).into_owned()
    }

    /// As [`push`](RedactedStream::push), of bytes. What is given may end within a character where the pieces do.
    pub fn push_bytes(&mut self, piece: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(piece);
        // Whole secrets go first: what is held may be the beginning of another one within them.
        let mut clean = Vec::new();
        let mut from = 0;
        let settled = self.redactor.settled(&self.held);
        for found in self.redactor.finder.find_iter(&self.held) {
            // A longer secret may begin before it and go on behind the piece.
            if found.start() >= settled {
                break;
            }
            clean.extend_from_slice(&self.held[from..found.start()]);
            clean.extend_from_slice(REDACTED.as_bytes());
            from = found.end();
        }
        let upto = settled.max(from);
        clean.extend_from_slice(&self.held[from..upto]);
        self.held.drain(..upto);
        clean
    }

    /// Gives what was held back.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&self.finish_bytes()).into_owned()
    }

    /// As [`finish`](RedactedStream::finish), of bytes.
    pub fn finish_bytes(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        self.redactor.bytes(&held).into_owned()
    }
}

fn add_forms(secret: &str, forms: &mut BTreeSet<Vec<u8>>) {
    if secret.len() < SHORTEST {
        return;
    }
    let bytes = secret.as_bytes();
    forms.insert(bytes.to_vec());
    if let Ok(json) = serde_json::to_string(secret) {
        let inner = json.trim_start_matches('"').trim_end_matches('"');
        forms.insert(inner.as_bytes().to_vec());
        forms.insert(inner.replace('/', "\\/").into_bytes());
        // A text of JSON that is itself in JSON.
        if let Ok(twice) = serde_json::to_string(inner) {
            forms.insert(twice.trim_matches('"').as_bytes().to_vec());
        }
    }
    for upper in [true, false] {
        forms.insert(percent(bytes, upper, false));
        forms.insert(percent(bytes, upper, true));
        let hex = |byte: &u8| match upper {
            true => format!("{byte:02X}"),
            false => format!("{byte:02x}"),
        };
        forms.insert(bytes.iter().map(hex).collect::<String>().into_bytes());
    }
    for shift in 0..3 {
        let mut shifted = vec![0; shift];
        shifted.extend_from_slice(bytes);
        // The first and the last characters also depend on what stands beside the secret.
        let first = (shift * 8).div_ceil(6);
        let whole = shifted.len() * 8 / 6;
        for encoded in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
            if let Some(inner) = encoded
                .get(first..whole)
                .filter(|inner| inner.len() >= SHORTEST_ENCODED)
            {
                forms.insert(inner.as_bytes().to_vec());
                forms.insert(percent(inner.as_bytes(), true, false));
            }
        }
    }
}

/// The form of bytes in a URL; in a form, a blank is a plus.
fn percent(bytes: &[u8], upper: bool, form: bool) -> Vec<u8> {
    let mut written = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => written.push(*byte),
            b' ' if form => written.push(b'+'),
            byte if upper => written.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            byte => written.extend_from_slice(format!("%{byte:02x}").as_bytes()),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SECRET: &str = "sk-a+b/c \"d\" é&=?~key";

    fn forms_of(secret: &str, before: &str, after: &str) -> Vec<String> {
        let around = format!("{before}{secret}{after}");
        let hex: String = around.bytes().map(|byte| format!("{byte:02x}")).collect();
        vec![
            around.clone(),
            json!({ "text": around }).to_string(),
            json!({ "text": json!({ "text": around }).to_string() }).to_string(),
            hex.to_uppercase(),
            hex,
            STANDARD.encode(&around),
            URL_SAFE.encode(&around),
            String::from_utf8(percent(around.as_bytes(), true, false)).unwrap(),
            String::from_utf8(percent(around.as_bytes(), false, true)).unwrap(),
        ]
    }

    /// Whether a text still tells the secret to somebody who undoes an encoding.
    fn tells(text: &str, secret: &str) -> bool {
        let unquoted = text.replace("\\\\", "\\").replace("\\\"", "\"");
        let unhexed: Vec<u8> = (0..2)
            .flat_map(|from| {
                let digits: Vec<u8> = text.bytes().skip(from).collect();
                let pairs: Vec<u8> = digits
                    .chunks(2)
                    .map(|pair| {
                        std::str::from_utf8(pair)
                            .ok()
                            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                            .unwrap_or(0)
                    })
                    .collect();
                pairs
            })
            .collect();
        let decoded: Vec<u8> = (0..4)
            .flat_map(|from| {
                let tail = text.get(from..).unwrap_or_default();
                let whole = &tail[..tail.len() / 4 * 4];
                STANDARD
                    .decode(whole)
                    .or_else(|_| URL_SAFE.decode(whole))
                    .unwrap_or_default()
            })
            .collect();
        let contains = |bytes: &[u8]| {
            bytes
                .windows(secret.len())
                .any(|window| window == secret.as_bytes())
        };
        text.contains(secret) || unquoted.contains(secret) || contains(&unhexed) || contains(&decoded)
    }

    #[test]
    fn a_secret_goes_in_whatever_form_and_wherever_it_stands() {
        let redactor = Redactor::new([SECRET]);
        for before in ["", "a", "ab", "abc", "{\"key\": \""] {
            for after in ["", "x", "xy", "xyz"] {
                for text in forms_of(SECRET, before, after) {
                    let clean = redactor.text(&text);
                    assert!(clean.contains(REDACTED), "{text}");
                    assert!(!tells(&clean, SECRET), "{text} became {clean}");
                }
            }
        }
    }

    #[test]
    fn values_that_say_nothing_and_other_texts_stay() {
        let redactor = Redactor::new(["", "1", "true", "/"]);
        assert!(redactor.is_empty());
        assert_eq!(redactor.text("true is 1/1"), "true is 1/1");
        let redactor = Redactor::new([SECRET]);
        let mut value = json!({"a": [1, "b", {"c": SECRET}], SECRET: 7});
        redactor.value(&mut value);
        assert_eq!(value, json!({"a": [1, "b", {"c": REDACTED}], REDACTED: 7}));
    }

    #[test]
    fn each_line_of_a_key_file_is_a_secret() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQ\n-----END PRIVATE KEY-----\n";
        let redactor = Redactor::new([key]);
        assert_eq!(
            redactor.text("got MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"),
            "got [redacted]"
        );
        assert_eq!(redactor.text(key.trim()), REDACTED);
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(
            parts in proptest::collection::vec(prop_oneof![
                Just(SECRET.to_owned()),
                Just("sk-a".to_owned()),
                Just("overlap-overlap".to_owned()),
                "[a-z+/ é]{0,12}",
            ], 0..12),
            cuts in proptest::collection::vec(0usize..200, 0..20),
        ) {
            let redactor = Redactor::new([SECRET, "overlap-overlap", "lap-over"]);
            let text = parts.concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            let mut stream = redactor.stream();
            let mut shown = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([text.len()]) {
                shown.extend(stream.push_bytes(&text.as_bytes()[from..cut]));
                from = cut;
            }
            shown.extend(stream.finish_bytes());
            prop_assert_eq!(String::from_utf8(shown).unwrap(), redactor.text(&text).into_owned());
        }
    }
}
