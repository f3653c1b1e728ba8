//! What a run uses: tokens and money, and how much of them it may.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// What an attempt, a stage or a run used.
///
/// ```
/// use orchestra_core::Usage;
/// let first = Usage { input_tokens: 1_200, output_tokens: 300, cost_micros: 7_500 };
/// let both = first + Usage { output_tokens: 100, ..Usage::default() };
/// assert_eq!((both.tokens(), both.cost_usd()), (1_600, 0.0075));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens that a model read.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens that a model wrote.
    #[serde(default)]
    pub output_tokens: u64,
    /// What it cost, in millionths of a US dollar.
    #[serde(default)]
    pub cost_micros: u64,
}

impl Usage {
    /// All tokens together.
    pub const fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// What it cost, in US dollars.
    pub fn cost_usd(&self) -> f64 {
        self.cost_micros as f64 / 1_000_000.0
    }

    /// Whether nothing was used.
    pub fn is_empty(&self) -> bool {
        *self == Usage::default()
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

/// How much a run may use; `None` is no bound.
///
/// ```
/// use orchestra_core::{Budget, Usage};
/// let budget = Budget { max_tokens: Some(1_000), max_cost_micros: None };
/// let used = Usage { input_tokens: 900, output_tokens: 100, cost_micros: 5 };
/// assert!(budget.is_reached(&used));
/// assert_eq!(budget.compared(&used), "1000 of 1000 tokens");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// All tokens together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Money, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_micros: Option<u64>,
}

impl Budget {
    /// Whether nothing more may be used.
    pub fn is_reached(&self, used: &Usage) -> bool {
        self.max_tokens.is_some_and(|most| used.tokens() >= most)
            || self.max_cost_micros.is_some_and(|most| used.cost_micros >= most)
    }

    /// Whether there is no bound.
    pub fn is_empty(&self) -> bool {
        *self == Budget::default()
    }

    /// What was used beside what may be, in words.
    pub fn compared(&self, used: &Usage) -> String {
        let tokens = self
            .max_tokens
            .map(|most| format!("{} of {most} tokens", used.tokens()));
        let cost = self.max_cost_micros.map(|most| {
            let most = most as f64 / 1_000_000.0;
            format!("{:.4} of {most:.4} US dollars", used.cost_usd())
        });
        let told: Vec<String> = tokens.into_iter().chain(cost).collect();
        told.join(", ")
    }
}
