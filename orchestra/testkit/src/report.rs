//! The human-readable report of a run: its events with times, its transitions, and their reasons.

use std::fmt::Write as _;
use std::time::Duration;

use orchestra_engine::{EventKind, NodeName, RunEvent, RunResult, StageRef, TestedCondition};
use orchestra_graph::{Rule, format_duration};

/// Returns the time from the start of the run to an event.
pub(crate) fn elapsed(events: &[RunEvent], event: &RunEvent) -> Duration {
    let began = events.first().map_or(event.time, |first| first.time);
    Duration::from_millis(event.time.as_millis().saturating_sub(began.as_millis()))
}

/// Returns the report of a run and its end.
pub(crate) fn run_report(result: &RunResult, events: &[RunEvent]) -> String {
    let lines: Vec<(String, String)> = events
        .iter()
        .filter_map(|event| Some((format_duration(elapsed(events, event)), line(&event.kind)?)))
        .collect();
    let width = lines.iter().map(|(time, _)| time.len()).max().unwrap_or_default();
    let mut text = "how the run went:".to_owned();
    for (time, line) in &lines {
        let _ = write!(text, "\n  {time:>width$}  {line}");
    }
    let _ = write!(text, "\nit ended as {}", result.status);
    if let Some(failure) = &result.failure {
        let _ = write!(text, ": {failure}");
    }
    text
}

/// Describes where a run diverged from the expected path, and why.
pub(crate) fn path_mismatch(result: &RunResult, events: &[RunEvent], expected: &[String]) -> String {
    let taken: Vec<&str> = result.path.iter().collect();
    let both = taken.iter().zip(expected);
    let common = both.take_while(|(taken, expected)| taken == expected).count();
    let mut text = format!(
        "the run took another path\n  expected: {}\n  taken:    {}\n",
        expected.join(" -> "),
        taken.join(" -> ")
    );
    let named = |node: Option<&str>| node.map_or_else(|| "the end".to_owned(), |node| format!("`{node}`"));
    let came = named(taken.get(common).copied());
    let wanted = named(expected.get(common).map(String::as_str));
    match common.checked_sub(1).and_then(|before| taken.get(before)) {
        Some(last) => {
            let _ = writeln!(text, "behind `{last}` came {came} instead of {wanted}");
            let visit = taken[..common].iter().filter(|node| *node == last).count();
            for decision in decisions(events, last, visit) {
                let _ = writeln!(text, "  because {decision}");
            }
        }
        None => {
            let _ = writeln!(text, "it began with {came} instead of {wanted}");
        }
    }
    text.push_str(&run_report(result, events));
    text
}

/// Returns the transition that left a visit of a node, and that of a goal gate which sent the run back afterwards.
fn decisions(events: &[RunEvent], node: &str, visit: usize) -> Vec<String> {
    // The path contains the nodes since the last restart only.
    let restarted = |event: &RunEvent| matches!(event.kind, EventKind::PipelineRestarted { .. });
    let first = events.iter().rposition(restarted).map_or(0, |at| at + 1);
    let mut transitions = events[first..].iter().filter_map(|event| match &event.kind {
        EventKind::EdgeSelected {
            from,
            to,
            rule,
            tested,
            ..
        } => Some((from, to, *rule, tested)),
        _ => None,
    });
    let is_decision =
        |transition: &(&NodeName, _, Rule, _)| **transition.0 == *node && transition.2 != Rule::GoalGate;
    let decision = transitions
        .by_ref()
        .filter(is_decision)
        .nth(visit.saturating_sub(1));
    let Some((from, to, rule, tested)) = decision else {
        return Vec::new();
    };
    let mut lines = vec![describe_transition(from, to.as_ref(), rule, tested)];
    if let Some((gate, to, Rule::GoalGate, tested)) = transitions.next() {
        lines.push(describe_transition(gate, to.as_ref(), Rule::GoalGate, tested));
    }
    lines
}

/// Describes a transition with the conditions that were tested for it.
fn describe_transition(
    from: &NodeName,
    to: Option<&NodeName>,
    rule: Rule,
    tested: &[TestedCondition],
) -> String {
    let to = to.map_or("nowhere", |to| to);
    let mut text = format!("{from} -> {to} ({})", rule.describe());
    let conditions: Vec<String> = tested
        .iter()
        .map(|tested| {
            let mut condition = format!("`{}` ", tested.condition);
            if *tested.to != *to {
                let _ = write!(condition, "to {} ", tested.to);
            }
            condition.push_str(if tested.held { "is true" } else { "is false" });
            for (key, value) in &tested.values {
                let _ = write!(condition, ", {key} is `{value}`");
            }
            condition
        })
        .collect();
    if !conditions.is_empty() {
        let _ = write!(text, ": {}", conditions.join("; "));
    }
    text
}

