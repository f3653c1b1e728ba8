//! Hover and completion.

mod completion;
mod examples;
mod hover;
mod layers;
mod places;

use orchestra_lsp::UserFolder;
use serde_json::{Value, json};

use crate::client::Client;

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

/// Completes at the mark `¦` of a text.
fn complete(client: &mut Client, name: &str, marked: &str) -> Vec<Value> {
    let offset = marked.find('¦').expect("a mark");
    client.replace(name, &marked.replacen('¦', "", 1));
    complete_at(client, name, offset)
}

/// Completes at a byte offset of a document.
fn complete_at(client: &mut Client, name: &str, offset: usize) -> Vec<Value> {
    let before = &client.texts[name][..offset];
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
    for number in ["$0", "$1", "$2", "$3"] {
        result = result.replace(number, "");
    }
    result
}
