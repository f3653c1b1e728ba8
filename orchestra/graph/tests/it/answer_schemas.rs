//! Tests of the schemas of answers (rule T8).

use orchestra_graph::{AnswerSchema, Contract, Diagnostic, LoadOptions, Loaded, ReadError, Source, load};
use serde_json::{Value, json};

fn schema(document: Value) -> AnswerSchema {
    AnswerSchema::parse(&document.to_string()).unwrap()
}

/// Returns the schema of an object with one property.
fn of_property(property: Value) -> AnswerSchema {
    schema(json!({"type": "object", "properties": {"x": property}, "required": ["x"]}))
}

#[test]
fn every_keyword_accepts_and_rejects() {
    let cases = [
        (json!({"type": "string"}), json!("a"), json!(1)),
        (json!({"type": ["string", "null"]}), json!(null), json!(1)),
        (json!({"type": "integer"}), json!(3), json!(3.5)),
        (json!({"type": "number"}), json!(3), json!("3")),
        (json!({"type": "boolean"}), json!(false), json!(0)),
        (json!({"enum": ["a", 1]}), json!(1.0), json!("b")),
        (
            json!({"const": {"a": [1]}}),
            json!({"a": [1.0]}),
            json!({"a": []}),
        ),
        (json!({"minLength": 2}), json!("öö"), json!("ö")),
        (json!({"maxLength": 2}), json!("öö"), json!("ööö")),
        (json!({"pattern": "b+$"}), json!("abb"), json!("abc")),
        (json!({"minimum": 2}), json!(2), json!(1.9)),
        (json!({"maximum": 2}), json!(2), json!(9_007_199_254_740_993_u64)),
        (json!({"exclusiveMinimum": 2}), json!(2.1), json!(2)),
        (json!({"exclusiveMaximum": 2}), json!(1), json!(2)),
        (json!({"multipleOf": 0.1}), json!(0.3), json!(0.35)),
        (json!({"multipleOf": 3}), json!(-9), json!(10)),
        (json!({"minItems": 1}), json!([0]), json!([])),
        (json!({"maxItems": 1}), json!([0]), json!([0, 0])),
        (json!({"uniqueItems": true}), json!([0, 1]), json!([0, 0])),
        (
            json!({"items": {"type": "string"}}),
            json!(["a"]),
            json!(["a", 1]),
        ),
        (
            json!({"prefixItems": [true], "items": false}),
            json!([1]),
            json!([1, 2]),
        ),
        (json!({"minProperties": 1}), json!({"a": 1}), json!({})),
        (
            json!({"maxProperties": 1}),
            json!({"a": 1}),
            json!({"a": 1, "b": 2}),
        ),
        (json!({"required": ["a"]}), json!({"a": null}), json!({"b": 1})),
        (
            json!({"properties": {"a": {"type": "string"}}}),
            json!({"a": "b", "c": 1}),
            json!({"a": 1}),
        ),
        (
            json!({"additionalProperties": {"type": "integer"}}),
            json!({"a": 1}),
            json!({"a": "b"}),
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"minimum": 3}]}),
            json!(4),
            json!(2),
        ),
        (
            json!({"oneOf": [{"minimum": 3}, {"maximum": 5}]}),
            json!(2),
            json!(4),
        ),
        (
            json!({"allOf": [{"minimum": 3}, {"maximum": 5}]}),
            json!(4),
            json!(6),
        ),
        (json!({"not": {"type": "string"}}), json!(4), json!("a")),
    ];
    for (property, good, bad) in cases {
        let schema = of_property(property.clone());
        assert_eq!(schema.validate(&json!({"x": good})), Ok(()), "{property}");
        let error = schema.validate(&json!({"x": bad})).unwrap_err();
        assert!(error.contains("/x"), "{property}: {error}");
    }
    // Keywords constrain only values of their type.
    for property in [
        json!({"minLength": 3}),
        json!({"minimum": 3}),
        json!({"minItems": 3}),
    ] {
        assert_eq!(of_property(property).validate(&json!({"x": null})), Ok(()));
    }
}

