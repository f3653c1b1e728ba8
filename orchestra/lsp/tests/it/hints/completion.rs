//! Completion at single positions.

use serde_json::{Value, json};

use crate::client::{Client, applied};
use crate::hints::{CONFIGURATION, TEXT, complete, expanded, labels, opened};

/// Completes in the pipeline `TEXT` with one line added at its end, and accepts an item. Returns the line.
fn accept(client: &mut Client, line: &str, label: &str) -> String {
    let marked = TEXT.replace("\n}\n", &format!("\n{line}\n}}\n"));
    let items = complete(client, "a.dot", &marked);
    let item = items.iter().find(|item| item["label"] == label);
    let item = item.unwrap_or_else(|| panic!("{label} is not in {:?}", labels(&items)));
    let text = applied(&client.texts["a.dot"], std::slice::from_ref(&item["textEdit"]));
    let added = text.lines().rev().nth(1).unwrap();
    expanded(added)
}

#[test]
fn keys_are_those_that_the_node_reads() {
    let mut client = opened(&[], TEXT);
    let items = complete(
        &mut client,
        "a.dot",
        &TEXT.replace("approve [shape", "approve [¦shape"),
    );
    let gate = labels(&items);
    assert!(
        gate.contains(&"timeout") && gate.contains(&"retry_target"),
        "{gate:?}"
    );
    assert!(
        !gate.contains(&"tool_command") && !gate.contains(&"llm_model"),
        "{gate:?}"
    );
    let items = complete(
        &mut client,
        "a.dot",
        &TEXT.replace("ship [shape=parallelogram, ", "ship [shape=parallelogram, ¦"),
    );
    let tool = labels(&items);
    let special = ["label", "outputs", "tool_env", "tool_stdin", "tool_env_inherit"];
    assert_eq!(
        tool[..5],
        special,
        "the label comes first, then what few kinds read"
    );
    assert!(
        tool.contains(&"tool_stdin") && tool.contains(&"tool_env."),
        "{tool:?}"
    );
    assert!(
        !tool.contains(&"shape") && !tool.contains(&"join_policy"),
        "what is set is not offered: {tool:?}"
    );
    let items = complete(&mut client, "a.dot", &TEXT.replace("weight=2", "¦, weight=2"));
    let edge = labels(&items);
    assert!(
        edge.contains(&"loop_restart") && !edge.contains(&"weight") && !edge.contains(&"freeform"),
        "{edge:?}"
    );
    let items = complete(&mut client, "a.dot", "digraph { start -> a; a [type=deploy, ¦] }");
    assert!(
        labels(&items).contains(&"tool_command"),
        "a handler of the program may read any attribute"
    );
    let items = complete(&mut client, "a.dot", "digraph {\n ¦\n}");
    let statement = labels(&items);
    assert!(
        statement.contains(&"goal") && statement.contains(&"human gate"),
        "{statement:?}"
    );
    let item = items.iter().find(|item| item["label"] == "max_restarts").unwrap();
    assert_eq!(item["detail"], "a whole number of at least 0; default `20`");
    assert!(
        item["documentation"]["value"]
            .as_str()
            .unwrap()
            .contains("loop_restart"),
        "{item}"
    );
}

