//! Tools as they are locked, and their differences from those that a server offers.

use orchestra_config::LockedMcpTool;
use rmcp::model::Tool;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::sanitize::{visible, visible_json};

/// Returns a tool of a server as it is locked.
pub(crate) fn locked(tool: &Tool) -> LockedMcpTool {
    let description = tool.description.as_deref().unwrap_or_default();
    let schema = Value::Object((*tool.input_schema).clone());
    // The digest is that of the text as it was sent, so that it changes with characters that nobody sees.
    let text = Value::Array(vec![
        tool.name.as_ref().into(),
        description.into(),
        schema.clone(),
    ])
    .to_string();
    let digest = Sha256::digest(text.as_bytes());
    LockedMcpTool {
        name: tool.name.to_string(),
        description: visible(description),
        input_schema: visible_json(&schema),
        sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// Returns the differences between the locked tools of a server and those that it offers, each as a phrase that names
/// the tool.
pub(crate) fn differences(locked: &[LockedMcpTool], offered: &[LockedMcpTool]) -> Vec<String> {
    let mut found = Vec::new();
    for tool in offered {
        let shown = visible(&tool.name);
        match locked.iter().find(|known| known.name == tool.name) {
            None => found.push(format!("the tool `{shown}` was added")),
            Some(known) if known.description != tool.description => {
                found.push(format!("the description of `{shown}` has changed"));
            }
            Some(known) if known.input_schema != tool.input_schema => {
                found.push(format!("the schema of `{shown}` has changed"));
            }
            Some(known) if known.sha256 != tool.sha256 => {
                found.push(format!("invisible characters of `{shown}` have changed"));
            }
            Some(_) => {}
        }
        let same = offered.iter().filter(|other| other.name == tool.name);
        if same.count() > 1 && !found.iter().any(|said| said.ends_with("is offered twice")) {
            found.push(format!("the tool `{shown}` is offered twice"));
        }
    }
    let removed = locked
        .iter()
        .filter(|known| !offered.iter().any(|tool| tool.name == known.name));
    found.extend(removed.map(|known| format!("the tool `{}` was removed", known.name)));
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn tool(name: &'static str, description: &'static str) -> LockedMcpTool {
        let schema = serde_json::json!({"type": "object"});
        let Value::Object(schema) = schema else {
            unreachable!()
        };
        locked(&Tool::new(name, description, Arc::new(schema)))
    }

    #[test]
    fn every_difference_is_named() {
        let before = [tool("read", "Reads."), tool("write", "Writes.")];
        assert_eq!(differences(&before, &before), Vec::<String>::new());
        let now = [tool("read", "Reads, and more."), tool("remove", "Removes.")];
        assert_eq!(
            differences(&before, &now),
            [
                "the description of `read` has changed",
                "the tool `remove` was added",
                "the tool `write` was removed",
            ]
        );
        let hidden = [tool("read", "Re\u{200b}ads."), before[1].clone()];
        assert_eq!(hidden[0].description, "Reads.");
        assert_eq!(
            differences(&before, &hidden),
            ["invisible characters of `read` have changed"]
        );
        let twice = [before[0].clone(), before[0].clone(), before[1].clone()];
        assert_eq!(differences(&before, &twice), ["the tool `read` is offered twice"]);
    }
}
