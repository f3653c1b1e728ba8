//! The values of a task template: the context, and the outputs of stages and branches, which are read when the template
//! uses them (rules F1 and F2).

use std::collections::BTreeMap;
use std::sync::Arc;

use orchestra_config::{ResolvedStage, STAGE_FIELDS, TemplateValue, TemplateValues};
use orchestra_engine::{PastStage, StageContext, StageFile, StoredText};
use serde_json::{Map, Value};

/// Maximum length of a text that is returned whole, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// The context key of the results of a parallel block.
const RESULTS: &str = "parallel.results";
/// The context key of the beginning of the latest response (Attractor 4.5). A template receives the whole response.
const LAST_RESPONSE: &str = "last_response";

/// Returns the values that the templates of a stage may use.
pub(crate) async fn values(stage: &StageContext, resolved: &ResolvedStage) -> TemplateValues {
    let mut values = TemplateValues::default();
    for (key, value) in stage.context().iter() {
        // An optional output that is null is missing, so that `is defined` and `default` work.
        if key != RESULTS && !value.is_null() {
            values.set(key, value.clone());
        }
    }
    let uses = |name: &str| resolved.templates().any(|template| template.uses(name));
    if uses(LAST_RESPONSE) {
        values.set(LAST_RESPONSE, last_response(stage).await);
    }
    if uses("stages") {
        values.set("stages", stages(stage, resolved).await);
    }
    if let Some(results) = stage.context().get(RESULTS) {
        let given = if uses("parallel") {
            branches(stage, results)
        } else {
            results.clone().into()
        };
        values.set(RESULTS, given);
    }
    values
}

/// Returns the whole latest response: that of the latest stage whose response begins with the text in the context.
async fn last_response(stage: &StageContext) -> String {
    let start = stage.context().text(LAST_RESPONSE);
    if start.is_empty() {
        return String::new();
    }
    let stages = stage.history().await.stages;
    let records = stages.iter().rev().filter_map(|past| past.record.as_deref());
    let mut responses =
        records.filter_map(|record| stage.stage_text(record, StageFile::Response, MAX_TEXT_BYTES));
    let whole = responses.find(|text| text.head.starts_with(&*start));
    whole.map_or_else(|| start.to_string(), |text| text.to_string())
}

/// Returns the stages that the templates use. Stages that have not ended are included with empty fields.
async fn stages(stage: &StageContext, resolved: &ResolvedStage) -> TemplateValue {
    let named: Option<Vec<Vec<String>>> = resolved.templates().map(|template| template.stages()).collect();
    let named: Option<Vec<String>> = named.map(|named| named.concat());
    let nodes = match &named {
        Some(named) => named.clone(),
        None => stage
            .pipeline()
            .stages()
            .map(|stage| stage.id().to_owned())
            .collect(),
    };
    let empty = || STAGE_FIELDS.iter().map(|field| ((*field).to_owned(), "".into()));
    let mut stages: BTreeMap<String, TemplateValue> = nodes
        .into_iter()
        .map(|node| (node, TemplateValue::Map(empty().collect())))
        .collect();
    for past in stage.latest_stages(named).await {
        stages.insert(past.node.clone(), TemplateValue::Map(ended(stage, &past)));
    }
    TemplateValue::Map(stages)
}

/// Returns the fields of a stage that has ended.
fn ended(stage: &StageContext, past: &PastStage) -> BTreeMap<String, TemplateValue> {
    let mut fields = match &past.record {
        Some(record) => texts(stage, record),
        None => BTreeMap::new(),
    };
    let word = past.status.as_ref().map_or("", |status| status.word());
    fields.insert("outcome".to_owned(), word.into());
    for (field, text) in [("notes", &past.notes), ("failure_reason", &past.failure_reason)] {
        fields.insert(field.to_owned(), text.as_deref().unwrap_or_default().into());
    }
    fields
}

/// Returns the output fields of a visit; each is read when the template uses it.
fn texts(stage: &StageContext, record: &str) -> BTreeMap<String, TemplateValue> {
    use StageFile::{Response, ToolError, ToolOutput};
    let lazy = |files: &'static [StageFile], show: fn(StoredText) -> String, most: usize| {
        let (stage, record) = (stage.clone(), record.to_owned());
        TemplateValue::Lazy(Arc::new(move || {
            let found = files
                .iter()
                .find_map(|file| stage.stage_text(&record, *file, most));
            found.map(show).unwrap_or_default().into()
        }))
    };
    let whole = |text: StoredText| text.to_string();
    let path = |text: StoredText| {
        text.file
            .map(|file| file.display().to_string())
            .unwrap_or_default()
    };
    [
        ("response", lazy(&[Response, ToolOutput], whole, MAX_TEXT_BYTES)),
        ("output", lazy(&[ToolOutput, Response], whole, MAX_TEXT_BYTES)),
        ("stderr", lazy(&[ToolError], whole, MAX_TEXT_BYTES)),
        ("file", lazy(&[Response, ToolOutput], path, 0)),
    ]
    .map(|(field, value)| (field.to_owned(), value))
    .into()
}

/// Returns the results of a parallel block. Each result contains its stages and the response of its last stage with a
/// response.
fn branches(stage: &StageContext, results: &Value) -> TemplateValue {
    let Value::Array(results) = results else {
        return results.clone().into();
    };
    let results = results.iter().map(|result| match result {
        Value::Object(fields) => TemplateValue::Map(branch(stage, fields)),
        other => other.clone().into(),
    });
    TemplateValue::List(results.collect())
}

fn branch(stage: &StageContext, fields: &Map<String, Value>) -> BTreeMap<String, TemplateValue> {
    let mut values: BTreeMap<String, TemplateValue> = fields
        .iter()
        .map(|(key, value)| (key.clone(), value.clone().into()))
        .collect();
    let records = records(fields);
    let listed = fields
        .get("stages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let listed = listed.filter_map(Value::as_object).map(|listed| {
        let record = listed.get("record").and_then(Value::as_str).unwrap_or_default();
        let mut fields = texts(stage, record);
        for (key, value) in listed.iter().filter(|(key, _)| *key != "record") {
            fields.insert(key.clone(), value.clone().into());
        }
        TemplateValue::Map(fields)
    });
    values.insert("stages".to_owned(), TemplateValue::List(listed.collect()));
    let stage = stage.clone();
    let response = move || {
        let mut texts = records
            .iter()
            .rev()
            .filter_map(|record| output_of(&stage, record, MAX_TEXT_BYTES));
        let text = texts.next().map(|text| text.to_string());
        text.unwrap_or_default().into()
    };
    values.insert("response".to_owned(), TemplateValue::Lazy(Arc::new(response)));
    values
}

/// Returns the records of the stages of a branch, in the order in which the stages ended.
fn records(result: &Map<String, Value>) -> Vec<String> {
    let stages = result
        .get("stages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let records = stages.filter_map(|stage| stage.get("record")?.as_str());
    records.map(str::to_owned).collect()
}

/// Returns the output of a visit: the response or, if there is none, the output of a tool.
pub(crate) fn output_of(stage: &StageContext, record: &str, most: usize) -> Option<StoredText> {
    let files = [StageFile::Response, StageFile::ToolOutput];
    let mut texts = files
        .into_iter()
        .filter_map(|file| stage.stage_text(record, file, most));
    texts.find(|text| !text.is_empty())
}
