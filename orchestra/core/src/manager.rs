//! The manager loop: a supervisor of a child pipeline, as a pure state machine (Attractor 4.11).
//!
//! In each cycle it observes the child, checks whether the end of the child, the stop condition or a guard ends the
//! loop, steers the child if necessary, and waits. Its decisions depend on the events it receives and on nothing else.

use std::time::Duration;

use orchestra_graph::condition::{Expression, Facts, parse_condition};
use orchestra_graph::table::Constant;
use orchestra_graph::{Known, Stage, did_you_mean, format_duration};
use serde_json::Value;

use crate::context::Context;
use crate::outcome::Outcome;

/// The actions of a manager loop.
const ACTIONS: [&str; 3] = ["observe", "steer", "wait"];
/// The default time between two observations (Attractor 4.11).
const POLL_INTERVAL: Duration = Known::PollInterval.default_duration();
/// The default maximum number of cycles (Attractor 4.11).
const MAX_CYCLES: u32 = Known::MaxCycles.default_count();
/// The default minimum time between two interventions.
const STEER_COOLDOWN: Duration = Known::SteerCooldown.default_duration();
/// The default message to the child.
const MESSAGE: &str = "Check whether the work still leads to the goal. If it does not, change course; \
                       if you are stuck, say so and fail.";

/// A condition of a manager loop, with its text.
///
/// ```
/// use orchestra_core::ManagerCondition;
/// let condition = ManagerCondition::parse("stack.child.failures > 2")?;
/// assert_eq!(condition.text, "stack.child.failures > 2");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ManagerCondition {
    /// The text of the condition.
    pub text: String,
    /// The parsed condition.
    pub expression: Expression,
}

impl ManagerCondition {
    /// Parses a condition.
    ///
    /// # Errors
    /// Returns a message that describes the error in the text and how to fix it.
    pub fn parse(text: &str) -> Result<ManagerCondition, String> {
        let expression = parse_condition(text).map_err(|error| match error.help.as_str() {
            "" => error.message,
            help => format!("{}; {help}", error.message),
        })?;
        let text = text.trim().to_owned();
        Ok(ManagerCondition { text, expression })
    }
}

/// The configuration of a manager loop: the attributes of its node (Attractor 4.11).
///
/// ```
/// use std::time::Duration;
/// use orchestra_core::ManagerPlan;
/// # use orchestra_graph::{Source, load};
/// let text = r#"digraph { start -> watch -> exit
///     watch [shape=house, "stack.child_dotfile"="work.dot", "manager.poll_interval"=10s, "manager.actions"="observe, steer, wait"] }"#;
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let plan = ManagerPlan::from_stage(pipeline.stage(pipeline.find("watch").expect("declared")))?;
/// assert_eq!((plan.poll_interval, plan.max_cycles), (Duration::from_secs(10), 1_000));
/// assert!(plan.observe && plan.steer && plan.wait);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ManagerPlan {
    /// `true` if each observation updates the `stack.child.*` values.
    pub observe: bool,
    /// `true` if the manager steers the child.
    pub steer: bool,
    /// `true` if the manager waits for [`poll_interval`](ManagerPlan::poll_interval) between two observations.
    /// Otherwise it observes the child again as soon as the child has news.
    pub wait: bool,
    /// The time between two observations.
    pub poll_interval: Duration,
    /// The maximum number of cycles.
    pub max_cycles: u32,
    /// The condition that ends the loop with a success, although the child has not ended.
    pub stop_condition: Option<ManagerCondition>,
    /// The condition that ends the loop with a failure and cancels the child.
    pub escalate: Option<ManagerCondition>,
    /// The condition under which the manager steers; without one it steers in every cycle.
    pub intervene: Option<ManagerCondition>,
    /// The minimum time between two interventions.
    pub steer_cooldown: Duration,
    /// The message that the child receives when the manager steers.
    pub message: String,
}

