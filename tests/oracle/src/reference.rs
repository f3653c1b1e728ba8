//! A run by the letter of rules R1-R8, R10 and R11. It may be slow; it must be plain.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::conditions::{self, Seen};
use crate::description::{Attributes, Edge, Graph, Node, Script};
use crate::trace::{End, Step, Trace, Way};

/// What a node is to the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Start,
    Exit,
    Routing,
    Work,
}

/// Runs a graph by a script.
pub fn run(graph: &Graph, script: &Script) -> Trace {
    let mut run = Run {
        graph,
        script,
        steps: Vec::new(),
        visits: BTreeMap::new(),
        outcomes: BTreeMap::new(),
        context: BTreeMap::new(),
        last: Last::default(),
        output: BTreeMap::new(),
        streaks: BTreeMap::new(),
        revisits: BTreeMap::new(),
    };
    for (key, value) in &graph.attributes {
        // Whole numbers are the only attributes of the graph here that are not text.
        let value = value
            .parse::<i64>()
            .map_or(Value::from(value.as_str()), Value::from);
        run.context.insert(format!("graph.{key}"), value);
    }
    run.context.insert(
        "graph.goal".to_owned(),
        Value::from(attribute(&graph.attributes, "goal")),
    );
    let end = run.walk();
    run.context.retain(|key, _| !key.starts_with("graph."));
    Trace {
        steps: run.steps,
        end,
        outcomes: run.outcomes,
        context: run.context,
    }
}

/// What is remembered of the stage that ran last.
#[derive(Default)]
struct Last {
    stage: String,
    word: String,
    preferred_label: String,
    suggested: Vec<String>,
    reason: String,
}

struct Run<'a> {
    graph: &'a Graph,
    script: &'a Script,
    steps: Vec<Step>,
    visits: BTreeMap<String, u32>,
    outcomes: BTreeMap<String, String>,
    context: BTreeMap<String, Value>,
    last: Last,
    /// What the stage that ran last itself gave (rule R11).
    output: BTreeMap<String, Value>,
    /// Of each stage whose latest visit failed: the reason, and how often running.
    streaks: BTreeMap<String, (String, u32)>,
    /// How often each edge led back.
    revisits: BTreeMap<usize, u32>,
}

fn attribute<'a>(attributes: &'a Attributes, name: &str) -> &'a str {
    attributes.get(name).map_or("", String::as_str)
}

fn number(attributes: &Attributes, name: &str) -> Option<u32> {
    attributes.get(name).map(|text| text.parse().unwrap())
}

impl Graph {
    fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Rule L13: by shape, else by second shape, else by id.
    fn only(&self, kind: &str, shapes: [&str; 2], ids: [&str; 2]) -> String {
        for shape in shapes {
            let shaped = self.nodes.iter().find(|node| {
                let own = attribute(&node.attributes, "type");
                own == kind || own.is_empty() && attribute(&node.attributes, "shape") == shape
            });
            if let Some(node) = shaped {
                return node.id.clone();
            }
        }
        let named = self.nodes.iter().find(|node| ids.contains(&node.id.as_str()));
        named.unwrap().id.clone()
    }

    fn part(&self, id: &str) -> Part {
        if id == self.only("start", ["Mdiamond", "circle"], ["start", "Start"]) {
            return Part::Start;
        }
        if id == self.only("exit", ["Msquare", "doublecircle"], ["exit", "end"]) {
            return Part::Exit;
        }
        let attributes = &self.node(id).unwrap().attributes;
        match (attribute(attributes, "type"), attribute(attributes, "shape")) {
            ("conditional", _) | ("", "diamond") => Part::Routing,
            _ => Part::Work,
        }
    }

    /// The edges out of a node, in the order of the file, with their place in the whole list.
    fn out(&self, id: &str) -> Vec<(usize, &Edge)> {
        self.edges
            .iter()
            .enumerate()
            .filter(|(_, edge)| edge.from == id)
            .collect()
    }
}

