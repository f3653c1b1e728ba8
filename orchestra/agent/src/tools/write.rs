//! The tool `write-file`.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::confined::{shown, work};
use super::{arguments, spec, text};
use crate::tool::{Tool, ToolContext, ToolFuture, ToolSpec};

/// The tool `write-file`, which writes a whole file.
pub(crate) struct WriteFile;

static SCHEMA: LazyLock<Value> = LazyLock::new(arguments::schema_of::<Arguments>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file, relative to the working folder.
    path: String,
    /// All that the file is to hold.
    content: String,
}

impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        spec(
            &SCHEMA,
            "write_file",
            "Writes a file as a whole, and makes the folders around it where they are missing. A file that is there \
             already is replaced; to change a part of one, `edit_file` is better.",
        )
    }

    fn call<'a>(&'a self, arguments: Map<String, Value>, context: ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let arguments: Arguments = arguments::read(&SCHEMA, arguments)?;
            let told = work(&context, move |folder, _| {
                let path = folder.inside(&arguments.path)?;
                let what = if folder.replace(&path, arguments.content.as_bytes())? {
                    "replaced"
                } else {
                    "made"
                };
                let lines = text::count(arguments.content.lines().count(), "line");
                let bytes = text::count(arguments.content.len(), "byte");
                Ok(format!("`{}` is {what}: {lines}, {bytes}", shown(&path)))
            });
            Ok(told.await?.into())
        })
    }
}
