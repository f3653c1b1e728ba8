//! Definition, references, highlights and renaming.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{Client, applied, uri};

/// Returns the texts at locations, as `file:line:text of the line`.
fn shown(client: &Client, files: &[(&str, &str)], locations: &Value) -> Vec<String> {
    let list = locations.as_array().cloned().unwrap_or_default();
    list.iter()
        .map(|location| {
            let (name, text) = files
                .iter()
                .find(|(name, _)| location["uri"] == uri(name))
                .map(|(name, text)| (*name, client.texts.get(*name).map_or(*text, String::as_str)))
                .unwrap_or(("?", ""));
            let (start, end) = (&location["range"]["start"], &location["range"]["end"]);
            let line = start["line"].as_u64().unwrap() as usize;
            let from = start["character"].as_u64().unwrap() as usize;
            let to = end["character"].as_u64().unwrap() as usize;
            let line_text = text.lines().nth(line).unwrap_or_default();
            format!("{name}:{line}:{}", &line_text[from..to])
        })
        .collect()
}

/// Opens a file of a project, and requests something at a text of it.
pub(crate) fn opened<'f>(files: &'f [(&'f str, &'f str)], name: &str) -> Client {
    let mut client = Client::with(
        files,
        Default::default(),
        json!({"capabilities": {"workspace": {"workspaceEdit":
            {"documentChanges": true, "resourceOperations": ["rename"]}}}}),
    );
    let text = files.iter().find(|(own, _)| *own == name).unwrap().1;
    client.open(name, text);
    client
}

fn at(client: &Client, name: &str, needle: &str, nth: usize, more: Value) -> Value {
    let mut params = client.at_nth(name, needle, nth, 0);
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    params
}

pub(crate) fn references(
    client: &mut Client,
    files: &[(&str, &str)],
    name: &str,
    needle: &str,
    nth: usize,
) -> Vec<String> {
    let params = at(
        client,
        name,
        needle,
        nth,
        json!({"context": {"includeDeclaration": true}}),
    );
    let found = client.request("textDocument/references", params);
    shown(client, files, &found)
}

pub(crate) fn definition(
    client: &mut Client,
    files: &[(&str, &str)],
    name: &str,
    needle: &str,
    nth: usize,
) -> Vec<String> {
    let params = at(client, name, needle, nth, json!({}));
    let found = client.request("textDocument/definition", params);
    shown(client, files, &found)
}

/// Renames, and returns the changed files.
pub(crate) fn renamed(
    client: &mut Client,
    files: &[(&str, &str)],
    name: &str,
    (needle, nth): (&str, usize),
    new: &str,
) -> Result<BTreeMap<String, String>, String> {
    let params = at(client, name, needle, nth, json!({"newName": new}));
    let answer = client.answer("textDocument/rename", params);
    if let Some(error) = answer.get("error") {
        return Err(error["message"].as_str().unwrap().to_owned());
    }
    let mut changed = BTreeMap::new();
    for operation in answer["result"]["documentChanges"].as_array().unwrap() {
        if operation["kind"] == "rename" {
            let path = |key: &str| {
                operation[key]
                    .as_str()
                    .unwrap()
                    .rsplit("/work/")
                    .next()
                    .unwrap()
                    .to_owned()
            };
            changed.insert(path("oldUri"), format!("-> {}", path("newUri")));
            continue;
        }
        let target = &operation["textDocument"]["uri"];
        let (file, text) = files.iter().find(|(name, _)| *target == uri(name)).unwrap();
        let text = client.texts.get(*file).map_or(*text, String::as_str);
        changed.insert(
            (*file).to_owned(),
            applied(text, operation["edits"].as_array().unwrap()),
        );
    }
    Ok(changed)
}

