//! The tool `glob`.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::LazyLock;

use orchestra_engine::CancellationToken;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::confined::{Confined, shown, work};
use super::walk::{Ended, Pattern, files};
use super::{arguments, spec, text};
use crate::tool::{Tool, ToolContext, ToolError, ToolFuture, ToolSpec};

/// The tool `glob`, which lists files.
pub(crate) struct GlobFiles;

static SCHEMA: LazyLock<Value> = LazyLock::new(arguments::schema_of::<Arguments>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The pattern, such as `*.rs` (in any folder), `src/**/*.rs` or `{README,LICENSE}*`.
    pattern: String,
    /// The folder to look in, relative to the working folder; all of it unless given.
    path: Option<String>,
}

impl Tool for GlobFiles {
    fn spec(&self) -> ToolSpec {
        spec(
            &SCHEMA,
            "glob",
            "Lists the files whose paths in the working folder match a pattern, in the order of their names. Files \
             that git ignores are left out, unless `path` lies among them; links are not followed.",
        )
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, arguments: Map<String, Value>, context: ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let arguments: Arguments = arguments::read(&SCHEMA, arguments)?;
            let limit = context.most_output();
            let found = work(&context, move |folder, stop| {
                list(folder, stop, &arguments, limit)
            });
            Ok(found.await?.into())
        })
    }
}

fn list(
    folder: &Confined,
    stop: &CancellationToken,
    arguments: &Arguments,
    limit: usize,
) -> Result<String, ToolError> {
    let start = arguments
        .path
        .as_deref()
        .map_or(Ok(PathBuf::from(".")), |path| folder.inside(path))?;
    let pattern = Pattern::new(&arguments.pattern)?;
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
        Ended::Complete if count == 0 => Ok(format!("no file matches `{}`", arguments.pattern)),
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
