//! The tool `glob`.

use std::ops::ControlFlow;

use orchestra_engine::CancellationToken;
use schemars::JsonSchema;
use serde::Deserialize;

use super::confined::{Confined, shown};
use super::file_tool::FileCall;
use super::text;
use super::walk::{Ended, Pattern, files};
use crate::tool::ToolError;

/// A call of the tool `glob`, which lists files.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GlobFiles {
    /// The pattern, such as `*.rs` (in any folder), `src/**/*.rs` or `{README,LICENSE}*`.
    pattern: String,
    /// The folder to look in, relative to the working folder; all of it unless given.
    path: Option<String>,
}

impl FileCall for GlobFiles {
    const NAME: &'static str = "glob";
    const DESCRIPTION: &'static str = "Lists the files whose paths in the working folder match a pattern, \
        in the order of their names. Files that git ignores are left out, unless `path` lies among them; \
        links are not followed.";
    const IS_READ_ONLY: bool = true;

    fn run(&self, folder: &Confined, stop: &CancellationToken, limit: usize) -> Result<String, ToolError> {
        let start = folder.start(self.path.as_deref())?;
        let pattern = Pattern::new(&self.pattern)?;
        // The last line, a summary, needs space.
        let room = limit.saturating_sub(300);
        let (mut found, mut count) = (String::new(), 0_usize);
        let ended = files(folder, &start, stop, &mut |path| {
            if pattern.matches(path) {
                count += 1;
                let name = shown(path);
                if found.len() + name.len() < room {
                    found.push_str(&name);
                    found.push('\n');
                } else {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        match ended {
            Ended::Complete if count == 0 => Ok(format!("no file matches `{}`", self.pattern)),
            Ended::Complete => Ok(format!("{found}[{}]", text::count(count, "file"))),
            Ended::Enough => Ok(format!(
                "{found}[there are more than these {} files; narrow the pattern, or look in a `path`]",
                count - 1
            )),
            Ended::TooMany => Ok(format!(
                "{found}[{} so far; the folder is too large to be looked through, so look in a `path`]",
                text::count(count, "file")
            )),
        }
    }
}