impl ManagerPlan {
    /// Reads the configuration from the attributes of a node.
    ///
    /// # Errors
    /// Returns a message that names the invalid attribute, the reason, and the fix.
    pub fn from_stage(stage: Stage<'_>) -> Result<ManagerPlan, String> {
        let filled = |name: &str| stage.text(name).filter(|text| !text.trim().is_empty());
        let condition = |name: &str| match filled(name) {
            Some(text) => ManagerCondition::parse(text)
                .map(Some)
                .map_err(|error| format!("`{name}` is not a condition: {error}")),
            None => Ok(None),
        };
        let mut plan = ManagerPlan {
            observe: false,
            steer: false,
            wait: false,
            poll_interval: stage.duration("manager.poll_interval").unwrap_or(POLL_INTERVAL),
            max_cycles: match stage.attribute("manager.max_cycles") {
                Some(Constant::Integer(cycles)) => u32::try_from(cycles).unwrap_or(u32::MAX).max(1),
                _ => MAX_CYCLES,
            },
            stop_condition: condition("manager.stop_condition")?,
            escalate: condition("manager.guard.escalate")?,
            intervene: condition("manager.guard.intervene")?,
            steer_cooldown: stage.duration("manager.steer_cooldown").unwrap_or(STEER_COOLDOWN),
            message: filled("manager.steer_message")
                .or(filled("prompt"))
                .unwrap_or(MESSAGE)
                .to_owned(),
        };
        let actions = filled("manager.actions").unwrap_or(Known::ManagerActions.default_text());
        for action in actions
            .split(',')
            .map(str::trim)
            .filter(|action| !action.is_empty())
        {
            match action {
                "observe" => plan.observe = true,
                "steer" => plan.steer = true,
                "wait" => plan.wait = true,
                other => {
                    let near = did_you_mean(other, ACTIONS.iter().copied());
                    let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                    return Err(format!(
                        "`manager.actions` names `{other}`, but a manager can only `observe`, `steer` and `wait`{near}"
                    ));
                }
            }
        }
        Ok(plan)
    }
}

/// The status of a supervised pipeline.
///
/// ```
/// assert_eq!(orchestra_core::ChildStatus::Completed.word(), "completed");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChildStatus {
    /// The child is running.
    #[default]
    Running,
    /// The child succeeded.
    Completed,
    /// The child failed.
    Failed,
    /// The child was cancelled.
    Cancelled,
}

impl ChildStatus {
    /// Returns the value of `stack.child.status`.
    pub const fn word(self) -> &'static str {
        match self {
            ChildStatus::Running => "running",
            ChildStatus::Completed => "completed",
            ChildStatus::Failed => "failed",
            ChildStatus::Cancelled => "cancelled",
        }
    }

    /// Returns the value of `stack.child.outcome`; empty while the child is running.
    const fn outcome(self) -> &'static str {
        match self {
            ChildStatus::Running => "",
            ChildStatus::Completed => "success",
            ChildStatus::Failed => "fail",
            ChildStatus::Cancelled => "cancelled",
        }
    }
}

/// A report about a supervised pipeline at a moment: its telemetry (Attractor 4.11).
///
/// ```
/// use orchestra_core::{ChildReport, ChildStatus};
/// let report = ChildReport { completed_stages: 2, ..ChildReport::default() };
/// assert_eq!(report.status, ChildStatus::Running);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChildReport {
    /// The status of the child.
    pub status: ChildStatus,
    /// The active stages; the one that began last comes last.
    pub active_stages: Vec<String>,
    /// The number of stages that ended without a failure.
    pub completed_stages: u64,
    /// The number of failures of stages.
    pub failures: u64,
    /// The number of retries of stages.
    pub retries: u64,
    /// The duration of the child's run; also the clock of the manager.
    pub elapsed: Duration,
    /// The stage that failed last and its reason; empty if no stage failed.
    pub last_failure: String,
    /// The reason why the child did not succeed; empty if it succeeded or is running.
    pub reason: String,
}

/// An event that a manager loop receives.
///
/// ```
/// use orchestra_core::{ChildReport, ManagerEvent};
/// let event = ManagerEvent::Reported(ChildReport::default());
/// assert_ne!(event, ManagerEvent::TimePassed);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum ManagerEvent {
    /// A report about the child: the answer to [`ManagerEffect::Observe`], or an unrequested one. A report that the
    /// child has ended takes effect at once.
    Reported(ChildReport),
    /// The time of a [`ManagerEffect::Wait`] has passed.
    TimePassed,
}

/// A request of a manager loop to its driver.
///
/// ```
/// use std::time::Duration;
/// use orchestra_core::ManagerEffect;
/// let wait = ManagerEffect::Wait(Duration::from_secs(45));
/// assert_ne!(wait, ManagerEffect::WaitForNews);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum ManagerEffect {
    /// Observe the child and report.
    Observe,
    /// Send the active stages of the child an instruction to change their course.
    Steer {
        /// The stages.
        stages: Vec<String>,
        /// The text of the instruction.
        message: String,
        /// The number of the cycle, starting at 1.
        cycle: u32,
        /// The reason for the instruction.
        reason: String,
    },
    /// Report when this time has passed, and at once when the child has ended.
    Wait(Duration),
    /// Report as soon as the child has news.
    WaitForNews,
    /// The loop has ended.
    Stop {
        /// The outcome of the manager's stage.
        outcome: Outcome,
        /// `true` if the child is still running and must be cancelled.
        cancel_child: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Observing,
    Waiting,
    WaitingForNews,
    Stopped,
}