#[test]
fn an_accepted_item_replaces_exactly_the_word() {
    let mut client = opened(
        &[
            (
                "lint.dot",
                "digraph lint { inputs=\"level: int\"; start -> exit }",
            ),
            ("prompts/roles/own.yaml", "name: own\nsystem: You are.\n"),
            ("prompts/a.md", "Do it."),
        ],
        TEXT,
    );
    for (line, label, expected) in [
        ("x [retry_tar¦", "retry_target", "x [retry_target=start"),
        ("x [retry_tar¦=build]", "retry_target", "x [retry_target=build]"),
        ("x [retry_target=bu¦ild]", "approve", "x [retry_target=approve]"),
        ("x [shape=¦]", "hexagon", "x [shape=hexagon]"),
        ("x [shape=\"hex¦\"]", "hexagon", "x [shape=\"hexagon\"]"),
        (
            "x [shape=parallelogram, tool_env_from.¦]",
            "tool_env_from.",
            "x [shape=parallelogram, tool_env_from.NAME=\"dry_run\"]",
        ),
        ("x [agent.ro¦]", "agent.role", "x [agent.role=\"\"]"),
        ("x [agent.role=¦]", "own", "x [agent.role=own]"),
        (
            "x [agent.role=pl¦]",
            "adversarial-critic",
            "x [agent.role=\"adversarial-critic\"]",
        ),
        ("x [agent=¦]", "coder", "x [agent=coder]"),
        (
            "x [llm_model=\"cl¦\"]",
            "claude-haiku",
            "x [llm_model=\"claude-haiku\"]",
        ),
        (
            "x [llm_model=¦]",
            "claude-haiku",
            "x [llm_model=\"claude-haiku\"]",
        ),
        (
            "x [agent.tools=\"grep, ru¦n, glob\"]",
            "run-tests",
            "x [agent.tools=\"grep, run-tests, glob\"]",
        ),
        (
            "x [agent.tools=\"¦\"]",
            "api:shell",
            "x [agent.tools=\"api:shell\"]",
        ),
        (
            "x [fidelity=\"summary:¦\"]",
            "summary:low",
            "x [fidelity=\"summary:low\"]",
        ),
        (
            "x [shape=folder, subpipeline.file=¦]",
            "lint.dot",
            "x [shape=folder, subpipeline.file=\"lint.dot\"]",
        ),
        (
            "x [prompt_file=\"¦\"]",
            "prompts/a.md",
            "x [prompt_file=\"prompts/a.md\"]",
        ),
        ("x [goal_gate=¦]", "true", "x [goal_gate=true]"),
        ("x [outputs=\"a: i¦\"]", "int", "x [outputs=\"a: int\"]"),
        (
            "x [outputs=\"a: list<i¦>\"]",
            "int",
            "x [outputs=\"a: list<int>\"]",
        ),
        (
            "x [shape=parallelogram, tool_stdin=¦]",
            "score",
            "x [shape=parallelogram, tool_stdin=score]",
        ),
        ("build -> ¦", "ship", "build -> ship"),
        ("build -> sh¦ [weight=1]", "ship", "build -> ship [weight=1]"),
        (
            "build -> ship [condition=\"¦\"]",
            "outcome",
            "build -> ship [condition=\"outcome\"]",
        ),
        (
            "build -> ship [condition=\"out¦come=fail\"]",
            "outcome",
            "build -> ship [condition=\"outcome=fail\"]",
        ),
        (
            "build -> ship [condition=\"outcome=¦",
            "later",
            "build -> ship [condition=\"outcome=later",
        ),
        (
            "build -> ship [condition=\"outcome=fail ¦\"]",
            "&&",
            "build -> ship [condition=\"outcome=fail && \"]",
        ),
        (
            "build -> ship [condition=\"context.sc¦\"]",
            "context.score",
            "build -> ship [condition=\"context.score\"]",
        ),
        (
            "build -> ship [condition=\"context.mode=¦\"]",
            "fast",
            "build -> ship [condition=\"context.mode=fast\"]",
        ),
        (
            "build -> ship [condition=\"stages.ship.outcome=¦\"]",
            "success",
            "build -> ship [condition=\"stages.ship.outcome=success\"]",
        ),
        (
            "build -> ship [condition=\"tool.¦\"]",
            "tool.exit_code",
            "build -> ship [condition=\"tool.exit_code\"]",
        ),
        (
            "build -> ship [condition=\"human.gate.label=¦\"]",
            "Redo it",
            "build -> ship [condition=\"human.gate.label='Redo it'\"]",
        ),
        (
            "build -> ship [condition=\"human.gate.label='R¦'\"]",
            "Redo it",
            "build -> ship [condition=\"human.gate.label='Redo it'\"]",
        ),
        (
            "build -> ship [condition=\"outcome=\\\"la¦\\\"\"]",
            "later",
            "build -> ship [condition=\"outcome=\\\"later\\\"\"]",
        ),
        (
            "x [prompt=\"Grüß {{ ¦ }}\"]",
            "score",
            "x [prompt=\"Grüß {{ score }}\"]",
        ),
        (
            "x [prompt=\"{{ goal }} {{ stages.b¦.output }}\"]",
            "stages.build",
            "x [prompt=\"{{ goal }} {{ stages.build }}\"]",
        ),
        (
            "x [prompt=\"{{ stages.build.ou¦",
            "stages.build.output",
            "x [prompt=\"{{ stages.build.output",
        ),
        (
            "graph [assert=\"req¦\"]",
            "requires(NODE, STAGE)",
            "graph [assert=\"requires(exit, build)\"]",
        ),
        (
            "graph [assert=\"requires(ship, approve=¦)\"]",
            "Redo it",
            "graph [assert=\"requires(ship, approve='Redo it')\"]",
        ),
        (
            "graph [assert=\"handled(b¦)\"]",
            "build",
            "graph [assert=\"handled(build)\"]",
        ),
        (
            "graph [assert=\"total(¦\"]",
            "attempts",
            "graph [assert=\"total(attempts) <= 100\"]",
        ),
        (
            "approve [human.default_choice=¦]",
            "Redo it",
            "approve [human.default_choice=\"Redo it\"]",
        ),
        (
            "x [shape=house, manager.actions=\"observe, ¦\"]",
            "steer",
            "x [shape=house, manager.actions=\"observe, steer\"]",
        ),
        (
            "x [shape=folder, subpipeline.file=\"lint.dot\", subpipeline.inputs=\"¦\"]",
            "level",
            "x [shape=folder, subpipeline.file=\"lint.dot\", subpipeline.inputs=\"level\"]",
        ),
        (
            "x [shape=folder, subpipeline.file=\"lint.dot\", subpipeline.inputs=\"level=sc¦\"]",
            "score",
            "x [shape=folder, subpipeline.file=\"lint.dot\", subpipeline.inputs=\"level=score\"]",
        ),
    ] {
        let line_after = accept(&mut client, line, label);
        assert_eq!(line_after, expected, "{line}");
    }
}

