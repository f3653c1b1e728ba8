//! The licences of all dependencies, and where they come from.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{metadata, root};

/// Returns the platform of the compiler. The packages of other platforms may not have been downloaded.
fn platform() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.unwrap().to_owned()
}

/// Returns the licences that `deny.toml` allows.
fn allowed_licences() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let (_, rest) = text.split_once("[licenses]\nallow = [").unwrap();
    let (list, _) = rest.split_once(']').unwrap();
    let quoted = list.split('"').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

/// Returns whether a licence expression of a manifest can be met by the allowed licences.
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    // The order of precedence is WITH, AND, OR; `/` is an old spelling of OR.
    let expression = expression.replace('/', " OR ").replace(" WITH ", "+with+");
    let expression = expression.replace('(', " ( ").replace(')', " ) ");
    let mut words: Vec<&str> = expression.split_whitespace().rev().collect();
    let met = any_of(&mut words, allowed);
    met && words.is_empty()
}

fn any_of(words: &mut Vec<&str>, allowed: &BTreeSet<String>) -> bool {
    let mut met = all_of(words, allowed);
    while words.pop_if(|word| *word == "OR").is_some() {
        met |= all_of(words, allowed);
    }
    met
}

fn all_of(words: &mut Vec<&str>, allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, allowed);
    while words.pop_if(|word| *word == "AND").is_some() {
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut Vec<&str>, allowed: &BTreeSet<String>) -> bool {
    match words.pop() {
        Some("(") => {
            let met = any_of(words, allowed);
            words.pop() == Some(")") && met
        }
        Some(licence) => allowed.contains(&licence.replace("+with+", " WITH ")),
        None => false,
    }
}

/// Returns the licence expression of a package. A few packages only have a file with the text of their licence.
fn licence(package: &Value) -> String {
    if let Some(expression) = package["license"].as_str() {
        return expression.to_owned();
    }
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    let file = manifest.with_file_name(package["license_file"].as_str().unwrap_or("LICENSE"));
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mit = text.trim_start().starts_with("MIT License");
    if mit { "MIT".to_owned() } else { String::new() }
}

#[test]
fn each_dependency_has_an_allowed_licence_and_comes_from_the_registry() {
    let allowed = allowed_licences();
    assert!(is_met("(GPL-3.0 OR MIT) AND Unicode-3.0", &allowed));
    assert!(!is_met("MIT AND GPL-3.0", &allowed) && !is_met("", &allowed));
    let packages = metadata(&["--filter-platform", &platform()]);
    assert!(packages.len() > 100);
    for package in &packages {
        let (name, licence) = (&package["name"], licence(package));
        assert!(
            is_met(&licence, &allowed),
            "{name} has the licence {licence:?}, which deny.toml does not allow"
        );
        let registry = package["source"]
            .as_str()
            .is_none_or(|source| source.starts_with("registry+"));
        assert!(registry, "{name} comes from {}", package["source"]);
    }
}
