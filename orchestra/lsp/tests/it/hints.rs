//! Hover and completion.

use std::path::{Path, PathBuf};

use orchestra_graph::{Source, load};
use orchestra_lsp::UserFolder;
use serde_json::{Value, json};

use crate::client::{Client, applied};

const CONFIGURATION: &str = "providers:
  default: anthropic
  anthropic: {models: {smart: claude-opus-4-1, cheap: claude-haiku}}
agents:
  critic: {role: adversarial-critic, model: smart, tools: [grep]}
  coder:
    backend: agent
    model: cheap
tools:
  run-tests: {command: cargo test, description: Runs all tests.}
workspace:
  repos: {api: {path: ../api}}
";

const TEXT: &str = r#"digraph release {
    goal="Ship"
    inputs="pr: text, mode: fast|slow, dry_run: bool?"
    assert="requires(ship, approve=Ship)"
    start -> build -> approve
    build [agent=critic, prompt="Build it.", outputs="score: int", outcomes="later", max_visits=3, max_retries=1]
    build -> build [condition="outcome=fail && visits.build<3"]
    approve [shape=hexagon, human.default_choice="Ship"]
    approve -> ship [label="[S] Ship"]
    approve -> build [label="[R] Redo it"]
    ship [shape=parallelogram, tool_command="make ship", tool_env_from.SCORE=score]
    ship -> exit [condition="outcome=success"]
    ship -> build [condition="outcome=fail", weight=2]
}
"#;

fn opened(files: &[(&str, &str)], text: &str) -> Client {
    let snippets = json!({"capabilities": {"textDocument": {"completion": {"completionItem": {"snippetSupport": true}}}}});
    let mut all = vec![("orchestra.yaml", CONFIGURATION)];
    all.extend(files);
    let mut client = Client::with(&all, UserFolder::default(), snippets);
    client.open("a.dot", text);
    client
}

/// Returns the text of the hover at the beginning of a text.
fn hover(client: &mut Client, name: &str, needle: &str) -> String {
    let params = client.at(name, needle);
    let found = client.request("textDocument/hover", params);
    found["contents"]["value"].as_str().unwrap_or_default().to_owned()
}

/// Completes at the mark `¦` of a text.
fn complete(client: &mut Client, name: &str, marked: &str) -> Vec<Value> {
    let offset = marked.find('¦').expect("a mark");
    let before = &marked[..offset];
    client.replace(name, &marked.replacen('¦', "", 1));
    let line = before.matches('\n').count();
    let character = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .encode_utf16()
        .count();
    let mut params = client.at(name, "");
    params["position"] = json!({"line": line, "character": character});
    client
        .request("textDocument/completion", params)
        .as_array()
        .cloned()
        .unwrap_or_default()
}

fn labels(items: &[Value]) -> Vec<&str> {
    let mut sorted: Vec<&Value> = items.iter().collect();
    sorted.sort_by_key(|item| item["sortText"].as_str().unwrap().to_owned());
    sorted
        .iter()
        .map(|item| item["label"].as_str().unwrap())
        .collect()
}

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

/// Returns a text with the default of each placeholder.
fn expanded(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        result.push_str(before);
        let (placeholder, after) = after.split_once('}').expect("a closed placeholder");
        let default = placeholder
            .split_once([':', '|'])
            .map_or("", |(_, default)| default);
        result.push_str(if placeholder.ends_with('|') {
            default.split([',', '|']).next().unwrap()
        } else {
            default
        });
        rest = after;
    }
    result.push_str(rest);
    for number in ["$0", "$1", "$2"] {
        result = result.replace(number, "");
    }
    result
}

#[test]
fn hover_explains_nodes() {
    let mut client = opened(&[], TEXT);
    let build = hover(&mut client, "a.dot", "build [agent");
    for expected in [
        "**model stage** `build`",
        "- agent: `critic` [node, a.dot:6:18]",
        "- model: `claude-opus-4-1` [agent, orchestra.yaml",
        "named `smart`",
        "- tools: ",
        "`grep`",
        "role `adversarial-critic`",
        "Build it.",
        "`fail` → `build`",
        "`success`",
        "`later`",
        "→ `approve`",
        "at most 3 visits and at most 6 attempts: `max_visits=3` of `build`; up to 2 attempts each",
        "- sets with each success: `score: int`",
        "- set when it starts: `mode: fast|slow`, `pr: text`",
        "- perhaps set when it starts: `dry_run: bool`, `score: int`",
    ] {
        assert!(build.contains(expected), "{expected} in\n{build}");
    }
    let approve = hover(&mut client, "a.dot", "approve [shape");
    assert!(approve.contains("**human gate** `approve`"), "{approve}");
    assert!(approve.contains("answer `[S] Ship` → `ship`"), "{approve}");
    let ship = hover(&mut client, "a.dot", "ship [shape");
    assert!(
        ship.contains("**tool stage** `ship`") && ship.contains("make ship"),
        "{ship}"
    );
    assert!(
        ship.contains("- set when it starts: `mode: fast|slow`, `pr: text`, `score: int`"),
        "{ship}"
    );
}