#[test]
fn references_lead_to_parts_of_the_schema() {
    let tree = schema(json!({
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "required": ["root"],
        "$defs": {"node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["name"],
            "additionalProperties": false,
        }},
    }));
    let good = json!({"root": {"name": "a", "children": [{"name": "b", "children": []}]}});
    assert_eq!(tree.validate(&good), Ok(()));
    let error = tree
        .validate(&json!({"root": {"name": "a", "children": [{"nmae": "b"}]}}))
        .unwrap_err();
    assert_eq!(
        error,
        "`/root/children/0/name` is missing; `/root/children/0/nmae` is not a property of the schema"
    );
    assert_eq!(tree.fields()[0].to_string(), "root: object");
}

#[test]
fn a_hostile_schema_or_answer_costs_little() {
    // Each definition doubles the work.
    let mut definitions = serde_json::Map::new();
    for level in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(format!("d{level}"), json!({"allOf": [next, next]}));
    }
    definitions.insert("d60".to_owned(), json!({"type": "string"}));
    let document =
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
    let error = schema(document).validate(&json!({"x": "a"})).unwrap_err();
    assert!(error.contains("too large to be validated"), "{error}");

    let mut deep = json!(1);
    for _ in 0..2_000 {
        deep = json!([deep]);
    }
    let list = schema(json!({"type": "object", "properties": {"x": {"items": {"$ref": "#/properties/x"}}}}));
    let error = list.validate(&json!({"x": deep})).unwrap_err();
    assert!(error.contains("too large to be validated"), "{error}");
}

