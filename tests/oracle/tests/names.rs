//! Renaming a random node of a random pipeline: the new text has the same diagnostics and the same table but for the name,
//! its runs are the same, and renaming back gives the old text.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use orchestra_graph::{
    LoadOptions, Loaded, Renaming, Source, Symbol, label_text, load, normalize_label, occurrences, render,
};
use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{Reaction, Script, Trace, case_count, cases, description, seed, trace_of};

fn loaded(text: &str) -> Loaded {
    load(Source::new("names.dot", text), &LoadOptions::default())
}

/// Compares two texts line by line.
fn assert_same(left: &str, right: &str, about: &str) {
    let differing = left
        .lines()
        .zip(right.lines())
        .find(|(left, right)| left != right);
    assert!(left == right, "{differing:#?}\n{about}");
}

/// Renames a node in a text.
fn renamed(text: &str, old: &str, new: &str) -> String {
    let before = loaded(text);
    match Renaming::new(&before, &Symbol::Node(old.to_owned()), new) {
        Ok(renaming) => renaming.apply(text),
        Err(error) => panic!("{old} -> {new}: {error}\n{text}"),
    }
}

/// Adds uses of nodes that the generator does not know: in assertions, stylesheets, values of commands, conditions about
/// nodes, defaults of gates and quoted ids, many of them in strings with escapes.
fn with_more_names(random: &mut Random, graph: &mut description::Graph) {
    let ids: Vec<String> = graph.nodes.iter().map(|node| node.id.clone()).collect();
    let id = |random: &mut Random| random.pick(&ids).clone();
    if random.chance(60) {
        let quote = *random.pick(&["", "'", "\""]);
        let (target, stage, since, other) = (id(random), id(random), id(random), id(random));
        let result = *random.pick(&["", "=success", "=fail"]);
        let result = match result.strip_prefix('=') {
            Some(word) => format!(" = {quote}{word}{quote}"),
            None => String::new(),
        };
        let assertion = format!(
            "requires({target},\n\t{stage}{result}, since={since} ); handled( {other} );at_most({stage}, 7)"
        );
        graph.attributes.insert("assert".to_owned(), assertion);
    }
    if random.chance(40) {
        let style = format!(
            "#{} {{ model: \"small\"; }}\n .x {{ provider: a }} #{}{{llm_model: 'b'}}",
            id(random),
            id(random)
        );
        graph.attributes.insert("model_stylesheet".to_owned(), style);
    }
    for known in ["retry_target", "fallback_retry_target"] {
        if random.chance(20) {
            let blank = *random.pick(&["", " "]);
            graph
                .attributes
                .insert(known.to_owned(), format!("{blank}{}{blank}", id(random)));
        }
    }
    if random.chance(40) {
        let value = format!("stages.{}.{}", id(random), random.pick(&["output", "response"]));
        graph.attributes.insert("tool_env_from.VALUE".to_owned(), value);
    }
    let targets: BTreeMap<String, String> = graph
        .edges
        .iter()
        .map(|edge| (edge.from.clone(), edge.to.clone()))
        .collect();
    for node in &mut graph.nodes {
        let shape = node.attributes.get("shape").cloned().unwrap_or_default();
        if shape == "parallelogram" && random.chance(60) {
            let value = format!(" stages.{}.output", id(random));
            node.attributes.insert("tool_stdin".to_owned(), value);
        }
        if shape == "hexagon"
            && random.chance(50)
            && let Some(to) = targets.get(&node.id)
        {
            node.attributes
                .insert("human.default_choice".to_owned(), to.clone());
        }
    }
    for edge in &mut graph.edges {
        if let Some(condition) = edge.attributes.get_mut("condition")
            && random.chance(20)
        {
            let clause = match random.below(4) {
                0 => format!("last_stage={}", id(random)),
                1 => format!("current_node != \"{}\"", id(random)),
                2 => format!("context.parallel.branch.{}.status=success", id(random)),
                _ => format!("parallel.fan_in.best_id='{}'", id(random)),
            };
            *condition = format!("({condition}) || {clause}");
        }
    }
}

