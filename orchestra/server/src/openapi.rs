//! The description of the API (OpenAPI 3.1). Each route is registered together with its description.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use utoipa::openapi::schema::{Object, SchemaType};
use utoipa::openapi::{OpenApi, RefOr, Schema};

use crate::error::ErrorBody;
use crate::guard::OPEN_API;
use crate::webhook::HOOKS;

/// Where the description holds schemas.
const SCHEMAS: &str = "#/components/schemas";

/// The parameters of paths.
const PARAMETERS: &[(&str, &str)] = &[
    ("decision", "The sequence number of the decision."),
    ("file", "The id of the file, from the list of files."),
    ("id", "The id of the run."),
    ("name", "The name of the pipeline."),
    (
        "question",
        "The id of the question, percent-encoded, or its node.",
    ),
    (
        "version",
        "The number of the version, from 1; with `.dot` behind it, its bare text.",
    ),
    ("webhook", "The name of the webhook."),
    ("workflow", "The id of the workflow, or its name."),
];

/// The errors that every route can return: status, name, text.
const COMMON_ERRORS: &[(&str, &str, &str)] = &[
    (
        "400",
        "Malformed",
        "`malformed`: the request cannot be understood.",
    ),
    (
        "401",
        "Unauthorized",
        "`unauthorized`: the request has neither the token nor a session.",
    ),
    (
        "403",
        "Forbidden",
        "`cross_site`: another page sent the request. `read_only`: the server accepts no writes.",
    ),
    (
        "421",
        "WrongHost",
        "`wrong_host`: the request names a host that is not this server.",
    ),
    (
        "429",
        "TooMany",
        "`too_many`: try again after the seconds of the header `Retry-After`.",
    ),
    (
        "500",
        "Internal",
        "The server itself failed, such as on a run folder that cannot be read.",
    ),
    ("503", "Stopping", "`stopping`: the server stops."),
];

/// The errors of routes that read a body.
const BODY_ERRORS: &[(&str, &str, &str)] = &[
    (
        "408",
        "BodyTimeout",
        "`body_timeout`: the body did not arrive in time.",
    ),
    ("413", "TooLarge", "`too_large`: the body is too long."),
    (
        "415",
        "UnsupportedMediaType",
        "`unsupported_media_type`: the body is not declared as `application/json`, or it is compressed.",
    ),
];

/// Describes types that replies and requests contain.
macro_rules! described {
    ($direction:ident: $($body:ty),* $(,)?) => {$(
        impl utoipa::PartialSchema for $body {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $crate::openapi::reference::<$body>()
            }
        }

        impl utoipa::ToSchema for $body {
            fn name() -> std::borrow::Cow<'static, str> {
                <$body as schemars::JsonSchema>::schema_name()
            }

            fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
                schemas.extend($crate::openapi::schemas::<$body>($crate::openapi::Direction::$direction));
            }
        }
    )*};
}
pub(crate) use described;

/// Whether a type is sent or received: fields with a default may be missing in requests alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Reply,
    Request,
}

/// Returns the reference to a type that is described elsewhere.
pub(crate) fn reference<T: JsonSchema>() -> RefOr<Schema> {
    RefOr::Ref(utoipa::openapi::Ref::new(format!(
        "{SCHEMAS}/{}",
        T::schema_name()
    )))
}

/// Returns the schemas of a type and of all types that it contains.
pub(crate) fn schemas<T: JsonSchema>(direction: Direction) -> Vec<(String, RefOr<Schema>)> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = SCHEMAS.trim_start_matches('#').into();
        settings.meta_schema = None;
        // A type that is both sent and received has one name, but two schemas.
        settings.inline_subschemas = direction == Direction::Request;
    });
    let settings = match direction {
        Direction::Reply => settings.for_serialize(),
        Direction::Request => settings.for_deserialize(),
    };
    let mut generator = settings.into_generator();
    let own = generator.subschema_for::<T>();
    let mut definitions = generator.take_definitions(true);
    definitions
        .entry(T::schema_name())
        .or_insert_with(|| own.to_value());
    let described = definitions.into_iter().map(|(name, mut schema)| {
        tidy(&mut schema);
        (name, RefOr::T(verbatim(schema)))
    });
    described.collect()
}

/// Returns a schema that is written as it is: the types of `utoipa` know fewer keywords.
fn verbatim(schema: Value) -> Schema {
    let Value::Object(keywords) = schema else {
        return Schema::default();
    };
    let mut object = Object::with_type(SchemaType::AnyValue);
    object.extensions = Some(keywords.into_iter().collect());
    Schema::Object(object)
}

