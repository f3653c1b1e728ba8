//! The environment variables of commands.

use std::ffi::OsStr;

/// The variable that marks the processes of a command on Unix. Its value is different for each command.
pub const MARK_VARIABLE: &str = "ORCHESTRA_TOOL_ID";

/// The variables that a command inherits unless its environment is [minimal](ShellCommand::minimal_environment). Those
/// that start with `LC_` are inherited too.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "TMPDIR",
    "TZ",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
];

/// Without these variables, programs on Windows do not start or do not find their folders.
const INHERITED_ON_WINDOWS: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Returns whether commands inherit a variable by default.
pub(super) fn is_inherited(name: &OsStr, minimal: bool) -> bool {
    let usual = name.as_encoded_bytes().starts_with(b"LC_")
        || INHERITED.iter().any(|allowed| same_name(allowed.as_ref(), name));
    same_name("PATH".as_ref(), name)
        || usual && !minimal
        || cfg!(windows)
            && INHERITED_ON_WINDOWS
                .iter()
                .any(|allowed| same_name(allowed.as_ref(), name))
}

/// Returns whether two names denote the same environment variable.
pub(crate) fn same_name(allowed: &OsStr, name: &OsStr) -> bool {
    if cfg!(windows) {
        allowed.eq_ignore_ascii_case(name)
    } else {
        allowed == name
    }
}
