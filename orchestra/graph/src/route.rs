//! Routing: a pure function of pipeline, node, outcome and context (rules R1-R6, R8, R11, P1, P2).

use std::cmp::Ordering;
use std::fmt::Write as _;

use serde_json::Value;

use crate::choice::{bears, needs_failure};
use crate::condition::{Facts, PLAIN_KEYS};
use crate::kind;
use crate::label::normalize_label;
use crate::model::{EdgeIndex, NodeIndex};
use crate::rule::Rule;
use crate::table::{EdgeRow, End, FanOut, Pipeline, Role, Routing, Stage};

/// The next step of a run (rules R1 to R6, P2).
///
/// ```
/// use orchestra_graph::condition::Facts;
/// use orchestra_graph::{Next, Source, load, route};
/// let text = "digraph { start -> work -> exit; work [retry_target=mend]; mend -> work }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let work = pipeline.find("work").expect("declared");
/// let decision = route(&pipeline, work, &Facts { outcome: "fail", ..Facts::default() });
/// assert_eq!(decision.next, Next::Jump(pipeline.find("mend").expect("declared")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The run follows an edge.
    Edge(EdgeIndex),
    /// The run jumps to the node in `retry_target` or `fallback_retry_target`, or from a fan-out to its join.
    Jump(NodeIndex),
    /// The run ends here, as the node or the dialect defines.
    End {
        /// `true` if the run ends as a success.
        success: bool,
    },
    /// The run fails.
    Fail(RouteError),
}

/// The reason why there is no next step.
///
/// ```
/// use orchestra_graph::condition::Facts;
/// use orchestra_graph::{Next, RouteError, Source, load, route};
/// let text = "digraph { start -> work -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let work = pipeline.find("work").expect("an edge names it");
/// let decision = route(&pipeline, work, &Facts { outcome: "fail", ..Facts::default() });
/// assert_eq!(decision.next, Next::Fail(RouteError::StageFailed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// The stage failed, and nothing handles the failure (rule R3).
    StageFailed,
    /// Edges exist, but none may be taken (rule R5).
    NoMatchingEdge,
    /// The node has no edge and is not the exit (rule R6).
    DeadEnd,
}

/// A condition that was tested for a decision, with the values that it read (rule R8).
///
/// ```
/// use orchestra_graph::condition::Facts;
/// use orchestra_graph::{Source, load, route};
/// let text = r#"digraph { start -> t; t -> exit [condition="outcome=success"]; t -> mend; mend -> t }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let t = pipeline.find("t").expect("an edge names it");
/// let tested = &route(&pipeline, t, &Facts { outcome: "done", ..Facts::default() }).tested[0];
/// assert!(!tested.held);
/// assert_eq!(tested.values, [("outcome".to_owned(), "done".to_owned())]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tested {
    /// The edge.
    pub edge: EdgeIndex,
    /// `true` if the condition was true.
    pub held: bool,
    /// The keys that the condition reads, with their values.
    pub values: Vec<(String, String)>,
}

/// A decision of [`route`], with the conditions that it tested (rule R8).
///
/// ```
/// use orchestra_graph::condition::Facts;
/// use orchestra_graph::{Source, load, route};
/// let text = r#"digraph { start -> t; t -> exit [condition="outcome=success"] }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let t = pipeline.find("t").expect("an edge names it");
/// let decision = route(&pipeline, t, &Facts { outcome: "skipped", ..Facts::default() });
/// let why = decision.describe(&pipeline, t);
/// assert!(why.contains("`outcome=success` is false, outcome is `skipped`"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The next step of the run.
    pub next: Next,
    /// The rule that decided.
    pub rule: Rule,
    /// The conditions that were tested, in the order of the file.
    pub tested: Vec<Tested>,
}

