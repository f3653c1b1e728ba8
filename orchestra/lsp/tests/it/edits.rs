//! Any sequence of edits gives the diagnostics of a fresh load.

use std::collections::BTreeMap;

use orchestra_oracle_tests::random::Random;
use orchestra_oracle_tests::{case_count, seed};
use serde_json::{Value, json};

use crate::client::{Client, applied};

const PARENT: &str = "digraph {\r\n    inputs=\"pr: text\"\n    start -> lint -> review -> exit\n    lint [shape=folder, subpipeline.file=\"child.dot\"]\n    review [agent=critic, prompt=\"Schön 😀: {{ pr }}\"]\n}\n";
const CHILD: &str =
    "digraph {\n    start -> make -> exit\n    make [shape=parallelogram, tool_command=\"make\"]\n}\n";
const CONFIGURATION: &str = "agents:\n  critic: {role: strict}\n";
const LAYER: &str = "role: |\n  You are strict.\n";
const FILES: [(&str, &str); 4] = [
    ("flows/parent.dot", PARENT),
    ("flows/child.dot", CHILD),
    ("orchestra.yaml", CONFIGURATION),
    ("prompts/roles/strict.yaml", LAYER),
];

/// Pieces that are typed.
const TYPED: &[&str] = &[
    "",
    "",
    "\n",
    "\r\n",
    "\"",
    "{",
    "}",
    "[",
    "]",
    "->",
    "ä",
    "😀",
    "=",
    "start",
    "review",
    " x -> y ",
    "child.dot",
    "critic",
    "role",
    "label=\"a\"",
    "# ",
    "/* ",
    "{{ ",
    " }}",
    ":",
    "  ",
    "exit",
];

/// Returns a random edit of a text, as a change of the protocol.
fn edit(random: &mut Random, text: &str) -> Value {
    let position = |random: &mut Random| {
        let lines: Vec<&str> = text.split('\n').collect();
        let line = random.below(lines.len());
        let units = lines[line].trim_end_matches('\r').encode_utf16().count();
        (line, random.below(units + 1))
    };
    let start = position(random);
    // Most edits are short; some replace several lines.
    let end = if random.chance(20) {
        position(random).max(start)
    } else {
        start
    };
    let end = if random.chance(40) {
        (end.0, end.1 + random.below(6))
    } else {
        end
    };
    let [start, end] = [start, end].map(|(line, character)| json!({"line": line, "character": character}));
    json!({"range": {"start": start, "end": end}, "text": random.pick(TYPED)})
}

/// Returns the diagnostics that a client has, without files that have none.
fn diagnostics(client: &Client) -> BTreeMap<String, Vec<Value>> {
    let all = client.diagnostics.iter().filter(|(_, list)| !list.is_empty());
    all.map(|(uri, list)| (uri.clone(), list.clone())).collect()
}

#[test]
fn any_sequence_of_edits_gives_the_diagnostics_of_a_fresh_load() {
    let mut random = Random::new(seed(1));
    for case in 0..case_count(40) {
        let mut disk: BTreeMap<&str, String> = FILES
            .iter()
            .map(|(name, text)| (*name, (*text).to_owned()))
            .collect();
        let mut client = Client::new(&FILES);
        for step in 0..12 {
            let (name, original) = *random.pick(&FILES);
            match client.texts.get(name).cloned() {
                None if random.chance(30) => {
                    let texts = [original, "digraph { start -> exit }", ""];
                    let text = texts[random.below(3)];
                    client.write(name, text);
                    disk.insert(name, text.to_owned());
                }
                None => client.open(name, &disk[name].clone()),
                Some(_) if random.chance(10) => client.close(name),
                Some(text) if random.chance(15) => {
                    client.replace(name, if random.chance(50) { original } else { &text });
                }
                Some(text) => {
                    let first = edit(&mut random, &text);
                    let text = applied(&text, std::slice::from_ref(&first));
                    let second = edit(&mut random, &text);
                    client
                        .texts
                        .insert(name.to_owned(), applied(&text, std::slice::from_ref(&second)));
                    client.change(name, json!([first, second]));
                }
            }
            client.wait_for_diagnostics(name);
            if step % 4 != 3 {
                continue;
            }
            let files: Vec<(&str, &str)> = disk.iter().map(|(name, text)| (*name, text.as_str())).collect();
            let mut fresh = Client::new(&files);
            for (name, text) in client.texts.clone() {
                fresh.open(&name, &text);
            }
            fresh.wait_for_diagnostics(name);
            let texts = &client.texts;
            assert_eq!(
                diagnostics(&client),
                diagnostics(&fresh),
                "case {case}, step {step}: {texts:#?}"
            );
        }
    }
}