#[test]
fn hover_explains_attributes_edges_and_agents() {
    let mut client = opened(&[], TEXT);
    let key = hover(&mut client, "a.dot", "max_visits=3");
    assert!(
        key.starts_with("**max_visits**: a whole number of at least 1"),
        "{key}"
    );
    let family = hover(&mut client, "a.dot", "tool_env_from.SCORE");
    assert!(family.starts_with("**tool_env_from.NAME**"), "{family}");
    let goal = hover(&mut client, "a.dot", "goal=");
    assert!(goal.starts_with("**goal**: text"), "{goal}");
    let agent = hover(&mut client, "a.dot", "critic");
    assert!(agent.contains("- model: `smart = claude-opus-4-1`"), "{agent}");
    assert!(
        agent.contains("- role: `adversarial-critic`") && agent.contains("- further tools: `grep`"),
        "{agent}"
    );
    let shape = hover(&mut client, "a.dot", "hexagon");
    assert!(shape.contains("human gate"), "{shape}");
    let edge = hover(
        &mut client,
        "a.dot",
        "-> build [condition=\"outcome=fail\", weight",
    );
    for expected in [
        "**edge** `ship` → `build`",
        "- taken if `outcome` is `fail`",
        "one of 2 edges with a condition, which come first; weight 2",
    ] {
        assert!(edge.contains(expected), "{expected} in\n{edge}");
    }
    let condition = hover(&mut client, "a.dot", "outcome=fail && visits");
    assert!(
        condition.contains("`outcome` is `fail`, and `visits.build` is less than 3"),
        "{condition}"
    );
    assert_eq!(hover(&mut client, "a.dot", "digraph"), "");
}

#[test]
fn hover_explains_the_configuration() {
    let mut client = opened(&[], TEXT);
    client.open("orchestra.yaml", CONFIGURATION);
    let key = hover(&mut client, "orchestra.yaml", "backend: agent");
    assert!(key.contains("The backend that runs it."), "{key}");
    let agent = hover(&mut client, "orchestra.yaml", "critic");
    assert!(agent.contains("- model: `smart = claude-opus-4-1`"), "{agent}");
    let tool = hover(&mut client, "orchestra.yaml", "run-tests");
    assert!(
        tool.contains("Runs all tests.") && tool.contains("`cargo test`"),
        "{tool}"
    );
    let value = hover(&mut client, "orchestra.yaml", "anthropic\n");
    assert!(
        value.contains("The provider of stages that name none."),
        "{value}"
    );
    let name = hover(&mut client, "orchestra.yaml", "cheap: claude-haiku");
    assert_eq!(name, "", "a name that the project chose has no description");
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
            "x [shape=parallelogram, tool_env_from.NAME=\"\"]",
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
            "graph [assert=\"req¦\"]",
            "requires(NODE, STAGE)",
            "graph [assert=\"requires(\"]",
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
            "graph [assert=\"total(attempts) <= \"]",
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

/// Returns the pipelines of the examples.
fn examples() -> Vec<String> {
    let mut folders: Vec<PathBuf> = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")];
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "dot") {
                texts.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }
    texts.sort();
    assert!(texts.len() >= 10);
    texts
}

/// Returns how often a text has diagnostics about attributes and their values.
fn wrong_attributes(text: &str) -> usize {
    let report = load(Source::new("a.dot", text), &Default::default()).report;
    let codes = [
        "unknown_attribute",
        "attribute_type",
        "syntax_error",
        "unquoted_value",
        "retry_target_exists",
        "fidelity_valid",
    ];
    report
        .diagnostics
        .iter()
        .filter(|found| codes.contains(&found.code))
        .count()
}

#[test]
fn no_accepted_item_is_an_unknown_attribute_or_has_the_wrong_type() {
    let mut accepted = 0;
    for text in examples() {
        let mut client = opened(&[], &text);
        let before = wrong_attributes(&text);
        // At the beginning of each list a key is typed, and each value that is a word is replaced.
        let lists = text.match_indices('[').map(|(at, _)| (at + 1, true));
        let values = text.match_indices('=').map(|(at, _)| (at + 1, false));
        for (offset, is_key) in lists.chain(values) {
            let next = text[offset..].chars().next().unwrap_or(' ');
            if is_key && !next.is_alphabetic() || !is_key && !(next.is_alphanumeric()) {
                continue;
            }
            let mut marked = text.clone();
            marked.insert_str(offset, if is_key { "¦, " } else { "¦" });
            for item in complete(&mut client, "a.dot", &marked) {
                let text = applied(&client.texts["a.dot"], std::slice::from_ref(&item["textEdit"]));
                let after = wrong_attributes(&expanded(&text));
                assert!(after <= before, "{} in\n{}", item["label"], expanded(&text));
                accepted += 1;
            }
        }
    }
    assert!(accepted > 500, "{accepted}");
}

#[test]
fn no_position_makes_the_server_fail() {
    for text in examples() {
        let mut client = opened(&[], &text);
        let ask = |client: &mut Client, offset: usize| {
            let mut params = client.at("a.dot", "");
            let before = &client.texts["a.dot"][..offset];
            let line = before.matches('\n').count();
            let character = before
                .rsplit('\n')
                .next()
                .unwrap_or_default()
                .encode_utf16()
                .count();
            params["position"] = json!({"line": line, "character": character});
            let items = client.request("textDocument/completion", params.clone());
            for item in items.as_array().into_iter().flatten() {
                let range = &item["textEdit"]["range"];
                assert_eq!(range["start"]["line"], line, "one line: {item}");
                assert_eq!(range["end"]["line"], line, "one line: {item}");
                assert!(
                    range["start"]["character"].as_u64() <= Some(character as u64),
                    "{item}"
                );
                assert!(
                    range["end"]["character"].as_u64() >= Some(character as u64),
                    "{item}"
                );
            }
            client.request("textDocument/hover", params);
        };
        for offset in (0..=text.len())
            .step_by(3)
            .filter(|offset| text.is_char_boundary(*offset))
        {
            ask(&mut client, offset);
        }
        for end in (0..text.len())
            .step_by(11)
            .filter(|end| text.is_char_boundary(*end))
        {
            client.replace("a.dot", &text[..end]);
            ask(&mut client, end);
        }
    }
}
