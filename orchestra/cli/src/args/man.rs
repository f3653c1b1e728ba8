//! The arguments of `man`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command, such as `run` or `stations list` [default: the program]
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands to files in this folder, such as /usr/local/share/man/man1
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}
