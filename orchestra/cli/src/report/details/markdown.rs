//! The report of a run in Markdown, for the summary of a job.

use std::fmt::Write as _;

use orchestra_sessions::{SessionStatus, StageRow, StageState};

use super::text::attempt_name;
use super::{MAX_ENTRIES, RunDetails};
use crate::error::CliError;
use crate::report::session::{run_duration, usage_text};
use crate::terminal::format::{cost, one_line, short_duration, thousands, tokens};

/// Maximum number of failed attempts that are shown with their errors.
const MAX_ERRORS: usize = 10;

/// Maximum number of characters of an error. The end says most.
const MAX_ERROR: usize = 4_000;

impl RunDetails {
    /// Returns the report in Markdown: the status, the cost, the failed stages, and the latest part of the path.
    ///
    /// # Errors
    ///
    /// Returns an error if the index cannot be read.
    pub(crate) fn markdown(&self) -> Result<String, CliError> {
        let mut text = String::new();
        self.overview(&mut text);
        self.failures(&mut text);
        self.waiting(&mut text);
        self.attempts(&mut text)?;
        Ok(text)
    }

    fn overview(&self, text: &mut String) {
        let session = &self.session;
        let summary = &session.summary;
        let simulated = if session.simulated { " (simulated)" } else { "" };
        let (name, status) = (escaped(&session.name), session.status.word());
        line(text, &format!("## {name}: {status}{simulated}\n"));
        if let Some(reason) = &summary.reason {
            line(text, &format!("{}\n", escaped(&one_line(reason))));
        }
        line(text, "| | |\n|---|---|");
        let mut row = |key: &str, value: String| {
            if !value.is_empty() {
                line(text, &format!("| {key} | {value} |"));
            }
        };
        row("Run", code(&session.run));
        row("Pipeline", code(&session.file));
        row("Took", run_duration(session));
        row("Attempts", thousands(summary.stages));
        row("Used", usage_text(summary.usage));
        let failed_at = self.failed_at.as_deref().map(escaped);
        row("Failed at", failed_at.unwrap_or_default());
    }

    fn failures(&self, text: &mut String) {
        if self.failed.is_empty() {
            return;
        }
        line(text, "\n### Failed attempts");
        let before = self.failed.len().saturating_sub(MAX_ERRORS);
        if before > 0 {
            line(text, &format!("\nThe latest {MAX_ERRORS}."));
        }
        for row in self.failed.iter().skip(before) {
            let then = if row.will_retry { ", tried again" } else { "" };
            line(text, &format!("\n**{}**{then}\n", escaped(&attempt_name(row))));
            line(text, &fenced(end_of(row.error.as_deref().unwrap_or_default())));
        }
    }

    fn waiting(&self, text: &mut String) {
        for question in &self.questions {
            line(
                text,
                &format!("\n### {} waits for an answer\n", escaped(&question.node)),
            );
            line(text, &fenced(end_of(&question.text)));
        }
        if let Some(resume) = &self.resume {
            line(text, &format!("\nResume with:\n\n{}", fenced(resume)));
        }
    }

    fn attempts(&self, text: &mut String) -> Result<(), CliError> {
        let rows = self.path.last(MAX_ENTRIES)?;
        if rows.is_empty() {
            return Ok(());
        }
        line(text, "\n### Path\n");
        let before = self.session.summary.stages.saturating_sub(rows.len() as u64);
        if before > 0 {
            line(
                text,
                &format!("{} attempts before are left out.\n", thousands(before)),
            );
        }
        line(
            text,
            "| Stage | Outcome | Took | Tokens | Cost |\n|---|---|--:|--:|--:|",
        );
        for row in &rows {
            let took = row.duration.map(short_duration).unwrap_or_default();
            line(
                text,
                &format!(
                    "| {} | {} | {took} | {} | {} |",
                    escaped(&attempt_name(row)),
                    escaped(self.outcome(row)),
                    tokens(row.usage),
                    cost(row.usage),
                ),
            );
        }
        Ok(())
    }

    fn outcome<'r>(&self, row: &'r StageRow) -> &'r str {
        match (row.state, row.outcome.as_deref()) {
            (StageState::Completed, outcome) => outcome.unwrap_or("success"),
            (StageState::Failed, _) if row.will_retry => "failed, tried again",
            (StageState::Failed, _) => "failed",
            (StageState::Running, _) if self.session.status == SessionStatus::Running => "runs",
            _ => "interrupted",
        }
    }
}

fn line(text: &mut String, line: &str) {
    let _ = writeln!(text, "{line}");
}

/// Returns a text that Markdown shows as it is, in one line.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => shown.push_str("&lt;"),
            '&' => shown.push_str("&amp;"),
            '\r' | '\n' => shown.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' | '>' => {
                shown.push('\\');
                shown.push(character);
            }
            _ => shown.push(character),
        }
    }
    shown
}

/// Returns a name as code in a table.
fn code(text: &str) -> String {
    if text.contains(['`', '|', '\n']) {
        escaped(text)
    } else {
        format!("`{text}`")
    }
}

/// Returns a text as a block that it cannot end.
fn fenced(text: &str) -> String {
    let longest = text.split(|character| character != '`').map(str::len).max();
    let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
    format!("{fence}text\n{}\n{fence}", text.trim_end())
}

/// Returns the end of a long text.
fn end_of(text: &str) -> &str {
    let count = text.chars().count();
    let start = text.char_indices().nth(count.saturating_sub(MAX_ERROR));
    start.map_or("", |(at, _)| text.get(at..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(
            escaped("a|b\n<img src=x> [x](y) `c` **d** &amp;"),
            "a\\|b &lt;img src=x\\> \\[x\\](y) \\`c\\` \\*\\*d\\*\\* &amp;amp;"
        );
        assert_eq!(fenced("a"), "```text\na\n```");
        assert_eq!(fenced("```\n<b>\n`````\n"), "``````text\n```\n<b>\n`````\n``````");
        assert_eq!(code("a.dot"), "`a.dot`");
        assert_eq!(code("a`b"), "a\\`b");
        assert_eq!(end_of(""), "");
        assert_eq!(end_of("short"), "short");
        let long = format!("{}é", "x".repeat(MAX_ERROR));
        assert_eq!(end_of(&long).chars().count(), MAX_ERROR);
        assert!(end_of(&long).ends_with('é'));
    }
}
