//! The tool `report_outcome`, with which a model reports the outcome of its stage.

use std::collections::BTreeMap;

use orchestra_engine::{Outcome, Status};
use orchestra_graph::{Field, NodeIndex, Stage, declared_outputs, did_you_mean};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::answer_format::AnswerFormat;
use crate::tool::ToolSpec;

/// The name by which the model calls the tool.
pub(crate) const NAME: &str = "report_outcome";

/// The message to a model that ends without a report.
pub(crate) const REMINDER: &str =
    "The stage is not over before you report its outcome: call the tool `report_outcome`.";

const STATUSES: &[&str] = &["success", "partial_success", "fail", "retry", "skipped"];

const FIELDS: &[&str] = &[
    "status",
    "notes",
    "preferred_label",
    "suggested_next_ids",
    "failure_reason",
    "context_updates",
];

/// The report of a model about its stage, with the fields of [`Outcome`] (Attractor 5.2).
///
/// ```
/// use orchestra_agent::Report;
/// use orchestra_engine::Status;
/// let fields = serde_json::json!({"status": "success", "notes": "All tests pass.", "preferred_label": "Ship"});
/// let report = Report::parse(fields.as_object().expect("it is one"), &[], &[])?;
/// assert_eq!((report.status, report.preferred_label.as_deref()), (Status::Success, Some("Ship")));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// The status with which the stage ended.
    pub status: Status,
    /// A summary for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// The label of the preferred edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_label: Option<String>,
    /// The ids of the suggested next nodes, most preferred first (rule F10).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggested_next_ids: Vec<String>,
    /// The reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Updates to the context of the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context_updates: BTreeMap<String, Value>,
}

impl Report {
    /// Parses the arguments of the tool call. The status must be a built-in one or one of `words`, which the node
    /// declares, so that a misspelt failure does not count as a success. Suggested nodes must be among `successors`.
    ///
    /// # Errors
    /// Returns a message for the model that describes the problem.
    pub fn parse(
        fields: &Map<String, Value>,
        words: &[String],
        successors: &[String],
    ) -> Result<Report, String> {
        if let Some(unknown) = fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
            let near = did_you_mean(unknown, FIELDS.iter().copied());
            let near = near.map_or(String::new(), |near| format!(" Did you mean `{near}`?"));
            return Err(format!(
                "Unknown field `{unknown}`.{near} The fields are: {}.",
                FIELDS.join(", ")
            ));
        }
        let text = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
            Some(other) => Err(format!("`{name}` must be a text, and is `{other}`.")),
        };
        let Some(word) = text("status")? else {
            return Err(
                "`status` is missing: it says how the stage ended, such as `success` or `fail`.".to_owned(),
            );
        };
        let lower = word.to_ascii_lowercase();
        let status = match STATUSES.iter().find(|known| **known == lower) {
            Some(known) => Status::from_name(known),
            None if words.contains(&word) => Status::from_name(&word),
            None => {
                let known = || STATUSES.iter().copied().chain(words.iter().map(String::as_str));
                let near = did_you_mean(&word, known());
                let near = near.map_or(String::new(), |near| format!(" Did you mean `{near}`?"));
                let all: Vec<&str> = known().collect();
                return Err(format!(
                    "Unknown status `{word}`.{near} It is one of: {}.",
                    all.join(", ")
                ));
            }
        };
        Ok(Report {
            notes: text("notes")?,
            preferred_label: text("preferred_label")?,
            suggested_next_ids: suggested(fields.get("suggested_next_ids"), successors)?,
            failure_reason: text("failure_reason")?,
            context_updates: match fields.get("context_updates") {
                None | Some(Value::Null) => BTreeMap::new(),
                Some(Value::Object(updates)) => updates.clone().into_iter().collect(),
                Some(other) => return Err(format!("`context_updates` must be an object, and is `{other}`.")),
            },
            status,
        })
    }

    /// Converts the report to the outcome of the stage.
    pub(crate) fn outcome(self) -> Outcome {
        let reason = self.failure_reason.or_else(|| self.notes.clone());
        let mut outcome = if self.status.is_success() || self.status == Status::Skipped {
            Outcome::success()
        } else {
            Outcome::fail(reason.unwrap_or_else(|| "the model reported a failure".to_owned()))
        };
        outcome.status = self.status;
        outcome.notes = self.notes;
        outcome.preferred_label = self.preferred_label;
        outcome.suggested_next_ids = self.suggested_next_ids;
        outcome.context_updates = self.context_updates;
        outcome
    }
}