const FLOW: &str = r##"digraph flow {
    graph [assert="requires(ship, ask=\"Build\", since=build); handled(build)", retry_target=build,
        model_stylesheet="#build { model: \"x\" }", inputs="pr: text", prompt_templates=true]
    start -> build -> test -> ask
    build [prompt="Build {{ pr }} \"now\"\n{{ stages.build.response }}", outputs="score: int"]
    test [shape=parallelogram, tool_command="make", tool_stdin="stages.build.response", tool_env_from.S=score]
    ask [shape=hexagon, human.default_choice=build]
    ask -> ship [label=Ship, condition="visits.build < 3 && context.score > 1"]
    ask -> build
    ship [prompt="Ship {{ score }}"]
    test -> build [condition="outcome=fail && last_stage=build"]
    ship -> exit
}
"##;

const SCRIPT: &str =
    "build: [fail, success]\nask:\n  - build\n  - {preferred_label: Ship, suggested_next_ids: [build]}\n";

const PROJECT: &[(&str, &str)] = &[
    ("flow.dot", FLOW),
    ("simulations/twice.yaml", SCRIPT),
    ("simulations/other.yaml", "elsewhere: fail\nbuild: fail\n"),
    (
        "main.rs",
        "fn main() { run(Node::Build); flow::nodes::Build::PROMPT; Node::Builder; }\n",
    ),
];

#[test]
fn a_node_is_renamed_wherever_it_is_named() {
    let mut client = opened(PROJECT, "flow.dot");
    let changed = renamed(&mut client, PROJECT, "flow.dot", ("build", 3), "construct").unwrap();
    let expected = FLOW
        .replace("build", "construct")
        .replace("\\\"Build\\\"", "\\\"construct\\\"");
    assert_eq!(changed["flow.dot"], expected);
    assert_eq!(
        changed["simulations/twice.yaml"],
        SCRIPT.replace("build", "construct")
    );
    assert_eq!(changed.len(), 2);
    let note = client.received.last().unwrap()["params"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        note,
        "2 uses of the node `build` in Rust are not renamed; the next build reports what does not fit"
    );
    assert!(
        client
            .wait_for_diagnostics("flow.dot")
            .iter()
            .all(|line| !line.contains("construct"))
    );
}

#[test]
fn a_node_leads_to_its_statement_and_its_uses() {
    let mut client = opened(PROJECT, "flow.dot");
    for nth in [0, 2, 5] {
        let found = definition(&mut client, PROJECT, "flow.dot", "build", nth);
        assert_eq!(found, ["flow.dot:4:build"], "{nth}");
    }
    let found = references(&mut client, PROJECT, "flow.dot", "build", 0);
    assert_eq!(
        found.iter().filter(|line| line.starts_with("flow.dot")).count(),
        14,
        "{found:#?}"
    );
    assert_eq!(
        found.iter().filter(|line| line.contains("twice.yaml")).count(),
        3,
        "{found:#?}"
    );
    client.open("simulations/twice.yaml", SCRIPT);
    assert_eq!(
        definition(&mut client, PROJECT, "simulations/twice.yaml", "build", 0),
        ["flow.dot:4:build"]
    );
    let params = client.at_nth("flow.dot", "build", 2, 0);
    let highlights = client.request("textDocument/documentHighlight", params);
    let kinds: Vec<_> = highlights
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["kind"].clone())
        .collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == 3).count(), 1);
    assert_eq!(kinds.len(), 14);
}

#[test]
fn a_context_key_is_renamed_in_templates_too() {
    let mut client = opened(PROJECT, "flow.dot");
    assert_eq!(
        definition(&mut client, PROJECT, "flow.dot", "score", 2),
        ["flow.dot:4:score"]
    );
    let changed = renamed(&mut client, PROJECT, "flow.dot", ("score", 0), "points").unwrap();
    assert_eq!(changed["flow.dot"], FLOW.replace("score", "points"));
    let changed = renamed(&mut client, PROJECT, "flow.dot", ("pr ", 0), "request").unwrap();
    assert_eq!(
        changed["flow.dot"],
        FLOW.replace("pr:", "request:")
            .replace("{{ pr }}", "{{ request }}")
    );
}

