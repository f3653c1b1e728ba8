//! The occurrences of names, and renaming.

use orchestra_graph::{
    LoadOptions, Loaded, OccurrenceRole, Renaming, Source, Symbol, load, load_bytes, occurrences,
};

use crate::corpus::corpus;

fn loaded(text: &str) -> Loaded {
    load(Source::new("flows/a.dot", text), &LoadOptions::default())
}

/// Returns the occurrences of a text as `symbol`, with `!` for declarations, without nodes in statements.
fn shown(text: &str) -> Vec<String> {
    let loaded = loaded(text);
    let found = occurrences(&loaded).into_iter();
    found
        .map(|found| {
            let mark = match found.role {
                OccurrenceRole::Declaration => "!",
                OccurrenceRole::Reference => "",
            };
            let written = loaded.source.slice(found.span);
            let line = loaded.source.position(found.span.start).line;
            let written = if written == found.symbol.name() {
                String::new()
            } else {
                format!(" as {written}")
            };
            format!("{line} {}{mark}{written}", found.symbol)
        })
        .collect()
}

#[test]
fn names_are_found_in_every_attribute_that_has_them() {
    let text = r##"digraph {
graph [retry_target=" a ", fallback_retry_target=a, restart_keep="k , l"]
graph [assert="requires(a, g='b'); requires(a, b=done, since=\t a);handled(b); at_most(a, 3); total(visits) <= 9"]
graph [model_stylesheet="* { model: m } #a { provider: \"p\" } .c-d { model: n }", tool_env_from.X="context.k"]
a [tool_stdin=" stages.stages.output", outputs="k: int, bad: strng", outputs.done="l: text", outcomes="done"]
a [goal_gate="outcome=success && stages.b.outcome=done", output_keys="o,context.q", class="x, y", repo=r]
b [type="my.kind", agent=critic, agent.role=ro, agent.persona=pe, agent.personality=py, agent.task=ta]
b [agent.tools="t-1, u", backend=ba, llm_model=m, llm_provider="p", prompt="@p/b.md"]
g [shape=hexagon, human.default_choice=B]
g -> b; g -> a [label="A"]
a -> b [condition="visits.a>=1 || !context.k && (current_node != 'b') || parallel.fan_in.best_id=\"b~2\" || work.z contains x"]
a -> b [condition="context.parallel.branch.b.status=fail && internal.retry_count.a > 0 && human.gate.label = B"]
a -> g [condition_type=conditional, condition_value="{\"key\": \"o\", \"value\": 1}"]
a -> g [condition_type=conditional, condition_value="o"]
s [shape=folder, subpipeline.file="sub/c.dot", subpipeline.inputs="k, n=l", subpipeline.outputs="q=z"]
m [shape=house, dot_file="../m.dot", manager.stop_condition="context.k=1"]
subgraph { label="Big Class!"; s }
}"##;
    let found = shown(text);
    let expected = [
        "2 context key `k`",
        "2 context key `l`",
        "3 outcome `done`",
        "4 model `m`",
        "4 provider `p`",
        "4 class `c-d`",
        "4 model `n`",
        "4 context key `k`",
        "5 context key `k`!",
        "5 context key `bad`!",
        "5 outcome `done`",
        "5 context key `l`!",
        "5 outcome `done`!",
        "6 outcome `success`",
        "6 outcome `done`",
        "6 context key `o`!",
        "6 context key `q`!",
        "6 class `x`!",
        "6 class `y`!",
        "6 repository `r`",
        "7 handler kind `my.kind`",
        "7 agent `critic`",
        "7 role `ro`",
        "7 persona `pe`",
        "7 personality `py`",
        "7 task `ta`",
        "8 tool `t-1`",
        "8 tool `u`",
        "8 backend `ba`",
        "8 model `m`",
        "8 provider `p`",
        "8 prompt file `flows/p/b.md` as p/b.md",
        "11 context key `k`",
        "11 context key `current_node`",
        "11 context key `parallel.fan_in.best_id`",
        "11 context key `work.z`",
        "12 context key `human.gate.label`",
        "13 context key `o`",
        "14 context key `o`",
        "15 child pipeline `flows/sub/c.dot` as sub/c.dot",
        "15 context key `k`",
        "15 context key of the child `k`",
        "15 context key of the child `n`",
        "15 context key `l`",
        "15 context key `q`!",
        "15 context key of the child `z`",
        "16 child pipeline `m.dot` as ../m.dot",
        "16 context key `k`",
        "17 class `big-class`! as Big Class!",
    ];
    for line in expected {
        assert!(found.iter().any(|found| found == line), "{line}\n{found:#?}");
    }
    let nodes: Vec<String> = found
        .iter()
        .filter(|line| line.contains("node"))
        .filter_map(|line| line.split_once(' '))
        .filter(|(line, _)| ["2", "3", "4", "5", "6", "9", "11", "12"].contains(line))
        .map(|(line, rest)| format!("{line} {}", rest.trim_start_matches("node ")))
        .collect();
    assert_eq!(
        nodes,
        [
            "2 `a`",
            "2 `a`",
            "3 `a`",
            "3 `g`",
            "3 `b`",
            "3 `a`",
            "3 `b`",
            "3 `a`",
            "3 `b`",
            "3 `a`",
            "4 `a`",
            "5 `a`!",
            "5 `stages`",
            "6 `a`",
            "6 `b`",
            "9 `g`!",
            "9 `b` as B",
            "11 `a`",
            "11 `b`",
            "11 `a`",
            "11 context key `current_node`",
            "11 `b`",
            "11 `b`",
            "12 `a`",
            "12 `b`",
            "12 `b`",
            "12 `a`",
            "12 `b` as B",
        ]
    );
}

