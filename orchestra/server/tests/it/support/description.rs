//! The description of the API, with which every reply of every test is compared.

use std::collections::HashMap;
use std::sync::LazyLock;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

/// The description, and the schemas of its JSON bodies by their place in it.
struct Checker {
    document: Value,
    schemas: Schemas,
    known: HashMap<String, SchemaIndex>,
}

static CHECKER: LazyLock<Checker> = LazyLock::new(|| {
    let mut document = orchestra_server::description().clone();
    refuse_unknown_fields(&mut document["components"]["schemas"], false);
    let mut compiler = Compiler::new();
    compiler
        .add_resource("http://local/api.json", document.clone())
        .expect("a description");
    let (mut schemas, mut known) = (Schemas::new(), HashMap::new());
    for place in bodies(&document) {
        let index = compiler.compile(&format!("http://local/api.json#{place}"), &mut schemas);
        let index = index.unwrap_or_else(|error| panic!("{place}: {error:#}"));
        known.insert(place, index);
    }
    Checker {
        document,
        schemas,
        known,
    }
});

/// Returns the places of the schemas of all JSON bodies.
fn bodies(document: &Value) -> Vec<String> {
    let mut places = Vec::new();
    let mut add = |place: String, responses: &Value| {
        for (name, response) in responses.as_object().expect("responses") {
            if !response["content"]["application/json"]["schema"].is_null() {
                places.push(body_of(&format!("{place}/{name}")));
            }
        }
    };
    add(
        "/components/responses".to_owned(),
        &document["components"]["responses"],
    );
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let path = path.replace('/', "~1");
            add(
                format!("/paths/{path}/{method}/responses"),
                &operation["responses"],
            );
        }
    }
    places
}

fn body_of(response: &str) -> String {
    format!("{response}/content/application~1json/schema")
}

/// Returns every route with its methods.
pub(crate) fn routes() -> Vec<(String, Vec<String>)> {
    let paths = orchestra_server::description()["paths"]
        .as_object()
        .expect("paths");
    let methods = |item: &Value| {
        let methods = item.as_object().expect("operations").keys();
        methods.map(|method| method.to_uppercase()).collect()
    };
    paths
        .iter()
        .map(|(path, item)| (path.clone(), methods(item)))
        .collect()
}

/// Compares a reply with the description. What is no route of the API is not described.
pub(crate) fn check(method: &str, target: &str, status: u16, kind: Option<&str>, body: &[u8]) {
    let checker = &*CHECKER;
    let path = target.split('?').next().expect("a path");
    let Some((template, operation)) = checker.operation(method, path) else {
        return;
    };
    let at = format!("{method} {template} {status}");
    let response = &operation["responses"][status.to_string()];
    assert!(
        !response.is_null(),
        "{at} is not described: {}",
        String::from_utf8_lossy(body)
    );
    let mut place = format!(
        "/paths/{}/{}/responses/{status}",
        template.replace('/', "~1"),
        method.to_lowercase()
    );
    if let Some(shared) = response["$ref"].as_str() {
        place = shared.trim_start_matches('#').to_owned();
    }
    let response = checker.document.pointer(&place).expect("a response");
    let Some(kind) = kind.map(|kind| kind.split(';').next().expect("a type")) else {
        assert!(response["content"].is_null(), "{at} has no body");
        return;
    };
    let content = response["content"].as_object();
    let content = content.unwrap_or_else(|| panic!("the body of {at} is not described"));
    // The media type of a file is its own.
    let described = content.contains_key(kind) || content.contains_key("application/octet-stream");
    assert!(described, "{at} does not describe `{kind}`");
    let Some(schema) = checker.known.get(&body_of(&place)) else {
        return;
    };
    if kind == "application/json" {
        let body: Value = serde_json::from_slice(body).unwrap_or_else(|error| panic!("{at}: {error}"));
        let compared = checker.schemas.validate(&body, *schema);
        compared.unwrap_or_else(|error| panic!("{at}: {error:#}\n{body:#}"));
    }
}

impl Checker {
    /// Returns the operation of a path, and its path in the description.
    fn operation(&self, method: &str, path: &str) -> Option<(String, Value)> {
        let parts: Vec<&str> = path.split('/').collect();
        let paths = self.document["paths"].as_object().expect("paths");
        let mut found: Vec<(&String, &Value)> = paths
            .iter()
            .filter(|(template, item)| {
                let template: Vec<&str> = template.split('/').collect();
                let same = |(part, name): (&&str, &&str)| part == name || name.starts_with('{');
                parts.len() == template.len()
                    && parts.iter().zip(&template).all(same)
                    && !item[method.to_lowercase()].is_null()
            })
            .collect();
        // A path without parameters comes first.
        found.sort_by_key(|(template, _)| template.matches('{').count());
        let (template, item) = found.first()?;
        Some(((*template).clone(), item[method.to_lowercase()].clone()))
    }
}

/// Refuses fields that a schema does not describe. `combined` schemas share the fields of the schema around them.
fn refuse_unknown_fields(schema: &mut Value, combined: bool) {
    match schema {
        Value::Object(keywords) => {
            let has_fields = keywords.get("properties").is_some_and(Value::is_object);
            if has_fields && !combined && keywords.get("additionalProperties").is_none() {
                keywords.insert("unevaluatedProperties".to_owned(), json!(false));
            }
            for (keyword, schema) in keywords {
                let combines = ["oneOf", "anyOf", "allOf"].contains(&keyword.as_str());
                refuse_unknown_fields(schema, combines && has_fields);
            }
        }
        Value::Array(schemas) => {
            for schema in schemas {
                refuse_unknown_fields(schema, combined);
            }
        }
        _ => {}
    }
}
