//! What of a run folder must be the same however often its processes were killed, and what must hold in any.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use orchestra_engine::{ArtifactStore, RunFolder, StoreError};
use serde_json::{Value, json};

use crate::log::{Line, LogEvent};

/// The files by which the engine keeps a run.
const OWN: [&str; 5] = [
    "manifest.json",
    "checkpoint.json",
    "journal.jsonl",
    "events.jsonl",
    "owner.lock",
];

/// What tells of times, of places in files, and of owners.
const PASSING: [&str; 16] = [
    "checkpoint",
    "checksum",
    "completed_at",
    "duration",
    "duration_ms",
    "elapsed",
    "elapsed_ms",
    "elapsed_ns",
    "fencing_token",
    "identity",
    "journal",
    "seq",
    "stack.child.elapsed_ms",
    "started_at",
    "time",
    "timestamp",
];

/// What happens to a run only where it was stopped, or again where it goes on.
const STOPS: [&str; 11] = [
    "ChildInterviewEnded",
    "ChildInterviewStarted",
    "PipelinePaused",
    "PipelineResumed",
    "PipelineWarning",
    "StageCancelled",
    "StageLog",
    "SteeringRead",
    "StageWarning",
    "ModelCallCompleted",
    "ToolCallCompleted",
];

/// What is left of a run, without times, fencing tokens and positions: its checkpoint with the machine's state, its events, its
/// artifacts, the files of its stages, and the same of the runs within it.
///
/// # Errors
/// What does not hold in any run folder.
pub fn remains(folder: &Path, in_order: bool) -> Result<Value, String> {
    let reported = |error: &StoreError| error.to_string();
    let run = RunFolder::open(folder).map_err(|error| reported(&error))?;
    let checkpoint = run.checkpoint().map_err(|error| reported(&error))?;
    let checkpoint = checkpoint.map(|checkpoint| passing(serde_json::to_value(checkpoint).unwrap()));
    let artifacts = ArtifactStore::open(folder).map_err(|error| error.to_string())?;
    let artifacts: BTreeMap<String, String> = artifacts
        .list()
        .into_iter()
        .map(|info| (info.id, info.digest))
        .collect();
    let mut files = BTreeMap::new();
    let mut runs = BTreeMap::new();
    walk(folder, folder, in_order, &mut files, &mut runs)?;
    Ok(json!({
        "checkpoint": checkpoint,
        "events": events(&run, in_order)?,
        "artifacts": artifacts,
        "files": files,
        "runs": runs,
    }))
}

/// The events, without those of stops and repeats. Each must follow the one before, and no stage may end twice.
fn events(run: &RunFolder, in_order: bool) -> Result<Vec<Value>, String> {
    let mut ended = BTreeSet::new();
    let mut kept = Vec::new();
    let path = run.path().display();
    let events = run.events(1).map_err(|error| error.to_string())?;
    for (at, event) in events.into_iter().enumerate() {
        if event["seq"] != at + 1 {
            return Err(format!(
                "{path}: event {} has the number {}",
                at + 1,
                event["seq"]
            ));
        }
        let name = event["event"].as_str().unwrap_or_default();
        let key = [&event["index"], &event["attempt"], &event["branch"]].map(Value::to_string);
        if matches!(name, "StageCompleted" | "StageFailed") && !ended.insert(key) {
            return Err(format!("{path}: the end of a stage is reported twice: {event}"));
        }
        // Which stage of several that end together stands for the checkpoint is a matter of their order.
        let by_order = !in_order && name == "CheckpointSaved";
        if !STOPS.contains(&name) && event["repeat"] != true && !by_order {
            let mut event = passing(event);
            if let (false, Some(fields)) = (in_order, event.as_object_mut()) {
                // Branches begin in another order where some of their stages are done.
                fields.remove("index");
            }
            kept.push(event);
        }
    }
    if !in_order {
        kept.sort_by_cached_key(Value::to_string);
    }
    Ok(kept)
}

/// The files of stages, and the runs within a run.
fn walk(
    root: &Path,
    folder: &Path,
    in_order: bool,
    files: &mut BTreeMap<String, Value>,
    runs: &mut BTreeMap<String, Value>,
) -> Result<(), String> {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if RunFolder::is_one(&path) {
                runs.insert(name, remains(&path, in_order)?);
            } else if name != "artifacts" {
                walk(root, &path, in_order, files, runs)?;
            }
        } else if !OWN.contains(&&*name) {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            let content = serde_json::from_str(&text).map_or(Value::String(text), passing);
            files.insert(name, content);
        }
    }
    Ok(())
}

/// A value without what tells of times.
fn passing(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(name, _)| !PASSING.contains(&&**name));
            kept.map(|(name, value)| (name, passing(value))).collect()
        }
        Value::Array(values) => values.into_iter().map(passing).collect(),
        Value::String(text) => match text.split_once(" stages in ") {
            Some((before, _)) => format!("{before} stages").into(),
            None => Value::String(text),
        },
        other => other,
    }
}

/// Where two values differ, for people: the paths, with both.
pub fn differences(one: &Value, other: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", one, other, &mut found);
    found
}

