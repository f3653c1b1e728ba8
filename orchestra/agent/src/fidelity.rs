//! What a model is told of the run before its stage, within the tokens that its fidelity allows (Attractor 5.4).

use orchestra_engine::{Context, Fidelity, PastStage, Surroundings};
use serde_json::Value;

use crate::tokens::count_tokens;

/// The keys of the context that say nothing to a model, or that it is told otherwise.
const SILENT: &[&str] = &[
    "current_node",
    "error_history",
    "last_stage",
    "outcome",
    "preferred_label",
];
/// The beginnings of keys that are the engine's own.
const SILENT_PREFIXES: &[&str] = &[
    "graph.",
    "internal.",
    "parallel.",
    "stack.",
    "work.",
    "workspace.",
];

/// How many tokens a model is told at most of what came before; `None` where it is told all.
///
/// ```
/// use orchestra_agent::fidelity_budget;
/// use orchestra_engine::Fidelity;
/// assert_eq!(fidelity_budget(Fidelity::SummaryLow), Some(600));
/// assert_eq!(fidelity_budget(Fidelity::Full), None);
/// ```
pub const fn fidelity_budget(fidelity: Fidelity) -> Option<u64> {
    match fidelity {
        Fidelity::Full => None,
        Fidelity::Truncate => Some(150),
        Fidelity::Compact => Some(1_000),
        Fidelity::SummaryLow => Some(600),
        Fidelity::SummaryMedium => Some(1_500),
        Fidelity::SummaryHigh => Some(3_000),
    }
}

/// How much of each thing a fidelity tells.
struct Shares {
    /// The characters of a note, a reason or a value.
    excerpt: usize,
    /// The share of the tokens for stages, values, failures and tools, in hundredths.
    stages: u64,
    values: u64,
    failures: u64,
    tools: u64,
}

/// The text that tells a model what came before its stage. Without an end it has at most as many tokens as
/// [`fidelity_budget`] says, counted by [`count_tokens`](crate::count_tokens). Empty for `full`.
pub(crate) fn preamble(
    fidelity: Fidelity,
    around: &Surroundings,
    goal: &str,
    run: &str,
    context: &Context,
) -> String {
    let Some(budget) = fidelity_budget(fidelity) else {
        return String::new();
    };
    let mut page = Page::new(budget);
    page.line("# Where you are");
    page.line("");
    let goal_room = if fidelity == Fidelity::Truncate {
        400
    } else {
        1_000
    };
    if !goal.trim().is_empty() {
        page.line(&format!("Goal: {}", excerpt(goal, goal_room)));
    }
    page.line(&format!("Run: {run}"));
    if fidelity == Fidelity::Truncate {
        return page.finish();
    }
    let shares = match fidelity {
        Fidelity::SummaryLow => Shares {
            excerpt: 160,
            stages: 42,
            values: 40,
            failures: 10,
            tools: 0,
        },
        Fidelity::SummaryMedium => Shares {
            excerpt: 300,
            stages: 45,
            values: 35,
            failures: 12,
            tools: 0,
        },
        Fidelity::SummaryHigh => Shares {
            excerpt: 800,
            stages: 45,
            values: 30,
            failures: 10,
            tools: 10,
        },
        _ => Shares {
            excerpt: 200,
            stages: 50,
            values: 40,
            failures: 0,
            tools: 0,
        },
    };
    if fidelity != Fidelity::Compact {
        page.line(&counts(around));
    }
    page.section(
        "Stages so far",
        budget * shares.stages / 100,
        stages(around, &shares),
        true,
    );
    page.section(
        "Values",
        budget * shares.values / 100,
        values(context, &shares),
        false,
    );
    let failures = around
        .failures
        .iter()
        .map(|failure| format!("- {}", excerpt(failure, shares.excerpt)));
    page.section(
        "Failed attempts",
        budget * shares.failures / 100,
        failures.collect(),
        true,
    );
    let tools = around.tools.iter().map(|tally| {
        let failed = match tally.failures {
            0 => String::new(),
            failures => format!(", {failures} of them failed"),
        };
        format!(
            "- {} called {} {} times{failed}",
            tally.node, tally.tool, tally.calls
        )
    });
    page.section("Tools used", budget * shares.tools / 100, tools.collect(), false);
    page.finish()
}

