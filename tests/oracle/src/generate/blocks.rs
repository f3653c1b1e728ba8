//! Graphs with parallel blocks, whose brackets are known because they are drawn here.

use super::attributes::{self, Mood};
use super::{IDS, chance, ends, gates};
use crate::description::{Attributes, Edge, Graph, Node};
use crate::random::Random;

/// A graph with at least one parallel block.
pub(super) fn graph(random: &mut Random) -> Graph {
    let mood = Mood {
        first_match: random.chance(15),
        gated: random.chance(25),
    };
    let [start, exit] = ends(random);
    let mut attributes = attributes::of_graph(random, mood);
    // A loop around a block with a loop takes the square of the bound, which is a million by default.
    attributes
        .entry("max_node_visits".to_owned())
        .or_insert_with(|| "9".to_owned());
    let mut drawing = Drawing {
        graph: Graph {
            attributes,
            ..Graph::default()
        },
        ids: IDS.iter().map(|id| (*id).to_owned()).collect(),
        random,
        mood,
        exit: exit.id.clone(),
        free: true,
        in_fan_in: false,
        may_share: false,
    };
    let more = IDS
        .iter()
        .flat_map(|id| (2..6).map(move |nth| format!("{id}_{nth}")));
    drawing.ids.extend(more);
    let first = drawing.segment(&exit.id, 0, &[]);
    drawing.edge(&start.id, &first, true);
    drawing.goes_on();
    let Drawing { mut graph, .. } = drawing;
    graph.nodes.extend([start, exit]);
    for at in (1..graph.edges.len()).rev() {
        graph.edges.swap(at, random.below(at + 1));
    }
    let names: Vec<String> = graph.nodes.iter().map(|node| node.id.clone()).collect();
    attributes::targets(random, mood, &mut graph, &names);
    gates::choices(random, &mut graph);
    graph
}

/// A graph while it is drawn.
struct Drawing<'r> {
    random: &'r mut Random,
    graph: Graph,
    ids: Vec<String>,
    mood: Mood,
    exit: String,
    /// Whether all blocks around end at a fan-in: then the way there need not be the only way on.
    free: bool,
    /// Whether any of the blocks around ends at a fan-in.
    in_fan_in: bool,
    /// Whether a block may end at the fan-in of the one around it.
    may_share: bool,
}

/// One thing after the other in a segment.
struct Unit {
    entry: String,
    /// Where it is left; `None` where its branches end at the end of the whole segment.
    last: Option<String>,
}

