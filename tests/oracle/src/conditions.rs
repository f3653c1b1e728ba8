//! Conditions by the letter of rules C1-C5: read and answered in one pass over the text, without a tree.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a condition may ask about.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The outcome word of the stage that ran last.
    pub outcome: String,
    /// The label that it prefers.
    pub preferred_label: String,
    /// Why it failed.
    pub failure_reason: String,
    /// The node at which the run stands.
    pub current_node: String,
    /// The stage that ran last.
    pub last_stage: String,
    /// The run's context.
    pub context: BTreeMap<String, Value>,
    /// How often each node was entered (rule R13).
    pub visits: BTreeMap<String, u32>,
    /// The outcome word of each node's latest visit (rule F1).
    pub outcomes: BTreeMap<String, String>,
}

impl Seen {
    /// The plain text of a key; empty where it is missing (rule C3).
    pub fn text(&self, key: &str) -> String {
        match self.own(key) {
            Some(own) => own,
            None => self.value(key).map(plain).unwrap_or_default(),
        }
    }

    /// A fact of the stage itself, or a record of another one; the context cannot hide it.
    fn own(&self, key: &str) -> Option<String> {
        if let Some(node) = key.strip_prefix("visits.") {
            return Some(self.visits.get(node).copied().unwrap_or(0).to_string());
        }
        let of_stage = key
            .strip_prefix("stages.")
            .and_then(|rest| rest.strip_suffix(".outcome"));
        if let Some(node) = of_stage {
            return Some(self.outcomes.get(node).cloned().unwrap_or_default());
        }
        Some(match key {
            "outcome" => self.outcome.clone(),
            "preferred_label" => self.preferred_label.clone(),
            "failure_reason" => self.failure_reason.clone(),
            "current_node" => self.current_node.clone(),
            "last_stage" => self.last_stage.clone(),
            _ => return None,
        })
    }

    /// The value of a key of the context: `context.x` as `context.x`, then as `x` (rule C3).
    fn value(&self, key: &str) -> Option<&Value> {
        match (self.context.get(key), key.strip_prefix("context.")) {
            (Some(value), _) => Some(value),
            (None, Some(short)) => self.context.get(short),
            (None, None) => None,
        }
    }

    /// A clause.
    pub fn clause(&self, key: &str, operator: &str, literal: &str) -> bool {
        let mut text = self.text(key);
        let mut literal = literal.to_owned();
        // Labels are compared as labels are (rule H6); an expression sees them without the key.
        if ["preferred_label", "human.gate.label"].contains(&key) {
            match operator {
                "=" | "!=" | "contains" => (text, literal) = (normal(&text), normal(&literal)),
                "matches" => text = without_key(&text),
                _ => {}
            }
        }
        let literal = literal.as_str();
        let numbers = number(&text).zip(number(literal));
        match operator {
            "" => !["", "false", "0"].contains(&text.as_str()),
            "=" => text == literal,
            "!=" => text != literal,
            "<" => numbers.is_some_and(|(left, right)| left < right),
            "<=" => numbers.is_some_and(|(left, right)| left <= right),
            ">" => numbers.is_some_and(|(left, right)| left > right),
            ">=" => numbers.is_some_and(|(left, right)| left >= right),
            "contains" => match self.value(key) {
                Some(Value::Array(items)) if self.own(key).is_none() => {
                    items.iter().any(|item| plain(item) == literal)
                }
                _ => text.contains(literal),
            },
            "matches" => matches(literal, &text),
            other => panic!("the operator `{other}` is not in the rules"),
        }
    }
}

/// Trimmed, without `[K] `, `K) ` or `K - ` in front (Attractor 3.3).
pub(crate) fn without_key(label: &str) -> String {
    let chars: Vec<char> = label.trim().chars().collect();
    let behind = match chars[..] {
        ['[', key, ']', ' ', ..] if key.is_alphanumeric() => 4,
        [key, ')', ' ', ..] if key.is_alphanumeric() => 3,
        [key, ' ', '-', ' ', ..] if key.is_alphanumeric() => 4,
        _ => 0,
    };
    chars[behind..].iter().collect::<String>().trim().to_owned()
}

/// A label in the form in which labels are compared.
pub(crate) fn normal(label: &str) -> String {
    without_key(label).to_lowercase()
}

/// The text of a value as conditions compare it.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A number in digits, with sign, point and exponent; nothing else is one.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    if text.chars().any(|c| !"0123456789+-.eE".contains(c)) {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Whether a condition holds; the text must be one.
pub fn holds(text: &str, seen: &Seen) -> bool {
    read(text, seen, false).0.can_hold
}

/// Whether a condition can hold only after a failure (rule H5): after a success it cannot, whatever else is so.
pub fn needs_failure(text: &str) -> bool {
    let seen = Seen {
        outcome: "success".to_owned(),
        ..Seen::default()
    };
    !read(text, &seen, true).0.can_hold
}

/// What may come of a part of a condition. Where everything is known it is one of the two.
#[derive(Clone, Copy)]
struct Answer {
    can_hold: bool,
    can_fail: bool,
}

impl Answer {
    fn from_bool(holds: bool) -> Answer {
        Answer {
            can_hold: holds,
            can_fail: !holds,
        }
    }

    fn not(self) -> Answer {
        Answer {
            can_hold: self.can_fail,
            can_fail: self.can_hold,
        }
    }

    fn and(self, other: Answer) -> Answer {
        Answer {
            can_hold: self.can_hold && other.can_hold,
            can_fail: self.can_fail || other.can_fail,
        }
    }
}