fn counts(around: &Surroundings) -> String {
    let failed = around.failures.len();
    let last = around
        .stages
        .last()
        .map_or(String::new(), |last| format!(" The last was `{}`.", last.node));
    let attempts = match failed {
        0 => String::new(),
        1 => " One attempt failed.".to_owned(),
        failed => format!(" {failed} attempts failed."),
    };
    format!("{} stages have ended.{last}{attempts}", around.stages_in_all)
}

fn stages(around: &Surroundings, shares: &Shares) -> Vec<String> {
    let line = |stage: &PastStage| {
        let status = stage.status.as_ref().map_or("ended", |status| status.word());
        // What the engine notes of every stage says no more than its status.
        let usual = format!("Stage completed: {}", stage.node);
        let notes = stage.notes.as_deref().map(str::trim);
        match notes.filter(|notes| !notes.is_empty() && *notes != usual) {
            Some(notes) => format!("- {}: {status}. {}", stage.node, excerpt(notes, shares.excerpt)),
            None => format!("- {}: {status}", stage.node),
        }
    };
    around.stages.iter().map(line).collect()
}

fn values(context: &Context, shares: &Shares) -> Vec<String> {
    let told = context.iter().filter(|(key, value)| {
        let silent = SILENT.contains(key) || SILENT_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
        !silent && !value.is_null() && value.as_str() != Some("")
    });
    told.map(|(key, value)| {
        let text = match value {
            Value::String(text) => excerpt(text, shares.excerpt),
            other => excerpt(&other.to_string(), shares.excerpt),
        };
        format!("- {key}: {text}")
    })
    .collect()
}

/// The beginning of a text in one line.
pub(crate) fn excerpt(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(limit) {
        Some((at, _)) => format!("{} [...]", line.get(..at).unwrap_or_default().trim_end()),
        None => line,
    }
}

/// A text that grows line by line, within its tokens.
struct Page {
    lines: Vec<String>,
    budget: u64,
    used: u64,
}

/// What the blank line, the heading and the line of what is left out take at most.
const FRAME: u64 = 30;

impl Page {
    fn new(budget: u64) -> Page {
        Page {
            lines: Vec::new(),
            budget,
            used: 0,
        }
    }

    fn line(&mut self, line: &str) {
        let tokens = count_tokens(line) + 1;
        if self.used + tokens <= self.budget {
            self.used += tokens;
            self.lines.push(line.to_owned());
        }
    }

    /// Adds as many lines as fit, the last ones where the latest counts most, and says how many do not.
    fn section(&mut self, heading: &str, share: u64, lines: Vec<String>, latest: bool) {
        let room = share.min(self.budget.saturating_sub(self.used));
        if lines.is_empty() || room <= FRAME {
            return;
        }
        let mut left = room - FRAME;
        let fits = |line: &&String| {
            let tokens = count_tokens(line) + 1;
            let fits = tokens <= left;
            left = left.saturating_sub(tokens);
            fits
        };
        let mut kept: Vec<&String> = match latest {
            true => lines.iter().rev().take_while(fits).collect(),
            false => lines.iter().take_while(fits).collect(),
        };
        if latest {
            kept.reverse();
        }
        let (missing, kept) = (
            lines.len() - kept.len(),
            kept.into_iter().cloned().collect::<Vec<_>>(),
        );
        if kept.is_empty() {
            return;
        }
        self.line("");
        self.line(&format!("## {heading}"));
        self.line("");
        if missing > 0 && latest {
            self.line(&format!("- [{missing} earlier ones are left out]"));
        }
        kept.iter().for_each(|line| self.line(line));
        if missing > 0 && !latest {
            self.line(&format!("- [{missing} more are left out]"));
        }
    }

    fn finish(mut self) -> String {
        // Lines put together may have a token more than each alone.
        while count_tokens(&self.lines.join("\n")) > self.budget && self.lines.pop().is_some() {}
        self.lines.join("\n")
    }
}
