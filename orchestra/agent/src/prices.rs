//! Prices of models, and the cost of calls.

use std::collections::BTreeMap;

use orchestra_engine::Budget;

use crate::model::TokenUsage;

/// Prices per million tokens, in millionths of a US dollar: 3,000,000 means $3 per million tokens, or 3 millionths per
/// token.
///
/// ```
/// use orchestra_agent::Rates;
/// let rates = Rates::from_dollars(3.0, 15.0);
/// assert_eq!((rates.input, rates.output, rates.cached_input), (3_000_000, 15_000_000, 3_000_000));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// The price of input that is neither read from a cache nor written to one.
    pub input: u64,
    /// The price of output, including reasoning.
    pub output: u64,
    /// The price of input that is read from a cache.
    pub cached_input: u64,
    /// The price of input that is written to a cache.
    pub cache_write: u64,
}

impl Rates {
    /// Creates rates from prices per million tokens in dollars. Cached input costs the same as other input.
    pub fn from_dollars(input: f64, output: f64) -> Rates {
        let input = Budget::micros_of_dollars(input);
        Rates {
            input,
            output: Budget::micros_of_dollars(output),
            cached_input: input,
            cache_write: input,
        }
    }

    /// Sets the prices per million tokens read from and written to a cache, in dollars.
    #[must_use]
    pub fn cache(mut self, read: f64, write: f64) -> Rates {
        self.cached_input = Budget::micros_of_dollars(read);
        self.cache_write = Budget::micros_of_dollars(write);
        self
    }

    /// Returns the cost of a usage in millionths of a dollar, rounded up.
    fn cost(&self, usage: TokenUsage) -> u64 {
        // The input includes the cached tokens; each token is counted at only one price.
        let read = usage.cached_input.min(usage.input);
        let write = usage.cache_write.min(usage.input - read);
        let plain = usage.input - read - write;
        let parts = [
            (plain, self.input),
            (read, self.cached_input),
            (write, self.cache_write),
            (usage.output, self.output),
        ];
        let sum: u128 = parts
            .iter()
            .map(|(tokens, rate)| u128::from(*tokens) * u128::from(*rate))
            .sum();
        u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

/// Prices of requests above a length.
///
/// ```
/// use orchestra_agent::{LongContext, Rates};
/// let long = LongContext { above: 200_000, rates: Rates::from_dollars(2.5, 15.0) };
/// assert_eq!(long.above, 200_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongContext {
    /// The prices apply to requests with more input tokens than this.
    pub above: u64,
    /// The prices of all tokens of such a request.
    pub rates: Rates,
}

/// The prices of a model.
///
/// ```
/// use orchestra_agent::{Price, Rates};
/// let price = Price::from(Rates::from_dollars(1.25, 10.0));
/// assert_eq!(price.long_context, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// The ordinary prices.
    pub rates: Rates,
    /// The prices of long requests, if they differ.
    pub long_context: Option<LongContext>,
}

impl From<Rates> for Price {
    fn from(rates: Rates) -> Price {
        Price {
            rates,
            long_context: None,
        }
    }
}

/// A table of prices by model name.
///
/// A name matches itself and its dated or staged versions: `gpt-4o` also matches `gpt-4o-2024-08-06`, `gemini-3-pro`
/// also matches `gemini-3-pro-preview`. A name that ends with `*` matches all names with that prefix. The longest
/// matching name wins. OpenRouter names, `VENDOR/MODEL`, are looked up as a whole first and then without the vendor.
///
/// ```
/// use orchestra_agent::{PriceTable, Rates, TokenUsage};
/// let mut prices = PriceTable::default();
/// let usage = TokenUsage { input: 100_000, output: 10_000, cached_input: 80_000, ..TokenUsage::default() };
/// // 20,000 at $3, 80,000 at $0.30, 10,000 at $15, each a million.
/// assert_eq!(prices.cost_micros("claude-sonnet-4-5-20250929", usage), Some(60_000 + 24_000 + 150_000));
/// assert_eq!(prices.cost_micros("house-model", usage), None);
/// prices.set("house-*", Rates::from_dollars(0.0, 0.0));
/// assert_eq!(prices.cost_micros("house-model", usage), Some(0));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceTable {
    prices: BTreeMap<String, Price>,
}

