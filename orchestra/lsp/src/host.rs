//! The program that embeds the server. It provides the files and the checks that need the engine.

use orchestra_config::UserFiles;
use orchestra_graph::{Loaded, ReadError, Report};

/// The agents, tools and prompts of the user, for all of the user's projects.
///
/// ```
/// let user = orchestra_lsp::UserFolder::default();
/// assert!(user.files.agents.is_empty() && user.prompts.is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct UserFolder {
    /// The agents and tools.
    pub files: UserFiles,
    /// The absolute path of the folder with the user's prompt layers.
    pub prompts: Option<String>,
}

/// The program that embeds the server.
///
/// All paths are absolute and have `/` as separator.
///
/// ```
/// use orchestra_graph::ReadError;
/// struct Nothing;
/// impl orchestra_lsp::Host for Nothing {
///     fn read(&self, _path: &str, _limit: u64) -> Result<Vec<u8>, ReadError> {
///         Err(ReadError::Missing)
///     }
/// }
/// ```
pub trait Host {
    /// Reads a file of at most `limit` bytes.
    ///
    /// # Errors
    /// Fails if the file is missing, too long or unreadable.
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadError>;

    /// Returns the files below a folder that have one of these endings (without dot), in any order, at most `limit`.
    /// Hidden folders and build results may be left out.
    fn list(&self, _folder: &str, _endings: &[&str], _limit: usize) -> Vec<String> {
        Vec::new()
    }

    /// Returns how many parent folders of a workspace folder belong to the same project, and may contain its
    /// configuration.
    fn parents(&self, _folder: &str) -> usize {
        0
    }

    /// Returns the names of the files in a folder, for suggestions.
    fn names(&self, _folder: &str) -> Vec<String> {
        Vec::new()
    }

    /// Returns the agents, tools and prompts of the user.
    fn user(&self) -> UserFolder {
        UserFolder::default()
    }

    /// Returns the reports about a pipeline without errors that `check` adds because a run could not start.
    fn refusals(&self, _loaded: &Loaded) -> Vec<Report> {
        Vec::new()
    }
}