/// Chooses the next step of a run from a node (Attractor 3.3, rules R1 to R6, R11, P2).
///
/// The same pipeline, node and facts always result in the same decision. A node of another pipeline has no edges here.
/// At a fan-out the facts are those of the whole block: its edges are [`branches`], and none of them is chosen again.
///
/// ```
/// use orchestra_graph::condition::Facts;
/// use orchestra_graph::{LoadOptions, Next, Rule, Source, load, route};
/// let text = r#"digraph { start -> t; t -> exit [condition="outcome=success"]; t -> mend; mend -> t }"#;
/// let pipeline = load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
/// let at = pipeline.find("t").expect("declared");
/// let decision = route(&pipeline, at, &Facts { outcome: "success", ..Facts::default() });
/// assert_eq!(decision.rule, Rule::Condition);
/// ```
pub fn route(pipeline: &Pipeline, node: NodeIndex, facts: &Facts<'_>) -> Decision {
    let stage = pipeline.stage(node);
    let mut tested = Vec::new();
    let (next, rule) = match (&stage.row().fan_out, pipeline.settings.routing) {
        (Some(fan_out), _) => join(pipeline, stage, fan_out, facts),
        (None, _) if stage.kind() == kind::WAIT_HUMAN => gate(pipeline, stage, facts, &mut tested),
        (None, Routing::FiveStep) => five_step(pipeline, stage, facts, &mut tested),
        (None, Routing::FirstMatch) => first_match(pipeline, stage, facts, &mut tested),
    };
    Decision { next, rule, tested }
}

/// Routes from a human gate: along the edges of the choice that was made, or those for a failed gate (rules H3, H5).
fn gate(pipeline: &Pipeline, stage: Stage<'_>, facts: &Facts<'_>, tested: &mut Vec<Tested>) -> (Next, Rule) {
    if !facts.failed() {
        return match edge_of_choice(pipeline, stage.index(), facts, tested) {
            Some(edge) => (Next::Edge(edge), Rule::Choice),
            None => no_way(stage, RouteError::NoMatchingEdge),
        };
    }
    let rule = match pipeline.settings.routing {
        Routing::FiveStep => Rule::Condition,
        Routing::FirstMatch => Rule::FirstMatch,
    };
    let routes = stage.edges().filter(|(_, edge)| needs_failure(pipeline, edge));
    match preferred(pipeline, routes, facts, tested) {
        Some(edge) => (Next::Edge(edge), rule),
        None => after_failure(stage),
    }
}

/// Returns the edge of a gate to follow for the preferred label. Returns `None` if the condition of none of the edges
/// of that choice is true.
pub(crate) fn edge_of_choice(
    pipeline: &Pipeline,
    gate: NodeIndex,
    facts: &Facts<'_>,
    tested: &mut Vec<Tested>,
) -> Option<EdgeIndex> {
    let edges = pipeline.stage(gate).edges();
    let edges = edges.filter(|(_, edge)| bears(pipeline, edge, facts.preferred_label));
    preferred(pipeline, edges, facts, tested)
}

/// Returns the edge to take. Under five-step routing this is the best edge whose condition is true, else the best edge
/// without a condition; under first-match routing it is the first edge that may be taken.
fn preferred<'p>(
    pipeline: &'p Pipeline,
    mut edges: impl Iterator<Item = (EdgeIndex, &'p EdgeRow)>,
    facts: &Facts<'_>,
    tested: &mut Vec<Tested>,
) -> Option<EdgeIndex> {
    let mut eligible = |edge: &(EdgeIndex, &EdgeRow)| test(pipeline, edge.0, edge.1, facts, tested);
    if pipeline.settings.routing == Routing::FirstMatch {
        return edges
            .find(|edge| eligible(edge).unwrap_or(true))
            .map(|(at, _)| at);
    }
    let (mut held, mut plain) = (Vec::new(), Vec::new());
    for edge in edges {
        match eligible(&edge) {
            Some(true) => held.push(edge),
            Some(false) => {}
            None => plain.push(edge),
        }
    }
    let edges = if held.is_empty() { plain } else { held };
    best(pipeline, edges.into_iter()).map(|(at, _)| at)
}

/// Returns the same facts with the outcome of a full success. Returns `None` unless the outcome is a partial success
/// (rule R12).
fn as_success<'a>(facts: &Facts<'a>) -> Option<Facts<'a>> {
    (facts.outcome == PARTIAL_SUCCESS).then_some(Facts {
        outcome: "success",
        ..*facts
    })
}

const PARTIAL_SUCCESS: &str = "partial_success";

