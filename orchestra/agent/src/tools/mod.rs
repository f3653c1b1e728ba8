//! The tools that every program has, and those made of shell commands.

pub(crate) mod arguments;
mod command;
mod confined;
mod edit;
mod glob;
mod grep;
mod kept;
mod read;
mod repository;
mod runner;
mod search;
mod select;
mod shell;
mod text;
mod walk;
mod write;

use std::sync::Arc;

pub(crate) use arguments::in_words;
pub use command::{CommandTool, CommandToolError};
pub(crate) use repository::InRepository;
pub use runner::ToolRunner;
pub use select::{SelectError, SelectedTools, select};
pub(crate) use shell::{in_context, is_of_git};
pub(crate) use text::{clipped, line_start};

use crate::tool::{Tool, ToolNames, ToolRegistry, ToolSet};

/// The built-in tools as a set.
///
/// | Tool | What it does | Beside others |
/// |---|---|---|
/// | `read-file` | lines of a text file | yes |
/// | `write-file` | a whole file, with the folders around it | |
/// | `edit-file` | exact replacements in a file, all or none | |
/// | `shell` | a command, bounded in time | |
/// | `grep` | the lines that a regular expression matches | yes |
/// | `glob` | the files whose paths match a pattern | yes |
/// | `search-code` | the files that fit some words best, with their best lines | yes |
///
/// File tools reach nothing beyond the [root](crate::ToolContext::root) of their call: neither by `..` nor by an
/// absolute path nor by a link, also one that is put into place while they work. They write nothing that git keeps for
/// itself (`.git`): a hook there would be run by git later; and nothing that the engine keeps (`.orchestra`, and the folder
/// of runs wherever it is), of which they read nothing but the run that asks. `shell` can do what a program can.
///
/// Of each repository of the configuration there is one of each, such as `backend:read-file`, whose working folder is
/// that repository.
///
/// ```
/// use orchestra_agent::{BuiltinTools, ToolRegistry, ToolSet};
/// let mut registry = ToolRegistry::default();
/// BuiltinTools.register(&mut registry);
/// assert!(BuiltinTools::NAMES.iter().all(|name| registry.get(name).is_some()));
/// assert!(registry.get("read_file").unwrap().is_read_only());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltinTools;

impl ToolSet for BuiltinTools {
    const NAMES: ToolNames = ToolNames::List(&[
        "read-file",
        "write-file",
        "edit-file",
        "shell",
        "grep",
        "glob",
        "search-code",
    ]);

    fn register(self, registry: &mut ToolRegistry) {
        for tool in built_in() {
            registry.add(tool);
        }
    }
}

pub(crate) fn built_in() -> [Arc<dyn Tool>; 7] {
    [
        Arc::new(read::ReadFile),
        Arc::new(write::WriteFile),
        Arc::new(edit::EditFile),
        Arc::new(shell::Shell),
        Arc::new(grep::Grep),
        Arc::new(glob::GlobFiles),
        Arc::new(search::SearchCode),
    ]
}

/// What a model is told of a built-in tool.
fn spec(parameters: &serde_json::Value, name: &str, description: &str) -> crate::tool::ToolSpec {
    crate::tool::ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: parameters.clone(),
    }
}
