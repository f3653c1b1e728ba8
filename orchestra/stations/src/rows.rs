//! The rows that the store accepts and returns.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The attributes of a row that have no field of their own, by their names. Numbers, texts and booleans are JSON values;
/// a duration is a text such as `15m` if the attribute is one, else `{"duration": "15m"}`.
pub type AttributeValues = BTreeMap<String, Value>;

/// A workflow.
///
/// ```
/// use orchestra_stations::{StationStore, VersionOrigin, VersionText};
/// let directory = tempfile::tempdir()?;
/// let store = StationStore::open(directory.path().join("stations.sqlite"))?;
/// let text = VersionText::Dot("digraph { start -> pick -> exit }".to_owned());
/// let workflow = store.create("shipping", &text, VersionOrigin::Local, "")?;
/// assert_eq!((workflow.name.as_str(), workflow.latest, workflow.active), ("shipping", 1, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Workflow {
    /// The id, which never changes.
    pub id: String,
    /// The name, which no other workflow has.
    pub name: String,
    /// The active version. `None` if no version was activated.
    pub active: Option<u32>,
    /// The latest version.
    pub latest: u32,
    /// The entity tag.
    pub etag: String,
    /// The time of its creation, in milliseconds since 1970-01-01 UTC.
    pub created_at: u64,
    /// The time of its last change, in milliseconds since 1970-01-01 UTC.
    pub updated_at: u64,
    /// The time at which it was archived, in milliseconds since 1970-01-01 UTC. `None` if it is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<u64>,
}

/// Who wrote a version.
///
/// ```
/// use orchestra_stations::VersionOrigin;
/// assert_eq!(serde_json::to_string(&VersionOrigin::Http)?, r#""http""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum VersionOrigin {
    /// A program of the user, such as the command line.
    Local,
    /// Somebody over HTTP. A server may refuse to run what such a version contains.
    Http,
}

impl VersionOrigin {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            VersionOrigin::Local => "local",
            VersionOrigin::Http => "http",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<VersionOrigin> {
        [VersionOrigin::Local, VersionOrigin::Http]
            .into_iter()
            .find(|origin| origin.word() == word)
    }
}

/// A version of a workflow, without its text.
///
/// ```
/// # use orchestra_stations::{StationStore, VersionOrigin, VersionText};
/// # let directory = tempfile::tempdir()?;
/// # let store = StationStore::open(directory.path().join("stations.sqlite"))?;
/// # let text = VersionText::Dot("digraph { start -> pick -> exit }".to_owned());
/// store.create("shipping", &text, VersionOrigin::Local, "as it was in spring")?;
/// let versions = store.versions("shipping")?;
/// assert_eq!((versions[0].version, versions[0].note.as_str()), (1, "as it was in spring"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct VersionSummary {
    /// The number, from 1.
    pub version: u32,
    /// The SHA-256 of the text, in hexadecimal.
    pub hash: String,
    /// Who wrote it.
    pub origin: VersionOrigin,
    /// A note of the author; may be empty.
    pub note: String,
    /// The time of its creation, in milliseconds since 1970-01-01 UTC.
    pub created_at: u64,
}

/// A version of a workflow: its text and its rows.
///
/// ```
/// # use orchestra_stations::{StationStore, VersionOrigin, VersionText};
/// # let directory = tempfile::tempdir()?;
/// # let store = StationStore::open(directory.path().join("stations.sqlite"))?;
/// let text = VersionText::Dot("digraph { start -> pick -> exit; pick [label=\"Pick it\"] }".to_owned());
/// store.create("shipping", &text, VersionOrigin::Local, "")?;
/// let version = store.version("shipping", 1)?;
/// assert_eq!(version.rows.stations[1].name.as_deref(), Some("Pick it"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WorkflowVersion {
    /// The number, the author and the time.
    #[serde(flatten)]
    pub summary: VersionSummary,
    /// The text.
    pub dot: String,
    /// The rows of the text.
    #[serde(flatten)]
    pub rows: WorkflowRows,
}

