//! Attempts at a stage (rules Y1 to Y5, Y7) and what is kept of their outcome.

use serde_json::{Value, json};

use super::{Line, Rules, Stop, attribute, count, number};
use crate::description::{Attributes, Category};
use crate::trace::{Delay, End, Recorded, Step, Values};

/// An outcome, as the rules see it.
#[derive(Clone, Default)]
pub(super) struct StageResult {
    pub(super) word: String,
    pub(super) preferred_label: String,
    pub(super) suggested: Vec<String>,
    pub(super) updates: Values,
    pub(super) reason: String,
    pub(super) notes: String,
    pub(super) category: Category,
    pub(super) retry_after: Option<u64>,
}

impl StageResult {
    pub(super) fn word(word: &str) -> StageResult {
        StageResult {
            word: word.to_owned(),
            ..StageResult::default()
        }
    }

    pub(super) fn fail(reason: impl Into<String>) -> StageResult {
        StageResult {
            reason: reason.into(),
            ..StageResult::word("fail")
        }
    }

    pub(super) fn terminal(reason: &str) -> StageResult {
        StageResult {
            category: Category::Terminal,
            ..StageResult::fail(reason)
        }
    }
}

/// How often and after which delays a node is tried.
struct Policy {
    attempts: u32,
    initial: f64,
    factor: f64,
    most: f64,
    jitter: bool,
}

impl Policy {
    /// Attempts, first delay in milliseconds and factor of a preset (Attractor 3.6).
    fn preset(name: &str) -> (u32, f64, f64) {
        match name {
            "none" => (1, 0.0, 1.0),
            "standard" => (5, 200.0, 2.0),
            "aggressive" => (5, 500.0, 2.0),
            "linear" => (3, 500.0, 1.0),
            "patient" => (3, 2000.0, 3.0),
            other => panic!("`{other}` is not a policy"),
        }
    }

    /// The delay after a failed attempt (rule Y4).
    fn delay(&self, attempt: u32) -> Delay {
        let mut delay = self.initial;
        for _ in 1..attempt {
            delay *= self.factor;
        }
        delay = delay.min(self.most);
        let (least, most) = if self.jitter {
            (delay * 0.5, delay * 1.5)
        } else {
            (delay, delay)
        };
        Delay {
            least: least.round() as u64,
            most: most.round() as u64,
        }
    }
}

/// The first of some attributes that is set; the second name is another spelling.
fn either<'a>(attributes: &'a Attributes, names: [&str; 2]) -> Option<&'a str> {
    names
        .iter()
        .find_map(|name| attributes.get(*name))
        .map(String::as_str)
}

/// A duration in milliseconds.
pub(super) fn millis(text: &str) -> f64 {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1.0,
        "s" => 1_000.0,
        "m" => 60_000.0,
        other => panic!("`{other}` is not a unit of the generator's"),
    };
    digits.parse::<f64>().unwrap() * unit
}