/// The keys that a condition reads, each once, with the values that it sees (rule R8).
pub fn values(text: &str, seen: &Seen) -> Vec<(String, String)> {
    let mut values: Vec<(String, String)> = Vec::new();
    for key in read(text, seen, false).1 {
        if values.iter().all(|(known, _)| *known != key) {
            values.push((key.clone(), seen.text(&key)));
        }
    }
    values
}

fn read(text: &str, seen: &Seen, outcome_only: bool) -> (Answer, Vec<String>) {
    let chars: Vec<char> = text.chars().collect();
    let mut reader = Reader {
        chars: &chars,
        at: 0,
        seen,
        outcome_only,
        keys: Vec::new(),
    };
    reader.blanks();
    if reader.at == chars.len() {
        return (Answer::from_bool(true), Vec::new());
    }
    let answer = reader.or();
    assert_eq!(reader.at, chars.len(), "text is left over in `{text}`");
    (answer, reader.keys)
}

struct Reader<'a> {
    chars: &'a [char],
    at: usize,
    seen: &'a Seen,
    /// Whether nothing is known but how the stage ended.
    outcome_only: bool,
    keys: Vec<String>,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        while self.chars.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
    }

    /// Takes a sign, and the blanks behind it.
    fn sign(&mut self, sign: &str) -> bool {
        let length = sign.chars().count();
        let found = self
            .chars
            .get(self.at..self.at + length)
            .is_some_and(|found| found.iter().copied().eq(sign.chars()));
        if found {
            self.at += length;
            self.blanks();
        }
        found
    }

    fn or(&mut self) -> Answer {
        let mut answer = self.and();
        while self.sign("||") {
            answer = answer.not().and(self.and().not()).not();
        }
        answer
    }

    fn and(&mut self) -> Answer {
        let mut answer = self.not();
        while self.sign("&&") {
            // A clause that is empty says nothing.
            if self.at < self.chars.len() {
                answer = answer.and(self.not());
            }
        }
        answer
    }

    fn not(&mut self) -> Answer {
        if self.sign("!") {
            return self.not().not();
        }
        if self.sign("(") {
            let answer = self.or();
            assert!(self.sign(")"), "a parenthesis stays open");
            return answer;
        }
        let key = self.run(|c| c.is_alphanumeric() || "._-:".contains(c));
        self.keys.push(key.clone());
        self.blanks();
        for operator in ["!=", "<=", ">=", "=", "<", ">", "contains", "matches"] {
            if self.sign(operator) {
                let literal = self.literal();
                return self.clause(&key, operator, &literal);
            }
        }
        self.clause(&key, "", "")
    }

    fn clause(&self, key: &str, operator: &str, literal: &str) -> Answer {
        if self.outcome_only && !["outcome", "failure_reason"].contains(&key) {
            return Answer {
                can_hold: true,
                can_fail: true,
            };
        }
        Answer::from_bool(self.seen.clause(key, operator, literal))
    }

    fn literal(&mut self) -> String {
        let first = self.chars.get(self.at).copied();
        if let Some(quote @ ('"' | '\'')) = first {
            self.at += 1;
            let text = self.run(|c| c != quote);
            self.at += 1;
            self.blanks();
            return text;
        }
        self.run(|c| !"&|()!=<>".contains(c)).trim().to_owned()
    }

    fn run(&mut self, fits: impl Fn(char) -> bool) -> String {
        let start = self.at;
        while self.chars.get(self.at).is_some_and(|c| fits(*c)) {
            self.at += 1;
        }
        self.chars[start..self.at].iter().collect()
    }
}

/// Whether a pattern matches somewhere in a text. Knows `^`, `$`, `.`, `[a-z]` and the repeats `*`, `+`, `?`:
/// as much as the generator writes, in the plainest way that there is.
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    match pattern.split_first() {
        Some(('^', rest)) => here(rest, &text),
        _ => (0..=text.len()).any(|start| here(&pattern, &text[start..])),
    }
}

fn here(pattern: &[char], text: &[char]) -> bool {
    let Some(first) = pattern.first() else {
        return true;
    };
    if *first == '$' && pattern.len() == 1 {
        return text.is_empty();
    }
    let length = match first {
        '[' => 1 + pattern.iter().position(|c| *c == ']').expect("a class is closed"),
        _ => 1,
    };
    let (atom, rest) = pattern.split_at(length);
    let (least, most) = match rest.first() {
        Some('*') => (0, text.len()),
        Some('+') => (1, text.len()),
        Some('?') => (0, 1),
        _ => (1, 1),
    };
    let behind = if (least, most) == (1, 1) && rest.first() != Some(&'+') {
        rest
    } else {
        &rest[1..]
    };
    let fitting = text.iter().take(most).take_while(|c| fits(atom, **c)).count();
    (least..=fitting).any(|count| here(behind, &text[count..]))
}

fn fits(atom: &[char], c: char) -> bool {
    match atom {
        ['.'] => c != '\n',
        ['[', inner @ .., ']'] => {
            let mut inner = inner;
            while let [low, rest @ ..] = inner {
                if let ['-', high, behind @ ..] = rest {
                    if (*low..=*high).contains(&c) {
                        return true;
                    }
                    inner = behind;
                } else if *low == c {
                    return true;
                } else {
                    inner = rest;
                }
            }
            false
        }
        [literal] => *literal == c,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_matcher_knows_its_signs() {
        for (pattern, text, expected) in [
            ("^v[0-9]+$", "v12", true),
            ("^v[0-9]+$", "v", false),
            ("b.*d", "abcd", true),
            ("a?b$", "ab", true),
            ("^a?b$", "cb", false),
            ("[a-cx]y", "xy", true),
            ("^$", "", true),
            ("x*", "", true),
            ("ab+", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