#[test]
fn a_rename_is_refused_with_a_reason() {
    let mut client = opened(PROJECT, "flow.dot");
    for (needle, new, reason) in [
        (
            "build",
            "my build",
            "`my build` is not a node id; a node id is a letter or `_`",
        ),
        ("build", "test", "the pipeline already has a node `test`"),
        (
            "build",
            "Test",
            "`Test` differs from the node `test` only in case",
        ),
        (
            "build",
            "artifacts",
            "the id `artifacts` is reserved for the artifacts of runs",
        ),
        (
            "start",
            "begin",
            "`start` is the start of the pipeline because of its id; set `shape=Mdiamond`",
        ),
        ("build", "end", "a node `end` is the exit of a pipeline"),
        ("score", "pr", "the context key `pr` is used already, in line 3"),
        ("score", "outcome", "`outcome` is a key of the engine"),
    ] {
        let answer = renamed(&mut client, PROJECT, "flow.dot", (needle, 0), new);
        let error = answer.unwrap_err();
        assert!(error.starts_with(reason), "{new}: {error}");
    }
    client.replace("flow.dot", &FLOW.replace("ship -> exit\n}", "ship -> exit ["));
    let error = renamed(&mut client, PROJECT, "flow.dot", ("build", 0), "construct").unwrap_err();
    assert!(
        error.contains("cannot be read") && error.contains("fix line"),
        "{error}"
    );
}

#[test]
fn an_id_is_quoted_where_a_keyword_would_stand() {
    let files = &[(
        "a.dot",
        "digraph {\n    start -> work -> exit\n    work [prompt=Go]\n    work -> work [condition=\"visits.work<2\"]\n}\n",
    )];
    let mut client = opened(files, "a.dot");
    let changed = renamed(&mut client, files, "a.dot", ("work", 0), "node").unwrap();
    assert_eq!(
        changed["a.dot"],
        "digraph {\n    start -> node -> exit\n    \"node\" [prompt=Go]\n    \"node\" -> node [condition=\"visits.node<2\"]\n}\n"
    );
    client.replace("a.dot", &changed["a.dot"]);
    let back = renamed(&mut client, files, "a.dot", ("node", 0), "work").unwrap();
    assert_eq!(back["a.dot"], files[0].1);
}

const CHILD: &str = "digraph lint {\n    inputs=\"file: text\"\n    start -> check -> exit\n    check [type=check, outputs=\"found: int\"]\n}\n";
const PARENT: &str = "digraph main {\n    inputs=\"file: text\"\n    start -> lint -> exit\n    lint [shape=folder, subpipeline.file=\"parts/lint.dot\", subpipeline.inputs=file, subpipeline.outputs=\"errors=found\"]\n}\n";

const FAMILY: &[(&str, &str)] = &[("main.dot", PARENT), ("parts/lint.dot", CHILD)];

#[test]
fn keys_of_a_child_are_renamed_in_its_parents() {
    let mut client = opened(FAMILY, "parts/lint.dot");
    let changed = renamed(&mut client, FAMILY, "parts/lint.dot", ("file", 0), "path").unwrap();
    assert_eq!(changed["parts/lint.dot"], CHILD.replace("file", "path"));
    assert_eq!(
        changed["main.dot"],
        PARENT.replace("subpipeline.inputs=file,", "subpipeline.inputs=\"path=file\",")
    );
    let changed = renamed(&mut client, FAMILY, "parts/lint.dot", ("found", 0), "count").unwrap();
    assert_eq!(
        changed["main.dot"],
        PARENT.replace("errors=found", "errors=count")
    );

    let mut client = opened(FAMILY, "main.dot");
    let changed = renamed(&mut client, FAMILY, "main.dot", ("file", 0), "source").unwrap();
    assert_eq!(
        changed["main.dot"],
        PARENT
            .replace("inputs=\"file:", "inputs=\"source:")
            .replace("subpipeline.inputs=file,", "subpipeline.inputs=\"file=source\",")
    );
    assert_eq!(changed.len(), 1);
    let found = definition(&mut client, FAMILY, "main.dot", "parts/lint.dot", 0);
    assert_eq!(found, ["parts/lint.dot:0:"]);
    assert_eq!(
        definition(&mut client, FAMILY, "main.dot", "found", 0),
        ["parts/lint.dot:3:found"]
    );
}