/// Routes from a fan-out whose branches have ended (rules R3, P2).
fn join(pipeline: &Pipeline, stage: Stage<'_>, fan_out: &FanOut, facts: &Facts<'_>) -> (Next, Rule) {
    let join = Next::Jump(fan_out.join);
    if !facts.failed() {
        return (join, Rule::Join);
    }
    if pipeline.stage(fan_out.join).row().role == Role::Routing {
        return (join, Rule::FailureToRouting);
    }
    if stage.row().on_failure_route {
        return (join, Rule::Join);
    }
    after_failure(stage)
}

/// Returns the edges of a fan-out that run as branches: those whose condition is absent or true (rules P1, R2).
///
/// The edges are in the order of the file and come with the conditions that were tested. The facts are those with which
/// the run entered the fan-out. After a partial success without any branch, the branches of a success run instead (rule
/// R12).
///
/// ```
/// use orchestra_graph::condition::Facts;
/// use orchestra_graph::{Source, branches, load};
/// let text = r#"digraph { start -> fan; fan [shape=component]; fan -> a; fan -> b [condition="context.deep"]
///     a -> join; b -> join; join [shape=tripleoctagon]; join -> exit }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let (edges, tested) = branches(&pipeline, pipeline.find("fan").expect("declared"), &Facts::default());
/// assert_eq!(edges.len(), 1);
/// assert_eq!(pipeline.stage(pipeline.edge(edges[0]).to).id(), "a");
/// assert!(!tested[0].held);
/// ```
pub fn branches(pipeline: &Pipeline, fan_out: NodeIndex, facts: &Facts<'_>) -> (Vec<EdgeIndex>, Vec<Tested>) {
    let eligible = |facts: &Facts<'_>| {
        let mut tested = Vec::new();
        let edges = pipeline.stage(fan_out).edges();
        let edges = edges.filter(|(at, edge)| test(pipeline, *at, edge, facts, &mut tested).unwrap_or(true));
        let edges: Vec<EdgeIndex> = edges.map(|(at, _)| at).collect();
        (edges, tested)
    };
    let found = eligible(facts);
    match as_success(facts) {
        Some(facts) if found.0.is_empty() => {
            let again = eligible(&facts);
            if again.0.is_empty() { found } else { again }
        }
        _ => found,
    }
}

/// Returns the id of the branch of a fan-out's edge: the id of the target, with `~2`, `~3` for later edges to the same
/// target.
///
/// It depends on the file alone and not on the conditions that are true. No node id contains a `~`.
///
/// ```
/// use orchestra_graph::{Source, branch_id, load};
/// let text = "digraph { start -> fan; fan [shape=component]; fan -> a; fan -> b; fan -> a; a -> join; b -> join
///     join [shape=tripleoctagon]; join -> exit }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let fan = pipeline.stage(pipeline.find("fan").expect("declared"));
/// let ids: Vec<String> = fan.edges().map(|(at, _)| branch_id(&pipeline, at)).collect();
/// assert_eq!(ids, ["a", "b", "a~2"]);
/// ```
pub fn branch_id(pipeline: &Pipeline, edge: EdgeIndex) -> String {
    let row = pipeline.edge(edge);
    let id = pipeline.stage(row.to).id();
    match row.parallel_index {
        0 => id.to_owned(),
        earlier => format!("{id}~{}", earlier + 1),
    }
}

/// Tests the condition of an edge and records the values that it read. Returns `None` for an edge without a condition.
fn test(
    pipeline: &Pipeline,
    at: EdgeIndex,
    edge: &EdgeRow,
    facts: &Facts<'_>,
    tested: &mut Vec<Tested>,
) -> Option<bool> {
    let condition = pipeline.condition(edge)?;
    let held = condition.holds(facts);
    // Conditions on the output name keys that no other condition may (rule C2). Their values are shown as JSON, because
    // the type matters.
    let value = |key: &str| {
        if key.contains('.') || PLAIN_KEYS.contains(&key) {
            facts.text(key).into_owned()
        } else {
            facts.output.lookup(key).map(Value::to_string).unwrap_or_default()
        }
    };
    let values = condition.keys().map(|key| (key.to_owned(), value(key))).collect();
    tested.push(Tested {
        edge: at,
        held,
        values,
    });
    Some(held)
}

