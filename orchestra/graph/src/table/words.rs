//! The columns of a row as numbers. rustc compiles no other constant as fast as a list of numbers.

use std::time::Duration;

use super::policy::{ErrorPolicy, FanOut, JoinPolicy, Retry};
use super::texts::Text;
use super::values::{Constant, End, Role, Routing, Rows};
use crate::model::NodeIndex;
use crate::text::Position;

/// The type of a column. For each type there is also a function that reads it.
pub(super) trait Column {
    /// Appends the numbers of a value.
    fn write(self, words: &mut Vec<u32>);
}

/// Takes the next number.
macro_rules! next {
    ($words:ident, $at:ident) => {{
        let word = $words[*$at];
        *$at += 1;
        word
    }};
}

pub(super) const fn number(words: &[u32], at: &mut usize) -> u32 {
    next!(words, at)
}

impl Column for u32 {
    fn write(self, words: &mut Vec<u32>) {
        words.push(self);
    }
}

pub(super) const fn flag(words: &[u32], at: &mut usize) -> bool {
    next!(words, at) != 0
}

impl Column for bool {
    fn write(self, words: &mut Vec<u32>) {
        words.push(self.into());
    }
}

const fn wide(words: &[u32], at: &mut usize) -> u64 {
    let low = next!(words, at);
    let high = next!(words, at);
    low as u64 | (high as u64) << 32
}

impl Column for u64 {
    fn write(self, words: &mut Vec<u32>) {
        words.extend([self as u32, (self >> 32) as u32]);
    }
}

pub(super) const fn signed(words: &[u32], at: &mut usize) -> i64 {
    wide(words, at).cast_signed()
}

impl Column for i64 {
    fn write(self, words: &mut Vec<u32>) {
        self.cast_unsigned().write(words);
    }
}

const fn float(words: &[u32], at: &mut usize) -> f64 {
    f64::from_bits(wide(words, at))
}

impl Column for f64 {
    fn write(self, words: &mut Vec<u32>) {
        self.to_bits().write(words);
    }
}

const fn duration(words: &[u32], at: &mut usize) -> Duration {
    Duration::from_millis(wide(words, at))
}

impl Column for Duration {
    fn write(self, words: &mut Vec<u32>) {
        u64::try_from(self.as_millis()).unwrap_or(u64::MAX).write(words);
    }
}

pub(super) const fn optional_number(words: &[u32], at: &mut usize) -> Option<u32> {
    Some(next!(words, at))
}

pub(super) const fn optional_node(words: &[u32], at: &mut usize) -> Option<NodeIndex> {
    Some(node(words, at))
}

pub(super) const fn optional_fan_out(words: &[u32], at: &mut usize) -> Option<FanOut> {
    Some(fan_out(words, at))
}

/// `None` is the default of an optional column and therefore never written.
impl<C: Column> Column for Option<C> {
    fn write(self, words: &mut Vec<u32>) {
        if let Some(value) = self {
            value.write(words);
        }
    }
}

pub(super) const fn text(words: &[u32], at: &mut usize) -> Text {
    Text(next!(words, at))
}

impl Column for Text {
    fn write(self, words: &mut Vec<u32>) {
        words.push(self.0);
    }
}

pub(super) const fn node(words: &[u32], at: &mut usize) -> NodeIndex {
    NodeIndex(next!(words, at))
}

impl Column for NodeIndex {
    fn write(self, words: &mut Vec<u32>) {
        words.push(self.0);
    }
}

pub(super) const fn rows(words: &[u32], at: &mut usize) -> Rows {
    Rows {
        start: next!(words, at),
        end: next!(words, at),
    }
}

impl Column for Rows {
    fn write(self, words: &mut Vec<u32>) {
        words.extend([self.start, self.end]);
    }
}

pub(super) const fn position(words: &[u32], at: &mut usize) -> Position {
    Position {
        line: next!(words, at),
        column: next!(words, at),
    }
}

impl Column for Position {
    fn write(self, words: &mut Vec<u32>) {
        words.extend([self.line, self.column]);
    }
}

