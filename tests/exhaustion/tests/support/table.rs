//! The matrix: limits against the moments at which they bite.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::limit::{self, KINDS, Kind};
use super::{Call, Done, Project};
use orchestra_engine::RunFolder;

/// The moments, in the order of the columns.
pub(crate) const MOMENTS: [&str; 9] = [
    "start of the program",
    "start of a run",
    "spawn of a tool",
    "file of a stage",
    "journal",
    "checkpoint",
    "git snapshot",
    "model call",
    "answer",
];

/// What is written where a limit was never met at a moment.
pub(crate) const NEVER: &str = "-";

/// What is written where the machine does not permit the limit.
pub(crate) const MISSING: &str = "not on this machine";

/// Cells by limit and moment, each with the codes that were seen.
pub(crate) type Cells = BTreeMap<(&'static str, &'static str), BTreeSet<String>>;

/// At which moment a call failed, and by which code.
pub(crate) fn cell(project: &Project, call: Call, done: &Done) -> (&'static str, String) {
    let objects = done.objects();
    let last = done.last();
    let codes = [&last["code"], &last["failure"]["code"]];
    let printed = || {
        done.stderr
            .split_once("error[")?
            .1
            .split_once(']')
            .map(|(code, _)| code)
    };
    let code = limit::inevitable(project.kind, done)
        .or_else(|| codes.into_iter().find_map(|code| code.as_str()))
        .or_else(printed)
        .unwrap_or("none")
        .to_owned();
    let begun = objects
        .iter()
        .rev()
        .find(|object| object["event"] == "StageStarted");
    let node = begun.and_then(|event| event["node"].as_str());
    let reason = last["failure_reason"].as_str().or(last["message"].as_str());
    let reason = reason.unwrap_or(&done.stderr);
    (moment(project, call, &code, node, reason), code)
}

fn moment(project: &Project, call: Call, code: &str, node: Option<&str>, reason: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|words| reason.contains(words));
    match node {
        None if ["aborts", "not loaded", "runtime"].contains(&code) => "start of the program",
        _ if call == Call::Answer => "answer",
        None if !RunFolder::is_one(project.run_folder(call)) => "start of a run",
        _ if has(&["journal.jsonl", ".commits"]) => "journal",
        _ if has(&["checkpoint.json"]) => "checkpoint",
        None => "start of a run",
        Some("make" | "last") if has(&["cannot start"]) => "spawn of a tool",
        _ if has(&["git", "epository", "/worktrees/"]) => "git snapshot",
        Some("ask") if code != "store_io" => "model call",
        Some("make" | "last") if code == "aborts" => "spawn of a tool",
        Some(_) => "file of a stage",
    }
}

/// The table in Markdown.
pub(crate) fn markdown(cells: &Cells, missing: &[Kind]) -> String {
    let mut text = String::from(HEAD);
    let _ = writeln!(text, "| Limit | {} |", MOMENTS.join(" | "));
    let _ = writeln!(text, "|---{}|", "|---".repeat(MOMENTS.len()));
    for kind in KINDS {
        let row = MOMENTS.map(|moment| match cells.get(&(kind.name(), moment)) {
            _ if missing.contains(&kind) => MISSING.to_owned(),
            Some(codes) => codes
                .iter()
                .map(|code| format!("`{code}`"))
                .collect::<Vec<_>>()
                .join(", "),
            None => NEVER.to_owned(),
        });
        let _ = writeln!(text, "| {} | {} |", kind.name(), row.join(" | "));
    }
    text
}

/// The codes of each cell of a table in Markdown.
pub(crate) fn parse(text: &str) -> BTreeMap<(String, String), String> {
    let mut cells = BTreeMap::new();
    for line in text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| Limit"))
    {
        let columns: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        for (moment, codes) in MOMENTS.iter().zip(&columns[1..]) {
            cells.insert((columns[0].to_owned(), (*moment).to_owned()), (*codes).to_owned());
        }
    }
    cells
}

/// Adds the codes of a table in Markdown to the cells.
pub(crate) fn add(cells: &mut Cells, text: &str) {
    let known = parse(text);
    for kind in KINDS {
        for moment in MOMENTS {
            let codes = known.get(&(kind.name().to_owned(), moment.to_owned()));
            // Codes stand between backticks.
            let codes = codes
                .into_iter()
                .flat_map(|codes| codes.split('`').skip(1).step_by(2));
            for code in codes {
                let cell = cells.entry((kind.name(), moment)).or_default();
                cell.insert(code.to_owned());
            }
        }
    }
}

const HEAD: &str = "# Exhaustion

Each limit of the system against each moment at which the program ran into it. A cell has the codes of the errors; each comes
with a message that names the limit and says how to raise it, leaves no process and no torn file, and leaves a run that comes
to the end of one without a limit once the limit is lifted. `aborts` is the end that Rust gives a process whose allocation
fails, `not loaded` that which the loader gives one without room for its libraries: there the run can be resumed too. A `-`
says that no value of the limit was met at that moment: another moment needs at least as much and comes before it.

Made by `UPDATE=1 ORCHESTRA_EXHAUSTION=all cargo test -p orchestra-exhaustion-tests`, which tries every value and adds what it
meets to this table; without the file it begins anew. The suite tries a few of each, and holds what it sees against the table.

";