/// Returns the best of some edges by weight, then by target id, then by position in the file.
fn best<'p>(
    pipeline: &Pipeline,
    edges: impl Iterator<Item = (EdgeIndex, &'p EdgeRow)>,
) -> Option<(EdgeIndex, Rule)> {
    let id = |edge: &EdgeRow| pipeline.stage(edge.to).id();
    let mut best: Option<(EdgeIndex, &EdgeRow)> = None;
    let mut rule = Rule::OnlyEdge;
    for (at, edge) in edges {
        let Some((_, present)) = best else {
            best = Some((at, edge));
            continue;
        };
        match edge.weight.cmp(&present.weight) {
            Ordering::Greater => (best, rule) = (Some((at, edge)), Rule::Weight),
            Ordering::Equal => {
                rule = Rule::LowestTarget;
                if id(edge) < id(present) {
                    best = Some((at, edge));
                }
            }
            // After a tie the rule stays the same: this lower weight did not decide between the equals.
            Ordering::Less if rule == Rule::OnlyEdge => rule = Rule::Weight,
            Ordering::Less => {}
        }
    }
    best.map(|(at, _)| (at, rule))
}

fn five_step(
    pipeline: &Pipeline,
    stage: Stage<'_>,
    facts: &Facts<'_>,
    tested: &mut Vec<Tested>,
) -> (Next, Rule) {
    let row = stage.row();
    *tested = test_all(pipeline, stage, facts);
    if let Some(edge) = best_held(pipeline, tested) {
        return (Next::Edge(edge), Rule::Condition);
    }
    let plain = || stage.edges().filter(|(_, edge)| edge.condition.is_none());
    // A routing node is transparent: after a failure it decides by all of its edges (rule R4).
    let follows_plain = !facts.failed() || row.role == Role::Routing || row.on_failure_route;
    if follows_plain {
        if let Some((edge, rule)) = unconditional(pipeline, plain, facts) {
            return (Next::Edge(edge), rule);
        }
    } else {
        let decides = |edge: &EdgeRow| pipeline.stage(edge.to).row().role == Role::Routing;
        let into_routing = || plain().filter(|(_, edge)| decides(edge));
        if let Some((edge, _)) = unconditional(pipeline, into_routing, facts) {
            return (Next::Edge(edge), Rule::FailureToRouting);
        }
    }
    if facts.failed() {
        return after_failure(stage);
    }
    if let Some(facts) = as_success(facts) {
        let again = test_all(pipeline, stage, &facts);
        if let Some(edge) = best_held(pipeline, &again) {
            *tested = again;
            return (Next::Edge(edge), Rule::PartialAsSuccess);
        }
    }
    no_way(stage, RouteError::NoMatchingEdge)
}

/// Tests the conditions of all edges of a node.
fn test_all(pipeline: &Pipeline, stage: Stage<'_>, facts: &Facts<'_>) -> Vec<Tested> {
    let mut tested = Vec::new();
    for (at, edge) in stage.edges() {
        test(pipeline, at, edge, facts, &mut tested);
    }
    tested
}

/// Returns the best edge whose condition was true.
fn best_held(pipeline: &Pipeline, tested: &[Tested]) -> Option<EdgeIndex> {
    let held = tested.iter().filter(|tested| tested.held);
    let held = held.map(|tested| (tested.edge, pipeline.edge(tested.edge)));
    best(pipeline, held).map(|(edge, _)| edge)
}

