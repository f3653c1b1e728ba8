//! The variables that templates may use.

use std::collections::BTreeSet;

use orchestra_graph::did_you_mean;

use crate::suggestion::Hint;

/// The variables that every task template may use. Variables that a run has not set yet are empty.
///
/// `prompt` is the `prompt` attribute of the node; it is appended to a template that does not use it.
///
/// ```
/// assert!(orchestra_config::BUILT_IN_VARIABLES.contains(&"goal"));
/// ```
pub const BUILT_IN_VARIABLES: &[&str] = &[
    "current_node",
    "goal",
    "label",
    "last_response",
    "last_stage",
    "node",
    "outcome",
    "preferred_label",
    "prompt",
    "run_id",
];

/// The context keys that the engine sets, besides the attributes of the graph under `graph.`. A key exists after the
/// stage that sets it has ended; `{% if human.gate is defined %}` tests for it.
///
/// ```
/// assert!(orchestra_config::ENGINE_KEYS.contains(&"parallel.results"));
/// ```
pub const ENGINE_KEYS: &[&str] = &[
    "human.gate.answered_by",
    "human.gate.label",
    "human.gate.selected",
    "human.gate.text",
    "parallel.fail_count",
    "parallel.fan_in.best_id",
    "parallel.fan_in.best_outcome",
    "parallel.item",
    "parallel.item_index",
    "parallel.results",
    "parallel.success_count",
    "stack.child.active_stage",
    "stack.child.completed_stages",
    "stack.child.elapsed_ms",
    "stack.child.failures",
    "stack.child.last_failure",
    "stack.child.outcome",
    "stack.child.retries",
    "stack.child.status",
    "tool.exit_code",
    "tool.last_line",
    "tool.output",
    "workspace.conflict_count",
    "workspace.conflicts",
    "workspace.merged",
    "workspace.unmerged",
];

/// The fields of `stages.ID` in a template: the result of the latest visit of a node.
///
/// `response` is the answer of a model or a person, `output` the standard output of a tool; if a stage has only one of
/// them, both fields hold it. `stderr` is the standard error of a tool. A text of more than 1 MiB is shortened to its
/// beginning and its end, with a mark between them. `file` is the file that holds the text, in a run that keeps its
/// files. All fields are empty before the node has ended.
///
/// ```
/// assert!(orchestra_config::STAGE_FIELDS.contains(&"response"));
/// ```
pub const STAGE_FIELDS: &[&str] = &[
    "failure_reason",
    "file",
    "notes",
    "outcome",
    "output",
    "response",
    "stderr",
];

/// Returns the description of a [variable](BUILT_IN_VARIABLES) or a [key](ENGINE_KEYS) that the engine sets, or of a
/// [field](STAGE_FIELDS) of `stages.ID`.
///
/// ```
/// use orchestra_config::variable_description;
/// assert_eq!(variable_description("goal"), Some("The goal of the pipeline."));
/// assert_eq!(variable_description("score"), None);
/// ```
pub fn variable_description(name: &str) -> Option<&'static str> {
    Some(match name {
        "current_node" => "The node that the run is at.",
        "goal" => "The goal of the pipeline.",
        "label" => "The label of the node; its ID if it has none.",
        "last_response" => "The response of the stage that ran last.",
        "last_stage" => "The stage that ran last.",
        "node" => "The ID of the node.",
        "outcome" => "The outcome of the stage that ran last.",
        "preferred_label" => "The label that the stage that ran last preferred.",
        "prompt" => "The `prompt` of the node. It is appended to a template that does not use it.",
        "run_id" => "The ID of the run.",
        "human.gate.answered_by" => {
            "Who answered the latest human gate: `person`, `default` (nobody in time), `automatic` or `prepared`."
        }
        "human.gate.label" => "The label of the answer at the latest human gate.",
        "human.gate.selected" => "The key of the answer at the latest human gate.",
        "human.gate.text" => "The text that a person wrote at the latest human gate.",
        "parallel.fail_count" => "The number of branches of the latest parallel block that failed.",
        "parallel.fan_in.best_id" => "The branch that the latest fan-in chose.",
        "parallel.fan_in.best_outcome" => "The outcome of the branch that the latest fan-in chose.",
        "parallel.item" => "The item of the list for which this branch runs.",
        "parallel.item_index" => "The position of the item in its list, from 0.",
        "parallel.results" => "The results of the branches of the latest parallel block, as a list.",
        "parallel.success_count" => "The number of branches of the latest parallel block that succeeded.",
        "stack.child.active_stage" => "The stage that the supervised pipeline is at.",
        "stack.child.completed_stages" => "The number of stages that the supervised pipeline has completed.",
        "stack.child.elapsed_ms" => "The time since the supervised pipeline was started, in milliseconds.",
        "stack.child.failures" => "The number of failures in the supervised pipeline.",
        "stack.child.last_failure" => "The reason for the latest failure in the supervised pipeline.",
        "stack.child.outcome" => "The outcome of the supervised pipeline.",
        "stack.child.retries" => "The number of retries in the supervised pipeline.",
        "stack.child.status" => "The state of the supervised pipeline.",
        "tool.exit_code" => "The exit code of the latest tool.",
        "tool.last_line" => "The last line of the output of the latest tool, trimmed.",
        "tool.output" => "The standard output of the latest tool.",
        "workspace.conflict_count" => {
            "The number of files with conflicts after the latest merge of branches."
        }
        "workspace.conflicts" => "The files with conflicts after the latest merge of branches.",
        "workspace.merged" => "The branches whose files the latest fan-in merged.",
        "workspace.unmerged" => "The branches whose files the latest fan-in did not merge.",
        "failure_reason" => "The reason for the failure; empty if the stage did not fail.",
        "file" => "The file that holds the text, in a run that keeps its files.",
        "notes" => "The notes of the stage about what it did.",
        "output" => "The output of the stage's tool; its response if there is no tool.",
        "response" => "The response of the stage; the output of its tool if there is none.",
        "stderr" => "The standard error of the stage's tool.",
        _ => return None,
    })
}

