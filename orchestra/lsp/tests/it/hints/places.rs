//! Completion that depends on what is set around the position: nothing is offered that the checks then refuse.

use serde_json::Value;

use crate::client::{Client, applied};
use crate::hints::{complete, expanded, labels, opened};

/// Returns the labels that are offered at the mark of a pipeline.
fn offered(client: &mut Client, marked: &str) -> Vec<String> {
    let items = complete(client, "a.dot", marked);
    labels(&items).into_iter().map(str::to_owned).collect()
}

/// Returns the text after an item is accepted.
fn accepted(client: &mut Client, marked: &str, label: &str) -> String {
    let items = complete(client, "a.dot", marked);
    let item = find(&items, label);
    let text = applied(&client.texts["a.dot"], std::slice::from_ref(&item["textEdit"]));
    expanded(&text)
}

fn find<'i>(items: &'i [Value], label: &str) -> &'i Value {
    let found = items.iter().find(|item| item["label"] == label);
    found.unwrap_or_else(|| panic!("{label} is not in {:?}", labels(items)))
}

#[test]
fn an_attribute_comes_with_the_one_that_reads_it() {
    let mut client = opened(&[], "");
    for (text, label, expected) in [
        (
            "digraph { start -> f; f [shape=component, join_k¦] }",
            "join_k",
            "digraph { start -> f; f [shape=component, join_policy=k_of_n, join_k=1] }",
        ),
        (
            "digraph { start -> f; f [shape=component, join_policy=quorum, ¦] }",
            "join_quorum",
            "digraph { start -> f; f [shape=component, join_policy=quorum, join_quorum=0.5] }",
        ),
        (
            "digraph { start -> f; f [¦] }",
            "thread_id",
            "digraph { start -> f; f [fidelity=full, thread_id=\"\"] }",
        ),
        (
            "digraph { default_fidelity=full; start -> f; f [¦] }",
            "thread_id",
            "digraph { default_fidelity=full; start -> f; f [thread_id=\"\"] }",
        ),
        (
            "digraph { start -> f -> g [¦] }",
            "thread_id",
            "digraph { start -> f -> g [fidelity=full, thread_id=\"\"] }",
        ),
        (
            "digraph { routing=first_match; start -> f -> g [¦] }",
            "condition_value",
            "digraph { routing=first_match; start -> f -> g [condition_type=conditional, condition_value=\"\"] }",
        ),
        (
            "digraph { routing=first_match; start -> f -> g [¦] }",
            "max_revisits",
            "digraph { routing=first_match; start -> f -> g [allow_revisit=true, max_revisits=1] }",
        ),
    ] {
        assert_eq!(accepted(&mut client, text, label), expected, "{text}");
    }
}

#[test]
fn what_the_checks_refuse_is_not_offered() {
    let mut client = opened(&[], "");
    for (text, refused) in [
        (
            "digraph { start -> f; f [shape=component, join_policy=quorum, ¦] }",
            "join_k",
        ),
        ("digraph { start -> f; f [fidelity=compact, ¦] }", "thread_id"),
        ("digraph { start -> f; f [prompt_file=\"a.md\", ¦] }", "prompt"),
        ("digraph { start -> f; f [shape=¦] }", "Mdiamond"),
        ("digraph { start -> f -> exit; f [shape=¦] }", "doublecircle"),
        ("digraph { start -> f; f [type=¦] }", "start"),
        ("digraph { start -> f; f [goal_gate=\"¦\"] }", "preferred_label"),
        ("digraph { start -> f -> ¦ { g } g }", "g"),
        ("digraph { start -> exit -> ¦; g }", "g"),
        (
            "digraph { routing=first_match; start -> f -> g [condition=\"outcome=fail\", ¦] }",
            "condition_type",
        ),
        ("digraph { start -> f; f [outcomes=later, ¦] }", "outputs."),
        ("digraph { start -> f; f [outcomes=later, ¦] }", "outputs.retry"),
    ] {
        let items = offered(&mut client, text);
        assert!(
            !items.iter().any(|item| item == refused),
            "{refused} in {text}: {items:?}"
        );
    }
    let text = accepted(&mut client, "digraph { start -> f; f [¦] }", "shape");
    assert_eq!(
        text, "digraph { start -> f; f [shape=Msquare] }",
        "an exit is missing"
    );
    let text = accepted(&mut client, "digraph { start -> f -> exit; f [¦] }", "shape");
    assert_eq!(text, "digraph { start -> f -> exit; f [shape=hexagon] }");
    let items = offered(&mut client, "digraph { start -> f; f [outcomes=later, ¦] }");
    assert!(items.contains(&"outputs.later".to_owned()) && items.contains(&"outputs.fail".to_owned()));
}

#[test]
fn what_has_no_effect_comes_last_with_the_reason() {
    let mut client = opened(&[], "");
    for (text, label, reason) in [
        (
            "digraph { graph [¦] start -> f }",
            "default_thread_id",
            "needs `default_fidelity=full`",
        ),
        (
            "digraph { start -> f -> exit; f [¦] }",
            "end",
            "read only without outgoing edges",
        ),
        (
            "digraph { start -> f; f [shape=tripleoctagon, ¦] }",
            "llm_model",
            "needs a `prompt`",
        ),
        (
            r#"digraph { inputs="always: text, perhaps: text?"; start -> t -> exit; t [shape=parallelogram, tool_stdin=¦] }"#,
            "perhaps",
            "may not be set here",
        ),
        (
            r#"digraph { inputs="always: text, perhaps: text?"; start -> t -> exit; t [prompt="{{ ¦ }}"] }"#,
            "perhaps",
            "may not be set here",
        ),
        (
            r#"digraph { start -> t -> exit [condition="¦"] }"#,
            "human.gate.selected",
            "set by a human gate, which this pipeline has not",
        ),
    ] {
        let items = complete(&mut client, "a.dot", text);
        assert_eq!(find(&items, label)["detail"], reason, "{text}");
        let rank = |label: &str| {
            let rank = find(&items, label)["sortText"].as_str().unwrap();
            rank.chars().next().unwrap().to_digit(10).unwrap()
        };
        assert!(rank(label) >= 6, "{label} in {text}");
        if text.contains("always") {
            assert!(rank("always") <= 1, "{text}");
        }
    }
}

