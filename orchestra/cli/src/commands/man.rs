//! `man`: manual pages, made from the same definition as the help.

use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man;
use orchestra_graph::did_you_mean;
use serde_json::json;

use crate::args::{Cli, ManArgs};
use crate::error::{CliError, Exit};
use crate::project::files::{unwritable, write_file};
use crate::terminal::Terminal;
use crate::terminal::format::count;

pub(crate) fn man(args: &ManArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let mut root = Cli::command()
        .name(program.to_owned())
        .disable_help_subcommand(true);
    root.build();
    let Some(folder) = &args.output else {
        let (_, page) = page(find(&root, program, &args.command)?)?;
        terminal.data(page.trim_end());
        return Ok(Exit::Ok);
    };
    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    let mut files = Vec::new();
    write_all(&root, folder, &mut files)?;
    if terminal.json {
        terminal.object(&json!({"schema": "orchestra.man/1", "folder": folder, "files": files}));
    } else {
        let written = count(files.len(), "manual page");
        terminal.progress(&format!("wrote {written} to `{}`", folder.display()));
    }
    Ok(Exit::Ok)
}

/// Returns the command with these words, such as `stations` and `add`.
fn find<'a>(root: &'a clap::Command, program: &str, words: &[String]) -> Result<&'a clap::Command, CliError> {
    words.iter().try_fold(root, |command, word| {
        command.find_subcommand(word).ok_or_else(|| {
            let error = CliError::usage("unknown_command", format!("unknown command `{word}`"));
            match did_you_mean(word, visible(command).map(clap::Command::get_name)) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help(format!("`{program} --help` lists the commands")),
            }
        })
    })
}

fn visible(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

/// Returns the name of the file and the text of a page.
fn page(command: &clap::Command) -> Result<(String, String), CliError> {
    let program = command.get_bin_name().unwrap_or_default().split(' ').next();
    let version = command.get_version().unwrap_or_default();
    let man = Man::new(command.clone()).source(format!("{} {version}", program.unwrap_or_default()));
    let (name, mut text) = (man.get_filename(), Vec::new());
    man.render(&mut text)
        .map_err(|error| unwritable(Path::new(&name), &error))?;
    Ok((name, String::from_utf8_lossy(&text).into_owned()))
}

/// Writes the pages of a command and of all commands below it.
fn write_all(command: &clap::Command, folder: &Path, files: &mut Vec<String>) -> Result<(), CliError> {
    let (name, text) = page(command)?;
    write_file(&folder.join(&name), text.as_bytes())?;
    files.push(name);
    visible(command).try_for_each(|command| write_all(command, folder, files))
}
