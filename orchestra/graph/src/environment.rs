//! Names that git uses: its environment variables, and the branches of runs.

/// The variables by which git finds a repository and its parts. They must be removed for a command that is to work in
/// the repository of its directory, because it would work in another one otherwise.
///
/// ```
/// assert!(orchestra_graph::GIT_VARIABLES.contains(&"GIT_DIR"));
/// ```
pub const GIT_VARIABLES: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// The default prefix of the branch names of runs.
///
/// ```
/// assert!(orchestra_graph::DEFAULT_BRANCH_PREFIX.ends_with('/'));
/// ```
pub const DEFAULT_BRANCH_PREFIX: &str = "orchestra/";