pub(super) const fn role(words: &[u32], at: &mut usize) -> Role {
    match next!(words, at) {
        0 => Role::Start,
        1 => Role::Exit,
        2 => Role::Routing,
        _ => Role::Work,
    }
}

impl Column for Role {
    fn write(self, words: &mut Vec<u32>) {
        words.push(match self {
            Role::Start => 0,
            Role::Exit => 1,
            Role::Routing => 2,
            Role::Work => 3,
        });
    }
}

pub(super) const fn end(words: &[u32], at: &mut usize) -> End {
    match next!(words, at) {
        0 => End::Unstated,
        1 => End::Fail,
        _ => End::Success,
    }
}

impl Column for End {
    fn write(self, words: &mut Vec<u32>) {
        words.push(match self {
            End::Unstated => 0,
            End::Fail => 1,
            End::Success => 2,
        });
    }
}

pub(super) const fn routing(words: &[u32], at: &mut usize) -> Routing {
    match next!(words, at) {
        0 => Routing::FiveStep,
        _ => Routing::FirstMatch,
    }
}

impl Column for Routing {
    fn write(self, words: &mut Vec<u32>) {
        words.push(match self {
            Routing::FiveStep => 0,
            Routing::FirstMatch => 1,
        });
    }
}

pub(super) const fn retry(words: &[u32], at: &mut usize) -> Retry {
    Retry {
        attempts: next!(words, at),
        initial_delay: duration(words, at),
        backoff_factor: float(words, at),
        max_delay: duration(words, at),
        jitter: flag(words, at),
    }
}

impl Column for Retry {
    fn write(self, words: &mut Vec<u32>) {
        self.attempts.write(words);
        self.initial_delay.write(words);
        self.backoff_factor.write(words);
        self.max_delay.write(words);
        self.jitter.write(words);
    }
}

const fn fan_out(words: &[u32], at: &mut usize) -> FanOut {
    FanOut {
        join: node(words, at),
        join_policy: match next!(words, at) {
            0 => JoinPolicy::WaitAll,
            1 => JoinPolicy::KOfN(next!(words, at)),
            2 => JoinPolicy::FirstSuccess,
            _ => JoinPolicy::Quorum(float(words, at)),
        },
        error_policy: match next!(words, at) {
            0 => ErrorPolicy::FailFast,
            1 => ErrorPolicy::Continue,
            _ => ErrorPolicy::Ignore,
        },
        max_parallel: next!(words, at),
    }
}

impl Column for FanOut {
    fn write(self, words: &mut Vec<u32>) {
        self.join.write(words);
        match self.join_policy {
            JoinPolicy::WaitAll => words.push(0),
            JoinPolicy::KOfN(count) => words.extend([1, count]),
            JoinPolicy::FirstSuccess => words.push(2),
            JoinPolicy::Quorum(fraction) => {
                words.push(3);
                fraction.write(words);
            }
        }
        words.push(match self.error_policy {
            ErrorPolicy::FailFast => 0,
            ErrorPolicy::Continue => 1,
            ErrorPolicy::Ignore => 2,
        });
        words.push(self.max_parallel);
    }
}

pub(super) const fn constant(words: &[u32], at: &mut usize) -> Constant<Text> {
    match next!(words, at) {
        0 => Constant::String(text(words, at)),
        1 => Constant::Integer(signed(words, at)),
        2 => Constant::Float(float(words, at)),
        3 => Constant::Boolean(flag(words, at)),
        _ => Constant::Duration(duration(words, at)),
    }
}

impl Column for Constant<Text> {
    fn write(self, words: &mut Vec<u32>) {
        match self {
            Constant::String(text) => words.extend([0, text.0]),
            Constant::Integer(number) => {
                words.push(1);
                number.write(words);
            }
            Constant::Float(number) => {
                words.push(2);
                number.write(words);
            }
            Constant::Boolean(value) => words.extend([3, u32::from(value)]),
            Constant::Duration(duration) => {
                words.push(4);
                duration.write(words);
            }
        }
    }
}