/// Parses the ids of the nodes that a model suggests.
fn suggested(value: Option<&Value>, successors: &[String]) -> Result<Vec<String>, String> {
    let items = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        // Accept a single node instead of a list of one.
        Some(id @ Value::String(_)) => std::slice::from_ref(id),
        Some(Value::Array(items)) => items.as_slice(),
        Some(other) => {
            return Err(format!(
                "`suggested_next_ids` must be a list of nodes, and is `{other}`."
            ));
        }
    };
    let known = |item: &Value| {
        let id = item.as_str().map(str::trim).unwrap_or_default();
        if successors.iter().any(|successor| successor == id) {
            return Ok(id.to_owned());
        }
        let near = did_you_mean(id, successors.iter().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!(" Did you mean `{near}`?"));
        let all = if successors.is_empty() {
            "No stage follows it.".to_owned()
        } else {
            format!("It is one of: {}.", successors.join(", "))
        };
        Err(format!(
            "`suggested_next_ids` names {item}, and no edge of this stage leads there.{near} {all}"
        ))
    };
    items.iter().map(known).collect()
}

/// The values that the stage of a pipeline can report.
pub(crate) struct Reportable {
    /// The statuses that the node declares in addition to the built-in ones.
    words: Vec<String>,
    /// The labels of its edges; empty if there are fewer than two.
    labels: Vec<String>,
    /// The ids of the nodes to which its edges lead.
    successors: Vec<String>,
    /// `true` if only a suggested node can choose among some of its edges.
    is_undecided: bool,
    /// The context keys that a success must set.
    keys: Vec<String>,
    /// The declared outputs, with their types.
    outputs: Vec<Field>,
    /// The schema to which the values of a success are bound.
    schema: Option<Value>,
}

impl Reportable {
    pub(crate) fn from_stage(stage: Stage<'_>) -> Reportable {
        let list = |name: &str| {
            let text = stage.text(name).unwrap_or_default();
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        };
        let mut labels: Vec<String> = Vec::new();
        let mut successors: Vec<String> = Vec::new();
        let mut unlabelled: Vec<NodeIndex> = Vec::new();
        for (_, row) in stage.edges() {
            let to = stage.pipeline().stage(row.to).id();
            if !successors.iter().any(|id| id == to) {
                successors.push(to.to_owned());
            }
            if row.condition.is_some() {
                continue;
            }
            let label = stage.pipeline().text(row.label);
            if label.trim().is_empty() {
                unlabelled.push(row.to);
            } else if !labels.iter().any(|known| known == label) {
                labels.push(label.to_owned());
            }
        }
        unlabelled.sort_unstable();
        unlabelled.dedup();
        let outputs = declared_outputs(stage);
        let mut keys: Vec<String> = list("output_keys");
        keys.retain(|key| !outputs.iter().any(|output| output.key == *key));
        let required = outputs.iter().filter(|output| !output.optional);
        keys.extend(required.map(|output| output.key.clone()));
        Reportable {
            words: list("outcomes"),
            labels: if labels.len() > 1 { labels } else { Vec::new() },
            successors,
            is_undecided: unlabelled.len() > 1,
            keys,
            outputs,
            schema: AnswerFormat::from_stage(stage)
                .filter(AnswerFormat::is_bound)
                .map(|format| format.nested("/properties/context_updates")),
        }
    }

    /// Returns the statuses that the node declares.
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns the ids of the nodes to which its edges lead.
    pub(crate) fn successors(&self) -> &[String] {
        &self.successors
    }

    /// Returns the context keys that a success must set.
    pub(crate) fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Returns whether the report affects the choice of the next edge, the status or the context.
    pub(crate) fn matters(&self, stage: Stage<'_>) -> bool {
        !self.labels.is_empty()
            || self.is_undecided
            || !self.words.is_empty()
            || !self.keys.is_empty()
            || !self.outputs.is_empty()
            || stage.edges().any(|(_, row)| row.condition.is_some())
    }

