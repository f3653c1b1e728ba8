//! What must hold of a run, whatever befell its processes.

use std::collections::BTreeMap;
use std::path::Path;

use orchestra_crash_tests::compare;
use orchestra_engine::{Checkpoint, RunFolder, RunResult};
use orchestra_oracle_tests::End;
use orchestra_oracle_tests::driver::ending;
use serde::Serialize;
use serde_json::{Value, json};

use crate::case::Case;
use crate::world::World;

/// Looks at a run folder as others would when the process that owned it is gone.
///
/// # Errors
/// It cannot be read, or lacks what was reported.
pub fn readable(world: &World, folder: &Path) -> Result<(), String> {
    compare::readable(folder, &world.log()).map(drop)
}

/// Looks at a run that has ended.
///
/// # Errors
/// It is not as the rules say, or its files do not say the same.
pub fn ended(world: &World, case: &Case, folder: &Path, result: Option<&RunResult>) -> Result<(), String> {
    compare::promises(&world.log(), case.at_once)?;
    readable(world, folder)?;
    let run = RunFolder::open(folder).map_err(|error| error.to_string())?;
    let checkpoint = run.checkpoint().map_err(|error| error.to_string())?;
    let checkpoint = checkpoint.ok_or("a run that ended has no checkpoint")?;
    events(&run, world.counts().contains_key("loss of power"))?;
    if let Some(result) = result {
        agree(&checkpoint, result)?;
    }
    if case.is_certain && !world.is_off_script() {
        world.count("runs compared with the rules");
        as_expected(case, &checkpoint, result)?;
    }
    Ok(())
}

/// Events have numbers without gaps, no stage ends twice, and there is one end, the last.
fn events(run: &RunFolder, lost_power: bool) -> Result<(), String> {
    let mut ended = std::collections::BTreeSet::new();
    let events = run.events(1).map_err(|error| error.to_string())?;
    let count = events.len();
    let mut ends = 0;
    for (at, event) in events.iter().enumerate() {
        if event["seq"] != at + 1 {
            return Err(format!("event {} has the number {}", at + 1, event["seq"]));
        }
        let name = event["event"].as_str().unwrap_or_default();
        let key = [&event["index"], &event["attempt"], &event["branch"]].map(Value::to_string);
        // After a loss of power events are reported anew that were lost, and may be counted otherwise.
        if !lost_power && matches!(name, "StageCompleted" | "StageFailed") && !ended.insert(key) {
            return Err(format!("the end of a stage is reported twice: {event}"));
        }
        if matches!(name, "PipelineCompleted" | "PipelineFailed" | "PipelineCancelled") {
            ends += 1;
            if at + 1 != count {
                return Err(format!(
                    "event {} of {count} says that the run ended: {event}",
                    at + 1
                ));
            }
        }
    }
    match ends {
        0 if events
            .last()
            .is_some_and(|event| event["event"] == "PipelinePaused") =>
        {
            Ok(())
        }
        1 => Ok(()),
        ends => Err(format!("{ends} events say that the run ended")),
    }
}

/// The checkpoint says what the result says.
fn agree(checkpoint: &Checkpoint, result: &RunResult) -> Result<(), String> {
    if checkpoint.status != result.status.word() {
        return Err(format!(
            "the checkpoint says `{}`, the result `{}`",
            checkpoint.status, result.status
        ));
    }
    if checkpoint.context != result.context {
        return Err("the checkpoint and the result have different contexts".to_owned());
    }
    Ok(())
}

/// Says where two values differ; `None` where they do not.
fn differ(what: &str, found: &impl Serialize, expected: &impl Serialize) -> Result<(), String> {
    let (found, expected) = (json!(found), json!(expected));
    let differences = compare::differences(&found, &expected);
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{what}, found against the rules: {}",
        differences.join("; ")
    ))
}

/// The checkpoint is that of a run that nothing befell, as the rules say it.
fn as_expected(case: &Case, checkpoint: &Checkpoint, result: Option<&RunResult>) -> Result<(), String> {
    let expected = &case.expected;
    // What a fan-in says of its choice is the engine's.
    let end = |end: &End| match end {
        End::GoalGate { node, .. } if case.is_fan_in(node) => format!("goal gate {node}"),
        end => format!("{end:?}"),
    };
    differ(
        "the end",
        &end(&ending(checkpoint.failure.as_ref())),
        &end(&expected.end),
    )?;
    let path: Vec<String> = checkpoint
        .completed_nodes
        .iter()
        .map(|node| node.to_string())
        .collect();
    differ("the path", &path, &expected.path)?;
    differ("the visits", &checkpoint.node_visits, &expected.visits)?;
    differ("the retries", &checkpoint.node_retries, &expected.retries)?;
    differ("the restarts", &checkpoint.restarts, &expected.restarts)?;
    // What a fan-in says of its choice is the engine's, and which branch a block names as its failure's is a matter of
    // time.
    let notes = |node: &str, notes: Option<&str>| {
        if case.is_fan_in(node) || case.graph.joins.contains_key(node) {
            String::new()
        } else {
            notes.unwrap_or_default().to_owned()
        }
    };
    let outcomes: BTreeMap<&String, (&str, String)> = checkpoint
        .node_outcomes
        .iter()
        .map(|(node, outcome)| {
            (
                node,
                (outcome.status.word(), notes(node, outcome.notes.as_deref())),
            )
        })
        .collect();
    let by_rules: BTreeMap<&String, (&str, String)> = expected
        .outcomes
        .iter()
        .map(|(node, outcome)| (node, (outcome.word.as_str(), notes(node, Some(&outcome.notes)))))
        .collect();
    differ("the outcomes", &outcomes, &by_rules)?;
    let context: BTreeMap<String, Value> = checkpoint
        .context
        .iter()
        .filter(|(key, _)| !key.starts_with("graph.") && !key.starts_with("parallel.fan_in."))
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect();
    differ("the context", &context, &expected.context)?;
    if let Some(result) = result {
        let errors: Vec<_> = result
            .error_history
            .iter()
            .map(|error| {
                (
                    error.node.to_string(),
                    error.visit,
                    error.attempt,
                    error.reason.clone(),
                )
            })
            .collect();
        differ("the failed attempts", &errors, &expected.errors)?;
    }
    Ok(())
}
