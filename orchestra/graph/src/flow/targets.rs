//! The steps of a pipeline that generated tests take: each edge and each jump (rule V5).

use std::collections::HashSet;

use super::possible::PossibleSteps;
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::label::label_text;
use crate::loaded::Loaded;
use crate::model::{EdgeIndex, NodeIndex};
use crate::route::Next;
use crate::table::{Pipeline, Role, Stage};

/// Maximum number of characters of a condition or a label in a name.
const MAX_SUFFIX: usize = 60;

/// A step of a run that a generated test takes.
///
/// ```
/// use orchestra_graph::{PathStep, Source, load};
/// let text = "digraph { start -> build -> exit; build [prompt=Build, max_retries=1] }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let build = loaded.pipeline().expect("sound").find("build").expect("named");
/// let targets = loaded.path_targets().expect("sound");
/// assert!(targets.iter().any(|target| target.step == PathStep::Retry(build)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PathStep {
    /// A run follows an edge, or begins the branch of a fan-out.
    Edge(EdgeIndex),
    /// An edge with `loop_restart` restarts the run.
    Restart(EdgeIndex),
    /// A stage is attempted again after a failed attempt.
    Retry(NodeIndex),
    /// A stage has failed, and the run continues at its `retry_target` or `fallback_retry_target`.
    Failure(NodeIndex),
    /// An unsatisfied goal gate sends the run back.
    GoalGate(NodeIndex),
    /// The branches of a fan-out have ended, and the run continues at their join.
    Join(NodeIndex),
    /// Nobody answers a human gate in time.
    TimeOut(NodeIndex),
}

/// A step that a generated test takes, with its names.
///
/// ```
/// use orchestra_graph::{Source, load};
/// let text = "digraph { start -> a -> exit; a -> b [condition=\"outcome=fail\"]; b -> exit }";
/// let loaded = load(Source::new("a.dot", text), &Default::default());
/// let targets = loaded.path_targets().expect("sound");
/// assert_eq!(targets[2].name, "edge_a_to_b_when_fail");
/// assert_eq!(targets[2].text, "edge a -> b [outcome=fail]");
/// assert_eq!(targets[2].infeasible, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathTarget {
    /// The step.
    pub step: PathStep,
    /// The name of its test, which is unique in the pipeline.
    pub name: String,
    /// The step as a text for people.
    pub text: String,
    /// The reason why no run takes the step. `None` if a run may take it.
    pub infeasible: Option<String>,
}

impl Loaded {
    /// Returns all steps that generated tests take, in the order of the file. Returns `None` if the report has errors.
    ///
    /// ```
    /// use orchestra_graph::{Source, load};
    /// let text = "digraph { start -> a -> exit; a -> b [condition=\"outcome=fail && outcome=success\"]; b -> exit }";
    /// let loaded = load(Source::new("a.dot", text), &Default::default());
    /// let targets = loaded.path_targets().expect("sound");
    /// let infeasible = targets.iter().find(|target| target.infeasible.is_some()).expect("one");
    /// assert_eq!(infeasible.text, "edge a -> b [outcome=fail && outcome=success]");
    /// ```
    pub fn path_targets(&self) -> Option<Vec<PathTarget>> {
        let pipeline = self.pipeline()?;
        let limits = self.limits()?;
        let mut found = Targets {
            loaded: self,
            pipeline: &pipeline,
            steps: self.possible_steps()?,
            names: HashSet::new(),
            targets: Vec::new(),
        };
        for (stage, limit) in pipeline.stages().zip(&limits.nodes) {
            found.edges(stage);
            // A block that cannot fail has one attempt, whatever its retry policy says.
            let may_repeat = limit.attempts > limit.visits || limit.visits == u64::MAX;
            found.jumps(stage, may_repeat);
        }
        Some(found.targets)
    }
}

struct Targets<'l> {
    loaded: &'l Loaded,
    pipeline: &'l Pipeline,
    steps: PossibleSteps,
    names: HashSet<String>,
    targets: Vec<PathTarget>,
}

