//! The lines that events add to the progress display: one for each stage, and the transitions with their reasons.

use std::time::{Duration, Instant};

use orchestra_engine::{
    EventKind, RunEvent, RunId, StageRef, Status, TestedCondition, Timestamp, branch_label, stage_label,
};
use orchestra_graph::Rule;

use super::{Progress, Running};
use crate::report::stages::attempt_suffix;
use crate::terminal::Paint;
use crate::terminal::format::{between, now, one_line, short_duration};

/// The live status of a stage that waits for its next attempt.
const WAITS: &str = " waits";

/// The live status of a human gate.
const ASKS: &str = " asks";

impl Progress {
    /// Shows an event.
    pub(crate) fn event(&mut self, event: &RunEvent) {
        let run = self.run.get_or_insert_with(|| event.run.clone());
        self.child_prefix = child_prefix(run, &event.run);
        match &event.kind {
            EventKind::PipelineStarted { name, goal } => {
                let goal = if goal.is_empty() {
                    String::new()
                } else {
                    format!(": {goal}")
                };
                let name = self.terminal.paint(Paint::Bold, name);
                self.line(&format!("{}{name}{goal}", self.child_prefix));
                self.print_branches();
            }
            EventKind::PipelineResumed {
                checkpoint,
                repaired,
                replayed_from,
                retry,
                ..
            } => {
                let child_prefix = &self.child_prefix;
                self.running
                    .retain(|running| !running.name.starts_with(child_prefix));
                let from = replayed_from.as_ref().unwrap_or(checkpoint);
                self.note(&match retry {
                    Some(node) => format!("resumed from {from}, retries {node}"),
                    None => format!("resumed from {from}"),
                });
                for repair in repaired {
                    self.note(&format!("repaired: {}", one_line(repair)));
                }
                self.print_branches();
            }
            EventKind::StageStarted { stage, repeat, .. } => {
                self.stage_began(stage.label(), "", event.time);
                if let Some(running) = self.running.last_mut() {
                    running.repeat = *repeat;
                }
            }
            EventKind::StageCompleted {
                stage,
                outcome,
                notes,
                duration,
                ..
            } => {
                let word = if *outcome == Status::Success {
                    "ok"
                } else {
                    outcome.word()
                };
                let mark = self.terminal.paint(Paint::Good, &format!("{word:>6}"));
                self.stage_ended(&mark, stage, *duration, notes.as_deref());
            }
            EventKind::StageFailed {
                stage,
                error,
                will_retry,
                duration,
                ..
            } => {
                let word = if *will_retry { " again" } else { "failed" };
                let mark = self.terminal.paint(Paint::Bad, word);
                self.stage_ended(&mark, stage, *duration, Some(error));
            }
            EventKind::StageRetrying {
                node,
                branch,
                attempt,
                max_attempts,
                delay,
                ..
            } => {
                let name = stage_label(branch.as_deref(), node);
                let delay = short_duration(*delay);
                self.note(&format!(
                    "{name} again in {delay}, attempt {attempt} of {max_attempts}"
                ));
                self.stage_began(name, WAITS, event.time);
            }
            EventKind::StageCancelled { stage, duration } => {
                let mark = self.terminal.paint(Paint::Warn, "   cut");
                // The event that ended the question has shown the reason already.
                if self
                    .remove_running(&stage.label())
                    .is_some_and(|running| running.activity == ASKS)
                {
                    return;
                }
                self.stage_ended(&mark, stage, *duration, None);
            }
            EventKind::ParallelStarted {
                node,
                branch,
                branch_count,
                ..
            } => {
                let name = stage_label(branch.as_deref(), node);
                // The branches show their own progress.
                self.remove_running(&name);
                let noun = if *branch_count == 1 { "branch" } else { "branches" };
                self.note(&format!("{name}: {branch_count} {noun}"));
            }
            EventKind::ParallelBranchStarted {
                branch,
                item: Some(item),
                ..
            } => self.note(&format!("{}: {}", branch_label(branch), one_line(item))),
            EventKind::ParallelBranchCompleted {
                branch,
                success: false,
                status,
                error,
                ..
            } => {
                let why = error
                    .as_deref()
                    .map_or_else(String::new, |error| format!(": {}", one_line(error)));
                self.note(&format!("{} {}{why}", branch_label(branch), status.word()));
            }
            EventKind::InterviewStarted { node, branch, .. } => {
                self.stage_began(stage_label(branch.as_deref(), node), ASKS, event.time);
            }
            EventKind::InterviewCompleted { node, branch, .. } => {
                let name = format!("{}{}", self.child_prefix, stage_label(branch.as_deref(), node));
                let asking = self.running.iter_mut().filter(|running| running.name == name);
                asking.for_each(|running| running.activity = "");
            }
            EventKind::InterviewTimeout {
                node,
                branch,
                default,
                duration,
                ..
            } => {
                let name = stage_label(branch.as_deref(), node);
                let then = match default {
                    Some(default) => format!("the default `{}` is taken", one_line(default)),
                    None => "there is no default".to_owned(),
                };
                self.note(&format!(
                    "{name}: nobody answered within {}, {then}",
                    short_duration(*duration)
                ));
            }
            EventKind::GoalGateUnsatisfied { gate, .. } => {
                self.note(&format!("the goal gate `{gate}` is not satisfied"));
            }
            EventKind::PipelineRestarted { from, to, restart } => {
                let child_prefix = &self.child_prefix;
                self.running
                    .retain(|running| !running.name.starts_with(child_prefix));
                self.note(&format!("`{from}` restarts the run at `{to}`, restart {restart}"));
            }
            EventKind::EdgeSelected {
                branch,
                to: Some(to),
                edge,
                rule,
                tested,
                ..
            } => {
                let why = tested
                    .iter()
                    .find(|tested| tested.held && tested.to == *to && tested.edge == *edge)
                    .map_or_else(
                        || rule.describe().to_owned(),
                        |tested| {
                            let condition = format!("{}{}", tested.condition, seen_values(tested));
                            match rule {
                                // The condition alone would not explain why the edge was taken.
                                Rule::Choice => format!("{}: {condition}", rule.describe()),
                                Rule::PartialAsSuccess => {
                                    format!("{condition}, with the partial success taken as a success")
                                }
                                _ => condition,
                            }
                        },
                    );
                let branch = branch
                    .as_deref()
                    .map_or_else(String::new, |branch| branch_label(branch) + " ");
                self.note(&format!("{branch}-> {to} ({why})"));
            }
            EventKind::SteeringRead {
                node,
                branch,
                instruction,
                ..
            } => {
                let name = stage_label(branch.as_deref(), node);
                self.note(&format!(
                    "{name} reads its manager's instruction: {}",
                    one_line(instruction)
                ));
            }
            EventKind::StageLog { node, message } => self.note(&format!("{node}: {message}")),
            EventKind::PipelineWarning { message, .. } => {
                self.note(&format!("warning: {}", one_line(message)));
            }
            EventKind::StageWarning {
                node,
                branch,
                message,
                ..
            } => {
                let branch = branch
                    .as_deref()
                    .map_or_else(String::new, |branch| branch_label(branch) + " ");
                self.note(&format!("{branch}{node}: warning: {message}"));
            }
            _ => {}
        }
    }

