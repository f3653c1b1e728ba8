//! The runs folder, and finding runs by their names on the command line.

pub(crate) mod errors;
mod indexing;
pub(crate) mod runtime;
pub(crate) mod session;
pub(crate) mod signals;
pub(crate) mod stopped;
pub(crate) mod tail;
pub(crate) mod telemetry;

use std::path::{Path, PathBuf};
use std::time::Duration;

use orchestra_engine::{RunFile, RunFolder};
use orchestra_sessions::{RunFilter, SessionError, SessionIndex};

use crate::args::{RUNS, RunsDir};
use crate::error::CliError;

/// Maximum time to wait while another process holds the index.
const INDEX_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum wait if the index is only needed to look up the name of a run.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// The name of the run that started last.
const LAST: &str = "last";

/// The runs folder, and the name of this program for commands.
#[derive(Clone)]
pub(crate) struct Runs {
    dir: PathBuf,
    program: String,
}

impl Runs {
    pub(crate) fn new(args: &RunsDir, program: &str) -> Runs {
        Runs {
            dir: args.dir.clone(),
            program: program.to_owned(),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns a command of this program for the run in a folder, quoted for a shell.
    pub(crate) fn command(&self, verb: &str, folder: &Path, options: &[&str]) -> String {
        let mut words = vec![self.program.clone(), verb.to_owned()];
        let inside = std::path::absolute(&self.dir).ok();
        match folder.file_name() {
            Some(name) if folder.parent().is_some() && folder.parent() == inside.as_deref() => {
                words.push(name.to_string_lossy().into_owned());
                words.extend(options.iter().map(|option| (*option).to_owned()));
                if self.dir != Path::new(RUNS) {
                    words.extend(["--runs".to_owned(), self.dir.to_string_lossy().into_owned()]);
                }
            }
            _ => {
                words.push(self.display_path(folder));
                words.extend(options.iter().map(|option| (*option).to_owned()));
            }
        }
        let words: Vec<String> = words.iter().map(|word| shell_quoted(word)).collect();
        words.join(" ")
    }

    /// Returns the displayed path of a folder, relative to the current directory if it is below it.
    pub(crate) fn display_path(&self, folder: &Path) -> String {
        let here = std::env::current_dir().ok();
        let below = here.as_deref().and_then(|here| folder.strip_prefix(here).ok());
        match below {
            // The current directory itself has no components to show.
            Some(below) if below.as_os_str().is_empty() => ".".to_owned(),
            // A bare name could be mistaken for the id of a run.
            Some(below) if below.components().count() == 1 => {
                Path::new(".").join(below).display().to_string()
            }
            Some(below) => below.display().to_string(),
            None => folder.display().to_string(),
        }
    }

    /// Returns the folder of a run. `name` is an id, a prefix of an id, `last`, or a folder.
    ///
    /// # Errors
    ///
    /// Returns an error if no run or several runs match.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf, CliError> {
        let path = Path::new(name);
        if name.contains(std::path::is_separator) || name.starts_with('.') {
            return if RunFolder::is_one(path) {
                absolute(path)
            } else {
                Err(not_a_run(path))
            };
        }
        let inside = self.dir.join(name);
        if RunFolder::is_one(&inside) {
            return absolute(&inside);
        }
        let in_current_folder = || RunFolder::is_one(path).then(|| absolute(path));
        if !self.dir.is_dir() {
            return in_current_folder().unwrap_or_else(|| Err(self.no_runs(name)));
        }
        match self.find_in_index(name) {
            Ok(Some(folder)) => Ok(folder),
            Ok(None) => Err(self.no_runs(name)),
            Err(error @ SessionError::UnknownRun { .. }) => {
                in_current_folder().unwrap_or_else(|| Err(error.into()))
            }
            Err(error @ SessionError::AmbiguousRun { .. }) => Err(error.into()),
            // The index is held or broken, but the run folders can still be listed.
            Err(error) => self.find_in_folders(name).ok_or_else(|| error.into()),
        }
    }

    /// Returns the folder of a run from the index. Returns `None` for `last` if there are no runs.
    fn find_in_index(&self, name: &str) -> Result<Option<PathBuf>, SessionError> {
        let index = SessionIndex::open_patiently(&self.dir, LOOK_UP_TIMEOUT)?;
        if name == LAST {
            let latest = index.list(&RunFilter::all().limit(1))?;
            return Ok(latest.into_iter().next().map(|run| run.folder));
        }
        Ok(Some(index.run(name)?.folder))
    }

    /// Searches the run folders without the index.
    fn find_in_folders(&self, name: &str) -> Option<PathBuf> {
        let folders = RunFolder::list(&self.dir).ok()?.into_iter();
        let found = if name == LAST {
            folders.max_by_key(|folder| {
                let run = RunFolder::open(folder);
                run.map(|run| run.manifest().started.as_millis()).unwrap_or(0)
            })
        } else {
            let begins = |folder: &PathBuf| {
                let own = folder.file_name().and_then(|own| own.to_str());
                own.is_some_and(|own| own.starts_with(name))
            };
            let mut matching = folders.filter(begins);
            match (matching.next(), matching.next()) {
                (Some(only), None) => Some(only),
                _ => None,
            }
        };
        absolute(&found?).ok()
    }

    /// Opens the index of the runs folder.
    pub(crate) fn index(&self) -> Result<SessionIndex, CliError> {
        Ok(SessionIndex::open_patiently(&self.dir, INDEX_TIMEOUT)?)
    }

    /// Opens the index that lists the run in a folder. Also returns the id of the run.
    pub(crate) fn index_of(&self, folder: &Path) -> Result<(SessionIndex, String), CliError> {
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let own = || RunFolder::open(folder).is_ok_and(|run| run.manifest().run == name);
        let parent = folder.parent().filter(|parent| self.is_dir(parent) || own());
        match parent {
            Some(parent) => Ok((SessionIndex::open_patiently(parent, INDEX_TIMEOUT)?, name)),
            None => {
                let index = self.index()?;
                let run = index.accept(folder)?;
                Ok((index, run.to_string()))
            }
        }
    }

    fn is_dir(&self, folder: &Path) -> bool {
        std::path::absolute(&self.dir).is_ok_and(|dir| dir == folder)
    }

    fn no_runs(&self, name: &str) -> CliError {
        let dir = self.dir.display();
        let message = match name {
            LAST => format!("there are no runs in `{dir}`"),
            _ => format!(
                "unknown run `{}`: there are no runs in `{dir}`",
                name.escape_debug()
            ),
        };
        CliError::usage("unknown_run", message).help("name another folder of runs with `--runs`")
    }
}

fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    std::path::absolute(path)
        .map_err(|error| CliError::usage("store_io", format!("cannot find `{}`: {error}", path.display())))
}

fn not_a_run(path: &Path) -> CliError {
    CliError::usage(
        "store_no_run",
        format!("`{}` is not the folder of a run", path.display()),
    )
    .help(format!("it has no `{}`", RunFile::Manifest.name()))
}

/// Quotes a word for a shell.
pub(crate) fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_more_into_them() {
        for (word, typed) in [
            ("a/b-1.0", "a/b-1.0"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
            ("a b", "'a b'"),
        ] {
            assert_eq!(shell_quoted(word), typed);
        }
    }
}
