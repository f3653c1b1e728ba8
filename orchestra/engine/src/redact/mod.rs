//! The redaction of secrets in everything that leaves a run.

mod decode;
mod forms;
mod scan;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use orchestra_core::{Answer, Context, Event, Outcome, Question, Reply};
use serde_json::Value;

use self::forms::Forms;
use self::scan::{Automata, Scan};

/// The replacement of a secret.
const REDACTED: &str = "[redacted]";

/// A redactor that replaces secrets in texts, both as they are and in the encodings in which programs write them.
///
/// It finds, even across wrapped lines:
/// - escapes of all or some characters: those of JSON (`\u0041`, also JSON within JSON), of source code and shells
///   (`\x41`, `\101`, `\"`), of URLs (`%41`, also twice), of HTML (`&#65;`, `&quot;`), and of quoted-printable;
/// - base64 of both alphabets, of the secret alone or within a longer text;
/// - hexadecimal digits, with or without separators (`41:42`, `0x41, 0x42`), and the dumps of `xxd`, `hexdump` and
///   `od -x`;
/// - UTF-16, and the reversed secret.
///
/// It does not find text that is compressed, encrypted or otherwise computed from a secret. Values of fewer than 4
/// bytes, and words such as `true`, do not count as secrets. Encoded forms are only found for secrets of at least 6
/// bytes. The longer lines of a secret with several lines, such as a key file, count as secrets of their own.
///
/// ```
/// use orchestra_engine::Redactor;
/// let redactor = Redactor::new(["s3cr3t-value"]);
/// assert_eq!(redactor.text("key=s3cr3t-value"), "key=[redacted]");
/// assert_eq!(redactor.text("czNjcjN0LXZhbHVl in base64"), "[redacted] in base64");
/// assert_eq!(redactor.text(r"s3cr3t\u002dvalue in JSON"), "[redacted] in JSON");
/// assert_eq!(redactor.text("nothing here"), "nothing here");
/// ```
#[derive(Clone)]
pub struct Redactor {
    secrets: Secrets,
}

#[derive(Clone)]
enum Secrets {
    None,
    Some(Arc<Automata>),
    /// There are too many secrets to search for, so all text is redacted.
    Everything,
}

impl Redactor {
    /// Creates a redactor of these values.
    pub fn new(secrets: impl IntoIterator<Item = impl AsRef<str>>) -> Redactor {
        let mut forms = Forms::default();
        for secret in secrets {
            forms.add(secret.as_ref());
        }
        let secrets = match Automata::new(&forms) {
            _ if forms.is_empty() => Secrets::None,
            Ok(automata) => Secrets::Some(Arc::new(automata)),
            Err(_) => Secrets::Everything,
        };
        Redactor { secrets }
    }

    /// Returns `true` if there is nothing to replace.
    pub fn is_empty(&self) -> bool {
        matches!(self.secrets, Secrets::None)
    }

    /// Returns whether the bytes contain a secret.
    pub(crate) fn finds(&self, bytes: &[u8]) -> bool {
        matches!(self.bytes(bytes), Cow::Owned(_))
    }

    /// Returns the text without secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// Returns the bytes without secrets.
    pub fn bytes<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let automata = match &self.secrets {
            Secrets::Some(automata) if bytes.len() >= automata.shortest() => automata,
            Secrets::Everything if !bytes.is_empty() => return Cow::Owned(REDACTED.into()),
            _ => return Cow::Borrowed(bytes),
        };
        let mut scan = Scan::new(automata);
        scan.read(bytes, 0, true);
        if scan.found.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut clean = Cleaning::default();
        clean.write(bytes, 0, bytes.len(), &mut scan.found);
        Cow::Owned(clean.written)
    }

    /// Removes secrets from all texts of a value, including the names of fields.
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
            // A number can be a secret too.
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

    /// Returns a redactor of a text that arrives in pieces.
    pub fn stream(&self) -> RedactedStream {
        RedactedStream {
            secrets: self.secrets.clone(),
            scan: match &self.secrets {
                Secrets::Some(automata) => Some(Scan::new(automata)),
                Secrets::None | Secrets::Everything => None,
            },
            held: Vec::new(),
            base: 0,
            clean: Cleaning::default(),
        }
    }

    /// Removes secrets from the initial context of a run.
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
        question
            .subject
            .iter_mut()
            .for_each(|subject| self.string(subject));
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

    /// Removes secrets from an event of the machine, before the machine applies it and the journal records it.
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
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

