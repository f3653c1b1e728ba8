//! Printing the report as text.

use std::collections::BTreeSet;

use orchestra_engine::stage_label;
use orchestra_sessions::{QuestionRow, SessionStatus, StageRow, StageState, ToolCallRow, TransitionRow};

use super::text::{TextReport, attempt_name};
use super::{MAX_ENTRIES, RunDetails};
use crate::error::CliError;
use crate::report::branches::short_sha;
use crate::report::rows::seq;
use crate::report::session::{run_duration, status_paint, usage_text};
use crate::runs::Runs;
use crate::terminal::format::{
    between, cost, date_time, indented, long_duration, now, one_line, short_duration, thousands, tokens,
};
use crate::terminal::table::{Cell, table};
use crate::terminal::{Paint, Terminal};

/// Maximum number of lines of an error.
const MAX_ERROR_LINES: usize = 100;

impl RunDetails {
    /// Prints the report as text. Shows only the latest part of a long path, unless `all` is set.
    pub(crate) fn print(&self, runs: &Runs, all: bool, terminal: &Terminal) -> Result<(), CliError> {
        let mut report = TextReport::new(terminal);
        self.header(runs, &mut report);
        self.path(all, &mut report)?;
        self.present_state(&mut report);
        self.nodes(&mut report);
        self.errors(&mut report);
        self.warnings(&mut report)?;
        for (words, command) in [
            ("resume with", &self.resume),
            ("begin again from before it with", &self.replay),
            ("retry with", &self.retry),
        ] {
            if let Some(command) = command {
                report.line("");
                report.line(&format!(
                    "{words}: {}",
                    terminal.paint_result(Paint::Bold, command)
                ));
            }
        }
        report.print();
        Ok(())
    }

