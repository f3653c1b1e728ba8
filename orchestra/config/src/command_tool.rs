//! Consistency checks of command tools.

use std::collections::BTreeMap;

use crate::decode::Diagnostics;
use crate::located::Located;
use crate::names::{BUILT_IN_TOOLS, position, tool_name};
use crate::settings::CommandTool;

/// Checks the name, the command and the parameters of a tool.
pub(crate) fn check_tool(name: &str, tool: &Located<CommandTool>, diagnostics: &mut Diagnostics) {
    if BUILT_IN_TOOLS.contains(&tool_name(name).as_str()) {
        diagnostics.value(
            format!("the tool `{name}` has the name of a built-in one"),
            tool.span,
            "give it another name",
        );
    }
    let fits = !name.is_empty() && name.len() <= 48;
    if !fits
        || !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    {
        diagnostics.value(
            format!("`{name}` is not a valid tool name"),
            tool.span,
            "use letters, digits and `-`, at most 48",
        );
    }
    if tool
        .command
        .as_ref()
        .is_none_or(|command| command.trim().is_empty())
    {
        diagnostics.value(
            format!("the tool `{name}` has no command"),
            tool.span,
            "add `command:` with the shell command to run",
        );
    }
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    for parameter in tool.parameters.keys() {
        let span = position(&tool.parameters, parameter);
        let sign = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !parameter.starts_with(|c: char| c.is_ascii_alphabetic()) || !parameter.chars().all(sign) {
            diagnostics.value(
                format!("`{parameter}` is not a valid parameter name"),
                span,
                "use letters, digits, `_` and `-`, and begin with a letter",
            );
        }
        // Both would be the same environment variable of the command.
        let variable = parameter.to_ascii_uppercase().replace('-', "_");
        match taken.get(&variable) {
            Some(other) => diagnostics.value(
                format!("the parameters `{other}` and `{parameter}` are both `ORCHESTRA_ARG_{variable}`"),
                span,
                "rename one of them",
            ),
            None => drop(taken.insert(variable, parameter)),
        }
    }
}
