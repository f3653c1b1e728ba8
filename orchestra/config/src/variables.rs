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

/// The variables that the templates of a pipeline may use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    keys: BTreeSet<String>,
    /// The IDs of the nodes, for `stages.ID`.
    nodes: BTreeSet<String>,
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