fn compare(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                let of =
                    |fields: &serde_json::Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                compare(&format!("{path}/{name}"), &of(one), &of(other), found);
            }
        }
        (Value::Array(one), Value::Array(other))
            if one.len() == other.len() && !path.ends_with("/events") =>
        {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}/{at}"), one, other, found);
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            if one == other {
                return;
            }
            let only = |one: &[Value], other: &[Value]| -> Vec<String> {
                let count =
                    |list: &[Value], value: &Value| list.iter().filter(|known| *known == value).count();
                let only = one.iter().filter(|value| count(one, value) > count(other, value));
                only.map(Value::to_string).collect()
            };
            let lengths = (one.len(), other.len());
            found.push(format!(
                "{path}: lists of {lengths:?}, {:?} against {:?}",
                only(one, other),
                only(other, one)
            ));
        }
        _ if one == other => {}
        _ => found.push(format!(
            "{path}: {:.300} against {:.300}",
            one.to_string(),
            other.to_string()
        )),
    }
}

/// Holds what stages and the engine said to what was promised: what was reported to be over never began again, what began
/// again was reported so, and no more is repeated than can have been in flight.
///
/// # Errors
/// What was not kept.
pub fn promises(log: &[Line], at_once: usize) -> Result<(), String> {
    // Of each run: the attempts, with the process in which each began last, and whether it is over.
    let mut began: HashMap<(&str, &str), u32> = HashMap::new();
    let mut over: BTreeSet<(&str, &str)> = BTreeSet::new();
    // The attempt keys that are alike but for the restarts before them.
    let mut alike: HashMap<(&str, String), BTreeSet<&str>> = HashMap::new();
    let mut repeats: BTreeMap<u32, usize> = BTreeMap::new();
    for Line { process, run, said } in log {
        match said {
            LogEvent::Began(key, repeat) => {
                let attempt = (run.as_str(), key.as_str());
                if over.contains(&attempt) {
                    return Err(format!(
                        "{run}: `{key}` began again in process {process}, although it was over"
                    ));
                }
                match began.insert(attempt, *process) {
                    Some(before) if before == *process => {
                        return Err(format!("{run}: `{key}` began twice in process {process}"));
                    }
                    Some(_) if !repeat => {
                        return Err(format!(
                            "{run}: `{key}` was not reported in process {process} that it is a repeat"
                        ));
                    }
                    None if *repeat && *process == 0 => {
                        return Err(format!(
                            "{run}: `{key}` was reported that it is a repeat, and never began before"
                        ));
                    }
                    _ => {}
                }
                *repeats.entry(*process).or_default() += usize::from(*repeat);
                alike.entry((run, without_restarts(key))).or_default().insert(key);
            }
            LogEvent::Over(key) => {
                let keys = alike.get(&(run.as_str(), key.clone()));
                let here = |key: &&&str| began.get(&(run.as_str(), **key)) == Some(process);
                // What is reported again of an earlier process may be of any life of the run.
                let key = keys.and_then(|keys| {
                    keys.iter().rev().find(here).or(match keys.len() {
                        1 => keys.first(),
                        _ => None,
                    })
                });
                over.extend(key.map(|key| (run.as_str(), *key)));
            }
            LogEvent::Saved(_) => {}
        }
    }
    match repeats.iter().find(|(_, count)| **count > at_once) {
        Some((process, count)) => Err(format!("process {process} was reported of {count} repeats")),
        None => Ok(()),
    }
}

fn without_restarts(key: &str) -> String {
    match key.strip_prefix("restart-").and_then(|rest| rest.split_once('/')) {
        Some((_, key)) => key.to_owned(),
        None => key.to_owned(),
    }
}

/// Looks at a run folder as others would, in the state in which a kill left it. Says whether there is a run: nothing was
/// done for one that was not accepted yet.
///
/// # Errors
/// It cannot be read, or lacks a checkpoint that was reported.
pub fn readable(folder: &Path, log: &[Line]) -> Result<bool, String> {
    let run = match RunFolder::open(folder) {
        Ok(run) => run,
        Err(StoreError::NoRun { .. }) => {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            let done = log.iter().find(|line| line.run == name);
            return done.map_or(Ok(false), |done| {
                Err(format!("it was never accepted, and {done:?}"))
            });
        }
        Err(error) => return Err(error.to_string()),
    };
    let reported = |error: StoreError| error.to_string();
    run.checkpoint().map_err(reported)?;
    run.events(1).map_err(reported)?;
    let owner = run.owner().map_err(reported)?;
    if let Some(owner) = owner {
        return Err(format!("{owner} is dead and owns the run"));
    }
    let records = run.records().map_err(reported)?.len();
    let saved = log.iter().filter(|line| line.run == run.manifest().run);
    for line in saved {
        if let LogEvent::Saved(name) = &line.said {
            let number: Option<usize> = name.strip_prefix("cp_").and_then(|number| number.parse().ok());
            // Where not even the first record survived, the run still begins where it began.
            if number.is_none_or(|number| number > 0 && number >= records) {
                return Err(format!(
                    "checkpoint `{name}` was reported, and the journal has {records} records"
                ));
            }
        }
    }
    Ok(true)
}