#[test]
fn what_is_not_a_supported_schema_is_located() {
    let mistake = |property: Value| {
        let document = json!({"type": "object", "properties": {"x": property}, "$defs": {"a": {}}});
        let error = AnswerSchema::parse(&document.to_string()).unwrap_err();
        (error.pointer, error.message, error.help)
    };
    for (property, pointer, message, help) in [
        (
            json!({"type": "strng"}),
            "/type",
            "unknown type `strng`",
            "write `string`",
        ),
        (
            json!({"typ": "string"}),
            "/typ",
            "unknown keyword `typ`",
            "write `type`",
        ),
        (
            json!({"if": {}}),
            "/if",
            "the keyword `if` is not supported",
            "anyOf",
        ),
        (
            json!({"$ref": "https://x.test/a.json"}),
            "/$ref",
            "no schema `https://x.test/a.json`",
            "copy the schema",
        ),
        (
            json!({"$ref": "#/$defs/b"}),
            "/$ref",
            "no schema `#/$defs/b`",
            "of this file",
        ),
        (
            json!({"$ref": "#/$defs"}),
            "/$ref",
            "no schema `#/$defs`",
            "of this file",
        ),
        (
            json!({"$ref": "#/properties/x"}),
            "/$ref",
            "refers to itself for the same value",
            "items or properties",
        ),
        (
            json!({"anyOf": [{"$ref": "#/properties/x"}]}),
            "/anyOf/0/$ref",
            "refers to itself",
            "items or properties",
        ),
        (
            json!({"items": [{}]}),
            "/items",
            "expected a schema, found a list",
            "prefixItems",
        ),
        (
            json!({"pattern": "(?=a)"}),
            "/pattern",
            "unsupported regular expression",
            "look-around",
        ),
        (
            json!({"minLength": -1}),
            "/minLength",
            "expected a whole number",
            "minLength",
        ),
        (
            json!({"minimum": 5, "maximum": 4}),
            "/minimum",
            "greater than `maximum`",
            "no value",
        ),
        (
            json!({"properties": {"name": {}}, "required": ["nmae"], "additionalProperties": false}),
            "/required",
            "the required property `nmae` is not in `properties`",
            "write `name`",
        ),
    ] {
        let found = mistake(property.clone());
        assert_eq!(
            found.0,
            format!("/properties/x{pointer}"),
            "{property}: {found:?}"
        );
        assert!(
            found.1.contains(message) && found.2.contains(help),
            "{property}: {found:?}"
        );
    }
    for (text, message) in [
        ("", "invalid JSON"),
        ("[1]", "not a JSON object"),
        (r#"{"type": "array"}"#, "does not describe an object"),
        (r#"{"type": "object"}"#, "names no properties"),
        (
            r#"{"type": "object", "properties": {"a b": {}}}"#,
            "is not a valid key",
        ),
        (
            r#"{"type": "object", "properties": {"outcome": {}}}"#,
            "is a key of the engine",
        ),
    ] {
        let error = AnswerSchema::parse(text).unwrap_err();
        assert!(error.message.contains(message), "{text}: {error}");
    }
}

#[test]
fn outputs_follow_from_the_schema() {
    let fields = |properties: Value, required: Value| {
        let schema = schema(json!({
            "type": "object", "properties": properties, "required": required,
            "$defs": {"grade": {"type": "string", "enum": ["good", "bad"]}},
        }));
        let fields = schema.fields();
        fields.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let derived = fields(
        json!({
            "a": {"type": "integer"},
            "b": {"type": ["string", "null"]},
            "c": {"$ref": "#/$defs/grade"},
            "d": {"type": "array", "items": {"$ref": "#/$defs/grade"}},
            "e": {"anyOf": [{"type": "integer"}, {"type": "number"}]},
            "f": {"anyOf": [{"$ref": "#/$defs/grade"}, {"type": "null"}]},
            "g": {"enum": ["two words", "x"]},
            "h": {"anyOf": [{"type": "string"}, {}]},
            "i": {"type": "object"},
            "j": {"allOf": [{"minimum": 1}, {"type": "boolean"}]},
            "k": {"type": "array", "items": {"type": ["string", "null"]}},
            "l": {"const": "yes"},
        }),
        json!(["a", "b", "c", "d", "e", "f", "g", "h", "j", "k", "l"]),
    );
    assert_eq!(
        derived,
        [
            "a: int",
            "b: text?",
            "c: good|bad",
            "d: list<good|bad>",
            "e: number",
            "f: good|bad?",
            "g: text",
            "h: any?",
            "i: object?",
            "j: bool",
            "k: list",
            "l: text",
        ]
    );
}

/// Loads a pipeline with one file, `rating.json`.
fn loaded(text: &str) -> Loaded {
    let files = |path: &str, _: u64| match path {
        "flows/rating.json" => Ok(br#"
            {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
        "#
        .to_vec()),
        _ => Err(ReadError::Missing),
    };
    let options = LoadOptions {
        children: Some(&files),
        ..LoadOptions::default()
    };
    load(Source::new("flows/a.dot", text), &options)
}

#[test]
fn a_file_is_read_when_the_pipeline_is_loaded() {
    let loaded = loaded("digraph { start -> rate -> exit; rate [prompt=x, output_schema=\"rating.json\"] }");
    assert_eq!(loaded.prompt_files, ["flows/rating.json"]);
    let pipeline = loaded.pipeline().unwrap();
    let rate = pipeline.stage(pipeline.find("rate").unwrap());
    assert_eq!(rate.text("output_schema_file"), Some("rating.json"));
    let schema = AnswerSchema::from_stage(rate).unwrap().unwrap();
    assert!(schema.validate(&json!({"score": 1})).is_ok() && schema.validate(&json!({})).is_err());
    let contract = Contract::from_pipeline(&pipeline);
    assert_eq!(
        contract.outputs(rate.index(), "success")[0].to_string(),
        "score: int"
    );
}

#[test]
fn checks_rely_on_the_schema() {
    let errors = |text: &str| -> Vec<Diagnostic> { loaded(text).report.errors().cloned().collect() };
    let never = errors(
        "digraph { start -> rate; rate [prompt=x, output_schema=\"rating.json\"]
            rate -> exit [condition=\"context.score=high\"]; rate -> a -> exit; a [prompt=y] }",
    );
    assert!(
        never.iter().any(|error| error.code == "condition_type"),
        "{never:?}"
    );
    let twice = errors(
        "digraph { start -> rate -> b -> exit; rate [prompt=x, output_schema=\"rating.json\"]
            b [type=b, outputs=\"score: text\"] }",
    );
    let conflict = twice
        .iter()
        .find(|error| error.code == "output_conflict")
        .unwrap();
    assert_eq!(conflict.related[0].label, "`rate` declares it as `int`");
}

#[test]
fn only_model_stages_have_schemas() {
    let loaded = loaded(
        "digraph { node [output_schema=\"missing.json\"]; start -> make -> exit; make [shape=parallelogram, tool_command=make] }",
    );
    assert!(!loaded.report.has_errors(), "{:?}", loaded.report.diagnostics);
    assert!(loaded.prompt_files.is_empty());
}
