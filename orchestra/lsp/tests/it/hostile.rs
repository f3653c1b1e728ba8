//! Messages and documents that are wrong in any way: the server answers, and goes on.

use orchestra_lsp::{Ended, UserFolder};
use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{case_count, seed};
use serde_json::{Value, json};

use crate::client::{Client, uri};

const TEXTS: [&str; 4] = [
    "digraph g {\n  inputs=\"a: int\"\n  assert=\"requires(exit, w)\"\n  start -> w -> exit\n  w -> start [condition=\"outcome=fail && context.a > 1\"]\n  w [shape=parallelogram, tool_command=\"echo $A\", tool_env_from.A=a]\n}\n",
    "digraph { start -> f; f [shape=component]; f -> a -> j; f -> b -> j; j [shape=tripleoctagon]; j -> g; g [shape=hexagon]; g -> exit [label=\"[Y] Yes\"]; g -> f [label=No] }",
    "providers:\n  local: {kind: openai-compatible, api_base: \"http://127.0.0.1:1\", models: {m: m}}\nagents:\n  critic: {role: strict, tools: [read-file]}\n",
    "role: |\n  You are {{ node }} and {% if outcome %}x{% endif %}.\n",
];
const NAMES: [&str; 4] = ["a.dot", "b.dot", "orchestra.yaml", "prompts/roles/strict.yaml"];
const METHODS: &[&str] = &[
    "textDocument/hover",
    "textDocument/completion",
    "textDocument/definition",
    "textDocument/references",
    "textDocument/rename",
    "textDocument/prepareRename",
    "textDocument/documentHighlight",
    "textDocument/formatting",
    "textDocument/documentSymbol",
    "textDocument/foldingRange",
    "textDocument/semanticTokens/full",
    "textDocument/codeAction",
    "textDocument/codeLens",
    "workspace/executeCommand",
    "workspace/symbol",
    "completionItem/resolve",
    "$/cancelRequest",
    "no/such",
];

/// Returns a random value of JSON, with the keys of the protocol among others.
fn value(random: &mut Random, depth: usize) -> Value {
    const KEYS: &[&str] = &[
        "textDocument",
        "uri",
        "position",
        "line",
        "character",
        "range",
        "start",
        "end",
        "text",
        "newName",
        "context",
        "diagnostics",
        "command",
        "arguments",
        "contentChanges",
        "version",
        "languageId",
        "x",
    ];
    match random.below(if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => json!(random.chance(50)),
        2 => json!(*random.pick(&[0i64, 1, -1, 7, 4_294_967_295, 4_294_967_296, i64::MAX])),
        3 => json!(*random.pick(&[
            "",
            "file:///",
            "file:///work/a.dot",
            "::",
            "file://%zz",
            "orchestra.preview",
            "\u{0}"
        ])),
        4 => json!(1e300),
        5 => json!({"line": 1, "character": 4}),
        6 => (0..random.below(4)).map(|_| value(random, depth - 1)).collect(),
        _ => {
            let keys: Vec<String> = (0..random.below(5))
                .map(|_| (*random.pick(KEYS)).to_owned())
                .collect();
            Value::Object(
                keys.into_iter()
                    .map(|key| (key, value(random, depth - 1)))
                    .collect(),
            )
        }
    }
}

/// Returns a text with random damage.
fn damaged(random: &mut Random, text: &str) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(6) {
        let at = random.below(characters.len() + 1);
        match random.below(4) {
            0 if at < characters.len() => {
                characters.remove(at);
            }
            1 => characters.truncate(at),
            2 => {
                let from = random.below(characters.len() + 1);
                let piece: Vec<char> = characters
                    .iter()
                    .skip(from)
                    .take(random.below(30))
                    .copied()
                    .collect();
                characters.splice(at..at, piece);
            }
            _ => characters.insert(
                at,
                *random.pick(&[
                    '"', '{', '}', '[', ']', '\\', '\r', '\0', '😀', '=', '-', '\u{feff}', ':', '&', '*',
                ]),
            ),
        }
    }
    characters.into_iter().collect()
}

