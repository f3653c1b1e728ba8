//! Functions as tools, with `#[tool]`.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::sync::Arc;

use orchestra::agents::schemars::{self, JsonSchema};
use orchestra::agents::{
    Arguments, SelectedTools, Tool, ToolCall, ToolContext, ToolRegistry, ToolResult, ToolRunner, ToolSet,
};
use orchestra::tool;
use serde_json::json;

/// Adds numbers.
///
/// Fractions are fine.
#[tool(read_only)]
fn add_numbers(
    /// The first one.
    a: f64,
    /// The second one,
    /// if there is one.
    b: Option<f64>,
) -> f64 {
    a + b.unwrap_or(0.0)
}

#[derive(serde::Deserialize, serde::Serialize, JsonSchema)]
struct Migration {
    name: String,
    steps: Vec<u8>,
}

/// Runs migrations.
#[tool(name = "run_migration", repo = "backend")]
async fn migrate(mut context: ToolContext, r#type: Migration) -> Result<Migration, std::num::ParseIntError> {
    context = context.output_limit(5);
    assert_eq!(context.most_output(), 1_000);
    r#type.name.parse::<u8>()?;
    Ok(r#type)
}

/// Says nothing.
#[tool(crate = orchestra)]
async fn nothing() {}

/// Panics.
#[tool]
fn broken() -> String {
    panic!("out of order")
}

/// A set that consists of sets.
type All = (add_numbers, (migrate, nothing), broken);

const _: () = assert!(All::NAMES.contain("backend:run-migration") && !All::NAMES.contain("migrate"));

fn registry() -> ToolRegistry {
    let mut registry = ToolRegistry::default();
    All::default().register(&mut registry);
    registry
}

async fn called(name: &str, arguments: &str) -> ToolResult {
    let registry = registry();
    let tools: Vec<Arc<dyn Tool>> = registry
        .names()
        .map(|name| registry.get(name).unwrap().clone())
        .collect();
    let runner = ToolRunner::new(SelectedTools::new(tools), ToolContext::new("."));
    let call = ToolCall {
        id: "1".to_owned(),
        name: name.to_owned(),
        arguments: Arguments::parse(arguments),
    };
    runner.call(&call).await
}

#[test]
fn a_tool_tells_its_name_its_purpose_and_its_arguments() {
    let registry = registry();
    let names: Vec<&str> = registry.names().collect();
    assert_eq!(
        names,
        ["add-numbers", "backend:run-migration", "broken", "nothing"]
    );
    let add = registry.get("add_numbers").unwrap();
    assert_eq!((add.is_read_only(), add.repository()), (true, None));
    let spec = add.spec();
    assert_eq!(
        (spec.name.as_str(), spec.description.as_str()),
        ("add_numbers", "Adds numbers.\n\nFractions are fine.")
    );
    assert_eq!(
        spec.parameters,
        json!({
            "type": "object",
            "properties": {
                "a": {"type": "number", "format": "double", "description": "The first one."},
                "b": {"type": ["number", "null"], "format": "double", "description": "The second one,\nif there is one."},
            },
            "required": ["a"],
            "additionalProperties": false,
        })
    );
    let migrate = registry.get("backend:run-migration").unwrap();
    assert_eq!(
        (migrate.is_read_only(), migrate.repository()),
        (false, Some("backend"))
    );
    assert_eq!(
        migrate.spec().parameters["properties"]["type"]["required"],
        json!(["name", "steps"])
    );
}

#[tokio::test]
async fn a_call_goes_through_the_function() {
    assert_eq!(
        called("add_numbers", r#"{"a": 1.5, "b": 2}"#).await.content,
        "3.5"
    );
    assert_eq!(called("add_numbers", r#"{"a": 1.5}"#).await.content, "1.5");
    assert_eq!(called("nothing", "").await.content, "done");
    let migrated = called(
        "backend__run_migration",
        r#"{"type": {"name": "7", "steps": [1]}}"#,
    )
    .await;
    assert_eq!(
        (migrated.content.as_str(), migrated.is_error),
        ("{\n  \"name\": \"7\",\n  \"steps\": [\n    1\n  ]\n}", false)
    );
    let failed = called(
        "backend__run_migration",
        r#"{"type": {"name": "x", "steps": []}}"#,
    )
    .await;
    assert_eq!(
        (failed.content.as_str(), failed.is_error),
        ("invalid digit found in string", true)
    );
}

#[tokio::test]
async fn a_wrong_call_is_told_what_is_wrong() {
    for (name, arguments, reported) in [
        (
            "add_numbers",
            r#"{"A": 1}"#,
            "wrong arguments: unknown argument `A`; did you mean `a`? Expected: `a` (number), optional `b` (number)",
        ),
        (
            "add_numbers",
            r#"{"a": "1"}"#,
            "wrong arguments: `a` expects number, found `\"1\"`. Expected: `a` (number), optional `b` (number)",
        ),
        (
            "backend__run_migration",
            r#"{"type": {"name": "7"}}"#,
            "wrong arguments: `type` cannot be used: missing field `steps`",
        ),
        ("broken", "{}", "the tool panicked: out of order"),
    ] {
        let result = called(name, arguments).await;
        assert_eq!((result.content.as_str(), result.is_error), (reported, true));
    }
}

#[test]
fn the_function_stays_what_it_is() {
    assert_eq!(add_numbers(1.0, None), 1.0);
}
