//! A run by the letter of the rules (R1-R11, Y1-Y7, P1-P4, H1-H4). It may be slow; it must be plain.
//!
//! There are no events here. A line of the run is walked from stage to stage; whatever takes time moves its clock on.
//! A parallel block walks each of its branches to its end as if there were no other, looks whose end comes first, and
//! when that decides the block, walks the others again up to that moment only.

mod attempt;
mod block;
mod human;
mod list;
mod route;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::conditions;
use crate::description::{Attributes, Call, Edge, Graph, Node, Script};
use crate::trace::{End, Recorded, Step, Trace, Values, Way};

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
    let mut rules = Rules {
        graph,
        script,
        restart: 0,
    };
    let mut line = Line::new(graph_context(graph), graph);
    let mut at = graph.only("start", ["Mdiamond", "circle"], ["start", "Start"]);
    let end = loop {
        let stop = rules.walk(&mut line, at);
        line.now_cancel();
        let (edge, context) = match stop {
            Stop::Joined | Stop::End => break End::Success,
            Stop::Failed(end) | Stop::Abort(end) => break end,
            Stop::Cut => unreachable!("nothing cuts the main line"),
            Stop::Restart { edge, context } => (edge, context),
        };
        let Edge { from, to, .. } = &graph.edges[edge];
        let limit = number(&graph.attributes, "max_restarts").unwrap_or(20);
        if rules.restart >= limit {
            break End::MaxRestarts {
                from: from.clone(),
                to: to.clone(),
                limit,
            };
        }
        rules.restart += 1;
        let kept: Vec<&str> = attribute(&graph.attributes, "restart_keep")
            .split(',')
            .map(str::trim)
            .collect();
        let survives = |key: &str| key.starts_with("graph.") || kept.contains(&key);
        let context = context.into_iter().filter(|(key, _)| survives(key)).collect();
        let step = Step::Restart {
            edge: graph.position(edge),
            count: rules.restart,
        };
        let mut next = Line::new(context, graph);
        next.now = line.now;
        next.taken = std::mem::take(&mut line.taken);
        next.steps = std::mem::take(&mut line.steps);
        next.say(step);
        line = next;
        at = to.clone();
    };
    line.context.retain(|key, _| !key.starts_with("graph."));
    let taken = line.taken.into_iter().enumerate();
    let taken = taken.map(|(edge, taken)| (graph.position(edge), taken));
    Trace {
        steps: line.steps.into_iter().map(|(_, step)| step).collect(),
        end,
        outcomes: line.outcomes,
        context: line.context,
        path: line.path,
        visits: line.visits,
        errors: line.errors,
        retries: line.retries,
        taken: taken.filter(|(_, taken)| *taken > 0).collect(),
        reroutes: line.reroutes,
        restarts: rules.restart,
    }
}

/// The attributes of the graph as they stand in the context (Attractor 5.1).
fn graph_context(graph: &Graph) -> Values {
    let mut context = Values::new();
    for (key, value) in &graph.attributes {
        let value = value
            .parse::<i64>()
            .map_or(Value::from(value.as_str()), Value::from);
        context.insert(format!("graph.{key}"), value);
    }
    let goal = attribute(&graph.attributes, "goal");
    context.insert("graph.goal".to_owned(), Value::from(goal));
    context
}

/// The rules for one life of a run.
struct Rules<'a> {
    graph: &'a Graph,
    script: &'a Script,
    restart: u32,
}

