//! The JSON schemas of texts with a form of their own.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::clock::Timestamp;
use crate::event::NodeName;
use crate::id::RunId;

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "A time in UTC, in milliseconds.", "type": "string", "format": "date-time" })
    }
}

impl JsonSchema for RunId {
    fn schema_name() -> Cow<'static, str> {
        "RunId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "The id of a run.", "type": "string" })
    }
}

impl JsonSchema for NodeName {
    fn schema_name() -> Cow<'static, str> {
        "NodeName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "The id of a node.", "type": "string" })
    }
}
