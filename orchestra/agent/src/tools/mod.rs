//! The built-in tools, the tools that run configured shell commands, and the execution of tool calls.

pub(crate) mod arguments;
mod command;
mod confined;
mod edit;
mod file_tool;
mod glob;
mod grep;
mod protected;
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

pub(crate) use arguments::describe_parameters;
pub use command::{CommandTool, CommandToolError};
pub(crate) use repository::InRepository;
pub use runner::ToolRunner;
pub use select::{SelectError, SelectedTools, select};
pub(crate) use shell::{in_context, is_of_git};
pub(crate) use text::{clipped, error_line, line_start};

use self::edit::EditFile;
use self::file_tool::FileTool;
use self::glob::GlobFiles;
use self::grep::Grep;
use self::read::ReadFile;
use self::search::SearchCode;
use self::shell::Shell;
use self::write::WriteFile;
use crate::tool::{Tool, ToolNames, ToolRegistry, ToolSet};

/// The set of the built-in tools.
///
/// | Tool | Function | Concurrent |
/// |---|---|---|
/// | `read-file` | reads lines of a text file | yes |
/// | `write-file` | writes a whole file, and creates its parent folders | |
/// | `edit-file` | makes exact replacements in a file, all or none | |
/// | `shell` | runs a command with a time limit | |
/// | `grep` | finds the lines that a regular expression matches | yes |
/// | `glob` | lists the files whose paths match a pattern | yes |
/// | `search-code` | ranks the files that match some words, and shows their best lines | yes |
///
/// File tools cannot leave the [root](crate::ToolContext::root) of their call: neither with `..`, nor with an absolute
/// path, nor through a link, even if it is created while they run. They do not write git's own files (`.git`), because
/// git would later run a hook there. They do not write the files of the engine (`.orchestra`, and the runs folder
/// wherever it is), and of the engine's run folders they read only that of the current run. `shell` can do anything
/// that a program can do.
///
/// Each repository of the configuration also has all of these tools, such as `backend:read-file`, with that repository
/// as the working folder.
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
        Arc::new(FileTool::<ReadFile>::new()),
        Arc::new(FileTool::<WriteFile>::new()),
        Arc::new(FileTool::<EditFile>::new()),
        Arc::new(Shell),
        Arc::new(FileTool::<Grep>::new()),
        Arc::new(FileTool::<GlobFiles>::new()),
        Arc::new(FileTool::<SearchCode>::new()),
    ]
}
