//! Formatting, outline, folding, semantic tokens, code actions, lenses and commands.

use orchestra_lsp::UserFolder;
use serde_json::{Value, json};

use crate::client::{Client, applied, uri};

const TEXT: &str = "// Builds.\n// Then ends.\ndigraph release {\n    goal=\"Ship ä\"\n    subgraph cluster_a {\n        label=\"Loop\"\n        build [shape=parallelogram, tool_command=\"make\",\n            max_retries=3]\n    }\n    start -> build -> exit\n}\n";

fn document() -> Value {
    json!({"textDocument": {"uri": uri("a.dot")}})
}

fn opened(text: &str) -> Client {
    let mut client = Client::new(&[]);
    client.open("a.dot", text);
    client
}

#[test]
fn formatting_is_that_of_the_command_line() {
    let mut client = opened("digraph a{start->exit [ label = \"gö\" ];\r\n}");
    let format = |client: &mut Client| {
        let mut params = document();
        params["options"] = json!({"tabSize": 4, "insertSpaces": true});
        client.request("textDocument/formatting", params)
    };
    let edits = format(&mut client);
    let formatted = applied(&client.texts["a.dot"], edits.as_array().unwrap());
    assert_eq!(
        formatted,
        "digraph a {\r\n    start -> exit [label=\"gö\"]\r\n}\r\n"
    );
    client.replace("a.dot", &formatted);
    assert_eq!(format(&mut client), json!([]));
    client.replace("a.dot", "digraph a { start -> ");
    assert_eq!(format(&mut client), json!([]), "a text with syntax errors stays");
}

#[test]
fn the_outline_has_nodes_and_subgraphs() {
    let mut client = opened(TEXT);
    let symbols = client.request("textDocument/documentSymbol", document());
    assert_eq!(
        (&symbols[0]["name"], &symbols[0]["detail"]),
        (&json!("release"), &json!("Ship ä"))
    );
    let group = &symbols[0]["children"][0];
    assert_eq!(
        (&group["name"], &group["detail"]),
        (&json!("cluster_a"), &json!("Loop"))
    );
    let node = &group["children"][0];
    assert_eq!(
        (&node["name"], &node["detail"]),
        (&json!("build"), &json!("tool"))
    );
    assert_eq!(
        node["selectionRange"]["start"],
        json!({"line": 6, "character": 8})
    );
}

#[test]
fn bodies_long_statements_and_comments_can_be_folded() {
    let mut client = opened(TEXT);
    let folds = client.request("textDocument/foldingRange", document());
    let lines: Vec<_> = folds
        .as_array()
        .unwrap()
        .iter()
        .map(|fold| (fold["startLine"].clone(), fold["endLine"].clone()))
        .collect();
    assert_eq!(
        lines,
        [
            (json!(0), json!(1)),
            (json!(2), json!(10)),
            (json!(4), json!(8)),
            (json!(6), json!(7))
        ]
    );
    assert_eq!(folds[0]["kind"], "comment");
}

#[test]
fn semantic_tokens_cover_the_words_of_the_text() {
    let mut client = opened(TEXT);
    let legend = client.initialized["capabilities"]["semanticTokensProvider"]["legend"]["tokenTypes"].clone();
    let tokens = client.request("textDocument/semanticTokens/full", document());
    let data: Vec<usize> = tokens["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_u64().unwrap() as usize)
        .collect();
    let lines: Vec<&str> = TEXT.lines().collect();
    let (mut line, mut character) = (0, 0);
    let mut words = Vec::new();
    for token in data.chunks(5) {
        character = if token[0] == 0 {
            character + token[1]
        } else {
            token[1]
        };
        line += token[0];
        let word: String = lines[line].chars().skip(character).take(token[2]).collect();
        words.push(format!("{} {word}", legend[token[3]].as_str().unwrap()));
    }
    assert_eq!(
        words[..8],
        [
            "comment // Builds.",
            "comment // Then ends.",
            "keyword digraph",
            "namespace release",
            "property goal",
            "string \"Ship ä\"",
            "keyword subgraph",
            "namespace cluster_a",
        ]
    );
    assert!(
        words.contains(&"function build".to_owned()) && words.contains(&"number 3".to_owned()),
        "{words:?}"
    );
}

#[test]
fn a_fix_of_a_diagnostic_is_a_code_action() {
    let mut client = opened("strict digraph { start -> work -> exit; work [lable=\"Build\"] }");
    let actions = |client: &Client, needle: &str| {
        let mut params = client.at("a.dot", needle);
        let position = params["position"].take();
        params["range"] = json!({"start": position, "end": position});
        params["context"] = json!({"diagnostics": []});
        params
    };
    let params = actions(&client, "strict");
    let list = client.request("textDocument/codeAction", params);
    assert_eq!(
        (&list[0]["kind"], &list[0]["title"]),
        (&json!("quickfix"), &json!("remove `strict`"))
    );
    let edits = list[0]["edit"]["changes"][uri("a.dot")]
        .as_array()
        .unwrap()
        .clone();
    let fixed = applied(&client.texts["a.dot"], &edits);
    assert!(fixed.starts_with("digraph {"), "{fixed}");
    assert_eq!(list[0]["diagnostics"][0]["range"]["start"]["character"], 0);
    let params = actions(&client, "start");
    assert_eq!(
        client.request("textDocument/codeAction", params),
        json!([]),
        "a hint in prose is no action"
    );
}

#[test]
fn lenses_and_commands_show_limits_and_a_picture() {
    let mut client = opened(TEXT);
    let lenses = client.request("textDocument/codeLens", document());
    assert_eq!(lenses[0]["command"]["command"], "orchestra.limits");
    let execute = |command: &str, name: &str| json!({"command": command, "arguments": [uri(name)]});
    let text = client.request("workspace/executeCommand", execute("orchestra.limits", "a.dot"));
    assert!(
        text.as_str().unwrap().contains("build: at most 1 visit"),
        "{text}"
    );
    assert_eq!(client.received.last().unwrap()["params"]["message"], text);
    let picture = client.request("workspace/executeCommand", execute("orchestra.preview", "a.dot"));
    assert!(picture["svg"].as_str().unwrap().contains("<svg"));
    let missing = client.answer("workspace/executeCommand", execute("orchestra.preview", "b.dot"));
    assert!(
        missing["error"]["message"]
            .as_str()
            .unwrap()
            .contains("not an open pipeline")
    );
    let params = json!({"initializationOptions": {"terminal": true}});
    let mut client = Client::with(&[], UserFolder::default(), params);
    client.open("a.dot", TEXT);
    let lenses = client.request("textDocument/codeLens", document());
    assert_eq!(
        lenses[0]["command"]["arguments"],
        json!([{"folder": "/work", "arguments": ["run", "--simulate", "a.dot"]}])
    );
}
