//! The detailed report of one run: its path with all attempts, the reason of each transition, its usage, and its
//! present state.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::rc::Rc;

use orchestra_engine::{EventKind, EventLine, Owner, RunEvent, RunFolder, TestedCondition, WithheldOption};
use orchestra_graph::Rule;
use orchestra_sessions::{
    NodeTotals, Session, SessionIndex, SessionStatus, StageRow, StageState, ToolCallRow, TransitionRow,
};
use serde::Serialize;
use serde_json::Value;

use crate::commands::status::{failed_at, paint, stands, took, used};
use crate::console::indented;
use crate::error::CliError;
use crate::finish::Stopped;
use crate::layout::{Cell, between, clock, cost, long, moment, now, table, thousands, tokens};
use crate::progress::{named, one_line, time};
use crate::rows::{Rows, seq};
use crate::runs::Runs;
use crate::terminal::{Paint, Terminal};
use crate::waiting::{Open, Waiting};
use crate::workspace::{BranchStates, branches, short};

/// Maximum number of path entries without `--all`; the latest ones are shown.
const MOST: usize = 200;

/// Maximum number of lines of an error.
const MOST_LINES: usize = 100;

/// The complete report of a run.
#[derive(Serialize)]
pub(crate) struct Depth {
    #[serde(flatten)]
    session: Session,
    owner: Option<Owner>,
    path: Rows<StageRow>,
    transitions: Rows<TransitionRow>,
    tool_calls: Rows<ToolCallRow>,
    nodes: Vec<NodeTotals>,
    questions: Vec<Asked>,
    /// The attempts that are in progress, or were interrupted.
    #[serde(skip)]
    open: Vec<StageRow>,
    /// The latest failed attempts.
    #[serde(skip)]
    failed: Vec<StageRow>,
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    warnings: VecDeque<Warned>,
    #[serde(skip_serializing_if = "BranchStates::is_empty")]
    workspace: BranchStates,
    /// The command that resumes the run, if it can be resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<String>,
    /// The node at which the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_at: Option<String>,
    /// The command that retries the run, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<String>,
    /// The command that replays the run from before its failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<String>,
}

/// A warning about a part of a stage's outcome that the engine dropped.
#[derive(Serialize)]
struct Warned {
    node: String,
    branch: Option<String>,
    code: String,
    message: String,
    keys: Vec<String>,
}

impl Warned {
    fn from_event(event: &RunEvent) -> Option<Warned> {
        match &event.kind {
            EventKind::StageWarning {
                node,
                branch,
                code,
                message,
                keys,
            } => Some(Warned {
                node: node.to_string(),
                branch: branch.clone(),
                code: code.clone(),
                message: message.clone(),
                keys: keys.clone(),
            }),
            _ => None,
        }
    }
}

/// A question that waits for an answer.
#[derive(Serialize)]
struct Asked {
    node: String,
    branch: Option<String>,
    text: String,
    options: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    withheld: Vec<WithheldOption>,
    asked: String,
    deadline: Option<String>,
    default: Option<String>,
    /// The deadline in the form for people.
    #[serde(skip)]
    until: Option<String>,
}

impl Asked {
    fn from_open(open: &Open) -> Asked {
        let question = &open.question;
        let default = question
            .options
            .iter()
            .find(|option| Some(&option.key) == question.default.as_ref());
        Asked {
            node: open.node.clone(),
            branch: open.branch.clone(),
            text: question.text.clone(),
            options: question.options.iter().map(ToString::to_string).collect(),
            withheld: question.withheld.clone(),
            asked: open.asked.to_string(),
            deadline: open.deadline().map(|deadline| deadline.to_string()),
            default: default.map(ToString::to_string),
            until: open
                .deadline()
                .zip(open.left(now()))
                .map(|(deadline, left)| format!("until {} UTC, {} left", moment(deadline), long(left))),
        }
    }
}