/// Applies steps 2 to 5 to edges without a condition.
fn unconditional<'p, E>(
    pipeline: &Pipeline,
    edges: impl Fn() -> E,
    facts: &Facts<'_>,
) -> Option<(EdgeIndex, Rule)>
where
    E: Iterator<Item = (EdgeIndex, &'p EdgeRow)>,
{
    if !facts.preferred_label.is_empty() {
        let wanted = normalize_label(facts.preferred_label);
        let bears = |edge: &EdgeRow| !edge.label.is_empty() && pipeline.text(edge.normalized_label) == wanted;
        if let Some((at, _)) = edges().find(|(_, edge)| bears(edge)) {
            return Some((at, Rule::PreferredLabel));
        }
    }
    for wanted in facts.suggested_next_ids {
        if let Some((at, _)) = edges().find(|(_, edge)| pipeline.stage(edge.to).id() == wanted) {
            return Some((at, Rule::SuggestedNext));
        }
    }
    best(pipeline, edges())
}

fn after_failure(stage: Stage<'_>) -> (Next, Rule) {
    let row = stage.row();
    // A routing node did not fail itself: the failure is that of the stage before it (rule R4).
    if row.role == Role::Routing {
        return (Next::Fail(RouteError::StageFailed), Rule::Nothing);
    }
    if let Some(target) = row.retry_target {
        return (Next::Jump(target), Rule::RetryTarget);
    }
    if let Some(target) = row.fallback_retry_target {
        return (Next::Jump(target), Rule::FallbackRetryTarget);
    }
    (Next::Fail(RouteError::StageFailed), Rule::Nothing)
}

fn no_way(stage: Stage<'_>, with_edges: RouteError) -> (Next, Rule) {
    if stage.edges().next().is_some() {
        return (Next::Fail(with_edges), Rule::Nothing);
    }
    match stage.row().end {
        End::Success => (Next::End { success: true }, Rule::End),
        End::Fail => (Next::End { success: false }, Rule::End),
        End::Unstated => (Next::Fail(RouteError::DeadEnd), Rule::Nothing),
    }
}

fn first_match(
    pipeline: &Pipeline,
    stage: Stage<'_>,
    facts: &Facts<'_>,
    tested: &mut Vec<Tested>,
) -> (Next, Rule) {
    let first = |facts: &Facts<'_>, tested: &mut Vec<Tested>| {
        let mut edges = stage.edges();
        let edge = edges.find(|(at, edge)| test(pipeline, *at, edge, facts, tested).unwrap_or(true));
        edge.map(|(at, _)| at)
    };
    if let Some(edge) = first(facts, tested) {
        return (Next::Edge(edge), Rule::FirstMatch);
    }
    if let Some(facts) = as_success(facts) {
        let mut again = Vec::new();
        if let Some(edge) = first(&facts, &mut again) {
            *tested = again;
            return (Next::Edge(edge), Rule::PartialAsSuccess);
        }
    }
    if facts.failed() {
        return after_failure(stage);
    }
    match no_way(stage, RouteError::NoMatchingEdge) {
        // A station without transitions completes the run, unless it defines another end (rule R11).
        (Next::Fail(RouteError::DeadEnd), _) => (Next::End { success: true }, Rule::End),
        other => other,
    }
}

impl Decision {
    /// Returns a human-readable description of the decision: the chosen step and, after a failure, the tested
    /// conditions.
    ///
    /// A failure lists every tested edge with its condition and the values that it read (rule R5).
    pub fn describe(&self, pipeline: &Pipeline, node: NodeIndex) -> String {
        let stage = pipeline.stage(node);
        let mut text = match self.next {
            Next::Edge(edge) => {
                let target = pipeline.stage(pipeline.edge(edge).to).id();
                format!("{} -> {target} ({})", stage.id(), self.rule.describe())
            }
            Next::Jump(target) => {
                format!(
                    "{} -> {} ({})",
                    stage.id(),
                    pipeline.stage(target).id(),
                    self.rule.describe()
                )
            }
            Next::End { .. } => return format!("the pipeline ends at `{}`", stage.id()),
            Next::Fail(RouteError::DeadEnd) => {
                return format!("`{}` has no outgoing edge and is not the exit", stage.id());
            }
            Next::Fail(RouteError::StageFailed) => format!("nothing takes the failure of `{}`", stage.id()),
            Next::Fail(RouteError::NoMatchingEdge) => format!("no edge of `{}` may be taken", stage.id()),
        };
        if matches!(self.next, Next::Fail(_)) {
            for tested in &self.tested {
                let edge = pipeline.edge(tested.edge);
                let condition = pipeline.condition(edge).map_or("", |condition| condition.text());
                let target = pipeline.stage(edge.to).id();
                let _ = write!(text, "\n  -> {target}: `{condition}` is false");
                for (key, value) in &tested.values {
                    let _ = write!(text, ", {key} is `{value}`");
                }
            }
        }
        text
    }
}
