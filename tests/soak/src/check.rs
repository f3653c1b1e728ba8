//! What must hold at the end of a run and of a round of runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use orchestra_crash_tests::compare::{readable, remains};
use orchestra_crash_tests::processes::{Use, survivors};
use orchestra_engine::RunFolder;
use serde_json::Value;

use crate::run::Run;

/// How long processes of a run may stay behind it, on a loaded machine.
const CLEAN_UP: Duration = Duration::from_secs(20);

/// What no process of a run may exceed: KiB of memory, descriptors, threads. Ten times what the scenarios need.
const MOST: Use = Use {
    memory: 600 * 1024,
    descriptors: 400,
    threads: 200,
};

/// Checks the end of a run: its outcome, its files, what its tools did, and its processes.
pub(crate) fn run(run: &Run<'_>) -> Result<(), String> {
    outcome(run)?;
    readable(&run.folder(), &[])?;
    remains(&run.folder(), run.scenario.at_once == 1)?;
    executions(run)?;
    let most = run.tally.most;
    if most.memory > MOST.memory || most.descriptors > MOST.descriptors || most.threads > MOST.threads {
        return Err(format!("a process used {most:?}, more than {MOST:?}"));
    }
    let left = survivors(&run.project, &run.mark(), CLEAN_UP);
    if !left.is_empty() {
        return Err(format!("processes are left: {left:?}"));
    }
    if let Some((folder, _)) = run.scenario.repository {
        let changed = git(&run.project.join(folder), &["status", "--porcelain"])?;
        if !changed.is_empty() {
            return Err(format!("the user's work tree was changed:\n{changed}"));
        }
    }
    Ok(())
}

/// The outcome that the scenario predicts, in the checkpoint and as `status` tells it.
fn outcome(run: &Run<'_>) -> Result<(), String> {
    let opened = RunFolder::open(run.folder()).map_err(|error| error.to_string())?;
    let checkpoint = opened.checkpoint().map_err(|error| error.to_string())?;
    let checkpoint = checkpoint.ok_or("the run has ended without a checkpoint")?;
    let written = serde_json::to_value(&checkpoint).map_err(|error| error.to_string())?;
    let nodes = written["completed_nodes"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let path: Vec<&str> = nodes.iter().filter_map(Value::as_str).collect();
    let (status, path) = (checkpoint.status.as_str(), path.join(" -> "));
    if (status, path.as_str()) != (run.scenario.status, run.scenario.path) {
        return Err(format!(
            "it ended as {status}: {path}\nexpected      {}: {}",
            run.scenario.status, run.scenario.path
        ));
    }
    let runs = run.runs.to_string_lossy();
    let mut command = run.command(&["status", &run.name, "--json", "--runs", &runs]);
    let reported = command.output().map_err(|error| error.to_string())?;
    let session: Value = serde_json::from_slice(&reported.stdout).unwrap_or_default();
    if session["status"] != run.scenario.status || session["skipped_lines"] != 0 {
        let text = String::from_utf8_lossy(&reported.stdout);
        return Err(format!("`status` tells otherwise: {text:.600}"));
    }
    Ok(())
}

/// What the tools logged: each stage was executed as often as the path says, and again only where a process was
/// disturbed while the stage was in flight.
fn executions(run: &Run<'_>) -> Result<(), String> {
    let log = std::fs::read_to_string(run.log()).unwrap_or_default();
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split(' ').collect()).collect();
    let mut began = Vec::new();
    for line in &lines {
        match line[..] {
            [process, node, "began"] => began.push((process, node)),
            [_, _, "over"] => {}
            _ => return Err(format!("a torn line in the log of the tools: {line:?}")),
        }
    }
    if run.scenario.at_once == 1 {
        return in_order(&began, run.scenario.tools)
            .map_err(|what| format!("{what}; the tools began {began:?}"));
    }
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, node) in &began {
        *counts.entry(node).or_default() += 1;
    }
    for node in run.scenario.tools {
        let expected = run.scenario.tools.iter().filter(|tool| *tool == node).count() as u64;
        let count = counts.remove(node).unwrap_or_default();
        if count < expected || count > expected + run.disturbed() {
            return Err(format!(
                "`{node}` began {count} times, expected {expected}: {began:?}"
            ));
        }
    }
    let expected = run.scenario.tools.len() as u64;
    let most = expected + run.disturbed() * run.scenario.at_once as u64;
    if began.len() as u64 > most || !counts.is_empty() {
        return Err(format!(
            "{} stages began, at most {most} may: {began:?}",
            began.len()
        ));
    }
    Ok(())
}

/// Whether stages began in this order. The first stage that a process begins may be the last one of the process before,
/// which was in flight when that ended; nothing else is repeated.
fn in_order(began: &[(&str, &str)], expected: &[&str]) -> Result<(), String> {
    let mut done = 0;
    let mut last: Option<(&str, &str)> = None;
    for (process, node) in began {
        let repeated = last.is_some_and(|(before, stage)| before != *process && stage == *node);
        let is_next = expected.get(done) == Some(node);
        // Where the next stage is the same node, either reading fits; the later stages decide.
        if repeated && !is_next {
            last = Some((process, node));
            continue;
        }
        if !is_next {
            return Err(format!("`{node}` began where {:?} was due", expected.get(done)));
        }
        done += 1;
        last = Some((process, node));
    }
    if done != expected.len() {
        return Err(format!("{done} of {} stages began", expected.len()));
    }
    Ok(())
}

/// The index of runs, as `status` lists it, against the run folders.
pub(crate) fn index(listed: &[Value], runs: &Path) -> Result<(), String> {
    let listed: BTreeSet<String> = listed
        .iter()
        .filter_map(|session| Some(session["run"].as_str()?.to_owned()))
        .collect();
    let folders = RunFolder::list(runs).map_err(|error| error.to_string())?;
    let folders: BTreeSet<String> = folders
        .iter()
        .filter_map(|folder| Some(folder.file_name()?.to_string_lossy().into_owned()))
        .collect();
    if listed != folders {
        return Err(format!("the index has {listed:?}, the folder has {folders:?}"));
    }
    Ok(())
}

/// What git says in a folder.
pub(crate) fn git(folder: &Path, words: &[&str]) -> Result<String, String> {
    let said = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=me", "-c", "user.email=me@localhost"])
        .args(words)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .map_err(|error| format!("cannot start git: {error}"))?;
    if !said.status.success() {
        return Err(format!(
            "git {}: {}",
            words.join(" "),
            String::from_utf8_lossy(&said.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::in_order;

    #[test]
    fn only_the_stage_in_flight_is_repeated() {
        let expected = ["a", "b", "c"];
        let of = |began: &[(&str, &str)]| in_order(began, &expected);
        assert!(of(&[("1", "a"), ("1", "b"), ("1", "c")]).is_ok());
        assert!(of(&[("1", "a"), ("1", "b"), ("2", "b"), ("3", "b"), ("3", "c")]).is_ok());
        // A stage that was finished, again.
        assert!(of(&[("1", "a"), ("1", "b"), ("2", "a"), ("2", "b"), ("2", "c")]).is_err());
        // Twice in one process.
        assert!(of(&[("1", "a"), ("1", "b"), ("1", "b"), ("1", "c")]).is_err());
        // One that was skipped, and one that is missing.
        assert!(of(&[("1", "a"), ("2", "c")]).is_err());
        assert!(of(&[("1", "a"), ("1", "b")]).is_err());
        assert!(of(&[("1", "a"), ("1", "b"), ("1", "c"), ("2", "c"), ("2", "d")]).is_err());
    }
}
