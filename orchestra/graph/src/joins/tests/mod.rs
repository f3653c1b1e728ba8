//! Tests of joins: of hand-written graphs, of generated graphs, and of large graphs.

mod second_opinion;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Joins;
use crate::analysis::Analysis;
use crate::model::Graph;
use crate::{Attribute, Attributes, Edge, Key, Known, Origin, Source, Span, Value, kind};

/// Builds a graph from statements. `f` with a number is a fan-out, `j` with a number is a fan-in. Start and exit are
/// identified by their ids.
fn read(statements: &str) -> Graph {
    let mut graph = Graph::default();
    let position = Span::new(0, 0);
    let attribute = |known, value| Attribute {
        key: Key::Known(known),
        value,
        key_span: position,
        value_span: position,
        origin: Origin::Explicit,
    };
    let node = |graph: &mut Graph, id: &str| {
        let at = graph.add_node(id, position);
        let numbered = id.len() > 1 && id[1..].bytes().all(|byte| byte.is_ascii_digit());
        let shape = match id.as_bytes()[0] {
            b'f' if numbered => "component",
            b'j' if numbered => "tripleoctagon",
            _ => "box",
        };
        let shape = Value::String(shape.into());
        graph.nodes[at.at()]
            .attributes
            .set(attribute(Known::Shape, shape));
        at
    };
    for statement in statements.split([';', '\n']) {
        let (chain, restart) = statement
            .split_once(" [loop_restart]")
            .map_or((statement, false), |(chain, _)| (chain, true));
        let ids: Vec<&str> = chain
            .split("->")
            .map(str::trim)
            .filter(|id| !id.is_empty())
            .collect();
        for pair in ids.windows(2) {
            let (from, to) = (node(&mut graph, pair[0]), node(&mut graph, pair[1]));
            let mut attributes = Attributes::default();
            if restart {
                attributes.set(attribute(Known::LoopRestart, Value::Boolean(true)));
            }
            graph.edges.push(Edge {
                from,
                to,
                from_span: position,
                to_span: position,
                attributes,
            });
        }
    }
    graph
}

/// Returns the joins of a text as `f1=j1 f2=-`, in the order of the ids.
fn found(statements: &str) -> String {
    let graph = read(statements);
    let source = Source::new("a.dot", statements);
    let analysis = Analysis::new(&graph, &source);
    let joins = Joins::new(&analysis);
    let mut shown: Vec<String> = graph
        .indexed_nodes()
        .filter(|(at, _)| analysis.kind(*at) == kind::PARALLEL)
        .map(|(at, node)| {
            let join = joins.join(at).map_or("-", |join| &*graph.node(join).id);
            format!("{}={join}", node.id)
        })
        .collect();
    shown.sort_unstable();
    shown.join(" ")
}

#[track_caller]
fn joins(statements: &str, expected: &str) {
    assert_eq!(found(statements), expected, "{statements}");
}

