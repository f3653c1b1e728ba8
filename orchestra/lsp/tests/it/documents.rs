//! Diagnostics of documents.

use serde_json::json;

use crate::client::{Client, uri};

const BROKEN: &str =
    "digraph {\n    start -> wrok\n    work -> exit\n    start -> work\n    work [label=Work]\n}\n";

#[test]
fn a_pipeline_is_checked_while_it_is_typed() {
    let mut client = Client::new(&[]);
    client.open("a.dot", BROKEN);
    assert_eq!(
        client.wait_for_diagnostics("a.dot"),
        ["1 edge_target_exists: edge points to unknown node `wrok`"]
    );
    let diagnostic = &client.diagnostics[&uri("a.dot")][0];
    assert_eq!(diagnostic["severity"], 1);
    assert_eq!(diagnostic["source"], "orchestra");
    assert_eq!(
        diagnostic["range"],
        json!({"start": {"line": 1, "character": 13}, "end": {"line": 1, "character": 17}})
    );
    assert!(
        diagnostic["message"]
            .as_str()
            .unwrap()
            .contains("help: did you mean `work`?")
    );
    let line = json!({"start": {"line": 1, "character": 0}, "end": {"line": 2, "character": 0}});
    client.change("a.dot", json!([{"range": line, "text": ""}]));
    assert_eq!(client.wait_for_diagnostics("a.dot"), [""; 0]);
    client.close("a.dot");
}

#[test]
fn a_child_pipeline_and_its_parent_are_checked_together() {
    let parent = "digraph { start -> lint -> exit; lint [shape=folder, subpipeline.file=\"lint.dot\"] }";
    let mut client = Client::new(&[("flows/lint.dot", "digraph { start -> exit }")]);
    client.open("flows/a.dot", parent);
    assert_eq!(client.wait_for_diagnostics("flows/a.dot"), [""; 0]);
    client.write("flows/lint.dot", "digraph {\n start -> }");
    let found = client.wait_for_diagnostics("flows/a.dot");
    assert!(
        found.len() == 1 && found[0].starts_with("0 child_invalid"),
        "{found:?}"
    );
    assert!(
        client.shown("flows/lint.dot")[0].starts_with("1 "),
        "the child is shown though it is not open"
    );
    // The text in the editor counts, not the one on disk.
    client.open("flows/lint.dot", "digraph { start -> exit }");
    assert_eq!(client.wait_for_diagnostics("flows/a.dot"), [""; 0]);
    client.close("flows/lint.dot");
    assert!(client.wait_for_diagnostics("flows/a.dot")[0].contains("child_invalid"));
    client.close("flows/a.dot");
    assert_eq!(
        client.wait_for_diagnostics("flows/lint.dot"),
        [""; 0],
        "nothing open needs it"
    );
}

const CONFIGURATION: &str = "providers:\n  local: {kind: openai-compatible, api_base: \"http://127.0.0.1:1\", models: {m: m}}\nagents:\n  critic: {role: strict}\n";
const AGENT: &str = "digraph { start -> review -> exit; review [agent=critic, prompt=\"Review it.\"] }";

#[test]
fn a_configuration_and_its_layers_are_checked_with_the_pipelines_that_use_them() {
    let mut client = Client::new(&[("orchestra.yaml", CONFIGURATION), ("flows/a.dot", AGENT)]);
    client.open("flows/a.dot", AGENT);
    let found = client.wait_for_diagnostics("flows/a.dot");
    assert!(
        client
            .shown("orchestra.yaml")
            .iter()
            .any(|line| line.contains("strict")),
        "{found:?} {:?}",
        client.diagnostics
    );
    client.close("flows/a.dot");
    assert_eq!(client.wait_for_diagnostics("orchestra.yaml"), [""; 0]);
    // The pipeline is not open, but the configuration is.
    client.open("orchestra.yaml", CONFIGURATION);
    let found = client.wait_for_diagnostics("orchestra.yaml");
    assert!(found.iter().any(|line| line.contains("strict")), "{found:?}");
    client.replace("orchestra.yaml", "agents: {critic: {rol: x}}\n");
    let found = client.wait_for_diagnostics("orchestra.yaml");
    assert!(
        found[0].starts_with("0 ") && found[0].contains("rol"),
        "{found:?}"
    );
    client.open(
        "prompts/roles/strict.yaml",
        "role: |\n  You are strict {{ nonsense }}.\n",
    );
    client.replace("orchestra.yaml", CONFIGURATION);
    let found = client.wait_for_diagnostics("orchestra.yaml");
    assert!(
        !found.iter().any(|line| line.contains("strict")),
        "the layer is there now: {found:?}"
    );
}

#[test]
fn settings_of_the_client_silence_and_sharpen_diagnostics() {
    let text = "digraph { start -> work -> exit; work [lable=Build] }";
    let with = |mut options: serde_json::Value| {
        options["delay"] = json!(0);
        let params = json!({"initializationOptions": options});
        let mut client = Client::with(&[], orchestra_lsp::UserFolder::default(), params);
        client.open("a.dot", text);
        client.wait_for_diagnostics("a.dot");
        client.diagnostics.remove(&uri("a.dot")).unwrap_or_default()
    };
    let severity = |list: &[serde_json::Value]| {
        let mut codes = list
            .iter()
            .filter(|diagnostic| diagnostic["code"] == "unknown_attribute");
        codes.next().map(|diagnostic| diagnostic["severity"].clone())
    };
    assert_eq!(severity(&with(json!({}))), Some(json!(2)));
    assert_eq!(
        severity(&with(json!({"deny": ["unknown_attribute"]}))),
        Some(json!(1))
    );
    assert_eq!(severity(&with(json!({"allow": ["unknown_attribute"]}))), None);
}

#[test]
fn a_document_that_was_never_saved_is_checked() {
    let mut client = Client::new(&[]);
    let document = json!({"uri": "untitled:Untitled-1", "languageId": "dot", "version": 1, "text": BROKEN});
    client.notify("textDocument/didOpen", json!({"textDocument": document}));
    client.wait_for_diagnostics("a.dot");
    assert_eq!(client.diagnostics["untitled:Untitled-1"].len(), 1);
}

#[test]
fn an_editor_that_waits_gets_the_diagnostics_after_the_delay() {
    let params = json!({"initializationOptions": {"orchestra": {"delay": 20}}});
    let mut client = Client::with(&[], orchestra_lsp::UserFolder::default(), params);
    client.open("a.dot", "digraph { start -> ");
    client.replace("a.dot", BROKEN);
    client.receive();
    assert_eq!(
        client.shown("a.dot").len(),
        1,
        "the first text was never analysed"
    );
    let settings = json!({"settings": {"orchestra": {"delay": 20, "allow": ["warnings"]}}});
    client.notify("workspace/didChangeConfiguration", settings);
    client.replace("a.dot", "digraph { start -> exit }");
    client.receive();
    assert_eq!(client.shown("a.dot"), [""; 0]);
}
