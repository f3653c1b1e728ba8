//! Tests of the differences between two pipelines, and of the mapping of nodes and edges of a run (rule D6).

mod children;
mod columns;
mod mappings;

use orchestra_graph::{Difference, Pipeline, Source, Subject, What, load};

fn of_text(text: &str) -> Pipeline {
    let loaded = load(Source::new("flow.dot", text), &Default::default());
    let reported = loaded.report.diagnostics.clone();
    loaded
        .pipeline()
        .unwrap_or_else(|| panic!("{reported:#?}\n{text}"))
}

/// A pipeline with each kind of node.
const FLOW: &str = r#"digraph release {
    goal="ship it"
    start [shape=Mdiamond]
    exit [shape=Msquare]
    build [prompt="Build.", max_retries=2, goal_gate=true]
    old_lint [shape=parallelogram, tool_command="lint ."]
    fan [shape=component]
    left [prompt=L]
    right [prompt=R]
    join [shape=tripleoctagon]
    ask [shape=hexagon, label="Ship?"]
    ship [type=deploy, target=production]
    start -> build -> old_lint -> fan
    fan -> left -> join
    fan -> right -> join
    join -> ask
    ask -> ship [label="[Y] Yes"]
    ask -> build [label="[N] No"]
    ship -> exit [condition="outcome=success", weight=2]
    ship -> build
}"#;

/// Texts with their replacements.
type Edits<'e> = &'e [(&'e str, &'e str)];

/// Returns the pipeline after some changes of its text. Each changed text must occur in it.
fn edited(changes: Edits<'_>) -> Pipeline {
    let mut text = FLOW.to_owned();
    for (old, new) in changes {
        assert!(text.contains(old), "{old}");
        text = text.replace(old, new);
    }
    of_text(&text)
}

fn difference(changes: Edits<'_>) -> Difference {
    Difference::between(&of_text(FLOW), &edited(changes))
}

#[test]
fn a_changed_file_is_shown_as_what_changed_in_it() {
    let difference = difference(&[
        ("digraph release", "digraph deliver"),
        ("goal=\"ship it\"", "goal=\"ship it fast\", retry_target=build"),
        (
            "old_lint [shape=parallelogram, tool_command=\"lint .\"]",
            "lint [shape=parallelogram, tool_command=\"lint --all\"]",
        ),
        (
            "build -> old_lint -> fan",
            "build; build -> lint [condition=\"outcome=success\"]\n build -> fan; lint -> fan",
        ),
        (
            "prompt=\"Build.\", max_retries=2",
            "prompt=\"Build it.\", timeout=900s",
        ),
        ("label=\"[N] No\"", "label=\"[N] Not yet\", weight=3"),
    ]);
    shows(
        &difference.to_string(),
        r#"
  graph
    name: "release" -> "deliver"
    goal: "ship it" -> "ship it fast"
    + retry_target: "build"
~ node build (codergen)
    prompt: "Build." -> "Build it."
    + timeout: 15m
    - max_retries: 2
- node old_lint (tool)
+ node lint (tool)
- edge build -> old_lint
+ edge build -> lint [condition: outcome=success]
+ edge build -> fan
- edge old_lint -> fan
+ edge lint -> fan
~ edge ask -> build
    label: "[N] No" -> "[N] Not yet"
    + weight: 3
"#,
    );
}

/// Compares two texts, of which the expected one begins with a line end.
fn shows(found: &str, expected: &str) {
    assert_eq!(format!("\n{found}"), expected);
}

#[test]
fn what_a_run_does_not_depend_on_is_no_difference() {
    for changes in [
        &[("goal=\"ship it\"", "rankdir=LR; goal=\"ship it\" /* the goal */")] as &[_],
        &[(
            "prompt=\"Build.\", max_retries=2",
            "max_retries=\"2\",\n  color=red, prompt=\"Build.\"",
        )],
        &[("outcome=success", " outcome  =  \\\"success\\\" ")],
        &[("weight=2", "weight=\"2\", style=dashed")],
        &[(
            "label=\"[Y] Yes\"",
            "label=\"[Y] Yes\", weight=0, loop_restart=false",
        )],
        &[("build [", "build [class=\"slow,hot\", shape=box, ")],
        &[(
            "goal=\"ship it\"",
            "goal=\"ship it\"; model_stylesheet=\"#nobody { llm_model: m }\"",
        )],
        // Edges of different nodes in another order.
        &[
            ("    ship -> build\n", ""),
            ("    ask -> build", "    ship -> build\n    ask -> build"),
            ("    ship -> exit [condition=\"outcome=success\", weight=2]\n", ""),
            (
                "    join -> ask",
                "    ship -> exit [condition=\"outcome=success\", weight=2]\n    join -> ask",
            ),
        ],
    ] {
        let (old, new) = (of_text(FLOW), edited(changes));
        assert_eq!(old.canonical(), new.canonical(), "{changes:?}");
        let difference = Difference::between(&old, &new);
        assert_eq!(
            (difference.to_string(), difference.is_empty()),
            (String::new(), true),
            "{changes:?}"
        );
    }
}