#[test]
fn likely_names_come_first() {
    let mut client = opened(&[], TEXT);
    let marked = TEXT.replace("condition=\"outcome=success\"", "condition=\"outcome=¦\"");
    let items = complete(&mut client, "a.dot", &marked);
    assert_eq!(
        labels(&items)[..2],
        ["success", "fail"],
        "a tool stage succeeds or fails"
    );
    let marked = TEXT.replace("ship -> exit [condition=\"outcome=success\"]", "ship -> ¦");
    let items = complete(&mut client, "a.dot", &marked);
    let targets = labels(&items);
    assert!(!targets.contains(&"start"), "{targets:?}");
    assert_eq!(
        targets.last(),
        Some(&"ship"),
        "an edge to the node itself is rare"
    );
    for (nothing, marked) in [
        ("a comment", "digraph { // ¦\n}"),
        ("outside", "¦digraph { }"),
        ("a text", "digraph { start [label=\"¦\"] }"),
    ] {
        assert_eq!(
            complete(&mut client, "a.dot", marked),
            Vec::<Value>::new(),
            "{nothing}"
        );
    }
}

#[test]
fn an_empty_file_begins_with_a_pipeline() {
    let mut client = opened(&[], "");
    for marked in ["¦", "\n¦", "d¦", "digraph¦"] {
        let items = complete(&mut client, "a.dot", marked);
        assert_eq!(labels(&items), ["digraph"], "{marked}");
        let text = items[0]["textEdit"]["newText"].as_str().unwrap();
        assert!(text.starts_with("digraph ${1:name} {\n"), "{text}");
    }
    assert_eq!(
        complete(&mut client, "a.dot", "digraph { }\n¦"),
        Vec::<Value>::new()
    );
}

#[test]
fn a_client_without_snippets_gets_plain_text() {
    let mut client = Client::new(&[]);
    client.open("a.dot", "");
    let items = complete(&mut client, "a.dot", "digraph { a [max_vi¦] }");
    let item = items.iter().find(|item| item["label"] == "max_visits").unwrap();
    assert_eq!(item["insertTextFormat"], 1);
    assert_eq!(item["textEdit"]["newText"], "max_visits=1");
}