impl Drawing<'_> {
    fn node(&mut self, attributes: Attributes) -> String {
        let id = self.ids.remove(self.random.below(self.ids.len()));
        self.graph.nodes.push(Node {
            id: id.clone(),
            attributes,
        });
        id
    }

    fn edge(&mut self, from: &str, to: &str, free: bool) {
        let attributes = attributes::of_edge(self.random, self.mood, free);
        self.graph.edges.push(Edge {
            from: from.to_owned(),
            to: to.to_owned(),
            attributes,
        });
    }

    /// Stages and blocks one after the other, with loops, that lead to a node; gives the first.
    fn segment(&mut self, to: &str, depth: usize, around: &[String]) -> String {
        let count = match depth {
            0 => self.random.between(1, 3),
            // What is large enough grows no further.
            _ if self.graph.nodes.len() > 24 => 1,
            _ => [1, 1, 2, 3][self.random.below(4)],
        } as usize;
        let block = self.random.below(count);
        let mut units: Vec<Unit> = Vec::new();
        for at in 0..count {
            let known: Vec<String> = units.iter().map(|unit| unit.entry.clone()).collect();
            let targets = if self.free {
                [around, &known].concat()
            } else {
                known
            };
            let is_block = match depth {
                0 => at == block || self.random.chance(15),
                1 => self.graph.nodes.len() < 24 && self.random.chance(28),
                2 => self.graph.nodes.len() < 16 && self.random.chance(20),
                _ => false,
            };
            let unit = if is_block {
                self.block(to, depth, at + 1 == count, &targets)
            } else {
                let mut own = attributes::of_node(self.random, self.mood, &targets);
                attributes::kind(self.random, &mut own);
                let id = self.node(own);
                Unit {
                    entry: id.clone(),
                    last: Some(id),
                }
            };
            units.push(unit);
        }
        for at in 0..count {
            let Some(last) = units[at].last.clone() else {
                continue;
            };
            let next = units.get(at + 1).map_or(to, |unit| &unit.entry).to_owned();
            let plain = self.random.chance(75);
            self.edge(&last, &next, plain);
            self.goes_on();
            let mut others: Vec<String> = units.iter().map(|unit| unit.entry.clone()).collect();
            others.push(to.to_owned());
            if self.free && self.random.chance(25) {
                others.push(self.exit.clone());
                others.extend(around.iter().cloned());
            }
            let more = [0, 1, 2][self.random.weighted(&[50, 35, 15])];
            for _ in 0..more {
                let other = self.random.pick(&others).clone();
                self.edge(&last, &other, false);
            }
            if self.free && self.random.chance(12) {
                let mut own = Attributes::new();
                chance(self.random, 70, &mut own, "end", |random| {
                    random.pick(&["fail", "success", "success"]).to_string()
                });
                let leaf = self.node(own);
                self.edge(&last, &leaf, false);
            }
        }
        units[0].entry.clone()
    }

    /// A fan-out with its branches and their join.
    fn block(&mut self, to: &str, depth: usize, is_last: bool, targets: &[String]) -> Unit {
        let mut own = attributes::of_node(self.random, self.mood, targets);
        // A whole block takes long.
        own.remove("retry_policy");
        own.remove("backoff_policy");
        if self.random.chance(85) {
            own.insert("shape".to_owned(), "component".to_owned())
        } else {
            own.insert("type".to_owned(), "parallel".to_owned())
        };
        let fan_out = self.node(own);
        let shared = self.may_share && is_last && self.is_fan_in(to) && self.random.chance(40);
        let outer = self.free;
        let join = if shared { to.to_owned() } else { self.join(targets) };
        let in_fan_in = self.in_fan_in;
        self.free = outer && self.is_fan_in(&join);
        self.in_fan_in |= self.is_fan_in(&join);
        self.graph.joins.insert(fan_out.clone(), join.clone());
        let around = [targets, std::slice::from_ref(&fan_out)].concat();
        let mut firsts: Vec<String> = Vec::new();
        // Without a fan-in of its own the join is where ways first meet, so that there must be two.
        let least = if self.is_fan_in(&join) && !shared && self.random.chance(40) {
            1
        } else {
            2
        };
        // With a fan-in further out it would be open which of the two is shared.
        let may_share = std::mem::replace(&mut self.may_share, least == 2 && !in_fan_in);
        // One branch for each item of a list, which must end at a fan-in of its own (rule P7).
        if self.is_fan_in(&join) && !shared && self.random.chance(25) {
            let first = self.segment(&join, depth + 1, &around);
            self.branch(&fan_out, &first, true);
            let most = self.random.between(1, 3);
            self.list(&fan_out, most);
            self.policies(&fan_out, most);
            self.free = outer;
            self.in_fan_in = in_fan_in;
            self.may_share = may_share;
            return Unit {
                entry: fan_out,
                last: Some(join),
            };
        }
        let count = self.random.between(least, 4);
        for at in 0..count {
            let first = match self.random.weighted(&[82, 9, 9]) {
                1 if at >= least || !firsts.contains(&join) => join.clone(),
                2 if at >= least => self.random.pick(&firsts).clone(),
                _ => self.segment(&join, depth + 1, &around),
            };
            let always = self.random.chance(70);
            self.branch(&fan_out, &first, always);
            firsts.push(first);
        }
        self.policies(&fan_out, count);
        self.free = outer;
        self.in_fan_in = in_fan_in;
        self.may_share = may_share;
        Unit {
            entry: fan_out,
            last: (!shared).then_some(join),
        }
    }

    /// An edge that begins a branch.
    fn branch(&mut self, fan_out: &str, first: &str, always: bool) {
        self.edge(fan_out, first, always);
        self.goes_on();
    }

    /// The only branch of a fan-out, whose edge was drawn last, runs for each item of a list.
    fn list(&mut self, fan_out: &str, most: i64) {
        let node = self.graph.nodes.iter_mut().find(|node| node.id == fan_out);
        let own = &mut node.unwrap().attributes;
        own.insert("foreach".to_owned(), super::LIST.to_owned());
        own.insert("foreach_max".to_owned(), most.to_string());
        let edge = self.graph.edges.iter_mut().find(|edge| edge.from == fan_out);
        let own = &mut edge.unwrap().attributes;
        own.retain(|key, _| !key.starts_with("condition"));
    }

    /// The edge drawn last does not restart the run; who only restarts never comes to a join.
    fn goes_on(&mut self) {
        if let Some(edge) = self.graph.edges.last_mut() {
            edge.attributes.remove("loop_restart");
        }
    }

    /// When a block is satisfied, and what a failure does to it (rule P4).
    fn policies(&mut self, fan_out: &str, branches: i64) {
        let node = self.graph.nodes.iter_mut().find(|node| node.id == fan_out);
        let own = &mut node.unwrap().attributes;
        let mut set = |key: &str, value: &str| own.insert(key.to_owned(), value.to_owned());
        match self.random.weighted(&[40, 20, 20, 20]) {
            0 => {
                if self.random.chance(30) {
                    set("join_policy", "wait_all");
                }
            }
            1 => {
                set("join_policy", "k_of_n");
                set("join_k", &self.random.between(1, branches).to_string());
            }
            2 => {
                set("join_policy", "first_success");
            }
            _ => {
                set("join_policy", "quorum");
                let fraction = self.random.pick(&["0.01", "0.5", "0.34", "0.75", "1"]);
                set("join_quorum", fraction);
            }
        }
        match self.random.weighted(&[35, 15, 25, 25]) {
            0 => {}
            1 => {
                set("error_policy", "continue");
            }
            2 => {
                set("error_policy", "ignore");
            }
            _ => {
                set("error_policy", "fail_fast");
            }
        }
        if self.random.chance(60) {
            set("max_parallel", &self.random.between(1, 3).to_string());
        }
        if self.random.chance(7) {
            set("timeout", self.random.pick::<&str>(&["250ms", "2s", "1m"]));
        }
    }

    /// A node where branches come together. Within a block that ends at a fan-in only another fan-in comes first.
    fn join(&mut self, targets: &[String]) -> String {
        let mut own = attributes::of_node(self.random, self.mood, targets);
        let others = if self.in_fan_in { 0 } else { 20 };
        match self.random.weighted(&[50, 10, others, others]) {
            0 => {
                own.insert("shape".to_owned(), "tripleoctagon".to_owned());
            }
            1 => {
                own.insert("type".to_owned(), "parallel.fan_in".to_owned());
            }
            2 => {
                own.insert("shape".to_owned(), "diamond".to_owned());
            }
            _ => {}
        }
        self.node(own)
    }

    fn is_fan_in(&self, id: &str) -> bool {
        let node = self.graph.nodes.iter().find(|node| node.id == id);
        let of = |key: &str| node.and_then(|node| node.attributes.get(key)).map(String::as_str);
        match of("type") {
            Some(own) => own == "parallel.fan_in",
            None => of("shape") == Some("tripleoctagon"),
        }
    }
}
