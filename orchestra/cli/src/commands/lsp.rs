//! `lsp`: serves an editor on standard input and output.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use orchestra_engine::Disk;
use orchestra_graph::{ChildReader, Loaded, ReadError, Report};
use orchestra_lsp::{Ended, Host, UserFolder, serve};

use crate::error::{CliError, Exit};
use crate::project::agents::{user_folder, with_slashes};
use crate::project::root::parents_in_repository;
use crate::project::startable::refusals;

/// The maximum number of folders that are searched for files.
const MAX_FOLDERS: usize = 5000;
/// Folders with build results and packages.
const SKIPPED: &[&str] = &["target", "node_modules"];

pub(crate) fn lsp() -> Result<Exit, CliError> {
    match serve(std::io::stdin(), std::io::stdout(), &Program) {
        Ok(Ended::Exit | Ended::EndOfInput) => Ok(Exit::Ok),
        Ok(_) => Ok(Exit::RunFailed),
        Err(error) => Err(CliError::usage("language_server", error.to_string()).exit(Exit::Output)),
    }
}

/// The files on disk, and the checks of the engine.
struct Program;

impl Host for Program {
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        Disk.read(path, limit)
    }

    fn list(&self, folder: &str, endings: &[&str], limit: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = VecDeque::from([PathBuf::from(folder)]);
        for _ in 0..MAX_FOLDERS {
            let Some(folder) = folders.pop_front() else {
                break;
            };
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            for entry in entries {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if name.starts_with('.') || SKIPPED.contains(&&*name) {
                    continue;
                }
                // A link is not followed: it may lead back.
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push_back(entry.path()),
                    Ok(kind) if kind.is_file() => {
                        let path = with_slashes(&entry.path());
                        if endings
                            .iter()
                            .any(|ending| path.rsplit_once('.').is_some_and(|(_, own)| own == *ending))
                        {
                            found.push(path);
                        }
                    }
                    _ => {}
                }
                if found.len() == limit {
                    return found;
                }
            }
        }
        found
    }

    fn parents(&self, folder: &str) -> usize {
        parents_in_repository(Path::new(folder))
    }

    fn names(&self, folder: &str) -> Vec<String> {
        Disk.names(folder)
    }

    fn user(&self) -> UserFolder {
        let Some((files, prompts)) = user_folder() else {
            return UserFolder::default();
        };
        UserFolder {
            files,
            prompts: Some(prompts),
        }
    }

    fn refusals(&self, loaded: &Loaded) -> Vec<Report> {
        match loaded.pipeline() {
            Some(pipeline) => refusals(loaded, pipeline).unwrap_or_default(),
            None => Vec::new(),
        }
    }
}