    pub(crate) fn spec(&self) -> ToolSpec {
        let mut words = vec!["success", "partial_success", "fail", "retry"];
        words.extend(self.words.iter().map(String::as_str));
        let mut properties = json!({
            "status": {"type": "string", "enum": words, "description": "How the stage ended."},
            "notes": {"type": "string", "description": "A summary of what was done, for people: one to five sentences."},
            "failure_reason": {"type": "string", "description": "Why it failed; only for `fail` and `retry`."},
        });
        if !self.labels.is_empty() {
            properties["preferred_label"] = json!({
                "type": "string",
                "enum": self.labels,
                "description": "Which way the pipeline should go on.",
            });
        }
        if self.successors.len() > 1 {
            properties["suggested_next_ids"] = json!({
                "type": "array",
                "items": {"type": "string", "enum": self.successors},
                "description": "The stages to go on with, best first. A condition or the preferred label of an edge decides before them.",
            });
        }
        let mut fields: Map<String, Value> = self.keys.iter().map(|key| (key.clone(), json!({}))).collect();
        let declared = self.outputs.iter();
        fields.extend(declared.map(|output| (output.key.clone(), output.value_type.json_schema())));
        const VALUES: &str = "Values that later stages need, by their names.";
        properties["context_updates"] = match &self.schema {
            Some(schema) => schema.clone(),
            None => json!({"type": "object", "properties": fields, "required": self.keys}),
        };
        let described = properties["context_updates"].get("description").is_some();
        if !described {
            properties["context_updates"]["description"] = VALUES.into();
        }
        let mut required = vec!["status", "notes"];
        if !self.keys.is_empty() {
            required.push("context_updates");
        }
        ToolSpec {
            name: NAME.to_owned(),
            description:
                "Reports the outcome of this stage and ends it. Call it once, when everything else is done."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orchestra_graph::{LoadOptions, Source, load};

    fn reportable(text: &str) -> (Value, bool) {
        let pipeline = load(Source::new("t.dot", text), &LoadOptions::default())
            .pipeline()
            .unwrap();
        let stage = pipeline.stage(pipeline.find("work").unwrap());
        let reportable = Reportable::from_stage(stage);
        (reportable.spec().parameters, reportable.matters(stage))
    }

    #[test]
    fn the_tool_offers_what_the_edges_wait_for() {
        let (schema, matters) = reportable(
            "digraph { start -> work; work [prompt=x, outcomes=\"clean,dirty\", output_keys=\"version, size\"]
                work -> exit [label=Ship]; work -> again [label=\"[F] Fix\"]; again -> work; again [prompt=y] }",
        );
        assert!(matters);
        assert_eq!(
            schema["properties"]["preferred_label"]["enum"],
            json!(["Ship", "[F] Fix"])
        );
        let words = json!(["success", "partial_success", "fail", "retry", "clean", "dirty"]);
        assert_eq!(schema["properties"]["status"]["enum"], words);
        assert_eq!(
            schema["properties"]["context_updates"]["required"],
            json!(["version", "size"])
        );
        assert_eq!(
            schema["properties"]["suggested_next_ids"]["items"]["enum"],
            json!(["exit", "again"])
        );
        let (schema, matters) = reportable("digraph { start -> work -> exit; work [prompt=x] }");
        assert!(!matters && schema["properties"].get("preferred_label").is_none());
        assert!(schema["properties"].get("suggested_next_ids").is_none());
        let (_, matters) = reportable(
            "digraph { start -> work; work [prompt=x]; work -> a -> exit; work -> b -> exit; a [prompt=a]; b [prompt=b] }",
        );
        assert!(matters, "only what is reported chooses between two edges alike");
    }

    #[test]
    fn a_report_that_cannot_be_read_says_why() {
        let own = ["dirty".to_owned()];
        let next = ["ship".to_owned(), "mend".to_owned()];
        let of = |fields: Value| Report::parse(fields.as_object().unwrap(), &own, &next);
        let error_of = |fields: Value| of(fields).unwrap_err();
        let misspelt = error_of(json!({"status": "failed"}));
        assert!(
            misspelt.starts_with("Unknown status `failed`. Did you mean `fail`?"),
            "{misspelt}"
        );
        assert_eq!(of(json!({"status": "FAIL"})).unwrap().status, Status::Fail);
        assert!(of(json!({"status": "dirty"})).unwrap().status.is_success());
        assert!(error_of(json!({})).starts_with("`status` is missing"));
        assert_eq!(
            error_of(json!({"status": 7})),
            "`status` must be a text, and is `7`."
        );
        let unknown = error_of(json!({"status": "success", "note": "x"}));
        assert!(
            unknown.starts_with("Unknown field `note`. Did you mean `notes`?"),
            "{unknown}"
        );
        assert!(error_of(json!({"status": "fail", "context_updates": []})).contains("must be an object"));
        let suggested = |ids: Value| of(json!({"status": "success", "suggested_next_ids": ids}));
        assert_eq!(
            suggested(json!(["mend", "ship"])).unwrap().suggested_next_ids,
            ["mend", "ship"]
        );
        assert_eq!(suggested(json!("ship")).unwrap().suggested_next_ids, ["ship"]);
        let elsewhere = suggested(json!(["ship", "shop"])).unwrap_err();
        assert!(
            elsewhere.ends_with("Did you mean `ship`? It is one of: ship, mend."),
            "{elsewhere}"
        );
        assert!(suggested(json!([7])).is_err() && suggested(json!({"id": "ship"})).is_err());
    }
}
