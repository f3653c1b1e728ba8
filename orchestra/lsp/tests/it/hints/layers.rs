//! Hover and completion in configurations and prompt layers.

use serde_json::Value;

use crate::client::{Client, applied};
use crate::hints::{complete, labels, opened};

const PIPELINE: &str = r#"digraph triage {
    inputs="reports: text"
    start -> sort -> exit
    sort [agent.task=sort, outputs="urgent: bool"]
}
"#;

const TASK: &str =
    "task:\n  name: sort\n  template: |\n    Sort {{ reports }} for {{ stages.sort.response }}.\n";

fn client() -> Client {
    let mut client = opened(
        &[
            ("triage.dot", PIPELINE),
            ("prompts/tasks/sort.yaml", TASK),
            (
                "prompts/roles/own.yaml",
                "role:\n  name: own\n  description: Mine.\n  system: You are mine.\n",
            ),
            ("prompts/personas/p.yaml", "persona:\n  extends: own\n"),
        ],
        "",
    );
    client.open("prompts/tasks/sort.yaml", TASK);
    client.open("prompts/personas/p.yaml", "persona:\n  extends: own\n");
    client.open("orchestra.yaml", "");
    client
}

/// Returns the text after an item is accepted.
fn accepted(client: &mut Client, name: &str, marked: &str, label: &str) -> String {
    let items = complete(client, name, marked);
    let item = items.iter().find(|item| item["label"] == label);
    let item = item.unwrap_or_else(|| panic!("{label} is not in {:?}", labels(&items)));
    applied(&client.texts[name], std::slice::from_ref(&item["textEdit"]))
}

fn hover(client: &mut Client, name: &str, needle: &str) -> String {
    let params = client.at(name, needle);
    let found = client.request("textDocument/hover", params);
    found["contents"]["value"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_keys_of_a_layer_are_completed() {
    let mut client = client();
    let task = "prompts/tasks/sort.yaml";
    let persona = "prompts/personas/p.yaml";
    for (name, marked, label, expected) in [
        (task, "ta¦", "task", "task:"),
        (task, "task:\n  na¦", "name", "task:\n  name: "),
        (task, "task:\n  name: ¦", "sort", "task:\n  name: sort"),
        (task, "task:\n  tem¦\n", "template", "task:\n  template: |\n"),
        (
            persona,
            "persona:\n  extends: ¦\n",
            "own",
            "persona:\n  extends: own\n",
        ),
        (
            persona,
            "persona:\n  extends: ¦\n",
            "planner",
            "persona:\n  extends: planner\n",
        ),
        (
            persona,
            "persona:\n  ¦\n",
            "modifiers",
            "persona:\n  modifiers: |\n",
        ),
    ] {
        assert_eq!(accepted(&mut client, name, marked, label), expected, "{marked}");
    }
    let items = complete(&mut client, task, "task:\n  name: sort\n  ¦\n  template: x\n");
    assert_eq!(labels(&items), ["description"], "each key once");
}

#[test]
fn the_template_of_a_task_knows_its_pipelines() {
    let mut client = client();
    let task = "prompts/tasks/sort.yaml";
    let with = |tag: &str| TASK.replace("{{ reports }}", tag);
    for (tag, label, expected) in [
        ("{{ re¦ }}", "reports", "{{ reports }}"),
        ("{{ ¦ }}", "urgent", "{{ urgent }}"),
        ("{{ go¦ }}", "goal", "{{ goal }}"),
        ("{{ stages.¦ }}", "stages.sort", "{{ stages.sort }}"),
        (
            "{{ stages.sort.no¦ }}",
            "stages.sort.notes",
            "{{ stages.sort.notes }}",
        ),
        ("{{ reports | up¦ }}", "upper", "{{ reports | upper }}"),
        ("{% i¦ %}", "if", "{% if %}"),
    ] {
        assert_eq!(
            accepted(&mut client, task, &with(tag), label),
            with(expected),
            "{tag}"
        );
        // The names are those of the pipelines that use the task, so it must stay one.
        client.replace(task, TASK);
    }
    assert_eq!(
        complete(&mut client, task, &with("¦")),
        Vec::<Value>::new(),
        "text"
    );
    client.replace(task, TASK);
    let variable = hover(&mut client, task, "reports }}");
    assert!(
        variable.contains("`reports`") && variable.contains("An input of the pipeline: `text`."),
        "{variable}"
    );
    let stage = hover(&mut client, task, "sort.response");
    assert!(
        stage.contains("Of the latest visit of `sort` (model stage)."),
        "{stage}"
    );
    let key = hover(&mut client, task, "template");
    assert!(key.contains("a template in the syntax of Jinja2"), "{key}");
    let base = hover(&mut client, "prompts/personas/p.yaml", "own");
    assert!(
        base.contains("**role** `own` (prompts/roles/own.yaml)") && base.contains("Mine."),
        "{base}"
    );
}

#[test]
fn the_maps_of_the_configuration_offer_names_that_are_not_set() {
    let mut client = client();
    let name = "orchestra.yaml";
    for (marked, label, expected) in [
        ("prov¦", "providers", "providers:"),
        ("providers:\n  ¦", "anthropic", "providers:\n  anthropic:"),
        (
            "providers:\n  anthropic:\n    api_key_e¦",
            "api_key_env",
            "providers:\n  anthropic:\n    api_key_env: ",
        ),
        (
            "providers: {anthropic: {mod¦}}",
            "models",
            "providers: {anthropic: {models: }}",
        ),
        ("pipelines:\n  ¦", "triage", "pipelines:\n  triage:"),
        (
            "pipelines:\n  triage:\n    mod¦",
            "model",
            "pipelines:\n  triage:\n    model: ",
        ),
        (
            "agents:\n  a:\n    mode¦: x",
            "mode",
            "agents:\n  a:\n    mode: x",
        ),
    ] {
        assert_eq!(accepted(&mut client, name, marked, label), expected, "{marked}");
    }
    for (marked, set) in [
        (
            "agents:\n  a:\n    model: x\n    ¦\n    role: y\n",
            &["model", "role"][..],
        ),
        ("agents: {a: {model: x, ¦, role: y}}", &["model", "role"]),
        ("providers:\n  anthropic:\n    models: {}\n  ¦\n", &["anthropic"]),
        ("backend: agent\n¦\n", &["backend"]),
    ] {
        let items = complete(&mut client, name, marked);
        let offered = labels(&items);
        assert!(!offered.is_empty(), "{marked}");
        assert!(
            set.iter().all(|key| !offered.contains(key)),
            "{marked}: {offered:?}"
        );
    }
}
