//! Tests of the published schema.

use std::path::Path;

use serde_json::Value;

#[test]
fn the_file_holds_the_schema_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("orchestra.schema.json");
    let schema = orchestra_config::schema();
    let text = format!("{}\n", serde_json::to_string_pretty(&schema).expect("it is JSON"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("the schema can be written");
    }
    let file = std::fs::read_to_string(&path).expect("the schema is there");
    assert!(
        file == text,
        "{} is not what the types say; `UPDATE=1` writes it anew",
        path.display()
    );
}

#[test]
fn every_key_is_described_and_no_other_is_allowed() {
    let schema = orchestra_config::schema();
    let mut bare = Vec::new();
    let definitions = schema["$defs"].as_object().expect("definitions").iter();
    let root = ("Configuration".to_owned(), &schema);
    for (name, definition) in definitions
        .map(|(name, value)| (name.clone(), value))
        .chain([root])
    {
        let Some(keys) = definition["properties"].as_object() else {
            continue;
        };
        let named = name == "Providers";
        assert!(
            named || definition["additionalProperties"] == Value::Bool(false),
            "{name} takes any key"
        );
        bare.extend(
            keys.iter()
                .filter(|(_, key)| key["description"].is_null())
                .map(|(key, _)| format!("{name}.{key}")),
        );
    }
    assert_eq!(bare, Vec::<String>::new());
}
