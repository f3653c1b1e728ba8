//! Variables whose values decide which programs run, or which code they load.

/// The names of such variables, for the shell, the loader, git and the common interpreters.
const NAMES: &[&str] = &[
    "BASHOPTS",
    "BASH_ENV",
    "CLASSPATH",
    "EDITOR",
    "JAVA_TOOL_OPTIONS",
    "LESSOPEN",
    "MAKEFLAGS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PAGER",
    "PATH",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "PS4",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
    "RUSTC",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "SHELL",
    "SHELLOPTS",
    "VISUAL",
    "_JAVA_OPTIONS",
];

/// The prefixes of further such names.
const PREFIXES: &[&str] = &["DYLD_", "GIT_CONFIG", "LD_"];

/// The git variables that name a program, a repository or its configuration.
const OF_GIT: &[&str] = &[
    "GIT_ASKPASS",
    "GIT_DIR",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_TEMPLATE_DIR",
    "GIT_WORK_TREE",
];

/// Returns whether the value of a variable decides which programs run, or which code they load.
pub(crate) fn changes_programs(name: &str) -> bool {
    NAMES.contains(&name) || OF_GIT.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