#[test]
fn a_block_ends_at_its_fan_in() {
    joins(
        "start -> f1; f1 -> a -> j1; f1 -> b -> c -> j1; j1 -> exit",
        "f1=j1",
    );
    joins(
        "start -> f1; f1 -> a -> m -> j1; f1 -> b -> m; j1 -> exit",
        "f1=j1",
    );
    // An edge directly to the join, and a single branch.
    joins("start -> f1; f1 -> j1; f1 -> b -> j1 -> exit", "f1=j1");
    joins("start -> f1 -> a -> j1 -> exit", "f1=j1");
    // Branches may leave the block, and nodes in between may form cycles.
    joins(
        "start -> f1; f1 -> a -> j1; a -> exit; f1 -> b -> j1 -> exit; b -> b; b -> a",
        "f1=j1",
    );
    // A fan-in that only one branch reaches is not the join of the block.
    joins("start -> f1; f1 -> a -> j1 -> j2; f1 -> b -> j2 -> exit", "f1=j2");
    // The nearest fan-in for the farthest branch; among equals, the first in the file.
    joins(
        "start -> f1; f1 -> a; f1 -> b; a -> j2; a -> j1; b -> x -> j1; b -> x -> j2; j1 -> exit; j2 -> exit",
        "f1=j2",
    );
    joins(
        "start -> f1; f1 -> a; f1 -> b; a -> j1; b -> x -> y -> j1; a -> z -> j2; b -> j2; j1 -> exit; j2 -> exit",
        "f1=j2",
    );
    // In a loop, neither a fan-in of an earlier round nor one before the fan-out is the join.
    joins(
        "start -> j0 -> f1; f1 -> a -> j1; f1 -> b -> j1; j1 -> f1; j1 -> j0; j1 -> exit",
        "f1=j1",
    );
    joins(
        "start -> j0 -> f1; f1 -> a -> m; f1 -> b -> m; m -> j0; m -> exit",
        "f1=m",
    );
    // An edge that restarts the run does not lead to a join.
    joins(
        "start -> f1; f1 -> a; a -> j1 [loop_restart]; f1 -> b -> j1; a -> m; j1 -> m -> exit",
        "f1=m",
    );
    // A branch that can only restart the run is ignored. If all branches are such, they still have a join.
    joins(
        "start -> f1; f1 -> a -> j1; f1 -> b -> c; c -> start [loop_restart]; c -> dead; f1 -> d -> j1; j1 -> exit",
        "f1=j1",
    );
    joins(
        "start -> f1; f1 -> a -> b; b -> start [loop_restart]; f1 -> b; start -> exit",
        "f1=b",
    );
}

#[test]
fn without_a_fan_in_branches_meet_where_all_must_pass() {
    joins("start -> f1; f1 -> a -> m; f1 -> b -> m; m -> exit", "f1=m");
    joins(
        "start -> f1; f1 -> a -> m; f1 -> b -> m; b -> exit; m -> exit",
        "f1=exit",
    );
    joins("start -> f1; f1 -> a -> b; f1 -> b; b -> exit", "f1=b");
    joins("start -> f1; f1 -> a -> exit; f1 -> exit", "f1=exit");
    // Branches that all begin with the same node run it.
    joins("start -> f1; f1 -> a; f1 -> a; a -> b -> exit", "f1=b");
    joins("start -> f1 -> a -> exit", "f1=exit");
    joins("start -> f1 -> exit", "f1=exit");
    joins("start -> f1 -> a; start -> exit", "f1=a");
    // A dead end beside the path is ignored, but a branch that can only reach a dead end is not.
    joins(
        "start -> f1; f1 -> a -> m; a -> dead; f1 -> b -> m; m -> exit",
        "f1=m",
    );
    joins("start -> f1; f1 -> a -> m; f1 -> dead; m -> exit", "f1=-");
    joins(
        "start -> f1; f1 -> a -> m -> x; f1 -> b -> m; start -> exit",
        "f1=m",
    );
    joins("start -> f1; f1 -> a; f1 -> b; start -> exit", "f1=-");
    // A loop whose head is before the fan-out.
    joins(
        "start -> head -> f1; f1 -> a -> head; f1 -> b -> head -> exit",
        "f1=head",
    );
    // A branch that only leads back to its fan-out reaches no join.
    joins("start -> f1; f1 -> a -> f1; f1 -> b -> exit", "f1=-");
    joins("start -> f1 -> f1; f1 -> b -> exit", "f1=-");
    joins("start -> f1; f1 -> a -> f1; a -> m; f1 -> b -> m -> exit", "f1=m");
    joins("start -> f1; start -> exit", "f1=-");
}