impl Rules<'_> {
    /// Rules Y1 and Y3. What a graph says for all nodes is not said for whole blocks.
    fn policy(&self, at: &str) -> Policy {
        let own = self.graph.attributes_of(at);
        let nothing = Attributes::new();
        let common = if self.graph.is_fan_out(at) {
            &nothing
        } else {
            &self.graph.attributes
        };
        let names = ["retry_policy", "backoff_policy"];
        let own_preset = either(own, names).map(Policy::preset);
        let common_preset = either(common, names).map(Policy::preset);
        let own_retries = number(own, "max_retries");
        let common_retries = either(common, ["default_max_retries", "default_max_retry"]);
        let attempts = if let Some(retries) = own_retries {
            retries + 1
        } else if let Some((attempts, ..)) = own_preset {
            attempts
        } else if let Some(retries) = common_retries {
            retries.parse::<u32>().unwrap() + 1
        } else if let Some((attempts, ..)) = common_preset {
            attempts
        } else {
            1
        };
        let (_, initial, factor) = own_preset
            .or(common_preset)
            .unwrap_or_else(|| Policy::preset("standard"));
        let value = |name: &str| own.get(name).or(common.get(name));
        Policy {
            attempts,
            initial: value("retry_initial_delay").map_or(initial, |text| millis(text)),
            factor: value("retry_backoff_factor").map_or(factor, |text| text.parse().unwrap()),
            most: value("retry_max_delay").map_or(60_000.0, |text| millis(text)),
            jitter: value("retry_jitter").is_none_or(|text| text == "true"),
        }
    }

    /// Runs a stage until an outcome is final.
    pub(super) fn work(&self, line: &mut Line, at: &str) -> Result<(), Stop> {
        let policy = self.policy(at);
        let key = format!("internal.retry_count.{at}");
        let mut attempt = 1;
        loop {
            let name = self.name(line, at, attempt);
            line.say(Step::Start(name.clone()));
            let mut said = if self.graph.is_fan_out(at) {
                self.block(line, at, attempt)?
            } else if self.graph.is_gate(at) {
                self.ask(line, at, attempt)?
            } else {
                self.call_handler(line, at, attempt)?
            };
            let failed = ["fail", "retry"].contains(&said.word.as_str());
            if failed {
                line.err(at, attempt, &said.reason);
            }
            let retryable = said.category == Category::Retryable;
            if failed && retryable && attempt < policy.attempts {
                let delay = match said.retry_after {
                    Some(wanted) => Delay {
                        least: wanted.min(60_000),
                        most: wanted.min(60_000),
                    },
                    None => policy.delay(attempt),
                };
                line.say(Step::Outcome {
                    name,
                    word: said.word,
                    reason: said.reason,
                    again: true,
                });
                line.set(&key, attempt);
                count(&mut line.retries, at.to_owned(), 1);
                attempt += 1;
                let name = self.name(line, at, attempt);
                line.say(Step::Wait {
                    name: name.clone(),
                    attempts: policy.attempts,
                    delay,
                });
                self.wait(line, "timer", &name)?;
                continue;
            }
            if failed {
                self.exhaust(at, policy.attempts, &mut said);
            }
            if said.word != "fail" {
                line.context.remove(&key);
            }
            return self.keep(line, at, &name, said);
        }
    }

    /// Has a handler called.
    fn call_handler(&self, line: &mut Line, at: &str, attempt: u32) -> Result<StageResult, Stop> {
        let name = self.name(line, at, attempt);
        let mut context = line.context.clone();
        context.retain(|key, _| !key.starts_with("graph."));
        line.say(Step::Run {
            name: name.clone(),
            context,
        });
        self.wait(line, "run", &name)?;
        let said = self.script.outcome(at, self.call(line, at, attempt));
        Ok(StageResult {
            word: said.word,
            preferred_label: said.preferred_label,
            suggested: said.suggested,
            updates: said.updates,
            reason: said.reason,
            notes: said.notes,
            category: said.category,
            retry_after: said.retry_after,
        })
    }

    /// Rule Y5: no other attempt follows.
    fn exhaust(&self, at: &str, attempts: u32, said: &mut StageResult) {
        let wished = said.word == "retry";
        if wished && said.reason.is_empty() {
            said.reason = "the stage asked for a retry, but none is left".to_owned();
        }
        // Silence is no answer, not even in part (rule H3).
        let partial =
            attribute(self.graph.attributes_of(at), "allow_partial") == "true" && !self.graph.is_gate(at);
        let spent = said.category == Category::Retryable && (wished || attempts > 1);
        said.word = "fail".to_owned();
        if partial && spent {
            said.word = "partial_success".to_owned();
            if said.notes.is_empty() {
                said.notes = "retries exhausted, partial success accepted".to_owned();
            }
        }
    }

    /// Keeps a final outcome; gives the end if the breaker of rule R10 trips, or if the pipeline is at fault.
    fn keep(&self, line: &mut Line, at: &str, name: &str, said: StageResult) -> Result<(), Stop> {
        let failed = said.word == "fail";
        line.path.push(at.to_owned());
        for (key, value) in &said.updates {
            line.set(key, value.clone());
            line.updates.insert(key.clone(), value.clone());
        }
        let seen = if failed { said.reason.as_str() } else { "" };
        line.learn(at, &said.word, &said.preferred_label, &said.suggested, seen);
        line.last.output = said.updates.clone();
        if said.word != "skipped" {
            let notes = if said.notes.is_empty() {
                said.reason.clone()
            } else {
                said.notes.clone()
            };
            let word = said.word.clone();
            let record = line.record(at);
            line.outcomes
                .insert(at.to_owned(), Recorded { word, notes, record });
        }
        line.say(Step::Outcome {
            name: name.to_owned(),
            word: said.word.clone(),
            reason: said.reason.clone(),
            again: false,
        });
        if !failed {
            line.streaks.remove(at);
            return Ok(());
        }
        let reason = said.reason;
        line.last_failure = format!("stage `{at}` failed: {}", or_unsaid(&reason));
        let streak = match line.streaks.get(at) {
            Some((before, streak)) if *before == reason => streak + 1,
            _ => 1,
        };
        line.streaks.insert(at.to_owned(), (reason.clone(), streak));
        let bound = number(&self.graph.attributes, "failure_breaker").unwrap_or(0);
        let node = at.to_owned();
        if bound > 0 && streak >= bound {
            return Err(Stop::Abort(End::FailureBreaker {
                node,
                reason,
                count: streak,
            }));
        }
        Ok(())
    }
}

impl Line {
    /// Rule Y7: the reason of a failed attempt is kept.
    fn err(&mut self, at: &str, attempt: u32, reason: &str) {
        let visit = self.visits[at];
        self.errors
            .push((at.to_owned(), visit, attempt, reason.to_owned()));
        self.append_error(at, reason);
    }

    pub(super) fn append_error(&mut self, at: &str, reason: &str) {
        let history = self
            .context
            .entry("error_history".to_owned())
            .or_insert(json!([]));
        if let Value::Array(history) = history {
            history.push(format!("{at}: {}", or_unsaid(reason)).into());
        }
    }
}

pub(super) fn or_unsaid(reason: &str) -> &str {
    match reason {
        "" => "no reason was given",
        reason => reason,
    }
}