/// The variables that the templates of a pipeline may use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    pub(crate) keys: BTreeSet<String>,
    /// The IDs of the nodes, for `stages.ID`.
    pub(crate) nodes: BTreeSet<String>,
}

impl Variables {
    pub(crate) fn built_in() -> Variables {
        let keys = BUILT_IN_VARIABLES.iter().chain(ENGINE_KEYS);
        Variables {
            keys: keys.map(|key| (*key).to_owned()).collect(),
            nodes: BTreeSet::new(),
        }
    }

    pub(crate) fn add(&mut self, key: &str) {
        if !key.trim().is_empty() {
            self.keys.insert(key.trim().to_owned());
        }
    }

    pub(crate) fn add_node(&mut self, id: &str) {
        self.nodes.insert(id.to_owned());
    }

    /// Returns `true` if a path is a key, lies within the value of a key, or is the beginning of a key.
    pub(crate) fn knows(&self, path: &str) -> bool {
        if let Some(stage) = path.strip_prefix("stages.") {
            let (id, field) = stage.split_once('.').unwrap_or((stage, "response"));
            return self.nodes.contains(id) && STAGE_FIELDS.contains(&field);
        }
        if path == "stages" {
            return true;
        }
        let within = |shorter: &str, longer: &str| {
            let rest = longer.strip_prefix(shorter);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.keys.iter().any(|key| within(key, path) || within(path, key))
    }

    /// Returns a hint for a path that nothing sets.
    pub(crate) fn hint(&self, path: &str) -> Hint {
        let hint = self.any_hint(path);
        // Other names are written in brackets, which no hint does.
        let is_name = |part: &str| {
            let is_part = |c: char| c == '_' || c.is_alphanumeric();
            part.chars().all(is_part) && !part.starts_with(|c: char| c.is_ascii_digit())
        };
        Hint {
            meant: hint.meant.filter(|meant| meant.split('.').all(is_name)),
            help: hint.help,
        }
    }

    fn any_hint(&self, path: &str) -> Hint {
        if let Some(stage) = path.strip_prefix("stages.") {
            return self.hint_of_stage(stage);
        }
        if let Some(key) = path.strip_prefix("context.").filter(|key| self.knows(key)) {
            return Hint {
                help: format!("write `{key}`: only conditions name it with `context.`"),
                meant: Some(key.to_owned()),
            };
        }
        match did_you_mean(path, self.keys.iter().map(String::as_str)) {
            Some(near) => Hint::meant(near),
            None => {
                let path = path.split('.').next().unwrap_or_default();
                format!(
                    "declare it: `inputs: [{path}]` for the pipeline in the configuration, `inputs=\"{path}\"` on the graph, \
                 or `output_keys` on the node whose response contains it"
                )
                .into()
            }
        }
    }

    fn hint_of_stage(&self, stage: &str) -> Hint {
        let (id, field) = stage.split_once('.').unwrap_or((stage, ""));
        if self.nodes.contains(id) {
            let near = did_you_mean(field, STAGE_FIELDS.iter().copied());
            return match near {
                Some(near) => Hint::meant(format!("stages.{id}.{near}")),
                None => format!("a stage has: {}", STAGE_FIELDS.join(", ")).into(),
            };
        }
        match did_you_mean(id, self.nodes.iter().map(String::as_str)) {
            Some(near) if field.is_empty() => Hint::meant(format!("stages.{near}")),
            Some(near) => Hint::meant(format!("stages.{near}.{field}")),
            None => format!("the pipeline has no node `{id}`").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_described() {
        let names = BUILT_IN_VARIABLES.iter().chain(ENGINE_KEYS).chain(STAGE_FIELDS);
        for name in names {
            assert!(variable_description(name).is_some(), "{name}");
        }
    }
}
