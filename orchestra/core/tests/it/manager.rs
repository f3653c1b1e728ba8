//! The individual decisions of a manager loop (Attractor 4.11).
use std::time::Duration;

use orchestra_core::{
    ChildReport, ChildStatus, Context, FailureCategory, Manager, ManagerEffect, ManagerEvent, ManagerPlan,
    Outcome, Status,
};
use orchestra_graph::table::{AttributeRow, Constant, Rows};
use orchestra_graph::{Source, load};
use serde_json::json;

/// Returns the plan of a manager node with these attributes.
fn plan(attributes: &str) -> Result<ManagerPlan, String> {
    let text = format!(
        "digraph {{ start -> watch -> exit; watch [shape=house, \"stack.child_dotfile\"=child, {attributes}] }}"
    );
    let loaded = load(Source::new("a.dot", &*text), &Default::default());
    let pipeline = loaded.pipeline().unwrap_or_else(|| panic!("{text}"));
    ManagerPlan::from_stage(pipeline.stage(pipeline.find("watch").unwrap()))
}

/// A manager loop and its effects.
struct Loop {
    manager: Manager,
    effects: Vec<ManagerEffect>,
}

impl Loop {
    fn new(attributes: &str) -> Loop {
        Loop::with(attributes, Context::new())
    }

    fn with(attributes: &str, context: Context) -> Loop {
        let mut effects = Vec::new();
        let manager = Manager::start(plan(attributes).unwrap(), context, &mut effects);
        assert_eq!(std::mem::take(&mut effects), [ManagerEffect::Observe]);
        Loop { manager, effects }
    }

    fn on(&mut self, event: ManagerEvent) -> Vec<ManagerEffect> {
        self.manager.on(event, &mut self.effects);
        std::mem::take(&mut self.effects)
    }

    fn reported(&mut self, report: ChildReport) -> Vec<ManagerEffect> {
        self.on(ManagerEvent::Reported(report))
    }

    /// Lets the waiting time pass and answers the next observation.
    fn later(&mut self, report: ChildReport) -> Vec<ManagerEffect> {
        assert_eq!(self.on(ManagerEvent::TimePassed), [ManagerEffect::Observe]);
        self.reported(report)
    }
}

const POLL: Duration = Duration::from_secs(45);

/// Returns the report of a child that runs the stage `build` and began this many seconds ago.
fn building(seconds: u64) -> ChildReport {
    ChildReport {
        active_stages: vec!["build".to_owned()],
        elapsed: Duration::from_secs(seconds),
        ..ChildReport::default()
    }
}

fn failing(failures: u64) -> ChildReport {
    ChildReport {
        failures,
        last_failure: "build: no compiler".to_owned(),
        ..building(failures)
    }
}

fn ended(status: ChildStatus, reason: &str) -> ChildReport {
    ChildReport {
        status,
        reason: reason.to_owned(),
        completed_stages: 3,
        elapsed: Duration::from_secs(90),
        ..ChildReport::default()
    }
}

