//! The columns of a row as numbers.

use std::time::Duration;

use super::digits::{next, push};
use super::policy::{ErrorPolicy, FanOut, JoinPolicy, Retry};
use super::texts::Text;
use super::values::{Constant, End, Role, Routing, Rows};
use crate::model::NodeIndex;
use crate::text::Position;

/// The type of a column. For each type there is also a function that reads it.
pub(super) trait Column {
    /// Appends the numbers of a value.
    fn write(self, bytes: &mut Vec<u8>);
}

pub(super) const fn number(bytes: &[u8], at: &mut usize) -> u32 {
    next!(bytes, at)
}

impl Column for u32 {
    fn write(self, bytes: &mut Vec<u8>) {
        push(self, bytes);
    }
}

pub(super) const fn flag(bytes: &[u8], at: &mut usize) -> bool {
    next!(bytes, at) != 0
}

impl Column for bool {
    fn write(self, bytes: &mut Vec<u8>) {
        push(self.into(), bytes);
    }
}

const fn wide(bytes: &[u8], at: &mut usize) -> u64 {
    let low = next!(bytes, at);
    let high = next!(bytes, at);
    low as u64 | (high as u64) << 32
}

impl Column for u64 {
    fn write(self, bytes: &mut Vec<u8>) {
        push(self as u32, bytes);
        push((self >> 32) as u32, bytes);
    }
}

pub(super) const fn signed(bytes: &[u8], at: &mut usize) -> i64 {
    wide(bytes, at).cast_signed()
}

impl Column for i64 {
    fn write(self, bytes: &mut Vec<u8>) {
        self.cast_unsigned().write(bytes);
    }
}

const fn float(bytes: &[u8], at: &mut usize) -> f64 {
    f64::from_bits(wide(bytes, at))
}

impl Column for f64 {
    fn write(self, bytes: &mut Vec<u8>) {
        self.to_bits().write(bytes);
    }
}

const fn duration(bytes: &[u8], at: &mut usize) -> Duration {
    Duration::from_millis(wide(bytes, at))
}

impl Column for Duration {
    fn write(self, bytes: &mut Vec<u8>) {
        u64::try_from(self.as_millis()).unwrap_or(u64::MAX).write(bytes);
    }
}

pub(super) const fn optional_number(bytes: &[u8], at: &mut usize) -> Option<u32> {
    Some(next!(bytes, at))
}

pub(super) const fn optional_node(bytes: &[u8], at: &mut usize) -> Option<NodeIndex> {
    Some(node(bytes, at))
}

pub(super) const fn optional_fan_out(bytes: &[u8], at: &mut usize) -> Option<FanOut> {
    Some(fan_out(bytes, at))
}

/// `None` is the default of an optional column and therefore never written.
impl<C: Column> Column for Option<C> {
    fn write(self, bytes: &mut Vec<u8>) {
        if let Some(value) = self {
            value.write(bytes);
        }
    }
}

pub(super) const fn text(bytes: &[u8], at: &mut usize) -> Text {
    Text(next!(bytes, at))
}

impl Column for Text {
    fn write(self, bytes: &mut Vec<u8>) {
        push(self.0, bytes);
    }
}

pub(super) const fn node(bytes: &[u8], at: &mut usize) -> NodeIndex {
    NodeIndex(next!(bytes, at))
}

impl Column for NodeIndex {
    fn write(self, bytes: &mut Vec<u8>) {
        push(self.0, bytes);
    }
}

pub(super) const fn rows(bytes: &[u8], at: &mut usize) -> Rows {
    Rows {
        start: next!(bytes, at),
        end: next!(bytes, at),
    }
}

impl Column for Rows {
    fn write(self, bytes: &mut Vec<u8>) {
        push(self.start, bytes);
        push(self.end, bytes);
    }
}

pub(super) const fn position(bytes: &[u8], at: &mut usize) -> Position {
    Position {
        line: next!(bytes, at),
        column: next!(bytes, at),
    }
}

impl Column for Position {
    fn write(self, bytes: &mut Vec<u8>) {
        push(self.line, bytes);
        push(self.column, bytes);
    }
}

pub(super) const fn role(bytes: &[u8], at: &mut usize) -> Role {
    match next!(bytes, at) {
        0 => Role::Start,
        1 => Role::Exit,
        2 => Role::Routing,
        _ => Role::Work,
    }
}