/// The published prices of providers, as of September 2026: name, input, output, cache read, cache write, in dollars.
#[rustfmt::skip]
const PUBLISHED: &[(&str, f64, f64, f64, f64)] = &[
    ("claude-fable-5",        10.0,  50.0, 1.0,    12.5),
    ("claude-opus-5-5",        4.0,  20.0, 0.4,     5.0),
    ("claude-opus-5",          5.0,  25.0, 0.5,     6.25),
    ("claude-opus-4-8",        5.0,  25.0, 0.5,     6.25),
    ("claude-opus-4-7",        5.0,  25.0, 0.5,     6.25),
    ("claude-opus-4-6",        5.0,  25.0, 0.5,     6.25),
    ("claude-opus-4-5",        5.0,  25.0, 0.5,     6.25),
    ("claude-opus-4-1",       15.0,  75.0, 1.5,    18.75),
    ("claude-opus-4",         15.0,  75.0, 1.5,    18.75),
    ("claude-3-opus",         15.0,  75.0, 1.5,    18.75),
    ("claude-sonnet-5",        2.0,  10.0, 0.2,     2.5),
    ("claude-sonnet-4-6",      3.0,  15.0, 0.3,     3.75),
    ("claude-sonnet-4-5",      3.0,  15.0, 0.3,     3.75),
    ("claude-sonnet-4",        3.0,  15.0, 0.3,     3.75),
    ("claude-3-7-sonnet",      3.0,  15.0, 0.3,     3.75),
    ("claude-3-5-sonnet",      3.0,  15.0, 0.3,     3.75),
    ("claude-haiku-4-5",       1.0,   5.0, 0.1,     1.25),
    ("claude-3-5-haiku",       0.8,   4.0, 0.08,    1.0),
    ("claude-3-haiku",         0.25,  1.25, 0.03,   0.3),
    ("gpt-5.5",                5.0,  30.0, 0.5,     5.0),
    ("gpt-5.4",                2.5,  15.0, 0.25,    2.5),
    ("gpt-5.4-mini",           0.75,  4.5, 0.075,   0.75),
    ("gpt-5.4-nano",           0.2,   1.25, 0.02,   0.2),
    ("gpt-5.3-codex",          1.75, 14.0, 0.175,   1.75),
    ("gpt-5.2-codex",          1.75, 14.0, 0.175,   1.75),
    ("gpt-5.2-pro",           21.0, 168.0, 21.0,   21.0),
    ("gpt-5.2",                1.75, 14.0, 0.175,   1.75),
    ("gpt-5.1-codex",          1.25, 10.0, 0.125,   1.25),
    ("gpt-5.1-codex-max",      1.25, 10.0, 0.125,   1.25),
    ("gpt-5.1-codex-mini",     0.25,  2.0, 0.025,   0.25),
    ("gpt-5.1",                1.25, 10.0, 0.125,   1.25),
    ("gpt-5",                  1.25, 10.0, 0.125,   1.25),
    ("gpt-5-codex",            1.25, 10.0, 0.125,   1.25),
    ("gpt-5-pro",             15.0, 120.0, 15.0,   15.0),
    ("gpt-5-mini",             0.25,  2.0, 0.025,   0.25),
    ("gpt-5-nano",             0.05,  0.4, 0.005,   0.05),
    ("gpt-4.1",                2.0,   8.0, 0.5,     2.0),
    ("gpt-4.1-mini",           0.4,   1.6, 0.1,     0.4),
    ("gpt-4.1-nano",           0.1,   0.4, 0.025,   0.1),
    ("gpt-4o",                 2.5,  10.0, 1.25,    2.5),
    ("gpt-4o-mini",            0.15,  0.6, 0.075,   0.15),
    ("o1",                    15.0,  60.0, 7.5,    15.0),
    ("o3",                     2.0,   8.0, 0.5,     2.0),
    ("o3-pro",                20.0,  80.0, 20.0,   20.0),
    ("o3-mini",                1.1,   4.4, 0.55,    1.1),
    ("o4-mini",                1.1,   4.4, 0.275,   1.1),
    ("gemini-3.1-pro",         2.0,  12.0, 0.2,     2.0),
    ("gemini-3.1-flash-lite",  0.25,  1.5, 0.025,   0.25),
    ("gemini-3-pro",           2.0,  12.0, 0.2,     2.0),
    ("gemini-3-flash",         0.5,   3.0, 0.05,    0.5),
    ("gemini-2.5-pro",         1.25, 10.0, 0.125,   1.25),
    ("gemini-2.5-flash",       0.3,   2.5, 0.03,    0.3),
    ("gemini-2.5-flash-lite",  0.1,   0.4, 0.01,    0.1),
    ("gemini-2.0-flash",       0.1,   0.4, 0.025,   0.1),
    ("gemini-2.0-flash-lite",  0.075, 0.3, 0.075,   0.075),
];

