//! The tool `write-file`.

use orchestra_engine::CancellationToken;
use schemars::JsonSchema;
use serde::Deserialize;

use super::confined::{Confined, shown};
use super::file_tool::FileCall;
use super::text;
use crate::tool::ToolError;

/// A call of the tool `write-file`, which writes a whole file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteFile {
    /// The file, relative to the working folder.
    path: String,
    /// All that the file is to hold.
    content: String,
}

impl FileCall for WriteFile {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str = "Writes a file as a whole, and makes the folders around it where \
        they are missing. A file that is there already is replaced; to change a part of one, `edit_file` \
        is better.";
    const IS_READ_ONLY: bool = false;

    fn run(&self, folder: &Confined, _: &CancellationToken, _: usize) -> Result<String, ToolError> {
        let path = folder.inside(&self.path)?;
        let what = if folder.replace(&path, self.content.as_bytes())? {
            "replaced"
        } else {
            "made"
        };
        let lines = text::count(self.content.lines().count(), "line");
        let bytes = text::count(self.content.len(), "byte");
        Ok(format!("`{}` is {what}: {lines}, {bytes}", shown(&path)))
    }
}
