//! The rules of ARCHITECTURE.md: the allowed dependencies of each crate, and forbidden uses of files, clock and
//! environment.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The allowed dependencies of each crate. A new dependency is a decision, so it must be added here too.
const ALLOWED: &[(&str, &[&str])] = &[
    (
        "orchestra-graph",
        &[
            "annotate-snippets",
            "regex-lite",
            "serde",
            "serde_json",
            "smol_str",
        ],
    ),
    (
        "orchestra-codegen",
        &[
            "orchestra-config",
            "orchestra-graph",
            "proc-macro2",
            "quote",
            "serde_json",
            "syn",
            "unicode-ident",
        ],
    ),
    ("orchestra-macros", &["orchestra-codegen", "proc-macro2"]),
    (
        "orchestra-core",
        &["orchestra-graph", "rpds", "serde", "serde_json"],
    ),
    (
        "orchestra-engine",
        &[
            "aho-corasick",
            "base64",
            "crc32fast",
            "futures-core",
            "futures-util",
            "libc",
            "orchestra-core",
            "orchestra-graph",
            "process-wrap",
            "rustix",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
            "tokio",
            "tokio-util",
            "tracing",
        ],
    ),
    (
        "orchestra-config",
        &[
            "minijinja",
            "orchestra-graph",
            "schemars",
            "serde",
            "serde-saphyr",
            "serde_json",
        ],
    ),
    (
        "orchestra-agent",
        &[
            "cap-std",
            "cap-tempfile",
            "futures-util",
            "globset",
            "grep-matcher",
            "grep-regex",
            "grep-searcher",
            "ignore",
            "httpdate",
            "rustix",
            "orchestra-config",
            "orchestra-engine",
            "orchestra-graph",
            "reqwest",
            "rustls",
            "schemars",
            "secrecy",
            "serde",
            "serde_json",
            "thiserror",
            "tiktoken-rs",
            "tokio",
            "tokio-util",
            "tracing",
        ],
    ),
    (
        "orchestra-picture",
        &["ascii-dag", "dagre", "orchestra-graph", "thiserror"],
    ),
    (
        "orchestra-sessions",
        &[
            "orchestra-engine",
            "orchestra-graph",
            "rusqlite",
            "serde",
            "serde_json",
            "thiserror",
        ],
    ),
    (
        "orchestra-testkit",
        &[
            "orchestra-engine",
            "orchestra-graph",
            "serde",
            "serde-saphyr",
            "serde_json",
            "thiserror",
            "tokio",
        ],
    ),
    (
        "orchestra-workspace",
        &[
            "orchestra-engine",
            "orchestra-graph",
            "rustix",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the packages of the workspace, as cargo describes them.
fn packages() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Returns the direct dependencies of each package of the workspace, without those of its tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    packages()
        .iter()
        .map(|package| {
            let all = package["dependencies"].as_array().unwrap().iter();
            let normal = all.filter(|dependency| dependency["kind"].is_null());
            (
                text(&package["name"]),
                normal.map(|dependency| text(&dependency["name"])).collect(),
            )
        })
        .collect()
}

#[test]
fn crates_depend_only_on_what_they_may() {
    let dependencies = dependencies();
    for (name, allowed) in ALLOWED {
        let found = &dependencies[*name];
        let beyond: Vec<&String> = found
            .iter()
            .filter(|dependency| !allowed.contains(&dependency.as_str()))
            .collect();
        assert!(beyond.is_empty(), "{name} may not depend on {beyond:?}");
    }
}

#[test]
fn the_fake_clock_stays_in_tests() {
    let mut users = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let features = dependency["features"].as_array().unwrap();
            let asks = |feature: &str| features.iter().any(|known| known == feature);
            let paused = match dependency["name"].as_str().unwrap() {
                "tokio" => asks("test-util"),
                "orchestra-testkit" => asks("simulation") || dependency["uses_default_features"] == true,
                _ => false,
            };
            // Programs enable the facade's `testkit` through an optional dependency.
            if paused && dependency["kind"].is_null() && dependency["optional"] == false {
                users.push(name.to_owned());
            }
        }
    }
    assert!(users.is_empty(), "tokio's test mode is built into {users:?}");
}

#[test]
fn pure_crates_use_neither_files_nor_clock_nor_environment() {
    let forbidden = [
        "std::fs",
        "std::env",
        "std::process",
        "std::time::Instant",
        "SystemTime",
        "std::thread",
        "std::net",
    ];
    for name in ["graph", "core", "config"] {
        for file in sources(&root().join("orchestra").join(name).join("src")) {
            let text = std::fs::read_to_string(&file).unwrap();
            for word in forbidden {
                let line = text
                    .lines()
                    .position(|line| line.contains(word) && !line.trim_start().starts_with("//"));
                assert!(
                    line.is_none(),
                    "{}:{} mentions {word}",
                    file.display(),
                    line.unwrap_or(0) + 1
                );
            }
        }
    }
}

#[test]
fn the_engine_asks_its_clock_for_the_time() {
    let engine = root().join("orchestra/engine/src");
    for file in sources(&engine) {
        let inside = file.strip_prefix(&engine).unwrap();
        // A tool process is bounded by the real clock, even in a test with a fake one. The same holds for other
        // processes that query a run. Tests are exempt.
        let asks = inside == Path::new("clock.rs") || inside.ends_with("tests.rs");
        if asks || inside.starts_with("process") || inside == Path::new("control/server.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        for word in ["Instant::now", "SystemTime::now", "time::sleep", "time::timeout"] {
            assert!(
                !text.contains(word),
                "{} uses {word} instead of `Clock`",
                file.display()
            );
        }
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files
}
