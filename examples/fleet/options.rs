//! The options of the command line.

use std::io;
use std::path::PathBuf;

/// The options of the command line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// The person at the terminal answers the gate.
    pub(crate) ask: bool,
    /// Shows the copy of the run in a browser.
    pub(crate) serve: bool,
    /// The folder of runs to which the run is copied.
    runs: Option<PathBuf>,
}

impl Options {
    pub(crate) const USAGE: &str = "usage: cargo run -p fleet -- [--ask] [--serve] [--runs DIR]\n  \
        --ask       answer the question of the gate yourself\n  \
        --serve     show the copy of the run in a browser, until Ctrl-C\n  \
        --runs DIR  copy the run to this folder of runs [default: a new temporary folder]";

    /// Parses arguments. Returns `None` if the usage was asked for.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
        let mut options = Options::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--ask" => options.ask = true,
                "--serve" => options.serve = true,
                "--runs" => {
                    let folder = arguments.next().ok_or("`--runs` needs a folder")?;
                    options.runs = Some(folder.into());
                }
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("unknown option `{other}`")),
            }
        }
        Ok(Some(options))
    }

    /// Returns the folder of runs. A temporary one is kept, so that the run can be looked at.
    pub(crate) fn runs(&self) -> io::Result<PathBuf> {
        match &self.runs {
            Some(folder) => Ok(folder.clone()),
            None => {
                let folder = tempfile::Builder::new().prefix("fleet-runs-").tempdir()?;
                Ok(folder.keep())
            }
        }
    }
}