impl Depth {
    /// Reads the report of a run. Keeps only the latest warnings, unless `whole` is set.
    ///
    /// # Errors
    ///
    /// Returns an error if the run folder or the index cannot be read.
    pub(crate) fn new(runs: &Runs, folder: &Path, whole: bool) -> Result<Depth, CliError> {
        let run = RunFolder::open(folder)?;
        let (index, name) = runs.index_of(folder)?;
        let index = Rc::new(index);
        let session = stands(index.run(&name)?);
        let waits = matches!(
            session.status,
            SessionStatus::Running | SessionStatus::Paused | SessionStatus::Interrupted
        );
        let mut waiting = Waiting::default();
        let mut warnings = VecDeque::new();
        let mut snapshot = None;
        run.each_event(|line| {
            match line.name() {
                Some("StageWarning") => warnings.extend(line.event().as_ref().and_then(Warned::from_event)),
                Some("SnapshotSaved") => snapshot = saved(line, &run.manifest().run).or(snapshot.take()),
                _ => {}
            }
            if !whole && warnings.len() > MOST {
                warnings.pop_front();
            }
            if waits {
                waiting.line(line);
            }
        })?;
        let workspace = match run.manifest().workspace {
            Some(_) => branches(run.manifest(), snapshot.as_ref()),
            None => BranchStates::new(),
        };
        let stopped = Stopped::in_folder(runs, Some(folder));
        let (resume, replay) = match session.status {
            SessionStatus::Paused | SessionStatus::Interrupted => (stopped.resume(), None),
            SessionStatus::Fail | SessionStatus::Cancelled => (
                None,
                stopped.replay(session.code.as_deref(), session.node.as_deref()),
            ),
            _ => (None, None),
        };
        Ok(Depth {
            owner: run.owner()?,
            nodes: index.node_totals(&name)?,
            open: index.open_stages(&name)?,
            failed: index.failed_stages(&name, MOST)?,
            path: Rows::new(&index, &name, SessionIndex::stages_in, |row| row.seq),
            transitions: Rows::new(&index, &name, SessionIndex::transitions_in, |row| row.seq),
            tool_calls: Rows::new(&index, &name, SessionIndex::tool_calls_in, |row| row.seq),
            questions: waiting.iter().map(Asked::from_open).collect(),
            warnings,
            workspace,
            resume,
            failed_at: failed_at(&session),
            retry: match session.status {
                SessionStatus::Fail => stopped.retry(session.code.as_deref()),
                _ => None,
            },
            replay,
            session,
        })
    }

    /// Prints the report as text. Shows only the latest part of a long path, unless `all` is set.
    pub(crate) fn print(&self, runs: &Runs, all: bool, terminal: &Terminal) -> Result<(), CliError> {
        let mut sheet = Sheet {
            terminal,
            text: String::new(),
        };
        self.head(runs, &mut sheet);
        self.path(all, &mut sheet)?;
        self.standing(&mut sheet);
        self.nodes(&mut sheet);
        self.errors(&mut sheet);
        self.warnings(&mut sheet);
        for (words, command) in [
            ("resume with", &self.resume),
            ("begin again from before it with", &self.replay),
            ("retry with", &self.retry),
        ] {
            if let Some(command) = command {
                sheet.line("");
                sheet.line(&format!(
                    "{words}: {}",
                    terminal.paint_result(Paint::Bold, command)
                ));
            }
        }
        sheet.print();
        Ok(())
    }