impl Column for Role {
    fn write(self, bytes: &mut Vec<u8>) {
        let number = match self {
            Role::Start => 0,
            Role::Exit => 1,
            Role::Routing => 2,
            Role::Work => 3,
        };
        push(number, bytes);
    }
}

pub(super) const fn end(bytes: &[u8], at: &mut usize) -> End {
    match next!(bytes, at) {
        0 => End::Unstated,
        1 => End::Fail,
        _ => End::Success,
    }
}

impl Column for End {
    fn write(self, bytes: &mut Vec<u8>) {
        let number = match self {
            End::Unstated => 0,
            End::Fail => 1,
            End::Success => 2,
        };
        push(number, bytes);
    }
}

pub(super) const fn routing(bytes: &[u8], at: &mut usize) -> Routing {
    match next!(bytes, at) {
        0 => Routing::FiveStep,
        _ => Routing::FirstMatch,
    }
}

impl Column for Routing {
    fn write(self, bytes: &mut Vec<u8>) {
        let number = match self {
            Routing::FiveStep => 0,
            Routing::FirstMatch => 1,
        };
        push(number, bytes);
    }
}

pub(super) const fn retry(bytes: &[u8], at: &mut usize) -> Retry {
    Retry {
        attempts: next!(bytes, at),
        initial_delay: duration(bytes, at),
        backoff_factor: float(bytes, at),
        max_delay: duration(bytes, at),
        jitter: flag(bytes, at),
    }
}

impl Column for Retry {
    fn write(self, bytes: &mut Vec<u8>) {
        self.attempts.write(bytes);
        self.initial_delay.write(bytes);
        self.backoff_factor.write(bytes);
        self.max_delay.write(bytes);
        self.jitter.write(bytes);
    }
}

const fn fan_out(bytes: &[u8], at: &mut usize) -> FanOut {
    FanOut {
        join: node(bytes, at),
        join_policy: match next!(bytes, at) {
            0 => JoinPolicy::WaitAll,
            1 => JoinPolicy::KOfN(next!(bytes, at)),
            2 => JoinPolicy::FirstSuccess,
            _ => JoinPolicy::Quorum(float(bytes, at)),
        },
        error_policy: match next!(bytes, at) {
            0 => ErrorPolicy::FailFast,
            1 => ErrorPolicy::Continue,
            _ => ErrorPolicy::Ignore,
        },
        max_parallel: next!(bytes, at),
        foreach_max: match next!(bytes, at) {
            0 => None,
            most => Some(most),
        },
    }
}

impl Column for FanOut {
    fn write(self, bytes: &mut Vec<u8>) {
        self.join.write(bytes);
        match self.join_policy {
            JoinPolicy::WaitAll => push(0, bytes),
            JoinPolicy::KOfN(count) => {
                push(1, bytes);
                push(count, bytes);
            }
            JoinPolicy::FirstSuccess => push(2, bytes),
            JoinPolicy::Quorum(fraction) => {
                push(3, bytes);
                fraction.write(bytes);
            }
        }
        let policy = match self.error_policy {
            ErrorPolicy::FailFast => 0,
            ErrorPolicy::Continue => 1,
            ErrorPolicy::Ignore => 2,
        };
        push(policy, bytes);
        push(self.max_parallel, bytes);
        // The maximum is at least 1.
        push(self.foreach_max.unwrap_or(0), bytes);
    }
}

pub(super) const fn constant(bytes: &[u8], at: &mut usize) -> Constant<Text> {
    match next!(bytes, at) {
        0 => Constant::String(text(bytes, at)),
        1 => Constant::Integer(signed(bytes, at)),
        2 => Constant::Float(float(bytes, at)),
        3 => Constant::Boolean(flag(bytes, at)),
        _ => Constant::Duration(duration(bytes, at)),
    }
}

impl Column for Constant<Text> {
    fn write(self, bytes: &mut Vec<u8>) {
        match self {
            Constant::String(text) => {
                push(0, bytes);
                text.write(bytes);
            }
            Constant::Integer(number) => {
                push(1, bytes);
                number.write(bytes);
            }
            Constant::Float(number) => {
                push(2, bytes);
                number.write(bytes);
            }
            Constant::Boolean(value) => {
                push(3, bytes);
                value.write(bytes);
            }
            Constant::Duration(duration) => {
                push(4, bytes);
                duration.write(bytes);
            }
        }
    }
}
