//! Hover and completion at the positions of all examples.

use std::path::{Path, PathBuf};

use orchestra_graph::{Source, load};
use serde_json::json;

use crate::client::{Client, applied};
use crate::hints::{complete, expanded, opened};

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
