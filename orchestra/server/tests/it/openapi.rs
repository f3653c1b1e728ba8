//! The description of the API.

use std::path::Path;

use serde_json::Value;

use crate::support::TestServer;

const METHODS: [&str; 5] = ["get", "post", "put", "delete", "patch"];

/// Calls a function with each operation.
fn each_operation(mut act: impl FnMut(&str, &Value)) {
    let paths = orchestra_server::description()["paths"]
        .as_object()
        .expect("paths");
    for (path, item) in paths {
        for (method, operation) in item.as_object().expect("operations") {
            assert!(METHODS.contains(&method.as_str()), "{path} {method}");
            act(&format!("{method} {path}"), operation);
        }
    }
}

/// `UPDATE=1` writes the file.
#[test]
fn the_description_is_the_file_in_the_repository() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let text = serde_json::to_string_pretty(orchestra_server::description()).expect("JSON") + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("a file that can be written");
    }
    let file = std::fs::read_to_string(&path).expect("`openapi.json`; write it with `UPDATE=1`");
    assert!(file == text, "`openapi.json` differs; write it with `UPDATE=1`");
}

#[test]
fn everything_that_is_described_has_a_text() {
    fn texts(place: &str, value: &Value) {
        if let Some(fields) = value["properties"].as_object() {
            for (name, field) in fields {
                let text = field["description"].as_str().unwrap_or_default();
                let refers = field.get("$ref").is_some();
                assert!(
                    refers || !text.is_empty(),
                    "{place}: the field `{name}` has no text"
                );
                assert!(!text.contains("```"), "{place}: `{name}` shows Rust");
            }
        }
    }
    each_operation(|operation, described| {
        let is_empty = |value: &Value| value.as_str().unwrap_or_default().is_empty();
        assert!(!is_empty(&described["summary"]), "{operation}");
        assert!(
            !described["tags"].as_array().expect("tags").is_empty(),
            "{operation}"
        );
        for parameter in described["parameters"].as_array().into_iter().flatten() {
            assert!(!is_empty(&parameter["description"]), "{operation}: {parameter}");
        }
        for (status, response) in described["responses"].as_object().expect("responses") {
            let refers = response.get("$ref").is_some();
            assert!(
                refers || !is_empty(&response["description"]),
                "{operation} {status}"
            );
        }
    });
    let components = &orchestra_server::description()["components"];
    for (name, schema) in components["schemas"].as_object().expect("schemas") {
        texts(name, schema);
    }
}

#[test]
fn every_reference_leads_to_something() {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = orchestra_server::description();
    let mut found = Vec::new();
    references(document, &mut found);
    assert!(found.len() > 100, "{}", found.len());
    for reference in found {
        let target = document.pointer(reference.trim_start_matches('#'));
        assert!(target.is_some(), "{reference}");
    }
    let mut ids = std::collections::HashSet::new();
    each_operation(|operation, described| {
        let id = described["operationId"].as_str().expect("an id").to_owned();
        assert!(ids.insert(id.clone()), "{operation}: `{id}` names two operations");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_know_the_query_parameters_that_are_described_and_no_others() {
    let server = TestServer::start().await;
    let mut routes = Vec::new();
    each_operation(|operation, described| {
        let Some(path) = operation.strip_prefix("get ") else {
            return;
        };
        // The stream of rows never ends, and what has no state has no parameters.
        if ["/api/v1/stream", "/api/v1/health", "/api/v1/openapi.json"].contains(&path) {
            return;
        }
        let parameters = described["parameters"].as_array().cloned().unwrap_or_default();
        let parameters = parameters
            .into_iter()
            .filter(|parameter| parameter["in"] == "query");
        let names = parameters.map(|parameter| parameter["name"].as_str().expect("a name").to_owned());
        routes.push((path.replace(['{', '}'], ""), names.collect::<Vec<_>>()));
    });
    for (path, names) in routes {
        let reply = server.get(&format!("{path}?zzzzzzzz=1")).await;
        let help = reply.json()["help"].as_str().unwrap_or_default().to_owned();
        assert_eq!(reply.code(), "malformed", "{path}");
        match help.strip_prefix("the parameters are ") {
            Some(known) => {
                let mut known: Vec<&str> = known.split(", ").collect();
                let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
                known.sort_unstable();
                names.sort_unstable();
                assert_eq!(known, names, "{path}");
            }
            None => assert!(names.is_empty(), "{path}: {help}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_returns_its_description() {
    let server = TestServer::start().await;
    let reply = server.get("/api/v1/openapi.json").await;
    assert_eq!(reply.status, 200);
    assert_eq!(&reply.json(), orchestra_server::description());
}