#[test]
fn each_occurrence_is_where_its_name_is_written_also_in_incomplete_texts() {
    for (name, text) in corpus() {
        for end in (0..=text.len()).step_by(7).chain([text.len()]) {
            let Some(part) = text.get(..end) else {
                continue;
            };
            let loaded = load_bytes(&name, part.as_bytes(), &LoadOptions::default());
            for found in occurrences(&loaded) {
                let written = loaded.source.slice(found.span);
                let is_file = matches!(found.symbol, Symbol::ChildFile(_) | Symbol::PromptFile(_));
                let is_label = matches!(found.symbol, Symbol::Class(_));
                let is_choice = written.to_lowercase() == found.symbol.name().to_lowercase()
                    || written.chars().count() == 1;
                assert!(
                    written == found.symbol.name() || is_file || is_label || is_choice,
                    "{name} at {end}: {found:?} is written `{written}`"
                );
            }
        }
    }
}

#[test]
fn a_key_is_read_with_its_prefix_if_it_needs_it() {
    let text = r#"digraph { start -> a -> exit [condition="work.x=1 && context.work.x=2"]; a [output_keys="work.x"] }"#;
    let loaded = loaded(text);
    let renaming = Renaming::new(&loaded, &Symbol::Key("work.x".into()), "y").unwrap();
    let expected =
        r#"digraph { start -> a -> exit [condition="context.y=1 && context.y=2"]; a [output_keys="y"] }"#;
    assert_eq!(renaming.apply(text), expected);
}

#[test]
fn a_new_order_of_ids_is_noted() {
    let text = "digraph { start -> a; a -> b -> exit; a -> c -> exit; a [type=x]; b [type=x]; c [type=x] }";
    let loaded = loaded(text);
    let notes = |new: &str| {
        Renaming::new(&loaded, &Symbol::Node("b".into()), new)
            .unwrap()
            .notes
    };
    assert_eq!(notes("bb"), Vec::<String>::new());
    assert_eq!(
        notes("d"),
        ["where nothing else decides between `d` and `c` after `a`, the lower id decides: now `c`"]
    );
}

#[test]
fn a_key_of_a_choice_is_kept_while_it_fits() {
    let text = "digraph { start -> g; g [shape=hexagon, human.default_choice=W, timeout=1s]; g -> work -> exit; g -> exit [label=Go]; work [type=x] }";
    let loaded = loaded(text);
    let renamed = |new: &str| {
        Renaming::new(&loaded, &Symbol::Node("work".into()), new)
            .unwrap()
            .apply(text)
    };
    assert_eq!(renamed("walk"), text.replace("work", "walk"));
    assert_eq!(
        renamed("build"),
        text.replace("work", "build").replace("=W", "=build")
    );
}
