//! The usage of models by stages: tokens and their cost.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// The usage of a stage, a node or a run: tokens and money.
///
/// Sums saturate at the largest number instead of overflowing.
///
/// ```
/// use orchestra_core::Usage;
/// let mut usage = Usage { input_tokens: 900, output_tokens: 100, cost_micros: 12_500 };
/// usage += Usage { output_tokens: 50, ..Usage::default() };
/// assert_eq!((usage.tokens(), usage.cost_usd()), (1_050, 0.0125));
/// assert_eq!(serde_json::from_str::<Usage>(r#"{"input_tokens":7}"#)?.tokens(), 7);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// The tokens that were sent to models.
    #[serde(default)]
    pub input_tokens: u64,
    /// The tokens that models produced.
    #[serde(default)]
    pub output_tokens: u64,
    /// The cost in millionths of a US dollar. Whole numbers, so that sums do not depend on their order.
    #[serde(default)]
    pub cost_micros: u64,
}

impl Usage {
    /// Returns `true` if nothing was used.
    pub fn is_empty(&self) -> bool {
        *self == Usage::default()
    }

    /// Returns the sum of input and output tokens.
    pub const fn tokens(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Returns the cost in US dollars, for display.
    pub const fn cost_usd(self) -> f64 {
        self.cost_micros as f64 / 1_000_000.0
    }

    /// Returns `true` if nothing was used.
    pub const fn is_zero(self) -> bool {
        self.tokens() == 0 && self.cost_micros == 0
    }
}

impl Add for Usage {
    type Output = Usage;

    fn add(self, other: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        *self = *self + other;
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Usage>>(usages: I) -> Usage {
        usages.fold(Usage::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stand_still_at_the_largest_number() {
        let much = Usage {
            input_tokens: u64::MAX - 1,
            output_tokens: 2,
            cost_micros: u64::MAX,
        };
        let sum: Usage = [much, much].into_iter().sum();
        assert_eq!(sum.input_tokens, u64::MAX);
        assert_eq!(sum.output_tokens, 4);
        assert_eq!(sum.cost_micros, u64::MAX);
        assert_eq!(sum.tokens(), u64::MAX);
        assert!(Usage::default().is_zero() && !sum.is_zero());
    }
}

/// The limits on the usage of a run; `None` means no limit.
///
/// ```
/// use orchestra_core::{Budget, Usage};
/// let budget = Budget { max_tokens: Some(1_000), max_cost_micros: None };
/// let used = Usage { input_tokens: 900, output_tokens: 100, cost_micros: 5 };
/// assert!(budget.is_reached(&used));
/// assert_eq!(budget.compared(&used), "1000 of 1000 tokens");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Budget {
    /// The maximum number of input and output tokens together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The maximum cost, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_micros: Option<u64>,
}

/// Whether a reservation fits into a [`Budget`].
///
/// ```
/// use orchestra_core::{Budget, Room, Usage};
/// let budget = Budget { max_tokens: Some(100), ..Budget::default() };
/// let tokens = |input_tokens| Usage { input_tokens, ..Usage::default() };
/// assert_eq!(budget.room_for(tokens(20), tokens(50), tokens(30)), Room::Enough);
/// assert_eq!(budget.room_for(tokens(20), tokens(50), tokens(40)), Room::Later);
/// assert_eq!(budget.room_for(tokens(70), tokens(0), tokens(40)), Room::Never);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The reservation fits now.
    Enough,
    /// The reservation fits once others are released.
    Later,
    /// The reservation does not fit beside what was used.
    Never,
}

impl Budget {
    /// Returns whether a call that uses at most `most` fits beside what was used and reserved.
    pub fn room_for(&self, used: Usage, reserved: Usage, most: Usage) -> Room {
        if self.allows(used + reserved + most) {
            Room::Enough
        } else if self.allows(used + most) {
            Room::Later
        } else {
            Room::Never
        }
    }

    /// Returns what is left of the budget after a usage.
    ///
    /// ```
    /// use orchestra_core::{Budget, Usage};
    /// let budget = Budget { max_tokens: Some(100), ..Budget::default() };
    /// let used = Usage { input_tokens: 90, ..Usage::default() };
    /// assert_eq!(budget.without(used).max_tokens, Some(10));
    /// assert_eq!(budget.without(used).max_cost_micros, None);
    /// ```
    pub fn without(&self, used: Usage) -> Budget {
        Budget {
            max_tokens: self.max_tokens.map(|most| most.saturating_sub(used.tokens())),
            max_cost_micros: self
                .max_cost_micros
                .map(|most| most.saturating_sub(used.cost_micros)),
        }
    }

    fn allows(&self, usage: Usage) -> bool {
        self.max_tokens.is_none_or(|most| usage.tokens() <= most)
            && self.max_cost_micros.is_none_or(|most| usage.cost_micros <= most)
    }

    /// Parses an amount of US dollars, such as `2.50`, as millionths. Returns `None` if it is not digits with at most six
    /// behind a point.
    ///
    /// ```
    /// use orchestra_core::Budget;
    /// assert_eq!(Budget::parse_dollars("2.50"), Some(2_500_000));
    /// assert_eq!(Budget::parse_dollars("-1"), None);
    /// ```
    pub fn parse_dollars(text: &str) -> Option<u64> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let valid =
            digits(whole) && digits(part) && part.len() <= 6 && !(whole.is_empty() && part.is_empty());
        if valid {
            format!("{whole}{part:0<6}").parse().ok()
        } else {
            None
        }
    }

    /// Converts a sum of US dollars to millionths, rounded. Negative numbers and NaN become 0.
    ///
    /// ```
    /// use orchestra_core::Budget;
    /// assert_eq!(Budget::micros_of_dollars(0.57), 570_000);
    /// ```
    pub fn micros_of_dollars(dollars: f64) -> u64 {
        // The cast saturates, and converts negative numbers and NaN to 0.
        (dollars * 1_000_000.0).round() as u64
    }

    /// Returns `true` if the usage has reached a limit.
    pub fn is_reached(&self, used: &Usage) -> bool {
        self.max_tokens.is_some_and(|most| used.tokens() >= most)
            || self.max_cost_micros.is_some_and(|most| used.cost_micros >= most)
    }

    /// Returns `true` if there is no limit.
    pub fn is_empty(&self) -> bool {
        *self == Budget::default()
    }

    /// Compares the usage with the limits in a human-readable message.
    pub fn compared(&self, used: &Usage) -> String {
        let tokens = self
            .max_tokens
            .map(|most| format!("{} of {most} tokens", used.tokens()));
        let cost = self.max_cost_micros.map(|most| {
            let most = most as f64 / 1_000_000.0;
            format!("{:.4} of {most:.4} US dollars", used.cost_usd())
        });
        let limits: Vec<String> = tokens.into_iter().chain(cost).collect();
        limits.join(", ")
    }
}