/// Returns the outcome of a loop that has ended, and whether it cancels the child.
fn stop(effects: &[ManagerEffect]) -> (Outcome, bool) {
    match effects {
        [
            ManagerEffect::Stop {
                outcome,
                cancel_child,
            },
        ] => (outcome.clone(), *cancel_child),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_child_that_succeeded_is_a_success_and_its_values_are_known() {
    let mut manager = Loop::new("label=watch");
    let report = ChildReport {
        completed_stages: 2,
        failures: 1,
        retries: 1,
        last_failure: "build: no compiler".to_owned(),
        ..building(7)
    };
    assert_eq!(manager.reported(report), [ManagerEffect::Wait(POLL)]);
    let (outcome, cancel) = stop(&manager.later(ended(ChildStatus::Completed, "")));
    assert_eq!((outcome.status, cancel), (Status::Success, false));
    assert_eq!(outcome.notes.as_deref(), Some("Child completed: 3 stages in 90s"));
    let values = json!(outcome.context_updates);
    let expected = json!({
        "stack.child.status": "completed", "stack.child.outcome": "success", "stack.child.active_stage": "",
        "stack.child.completed_stages": 3, "stack.child.failures": 0, "stack.child.retries": 0,
        "stack.child.elapsed_ms": 90_000, "stack.child.last_failure": "",
    });
    assert_eq!(values, expected);
}

#[test]
fn a_child_that_failed_is_a_failure_with_its_reason() {
    let mut manager = Loop::new("label=watch");
    let (outcome, cancel) =
        stop(&manager.reported(ended(ChildStatus::Failed, "stage `build` failed: no compiler")));
    assert_eq!((outcome.status, cancel), (Status::Fail, false));
    assert_eq!(
        outcome.failure_reason.as_deref(),
        Some("the child failed: stage `build` failed: no compiler")
    );
    assert_eq!(outcome.failure_code.as_deref(), Some("child_failed"));
    assert_eq!(outcome.failure_category, FailureCategory::Retryable);
    assert_eq!(outcome.context_updates["stack.child.status"], "failed");
    assert_eq!(outcome.context_updates["stack.child.outcome"], "fail");
}

#[test]
fn a_child_that_somebody_ended_is_a_failure() {
    let mut manager = Loop::new("label=watch");
    let (outcome, cancel) = stop(&manager.reported(ended(ChildStatus::Cancelled, "")));
    assert_eq!((outcome.status, cancel), (Status::Fail, false));
    assert_eq!(
        outcome.failure_reason.as_deref(),
        Some("the child was cancelled: on request")
    );
    assert_eq!(outcome.context_updates["stack.child.outcome"], "cancelled");
}

#[test]
fn a_child_that_ends_during_a_wait_is_heard_at_once() {
    for attributes in [
        "label=watch",
        "\"manager.actions\"=wait",
        "\"manager.actions\"=observe",
    ] {
        let mut manager = Loop::new(attributes);
        let effects = manager.reported(building(1));
        assert!(
            matches!(effects[..], [ManagerEffect::Wait(_) | ManagerEffect::WaitForNews]),
            "{effects:?}"
        );
        let (outcome, _) = stop(&manager.reported(ended(ChildStatus::Completed, "")));
        assert_eq!(outcome.status, Status::Success, "{attributes}");
        assert_eq!(outcome.context_updates["stack.child.status"], "completed");
    }
}

#[test]
fn a_child_that_ends_in_the_last_cycle_is_not_one_cycle_too_many() {
    let mut manager = Loop::new("\"manager.max_cycles\"=1");
    let (outcome, _) = stop(&manager.reported(ended(ChildStatus::Completed, "")));
    assert_eq!(outcome.status, Status::Success);
}

#[test]
fn the_stop_condition_is_a_success_and_ends_the_child() {
    // Covers both spellings of a key, and the values of the manager's own context.
    for condition in [
        "stack.child.failures >= 2",
        "context.stack.child.failures >= 2",
        "context.limit = 2 && stack.child.failures > 1",
        "stack.child.status = running && context.stack.child.active_stage = build && stack.child.failures = 2",
        "outcome = partial_success && last_stage = plan && stack.child.failures = 2",
    ] {
        let own = [
            ("limit", "2"),
            ("outcome", "partial_success"),
            ("last_stage", "plan"),
        ];
        let attribute = format!("\"manager.stop_condition\"=\"{condition}\"");
        let mut manager = Loop::with(&attribute, own.into_iter().collect());
        assert_eq!(
            manager.reported(failing(1)),
            [ManagerEffect::Wait(POLL)],
            "{condition}"
        );
        let (outcome, cancel) = stop(&manager.later(failing(2)));
        assert_eq!((&outcome.status, cancel), (&Status::Success, true), "{condition}");
        let notes = format!("Stop condition satisfied: {condition}");
        assert_eq!(outcome.notes, Some(notes));
        assert_eq!(
            outcome.context_updates["stack.child.status"], "cancelled",
            "the manager ends it"
        );
        assert_eq!(outcome.context_updates["stack.child.failures"], 2);
    }
}

#[test]
fn what_an_earlier_child_left_in_the_context_satisfies_no_condition() {
    let old = [("stack.child.status", "completed"), ("stack.child.failures", "9")];
    let attributes = "\"manager.stop_condition\"=\"stack.child.status=completed || stack.child.failures>0\", \
                      \"manager.actions\"=wait";
    let mut manager = Loop::with(attributes, old.into_iter().collect());
    assert_eq!(manager.reported(building(1)), [ManagerEffect::Wait(POLL)]);
}

#[test]
fn the_end_of_the_child_comes_before_stop_condition_and_guards() {
    let attributes = "\"manager.stop_condition\"=\"stack.child.status=failed\", \
                      \"manager.guard.escalate\"=\"stack.child.status=failed\"";
    let mut manager = Loop::new(attributes);
    let (outcome, _) = stop(&manager.reported(ended(ChildStatus::Failed, "it broke")));
    assert_eq!(outcome.failure_code.as_deref(), Some("child_failed"));
}

#[test]
fn the_stop_condition_comes_before_the_guard() {
    let attributes = "\"manager.stop_condition\"=\"stack.child.failures>0\", \
                      \"manager.guard.escalate\"=\"stack.child.failures>0\"";
    let (outcome, _) = stop(&Loop::new(attributes).reported(failing(1)));
    assert_eq!(outcome.status, Status::Success);
}

#[test]
fn escalation_is_a_terminal_failure_that_prefers_its_edge_and_ends_the_child() {
    let mut manager = Loop::new("\"manager.guard.escalate\"=\"stack.child.failures > 2\"");
    assert_eq!(manager.reported(failing(2)), [ManagerEffect::Wait(POLL)]);
    let (outcome, cancel) = stop(&manager.later(failing(3)));
    assert_eq!((outcome.status, cancel), (Status::Fail, true));
    assert_eq!(
        outcome.failure_reason.as_deref(),
        Some("escalated: stack.child.failures > 2")
    );
    assert_eq!(outcome.preferred_label.as_deref(), Some("Escalate"));
    assert_eq!(outcome.failure_category, FailureCategory::Terminal);
    assert_eq!(outcome.failure_code.as_deref(), Some("escalated"));
}

#[test]
fn escalation_comes_before_steering() {
    let attributes = "\"manager.actions\"=\"observe,steer,wait\", \
        \"manager.guard.escalate\"=\"stack.child.failures>0\", \"manager.guard.intervene\"=\"stack.child.failures>0\"";
    let (outcome, _) = stop(&Loop::new(attributes).reported(failing(1)));
    assert_eq!(outcome.failure_code.as_deref(), Some("escalated"));
}

#[test]
fn the_last_cycle_fails_without_waiting_once_more() {
    let mut manager = Loop::new("\"manager.max_cycles\"=3");
    assert_eq!(manager.reported(building(1)), [ManagerEffect::Wait(POLL)]);
    assert_eq!(manager.later(building(2)), [ManagerEffect::Wait(POLL)]);
    let (outcome, cancel) = stop(&manager.later(building(3)));
    assert_eq!((outcome.status, cancel), (Status::Fail, true));
    assert_eq!(
        outcome.failure_reason.as_deref(),
        Some("exceeded manager.max_cycles: after 3 looks the child is still running at `build`")
    );
    assert_eq!(outcome.failure_code.as_deref(), Some("max_cycles"));
}

#[test]
fn the_interval_is_what_the_node_says() {
    let mut manager = Loop::new("\"manager.poll_interval\"=5s");
    assert_eq!(
        manager.reported(building(1)),
        [ManagerEffect::Wait(Duration::from_secs(5))]
    );
}

#[test]
fn without_wait_it_looks_when_there_is_news_and_each_look_counts() {
    let mut manager = Loop::new("\"manager.actions\"=observe, \"manager.max_cycles\"=3");
    assert_eq!(manager.reported(building(1)), [ManagerEffect::WaitForNews]);
    assert_eq!(manager.reported(building(2)), [ManagerEffect::WaitForNews]);
    let (outcome, _) = stop(&manager.reported(building(3)));
    assert_eq!(outcome.failure_code.as_deref(), Some("max_cycles"));
}

#[test]
fn without_observe_conditions_see_nothing_of_a_running_child() {
    let mut manager =
        Loop::new("\"manager.actions\"=wait, \"manager.stop_condition\"=\"stack.child.failures>0\"");
    assert_eq!(manager.reported(failing(5)), [ManagerEffect::Wait(POLL)]);
    assert_eq!(manager.later(failing(6)), [ManagerEffect::Wait(POLL)]);
}

/// Returns `true` if a cycle steers. The cycle must wait in either case.
fn steers(effects: &[ManagerEffect]) -> bool {
    match effects {
        [ManagerEffect::Wait(_)] => false,
        [ManagerEffect::Steer { .. }, ManagerEffect::Wait(_)] => true,
        other => panic!("{other:?}"),
    }
}

const STEER: &str = "\"manager.actions\"=\"observe,steer,wait\"";

#[test]
fn it_steers_every_cycle_where_no_guard_says_when() {
    let mut manager = Loop::new(&format!("{STEER}, prompt=\"Keep to $goal.\""));
    let effects = manager.reported(building(1));
    let ManagerEffect::Steer {
        stages,
        message,
        cycle,
        reason,
    } = &effects[0]
    else {
        panic!("{effects:?}")
    };
    assert_eq!((&stages[..], *cycle), (&["build".to_owned()][..], 1));
    assert_eq!(message, "Keep to .", "the prompt, with its variables expanded");
    assert_eq!(reason, "the manager steers in every cycle");
    let effects = manager.later(building(2));
    assert!(steers(&effects), "{effects:?}");
    let ManagerEffect::Steer { cycle: 2, .. } = effects[0] else {
        panic!("{effects:?}")
    };
}

#[test]
fn a_guard_says_when_to_steer_and_the_reason_names_it() {
    let mut manager = Loop::new(&format!(
        "{STEER}, \"manager.guard.intervene\"=\"stack.child.failures > 1\""
    ));
    assert!(!steers(&manager.reported(failing(1))));
    let effects = manager.later(failing(2));
    let ManagerEffect::Steer { reason, .. } = &effects[0] else {
        panic!("{effects:?}")
    };
    assert_eq!(reason, "manager.guard.intervene holds: stack.child.failures > 1");
}

#[test]
fn a_guard_steers_nothing_where_steering_is_no_action() {
    let mut manager = Loop::new("\"manager.guard.intervene\"=\"stack.child.failures > 0\"");
    assert!(!steers(&manager.reported(failing(3))));
}

#[test]
fn the_cooldown_is_kept_to_the_moment() {
    let mut manager = Loop::new(&format!("{STEER}, \"manager.steer_cooldown\"=60s"));
    assert!(steers(&manager.reported(building(10))));
    assert!(!steers(&manager.later(building(40))));
    assert!(!steers(&manager.later(building(69))));
    assert!(steers(&manager.later(building(70))));
    assert!(!steers(&manager.later(building(100))));
}

#[test]
fn where_nobody_can_be_told_the_cooldown_does_not_begin() {
    let mut manager = Loop::new(&format!("{STEER}, \"manager.steer_cooldown\"=60s"));
    let between = ChildReport {
        active_stages: Vec::new(),
        ..building(10)
    };
    assert!(!steers(&manager.reported(between)));
    assert!(steers(&manager.later(building(11))));
}

#[test]
fn a_message_of_its_own_is_reported_and_else_a_general_one() {
    let message = |attributes: &str| plan(attributes).unwrap().message;
    assert_eq!(
        message("\"manager.steer_message\"=\"Stop.\", prompt=\"Go on.\""),
        "Stop."
    );
    assert_eq!(message("prompt=\"Go on.\""), "Go on.");
    assert!(message("label=watch").starts_with("Check whether the work still leads to the goal."));
}

#[test]
fn after_the_end_nothing_is_wanted_any_more() {
    let mut manager = Loop::new("label=watch");
    stop(&manager.reported(ended(ChildStatus::Completed, "")));
    assert_eq!(manager.reported(building(1)), []);
    assert_eq!(manager.on(ManagerEvent::TimePassed), []);
    assert_eq!(manager.reported(ended(ChildStatus::Failed, "late")), []);
}

#[test]
fn events_that_were_not_asked_for_change_nothing() {
    let mut manager = Loop::new("\"manager.max_cycles\"=2");
    assert_eq!(
        manager.on(ManagerEvent::TimePassed),
        [],
        "it looks, and does not wait"
    );
    assert_eq!(manager.reported(building(1)), [ManagerEffect::Wait(POLL)]);
    assert_eq!(
        manager.reported(building(2)),
        [],
        "news of a running child do not end a wait"
    );
    assert_eq!(manager.on(ManagerEvent::TimePassed), [ManagerEffect::Observe]);
}

/// Returns the error for a manager node with an attribute that bypassed the checks.
fn error(name: &str, value: &str) -> String {
    let text = "digraph { start -> watch -> exit; watch [shape=house, \"stack.child_dotfile\"=child] }";
    let loaded = load(Source::new("a.dot", text), &Default::default());
    let mut pipeline = loaded.pipeline().unwrap();
    let watch = pipeline.find("watch").unwrap();
    let key = pipeline.texts.add(name);
    let value = Constant::String(pipeline.texts.add(value));
    let at = pipeline.attributes.len() as u32;
    pipeline.attributes.to_mut().push(AttributeRow { key, value });
    pipeline.nodes.to_mut()[watch.at()].attributes = Rows {
        start: at,
        end: at + 1,
    };
    ManagerPlan::from_stage(pipeline.stage(watch)).unwrap_err()
}

#[test]
fn what_cannot_be_used_is_named_with_a_way_to_mend_it() {
    assert_eq!(
        error("manager.actions", "observe, ster"),
        "`manager.actions` names `ster`, but a manager can only `observe`, `steer` and `wait`; did you mean `steer`?"
    );
    for name in [
        "manager.stop_condition",
        "manager.guard.escalate",
        "manager.guard.intervene",
    ] {
        let error = error(name, "outcme=fail");
        assert!(
            error.starts_with(&format!("`{name}` is not a condition: ")),
            "{error}"
        );
        assert!(error.contains("outcome"), "{error}");
    }
}

#[test]
fn the_same_events_give_the_same_effects() {
    let trace = || {
        let mut manager = Loop::new(&format!(
            "{STEER}, \"manager.guard.escalate\"=\"stack.child.failures>3\""
        ));
        let mut all = manager.reported(failing(1));
        for failures in 2..6 {
            all.extend(manager.on(ManagerEvent::TimePassed));
            all.extend(manager.reported(failing(failures)));
        }
        all
    };
    assert_eq!(trace(), trace());
    assert!(matches!(trace().last(), Some(ManagerEffect::Stop { .. })));
}
