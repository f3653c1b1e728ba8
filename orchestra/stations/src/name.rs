//! The names of versions, with which commands, requests and runs name them.

use std::fmt;

use crate::error::StationError;

/// The beginning of a name in the position of a file.
const PREFIX: &str = "stations:";

/// The name of a workflow, and of one of its versions: `NAME` for the active version, or `NAME@VERSION`.
///
/// ```
/// use orchestra_stations::VersionName;
/// let name = VersionName::parse("shipping@3")?;
/// assert_eq!((name.workflow, name.version), ("shipping", Some(3)));
/// assert_eq!(name.file(), "stations:shipping@3");
/// assert!(VersionName::parse_file("shipping.dot").is_none(), "that is a file");
/// assert!(VersionName::parse("shipping@latest").is_err());
/// # Ok::<(), orchestra_stations::StationError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionName<'n> {
    /// The name of the workflow.
    pub workflow: &'n str,
    /// The version. `None` for the active one.
    pub version: Option<u32>,
}

impl<'n> VersionName<'n> {
    /// Parses `NAME` or `NAME@VERSION`.
    ///
    /// # Errors
    ///
    /// Returns an error if the text behind `@` is not the number of a version.
    pub fn parse(text: &'n str) -> Result<VersionName<'n>, StationError> {
        let Some((workflow, version)) = text.rsplit_once('@') else {
            return Ok(VersionName {
                workflow: text,
                version: None,
            });
        };
        match version.parse() {
            Ok(number) if number > 0 => Ok(VersionName {
                workflow,
                version: Some(number),
            }),
            _ => Err(StationError::InvalidVersion {
                text: version.to_owned(),
            }),
        }
    }

    /// Parses a name in the position of a file, which begins with `stations:`. Returns `None` for a file.
    pub fn parse_file(file: &'n str) -> Option<Result<VersionName<'n>, StationError>> {
        Some(VersionName::parse(file.strip_prefix(PREFIX)?))
    }

    /// Returns the name of the active version of the same workflow.
    #[must_use]
    pub fn active(self) -> VersionName<'n> {
        VersionName {
            version: None,
            ..self
        }
    }

    /// Returns the name in the position of a file, with which diagnostics and runs name the version.
    pub fn file(&self) -> String {
        format!("{PREFIX}{self}")
    }
}

impl fmt::Display for VersionName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.workflow)?;
        match self.version {
            Some(version) => write!(f, "@{version}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_named_behind_an_at_sign() {
        let parsed = |text| {
            VersionName::parse(text)
                .map(|found| (found.workflow, found.version))
                .ok()
        };
        assert_eq!(parsed("shipping"), Some(("shipping", None)));
        assert_eq!(parsed("shipping@12"), Some(("shipping", Some(12))));
        for wrong in ["shipping@", "shipping@0", "shipping@x", "shipping@-1", "a@1@x"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
        assert!(VersionName::parse_file("shipping.dot").is_none());
        assert!(VersionName::parse_file("stations:shipping@2").is_some_and(|found| found.is_ok()));
    }
}