/// Quotes some ids of statements.
fn with_quotes(random: &mut Random, text: &str, id: &str) -> String {
    let mut quoted = String::new();
    for line in text.lines() {
        let indented = line.strip_prefix("    ").unwrap_or_default();
        let is_of_node = indented
            .strip_prefix(id)
            .is_some_and(|rest| rest.starts_with([' ', ';', '[']) || rest.is_empty());
        let line = if is_of_node && random.chance(30) {
            line.replacen(id, &format!("\"{id}\""), 1)
        } else {
            line.to_owned()
        };
        let _ = writeln!(quoted, "{line}");
    }
    quoted
}

/// Returns an id that a text does not contain, with the length and the order of an old one among all.
fn like(old: &str, ids: &[&str], text: &str) -> Option<String> {
    let letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    let (stem, _) = old.split_at(old.len() - 1);
    let mut candidates = letters.chars().map(|letter| format!("{stem}{letter}"));
    candidates.find(|new| {
        let fits = |other: &str| {
            let same_order = (old < other) == (new.as_str() < other);
            other == old || same_order && other.to_lowercase() != new.to_lowercase()
        };
        !text.contains(new.as_str())
            && ids.iter().all(|id| fits(id))
            && new.to_lowercase() != old.to_lowercase()
    })
}

/// Renames the nodes of a script.
fn script_with(script: &Script, old: &str, new: &str) -> Script {
    let name = |id: &String| if id == old { new.to_owned() } else { id.clone() };
    let mut changed = script.clone();
    changed.outcomes = script
        .outcomes
        .iter()
        .map(|(id, list)| (name(id), list.clone()))
        .collect();
    changed.reactions = script
        .reactions
        .iter()
        .map(|(id, list)| (name(id), list.clone()))
        .collect();
    for outcome in changed.outcomes.values_mut().flatten() {
        for suggested in &mut outcome.suggested {
            *suggested = name(suggested);
        }
    }
    for reaction in changed.reactions.values_mut().flatten() {
        if let Reaction::Answer(answer) = reaction {
            *answer = name(answer);
        }
    }
    changed
}

#[test]
fn a_renamed_node_changes_nothing_else() {
    let (mut compared, mut run, mut errors) = (0, 0, 0);
    for case in cases(seed(40), case_count(1_000)) {
        let mut random = Random::new(case.seed ^ 0x6e61);
        let mut graph = case.graph.clone();
        with_more_names(&mut random, &mut graph);
        let mut text = graph.dot_in_style(&mut random);
        let before = loaded(&text);
        let ids: Vec<&str> = before.graph.nodes.iter().map(|node| &*node.id).collect();
        let inner: Vec<&str> = ids
            .iter()
            .copied()
            .filter(|id| !matches!(*id, "start" | "Start" | "exit" | "end" | "nowhere"))
            .collect();
        if inner.is_empty() {
            continue;
        }
        let old = *random.pick(&inner);
        text = with_quotes(&mut random, &text, old);
        let before = loaded(&text);
        let table = before.pipeline().map(|pipeline| pipeline.canonical());
        let seen = format!(
            "{text}{}{}",
            render::concise(&before.report),
            table.unwrap_or_default()
        );
        let Some(new) = like(old, &ids, &seen) else {
            continue;
        };
        let changed = renamed(&text, old, &new);
        let after = loaded(&changed);
        let about = format!("{old} -> {new}, seed {}\n{text}\n{changed}", case.seed);
        // Labels and goals of the generator contain the first two words, and its conditions compare values with any.
        let is_value = |condition: &str| {
            let names = [format!("visits.{old}"), format!("stages.{old}.outcome")];
            let rest = names
                .iter()
                .fold(condition.to_owned(), |text, name| text.replace(name, ""));
            rest.contains(old)
        };
        let edges = case.graph.edges.iter().map(|edge| &edge.attributes);
        let attributes = edges.chain(case.graph.nodes.iter().map(|node| &node.attributes));
        let mut conditions = attributes.flat_map(|all| ["condition", "goal_gate"].map(|key| all.get(key)));
        let has_value = conditions.any(|condition| condition.is_some_and(|condition| is_value(condition)));
        if !matches!(old, "Mend" | "ship") && !has_value {
            let mut words = changed.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            assert!(words.all(|word| word != old), "{about}");
        }
        let shown = render::concise(&after.report).replace(&new, old);
        assert_same(&shown, &render::concise(&before.report), &about);
        assert_eq!(renamed(&changed, &new, old), text, "seed {}", case.seed);
        compared += 1;
        let (Some(first), Some(second)) = (before.pipeline(), after.pipeline()) else {
            errors += 1;
            continue;
        };
        assert_same(&second.canonical().replace(&new, old), &first.canonical(), &about);
        for script in case.scripts.iter().take(2) {
            let trace = trace_of(first.clone(), script);
            let again = trace_of(second.clone(), &script_with(script, old, &new));
            let story =
                |trace: &Trace| format!("{:#?}", (&trace.path, &trace.visits, &trace.end, &trace.taken));
            // How long a branch takes, and so which one ends first, depends on its name.
            if case.graph.joins.is_empty() {
                assert_same(&story(&again).replace(&new, old), &story(&trace), &about);
            }
            run += 1;
        }
    }
    println!("{compared} pipelines, {errors} with errors, {run} runs");
    if case_count(1_000) >= 1_000 {
        assert!(
            compared > 700 && run > 400 && errors > 20,
            "{compared} {run} {errors}"
        );
    }
}