/// A redactor of a text that arrives in pieces. It also finds secrets that span several pieces.
///
/// ```
/// use orchestra_engine::Redactor;
/// let mut stream = Redactor::new(["s3cr3t-value"]).stream();
/// let mut shown = stream.push("the key is s3cr3");
/// shown += &stream.push("t-value, no?");
/// shown += &stream.finish();
/// assert_eq!(shown, "the key is [redacted], no?");
/// ```
#[derive(Clone)]
pub struct RedactedStream {
    secrets: Secrets,
    scan: Option<Scan>,
    /// The bytes that may be part of a secret, and their offset in the whole text.
    held: Vec<u8>,
    base: usize,
    clean: Cleaning,
}

impl RedactedStream {
    /// Processes a piece. Returns the text that can be shown so far.
    pub fn push(&mut self, piece: &str) -> String {
        String::from_utf8_lossy(&self.push_bytes(piece.as_bytes())).into_owned()
    }

    /// Like [`push`](RedactedStream::push), for bytes. If a piece ends within a character, the returned bytes may too.
    pub fn push_bytes(&mut self, piece: &[u8]) -> Vec<u8> {
        match (&self.secrets, &mut self.scan) {
            (Secrets::Some(_), Some(scan)) => {
                self.held.extend_from_slice(piece);
                scan.read(&self.held, self.base, false);
                let upto = scan.scanned_upto();
                self.clean.write(&self.held, self.base, upto, &mut scan.found);
                self.held.drain(..upto - self.base);
                self.base = upto;
                std::mem::take(&mut self.clean.written)
            }
            (Secrets::None, _) => piece.to_vec(),
            // Keep one byte, to know at the end that the text was not empty.
            _ => {
                self.held.extend(piece.first());
                self.held.truncate(1);
                Vec::new()
            }
        }
    }

    /// Returns the remaining text.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&self.finish_bytes()).into_owned()
    }

    /// Like [`finish`](RedactedStream::finish), for bytes.
    pub fn finish_bytes(&mut self) -> Vec<u8> {
        let redactor = Redactor {
            secrets: self.secrets.clone(),
        };
        let mut ended = std::mem::replace(self, redactor.stream());
        let Some(scan) = &mut ended.scan else {
            return redactor.bytes(&ended.held).into_owned();
        };
        scan.read(&ended.held, ended.base, true);
        let end = ended.base + ended.held.len();
        ended.clean.write(&ended.held, ended.base, end, &mut scan.found);
        ended.clean.written
    }
}

impl fmt::Debug for RedactedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedactedStream").finish_non_exhaustive()
    }
}

/// A text that is written without its secrets.
#[derive(Clone, Default)]
struct Cleaning {
    written: Vec<u8>,
    /// The end of the last secret.
    secret_upto: usize,
}

impl Cleaning {
    /// Writes the text from position `base` up to `upto`. Overlapping secrets are replaced as one. Secrets that begin
    /// at or after `upto` stay in `found`.
    fn write(&mut self, text: &[u8], base: usize, upto: usize, found: &mut Vec<std::ops::Range<usize>>) {
        found.sort_unstable_by_key(|secret| secret.start);
        let complete = found.partition_point(|secret| secret.start < upto);
        let mut from = base;
        for secret in found.drain(..complete) {
            if secret.start >= self.secret_upto {
                self.copy(text, base, from..secret.start);
                self.written.extend_from_slice(REDACTED.as_bytes());
                from = secret.start;
            }
            self.secret_upto = self.secret_upto.max(secret.end);
        }
        self.copy(text, base, from..upto);
    }

    fn copy(&mut self, text: &[u8], base: usize, range: std::ops::Range<usize>) {
        let from = range.start.max(self.secret_upto).min(range.end);
        let plain = text.get(from - base..range.end - base);
        self.written.extend_from_slice(plain.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;