/// Models that cost more above a number of input tokens: twice the input price, one and a half times the output price.
const LONG_CONTEXT_ABOVE: &[(&str, u64)] = &[
    ("claude-sonnet-4", 200_000),
    ("claude-sonnet-4-5", 200_000),
    ("gemini-2.5-pro", 200_000),
    ("gemini-3-pro", 200_000),
    ("gemini-3.1-pro", 200_000),
    ("gpt-5.4", 272_000),
    ("gpt-5.5", 272_000),
];

impl Default for PriceTable {
    /// Returns the published prices of well-known models. They may change; [`set`](PriceTable::set) overrides them.
    fn default() -> PriceTable {
        let mut table = PriceTable::empty();
        for (name, input, output, read, write) in PUBLISHED {
            table.set(*name, Rates::from_dollars(*input, *output).cache(*read, *write));
        }
        for (name, above) in LONG_CONTEXT_ABOVE {
            if let Some(price) = table.prices.get_mut(*name) {
                let usual = price.rates;
                let rates = Rates {
                    input: usual.input * 2,
                    output: usual.output * 3 / 2,
                    cached_input: usual.cached_input * 2,
                    cache_write: usual.cache_write * 2,
                };
                price.long_context = Some(LongContext { above: *above, rates });
            }
        }
        table
    }
}

impl PriceTable {
    /// Creates a table without prices.
    pub fn empty() -> PriceTable {
        PriceTable {
            prices: BTreeMap::new(),
        }
    }

    /// Sets the price of a model, or of all models with a prefix (`llama*`). Replaces an existing price of the same
    /// name.
    pub fn set(&mut self, model: impl Into<String>, price: impl Into<Price>) {
        self.prices
            .insert(model.into().to_ascii_lowercase(), price.into());
    }

    /// Returns the price of a model, or `None` if it is unknown.
    pub fn price(&self, model: &str) -> Option<&Price> {
        let model = model.to_ascii_lowercase();
        let without_vendor = model.rsplit_once('/').map(|(_, name)| name);
        let names = [Some(model.as_str()), without_vendor];
        names.into_iter().flatten().find_map(|name| self.named(name))
    }

    fn named(&self, model: &str) -> Option<&Price> {
        let fits = |name: &str| match name.strip_suffix('*') {
            Some(beginning) => model.starts_with(beginning),
            // OpenRouter writes `claude-sonnet-4.5`.
            None => is_version_of(model, name) || is_version_of(&model.replace('.', "-"), name),
        };
        let fitting = self.prices.iter().filter(|(name, _)| fits(name));
        fitting.max_by_key(|(name, _)| name.len()).map(|(_, price)| price)
    }

    /// Returns the cost of a call in millionths of a US dollar, rounded up, or `None` if the price is unknown.
    pub fn cost_micros(&self, model: &str, usage: TokenUsage) -> Option<u64> {
        let price = self.price(model)?;
        let long = price.long_context.filter(|long| usage.input > long.above);
        Some(long.map_or(price.rates, |long| long.rates).cost(usage))
    }

    /// Returns the maximum cost of a call in millionths of a US dollar, or `None` if the price is unknown. A budget
    /// reserves it before the call, with [`input_token_bound`](crate::input_token_bound) as the input.
    ///
    /// ```
    /// use orchestra_agent::{PriceTable, TokenUsage};
    /// let prices = PriceTable::default();
    /// let most = prices.worst_case("claude-sonnet-4-5", 1_000, 500);
    /// let usage = TokenUsage { input: 1_000, output: 500, cache_write: 1_000, ..TokenUsage::default() };
    /// assert_eq!(most, prices.cost_micros("claude-sonnet-4-5", usage));
    /// ```
    pub fn worst_case(&self, model: &str, input_tokens: u64, max_output_tokens: u64) -> Option<u64> {
        let price = self.price(model)?;
        let most = |rates: Rates| {
            let input = rates.input.max(rates.cached_input).max(rates.cache_write);
            let rates = Rates { input, ..rates };
            rates.cost(TokenUsage {
                input: input_tokens,
                output: max_output_tokens,
                ..TokenUsage::default()
            })
        };
        let long = price.long_context.filter(|long| input_tokens > long.above);
        let long = long.map_or(0, |long| most(long.rates));
        Some(most(price.rates).max(long))
    }
}