    fn header(&self, runs: &Runs, report: &mut TextReport<'_>) {
        let session = &self.session;
        let summary = &session.summary;
        let status = report.paint(status_paint(session.status), session.status.word());
        let reason = summary
            .reason
            .as_deref()
            .map(|reason| format!(": {}", one_line(reason)));
        let simulated = if session.simulated { " (simulated)" } else { "" };
        let title = report.paint(Paint::Bold, &session.name);
        report.line(&format!("{title}  {}{simulated}", session.run));
        report.property("status", &format!("{status}{}", reason.unwrap_or_default()));
        report.property("goal", &one_line(&session.goal));
        report.property("file", &session.file);
        match &self.server {
            Some(server) => report.property("server", server),
            None => report.property("folder", &runs.display_path(&session.folder)),
        }
        if let Some(started) = summary.started {
            let duration = run_duration(session);
            let ended = summary.ended.map(|ended| format!(", ended {}", date_time(ended)));
            report.property(
                "started",
                &format!(
                    "{} UTC{}, took {duration}",
                    date_time(started),
                    ended.unwrap_or_default()
                ),
            );
        }
        if let Some(owner) = &self.owner {
            report.property("owner", &owner.to_string());
        }
        if let Some(from) = &summary.replayed_from {
            report.property("replay of", &format!("{} from {}", from.run, from.checkpoint));
        }
        let last = summary
            .checkpoint
            .as_deref()
            .map(|last| format!(", the last is {last}"));
        if self.server.is_none() {
            report.property(
                "checkpoints",
                &format!("{}{}", summary.checkpoints, last.unwrap_or_default()),
            );
        }
        report.property("used", &usage_text(summary.usage));
        let width = self.workspace.keys().map(String::len).max().unwrap_or(0);
        for (at, (name, state)) in self.workspace.iter().enumerate() {
            let sha = short_sha(&state.git_sha);
            let position = match (&state.merging, state.git_sha == state.base) {
                (Some(_), _) => format!("at {sha}, with a merge that is not finished"),
                (None, true) => "nothing changed".to_owned(),
                (None, false) => format!("at {sha}"),
            };
            let (branch, base) = (&state.branch, short_sha(&state.base));
            let key = if at == 0 { "works on" } else { "" };
            report.property(key, &format!("{name:<width$}  {branch} from {base}, {position}"));
        }
        let counts = [
            (summary.fencing_token.saturating_sub(1), "resumed"),
            (summary.restarts, "restarted"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts
            .map(|(count, word)| format!("{word} {count} times"))
            .collect();
        report.property("again", &counts.join(", "));
        if session.skipped_lines > 0 {
            let lines = session.skipped_lines;
            report.property(
                "unread",
                &format!("{lines} lines of `events.jsonl` could not be read"),
            );
        }
    }

    /// Prints the stages, tool calls and transitions in order.
    fn path(&self, all: bool, report: &mut TextReport<'_>) -> Result<(), CliError> {
        report.heading("path");
        let summary = &self.session.summary;
        let total = summary.stages + summary.transitions + summary.tool_calls;
        if all {
            let mut stages = self.path.each().peekable();
            let mut tools = self.tool_calls.each().peekable();
            let mut transitions = self.transitions.each().peekable();
            loop {
                let heads = [seq(stages.peek()), seq(tools.peek()), seq(transitions.peek())];
                let Some(next) = heads.into_iter().flatten().min() else {
                    return Ok(());
                };
                let entry = if seq(stages.peek()) == Some(next) {
                    stages.next().transpose()?.map(|(_, row)| Entry::Stage(row))
                } else if seq(tools.peek()) == Some(next) {
                    tools.next().transpose()?.map(|(_, row)| Entry::Tool(row))
                } else {
                    transitions
                        .next()
                        .transpose()?
                        .map(|(_, row)| Entry::Transition(row))
                };
                entry.iter().for_each(|entry| self.entry(entry, report));
            }
        }
        let mut entries: Vec<(u64, Entry)> = Vec::new();
        entries.extend(
            self.path
                .last(MAX_ENTRIES)?
                .into_iter()
                .map(|row| (row.seq, Entry::Stage(row))),
        );
        entries.extend(
            self.tool_calls
                .last(MAX_ENTRIES)?
                .into_iter()
                .map(|row| (row.seq, Entry::Tool(row))),
        );
        entries.extend(
            self.transitions
                .last(MAX_ENTRIES)?
                .into_iter()
                .map(|row| (row.seq, Entry::Transition(row))),
        );
        entries.sort_by_key(|(seq, _)| *seq);
        let first = entries.len().saturating_sub(MAX_ENTRIES);
        let omitted = total.saturating_sub(MAX_ENTRIES as u64);
        if omitted > 0 {
            let text = format!("  .. {} entries before, which `--all` shows", thousands(omitted));
            report.line(&report.paint(Paint::Dim, &text));
        }
        for (_, entry) in entries.iter().skip(first) {
            self.entry(entry, report);
        }
        Ok(())
    }

    fn entry(&self, entry: &Entry, report: &mut TextReport<'_>) {
        match entry {
            Entry::Stage(row) => report.stage(row, self.mark(row)),
            Entry::Tool(row) => report.tool(row),
            Entry::Transition(row) => report.transition(row),
        }
    }

    /// Returns the short state of an attempt and its colour.
    fn mark<'r>(&self, row: &'r StageRow) -> (&'r str, Paint) {
        let asks = |question: &QuestionRow| question.node == row.node && question.branch == row.branch;
        match (row.state, row.outcome.as_deref()) {
            (StageState::Completed, Some("success") | None) => ("ok", Paint::Good),
            (StageState::Completed, Some(word)) => (word, Paint::Good),
            (StageState::Failed, _) if row.will_retry => ("again", Paint::Bad),
            (StageState::Failed, _) => ("failed", Paint::Bad),
            _ if self.questions.iter().any(asks) && self.is_open(row) => ("asks", Paint::Warn),
            (StageState::Running, _) if self.is_running() => ("...", Paint::Bold),
            _ => ("cut", Paint::Warn),
        }
    }

    fn is_running(&self) -> bool {
        self.session.status == SessionStatus::Running
    }

    /// Prints the present state of the run.
    fn present_state(&self, report: &mut TextReport<'_>) {
        if !matches!(
            self.session.status,
            SessionStatus::Running | SessionStatus::Paused | SessionStatus::Interrupted
        ) {
            return;
        }
        let asking: BTreeSet<(&str, Option<&str>)> = self
            .questions
            .iter()
            .map(|question| (question.node.as_str(), question.branch.as_deref()))
            .collect();
        let mut lines = Vec::new();
        for row in &self.open {
            let asks = asking.contains(&(row.node.as_str(), row.branch.as_deref()));
            let pending = row.state == StageState::Running || !self.is_running();
            if !pending || asks {
                continue;
            }
            let name = attempt_name(row);
            let since = row.started.map(|started| long_duration(between(started, now())));
            lines.push(match (self.is_running(), since) {
                (true, Some(since)) => format!("{name} runs, since {since}"),
                (true, None) => format!("{name} runs"),
                (false, _) => format!("{name} was cut short, and runs again when the run goes on"),
            });
        }
        for question in &self.questions {
            let name = stage_label(question.branch.as_deref(), &question.node);
            // Show the complete text of a question.
            let text = indented(&question.text);
            let text = text.lines().map(str::trim_end);
            lines.extend(text.enumerate().map(|(at, line)| match at {
                0 => format!("{name} waits for an answer: {line}"),
                _ => line.to_owned(),
            }));
            if !question.options.is_empty() {
                let options: Vec<String> = question.options.iter().map(ToString::to_string).collect();
                lines.push(format!("    {}", options.join("  ")));
            }
            for withheld in &question.withheld {
                lines.push(format!("    withheld: {}", one_line(&withheld.to_string())));
            }
            if let Some(deadline) = question.deadline {
                let (until, left) = (date_time(deadline), long_duration(between(now(), deadline)));
                let until = format!("until {until} UTC, {left} left");
                let then = question
                    .default_option()
                    .map(|default| format!(", then `{default}` is taken"));
                lines.push(format!("    {until}{}", then.unwrap_or_default()));
            }
        }
        if lines.is_empty() {
            return;
        }
        report.heading("now");
        for line in lines {
            report.line(&format!("  {line}"));
        }
    }

    fn is_open(&self, row: &StageRow) -> bool {
        self.open.iter().any(|open| open.seq == row.seq)
    }

    fn nodes(&self, report: &mut TextReport<'_>) {
        if self.nodes.is_empty() {
            return;
        }
        let some = |number: u64| match number {
            0 => Cell::number(""),
            number => Cell::number(number),
        };
        let rows = self.nodes.iter().map(|node| {
            vec![
                Cell::text(format!("  {}", node.node)),
                Cell::number(node.attempts),
                some(node.failures),
                some(node.repeats),
                some(node.tool_calls),
                Cell::number(short_duration(node.duration)),
                Cell::number(tokens(node.usage)),
                Cell::number(cost(node.usage)),
                Cell::text(node.outcome.clone().unwrap_or_default()),
            ]
        });
        let head = [
            "  NODE", "ATTEMPTS", "FAILED", "REPEATED", "TOOLS", "TIME", "TOKENS", "COST", "OUTCOME",
        ];
        report.heading("nodes");
        report.line(&table(report.terminal, &head, rows.collect()));
    }

    fn warnings(&self, report: &mut TextReport<'_>) -> Result<(), CliError> {
        let warnings = self.warnings.last(MAX_ENTRIES)?;
        if !warnings.is_empty() {
            report.heading("warnings");
        }
        for warning in &warnings {
            let node = warning.node.as_ref().map(|node| format!("{node}: "));
            let message = indented(&warning.message);
            report.line(&format!("  {}{message}", node.unwrap_or_default()));
        }
        Ok(())
    }

    fn errors(&self, report: &mut TextReport<'_>) {
        if self.failed.is_empty() {
            return;
        }
        report.heading("errors");
        for row in &self.failed {
            let then = if row.will_retry { ", tried again" } else { "" };
            report.line(&format!("  {}{then}", attempt_name(row)));
            let error = row.error.as_deref().unwrap_or_default();
            for line in error.lines().take(MAX_ERROR_LINES) {
                report.line(&format!("      {line}"));
            }
            let more = error.lines().count().saturating_sub(MAX_ERROR_LINES);
            if more > 0 {
                let text = format!("      .. {more} more lines, which `status --json` shows");
                report.line(&report.paint(Paint::Dim, &text));
            }
        }
    }
}

/// An entry on the path of a run.
enum Entry {
    Stage(StageRow),
    Tool(ToolCallRow),
    Transition(TransitionRow),
}