const YAML: &str = "providers:\n  default: acme\n  acme: {kind: anthropic, models: {smart: m-1}}\nagents:\n  critic: {role: judge, task: look, model: smart, tools: [spell]}\ntools:\n  spell: {command: aspell, description: Spells.}\n";
const ROLE: &str = "role:\n  system: You judge.\n";
const TASK: &str = "task:\n  template: |\n    Look at {{ stages.draft.response }}\n    and {{ plan }}.\n";
const AGENTS: &str = "digraph a {\n    start -> draft -> check -> exit\n    draft [prompt=Go, agent=critic, outputs=\"plan: text\"]\n    check [agent=\"critic\", prompt=Go, agent.tools=\"spell\"]\n    check -> exit [condition=\"outcome=fail\"]\n}\n";
const CONFIGURED: &[(&str, &str)] = &[
    ("orchestra.yaml", YAML),
    ("a.dot", AGENTS),
    (
        "b.dot",
        "digraph b {\n    start -> work -> exit\n    work [prompt=Go, llm_model=smart, agent.role=judge]\n}\n",
    ),
    ("prompts/roles/judge.yaml", ROLE),
    ("prompts/tasks/look.yaml", TASK),
];

#[test]
fn agents_tools_models_and_layers_lead_to_the_configuration() {
    let mut client = opened(CONFIGURED, "a.dot");
    assert_eq!(
        definition(&mut client, CONFIGURED, "a.dot", "critic", 1),
        ["orchestra.yaml:4:critic"]
    );
    assert_eq!(
        definition(&mut client, CONFIGURED, "a.dot", "spell", 0),
        ["orchestra.yaml:6:spell"]
    );
    client.open("orchestra.yaml", YAML);
    assert_eq!(
        references(&mut client, CONFIGURED, "orchestra.yaml", "critic", 0),
        ["a.dot:2:critic", "a.dot:3:critic", "orchestra.yaml:4:critic"]
    );
    assert_eq!(
        definition(&mut client, CONFIGURED, "orchestra.yaml", "judge", 0),
        ["prompts/roles/judge.yaml:0:"]
    );
    let changed = renamed(
        &mut client,
        CONFIGURED,
        "orchestra.yaml",
        ("critic", 0),
        "strict-critic",
    )
    .unwrap();
    assert_eq!(changed["a.dot"], AGENTS.replace("critic", "strict-critic"));
    assert_eq!(changed["orchestra.yaml"], YAML.replace("critic", "strict-critic"));
    let changed = renamed(&mut client, CONFIGURED, "orchestra.yaml", ("smart", 0), "clever").unwrap();
    assert_eq!(changed["orchestra.yaml"], YAML.replace("smart", "clever"));
    assert!(changed["b.dot"].contains("llm_model=clever"));
    let changed = renamed(&mut client, CONFIGURED, "a.dot", ("spell", 0), "spelling").unwrap();
    assert_eq!(
        changed["orchestra.yaml"],
        YAML.replacen("[spell]", "[spelling]", 1)
            .replace("  spell:", "  spelling:")
    );
    let error = renamed(&mut client, CONFIGURED, "a.dot", ("spell", 0), "shell").unwrap_err();
    assert!(error.contains("built in"), "{error}");
}