    fn head(&self, runs: &Runs, sheet: &mut Sheet<'_>) {
        let session = &self.session;
        let status = sheet.paint(paint(session.status), session.status.word());
        let reason = session
            .reason
            .as_deref()
            .map(|reason| format!(": {}", one_line(reason)));
        let simulated = if session.simulated { " (simulated)" } else { "" };
        let title = sheet.paint(Paint::Bold, &session.name);
        sheet.line(&format!("{title}  {}{simulated}", session.run));
        sheet.fact("status", &format!("{status}{}", reason.unwrap_or_default()));
        sheet.fact("goal", &one_line(&session.goal));
        sheet.fact("file", &session.file);
        sheet.fact("folder", &runs.shown(&session.folder));
        if let Some(started) = session.started {
            let took = took(session);
            let ended = session.ended.map(|ended| format!(", ended {}", moment(ended)));
            sheet.fact(
                "started",
                &format!(
                    "{} UTC{}, took {took}",
                    moment(started),
                    ended.unwrap_or_default()
                ),
            );
        }
        if let Some(owner) = &self.owner {
            sheet.fact("owner", &owner.to_string());
        }
        if let Some(from) = &session.replayed_from {
            sheet.fact("replay of", &format!("{} from {}", from.run, from.checkpoint));
        }
        let last = session
            .checkpoint
            .as_deref()
            .map(|last| format!(", the last is {last}"));
        sheet.fact(
            "checkpoints",
            &format!("{}{}", session.checkpoints, last.unwrap_or_default()),
        );
        sheet.fact("used", &used(session.usage));
        let width = self.workspace.keys().map(String::len).max().unwrap_or(0);
        for (at, (name, state)) in self.workspace.iter().enumerate() {
            let stands = match (&state.merging, state.git_sha == state.base) {
                (Some(_), _) => format!("at {}, with a merge that is not finished", short(&state.git_sha)),
                (None, true) => "nothing changed".to_owned(),
                (None, false) => format!("at {}", short(&state.git_sha)),
            };
            let (branch, base) = (&state.branch, short(&state.base));
            let key = if at == 0 { "works on" } else { "" };
            sheet.fact(key, &format!("{name:<width$}  {branch} from {base}, {stands}"));
        }
        let counts = [
            (session.fencing_token.saturating_sub(1), "resumed"),
            (session.restarts, "restarted"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts
            .map(|(count, word)| format!("{word} {count} times"))
            .collect();
        sheet.fact("again", &counts.join(", "));
        if session.skipped_lines > 0 {
            let lines = session.skipped_lines;
            sheet.fact(
                "unread",
                &format!("{lines} lines of `events.jsonl` could not be read"),
            );
        }
    }

    /// Prints the stages, tool calls and transitions in order.
    fn path(&self, all: bool, sheet: &mut Sheet<'_>) -> Result<(), CliError> {
        sheet.heading("path");
        let total = self.session.stages + self.session.transitions + self.session.tool_calls;
        if all {
            let mut stages = self.path.each().peekable();
            let mut tools = self.tool_calls.each().peekable();
            let mut ways = self.transitions.each().peekable();
            loop {
                let heads = [seq(stages.peek()), seq(tools.peek()), seq(ways.peek())];
                let Some(next) = heads.into_iter().flatten().min() else {
                    return Ok(());
                };
                let entry = if seq(stages.peek()) == Some(next) {
                    stages.next().transpose()?.map(|(_, row)| Entry::Stage(row))
                } else if seq(tools.peek()) == Some(next) {
                    tools.next().transpose()?.map(|(_, row)| Entry::Tool(row))
                } else {
                    ways.next().transpose()?.map(|(_, row)| Entry::Went(row))
                };
                entry.iter().for_each(|entry| self.entry(entry, sheet));
            }
        }
        let mut entries: Vec<(u64, Entry)> = Vec::new();
        entries.extend(
            self.path
                .last(MOST)?
                .into_iter()
                .map(|row| (row.seq, Entry::Stage(row))),
        );
        entries.extend(
            self.tool_calls
                .last(MOST)?
                .into_iter()
                .map(|row| (row.seq, Entry::Tool(row))),
        );
        entries.extend(
            self.transitions
                .last(MOST)?
                .into_iter()
                .map(|row| (row.seq, Entry::Went(row))),
        );
        entries.sort_by_key(|(seq, _)| *seq);
        let first = entries.len().saturating_sub(MOST);
        let left_out = total.saturating_sub(MOST as u64);
        if left_out > 0 {
            let text = format!("  .. {} entries before, which `--all` shows", thousands(left_out));
            sheet.line(&sheet.paint(Paint::Dim, &text));
        }
        for (_, entry) in entries.iter().skip(first) {
            self.entry(entry, sheet);
        }
        Ok(())
    }

    fn entry(&self, entry: &Entry, sheet: &mut Sheet<'_>) {
        match entry {
            Entry::Stage(row) => sheet.stage(row, self.mark(row)),
            Entry::Tool(row) => sheet.tool(row),
            Entry::Went(row) => sheet.went(row),
        }
    }

    /// Returns the short state of an attempt and its colour.
    fn mark<'r>(&self, row: &'r StageRow) -> (&'r str, Paint) {
        let asks = |asked: &Asked| asked.node == row.node && asked.branch == row.branch;
        match (row.state, row.outcome.as_deref()) {
            (StageState::Completed, Some("success") | None) => ("ok", Paint::Good),
            (StageState::Completed, Some(word)) => (word, Paint::Good),
            (StageState::Failed, _) if row.will_retry => ("again", Paint::Bad),
            (StageState::Failed, _) => ("failed", Paint::Bad),
            _ if self.questions.iter().any(asks) && self.is_open(row) => ("asks", Paint::Warn),
            (StageState::Running, _) if self.goes_on() => ("...", Paint::Bold),
            _ => ("cut", Paint::Warn),
        }
    }

    fn goes_on(&self) -> bool {
        self.session.status == SessionStatus::Running
    }

    /// Prints the present state of the run.
    fn standing(&self, sheet: &mut Sheet<'_>) {
        if !matches!(
            self.session.status,
            SessionStatus::Running | SessionStatus::Paused | SessionStatus::Interrupted
        ) {
            return;
        }
        let asking: BTreeSet<(&str, Option<&str>)> = self
            .questions
            .iter()
            .map(|asked| (asked.node.as_str(), asked.branch.as_deref()))
            .collect();
        let mut lines = Vec::new();
        for row in &self.open {
            let asks = asking.contains(&(row.node.as_str(), row.branch.as_deref()));
            let pending = row.state == StageState::Running || !self.goes_on();
            if !pending || asks {
                continue;
            }
            let name = attempt(row);
            let since = row.started.map(|started| long(between(started, now())));
            lines.push(match (self.goes_on(), since) {
                (true, Some(since)) => format!("{name} runs, since {since}"),
                (true, None) => format!("{name} runs"),
                (false, _) => format!("{name} was cut short, and runs again when the run goes on"),
            });
        }
        for asked in &self.questions {
            let name = named(asked.branch.as_deref(), &asked.node);
            // Show the complete text of a question.
            let text = indented(&asked.text);
            let text = text.lines().map(str::trim_end);
            lines.extend(text.enumerate().map(|(at, line)| match at {
                0 => format!("{name} waits for an answer: {line}"),
                _ => line.to_owned(),
            }));
            if !asked.options.is_empty() {
                lines.push(format!("    {}", asked.options.join("  ")));
            }
            for withheld in &asked.withheld {
                lines.push(format!("    withheld: {}", one_line(&withheld.to_string())));
            }
            if let Some(until) = &asked.until {
                let then = asked
                    .default
                    .as_ref()
                    .map(|default| format!(", then `{default}` is taken"));
                lines.push(format!("    {until}{}", then.unwrap_or_default()));
            }
        }
        if lines.is_empty() {
            return;
        }
        sheet.heading("now");
        for line in lines {
            sheet.line(&format!("  {line}"));
        }
    }

    fn is_open(&self, row: &StageRow) -> bool {
        self.open.iter().any(|open| open.seq == row.seq)
    }

    fn nodes(&self, sheet: &mut Sheet<'_>) {
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
                Cell::number(time(node.duration)),
                Cell::number(tokens(node.usage)),
                Cell::number(cost(node.usage)),
                Cell::text(node.outcome.clone().unwrap_or_default()),
            ]
        });
        let head = [
            "  NODE", "ATTEMPTS", "FAILED", "REPEATED", "TOOLS", "TIME", "TOKENS", "COST", "OUTCOME",
        ];
        sheet.heading("nodes");
        sheet.line(&table(sheet.terminal, &head, rows.collect()));
    }

    fn warnings(&self, sheet: &mut Sheet<'_>) {
        if self.warnings.is_empty() {
            return;
        }
        sheet.heading("warnings");
        for warned in &self.warnings {
            sheet.line(&format!("  {}: {}", warned.node, indented(&warned.message)));
        }
    }

    fn errors(&self, sheet: &mut Sheet<'_>) {
        if self.failed.is_empty() {
            return;
        }
        sheet.heading("errors");
        for row in &self.failed {
            let then = if row.will_retry { ", tried again" } else { "" };
            sheet.line(&format!("  {}{then}", attempt(row)));
            let error = row.error.as_deref().unwrap_or_default();
            for line in error.lines().take(MOST_LINES) {
                sheet.line(&format!("      {line}"));
            }
            let more = error.lines().count().saturating_sub(MOST_LINES);
            if more > 0 {
                let text = format!("      .. {more} more lines, which `status --json` shows");
                sheet.line(&sheet.paint(Paint::Dim, &text));
            }
        }
    }
}

