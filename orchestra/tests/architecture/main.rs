//! The rules of ARCHITECTURE.md: the allowed dependencies of each crate and their licences (`deny.toml`), forbidden
//! uses of files, clock and environment, and the length of files.

#![allow(clippy::unwrap_used, clippy::panic)]

mod licences;

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
            "anstyle",
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
            "orchestra-picture",
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
        &[
            "orchestra-graph",
            "rand_xoshiro",
            "rpds",
            "schemars",
            "serde",
            "serde_json",
        ],
    ),
    (
        "orchestra-engine",
        &[
            "aho-corasick",
            "base64",
            "crc32fast",
            "futures-core",
            "futures-util",
            "getrandom",
            "libc",
            "memchr",
            "orchestra-core",
            "orchestra-graph",
            "process-wrap",
            "rand_xoshiro",
            "rustix",
            "schemars",
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
            "smallvec",
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
            "miniz_oxide",
            "rustix",
            "orchestra-config",
            "orchestra-engine",
            "orchestra-graph",
            "reqwest",
            "rustc-hash",
            "rustls",
            "schemars",
            "secrecy",
            "serde",
            "serde_json",
            "similar",
            "thiserror",
            "tiktoken-rs",
            "tokio",
            "tokio-util",
            "tracing",
        ],
    ),
    (
        "orchestra-mcp",
        &[
            "orchestra-agent",
            "orchestra-config",
            "orchestra-engine",
            "orchestra-graph",
            "reqwest",
            "rmcp",
            "serde_json",
            "sha2",
            "thiserror",
            "tokio",
            "tracing",
        ],
    ),
    (
        "orchestra-lsp",
        &[
            "lsp-server",
            "lsp-types",
            "orchestra-config",
            "orchestra-graph",
            "orchestra-picture",
            "percent-encoding",
            "proc-macro2",
            "serde",
            "serde_json",
            "thiserror",
        ],
    ),
    (
        "orchestra-picture",
        &[
            "ascii-dag",
            "dagre",
            "graphviz-rust",
            "orchestra-graph",
            "schemars",
            "serde",
            "thiserror",
        ],
    ),
    (
        "orchestra-sessions",
        &[
            "orchestra-engine",
            "orchestra-graph",
            "rusqlite",
            "schemars",
            "serde",
            "serde_json",
            "similar",
            "thiserror",
        ],
    ),
    (
        "orchestra-server",
        &[
            "axum",
            "bytes",
            "cap-fs-ext",
            "cap-std",
            "crc32fast",
            "form_urlencoded",
            "futures-util",
            "getrandom",
            "hmac",
            "http-body-util",
            "hyper",
            "hyper-util",
            "orchestra-engine",
            "orchestra-graph",
            "orchestra-picture",
            "orchestra-sessions",
            "orchestra-stations",
            "orchestra-workspace",
            "schemars",
            "serde",
            "serde_json",
            "sha2",
            "subtle",
            "thiserror",
            "tokio",
            "tower-service",
            "utoipa",
            "utoipa-axum",
        ],
    ),
    (
        "orchestra-restate",
        &[
            "bytes",
            "futures-util",
            "getrandom",
            "hyper",
            "hyper-util",
            "object_store",
            "orchestra-core",
            "orchestra-engine",
            "orchestra-graph",
            "percent-encoding",
            "reqwest",
            "restate-sdk",
            "rustix",
            "rustls",
            "serde",
            "serde_json",
            "sha2",
            "socket2",
            "thiserror",
            "tokio",
            "tokio-util",
            "tracing",
        ],
    ),
    (
        "orchestra-stations",
        &[
            "getrandom",
            "orchestra-graph",
            "rusqlite",
            "schemars",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
        ],
    ),
    (
        "orchestra-telemetry",
        &[
            "opentelemetry",
            "opentelemetry-otlp",
            "opentelemetry_sdk",
            "orchestra-engine",
            "reqwest",
            "rustls",
            "sha2",
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
            "schemars",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
        ],
    ),
];

/// The largest number of lines of a Rust file.
const MAX_LINES: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the packages of the workspace, as cargo describes them.
fn packages() -> Vec<Value> {
    metadata(&["--no-deps"])
}

/// Returns the packages that `cargo metadata` lists.
fn metadata(arguments: &[&str]) -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    let failed = || panic!("{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| failed());
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

/// Macros and programs, or two programs, that select different features of a crate build it twice, and with it every crate
/// that depends on it.
#[test]
fn no_crate_is_built_twice_because_of_its_features() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Without a platform, cargo shows the features of macros and programs together.
    let output = Command::new(cargo)
        .args(["tree", "--workspace", "--offline", "--no-dedupe"])
        .args(["--target=host-tuple", "--edges=normal,build", "--prefix=none"])
        .args(["--format", "{p}|{f}|"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut features: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in lines.lines() {
        let mut columns = line.split('|');
        if let (Some(package), Some(selected)) = (columns.next(), columns.next()) {
            features.entry(package).or_default().insert(selected);
        }
    }
    let names = |name: &str| features.keys().any(|package| package.starts_with(name));
    assert!(names("smallvec ") && names("orchestra-config "));
    // The parser generator of a test crate needs `libc` with fewer features; it is built in a second, and no other crate is
    // built twice because of it.
    features.retain(|package, selected| selected.len() > 1 && !package.starts_with("libc "));
    assert!(features.is_empty(), "{features:#?}");
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

#[test]
fn targets_whose_tests_are_switched_off_have_none() {
    for package in packages() {
        let folder = |target: &Value| {
            let main = Path::new(target["src_path"].as_str().unwrap());
            main.parent().unwrap().to_owned()
        };
        let targets = package["targets"].as_array().unwrap();
        let is_tested = |wanted: &Path| {
            let mut there = targets.iter().filter(|target| folder(target) == wanted);
            there.any(|target| target["test"] == true)
        };
        for target in targets {
            let folder = folder(target);
            if is_tested(&folder) {
                continue;
            }
            for file in sources(&folder) {
                if file.starts_with(folder.join("tests")) {
                    continue;
                }
                let text = std::fs::read_to_string(&file).unwrap();
                let line = text.lines().position(|line| {
                    let line = line.trim_start();
                    line.starts_with("#[test]") || line.starts_with("#[tokio::test")
                });
                assert!(
                    line.is_none(),
                    "{}:{} has a test, but `test = false` in the manifest of {} switches it off",
                    file.display(),
                    line.unwrap_or(0) + 1,
                    package["name"]
                );
            }
        }
    }
}

#[test]
fn no_source_file_is_longer_than_600_lines() {
    let mut long = Vec::new();
    for file in sources(&root()) {
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        if lines > MAX_LINES {
            long.push(format!("{}: {lines} lines", file.display()));
        }
    }
    long.sort();
    assert!(
        long.is_empty(),
        "files longer than {MAX_LINES} lines; split each by topic into modules (a test program becomes a folder \
         with a `main.rs`, so that it keeps its name), and update the paths in documents:\n{}",
        long.join("\n")
    );
}

/// Returns the Rust files below a folder, without those that a build or a run of the program leaves.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let name = path.file_name().unwrap().to_string_lossy();
            if name != "target" && !name.starts_with('.') {
                files.extend(sources(&path));
            }
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files
}