    fn stage_began(&mut self, name: String, activity: &'static str, at: Timestamp) {
        let previous = self.remove_running(&name);
        let before = between(at, now());
        self.running.push(Running {
            repeat: previous.is_some_and(|previous| previous.repeat),
            name: format!("{}{name}", self.child_prefix),
            activity,
            since: Instant::now().checked_sub(before).unwrap_or_else(Instant::now),
        });
        self.tick();
    }

    /// Removes a stage from the live line.
    fn remove_running(&mut self, name: &str) -> Option<Running> {
        let is = |running: &Running| running.name.strip_prefix(&*self.child_prefix) == Some(name);
        let at = self.running.iter().position(is)?;
        Some(self.running.remove(at))
    }

    fn stage_ended(&mut self, mark: &str, stage: &StageRef, duration: Duration, notes: Option<&str>) {
        let name = stage.label();
        let repeated = match self.remove_running(&name) {
            Some(Running { repeat: true, .. }) => ", repeated",
            _ => "",
        };
        let name = format!(
            "{}{name}{}{repeated}",
            self.child_prefix,
            attempt_suffix(stage.visit, stage.attempt)
        );
        let notes = notes.map_or_else(String::new, |notes| format!("  {}", one_line(notes)));
        self.line(&format!(
            "{mark} {name:<24} {:>8}{}",
            short_duration(duration),
            self.terminal.paint(Paint::Dim, &notes)
        ));
    }
}

/// Returns the prefix for events of a child run: `supervise-1 > ` for the run `nightly-supervise-1` inside `nightly`.
/// Empty for the run itself.
fn child_prefix(run: &RunId, of: &RunId) -> String {
    if run == of {
        return String::new();
    }
    let rest = of.strip_prefix(&**run).and_then(|rest| rest.strip_prefix('-'));
    format!("{} > ", rest.unwrap_or(of))
}

/// Returns the values that a condition saw, unless the condition text contains them.
fn seen_values(tested: &TestedCondition) -> String {
    let unseen = |(key, value): &&(String, String)| !tested.condition.contains(&format!("{key}={value}"));
    let values: Vec<String> = tested
        .values
        .iter()
        .filter(unseen)
        .map(|(key, value)| format!("{key} is `{}`", one_line(value)))
        .collect();
    if values.is_empty() {
        String::new()
    } else {
        format!(": {}", values.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_named_by_what_it_adds_to_the_name_of_the_run() {
        let id = |id: &str| RunId::new(id).unwrap();
        assert_eq!(child_prefix(&id("nightly"), &id("nightly")), "");
        assert_eq!(child_prefix(&id("nightly"), &id("nightly-watch-1")), "watch-1 > ");
        assert_eq!(child_prefix(&id("nightly"), &id("other")), "other > ");
    }
}