/// The loop: turns reports about the child and the passing of time into effects (Attractor 4.11).
///
/// Each cycle updates the `stack.child.*` values and then checks, in this order: the end of the child ends the loop;
/// the stop condition ends it with a success; `manager.guard.escalate` ends it with a failure that prefers the edge
/// `Escalate`; the last of `manager.max_cycles` fails; `manager.guard.intervene` steers; then the loop waits. A loop
/// that ends before its child also cancels the child.
///
/// ```
/// use orchestra_core::{ChildReport, ChildStatus, Context, Manager, ManagerEffect, ManagerEvent, ManagerPlan, Status};
/// # use orchestra_graph::{Source, load};
/// # let text = "digraph { start -> watch -> exit; watch [shape=house, \"stack.child_dotfile\"=child] }";
/// # let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// # let plan = ManagerPlan::from_stage(pipeline.stage(pipeline.find("watch").expect("declared")))?;
/// let mut effects = Vec::new();
/// let mut manager = Manager::start(plan, Context::new(), &mut effects);
/// assert_eq!(effects.pop(), Some(ManagerEffect::Observe));
/// manager.on(ManagerEvent::Reported(ChildReport::default()), &mut effects);
/// assert!(matches!(effects.pop(), Some(ManagerEffect::Wait(_))));
///
/// let ended = ChildReport { status: ChildStatus::Completed, ..ChildReport::default() };
/// manager.on(ManagerEvent::Reported(ended), &mut effects);
/// let Some(ManagerEffect::Stop { outcome, cancel_child: false }) = effects.pop() else { panic!("it is over") };
/// assert_eq!(outcome.status, Status::Success);
/// assert_eq!(outcome.context_updates["stack.child.outcome"], "success");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Manager {
    plan: ManagerPlan,
    /// The context of the stage, with the values of the child.
    context: Context,
    /// The latest report that was taken into the context.
    seen: ChildReport,
    phase: Phase,
    cycle: u32,
    /// The time of the latest intervention.
    steered: Option<Duration>,
}

impl Manager {
    /// Starts a loop for a child that has just been started. The context is that of the manager's stage.
    pub fn start(plan: ManagerPlan, context: Context, effects: &mut Vec<ManagerEffect>) -> Manager {
        let mut manager = Manager {
            plan,
            context,
            seen: ChildReport::default(),
            phase: Phase::Observing,
            cycle: 1,
            steered: None,
        };
        // Reset the values of an earlier child, so that they are not mistaken for those of this one.
        manager.ingest(ChildReport::default());
        effects.push(ManagerEffect::Observe);
        manager
    }

    /// Applies an event and produces the resulting effects. After [`ManagerEffect::Stop`] it produces no more effects.
    pub fn on(&mut self, event: ManagerEvent, effects: &mut Vec<ManagerEffect>) {
        match (self.phase, event) {
            (Phase::Stopped, _) => {}
            (Phase::Observing, ManagerEvent::Reported(report)) => self.look(report, effects),
            (_, ManagerEvent::Reported(report)) if report.status != ChildStatus::Running => {
                self.look(report, effects);
            }
            (Phase::WaitingForNews, ManagerEvent::Reported(report)) => {
                self.cycle += 1;
                self.look(report, effects);
            }
            (Phase::Waiting, ManagerEvent::TimePassed) => {
                self.cycle += 1;
                self.phase = Phase::Observing;
                effects.push(ManagerEffect::Observe);
            }
            _ => {}
        }
    }

    /// Runs one cycle.
    fn look(&mut self, report: ChildReport, effects: &mut Vec<ManagerEffect>) {
        if self.plan.observe || report.status != ChildStatus::Running {
            self.ingest(report.clone());
        }
        if let Some((outcome, cancel_child)) = self.end(&report) {
            self.phase = Phase::Stopped;
            effects.push(ManagerEffect::Stop {
                outcome: self.with_child(outcome, cancel_child),
                cancel_child,
            });
            return;
        }
        effects.extend(self.steer(report));
        if self.plan.wait {
            self.phase = Phase::Waiting;
            effects.push(ManagerEffect::Wait(self.plan.poll_interval));
        } else {
            self.phase = Phase::WaitingForNews;
            effects.push(ManagerEffect::WaitForNews);
        }
    }