#[test]
fn pairs_nest_like_brackets() {
    joins(
        "start -> f1; f1 -> a -> j1; f1 -> f2; f2 -> b -> j2; f2 -> c -> j2; j2 -> j1 -> exit",
        "f1=j1 f2=j2",
    );
    joins(
        "start -> f1; f1 -> f2; f1 -> f3; f2 -> a -> j2; f2 -> b -> j2; f3 -> c -> j3; f3 -> d -> j3; j2 -> m; j3 -> m -> exit",
        "f1=m f2=j2 f3=j3",
    );
    // An inner fan-in that both inner blocks share is not the join of the outer block.
    joins(
        "start -> f1; f1 -> f2; f1 -> f3; f2 -> a -> j2; f2 -> b -> j2; f3 -> c -> j2; f3 -> d -> j2; j2 -> j1 -> exit",
        "f1=j1 f2=j2 f3=j2",
    );
    // One fan-in closes two blocks if there is no other.
    joins(
        "start -> f1; f1 -> a -> j1; f1 -> f2; f2 -> b -> j1; f2 -> c -> j1; j1 -> exit",
        "f1=j1 f2=j1",
    );
    joins(
        "start -> f1; f1 -> a -> j1; a -> exit; f1 -> f2; f2 -> b -> j1; f2 -> c -> j1; c -> exit; j1 -> exit",
        "f1=j1 f2=j1",
    );
    // If the inner branches meet earlier, the fan-in is the join of the outer block only.
    joins(
        "start -> f1; f1 -> a -> j1; f1 -> f2; f2 -> b -> m; f2 -> c -> m; m -> d -> j1; j1 -> exit",
        "f1=j1 f2=m",
    );
    joins(
        "start -> f1; f1 -> x; x -> y -> j1; x -> f2; f2 -> b -> m; f2 -> m; m -> j1 -> exit; f1 -> a -> j1",
        "f1=j1 f2=m",
    );
    joins(
        "start -> f1; f1 -> a -> j1; f1 -> f2; f2 -> f3; f2 -> b -> n; f3 -> c -> m; f3 -> d -> m; m -> n -> j1 -> exit",
        "f1=j1 f2=n f3=m",
    );
    joins(
        "start -> f1; f1 -> a -> m; f1 -> b -> m; m -> j1 -> exit",
        "f1=j1",
    );
    // A block after the join belongs to no branch.
    joins(
        "start -> f1; f1 -> a -> m; f1 -> b -> m; m -> f2; f2 -> c -> j2; f2 -> d -> j2; j2 -> exit",
        "f1=m f2=j2",
    );
    joins(
        "start -> f1; f1 -> a -> j1; f1 -> b -> j1; j1 -> f2; f2 -> c -> j2; f2 -> d -> j2; j2 -> f1; j2 -> exit",
        "f1=j1 f2=j2",
    );
    // A stage that leaves an inner block still ends the outer branch at the inner join.
    joins(
        "start -> f1; f1 -> f2; f2 -> a -> j2; a -> stop -> exit; f2 -> b -> j2; j2 -> m; f1 -> c -> m; m -> exit",
        "f1=m f2=j2",
    );
    // An inner block without a join is treated like ordinary paths.
    joins(
        "start -> f1; f1 -> a -> j1; f1 -> f2; f2 -> b -> j1; f2 -> dead; j1 -> exit",
        "f1=j1 f2=-",
    );
    // A branch that leads back to the outer block.
    joins(
        "start -> f1; f1 -> f2; f1 -> a -> j1; f2 -> b -> j2; f2 -> c -> j2; c -> f1; j2 -> j1 -> exit",
        "f1=j1 f2=j2",
    );
}

/// A pseudo-random number generator with a fixed seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

/// A pipeline of nested blocks, with the expected join of each block.
struct Nested {
    chance: Chance,
    text: String,
    nodes: usize,
    joins: BTreeMap<String, String>,
    /// The first letters of its joins: `j` for fan-ins, `m` for ordinary nodes.
    letters: &'static [char],
}

impl Nested {
    fn node(&mut self, letter: char) -> String {
        self.nodes += 1;
        format!("{letter}{}", self.nodes)
    }

    fn edge(&mut self, from: &str, to: &str) {
        self.text.push_str(&format!("{from} -> {to};\n"));
    }

