//! The folder of run folders: how runs are named on the command line, and found.

use std::path::{Path, PathBuf};

use orchestra_engine::{RunHandle};

use crate::args::{RUNS, RunsDir};
use crate::terminal::Terminal;

/// The folder of run folders, and the program that deals with it.
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

    /// A command of this program about the run in a folder, as it can be typed.
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
                words.push(self.shown(folder));
                words.extend(options.iter().map(|option| (*option).to_owned()));
            }
        }
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        words.join(" ")
    }

    /// A folder as it is shown: from here, where it lies below.
    pub(crate) fn shown(&self, folder: &Path) -> String {
        let here = std::env::current_dir().ok();
        let below = here.as_deref().and_then(|here| folder.strip_prefix(here).ok());
        match below {
            // A bare name could be taken for that of a run.
            Some(below) if below.components().count() == 1 => Path::new(".").join(below).display().to_string(),
            Some(below) => below.display().to_string(),
            None => folder.display().to_string(),
        }
    }

    /// Lists a run that has begun. The index never stops a run.
    pub(crate) fn accept(&self, handle: &RunHandle, terminal: &Terminal) {
        let _ = (handle, terminal);
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_more_into_them() {
        for (word, typed) in [("a/b-1.0", "a/b-1.0"), ("it's", "'it'\\''s'"), ("", "''"), ("a b", "'a b'")] {
            assert_eq!(quoted(word), typed);
        }
    }
}
