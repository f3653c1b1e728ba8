//! A condition means the same as a closure and as a tree (rule C6): about two hundred conditions, through `pipeline!`
//! and through the evaluator, over many facts.

use std::collections::BTreeMap;

use orchestra_graph::condition::{Facts, StageRecords, parse_condition};
use orchestra_graph::table::Predicates;
use orchestra_graph::{LoadOptions, Source, load};
use serde_json::{Value, json};

orchestra::pipeline!(
    "conditions.dot",
    allow(
        contradictory_condition,
        shadowed_edge,
        non_exhaustive_conditions,
        unknown_outcome
    )
);
orchestra::pipeline!("stations.dot");

/// A small generator of numbers that are always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

const KEYS: &[&str] = &[
    "outcome",
    "preferred_label",
    "failure_reason",
    "last_stage",
    "current_node",
    "context.tries",
    "context.mode",
    "context.list",
    "context.empty",
    "context.flag",
    "context.nothing",
    "context.deep.key",
    "graph.goal",
    "human.gate.selected",
    "human.gate.label",
    "visits.many",
    "visits.n0",
    "stages.many.outcome",
];
const WORDS: &[&str] = &[
    "success",
    "fail",
    "3",
    "2.5",
    "-1",
    "dry",
    "true",
    "false",
    "a b",
    "x",
    "a",
    "0",
    "Größe",
    "v12",
    "[A] Success",
    "a) DRY",
    "x - true",
];
const PATTERNS: &[&str] = &["^v[0-9]+$", "a|b", "^$", "[0-9]", "(?i)SUCCESS", "e."];

/// A random condition; every operator occurs.
fn condition(numbers: &mut Numbers, depth: usize) -> String {
    let key = *numbers.one(KEYS);
    let word = format!("'{}'", numbers.one(WORDS));
    match numbers.below(if depth == 0 { 9 } else { 13 }) {
        0 => key.to_owned(),
        1 => format!("{key}={word}"),
        2 => format!("{key}!={word}"),
        3 => format!("{key}<{word}"),
        4 => format!("{key}<={word}"),
        5 => format!("{key}>{word}"),
        6 => format!("{key} >= {word}"),
        7 => format!("{key} contains {word}"),
        8 => format!("{key} matches '{}'", numbers.one(PATTERNS)),
        9 => format!("!({})", condition(numbers, depth - 1)),
        10 => format!(
            "({} && {})",
            condition(numbers, depth - 1),
            condition(numbers, depth - 1)
        ),
        11 => format!(
            "({} || {})",
            condition(numbers, depth - 1),
            condition(numbers, depth - 1)
        ),
        _ => format!(
            "{} && {} && !{}",
            condition(numbers, 0),
            condition(numbers, 0),
            condition(numbers, 0)
        ),
    }
}

/// The pipeline of this test: one edge for each condition.
fn text() -> String {
    let mut numbers = Numbers(7);
    let mut text = "// Made by the test `conditions`; `UPDATE=1` writes it anew.\ndigraph conditions {\n    start -> many -> exit\n    many [prompt=\"Many ways\"]\n".to_owned();
    for at in 0..200 {
        let condition = condition(&mut numbers, at % 4);
        text.push_str(&format!(
            "    many -> n{at} [condition=\"{condition}\"]; n{at} [prompt=\"{at}\"]; n{at} -> exit\n"
        ));
    }
    text.push_str("}\n");
    text
}

/// What a run may know of its stages.
struct Records {
    visits: u32,
    outcome: Option<String>,
}

impl StageRecords for Records {
    fn visits(&self, node: &str) -> u32 {
        if node == "many" { self.visits } else { 0 }
    }

    fn outcome(&self, _: &str) -> Option<&str> {
        self.outcome.as_deref()
    }
}

fn records(numbers: &mut Numbers) -> Records {
    Records {
        visits: numbers.below(5) as u32,
        outcome: (numbers.below(4) > 0).then(|| (*numbers.one(WORDS)).to_owned()),
    }
}

fn facts(numbers: &mut Numbers) -> (Vec<String>, BTreeMap<String, Value>, BTreeMap<String, Value>) {
    let own = (0..5).map(|_| (*numbers.one(WORDS)).to_owned()).collect();
    let values = [
        json!(3),
        json!(2.5),
        json!("3"),
        json!(true),
        json!(false),
        json!(""),
        json!(null),
        json!(["a", "x", 3]),
        json!("dry"),
        json!("a b"),
        json!({"k": 1}),
        json!(-1),
        json!("v12"),
        json!(0),
    ];
    let mut map = |keys: &[&str]| -> BTreeMap<String, Value> {
        let mut map = BTreeMap::new();
        for key in keys {
            if numbers.below(3) > 0 {
                map.insert((*key).to_owned(), numbers.one(&values).clone());
            }
        }
        map
    };
    let context = map(&[
        "tries",
        "mode",
        "context.mode",
        "list",
        "empty",
        "flag",
        "deep.key",
        "graph.goal",
        "human.gate.selected",
        "human.gate.label",
    ]);
    (own, context, map(&["ready", "count", "name"]))
}

#[test]
fn the_file_is_the_one_that_is_made() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("conditions.dot");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text()).expect("the file can be written");
    }
    assert_eq!(conditions::SOURCE, text());
}

#[test]
fn closures_and_trees_agree() {
    let mut numbers = Numbers(1);
    let tables: [(&orchestra::graph::Pipeline, &str); 2] = [
        (&conditions::PIPELINE, "conditions.dot"),
        (&stations::PIPELINE, "stations.dot"),
    ];
    let mut held = 0;
    for (compiled, file) in tables {
        let loaded = load(
            Source::new(file, compiled.source.to_string()),
            &LoadOptions::default(),
        )
        .pipeline()
        .expect("the file is sound");
        assert_eq!(compiled.texts, loaded.texts);
        assert_eq!(compiled.conditions, loaded.conditions);
        assert_eq!(compiled.keys, loaded.keys);
        assert!(matches!(
            (&compiled.predicates, &loaded.predicates),
            (Predicates::Functions(_), Predicates::Expressions(_))
        ));
        assert_eq!(compiled.edges, loaded.edges);
        assert_eq!(compiled.nodes, loaded.nodes);
        assert_eq!(compiled.attributes, loaded.attributes);
        assert_eq!(compiled.settings, loaded.settings);
        assert_eq!((compiled.start, compiled.exit), (loaded.start, loaded.exit));
        for _ in 0..500 {
            let (own, context, output) = facts(&mut numbers);
            let stages = records(&mut numbers);
            let facts = Facts {
                outcome: &own[0],
                preferred_label: &own[1],
                failure_reason: &own[2],
                last_stage: &own[3],
                current_node: &own[4],
                context: &context,
                output: &output,
                stages: &stages,
                ..Facts::default()
            };
            for (function, tree) in compiled.conditions().zip(loaded.conditions()) {
                let text = tree.text();
                assert_eq!(
                    function.holds(&facts),
                    tree.holds(&facts),
                    "{text} {context:?} {own:?}"
                );
                if let Ok(parsed) = parse_condition(text) {
                    assert_eq!(function.holds(&facts), parsed.holds(&facts), "{text}");
                }
                held += usize::from(function.holds(&facts));
            }
        }
    }
    assert!(held > 10_000, "nearly nothing ever held: {held}");
}