    /// Adds a row of stages and blocks, from a node to the join of the enclosing block.
    fn row(&mut self, from: String, depth: usize, join: &str) {
        let mut last = from;
        for _ in 0..self.chance.below(4) {
            let next = self.node('n');
            self.edge(&last, &next);
            last = match self.chance.below(5) {
                0 | 1 if depth > 0 => {
                    // Sometimes one node closes a block and its enclosing block.
                    if self.chance.below(4) == 0 {
                        self.block(next, depth - 1, join.to_owned());
                        return;
                    }
                    let own = self.join();
                    self.block(next, depth - 1, own)
                }
                2 => {
                    // A loop, and a path that splits and merges again.
                    let (left, right, end) = (self.node('n'), self.node('n'), self.node('n'));
                    for (from, to) in [
                        (&next, &left),
                        (&next, &right),
                        (&left, &end),
                        (&right, &end),
                        (&end, &next),
                    ] {
                        self.edge(from, to);
                    }
                    end
                }
                _ => next,
            };
        }
        self.edge(&last, join);
    }

    /// Adds a join of one of the kinds at which blocks may end.
    fn join(&mut self) -> String {
        let letter = self.letters[self.chance.below(self.letters.len())];
        self.node(letter)
    }

    /// Adds a block after a node. Returns its join.
    fn block(&mut self, from: String, depth: usize, join: String) -> String {
        let fan_out = self.node('f');
        self.edge(&from, &fan_out);
        for branch in 0..2 + self.chance.below(2) {
            let first = self.node('n');
            self.edge(&fan_out, &first);
            self.row(first, depth, &join);
            if branch == 1 && self.chance.below(4) == 0 {
                self.edge(&fan_out, &join);
            }
        }
        self.joins.insert(fan_out, join.clone());
        join
    }
}

#[test]
fn nested_blocks_have_the_joins_that_they_were_made_with() {
    for seed in 1..1_000 {
        for letters in [&['j'][..], &['m'], &['j', 'm']] {
            let mut made = Nested {
                chance: Chance(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed)),
                text: String::new(),
                nodes: 0,
                joins: BTreeMap::new(),
                letters,
            };
            let join = made.join();
            let last = made.block("start".to_owned(), 4, join);
            made.edge(&last, "exit");
            let mut expected: Vec<String> = made
                .joins
                .iter()
                .map(|(fan_out, join)| format!("{fan_out}={join}"))
                .collect();
            expected.sort_unstable();
            joins(&made.text, &expected.join(" "));
        }
    }
}