#[test]
fn a_layer_is_renamed_with_its_file() {
    let mut client = opened(CONFIGURED, "orchestra.yaml");
    let changed = renamed(&mut client, CONFIGURED, "orchestra.yaml", ("judge", 0), "arbiter").unwrap();
    assert_eq!(
        changed["prompts/roles/judge.yaml"],
        "-> prompts/roles/arbiter.yaml"
    );
    assert_eq!(changed["orchestra.yaml"], YAML.replace("judge", "arbiter"));
    assert!(changed["b.dot"].contains("agent.role=arbiter"));
    let mut plain = Client::new(CONFIGURED);
    plain.open("orchestra.yaml", YAML);
    let error = renamed(&mut plain, CONFIGURED, "orchestra.yaml", ("judge", 0), "arbiter").unwrap_err();
    assert!(error.starts_with("the editor cannot rename files"), "{error}");
}

#[test]
fn nodes_and_keys_are_renamed_in_task_templates() {
    let mut client = opened(CONFIGURED, "a.dot");
    let changed = renamed(&mut client, CONFIGURED, "a.dot", ("draft", 0), "sketch").unwrap();
    assert_eq!(
        changed["prompts/tasks/look.yaml"],
        TASK.replace("draft", "sketch")
    );
    let changed = renamed(&mut client, CONFIGURED, "a.dot", ("plan", 0), "idea").unwrap();
    assert_eq!(changed["prompts/tasks/look.yaml"], TASK.replace("plan", "idea"));
    client.open("prompts/tasks/look.yaml", TASK);
    assert_eq!(
        definition(&mut client, CONFIGURED, "prompts/tasks/look.yaml", "draft", 0),
        ["a.dot:2:draft"]
    );
}

#[test]
fn a_type_leads_to_its_handler() {
    let rust = "// #[handler(\"page.write\")] in a comment\nimpl Pages {\n    #[handler(\"page.write\")]\n    fn write() {}\n}\nconst TEXT: &str = r#\"\n#[handler(\"page.write\")]\n\"#;\n";
    let files = &[
        ("a.dot", "digraph { start -> w -> exit; w [type=\"page.write\"] }"),
        ("src/main.rs", rust),
    ];
    let mut client = opened(files, "a.dot");
    assert_eq!(
        definition(&mut client, files, "a.dot", "page", 0),
        ["src/main.rs:2:page.write"]
    );
    let error = renamed(&mut client, files, "a.dot", ("page", 0), "page.print").unwrap_err();
    assert!(error.contains("rename it in the Rust program"), "{error}");
}

#[test]
fn prompt_files_are_templates_if_prompts_are() {
    let prompt = "Go on after {{ stages.draft.response }} with {{ goal }}.\n";
    let files = &[
        (
            "flows/a.dot",
            "digraph { prompt_templates=true; start -> draft -> next -> exit; draft [prompt=Go]; next [prompt=\"@p/next.md\"] }",
        ),
        ("flows/p/next.md", prompt),
    ];
    let mut client = opened(files, "flows/a.dot");
    let changed = renamed(&mut client, files, "flows/a.dot", ("draft", 0), "sketch").unwrap();
    assert_eq!(changed["flows/p/next.md"], prompt.replace("draft", "sketch"));
    assert_eq!(
        definition(&mut client, files, "flows/a.dot", "p/next", 0),
        ["flows/p/next.md:0:"]
    );
    client.open("flows/p/next.md", prompt);
    assert_eq!(
        definition(&mut client, files, "flows/p/next.md", "draft", 0),
        ["flows/a.dot:0:draft"]
    );
}

#[test]
fn a_persona_that_extends_a_role_is_changed_with_it() {
    let persona = "persona:\n  name: strict\n  extends: judge\n  modifiers: Be strict.\n";
    let files = &[
        (
            "a.dot",
            "digraph { start -> work -> exit; work [prompt=Go, agent.persona=strict] }",
        ),
        ("orchestra.yaml", "providers: {default: anthropic}\n"),
        (
            "prompts/roles/judge.yaml",
            "role:\n  name: judge\n  system: You judge.\n",
        ),
        ("prompts/personas/strict.yaml", persona),
    ];
    let mut client = opened(files, "prompts/personas/strict.yaml");
    assert_eq!(
        definition(&mut client, files, "prompts/personas/strict.yaml", "judge", 0),
        ["prompts/roles/judge.yaml:0:"]
    );
    let changed = renamed(
        &mut client,
        files,
        "prompts/personas/strict.yaml",
        ("judge", 0),
        "arbiter",
    )
    .unwrap();
    assert_eq!(
        changed["prompts/personas/strict.yaml"],
        persona.replace("judge", "arbiter")
    );
    assert_eq!(
        changed["prompts/roles/judge.yaml"],
        "-> prompts/roles/arbiter.yaml"
    );
    let changed = renamed(
        &mut client,
        files,
        "prompts/personas/strict.yaml",
        ("strict", 0),
        "stern",
    )
    .unwrap();
    assert!(changed["a.dot"].contains("agent.persona=stern"));
}