/// Returns the snapshot in a line if it is a snapshot of the main path of this run.
fn saved(line: EventLine<'_>, run: &str) -> Option<Value> {
    let event = line.event()?;
    match event.kind {
        EventKind::SnapshotSaved {
            branch: None,
            snapshot,
            ..
        } if *event.run == *run => Some(Value::clone(&snapshot)),
        _ => None,
    }
}

/// An entry on the path of a run.
enum Entry {
    Stage(StageRow),
    Tool(ToolCallRow),
    Went(TransitionRow),
}

/// Returns a stage with its branch, visit and attempt.
fn attempt(row: &StageRow) -> String {
    let again = crate::progress::attempt(row.visit, row.attempt);
    let repeated = if row.repeat { ", repeated" } else { "" };
    format!("{}{again}{repeated}", named(row.branch.as_deref(), &row.node))
}

/// The report as it is printed, chunk by chunk.
struct Sheet<'p> {
    terminal: &'p Terminal,
    text: String,
}

/// The chunk size in bytes.
const PIECE: usize = 64 << 10;

impl Sheet<'_> {
    fn paint(&self, paint: Paint, text: &str) -> String {
        self.terminal.paint_result(paint, text)
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
        if self.text.len() >= PIECE {
            self.print();
        }
    }

    fn print(&mut self) {
        if let Some(text) = self.text.strip_suffix('\n') {
            self.terminal.result(text);
        }
        self.text.clear();
    }

    fn heading(&mut self, text: &str) {
        self.line("");
        let text = self.paint(Paint::Bold, &format!("{text}:"));
        self.line(&text);
    }

    /// Prints a property of the run, unless it is empty.
    fn fact(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            let name = self.paint(Paint::Dim, &format!("{name:<12}"));
            self.line(&format!("  {name}{value}"));
        }
    }

    fn stage(&mut self, row: &StageRow, (word, paint): (&str, Paint)) {
        let mark = self.paint(paint, &format!("{word:>6}"));
        let at = row.started.map(clock).unwrap_or_default();
        let at = self.paint(Paint::Dim, &format!("{at:>8}"));
        let took = row.duration.map(time).unwrap_or_default();
        let used = used(row.usage);
        let said = row.error.as_deref().or(row.notes.as_deref()).map(one_line);
        let mut more: Vec<String> = Vec::new();
        more.extend((!used.is_empty()).then_some(used));
        more.extend(
            row.preferred_label
                .as_ref()
                .map(|label| format!("prefers `{}`", one_line(label))),
        );
        more.extend(said);
        let more = self.paint(Paint::Dim, &more.join("  "));
        self.line(&format!("  {at} {mark} {:<24} {took:>8}  {more}", attempt(row)));
    }

    fn tool(&mut self, row: &ToolCallRow) {
        let error = row.error.as_deref().map(|error| format!(": {}", one_line(error)));
        let text = format!(
            "tool {} {}{}",
            row.tool,
            time(row.duration),
            error.unwrap_or_default()
        );
        self.beneath(&text);
    }

    /// Prints a transition: the rule that decided, and each tested condition with the values that it saw.
    fn went(&mut self, row: &TransitionRow) {
        let branch = row
            .branch
            .as_deref()
            .map_or_else(String::new, |branch| named(Some(branch), &row.from) + " ");
        let rule = Rule::parse(&row.rule).map(Rule::describe).unwrap_or(&row.rule);
        let text = match (&row.to, row.branches) {
            (Some(to), _) => format!("{branch}-> {to} ({rule})"),
            (None, Some(1)) => "1 branch".to_owned(),
            (None, Some(branches)) => format!("{branch}{branches} branches"),
            (None, None) => format!("{branch}({rule})"),
        };
        self.beneath(&text);
        let width = row
            .tested
            .iter()
            .map(|tested| tested.condition.chars().count())
            .max();
        for tested in &row.tested {
            self.tested(tested, width.unwrap_or(0).min(48));
        }
    }

    fn tested(&mut self, tested: &TestedCondition, width: usize) {
        let mark = if tested.held {
            self.paint(Paint::Good, "yes")
        } else {
            self.paint(Paint::Dim, " no")
        };
        let saw = tested
            .values
            .iter()
            .map(|(key, value)| format!("{key} is `{}`", one_line(value)));
        let saw = self.paint(Paint::Dim, &saw.collect::<Vec<_>>().join(", "));
        let condition = one_line(&tested.condition);
        self.line(&format!(
            "                     {mark} {condition:<width$}  -> {}  {saw}",
            tested.to
        ));
    }

    /// Prints a line below that of a stage.
    fn beneath(&mut self, text: &str) {
        let text = self.paint(Paint::Dim, text);
        self.line(&format!("                  {text}"));
    }
}