/// One line of the run: the main one, or a branch.
#[derive(Clone)]
struct Line {
    /// The branch's name; empty for the main line.
    branch: String,
    /// The fan-outs around it, from the outermost on, with their joins.
    inside: Vec<(String, String)>,
    /// The sum of the places of the branches around it.
    positions: usize,
    now: u64,
    /// When the line is cut off.
    until: u64,
    steps: Vec<(u64, Step)>,
    /// What is cancelled where the line is cut off.
    cancelled: Vec<Step>,
    context: Values,
    visits: BTreeMap<String, u32>,
    /// The visits since the branch began.
    own_visits: BTreeMap<String, u32>,
    outcomes: BTreeMap<String, Recorded>,
    /// How stages had ended on the lines around a branch when it began.
    around: BTreeMap<String, String>,
    path: Vec<String>,
    last: Last,
    /// What its stages set, one over the other.
    updates: Values,
    /// Of each stage whose latest visit failed: the reason, and how often running.
    streaks: BTreeMap<String, (String, u32)>,
    /// How often each edge led back.
    revisits: BTreeMap<usize, u32>,
    errors: Vec<(String, u32, u32, String)>,
    retries: BTreeMap<String, u32>,
    last_failure: String,
    taken: Vec<u32>,
    reroutes: u32,
}

/// What is remembered of the stage that ran last.
#[derive(Clone, Default)]
struct Last {
    stage: String,
    word: String,
    preferred_label: String,
    suggested: Vec<String>,
    reason: String,
    /// What the stage itself gave (rule R11).
    output: Values,
}

/// Why a line goes no further.
enum Stop {
    /// It came to the join.
    Joined,
    /// It came to the exit, or to an end that counts as one.
    End,
    /// A failure that nothing takes.
    Failed(End),
    /// Something that ends the whole run.
    Abort(End),
    /// Something that begins the run anew.
    Restart { edge: usize, context: Values },
    /// Its time was up.
    Cut,
}

fn attribute<'a>(attributes: &'a Attributes, name: &str) -> &'a str {
    attributes.get(name).map_or("", String::as_str)
}

fn number(attributes: &Attributes, name: &str) -> Option<u32> {
    attributes.get(name).map(|text| text.parse().unwrap())
}

/// Adds to a count.
fn count<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K, more: u32) {
    *counts.entry(key).or_default() += more;
}