/// Returns the line of an event in the report, or `None` if the event adds nothing to the other lines.
fn line(kind: &EventKind) -> Option<String> {
    let within = |branch: &Option<String>| {
        branch
            .as_ref()
            .map_or_else(String::new, |name| format!("[{name}] "))
    };
    let attempt_suffix = |visit: u32, attempt: u32| match (visit, attempt) {
        (1, 1) => String::new(),
        (visit, 1) => format!(" (visit {visit})"),
        (1, attempt) => format!(" (attempt {attempt})"),
        (visit, attempt) => format!(" (visit {visit}, attempt {attempt})"),
    };
    let attempt_name = |stage: &StageRef| {
        let suffix = attempt_suffix(stage.visit, stage.attempt);
        format!("{}{}{suffix}", within(&stage.branch), stage.node)
    };
    Some(match kind {
        EventKind::StageCompleted {
            stage,
            outcome,
            preferred_label,
            ..
        } => {
            let label = preferred_label.as_ref();
            let label = label.map_or_else(String::new, |label| format!(", prefers `{label}`"));
            format!("{}: {outcome}{label}", attempt_name(stage))
        }
        EventKind::StageFailed { stage, error, .. } => format!("{}: fail, {error}", attempt_name(stage)),
        EventKind::StageRetrying {
            node,
            branch,
            attempt,
            max_attempts,
            delay,
            ..
        } => format!(
            "{}{node}: attempt {attempt} of {max_attempts} in {}",
            within(branch),
            format_duration(*delay)
        ),
        EventKind::StageCancelled { stage, .. } => format!("{}: cancelled", attempt_name(stage)),
        EventKind::EdgeSelected {
            branch,
            from,
            to,
            rule,
            tested,
            ..
        } => {
            let transition = describe_transition(from, to.as_ref(), *rule, tested);
            format!("{}  {transition}", within(branch))
        }
        EventKind::ParallelStarted {
            node,
            branch,
            branch_count,
            ..
        } => format!("{}{node}: {branch_count} branches", within(branch)),
        EventKind::ParallelBranchCompleted {
            branch,
            status,
            error,
            ..
        } => {
            let error = error
                .as_ref()
                .map_or_else(String::new, |error| format!(", {error}"));
            format!("[{branch}] {}{error}", status.word())
        }
        EventKind::InterviewCompleted {
            node,
            branch,
            answer,
            answered_by,
            ..
        } => format!(
            "{}{node}: the answer is `{answer}` ({})",
            within(branch),
            answered_by.describe()
        ),
        EventKind::InterviewTimeout {
            node,
            branch,
            default,
            ..
        } => {
            let default = default.as_ref();
            let taken = default.map_or_else(
                || "no default".to_owned(),
                |label| format!("the default is `{label}`"),
            );
            format!("{}{node}: nobody answered in time, {taken}", within(branch))
        }
        EventKind::GoalGateUnsatisfied { gate, to, .. } => {
            format!("the goal gate {gate} is unsatisfied and sends the run to {to}")
        }
        EventKind::PipelineRestarted { from, to, restart } => {
            format!("{from} -> {to} restarts the run, for the {} time", nth(*restart))
        }
        EventKind::SteeringRead {
            node, instruction, ..
        } => {
            format!("{node} reads its manager's instruction: {instruction}")
        }
        EventKind::StageLog { node, message } => format!("{node} says: {message}"),
        EventKind::PipelineWarning { message, .. } => format!("warning: {message}"),
        EventKind::StageWarning {
            node,
            branch,
            message,
            ..
        } => format!("{}{node}: warning: {message}", within(branch)),
        _ => return None,
    })
}

fn nth(number: u32) -> String {
    match (number % 10, number % 100) {
        (1, rest) if rest != 11 => format!("{number}st"),
        (2, rest) if rest != 12 => format!("{number}nd"),
        (3, rest) if rest != 13 => format!("{number}rd"),
        _ => format!("{number}th"),
    }
}