impl Targets<'_> {
    fn add(&mut self, step: PathStep, name: &str, text: String, infeasible: Option<String>) {
        let mut unique = name.to_owned();
        let mut number = 2;
        while !self.names.insert(unique.clone()) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        self.targets.push(PathTarget {
            step,
            name: unique,
            text,
            infeasible,
        });
    }

    /// Adds the edges of a node.
    fn edges(&mut self, stage: Stage<'_>) {
        let pipeline = self.pipeline;
        for (at, edge) in stage.edges() {
            let (from, to) = (stage.id(), pipeline.stage(edge.to).id());
            let label = pipeline.text(edge.label);
            let condition = pipeline.condition(edge);
            let condition = condition.map_or("", |condition| condition.text());
            let (suffix, shown) = match (label, condition) {
                ("", "") => (String::new(), String::new()),
                ("", condition) => (snake(&spelled(condition)), format!(" [{condition}]")),
                (label, _) => (snake(label_text(label)), format!(" \"{label}\"")),
            };
            let (step, kind) = if edge.loop_restart {
                (PathStep::Restart(at), "restart")
            } else {
                (PathStep::Edge(at), "edge")
            };
            let mut name = format!("{kind}_{}_to_{}", snake(from), snake(to));
            if !suffix.is_empty() {
                name.push_str("_when_");
                name.push_str(&suffix);
            }
            // All edges of a fan-out are branches, so the router does not choose between them.
            let infeasible = match stage.row().fan_out {
                Some(_) => None,
                None => self.infeasible(stage, at),
            };
            self.add(step, &name, format!("{kind} {from} -> {to}{shown}"), infeasible);
        }
    }

    /// Returns the reason why no run follows an edge.
    fn infeasible(&mut self, stage: Stage<'_>, edge: EdgeIndex) -> Option<String> {
        if let Some(shadowed) = self.shadowed(edge) {
            let mut reason = format!("shadowed_edge: {}", shadowed.message);
            for note in &shadowed.notes {
                reason.push_str(&format!("; {note}"));
            }
            for related in &shadowed.related {
                reason.push_str(&format!(" ({})", related.label));
            }
            return Some(reason);
        }
        let possible = self.steps.allow(stage.index(), None, Next::Edge(edge));
        (!possible).then(|| format!("no outcome of `{}` leads over it", stage.id()))
    }

    /// Returns the diagnostic `shadowed_edge` about an edge.
    fn shadowed(&self, edge: EdgeIndex) -> Option<&Diagnostic> {
        let row = self.pipeline.edge(edge);
        let (from, to) = (
            self.pipeline.stage(row.from).id(),
            self.pipeline.stage(row.to).id(),
        );
        let graph = &self.loaded.graph;
        let is_edge = |diagnostic: &Diagnostic| {
            graph.edges.iter().any(|edge| {
                edge.span() == diagnostic.span
                    && self.loaded.source.position(edge.to_span.start) == row.position
            })
        };
        let diagnostics = self.loaded.report.diagnostics.iter();
        let mut shadowed = diagnostics.filter(|diagnostic| {
            let names = diagnostic.edge.as_ref();
            diagnostic.code == "shadowed_edge" && names.is_some_and(|(a, b)| a == from && b == to)
        });
        shadowed.find(|diagnostic| is_edge(diagnostic))
    }

    /// Adds the jumps of a node.
    fn jumps(&mut self, stage: Stage<'_>, may_repeat: bool) {
        let (node, row, id) = (stage.index(), stage.row(), stage.id());
        let is_gate = stage.kind() == kind::WAIT_HUMAN;
        let has_time_out = is_gate && stage.duration("timeout").is_some();
        let has_default = stage.text("human.default_choice").is_some();
        let works = !matches!(row.role, Role::Routing) && !matches!(stage.kind(), kind::START | kind::EXIT);
        let name = snake(id);
        // A gate is asked again only after a time-out without a default.
        if works && row.retry.attempts > 1 && may_repeat && (!is_gate || has_time_out && !has_default) {
            self.add(
                PathStep::Retry(node),
                &format!("retry_of_{name}"),
                format!("retry of {id}"),
                None,
            );
        }
        if has_time_out {
            self.add(
                PathStep::TimeOut(node),
                &format!("time_out_of_{name}"),
                format!("time-out of {id}"),
                None,
            );
        }
        if let Some(fan_out) = row.fan_out {
            let join = self.pipeline.stage(fan_out.join).id();
            self.add(
                PathStep::Join(node),
                &format!("join_of_{name}_at_{}", snake(join)),
                format!("join of {id} at {join}"),
                None,
            );
        }
        if let Some(target) = row.retry_target.or(row.fallback_retry_target).filter(|_| works) {
            let to = self.pipeline.stage(target).id();
            let possible = self.steps.allow(node, Some("fail"), Next::Jump(target));
            // The target of a goal gate is often meant for the end of the run alone.
            if possible || !row.goal_gate {
                let reason = || format!("every failure of `{id}` follows an edge");
                self.add(
                    PathStep::Failure(node),
                    &format!("failure_of_{name}_to_{}", snake(to)),
                    format!("failure of {id} -> {to}"),
                    (!possible).then(reason),
                );
            }
        }
        let settings = &self.pipeline.settings;
        let own = row.retry_target.or(row.fallback_retry_target);
        let back = own.or(settings.retry_target).or(settings.fallback_retry_target);
        if let Some(target) = back.filter(|_| row.goal_gate && settings.max_goal_gate_reroutes > 0) {
            let to = self.pipeline.stage(target).id();
            self.add(
                PathStep::GoalGate(node),
                &format!("goal_gate_{name}_to_{}", snake(to)),
                format!("goal gate {id} -> {to}"),
                None,
            );
        }
    }
}

/// Returns a condition with words for its operators.
fn spelled(condition: &str) -> String {
    const WORDS: &[(&str, &str)] = &[
        ("&&", " and "),
        ("||", " or "),
        ("!=", " not "),
        ("<=", " at most "),
        (">=", " at least "),
        ("<", " below "),
        (">", " above "),
        ("=", " "),
        ("!", " not "),
    ];
    let mut text = condition.to_owned();
    for (operator, word) in WORDS {
        text = text.replace(operator, word);
    }
    let text = text.trim();
    text.strip_prefix("outcome ").unwrap_or(text).to_owned()
}

/// Returns a text as a part of a Rust name.
fn snake(text: &str) -> String {
    let mut name = String::new();
    let mut before = ' ';
    let mut count = 0;
    for character in text.chars() {
        let is_letter = character.is_ascii_alphanumeric() || character.is_alphabetic();
        let hump = character.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit());
        if count >= MAX_SUFFIX && (!is_letter || hump) {
            break;
        }
        if is_letter {
            if !name.is_empty() && (hump || !before.is_alphanumeric()) {
                name.push('_');
            }
            name.extend(character.to_lowercase());
            count += 1;
        }
        before = character;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_when_an_edge_is_taken() {
        for (condition, name) in [
            ("outcome=success", "success"),
            ("outcome!=fail", "not_fail"),
            (
                "outcome=fail && visits.verifier<3",
                "fail_and_visits_verifier_below_3",
            ),
            (
                "context.score >= 80 || context.runAll",
                "context_score_at_least_80_or_context_run_all",
            ),
            ("!context.dry_run", "not_context_dry_run"),
        ] {
            assert_eq!(snake(&spelled(condition)), name);
        }
    }
}
