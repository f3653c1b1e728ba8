//! The start of a program on systems other than Linux, by the standard library.
//!
//! There is no signal at the death of the parent, and no way to read the limits of other processes. The child only
//! checks the locks.

use std::io;
use std::os::unix::process::CommandExt as _;

use super::{Conditions, have_names};
use crate::process::program::{Pipes, Program};

/// Starts a program in a process group of its own. Returns its process id.
///
/// # Errors
/// Fails like [`std::process::Command::spawn`], or if a lock has lost its name.
pub(in crate::process) fn spawn(program: &Program, conditions: &Conditions<'_>) -> io::Result<(i32, Pipes)> {
    let locks = conditions.locks.to_vec();
    let mut command = program.to_std()?;
    command.process_group(0);
    // SAFETY: `have_names` only makes async-signal-safe calls.
    unsafe { command.pre_exec(move || have_names(&locks)) };
    let mut child = command.spawn()?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    Ok((pid, Pipes::of(&mut child)?))
}