#[test]
fn a_node_of_a_random_pipeline_is_renamed_there_and_back() {
    let name = "random.dot";
    let mut client = opened(&[(name, "")], name);
    let mut compared = 0;
    for (text, _) in orchestra_oracle_tests::graphs(700, 150) {
        client.replace(name, &text);
        let Some(old) = text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .find(|word| {
                word.len() > 3
                    && text.contains(&format!("{word} ->"))
                    && !word.to_lowercase().starts_with("start")
            })
        else {
            continue;
        };
        let files = [(name, text.as_str())];
        let Ok(there) = renamed(&mut client, &files, name, (&format!("{old} ->"), 0), "another") else {
            panic!("{old}\n{text}");
        };
        client.replace(name, &there[name]);
        let back = renamed(&mut client, &files, name, ("another ->", 0), old).unwrap();
        assert_eq!(back[name], text);
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn an_outcome_is_renamed_in_scripts() {
    let flow = "digraph { start -> a -> exit; a [type=x, outcomes=\"done, later\"]; a -> a [condition=\"outcome=later && visits.a < 3\"] }";
    let script = "a: [later, {outcome: later}, done]\n";
    let files = &[("a.dot", flow), ("simulations/a.yaml", script)];
    let mut client = opened(files, "a.dot");
    let changed = renamed(&mut client, files, "a.dot", ("later", 0), "again").unwrap();
    assert_eq!(changed["a.dot"], flow.replace("later", "again"));
    assert_eq!(changed["simulations/a.yaml"], script.replace("later", "again"));
    client.open("simulations/a.yaml", script);
    let found = definition(&mut client, files, "simulations/a.yaml", "done", 0);
    assert_eq!(found, ["a.dot:0:done"]);
}

#[test]
fn a_shared_task_is_noted() {
    let files = &[
        ("a.dot", AGENTS),
        ("b.dot", AGENTS),
        CONFIGURED[0],
        CONFIGURED[3],
        CONFIGURED[4],
    ];
    let mut client = opened(files, "a.dot");
    renamed(&mut client, files, "a.dot", ("draft", 0), "sketch").unwrap();
    let notes: Vec<&str> = client
        .received
        .iter()
        .filter_map(|message| message["params"]["message"].as_str())
        .collect();
    assert_eq!(
        notes,
        ["`look.yaml` is also used by `b.dot`, whose names are not changed"]
    );
}

#[test]
fn errors_that_hide_names_come_first() {
    let files = &[(
        "a.dot",
        "digraph { assert=\"requires(work)\"; start -> work -> exit; work [prompt=Go] }",
    )];
    let mut client = opened(files, "a.dot");
    let error = renamed(&mut client, files, "a.dot", ("work ->", 0), "build").unwrap_err();
    assert!(
        error.contains("takes two nodes") && error.ends_with("so that every use is found"),
        "{error}"
    );
    let files = &[
        ("a.dot", AGENTS),
        ("orchestra.yaml", "agents: {critic: {rol: judge}}\nproviders: [\n"),
    ];
    let mut client = opened(files, "a.dot");
    let error = renamed(&mut client, files, "a.dot", ("draft", 0), "sketch").unwrap_err();
    assert_eq!(
        error,
        "`orchestra.yaml` has errors; fix them first, so that every use is found"
    );
}
