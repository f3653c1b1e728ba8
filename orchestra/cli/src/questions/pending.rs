//! The open questions of a run, derived from its events.

use std::time::Duration;

use orchestra_engine::{EventKind, EventLine, Question, RunEvent, RunId, Timestamp};

use crate::terminal::format::between;

/// An open question.
#[derive(Clone, Debug)]
pub(crate) struct PendingQuestion {
    pub(crate) node: String,
    pub(crate) branch: Option<String>,
    pub(crate) question: Question,
    /// The time at which it was first asked. Its timeout continues while no process executes the run (rule H3).
    pub(crate) asked: Timestamp,
    /// The run that asks: the run itself or a child run.
    pub(crate) run: RunId,
    /// `true` if it was withdrawn. The pause of a run only suspends it.
    withdrawn: bool,
}

impl PendingQuestion {
    /// Returns the deadline of the question.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        let timeout = self.question.timeout?;
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        Some(Timestamp::from_millis(
            self.asked.as_millis().saturating_add(millis),
        ))
    }

    /// Returns the remaining time.
    pub(crate) fn remaining(&self, now: Timestamp) -> Option<Duration> {
        Some(between(now, self.deadline()?))
    }
}

/// The open questions of a run.
#[derive(Debug, Default)]
pub(crate) struct PendingQuestions {
    open: Vec<PendingQuestion>,
}

impl PendingQuestions {
    /// Returns the open questions, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PendingQuestion> {
        self.open.iter().filter(|open| !open.withdrawn)
    }

    /// Applies a line of `events.jsonl`. Parses it only if it is relevant.
    pub(crate) fn apply_line(&mut self, line: EventLine<'_>) {
        let relevant = match line.name() {
            Some("InterviewStarted") => true,
            _ => !self.open.is_empty(),
        };
        if relevant && let Some(event) = line.event() {
            self.apply(&event);
        }
    }

    pub(crate) fn apply(&mut self, event: &RunEvent) {
        match &event.kind {
            EventKind::InterviewStarted {
                node,
                branch,
                question,
            } => {
                self.close(event, node, branch.as_deref());
                self.open.push(PendingQuestion {
                    node: node.to_string(),
                    branch: branch.clone(),
                    question: Question::clone(question),
                    asked: event.time,
                    run: event.run.clone(),
                    withdrawn: false,
                });
            }
            EventKind::StageCancelled { node, branch, .. } => {
                for open in &mut self.open {
                    open.withdrawn |= open.is(event, node, branch.as_deref());
                }
            }
            // Questions that the pause cut short are open again.
            EventKind::PipelinePaused { .. } => self.open.iter_mut().for_each(|open| open.withdrawn = false),
            EventKind::StageStarted { repeat: true, .. } | EventKind::PipelineResumed { .. } => {}
            EventKind::StageStarted { node, branch, .. }
            | EventKind::InterviewCompleted { node, branch, .. }
            | EventKind::InterviewTimeout { node, branch, .. }
            | EventKind::StageCompleted { node, branch, .. }
            | EventKind::StageFailed { node, branch, .. } => {
                self.close(event, node, branch.as_deref());
                self.open.retain(|open| !open.withdrawn);
            }
            EventKind::PipelineCompleted { .. }
            | EventKind::PipelineFailed { .. }
            | EventKind::PipelineCancelled { .. } => self.open.retain(|open| open.run != event.run),
            _ => {}
        }
    }

    fn close(&mut self, event: &RunEvent, node: &str, branch: Option<&str>) {
        self.open.retain(|open| !open.is(event, node, branch));
    }
}

impl PendingQuestion {
    fn is(&self, event: &RunEvent, node: &str, branch: Option<&str>) -> bool {
        self.run == event.run && self.node == node && self.branch.as_deref() == branch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply_event(waiting: &mut PendingQuestions, fields: &str) {
        let line = format!(
            r#"{{"schema":"orchestra.event/1","seq":1,"time":"2026-11-21T15:30:00Z","run":"r",{fields}}}"#
        );
        waiting.apply(&RunEvent::from_json(line.as_bytes()).unwrap());
    }

    const ASKED: &str = r#""event":"InterviewStarted","node":"ask","question":{"id":"ask#1","kind":"single_select","text":"Ship?","node":"ask","options":[],"timeout_ms":90000}"#;
    const CUT: &str =
        r#""event":"StageCancelled","node":"ask","index":1,"visit":1,"attempt":1,"duration_ms":1"#;

    fn nodes(waiting: &PendingQuestions) -> Vec<&str> {
        waiting.iter().map(|open| open.node.as_str()).collect()
    }

    #[test]
    fn a_pause_puts_a_question_aside_and_its_time_goes_on() {
        let mut waiting = PendingQuestions::default();
        apply_event(&mut waiting, ASKED);
        assert_eq!(nodes(&waiting), ["ask"]);
        apply_event(&mut waiting, CUT);
        assert!(nodes(&waiting).is_empty());
        apply_event(
            &mut waiting,
            r#""event":"PipelinePaused","reason":"lunch","duration_ms":1"#,
        );
        assert_eq!(nodes(&waiting), ["ask"]);
        apply_event(
            &mut waiting,
            r#""event":"PipelineResumed","checkpoint":"cp_000001","fencing_token":2"#,
        );
        apply_event(
            &mut waiting,
            r#""event":"StageStarted","node":"ask","index":1,"visit":1,"attempt":1,"repeat":true"#,
        );
        let open = waiting.iter().next().unwrap();
        assert_eq!(open.deadline().unwrap().to_string(), "2026-11-21T15:31:30.000Z");
        apply_event(
            &mut waiting,
            r#""event":"InterviewCompleted","node":"ask","question":"Ship?","answer":"Yes","answered_by":"person","duration_ms":1"#,
        );
        assert!(nodes(&waiting).is_empty());
    }

    #[test]
    fn a_question_that_is_not_needed_any_more_does_not_wait_after_a_later_pause() {
        let mut waiting = PendingQuestions::default();
        apply_event(&mut waiting, ASKED);
        apply_event(&mut waiting, CUT);
        apply_event(
            &mut waiting,
            r#""event":"StageStarted","node":"next","index":2,"visit":1,"attempt":1"#,
        );
        apply_event(
            &mut waiting,
            r#""event":"PipelinePaused","reason":"lunch","duration_ms":1"#,
        );
        assert!(nodes(&waiting).is_empty());
    }
}
