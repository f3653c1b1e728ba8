//! Hover and completion at the positions of all examples.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use orchestra_graph::{Source, load};
use orchestra_oracle_tests::case_count;
use serde_json::{Value, json};

use crate::client::{Client, applied};
use crate::hints::{complete, complete_at, expanded, opened};

/// The kinds of items in the protocol.
const SNIPPET: u64 = 15;
const OPERATOR: u64 = 24;

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

/// The codes of diagnostics by which the checks refuse an attribute, a value or a name.
const REFUSALS: &[&str] = &[
    "assertion_syntax",
    "assertion_unknown_name",
    "attribute_type",
    "attribute_without_effect",
    "condition_syntax",
    "condition_type",
    "conflicting_aliases",
    "contract_syntax",
    "edge_target_exists",
    "exit_no_outgoing",
    "fidelity_valid",
    "foreign_context_key",
    "ignored_condition",
    "join_policy_unused",
    "maybe_unset",
    "output_conflict",
    "prompt_file",
    "retry_target_exists",
    "routing_dialect",
    "start_no_incoming",
    "stylesheet_syntax",
    "syntax_error",
    "thread_id_without_full_fidelity",
    "tool_env_name",
    "type_known",
    "unknown_attribute",
    "unknown_default_choice",
    "unknown_outcome",
    "unquoted_value",
    "unset_key",
];

/// Returns the codes of the refusals in a text that touch a part of it, and those of a second start or exit.
fn refusals(text: &str, part: Range<usize>) -> BTreeMap<&'static str, usize> {
    let report = load(Source::new("a.dot", text), &Default::default()).report;
    let mut found = BTreeMap::new();
    for diagnostic in &report.diagnostics {
        let is_second = diagnostic.message.contains("is a second ");
        let touches =
            diagnostic.span.start as usize <= part.end && part.start <= diagnostic.span.end as usize;
        if REFUSALS.contains(&diagnostic.code) && touches || is_second {
            *found.entry(diagnostic.code).or_default() += 1;
        }
    }
    found
}

/// Accepts the first items at offsets of a pipeline. Returns how many, and those that the checks refuse.
fn accept_all(text: &str) -> (usize, BTreeSet<String>) {
    let mut client = opened(&[], text);
    let mut seen: HashSet<String> = HashSet::new();
    let mut refused = BTreeSet::new();
    // All offsets take minutes: `ORACLE_CASES=10000` tries them.
    let step = if case_count(1) > 1 { 1 } else { 5 };
    for offset in (0..=text.len())
        .step_by(step)
        .filter(|offset| text.is_char_boundary(*offset))
    {
        let mut items = complete_at(&mut client, "a.dot", offset);
        items.sort_by_key(|item| item["sortText"].as_str().unwrap().to_owned());
        for item in items.iter().take(10) {
            let kind = item["kind"].as_u64();
            // A snippet names nodes that the user adds, after an operator a condition goes on, and the last ranks are for
            // what is described as having no effect.
            let is_last = item["sortText"].as_str().unwrap() >= "6";
            if kind == Some(SNIPPET) || kind == Some(OPERATOR) || is_last {
                continue;
            }
            let edit = &item["textEdit"];
            let changed = expanded(&applied(text, std::slice::from_ref(edit)));
            if !seen.insert(changed.clone()) {
                continue;
            }
            let start = offset - between(edit, offset, text);
            let replaced =
                text.len() - (applied(text, &[json!({"range": edit["range"], "newText": ""})]).len());
            let inserted = changed.len() + replaced - text.len();
            let before = refusals(text, start..start + replaced);
            for (code, count) in refusals(&changed, start..start + inserted) {
                if count > before.get(code).copied().unwrap_or_default() {
                    let line = text[..offset]
                        .rsplit('\n')
                        .next()
                        .unwrap_or_default()
                        .trim_start();
                    let rest = text[offset..].lines().next().unwrap_or_default();
                    refused.insert(format!("{code}: {} in {line}¦{rest}", item["label"]));
                }
            }
        }
    }
    (seen.len(), refused)
}

/// Returns the number of bytes from the begin of an edit to an offset in the same line.
fn between(edit: &Value, offset: usize, text: &str) -> usize {
    let begin = edit["range"]["start"]["character"].as_u64().unwrap() as usize;
    let line = text[..offset].rsplit('\n').next().unwrap_or_default();
    let before: String = String::from_utf16(&line.encode_utf16().take(begin).collect::<Vec<u16>>()).unwrap();
    line.len() - before.len()
}

#[test]
fn no_accepted_item_is_refused_by_the_checks() {
    let texts = examples();
    let half = texts.len() / 2;
    let run = |texts: &[String]| -> Vec<(usize, BTreeSet<String>)> {
        texts.iter().map(|text| accept_all(text)).collect()
    };
    let results = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(&texts[half..]));
        let mut results = run(&texts[..half]);
        results.extend(other.join().unwrap());
        results
    });
    let accepted: usize = results.iter().map(|(accepted, _)| accepted).sum();
    let refused: Vec<String> = results.into_iter().flat_map(|(_, refused)| refused).collect();
    assert!(
        refused.is_empty(),
        "{} of {accepted}\n{}",
        refused.len(),
        refused.join("\n")
    );
    assert!(accepted > 2_000, "{accepted}");
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