/// The text of a new version.
///
/// ```
/// use orchestra_stations::{VersionText, WorkflowRows};
/// let rows: WorkflowRows = serde_json::from_str(r#"{
///     "stations": [
///         {"node": "start", "attributes": {"shape": "Mdiamond"}},
///         {"node": "pick", "prompt": "Pick the goods.", "output_context_keys": ["lacking"]},
///         {"node": "exit", "attributes": {"shape": "Msquare"}}
///     ],
///     "transitions": [{"source": "start", "target": "pick"}, {"source": "pick", "target": "exit"}]
/// }"#)?;
/// let dot = VersionText::Rows(Box::new(rows)).to_dot()?;
/// assert!(dot.contains("pick [prompt=\"Pick the goods.\", output_keys=\"lacking\"]"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum VersionText {
    /// A pipeline in DOT.
    Dot(String),
    /// Rows, which are printed as DOT.
    Rows(Box<WorkflowRows>),
}

/// The rows of a version. Unknown fields are refused.
///
/// ```
/// use orchestra_stations::WorkflowRows;
/// let misspelt = serde_json::from_str::<WorkflowRows>(r#"{"stationz": []}"#);
/// assert!(misspelt.unwrap_err().to_string().contains("unknown field `stationz`"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkflowRows {
    /// The name of the graph; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub graph: String,
    /// The attributes of the graph, such as `goal` and `routing`.
    #[serde(default, skip_serializing_if = "AttributeValues::is_empty")]
    pub attributes: AttributeValues,
    /// The stations, in their order.
    #[serde(default)]
    pub stations: Vec<StationRow>,
    /// The transitions, in their order. First-match routing tries them in this order.
    #[serde(default)]
    pub transitions: Vec<TransitionRow>,
}

/// A station: a node of the pipeline.
///
/// ```
/// use orchestra_stations::StationRow;
/// let pick = StationRow {
///     node: "pick".to_owned(),
///     kind: Some("shop.pick".to_owned()),
///     ..StationRow::default()
/// };
/// assert_eq!(serde_json::to_string(&pick)?, r#"{"node":"pick","type":"shop.pick"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "WorkflowStation"))]
#[serde(deny_unknown_fields)]
pub struct StationRow {
    /// The id of the node.
    pub node: String,
    /// The name that people see (`label`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The kind of the handler (`type`).
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The instruction for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The keys that the response of the station must contain (`output_keys`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output_context_keys: Vec<String>,
    /// The other attributes.
    #[serde(default, skip_serializing_if = "AttributeValues::is_empty")]
    pub attributes: AttributeValues,
}

/// A transition: an edge of the pipeline.
///
/// ```
/// use orchestra_stations::TransitionRow;
/// let lacks = TransitionRow {
///     source: "pick".to_owned(),
///     target: "restock".to_owned(),
///     condition_type: Some("conditional".to_owned()),
///     condition_value: Some("lacking".to_owned()),
///     allow_revisit: true,
///     ..TransitionRow::default()
/// };
/// let json = serde_json::to_value(&lacks)?;
/// assert_eq!((&json["target"], &json["allow_revisit"]), (&"restock".into(), &true.into()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "WorkflowTransition"))]
#[serde(deny_unknown_fields)]
pub struct TransitionRow {
    /// The node that it leaves.
    pub source: String,
    /// The node to which it leads.
    pub target: String,
    /// The name that people see, and the key for routing by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The condition of five-step routing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The kind of the condition in first-match routing: `always`, `success`, `failure` or `conditional`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition_type: Option<String>,
    /// The output key, or the key and the value as JSON, that a `conditional` transition tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition_value: Option<String>,
    /// `true` if the transition may lead back to a station that was visited.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_revisit: bool,
    /// The maximum number of times that it leads back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_revisits: Option<u32>,
    /// The other attributes.
    #[serde(default, skip_serializing_if = "AttributeValues::is_empty")]
    pub attributes: AttributeValues,
}