/// Renames a label in a script: of one node, or of all of them.
fn script_with_label(script: &Script, node: Option<&str>, old: &str, new: &str) -> Script {
    let renamed = |id: &str, written: &mut String| {
        let is_old = normalize_label(written) == normalize_label(old);
        if is_old && node.is_none_or(|node| node == id) && !written.is_empty() {
            let text = label_text(written).to_owned();
            *written = written.replace(&text, new);
        }
    };
    let mut changed = script.clone();
    for (id, list) in &mut changed.outcomes {
        list.iter_mut()
            .for_each(|outcome| renamed(id, &mut outcome.preferred_label));
    }
    for (id, list) in &mut changed.reactions {
        for reaction in list {
            if let Reaction::Answer(answer) = reaction {
                renamed(id, answer);
            }
        }
    }
    changed
}

/// Adds defaults of gates and assertions that name answers by their labels.
fn with_answers(random: &mut Random, graph: &mut description::Graph) {
    let edges: Vec<(String, String)> = graph
        .edges
        .iter()
        .filter_map(|edge| Some((edge.from.clone(), edge.attributes.get("label")?.clone())))
        .collect();
    let mut assertions = Vec::new();
    for node in &mut graph.nodes {
        let is_gate = node
            .attributes
            .get("shape")
            .is_some_and(|shape| shape == "hexagon");
        let mut own = edges.iter().filter(|(from, _)| *from == node.id);
        if let Some((_, label)) = own.next().filter(|_| is_gate) {
            if random.chance(50) {
                node.attributes
                    .insert("human.default_choice".to_owned(), label.clone());
            }
            if random.chance(50) {
                assertions.push(format!("requires(exit, {}='{}')", node.id, label_text(label)));
            }
        }
    }
    if !assertions.is_empty() {
        graph
            .attributes
            .insert("assert".to_owned(), assertions.join("; "));
    }
}