#[test]
fn the_configuration_is_completed_by_its_schema() {
    let mut client = opened(&[("prompts/roles/own.yaml", "system: x")], TEXT);
    client.open("orchestra.yaml", CONFIGURATION);
    let with = |line: &str| format!("{CONFIGURATION}{line}");
    for (text, expected, detail) in [
        (with("pipe¦"), "pipelines", "object"),
        (
            CONFIGURATION.replace("    backend: agent", "    ¦"),
            "only_tools",
            "array",
        ),
        (
            CONFIGURATION.replace("role: adversarial-critic", "role: ¦"),
            "own",
            "prompts/roles",
        ),
        (
            CONFIGURATION.replace("role: adversarial-critic", "role: ¦"),
            "planner",
            "ships with Orchestra",
        ),
        (CONFIGURATION.replace("[grep]", "[grep, ¦]"), "run-tests", "tool"),
        (
            CONFIGURATION.replace("model: cheap", "model: ¦"),
            "smart",
            "claude-opus-4-1 of anthropic",
        ),
        (
            CONFIGURATION.replace("backend: agent", "mode: ¦"),
            "interactive",
            "A person does.",
        ),
        (
            CONFIGURATION.replace("default: anthropic", "default: ¦"),
            "anthropic",
            "provider",
        ),
        (
            with("backends:\n  x:\n    kind: ¦"),
            "cli",
            "A program that is an agent itself.",
        ),
        (with("prompts:\n  inline: ¦"), "template", "As templates."),
    ] {
        let items = complete(&mut client, "orchestra.yaml", &text);
        let item = items.iter().find(|item| item["label"] == expected);
        let item = item.unwrap_or_else(|| panic!("{expected} is not in {:?}\n{text}", labels(&items)));
        assert_eq!(item["detail"], detail, "{text}");
    }
    let items = complete(
        &mut client,
        "orchestra.yaml",
        &CONFIGURATION.replace("    backend: agent", "    max_t¦"),
    );
    let item = items.iter().find(|item| item["label"] == "max_turns").unwrap();
    let text = applied(
        &client.texts["orchestra.yaml"],
        std::slice::from_ref(&item["textEdit"]),
    );
    assert!(text.contains("\n    max_turns: \n"), "{text}");
    assert_eq!(
        item["documentation"]["value"],
        "How often its model may be asked in one stage."
    );
}

#[test]
fn a_blank_offers_nodes_but_no_statements() {
    let mut client = opened(&[], "digraph {\n \n start -> \n}");
    let mut ask = |line: u32, character: u32| {
        let mut params = client.at("a.dot", "");
        params["position"] = json!({"line": line, "character": character});
        params["context"] = json!({"triggerKind": 2, "triggerCharacter": " "});
        client
            .request("textDocument/completion", params)
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(ask(1, 1), 0, "indentation");
    assert_eq!(ask(2, 10), 0, "no other node exists");
    client.replace("a.dot", "digraph {\n \n start -> \n work [shape=box]; exit }");
    let mut params = client.at("a.dot", "");
    params["position"] = json!({"line": 2, "character": 10});
    params["context"] = json!({"triggerKind": 2, "triggerCharacter": " "});
    let items = client.request("textDocument/completion", params);
    assert_eq!(labels(items.as_array().unwrap()), ["exit", "work"]);
}

#[test]
fn records_of_many_stages_are_offered_below_their_namespace() {
    let chain: Vec<String> = (0..200).map(|at| format!("n{at}")).collect();
    let text = |condition: &str| {
        format!(
            "digraph {{ start -> {} -> exit [condition=\"{condition}\"] }}",
            chain.join(" -> ")
        )
    };
    let mut client = opened(&[], "");
    let items = complete(&mut client, "a.dot", &text("¦"));
    assert!(labels(&items).contains(&"visits.") && !labels(&items).contains(&"visits.n7"));
    let items = complete(&mut client, "a.dot", &text("visits.¦"));
    assert!(labels(&items).contains(&"visits.n7") && !labels(&items).contains(&"stages.n7.outcome"));
}