/// Returns whether a model has this name, or is another date or stage of it: `-20250929`, `-2024-08-06`, `@001`,
/// `-latest`, `-preview-05-06`. Another version number is another model.
fn is_version_of(model: &str, name: &str) -> bool {
    let Some(rest) = model.strip_prefix(name) else {
        return false;
    };
    if rest.is_empty() {
        return true;
    }
    let Some(version) = rest.strip_prefix(['-', '@']) else {
        return false;
    };
    let version = ["preview", "latest", "exp"]
        .iter()
        .find_map(|stage| version.strip_prefix(stage))
        .map_or(version, |rest| rest.strip_prefix('-').unwrap_or(rest));
    let dated = version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    // One or two digits directly after a name are the version number of another model.
    let first = version.split('-').next().unwrap_or_default();
    let staged = rest.len() > version.len() + 1;
    dated && (staged || first.len() >= 3)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn input_price(model: &str) -> Option<u64> {
        PriceTable::default().price(model).map(|price| price.rates.input)
    }

    #[test]
    fn dates_and_stages_of_a_model_cost_what_the_model_costs() {
        let cases = [
            ("claude-sonnet-4-5-20250929", Some(3_000_000)),
            ("claude-3-7-sonnet-latest", Some(3_000_000)),
            ("anthropic/claude-opus-4.5", Some(5_000_000)),
            ("Claude-Opus-4-1", Some(15_000_000)),
            ("claude-opus-4@20250514", Some(15_000_000)),
            ("gpt-4o-2024-08-06", Some(2_500_000)),
            ("openai/gpt-4o-mini", Some(150_000)),
            ("gpt-5.4-mini-2026-03-17", Some(750_000)),
            ("gemini-2.5-pro-preview-05-06", Some(1_250_000)),
            ("gemini-3-pro-preview", Some(2_000_000)),
            ("gemini-2.0-flash-001", Some(100_000)),
        ];
        for (model, price) in cases {
            assert_eq!(input_price(model), price, "{model}");
        }
    }

    #[test]
    fn another_model_is_not_taken_for_a_date_of_one() {
        for model in [
            "claude-opus-4-9",
            "claude-opus-6",
            "gpt-5-ultra",
            "gpt-5.4-pro",
            "gpt-4",
            "o1-pro",
            "o3-deep-research",
        ] {
            assert_eq!(input_price(model), None, "{model}");
        }
    }

    #[test]
    fn a_price_of_the_user_wins_and_the_longest_name_fits_best() {
        let mut prices = PriceTable::default();
        prices.set("gpt-4o", Rates::from_dollars(1.0, 2.0));
        prices.set("llama*", Rates::from_dollars(0.5, 0.5));
        prices.set("llama3:70b", Rates::from_dollars(0.9, 0.9));
        let input = |model| prices.price(model).map(|price| price.rates.input);
        assert_eq!(input("gpt-4o-2024-08-06"), Some(1_000_000));
        assert_eq!(input("llama3:8b"), Some(500_000));
        assert_eq!(input("meta/llama3:70b"), Some(900_000));
    }

    #[test]
    fn long_requests_cost_more_from_the_token_on_at_which_they_do() {
        let prices = PriceTable::default();
        let cost = |input| {
            let usage = TokenUsage {
                input,
                ..TokenUsage::default()
            };
            prices.cost_micros("gemini-2.5-pro", usage)
        };
        assert_eq!(cost(200_000), Some(250_000));
        assert_eq!(cost(200_001), Some(500_003));
    }

    #[test]
    fn parts_of_a_millionth_are_rounded_up_and_nothing_overflows() {
        let mut prices = PriceTable::empty();
        prices.set("x", Rates::from_dollars(0.000_001, f64::MAX));
        let usage = |input, output| TokenUsage {
            input,
            output,
            ..TokenUsage::default()
        };
        assert_eq!(prices.cost_micros("x", usage(1, 0)), Some(1));
        assert_eq!(prices.cost_micros("x", usage(u64::MAX, u64::MAX)), Some(u64::MAX));
        prices.set("x", Rates::from_dollars(-1.0, f64::NAN));
        assert_eq!(prices.cost_micros("x", usage(5, 5)), Some(0));
    }

    proptest! {
        /// No usage costs more than its reservation, however its tokens are cached.
        #[test]
        fn nothing_costs_more_than_the_worst_case(
            at in 0..PUBLISHED.len(),
            input in 0_u64..1_000_000,
            output in 0_u64..100_000,
            cached in 0_u64..1_200_000,
            written in 0_u64..1_200_000,
            spare in 0_u64..300_000,
        ) {
            let prices = PriceTable::default();
            let (model, ..) = PUBLISHED[at];
            let usage = TokenUsage { input, output, cached_input: cached, cache_write: written };
            let most = prices.worst_case(model, input + spare, output + spare).unwrap();
            let cost = prices.cost_micros(model, usage).unwrap();
            prop_assert!(cost <= most, "{model}: {usage:?} costs {cost} of {most}");
            // Each token is counted once, so with equal prices the cache makes no difference.
            let mut flat = PriceTable::empty();
            flat.set(model, Rates::from_dollars(1.0, 1.0));
            prop_assert_eq!(flat.cost_micros(model, usage), Some(input + output));
        }
    }
}