/// Returns the parameters of a request at a random position of a document.
fn place(random: &mut Random) -> Value {
    let position = json!({"line": random.below(9), "character": random.below(80)});
    let name = *random.pick(&["new", "", "two words", "start", "\""]);
    let command = *random.pick(&["orchestra.preview", "orchestra.limits", ""]);
    let uri = uri(NAMES[random.below(NAMES.len())]);
    json!({
        "textDocument": {"uri": uri}, "position": position, "range": {"start": position, "end": position},
        "context": {"diagnostics": [], "includeDeclaration": true, "triggerKind": 1}, "newName": name,
        "options": {"tabSize": 4, "insertSpaces": true}, "command": command, "arguments": [uri], "query": "",
        "label": "",
    })
}

#[test]
fn hostile_messages_and_documents_do_not_end_the_server() {
    let cases = case_count(1_500);
    let mut random = Random::new(seed(7));
    let mut client = Client::new(&[]);
    for (name, text) in NAMES.iter().zip(TEXTS) {
        client.open(name, text);
    }
    for _ in 0..cases {
        match random.below(8) {
            0 => {
                let body = damaged(
                    &mut random,
                    &json!({"jsonrpc": "2.0", "method": "x", "params": {}}).to_string(),
                );
                client.send_bytes(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
            }
            1 => {
                let header = damaged(&mut random, "Content-Type: x").replace(['\n', '\r'], " ");
                client.send_bytes(format!("X{header}: y\r\n\r\n").as_bytes());
            }
            2 => {
                let method = *random.pick(&[
                    "textDocument/didOpen",
                    "textDocument/didChange",
                    "textDocument/didClose",
                    "textDocument/didSave",
                    "workspace/didChangeWatchedFiles",
                    "workspace/didChangeConfiguration",
                    "initialized",
                    "workspace/didChangeWorkspaceFolders",
                ]);
                let params = value(&mut random, 4);
                client.notify(method, params);
                client.notify(
                    "workspace/didChangeConfiguration",
                    json!({"settings": {"delay": 0}}),
                );
                for (name, text) in NAMES.iter().zip(TEXTS) {
                    if random.chance(20) {
                        client.open(name, text);
                    }
                }
            }
            3 => {
                let method = *random.pick(METHODS);
                let params = value(&mut random, 4);
                client.answer(method, params);
            }
            4 | 5 => {
                let (name, text) = *random.pick(&[0, 1, 2, 3].map(|at| (NAMES[at], TEXTS[at])));
                let text = damaged(&mut random, text);
                client.replace(name, &text);
            }
            _ => {
                let method = *random.pick(METHODS);
                let params = place(&mut random);
                client.answer(method, params);
            }
        }
    }
    // The messages may have changed the settings and closed documents.
    client.notify(
        "workspace/didChangeConfiguration",
        json!({"settings": {"delay": 0}}),
    );
    for (name, text) in NAMES.iter().zip(TEXTS) {
        client.open(name, text);
    }
    let mut fresh = Client::new(&[]);
    for (name, text) in NAMES.iter().zip(TEXTS) {
        fresh.open(name, text);
    }
    client.wait_for_diagnostics("a.dot");
    fresh.wait_for_diagnostics("a.dot");
    for name in NAMES {
        assert_eq!(client.shown(name), fresh.shown(name), "{name}");
    }
    assert_eq!(client.shut_down(), Ended::Exit);
}

#[test]
fn documents_without_bounds_are_refused_and_do_not_end_the_server() {
    let mut client = Client::with(&[], UserFolder::default(), json!({}));
    let deep = format!(
        "digraph {{ {}{} }}",
        "subgraph {".repeat(100_000),
        "}".repeat(100_000)
    );
    let expression = format!(
        "digraph {{ start -> exit [condition=\"{}outcome=x\"] }}",
        "!(".repeat(50_000)
    );
    let many = format!("digraph {{ {} }}", "a -> b;".repeat(100_000));
    let yaml = format!("agents: {}", "[".repeat(50_000));
    let anchors = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c]\n";
    for (name, text) in [
        ("a.dot", deep.as_str()),
        ("a.dot", &expression),
        ("a.dot", &many),
        ("orchestra.yaml", &yaml),
        ("orchestra.yaml", anchors),
    ] {
        client.open(name, text);
        assert!(!client.wait_for_diagnostics(name).is_empty(), "{text:.60}");
    }
    assert_eq!(client.shut_down(), Ended::Exit);
}
