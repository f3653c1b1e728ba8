//! Choosing the way on (rules R1 to R6, R11, P2).

use super::attempt::or_unsaid;
use super::{Line, Part, Rules, Stop, attribute, number};
use crate::conditions::{self, Seen, normal};
use crate::description::Edge;
use crate::trace::{End, Step, Values, Way};
use serde_json::Value;

/// The place of an edge, and the word of the rule that chose it.
type Found = (usize, &'static str);

/// A way, the word of the rule that chose it, and where it leads.
type Chosen = (Way, &'static str, Result<String, Stop>);

impl Rules<'_> {
    pub(super) fn seen(&self, line: &Line, at: &str) -> Seen {
        Seen {
            outcome: line.last.word.clone(),
            preferred_label: line.last.preferred_label.clone(),
            failure_reason: line.last.reason.clone(),
            current_node: at.to_owned(),
            last_stage: line.last.stage.clone(),
            context: line.context.clone(),
            visits: line.visits.clone(),
            outcomes: line.latest_words(),
        }
    }

    /// Whether an edge's condition holds; nothing where it has none. `output` is what the stage itself gave.
    pub(super) fn holds(&self, edge: &Edge, seen: &Seen, output: &Values) -> Option<bool> {
        let condition = attribute(&edge.attributes, "condition");
        if !condition.trim().is_empty() {
            return Some(conditions::holds(condition, seen));
        }
        match attribute(&edge.attributes, "condition_type") {
            "success" => Some(seen.outcome != "fail"),
            "failure" => Some(seen.outcome == "fail"),
            "conditional" => Some(output_fits(
                output,
                attribute(&edge.attributes, "condition_value"),
            )),
            _ => None,
        }
    }

    /// What the conditions of a node's edges say, by place; under first match only up to the first that may be taken.
    fn test(
        &self,
        line: &Line,
        edges: &[(usize, &Edge)],
        among: &[usize],
        seen: &Seen,
    ) -> Vec<(usize, bool)> {
        let mut tested = Vec::new();
        for position in among {
            let held = self.holds(edges[*position].1, seen, &line.last.output);
            tested.extend(held.map(|held| (*position, held)));
            if self.first_match() && held != Some(false) {
                break;
            }
        }
        tested
    }

    pub(super) fn first_match(&self) -> bool {
        attribute(&self.graph.attributes, "routing") == "first_match"
    }

    /// Among some edges of a gate: the first that may be taken, or of those that hold, else of the plain ones, the best.
    pub(super) fn preferred(
        &self,
        edges: &[(usize, &Edge)],
        among: &[usize],
        tested: &[(usize, bool)],
    ) -> Option<usize> {
        let result = |position: &usize| {
            tested
                .iter()
                .find(|(at, _)| at == position)
                .map(|(_, held)| *held)
        };
        if self.first_match() {
            let first = among.iter().find(|position| result(position) != Some(false));
            return first.copied();
        }
        let held: Vec<usize> = among
            .iter()
            .copied()
            .filter(|position| result(position) == Some(true))
            .collect();
        let plain: Vec<usize> = among
            .iter()
            .copied()
            .filter(|position| result(position).is_none())
            .collect();
        let chosen = best(edges, &held).or_else(|| best(edges, &plain));
        chosen.map(|(position, _)| position)
    }

    /// A gate that was answered follows that choice; one that failed the edges for failures (rules H3, H5).
    fn choose_at_gate(
        &self,
        line: &Line,
        edges: &[(usize, &Edge)],
        seen: &Seen,
    ) -> (Option<Found>, Vec<(usize, bool)>) {
        let failed = line.last.word == "fail";
        let wanted = normal(&line.last.preferred_label);
        let fits = |position: &usize| {
            let edge = edges[*position].1;
            if failed {
                is_for_failures(edge)
            } else {
                !is_for_failures(edge) && normal(shown(edge)) == wanted
            }
        };
        let among: Vec<usize> = (0..edges.len()).filter(fits).collect();
        let tested = self.test(line, edges, &among, seen);
        let rule = match (failed, self.first_match()) {
            (false, _) => "choice",
            (true, true) => "first_match",
            (true, false) => "condition",
        };
        let chosen = self.preferred(edges, &among, &tested);
        (chosen.map(|position| (position, rule)), tested)
    }

    /// Chooses the way on, records the choice, and gives the next node or the end.
    pub(super) fn choose(&self, line: &mut Line, at: &str) -> Result<String, Stop> {
        let graph = self.graph;
        let seen = self.seen(line, at);
        let edges = graph.out(at);
        let first_match = self.first_match();
        let all: Vec<usize> = (0..edges.len()).collect();
        let mut tested = Vec::new();
        let (way, rule, result) = if graph.is_fan_out(at) {
            self.after_block(line, at)
        } else {
            let chosen;
            if graph.is_gate(at) {
                (chosen, tested) = self.choose_at_gate(line, &edges, &seen);
            } else {
                tested = self.test(line, &edges, &all, &seen);
                let mut found = if first_match {
                    self.preferred(&edges, &all, &tested)
                        .map(|position| (position, "first_match"))
                } else {
                    self.five_steps(line, at, &edges, &tested)
                };
                // A partial success that finds no edge is tried as a success (rule R12).
                if found.is_none() && line.last.word == "partial_success" {
                    let full = Seen {
                        outcome: "success".to_owned(),
                        ..seen.clone()
                    };
                    let again = self.test(line, &edges, &all, &full);
                    let position = self.preferred(&edges, &all, &again);
                    if let Some(position) = position {
                        found = Some((position, "partial_as_success"));
                        tested = again;
                    }
                }
                chosen = found;
            }
            match chosen {
                Some((position, rule)) => {
                    let (index, edge) = edges[position];
                    let to = edge.to.clone();
                    let result = self.take(line, index, edge, first_match);
                    (Way::Edge { position, to }, rule, result)
                }
                None => self.without_edge(line, at, &edges, first_match),
            }
        };
        line.say(Step::Choice {
            branch: line.branch.clone(),
            from: at.to_owned(),
            way: way.clone(),
            rule: rule.to_owned(),
            tested,
        });
        // An end that counts as a success is one only if the goal gates say so (rule R7).
        if way == Way::End(true)
            && line.inside.is_empty()
            && let Some(target) = self.goal_gates(line, at)?
        {
            return Ok(target);
        }
        result
    }

    /// Takes an edge, if it may be taken.
    fn take(&self, line: &mut Line, index: usize, edge: &Edge, first_match: bool) -> Result<String, Stop> {
        if first_match && !may_revisit(line, index, edge) {
            return Err(Stop::Failed(End::Circular {
                from: edge.from.clone(),
                to: edge.to.clone(),
            }));
        }
        line.taken[index] += 1;
        if attribute(&edge.attributes, "loop_restart") == "true" {
            return Err(Stop::Restart {
                edge: index,
                context: line.context.clone(),
            });
        }
        Ok(edge.to.clone())
    }

    /// From a fan-out the run goes on at the join (rule P2), unless the block failed.
    fn after_block(&self, line: &Line, at: &str) -> Chosen {
        let join = &self.graph.joins[at];
        let to_join = |rule| (Way::Jump(join.clone()), rule, Ok(join.clone()));
        if line.last.word != "fail" {
            return to_join("join");
        }
        if self.graph.part(join) == Part::Routing {
            return to_join("failure_to_routing");
        }
        if self.routes_failures(at) {
            return to_join("join");
        }
        self.after_failure(line, at)
    }

    /// Whether plain edges take a failure, too (rule R3).
    fn routes_failures(&self, at: &str) -> bool {
        let own = attribute(self.graph.attributes_of(at), "on_failure");
        let common = attribute(&self.graph.attributes, "on_failure");
        own == "route" || own.is_empty() && common == "route"
    }

    /// Rules R1 to R4.
    fn five_steps(
        &self,
        line: &Line,
        at: &str,
        edges: &[(usize, &Edge)],
        tested: &[(usize, bool)],
    ) -> Option<(usize, &'static str)> {
        let held: Vec<usize> = tested
            .iter()
            .filter(|(_, held)| *held)
            .map(|(position, _)| *position)
            .collect();
        if let Some((position, _)) = best(edges, &held) {
            return Some((position, "condition"));
        }
        let conditional: Vec<usize> = tested.iter().map(|(position, _)| *position).collect();
        let mut plain: Vec<usize> = (0..edges.len())
            .filter(|position| !conditional.contains(position))
            .collect();
        if line.last.word == "fail" && self.graph.part(at) != Part::Routing && !self.routes_failures(at) {
            plain.retain(|position| self.graph.part(&edges[*position].1.to) == Part::Routing);
            return steps_two_to_five(line, edges, &plain)
                .map(|(position, _)| (position, "failure_to_routing"));
        }
        steps_two_to_five(line, edges, &plain)
    }

    /// What happens where no edge is taken: rules R3 to R6 and R11.
    fn without_edge(&self, line: &Line, at: &str, edges: &[(usize, &Edge)], first_match: bool) -> Chosen {
        if line.last.word == "fail" {
            return self.after_failure(line, at);
        }
        if !edges.is_empty() {
            let end = End::NoMatchingEdge {
                node: at.to_owned(),
                report: self.report(line, at, edges),
            };
            return (Way::Fail("no_matching_edge"), "nothing", Err(Stop::Failed(end)));
        }
        match attribute(self.graph.attributes_of(at), "end") {
            "success" => (Way::End(true), "end", Err(Stop::End)),
            "fail" => {
                let end = End::FailureEnd {
                    node: at.to_owned(),
                    reason: line.last_failure.clone(),
                };
                (Way::End(false), "end", Err(Stop::Failed(end)))
            }
            _ if first_match => (Way::End(true), "end", Err(Stop::End)),
            _ => {
                let end = End::DeadEnd(at.to_owned());
                (Way::Fail("dead_end"), "nothing", Err(Stop::Failed(end)))
            }
        }
    }

    /// Where a failure leads that no edge takes: rules R3 and R4.
    fn after_failure(&self, line: &Line, at: &str) -> Chosen {
        // A routing node did not fail itself: the failure is that of the stage before (rule R4).
        if self.graph.part(at) == Part::Work {
            for name in ["retry_target", "fallback_retry_target"] {
                let target = attribute(self.graph.attributes_of(at), name);
                if let Some(target) = self.graph.node(target) {
                    return (Way::Jump(target.id.clone()), name, Ok(target.id.clone()));
                }
            }
        }
        let end = End::StageFailed {
            node: line.last.stage.clone(),
            reason: line.last.reason.clone(),
        };
        (Way::Fail("stage_failed"), "nothing", Err(Stop::Failed(end)))
    }

    /// Rule R5: each edge, its condition, and the values that it saw.
    fn report(&self, line: &Line, at: &str, edges: &[(usize, &Edge)]) -> String {
        let seen = self.seen(line, at);
        let mut text = format!("no edge of `{at}` may be taken");
        for (_, edge) in edges {
            // At a gate only the edges of the choice were tested.
            let other = normal(shown(edge)) != normal(&line.last.preferred_label) || is_for_failures(edge);
            if self.holds(edge, &seen, &line.last.output).is_none() || self.graph.is_gate(at) && other {
                continue;
            }
            let (reported, values) = self.reported(edge, &seen, &line.last.output);
            text = format!("{text}\n  -> {}: `{reported}` is false", edge.to);
            for (key, value) in values {
                text = format!("{text}, {key} is `{value}`");
            }
        }
        text
    }

    /// An edge's condition in words, and the values that it sees.
    pub(super) fn reported(
        &self,
        edge: &Edge,
        seen: &Seen,
        output: &Values,
    ) -> (String, Vec<(String, String)>) {
        let condition = attribute(&edge.attributes, "condition");
        let kind = attribute(&edge.attributes, "condition_type");
        let value = attribute(&edge.attributes, "condition_value");
        match (condition, kind) {
            ("", "conditional") => {
                let key = output_key(value);
                let found = output.get(&key).map(Value::to_string);
                (
                    format!("condition_value={value}"),
                    vec![(key, found.unwrap_or_default())],
                )
            }
            ("", kind) => {
                let outcome = ("outcome".to_owned(), seen.outcome.clone());
                (format!("condition_type={kind}"), vec![outcome])
            }
            (condition, _) => (condition.to_owned(), conditions::values(condition, seen)),
        }
    }
}

/// Steps 2 to 5 among edges without a condition.
fn steps_two_to_five(
    line: &Line,
    edges: &[(usize, &Edge)],
    plain: &[usize],
) -> Option<(usize, &'static str)> {
    let label = normal(&line.last.preferred_label);
    if !label.is_empty() {
        let bears = |position: &&usize| normal(attribute(&edges[**position].1.attributes, "label")) == label;
        if let Some(position) = plain.iter().find(bears) {
            return Some((*position, "preferred_label"));
        }
    }
    for wanted in &line.last.suggested {
        if let Some(position) = plain.iter().find(|position| edges[**position].1.to == *wanted) {
            return Some((*position, "suggested_next"));
        }
    }
    best(edges, plain)
}

/// Whether an edge of the station dialect may be taken (rule R11).
fn may_revisit(line: &mut Line, index: usize, edge: &Edge) -> bool {
    if !line.visits.contains_key(&edge.to) {
        return true;
    }
    let limit = number(&edge.attributes, "max_revisits").unwrap_or(u32::MAX);
    let taken = line.revisits.entry(index).or_default();
    if attribute(&edge.attributes, "allow_revisit") != "true" || *taken >= limit {
        return false;
    }
    *taken += 1;
    true
}

/// The key and the value of a `condition_value` (rule R11); without a value any will do.
fn output_wanted(written: &str) -> (String, Option<Value>) {
    let written = written.trim();
    if !written.starts_with(['{', '"']) {
        return (written.to_owned(), None);
    }
    let wanted: Value = serde_json::from_str(written).unwrap();
    if let Some(key) = wanted.as_str() {
        return (key.to_owned(), None);
    }
    let either = |name: &str, legacy: &str| wanted.get(name).or_else(|| wanted.get(legacy)).cloned().unwrap();
    let key = either("key", "check_output_key");
    (
        key.as_str().unwrap().to_owned(),
        Some(either("value", "expected_value")),
    )
}

fn output_key(written: &str) -> String {
    output_wanted(written).0
}

fn output_fits(output: &Values, written: &str) -> bool {
    let (key, value) = output_wanted(written);
    let Some(found) = output.get(&key) else {
        return false;
    };
    match (found, &value) {
        (_, None) => true,
        (Value::Bool(found), Some(Value::Bool(value))) => found == value,
        (Value::String(found), Some(Value::String(value))) => found == value,
        (Value::Number(found), Some(Value::Number(value))) => found.as_f64() == value.as_f64(),
        _ => false,
    }
}

/// A failure in words, as a branch gives it for its reason.
pub(super) fn in_words(end: &End) -> String {
    match end {
        End::StageFailed { node, reason } => format!("stage `{node}` failed: {}", or_unsaid(reason)),
        End::NoMatchingEdge { report, .. } => report.clone(),
        End::DeadEnd(node) => format!(
            "the run came to `{node}`, which has no outgoing edge and is not the exit; \
             say `end=\"fail\"` or `end=\"success\"` on it if that is meant"
        ),
        End::FailureEnd { node, reason } => {
            let reported = format!("the run ended at `{node}`, which is marked `end=\"fail\"`");
            match reason.as_str() {
                "" => reported,
                reason => format!("{reported}: {reason}"),
            }
        }
        End::Circular { from, to } => format!(
            "the edge `{from}` -> `{to}` leads back to a visited node more often than it allows; \
             `allow_revisit=true` allows it, `max_revisits` bounds it"
        ),
        End::Reentry { from, to } => format!(
            "the branch leads back from `{from}` to its own fan-out `{to}`; a branch ends at the join"
        ),
        other => panic!("{other:?} ends more than a branch"),
    }
}

/// The best of some edges by weight, then by target id; of equal ones the first. Also says what decided.
fn best(edges: &[(usize, &Edge)], among: &[usize]) -> Option<(usize, &'static str)> {
    let weight = |position: usize| {
        attribute(&edges[position].1.attributes, "weight")
            .parse::<i64>()
            .unwrap_or(0)
    };
    let mut sorted = among.to_vec();
    sorted.sort_by(|a, b| {
        let by_weight = weight(*b).cmp(&weight(*a));
        by_weight.then_with(|| edges[*a].1.to.as_bytes().cmp(edges[*b].1.to.as_bytes()))
    });
    let rule = match sorted[..] {
        [] => return None,
        [_] => "only_edge",
        [first, second, ..] if weight(first) != weight(second) => "weight",
        _ => "lowest_target",
    };
    Some((sorted[0], rule))
}

/// What a person reads of an edge: its label, else where it leads.
pub(super) fn shown(edge: &Edge) -> &str {
    match attribute(&edge.attributes, "label").trim() {
        "" => &edge.to,
        _ => attribute(&edge.attributes, "label"),
    }
}

/// Whether an edge of a gate is for failures only, and no choice (rule H5).
pub(super) fn is_for_failures(edge: &Edge) -> bool {
    let condition = attribute(&edge.attributes, "condition");
    if condition.trim().is_empty() {
        attribute(&edge.attributes, "condition_type") == "failure"
    } else {
        conditions::needs_failure(condition)
    }
}
