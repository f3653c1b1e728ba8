//! Shared helpers of the tool tests.
#![allow(dead_code)]

use std::path::Path;
use std::sync::Arc;

use orchestra_agent::{
    Arguments, BuiltinTools, SelectedTools, Tool, ToolCall, ToolContext, ToolRegistry, ToolResult,
    ToolRunner, ToolSet,
};
use serde_json::Value;

/// Returns a registry with the built-in tools.
pub(crate) fn registry() -> ToolRegistry {
    let mut registry = ToolRegistry::default();
    BuiltinTools.register(&mut registry);
    registry
}

/// Returns a runner of all built-in tools in a folder.
pub(crate) fn builtin(root: &Path) -> ToolRunner {
    let registry = registry();
    let tools: Vec<Arc<dyn Tool>> = registry
        .names()
        .map(|name| registry.get(name).unwrap().clone())
        .collect();
    ToolRunner::new(SelectedTools::new(tools), ToolContext::new(root))
}

pub(crate) fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: "call_1".to_owned(),
        name: name.to_owned(),
        arguments: Arguments::parse(&arguments.to_string()),
    }
}

/// Returns the result of a call that must succeed.
pub(crate) async fn said(runner: &ToolRunner, name: &str, arguments: Value) -> String {
    let result = runner.call(&call(name, arguments)).await;
    assert!(!result.is_error, "{name}: {}", result.content);
    result.content
}

/// Returns the error of a call that must fail.
pub(crate) async fn refused(runner: &ToolRunner, name: &str, arguments: Value) -> String {
    let result: ToolResult = runner.call(&call(name, arguments)).await;
    assert!(result.is_error, "{name}: {}", result.content);
    result.content
}
