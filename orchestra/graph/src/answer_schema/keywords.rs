//! The keywords of JSON Schema, by what they hold.

/// The types of JSON.
pub(super) const TYPES: &[&str] = &[
    "string", "integer", "number", "boolean", "null", "array", "object",
];

/// Keywords that hold a list of schemas that apply to the same value.
pub(super) const COMBINED: &[&str] = &["anyOf", "oneOf", "allOf"];

/// Keywords that hold a map of schemas that apply to no value unless something refers to them.
pub(super) const DEFINITIONS: &[&str] = &["$defs", "definitions"];

/// Keywords that hold a whole number of at least 0.
pub(super) const COUNTS: &[&str] = &[
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
];

/// Keywords that hold a number.
pub(super) const NUMBERS: &[&str] = &[
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// Keywords that constrain nothing.
pub(super) const ANNOTATIONS: &[&str] = &[
    "$schema",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
    "contentEncoding",
    "contentMediaType",
];

/// The other supported keywords.
pub(super) const OTHERS: &[&str] = &[
    "$ref",
    "type",
    "enum",
    "const",
    "pattern",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "uniqueItems",
    "not",
];

/// Returns all supported keywords.
pub(super) fn supported() -> impl Iterator<Item = &'static str> {
    [COMBINED, DEFINITIONS, COUNTS, NUMBERS, ANNOTATIONS, OTHERS]
        .into_iter()
        .flatten()
        .copied()
}

/// Returns how to replace a keyword of JSON Schema that is not supported; `None` for words that are no keywords.
pub(super) fn replacement(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "if" | "then" | "else" => "write the cases as schemas of `anyOf`",
        "dependentRequired" | "dependentSchemas" | "dependencies" => "write the cases as schemas of `anyOf`",
        "patternProperties" | "propertyNames" => "name the properties, or use `additionalProperties`",
        "unevaluatedProperties" => "use `additionalProperties`",
        "unevaluatedItems" | "additionalItems" => "use `items` after `prefixItems`",
        "contains" | "minContains" | "maxContains" => "use `items`",
        "$dynamicRef" | "$recursiveRef" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" => {
            "use `$ref` with a pointer such as `#/$defs/item`"
        }
        "$id" | "id" | "$vocabulary" => "remove it; a `$ref` refers to a part of the same schema",
        "nullable" => "write `\"type\": [\"string\", \"null\"]`",
        "contentSchema" => "remove it; it constrains nothing",
        _ => return None,
    })
}