/// Returns a graph with very many fan-outs.
fn large(name: &str, size: usize) -> String {
    let lines = |line: &dyn Fn(usize) -> String| -> String { (0..size).map(line).collect() };
    let block = |at: usize, join: &str| {
        (0..6)
            .map(|branch| format!("f{at} -> a{at}x{branch} -> {join}{at};"))
            .collect::<String>()
    };
    let body = match name {
        "chain" => lines(&|at| format!("{} j{at} -> f{};", block(at, "j"), at + 1)),
        "chain without fan-ins" => lines(&|at| format!("{} m{at} -> f{};", block(at, "m"), at + 1)),
        "chain without fan-ins before one" => {
            lines(&|at| format!("{} m{at} -> f{};", block(at, "m"), at + 1))
                + "f1 -> j0; a1x0 -> j0; j0 -> m1;"
        }
        "chain that leaves" => {
            lines(&|at| format!("{} a{at}x0 -> abort; m{at} -> f{};", block(at, "m"), at + 1))
                + "abort -> exit; f0 -> j0 -> a0x1;"
        }
        "chain in a loop" => lines(&|at| {
            format!(
                "{} a{at}x0 -> start; j{at} -> start; j{at} -> f{};",
                block(at, "j"),
                at + 1
            )
        }),
        "chain of dead branches" => {
            lines(&|at| format!("{} f{at} -> dead{at}; j{at} -> f{};", block(at, "j"), at + 1))
        }
        "nested" => {
            lines(&|at| {
                format!(
                    "f{at} -> a{at} -> j{at}; f{at} -> f{}; j{} -> j{at};",
                    at + 1,
                    at + 1
                )
            }) + &format!("f{size} -> b -> j{size}; f{size} -> c -> j{size}; j0 -> exit;")
        }
        "nested without fan-ins" => {
            lines(&|at| {
                format!(
                    "f{at} -> a{at} -> m{at}; f{at} -> f{}; m{} -> m{at};",
                    at + 1,
                    at + 1
                )
            }) + &format!("f{size} -> b -> m{size}; f{size} -> c -> m{size}; m0 -> exit;")
        }
        "nested before one fan-in" => {
            lines(&|at| {
                format!(
                    "f{at} -> a{at} -> m{at}; f{at} -> f{}; m{} -> m{at};",
                    at + 1,
                    at + 1
                )
            }) + &format!("f{size} -> b -> m{size}; f{size} -> c -> m{size}; m0 -> j0 -> exit;")
        }
        "nested in one fan-in" => {
            lines(&|at| format!("f{at} -> a{at} -> j0; f{at} -> f{};", at + 1))
                + &format!("f{size} -> j0 -> exit;")
        }
        "wide" => lines(&|at| format!("f0 -> a{at} -> b{at} -> j0;")) + "j0 -> exit;",
        "wide of blocks" => {
            let inner = |at: usize| format!("{} f0 -> f{at}; j{at} -> j0;", block(at, "j"));
            lines(&|at| inner(at + 1)) + "j0 -> exit;"
        }
        "one corridor" => {
            lines(&|at| {
                format!(
                    "start -> f{at}; f{at} -> c0; f{at} -> d{at} -> c0; c{at} -> c{};",
                    at + 1
                )
            }) + &format!("c{size} -> j0 -> exit;")
        }
        "many fan-ins" => {
            lines(&|at| {
                format!(
                    "f{at} -> a{at}; f{at} -> b{at}; a{at} -> j{at}; j{at} -> j{}; b{at} -> f{};",
                    at + 1,
                    at + 1
                )
            }) + &format!("j{size} -> exit;")
        }
        "tangle" => lines(&|at| {
            let far = |factor: usize| (at * factor + 7) % size;
            format!(
                "f{at} -> n{at}; n{at} -> f{}; f{at} -> j{}; j{} -> f{}; n{at} -> n{}; n{at} -> exit;",
                far(31),
                far(17),
                far(5),
                far(13),
                far(3)
            )
        }),
        _ => panic!("{name} is no shape"),
    };
    format!("start -> f0; f{size} -> exit; {body}")
}

#[test]
fn joins_are_found_in_time() {
    // Some graphs have full size. For the others a smaller size is enough to detect non-linear time.
    for (name, size, joined) in [
        ("chain", 10_000, 10_001),
        ("chain without fan-ins", 3_000, 3_001),
        ("chain without fan-ins before one", 3_000, 3_001),
        ("chain that leaves", 3_000, 3_001),
        ("chain in a loop", 3_000, 3_001),
        ("chain of dead branches", 1_000, 1),
        ("nested", 10_000, 10_001),
        ("nested without fan-ins", 10_000, 10_001),
        ("nested before one fan-in", 3_000, 3_001),
        ("nested in one fan-in", 10_000, 10_001),
        ("wide", 10_000, 2),
        ("wide of blocks", 3_000, 3_001),
        ("one corridor", 1_000, 1_001),
        ("many fan-ins", 3_000, 3_001),
        ("tangle", 10_000, 0),
    ] {
        let graph = read(&large(name, size));
        let source = Source::new("a.dot", "");
        let analysis = Analysis::new(&graph, &source);
        let begun = Instant::now();
        let joins = Joins::new(&analysis);
        let took = begun.elapsed();
        let found = joins.join.iter().flatten().count();
        println!("{name}: {} nodes, {found} joins in {took:?}", graph.nodes.len());
        assert!(found == joined || joined == 0, "{name}: {found} joins");
        // Tests run unoptimised and in parallel, so the limit only detects non-linear time.
        assert!(took < Duration::from_secs(20), "{name} took {took:?}");
    }
}