#[test]
fn a_renamed_label_changes_nothing_else() {
    let (mut compared, mut run, mut refused, mut of_one_node) = (0, 0, 0, 0);
    for case in cases(seed(42), case_count(1_000)) {
        let mut random = Random::new(case.seed ^ 0x6e63);
        let mut graph = case.graph.clone();
        with_answers(&mut random, &mut graph);
        let text = graph.dot_in_style(&mut random);
        let before = loaded(&text);
        let found = occurrences(&before);
        let labels: Vec<&Symbol> = found
            .iter()
            .map(|found| &found.symbol)
            .filter(|symbol| matches!(symbol, Symbol::Label { .. }))
            .collect();
        if labels.is_empty() {
            continue;
        }
        let symbol = (*random.pick(&labels)).clone();
        let Symbol::Label { node, label: old } = &symbol else {
            continue;
        };
        let first: String = old.chars().take(1).collect();
        let new = if random.chance(50) {
            format!("{first}zq_x")
        } else {
            format!("{first}zq x")
        };
        let renaming = match Renaming::new(&before, &symbol, &new) {
            Ok(renaming) => renaming,
            Err(_) => {
                refused += 1;
                continue;
            }
        };
        let changed = renaming.apply(&text);
        let after = loaded(&changed);
        let about = format!(
            "{symbol} of {node:?} -> {new}, seed {}\n{text}\n{changed}",
            case.seed
        );
        let codes = |loaded: &Loaded| -> Vec<&'static str> {
            let mut codes: Vec<_> = loaded.report.diagnostics.iter().map(|found| found.code).collect();
            codes.sort_unstable();
            codes
        };
        assert_eq!(
            codes(&after),
            codes(&before),
            "{about}\n{}",
            render::concise(&after.report)
        );
        let renamed = Symbol::Label {
            node: node.clone(),
            label: new.clone(),
        };
        let count = |loaded: &Loaded, symbol: &Symbol| {
            let found = occurrences(loaded).into_iter();
            found.filter(|found| found.symbol == *symbol).count()
        };
        assert_eq!(count(&after, &renamed), count(&before, &symbol), "{about}");
        // A literal that gets quotes keeps them, and a label in another case is written as the first one.
        let spellings = found.iter().filter(|found| found.symbol == symbol);
        let mut spellings = spellings.map(|found| before.source.slice(found.span));
        if !new.contains(' ') && spellings.all(|written| written == old) {
            let back = Renaming::new(&after, &renamed, old);
            let back = back.unwrap_or_else(|error| panic!("{error}\n{about}"));
            assert_eq!(back.apply(&changed), text, "{about}");
        }
        compared += 1;
        of_one_node += usize::from(node.is_some());
        let (Some(first), Some(second)) = (before.pipeline(), after.pipeline()) else {
            continue;
        };
        for script in case.scripts.iter().take(3) {
            let trace = trace_of(first.clone(), script);
            let changed = script_with_label(script, node.as_deref(), old, &new);
            let again = trace_of(second.clone(), &changed);
            let story = |trace: &Trace| format!("{:#?}", (&trace.path, &trace.visits, &trace.taken));
            assert_same(
                &story(&again),
                &story(&trace),
                &format!("{about}\n{script:#?}\n{changed:#?}"),
            );
            run += 1;
        }
    }
    println!("{compared} labels, {of_one_node} of one node, {refused} refused, {run} runs");
    if case_count(1_000) >= 1_000 {
        assert!(
            compared > 200 && of_one_node > 50 && run > 200,
            "{compared} {of_one_node} {refused} {run}"
        );
    }
}

/// Names that mean something elsewhere, or need quotes as the id of a node.
const ODD: &[&str] = &[
    "node",
    "graph",
    "edge",
    "subgraph",
    "Graph",
    "digraph",
    "strict",
    "true",
    "false",
    "and",
    "or",
    "not",
    "contains",
    "matches",
    "since",
    "requires",
    "handled",
    "total",
    "visits",
    "stages",
    "output",
    "outcome",
    "success",
    "context",
    "parallel",
    "retry_target",
    "label",
    "shape",
    "flag",
    "tries",
    "last_stage",
    "_",
    "x",
    "a_very_long_id_of_a_node",
];

#[test]
fn an_id_that_means_something_elsewhere_is_an_id_like_any_other() {
    let mut compared = 0;
    for case in cases(seed(41), case_count(1_000)) {
        let mut random = Random::new(case.seed ^ 0x6e62);
        let mut graph = case.graph.clone();
        with_more_names(&mut random, &mut graph);
        let text = graph.dot_in_style(&mut random);
        let before = loaded(&text);
        let ids: Vec<&str> = before.graph.nodes.iter().map(|node| &*node.id).collect();
        let old = *random.pick(&ids);
        let odd = *random.pick(ODD);
        if ids.iter().any(|id| id.to_lowercase() == odd.to_lowercase())
            || matches!(old, "start" | "Start" | "exit" | "end")
        {
            continue;
        }
        let fresh = "fresh_id_of_a_node";
        let changed = renamed(&text, old, odd);
        let at = format!("{old} -> {odd}, seed {}\n{text}\n{changed}", case.seed);
        // No use of the odd name is taken for the node, or the other way round.
        assert_eq!(renamed(&changed, odd, fresh), renamed(&text, old, fresh), "{at}");
        assert_eq!(renamed(&changed, odd, old), text, "{at}");
        let after = loaded(&changed);
        let syntax = |loaded: &Loaded| {
            let errors = loaded.report.errors();
            errors.filter(|error| error.code.contains("syntax")).count()
        };
        assert_eq!(
            syntax(&before),
            syntax(&after),
            "{at}\n{}",
            render::concise(&after.report)
        );
        compared += 1;
    }
    println!("{compared} pipelines");
    assert!(case_count(1_000) < 1_000 || compared > 700, "{compared}");
}