#[test]
fn the_families_of_keys_are_offered_with_their_values() {
    let text = r#"digraph { goal=Ship; start -> f; f [shape=component]; f -> a -> j; f -> b -> j; j [shape=tripleoctagon]
        j -> ask; ask [shape=hexagon]; ask -> exit [label="[S] Ship it"]; ask -> f [label="[R] Redo"]
        ask -> exit [condition="KEY"] }"#;
    let mut client = opened(&[], "");
    for (condition, label) in [
        ("¦", "human.gate.selected"),
        ("human.gate.selected=¦", "S"),
        ("human.gate.label=¦", "Ship it"),
        ("parallel.branch.¦", "parallel.branch.a.status"),
        ("parallel.branch.a.status=¦", "cancelled"),
        ("parallel.fan_in.best_id=¦", "b"),
        ("graph.¦", "graph.goal"),
        ("stages.a¦", "stages.a.outcome"),
    ] {
        let items = offered(&mut client, &text.replace("KEY", condition));
        assert!(
            items.iter().any(|item| item == label),
            "{label} for {condition}: {items:?}"
        );
    }
    for (prompt, label) in [
        ("{{ ¦ }}", "human.gate.selected"),
        ("{{ graph.¦ }}", "graph.goal"),
        ("{{ stages.¦ }}", "stages.a"),
        ("{{ stages.a.¦ }}", "stages.a.output"),
        ("{{ goal | ¦ }}", "upper"),
        ("{% if goal is ¦ %}", "defined"),
        ("{% ¦ %}", "if"),
    ] {
        let items = offered(
            &mut client,
            &format!("digraph {{ goal=x; start -> a -> exit; a [prompt=\"{prompt}\"] }}"),
        );
        assert!(
            items.iter().any(|item| item == label),
            "{label} for {prompt}: {items:?}"
        );
    }
    let items = offered(&mut client, "digraph { start -> a; a [prompt=\"{{ goal ¦ }}\"] }");
    assert_eq!(items, Vec::<String>::new(), "an operator follows");
}

#[test]
fn the_stylesheet_is_completed() {
    let mut client = opened(&[], "");
    let with = |sheet: &str| {
        format!("digraph {{ model_stylesheet=\"{sheet}\"; start -> work -> exit; work [class=hard] }}")
    };
    for (sheet, label, expected) in [
        ("¦", "*", "* { llm_model: cheap; }"),
        ("#w¦", "#work", "#work { llm_model: cheap; }"),
        ("¦ { model: smart; }", ".hard", ".hard { model: smart; }"),
        ("bo¦", "box", "box { llm_model: cheap; }"),
        ("* { reas¦ }", "reasoning_effort", "* { reasoning_effort: low; }"),
        ("* { llm_model: sm¦; }", "smart", "* { llm_model: smart; }"),
        (
            "* { reasoning_effort: ¦; }",
            "high",
            "* { reasoning_effort: high; }",
        ),
        (
            "* { llm_provider: ¦ }",
            "anthropic",
            "* { llm_provider: anthropic }",
        ),
    ] {
        assert_eq!(
            accepted(&mut client, &with(sheet), label),
            with(expected),
            "{sheet}"
        );
    }
    let items = offered(&mut client, &with("* { llm_model: smart; ¦ }"));
    assert_eq!(items, ["llm_provider", "reasoning_effort"], "each property once");
}

#[test]
fn files_are_those_of_the_workspace() {
    let mut client = opened(
        &[
            ("flows/child.dot", "digraph { start -> exit }"),
            ("prompts/a.md", "Go."),
            ("prompts/b.j2", "Go."),
        ],
        "",
    );
    for (text, label, expected) in [
        (
            "x [prompt=\"@¦\"]",
            "@prompts/a.md",
            "x [prompt=\"@prompts/a.md\"]",
        ),
        (
            "x [prompt_file=¦]",
            "prompts/b.j2",
            "x [prompt_file=\"prompts/b.j2\"]",
        ),
        (
            "x [shape=house, stack.child_workdir=¦]",
            "flows",
            "x [shape=house, stack.child_workdir=flows]",
        ),
    ] {
        let whole = |text: &str| format!("digraph {{ start -> x; {text} }}");
        assert_eq!(accepted(&mut client, &whole(text), label), whole(expected));
    }
}

#[test]
fn a_sub_pipeline_returns_only_what_its_node_declares() {
    let mut client = opened(&[], "");
    let text = "digraph { inputs=\"pr: text\"; start -> sub -> exit\n\
                sub [shape=folder, outputs=\"verdict: text\", subpipeline.outputs=\"¦\"] }";
    assert_eq!(offered(&mut client, text), ["verdict"]);
}

#[test]
fn a_value_directly_behind_a_colon_gets_its_space() {
    let mut client = opened(&[], "");
    client.open("orchestra.yaml", "");
    let items = complete(&mut client, "orchestra.yaml", "providers:\n  default:¦\n");
    let edit = &find(&items, "openai")["textEdit"];
    let text = applied(&client.texts["orchestra.yaml"], std::slice::from_ref(edit));
    assert_eq!(text, "providers:\n  default: openai\n");
}