impl Run<'_> {
    fn walk(&mut self) -> End {
        let mut at = self
            .graph
            .only("start", ["Mdiamond", "circle"], ["start", "Start"]);
        loop {
            if let Some(end) = self.visit(&at) {
                return end;
            }
            self.context
                .insert("current_node".to_owned(), Value::from(at.as_str()));
            match self.graph.part(&at) {
                Part::Routing => {}
                Part::Start | Part::Exit => self.learn(&at, "success", "", &[], ""),
                Part::Work => {
                    if let Some(end) = self.work(&at) {
                        return end;
                    }
                }
            }
            if self.graph.part(&at) == Part::Exit {
                return End::Success;
            }
            match self.choose(&at) {
                Ok(next) => at = next,
                Err(end) => return end,
            }
        }
    }

    /// Rule R10: a bound on visits.
    fn visit(&mut self, at: &str) -> Option<End> {
        let own = number(&self.graph.node(at).unwrap().attributes, "max_visits");
        let common = number(&self.graph.attributes, "max_node_visits").unwrap_or(1000);
        let (limit, attribute) = match own {
            Some(limit) => (limit, "max_visits"),
            None => (common, "max_node_visits"),
        };
        let visits = self.visits.entry(at.to_owned()).or_default();
        *visits += 1;
        if *visits > limit {
            return Some(End::MaxVisits {
                node: at.to_owned(),
                limit,
                attribute: attribute.to_owned(),
            });
        }
        self.steps.push(Step::Visit(at.to_owned()));
        None
    }

    /// Runs a stage; gives the end if the breaker of rule R10 trips.
    fn work(&mut self, at: &str) -> Option<End> {
        let attributes = &self.graph.node(at).unwrap().attributes;
        let said = self.script.outcome(at, self.visits[at] as usize - 1);
        // No graph here allows a second attempt, so a wish for one is exhausted at once (rule Y5).
        let word = match said.word.as_str() {
            "retry" if attribute(attributes, "allow_partial") == "true" => "partial_success",
            "retry" => "fail",
            word => word,
        };
        let reason = if word == "fail" { said.reason.as_str() } else { "" };
        if word != "skipped" {
            self.outcomes.insert(at.to_owned(), word.to_owned());
        }
        self.steps.push(Step::Outcome(word.to_owned()));
        for (key, value) in &said.updates {
            self.context.insert(key.clone(), value.clone());
        }
        self.learn(at, word, &said.preferred_label, &said.suggested, reason);
        self.output = said.updates.clone();
        if word != "fail" {
            self.streaks.remove(at);
            return None;
        }
        let count = match self.streaks.get(at) {
            Some((before, count)) if before == reason => count + 1,
            _ => 1,
        };
        self.streaks.insert(at.to_owned(), (reason.to_owned(), count));
        let bound = number(&self.graph.attributes, "failure_breaker").unwrap_or(3);
        (bound > 0 && count >= bound).then(|| End::FailureBreaker {
            node: at.to_owned(),
            reason: reason.to_owned(),
            count,
        })
    }

    fn learn(&mut self, stage: &str, word: &str, label: &str, suggested: &[String], reason: &str) {
        self.output.clear();
        self.last = Last {
            stage: stage.to_owned(),
            word: word.to_owned(),
            preferred_label: label.to_owned(),
            suggested: suggested.to_vec(),
            reason: reason.to_owned(),
        };
        for (key, text) in [
            ("outcome", word),
            ("preferred_label", label),
            ("last_stage", stage),
        ] {
            self.context.insert(key.to_owned(), Value::from(text));
        }
    }

    fn seen(&self, at: &str) -> Seen {
        Seen {
            outcome: self.last.word.clone(),
            preferred_label: self.last.preferred_label.clone(),
            failure_reason: self.last.reason.clone(),
            current_node: at.to_owned(),
            last_stage: self.last.stage.clone(),
            context: self.context.clone(),
        }
    }

    /// Whether an edge's condition holds; nothing where it has none.
    fn holds(&self, edge: &Edge, seen: &Seen) -> Option<bool> {
        let condition = attribute(&edge.attributes, "condition");
        if !condition.trim().is_empty() {
            return Some(conditions::holds(condition, seen));
        }
        match attribute(&edge.attributes, "condition_type") {
            "success" => Some(self.last.word != "fail"),
            "failure" => Some(self.last.word == "fail"),
            "conditional" => Some(self.output_fits(attribute(&edge.attributes, "condition_value"))),
            _ => None,
        }
    }

    /// The forms of `condition_value` (rule R11).
    fn output_fits(&self, written: &str) -> bool {
        let written = written.trim();
        if !written.starts_with(['{', '"']) {
            return self.output.contains_key(written);
        }
        let wanted: Value = serde_json::from_str(written).unwrap();
        if let Some(key) = wanted.as_str() {
            return self.output.contains_key(key);
        }
        let either =
            |name: &str, legacy: &str| wanted.get(name).or_else(|| wanted.get(legacy)).cloned().unwrap();
        let (key, value) = (
            either("key", "check_output_key"),
            either("value", "expected_value"),
        );
        let Some(found) = self.output.get(key.as_str().unwrap()) else {
            return false;
        };
        match (found, &value) {
            (Value::Bool(found), Value::Bool(value)) => found == value,
            (Value::String(found), Value::String(value)) => found == value,
            (Value::Number(found), Value::Number(value)) => found.as_f64() == value.as_f64(),
            _ => false,
        }
    }

    /// Chooses the way on, records the choice, and gives the next node or the end.
    fn choose(&mut self, at: &str) -> Result<String, End> {
        let graph = self.graph;
        let seen = self.seen(at);
        let edges = graph.out(at);
        let first_match = attribute(&graph.attributes, "routing") == "first_match";
        let mut tested = Vec::new();
        let mut chosen: Option<(usize, &str)> = None;
        if first_match {
            for (place, (_, edge)) in edges.iter().enumerate() {
                let held = self.holds(edge, &seen);
                tested.extend(held.map(|held| (place, held)));
                if held != Some(false) {
                    chosen = Some((place, "first_match"));
                    break;
                }
            }
        } else {
            for (place, (_, edge)) in edges.iter().enumerate() {
                tested.extend(self.holds(edge, &seen).map(|held| (place, held)));
            }
            chosen = self.five_steps(at, &edges, &tested);
        }
        let (way, rule, result) = match chosen {
            Some((place, rule)) => {
                let (index, edge) = edges[place];
                let way = Way::Edge {
                    place,
                    to: edge.to.clone(),
                };
                let result = match first_match && !self.may_revisit(index, edge) {
                    true => Err(End::Circular {
                        from: at.to_owned(),
                        to: edge.to.clone(),
                    }),
                    false => Ok(edge.to.clone()),
                };
                (way, rule, result)
            }
            None => self.without_edge(at, &edges, first_match),
        };
        self.steps.push(Step::Choice {
            from: at.to_owned(),
            way,
            rule: rule.to_owned(),
            tested,
        });
        result
    }

    /// Rules R1 to R4.
    fn five_steps(
        &self,
        at: &str,
        edges: &[(usize, &Edge)],
        tested: &[(usize, bool)],
    ) -> Option<(usize, &'static str)> {
        let held: Vec<usize> = tested
            .iter()
            .filter(|(_, held)| *held)
            .map(|(place, _)| *place)
            .collect();
        if let Some((place, _)) = best(edges, &held) {
            return Some((place, "condition"));
        }
        let conditional: Vec<usize> = tested.iter().map(|(place, _)| *place).collect();
        let mut plain: Vec<usize> = (0..edges.len())
            .filter(|place| !conditional.contains(place))
            .collect();
        let own = attribute(&self.graph.node(at).unwrap().attributes, "on_failure");
        let common = attribute(&self.graph.attributes, "on_failure");
        let routes = own == "route" || own.is_empty() && common == "route";
        if self.last.word == "fail" && self.graph.part(at) != Part::Routing && !routes {
            plain.retain(|place| self.graph.part(&edges[*place].1.to) == Part::Routing);
            return self
                .steps_two_to_five(edges, &plain)
                .map(|(place, _)| (place, "failure_to_routing"));
        }
        self.steps_two_to_five(edges, &plain)
    }

    fn steps_two_to_five(&self, edges: &[(usize, &Edge)], plain: &[usize]) -> Option<(usize, &'static str)> {
        let label = normal(&self.last.preferred_label);
        if !label.is_empty() {
            let bears = |place: &&usize| normal(attribute(&edges[**place].1.attributes, "label")) == label;
            if let Some(place) = plain.iter().find(bears) {
                return Some((*place, "preferred_label"));
            }
        }
        for wanted in &self.last.suggested {
            if let Some(place) = plain.iter().find(|place| edges[**place].1.to == *wanted) {
                return Some((*place, "suggested_next"));
            }
        }
        best(edges, plain)
    }

    /// What happens where no edge is taken: rules R3 to R6 and R11.
    fn without_edge(
        &self,
        at: &str,
        edges: &[(usize, &Edge)],
        first_match: bool,
    ) -> (Way, &'static str, Result<String, End>) {
        let attributes = &self.graph.node(at).unwrap().attributes;
        if self.last.word == "fail" {
            // A routing node did not fail itself: the failure is that of the stage before (rule R4).
            if self.graph.part(at) == Part::Work {
                for name in ["retry_target", "fallback_retry_target"] {
                    if let Some(target) = self.graph.node(attribute(attributes, name)) {
                        return (Way::Jump(target.id.clone()), name, Ok(target.id.clone()));
                    }
                }
            }
            let end = End::StageFailed {
                node: self.last.stage.clone(),
                reason: self.last.reason.clone(),
            };
            return (Way::Fail("stage_failed"), "nothing", Err(end));
        }
        if !edges.is_empty() {
            let end = End::NoMatchingEdge(at.to_owned());
            return (Way::Fail("no_matching_edge"), "nothing", Err(end));
        }
        match attribute(attributes, "end") {
            "success" => (Way::End(true), "end", Err(End::Success)),
            "fail" => (Way::End(false), "end", Err(End::FailureEnd(at.to_owned()))),
            _ if first_match => (Way::End(true), "end", Err(End::Success)),
            _ => (Way::Fail("dead_end"), "nothing", Err(End::DeadEnd(at.to_owned()))),
        }
    }

    /// Whether an edge of the station dialect may be taken (rule R11).
    fn may_revisit(&mut self, index: usize, edge: &Edge) -> bool {
        if !self.visits.contains_key(&edge.to) {
            return true;
        }
        let limit = number(&edge.attributes, "max_revisits").unwrap_or(u32::MAX);
        let taken = self.revisits.entry(index).or_default();
        if attribute(&edge.attributes, "allow_revisit") != "true" || *taken >= limit {
            return false;
        }
        *taken += 1;
        true
    }
}

/// The best of some edges by weight, then by target id; of equal ones the first. Also says what decided.
fn best(edges: &[(usize, &Edge)], among: &[usize]) -> Option<(usize, &'static str)> {
    let weight = |place: usize| {
        attribute(&edges[place].1.attributes, "weight")
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

/// Lower case, trimmed, without `[K] `, `K) ` or `K - ` in front (Attractor 3.3).
fn normal(label: &str) -> String {
    let label = label.trim().to_lowercase();
    let chars: Vec<char> = label.chars().collect();
    let behind = match chars[..] {
        ['[', key, ']', ' ', ..] if key.is_alphanumeric() => 4,
        [key, ')', ' ', ..] if key.is_alphanumeric() => 3,
        [key, ' ', '-', ' ', ..] if key.is_alphanumeric() => 4,
        _ => 0,
    };
    chars[behind..].iter().collect::<String>().trim().to_owned()
}