impl Graph {
    fn node(&self, id: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    fn attributes_of(&self, id: &str) -> &Attributes {
        &self.node(id).unwrap().attributes
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
        if self.is(id, "conditional", "diamond") {
            Part::Routing
        } else {
            Part::Work
        }
    }

    /// Whether a node is of a kind, by its type or, where it has none, by its shape.
    fn is(&self, id: &str, kind: &str, shape: &str) -> bool {
        let attributes = self.attributes_of(id);
        match attribute(attributes, "type") {
            "" => attribute(attributes, "shape") == shape,
            own => own == kind,
        }
    }

    /// An edge by its node and its place among the edges of that.
    fn position(&self, edge: usize) -> (String, usize) {
        let from = &self.edges[edge].from;
        let before = self.edges[..edge].iter().filter(|edge| edge.from == *from);
        (from.clone(), before.count())
    }

    fn is_gate(&self, id: &str) -> bool {
        self.is(id, "wait.human", "hexagon")
    }

    fn is_fan_out(&self, id: &str) -> bool {
        self.is(id, "parallel", "component")
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

impl Line {
    /// The visit of a node that is under way, as records name it.
    fn record(&self, at: &str) -> String {
        let slash = if self.branch.is_empty() { "" } else { "/" };
        format!("{}{slash}{at}#{}", self.branch, self.visits[at])
    }

    fn new(context: Values, graph: &Graph) -> Line {
        Line {
            branch: String::new(),
            inside: Vec::new(),
            positions: 0,
            now: 0,
            until: u64::MAX,
            steps: Vec::new(),
            cancelled: Vec::new(),
            context,
            visits: BTreeMap::new(),
            own_visits: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            around: BTreeMap::new(),
            path: Vec::new(),
            // What began the line went well.
            last: Last {
                word: "success".to_owned(),
                ..Last::default()
            },
            updates: Values::new(),
            streaks: BTreeMap::new(),
            revisits: BTreeMap::new(),
            errors: Vec::new(),
            retries: BTreeMap::new(),
            last_failure: String::new(),
            taken: vec![0; graph.edges.len()],
            reroutes: 0,
        }
    }

    fn say(&mut self, step: Step) {
        self.steps.push((self.now, step));
    }

    /// Says what is cancelled, now that the line is at its end.
    fn now_cancel(&mut self) {
        for step in std::mem::take(&mut self.cancelled) {
            self.say(step);
        }
    }

    /// The latest outcome word of each stage, on this line, else on those around it.
    fn latest_words(&self) -> BTreeMap<String, String> {
        let own = self
            .outcomes
            .iter()
            .map(|(node, recorded)| (node.clone(), recorded.word.clone()));
        let mut words = self.around.clone();
        words.extend(own);
        words
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.context.insert(key.to_owned(), value.into());
    }
}

impl Rules<'_> {
    /// Follows a line from a node to its end.
    fn walk(&self, line: &mut Line, first: String) -> Stop {
        let mut at = first;
        loop {
            at = match self.pass(line, &at) {
                Ok(next) => next,
                Err(stop) => return stop,
            };
        }
    }

    /// Goes to a node, does its work, and gives the node that comes next.
    fn pass(&self, line: &mut Line, at: &str) -> Result<String, Stop> {
        let part = self.graph.part(at);
        for (fan_out, join) in &line.inside {
            if at == join {
                return Err(Stop::Joined);
            }
            if at == fan_out {
                let from = attribute_text(&line.context, "current_node");
                let to = at.to_owned();
                return Err(Stop::Failed(End::Reentry { from, to }));
            }
        }
        if part == Part::Exit {
            if !line.inside.is_empty() {
                return Err(Stop::End);
            }
            if let Some(target) = self.goal_gates(line, at)? {
                return Ok(target);
            }
        }
        self.visit(line, at)?;
        line.set("current_node", at);
        match part {
            Part::Work => self.work(line, at)?,
            Part::Start | Part::Exit | Part::Routing => {
                let name = self.name(line, at, 1);
                line.say(Step::Start(name.clone()));
                line.path.push(at.to_owned());
                if part != Part::Routing {
                    line.learn(at, "success", "", &[], "");
                    let recorded = Recorded {
                        word: "success".to_owned(),
                        notes: String::new(),
                        record: line.record(at),
                    };
                    line.outcomes.insert(at.to_owned(), recorded);
                }
                line.say(Step::Outcome {
                    name,
                    word: "success".to_owned(),
                    reason: String::new(),
                    again: false,
                });
            }
        }
        if part == Part::Exit {
            return Err(Stop::End);
        }
        self.choose(line, at)
    }

    /// Rule R10: a bound on visits.
    fn visit(&self, line: &mut Line, at: &str) -> Result<(), Stop> {
        let own = number(self.graph.attributes_of(at), "max_visits");
        let common = number(&self.graph.attributes, "max_node_visits").unwrap_or(1000);
        let (limit, attribute) = match own {
            Some(limit) => (limit, "max_visits"),
            None => (common, "max_node_visits"),
        };
        if line.visits.get(at).copied().unwrap_or(0) >= limit {
            return Err(Stop::Abort(End::MaxVisits {
                node: at.to_owned(),
                limit,
                attribute: attribute.to_owned(),
            }));
        }
        count(&mut line.visits, at.to_owned(), 1);
        count(&mut line.own_visits, at.to_owned(), 1);
        Ok(())
    }

    /// The outcome with which a node is an unsatisfied goal gate, at this end of the run.
    ///
    /// Where the gate is a condition, that must hold: of the node's own latest outcome, and on the exit of the stage
    /// that ran last.
    fn unsatisfied(&self, line: &Line, id: &str, from: &str) -> Option<Recorded> {
        let gate = attribute(self.graph.attributes_of(id), "goal_gate");
        let failed = |word: &str| ["fail", "retry"].contains(&word);
        if ["", "false"].contains(&gate) {
            return None;
        }
        if self.graph.part(id) == Part::Exit {
            let open = gate != "true" && from == id && !conditions::holds(gate, &self.seen(line, id));
            return open.then(|| Recorded {
                word: line.last.word.clone(),
                notes: line.last.reason.clone(),
                record: String::new(),
            });
        }
        let recorded = line.outcomes.get(id)?.clone();
        let satisfied = if gate == "true" {
            !failed(&recorded.word)
        } else {
            let mut seen = self.seen(line, id);
            seen.outcome = recorded.word.clone();
            seen.preferred_label = String::new();
            seen.failure_reason = if failed(&recorded.word) {
                recorded.notes.clone()
            } else {
                String::new()
            };
            conditions::holds(gate, &seen)
        };
        (!satisfied).then_some(recorded)
    }

    /// Rule R7: where the first unsatisfied gate sends a run that is about to end well.
    fn goal_gates(&self, line: &mut Line, from: &str) -> Result<Option<String>, Stop> {
        let mut unsatisfied = None;
        for node in &self.graph.nodes {
            if let Some(recorded) = self.unsatisfied(line, &node.id, from) {
                unsatisfied = Some((node, recorded));
                break;
            }
        }
        let Some((gate, outcome)) = unsatisfied else {
            return Ok(None);
        };
        let names = ["retry_target", "fallback_retry_target"];
        let own = names.map(|name| attribute(&gate.attributes, name));
        let common = names.map(|name| attribute(&self.graph.attributes, name));
        let target = own
            .into_iter()
            .chain(common)
            .find(|id| self.graph.node(id).is_some());
        let limit = number(&self.graph.attributes, "max_goal_gate_reroutes").unwrap_or(50);
        let Some(target) = target.filter(|_| line.reroutes < limit) else {
            return Err(Stop::Abort(End::GoalGate {
                node: gate.id.clone(),
                outcome: outcome.word,
                reason: outcome.notes,
                limit: target.map(|_| limit),
            }));
        };
        line.reroutes += 1;
        line.say(Step::Reroute {
            gate: gate.id.clone(),
            target: target.to_owned(),
            count: line.reroutes,
        });
        line.say(Step::Choice {
            branch: String::new(),
            from: from.to_owned(),
            way: Way::Jump(target.to_owned()),
            rule: "goal_gate".to_owned(),
            tested: Vec::new(),
        });
        Ok(Some(target.to_owned()))
    }

    /// The name of an attempt at the node at which a line is.
    fn name(&self, line: &Line, at: &str, attempt: u32) -> String {
        let mut name = String::new();
        if self.restart > 0 {
            name = format!("restart-{}/", self.restart);
        }
        if !line.branch.is_empty() {
            name = format!("{name}{}/", line.branch);
        }
        format!("{name}{at}#{}/{attempt}", line.visits[at])
    }

    fn call(&self, line: &Line, at: &str, attempt: u32) -> Call {
        Call {
            visit: line.visits[at],
            attempt,
            restart: self.restart,
            positions: line.positions,
        }
    }

    /// Lets time go by until something has ended.
    fn wait(&self, line: &mut Line, kind: &str, name: &str) -> Result<(), Stop> {
        let end = line.now + self.script.duration(kind, name);
        if end > line.until {
            line.now = line.until;
            line.cancelled.push(Step::Cancelled(name.to_owned()));
            return Err(Stop::Cut);
        }
        line.now = end;
        Ok(())
    }
}

impl Line {
    /// Remembers how a stage ended.
    fn learn(&mut self, stage: &str, word: &str, label: &str, suggested: &[String], reason: &str) {
        self.last = Last {
            stage: stage.to_owned(),
            word: word.to_owned(),
            preferred_label: label.to_owned(),
            suggested: suggested.to_vec(),
            reason: reason.to_owned(),
            output: Values::new(),
        };
        for (key, text) in [
            ("outcome", word),
            ("preferred_label", label),
            ("last_stage", stage),
        ] {
            self.set(key, text);
        }
    }
}

fn attribute_text(context: &Values, key: &str) -> String {
    let text = context.get(key).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}
