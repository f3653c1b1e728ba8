//! The names of the refs of runs.

/// Prefix of the refs of work that was set aside.
pub(crate) const KEPT: &str = "refs/orchestra/kept/";
/// Prefix of the refs that mark branches as made by runs.
pub(crate) const BASE: &str = "refs/orchestra/base/";
/// Prefix of the refs of open merges.
pub(crate) const OPEN: &str = "refs/orchestra/open/";

pub(crate) fn head_ref(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

pub(crate) fn base_ref(branch: &str) -> String {
    format!("{BASE}{branch}")
}

pub(crate) fn open_ref(branch: &str) -> String {
    format!("{OPEN}{branch}")
}