/// Removes the examples in Rust from descriptions, and schemas that are booleans, which few tools know.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            if let Some(Value::String(text)) = keywords.get_mut("description") {
                let prose = text.split("```").next().unwrap_or_default();
                *text = prose.trim().replace('\n', " ");
            }
            if let Some(Value::Object(properties)) = keywords.get_mut("properties") {
                for property in properties.values_mut() {
                    if *property == Value::Bool(true) {
                        *property = json!({});
                    }
                }
            }
            keywords.values_mut().for_each(tidy);
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// The complete description, for the route that returns it.
#[derive(Clone, Copy)]
pub(crate) struct Description(pub(crate) &'static Value);

/// Adds to the descriptions of the routes what all of them share.
pub(crate) fn complete(api: OpenApi) -> Value {
    let mut document = serde_json::to_value(api).unwrap_or_default();
    document["info"] = json!({
        "title": "Orchestra",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "Shows the runs of pipelines, starts and controls them, and answers their questions.",
    });
    let components = &mut document["components"];
    components["securitySchemes"] = json!({
        "token": {
            "type": "http", "scheme": "bearer",
            "description": "The token that the server prints when it starts.",
        },
        "session": {
            "type": "apiKey", "in": "cookie", "name": "orchestra_PORT",
            "description": "The cookie of a page, which `POST /api/v1/session` sets. Requests also need the \
                key that it returns in the header `X-Orchestra`.",
        },
        "webhook": {
            "type": "http", "scheme": "bearer",
            "description": "The secret of the webhook. GitLab sends it as `X-Gitlab-Token`.",
        },
        "signature": {
            "type": "apiKey", "in": "header", "name": "X-Hub-Signature-256",
            "description": "`sha256=` and the HMAC-SHA256 of the body with the secret of the webhook, in hexadecimal.",
        },
    });
    for (name, schema) in schemas::<ErrorBody<'_>>(Direction::Reply) {
        components["schemas"][name] = serde_json::to_value(schema).unwrap_or_default();
    }
    for (_, name, text) in COMMON_ERRORS.iter().chain(BODY_ERRORS) {
        components["responses"][*name] = error_reply(text);
    }
    document["security"] = json!([{ "token": [] }, { "session": [] }]);
    let schemas = document["components"]["schemas"].clone();
    if let Some(Value::Object(paths)) = document.get_mut("paths") {
        for (path, item) in paths {
            if let Value::Object(operations) = item {
                for operation in operations.values_mut().filter_map(Value::as_object_mut) {
                    complete_operation(path, operation, &schemas);
                }
            }
        }
    }
    document
}

fn complete_operation(path: &str, operation: &mut Map<String, Value>, schemas: &Value) {
    if OPEN_API.contains(&path) {
        operation.insert("security".to_owned(), json!([]));
    }
    if path.starts_with(HOOKS) {
        let security = json!([{ "webhook": [] }, { "signature": [] }]);
        operation.insert("security".to_owned(), security);
    }
    let named = path.split('/').filter_map(|part| part.strip_prefix('{'));
    let named = named.map(|part| part.split('}').next().unwrap_or_default());
    let parameters = named.map(|name| {
        let text = PARAMETERS.iter().find(|(known, _)| *known == name);
        json!({
            "name": name, "in": "path", "required": true, "schema": { "type": "string" },
            "description": text.map(|(_, text)| *text).unwrap_or_default(),
        })
    });
    let mut parameters: Vec<Value> = parameters.collect();
    if let Some(Value::Array(own)) = operation.remove("parameters") {
        parameters.extend(own);
    }
    if !parameters.is_empty() {
        operation.insert("parameters".to_owned(), parameters.into());
    }
    let reads_body = operation.contains_key("requestBody");
    if let Some(body) = operation.get_mut("requestBody") {
        let schema = &body["content"]["application/json"]["schema"]["$ref"];
        let name = schema.as_str().and_then(|reference| reference.rsplit('/').next());
        // No body is an empty object.
        body["required"] = name
            .is_none_or(|name| !schemas[name]["required"].is_null())
            .into();
    }
    let Some(Value::Object(responses)) = operation.get_mut("responses") else {
        return;
    };
    for (status, response) in &mut *responses {
        if status.starts_with(['4', '5']) {
            let text = response["description"].as_str().unwrap_or_default();
            *response = error_reply(text);
        }
    }
    let body_errors = BODY_ERRORS.iter().filter(|_| reads_body);
    for (status, name, _) in COMMON_ERRORS.iter().chain(body_errors) {
        let shared = || json!({ "$ref": format!("#/components/responses/{name}") });
        responses.entry(*status).or_insert_with(shared);
    }
}

fn error_reply(text: &str) -> Value {
    json!({
        "description": text,
        "content": { "application/json": { "schema": { "$ref": format!("{SCHEMAS}/Error") } } },
    })
}