    /// Returns the outcome if the loop ends in this cycle, and whether the child must be cancelled; `None` if the loop
    /// continues.
    fn end(&self, report: &ChildReport) -> Option<(Outcome, bool)> {
        match report.status {
            ChildStatus::Running => {}
            ChildStatus::Completed => {
                let stages = report.completed_stages;
                let took = format_duration(report.elapsed);
                let notes = format!("Child completed: {stages} stages in {took}");
                return Some((Outcome::success().notes(notes), false));
            }
            ChildStatus::Failed => {
                let reason = format!("the child failed: {}", or(&report.reason, "no reason was given"));
                return Some((Outcome::fail(reason).with_code("child_failed"), false));
            }
            ChildStatus::Cancelled => {
                let reason = format!("the child was cancelled: {}", or(&report.reason, "on request"));
                return Some((Outcome::fail(reason).with_code("child_cancelled"), false));
            }
        }
        if let Some(condition) = self.held(&self.plan.stop_condition) {
            let notes = format!("Stop condition satisfied: {}", condition.text);
            return Some((Outcome::success().notes(notes), true));
        }
        if let Some(condition) = self.held(&self.plan.escalate) {
            // Terminal: an escalation must not start a new child under the same guard.
            let outcome = Outcome::fail_terminal(format!("escalated: {}", condition.text));
            return Some((outcome.with_code("escalated").prefer("Escalate"), true));
        }
        if self.cycle >= self.plan.max_cycles {
            let at = report.active_stages.last();
            let at = at.map_or_else(String::new, |stage| format!(" at `{stage}`"));
            let reason = format!(
                "exceeded manager.max_cycles: after {} looks the child is still running{at}",
                self.cycle
            );
            return Some((Outcome::fail(reason).with_code("max_cycles"), true));
        }
        None
    }

    fn held<'c>(&self, condition: &'c Option<ManagerCondition>) -> Option<&'c ManagerCondition> {
        let text = |key: &str| self.context.text(key);
        let (outcome, label) = (text("outcome"), text("preferred_label"));
        let (current, last) = (text("current_node"), text("last_stage"));
        let facts = Facts {
            outcome: &outcome,
            preferred_label: &label,
            current_node: &current,
            last_stage: &last,
            context: &self.context,
            ..Facts::default()
        };
        condition
            .as_ref()
            .filter(|condition| condition.expression.holds(&facts))
    }

    /// Returns the instruction to the child, if one is due.
    fn steer(&mut self, report: ChildReport) -> Option<ManagerEffect> {
        let due = match self.steered {
            Some(last) => report.elapsed.saturating_sub(last) >= self.plan.steer_cooldown,
            None => true,
        };
        // Between two stages nobody can receive the instruction; the next cycle tries again.
        if !self.plan.steer || !due || report.active_stages.is_empty() {
            return None;
        }
        let reason = match &self.plan.intervene {
            None => "the manager steers in every cycle".to_owned(),
            intervene => format!("manager.guard.intervene holds: {}", self.held(intervene)?.text),
        };
        self.steered = Some(report.elapsed);
        Some(ManagerEffect::Steer {
            stages: report.active_stages,
            message: self.plan.message.clone(),
            cycle: self.cycle,
            reason,
        })
    }

    /// Sets the values of a report in the context, where conditions read them.
    fn ingest(&mut self, report: ChildReport) {
        for (key, value) in values(&report) {
            self.context.set(key, value);
        }
        self.seen = report;
    }

    /// Adds the values of the child to an outcome; a child that must be cancelled counts as cancelled.
    fn with_child(&self, outcome: Outcome, cancelled: bool) -> Outcome {
        let mut seen = self.seen.clone();
        if cancelled {
            seen.status = ChildStatus::Cancelled;
        }
        let values = values(&seen).into_iter();
        values.fold(outcome, |outcome, (key, value)| outcome.set(key, value))
    }
}

/// Returns the values of a child that conditions and later stages read.
fn values(report: &ChildReport) -> [(&'static str, Value); 8] {
    let active = report.active_stages.last();
    let elapsed = u64::try_from(report.elapsed.as_millis()).unwrap_or(u64::MAX);
    [
        ("stack.child.status", report.status.word().into()),
        ("stack.child.outcome", report.status.outcome().into()),
        (
            "stack.child.active_stage",
            active.map_or("", String::as_str).into(),
        ),
        ("stack.child.completed_stages", report.completed_stages.into()),
        ("stack.child.failures", report.failures.into()),
        ("stack.child.retries", report.retries.into()),
        ("stack.child.elapsed_ms", elapsed.into()),
        ("stack.child.last_failure", report.last_failure.as_str().into()),
    ]
}

fn or<'t>(text: &'t str, other: &'t str) -> &'t str {
    if text.is_empty() { other } else { text }
}