/// Twelve kinds of edit, with the changes that each of them causes.
#[test]
fn each_kind_of_edit_is_distinguished() {
    let kinds: &[(&str, Edits<'_>, &str)] = &[
        ("layout", &[("goal=", "rankdir=LR; goal=")], ""),
        ("graph attribute", &[("\"ship it\"", "\"ship\"")], "graph changed"),
        ("prompt", &[("\"Build.\"", "\"Build!\"")], "build changed"),
        (
            "kind",
            &[("prompt=\"Build.\"", "shape=parallelogram, tool_command=make")],
            "build changed",
        ),
        (
            "work to gate",
            &[("prompt=R", "shape=hexagon, label=R, human.default_choice=join")],
            "right reshaped",
        ),
        (
            "gate to work",
            &[("shape=hexagon, label=\"Ship?\"", "label=\"Ship?\"")],
            "ask reshaped",
        ),
        (
            "new node",
            &[("join -> ask", "join -> test -> ask; test [prompt=T]")],
            "test added, join->ask removed, join->test added, test->ask added",
        ),
        (
            "node gone",
            &[
                (
                    "    old_lint [shape=parallelogram, tool_command=\"lint .\"]\n",
                    "",
                ),
                ("-> old_lint ->", "->"),
            ],
            "old_lint removed, build->old_lint removed, build->fan added, old_lint->fan removed",
        ),
        (
            "condition",
            &[("outcome=success", "outcome=skipped")],
            "ship->exit changed",
        ),
        ("weight", &[("weight=2", "weight=3")], "ship->exit changed"),
        (
            "order of branches",
            &[(
                "    fan -> left -> join\n    fan -> right -> join",
                "    fan -> right -> join\n    fan -> left -> join",
            )],
            "fan->right moved",
        ),
        (
            "order of nodes",
            &[(
                "    left [prompt=L]\n    right [prompt=R]",
                "    right [prompt=R]\n    left [prompt=L]",
            )],
            "right moved",
        ),
        (
            "custom attribute that Graphviz has too",
            &[("target=production", "target=test")],
            "ship changed",
        ),
        (
            "start",
            &[(
                "start [shape=Mdiamond]",
                "start [prompt=S]; first [shape=Mdiamond]; first -> start",
            )],
            "graph changed, start reshaped, first added, first->start added",
        ),
    ];
    for (kind, changes, expected) in kinds {
        let difference = difference(changes);
        let reported: Vec<String> = difference
            .changes
            .iter()
            .map(|change| {
                let subject = match &change.subject {
                    Subject::Graph => "graph".to_owned(),
                    Subject::Node { id, .. } => id.clone(),
                    Subject::Edge { from, to, .. } => format!("{from}->{to}"),
                    other => panic!("{other:?}"),
                };
                format!("{subject} {:?}", change.what).to_lowercase()
            })
            .collect();
        assert_eq!(reported.join(", "), *expected, "{kind}:\n{difference}");
        let same = of_text(FLOW).canonical() == edited(changes).canonical();
        assert_eq!(same, expected.is_empty(), "{kind}");
    }
}

#[test]
fn a_difference_is_empty_exactly_where_the_canonical_texts_are_equal() {
    let fragments = [
        ("\"ship it\"", "\"ship\""),
        ("goal=", "on_failure=route; goal="),
        ("goal=", "default_max_retries=4; goal="),
        ("goal=", "rankdir=LR; goal="),
        ("max_retries=2", "max_retries=3"),
        ("max_retries=2", "retry_policy=patient"),
        ("prompt=L", "prompt=L, max_visits=4"),
        ("prompt=R", "prompt=R, retry_target=build"),
        (
            "[shape=component]",
            "[shape=component, join_policy=first_success]",
        ),
        ("[shape=component]", "[shape=component, max_parallel=1]"),
        ("[Y] Yes", "[Y]  Yes"),
        ("ship -> build", "ship -> build [loop_restart=true]"),
        ("ship -> build", "ship -> build [\"custom\"=1]"),
        ("ship -> build", "ship -> build [\"custom\"=1.0]"),
        ("ship -> build", "ship -> build [\"custom\"=\"1\"]"),
        ("ship -> build", "ship -> build [\"custom\"=1s]"),
        ("outcome=success", "outcome = success"),
        ("outcome=success", "outcome=success && outcome=success"),
    ];
    let mut variants = vec![of_text(FLOW)];
    for (at, one) in fragments.iter().enumerate() {
        variants.push(edited(&[*one]));
        for other in fragments[at + 1..].iter().step_by(4) {
            if one.0 != other.0 {
                variants.push(edited(&[*one, *other]));
            }
        }
    }
    let texts: Vec<String> = variants.iter().map(Pipeline::canonical).collect();
    let mut equal = 0;
    for (old, old_text) in variants.iter().zip(&texts) {
        for (new, new_text) in variants.iter().zip(&texts) {
            let difference = Difference::between(old, new);
            assert_eq!(
                difference.is_empty(),
                old_text == new_text,
                "{difference}\n{old_text}\n{new_text}"
            );
            assert_eq!(difference.to_string().is_empty(), difference.is_empty());
            equal += usize::from(old_text == new_text);
        }
    }
    assert!(
        equal > variants.len(),
        "some variants differ in nothing that counts"
    );
}

#[test]
fn no_text_passes_for_another_by_what_is_in_it() {
    let with = |prompt: &str| edited(&[("prompt=L", &format!("prompt={prompt:?}"))]).canonical();
    let texts = [
        "a",
        "a\n",
        "a\\n",
        "a\"\n  .max_visits=3\n",
        "a\\\"\n",
        "",
        "\u{1}",
    ];
    let all: std::collections::BTreeSet<String> = texts.iter().map(|text| with(text)).collect();
    assert_eq!(all.len(), texts.len());
    for text in &all {
        assert_eq!(
            text.lines().count(),
            with("a").lines().count(),
            "one value is one line"
        );
    }
}

#[test]
fn a_value_that_the_graph_gives_to_many_nodes_is_reported_once() {
    let difference = difference(&[("goal=", "default_max_retries=4; goal=")]);
    shows(
        &difference.to_string(),
        "\n  graph\n    + default_max_retries: 4\n",
    );
}

#[test]
fn a_long_value_is_cut_around_the_first_difference() {
    let [old, new] = ["old", "new"].map(|word| {
        let text = format!(
            "prompt=\"{}the {word} way{}\"",
            "x".repeat(5_000),
            "y".repeat(5_000)
        );
        edited(&[("prompt=L", &text)])
    });
    let shown = |word: &str| format!("...\"{}the {word} way{}\"...", "x".repeat(20), "y".repeat(41));
    let expected = format!(
        "\n~ node left (codergen)\n    prompt: {} -> {}\n",
        shown("old"),
        shown("new")
    );
    shows(&Difference::between(&old, &new).to_string(), &expected);
}

#[test]
fn control_characters_of_a_file_do_not_reach_a_terminal() {
    let difference = difference(&[
        ("prompt=L", "prompt=\"a\u{1b}[31mred\u{202e}\nnext\""),
        ("label=\"[Y] Yes\"", "label=\"[Y]\u{7} Yes\""),
    ]);
    let text = difference.to_string();
    assert!(
        !text.contains(|c: char| c.is_control() && c != '\n') && !text.contains('\u{202e}'),
        "{text}"
    );
    assert!(text.contains("\\nnext"), "{text}");
    assert_eq!(text.lines().count(), 4, "{text}");
}

#[test]
fn a_node_with_a_new_name_is_hinted_at() {
    let difference = difference(&[("old_lint", "lint")]);
    shows(
        &difference.to_string(),
        "
- node old_lint (tool), renamed to lint?
+ node lint (tool), renamed from old_lint?
- edge build -> old_lint
+ edge build -> lint
- edge old_lint -> fan
+ edge lint -> fan
",
    );
    // There is no hint if two nodes match, or if the edges of the new node lead elsewhere.
    let two = [
        ("left", "one"),
        ("right", "two"),
        ("prompt=L", "prompt=P"),
        ("prompt=R", "prompt=P"),
    ];
    let old = edited(&[("prompt=L", "prompt=P"), ("prompt=R", "prompt=P")]);
    assert!(
        !Difference::between(&old, &edited(&two))
            .to_string()
            .contains("renamed")
    );
    let elsewhere = [
        ("old_lint", "lint"),
        (
            "build -> lint -> fan",
            "build -> fan; ship -> lint -> build [label=L]",
        ),
    ];
    assert!(
        !Difference::between(&of_text(FLOW), &edited(&elsewhere))
            .to_string()
            .contains("renamed")
    );
}

#[test]
fn only_so_many_changes_are_shown_as_asked_for() {
    let difference = difference(&[("old_lint", "lint"), ("weight=2", "weight=3")]);
    assert_eq!(difference.changes.len(), 7);
    let shown = format!("{difference:.2}");
    assert_eq!(shown.lines().count(), 3);
    assert!(shown.ends_with("... and 5 more changes\n"), "{shown}");
    assert!(!format!("{difference:.7}").contains("more"));
    assert!(format!("{difference:.6}").ends_with("... and 1 more change\n"));
}

#[test]
fn changes_are_sorted_as_in_the_files() {
    let difference = difference(&[
        ("old_lint", "lint"),
        ("prompt=R", "prompt=S"),
        ("prompt=\"Build.\"", "prompt=B"),
    ]);
    let nodes: Vec<&str> = difference
        .changes
        .iter()
        .filter_map(|change| match &change.subject {
            Subject::Node { id, .. } => Some(id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(nodes, ["build", "old_lint", "lint", "right"]);
    assert!(difference.changes.iter().all(|change| change.what != What::Moved));
}

/// Returns a pipeline of `count` stages, some of which contain `word`.
fn long(count: usize, word: &str) -> Pipeline {
    let mut text = String::from("digraph { start [shape=Mdiamond]; exit [shape=Msquare]; start -> n0\n");
    for at in 0..count {
        let own = if at % 7 == 0 { word } else { "same" };
        text.push_str(&format!("n{at} [prompt=\"{own} {at}\"]; n{at} -> n{}\n", at + 1));
        if at % 5 == 0 {
            text.push_str(&format!("n{at} -> {word}{at} -> exit; {word}{at} [label=X]\n"));
        }
    }
    text.push_str(&format!("n{count} [label=Last]; n{count} -> exit }}"));
    of_text(&text)
}

#[test]
fn large_pipelines_are_compared_whole() {
    let (old, new) = (long(3_000, "old"), long(3_000, "new"));
    let difference = Difference::between(&old, &new);
    let count = |what: What| {
        difference
            .changes
            .iter()
            .filter(|change| change.what == what)
            .count()
    };
    assert_eq!(count(What::Changed), 3_000_usize.div_ceil(7));
    assert_eq!(
        (count(What::Added), count(What::Removed), count(What::Moved)),
        (1_800, 1_800, 0)
    );
}

#[test]
fn a_difference_as_json_keeps_the_types_of_values() {
    let difference = difference(&[
        (
            "prompt=\"Build.\", max_retries=2",
            "prompt=\"Build.\", max_retries=3, timeout=900s",
        ),
        ("label=\"[N] No\"", "label=\"[N] No\", weight=3"),
        ("    ship -> build\n", ""),
    ]);
    let json = serde_json::to_value(&difference).expect("it has a form");
    assert_eq!(
        json,
        serde_json::json!({
            "schema": "orchestra.difference/1",
            "changes": [
                {"what": "changed", "subject": "node", "id": "build", "kind": "codergen", "attributes": [
                    {"name": "max_retries", "old": 2, "new": 3},
                    {"name": "timeout", "new": "15m"},
                ]},
                {"what": "changed", "subject": "edge", "from": "ask", "to": "build", "label": "[N] No", "attributes": [
                    {"name": "weight", "new": 3},
                ]},
                {"what": "removed", "subject": "edge", "from": "ship", "to": "build"},
            ],
        })
    );
}
