//! Version numbers that can be compared.

/// A version number of three parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Raised when something is taken away.
    pub major: u32,
    /// Raised when something is added.
    pub minor: u32,
    /// Raised when something is mended.
    pub patch: u32,
}

impl Version {
    /// Reads `major.minor.patch`.
    pub fn parse(text: &str) -> Option<Version> {
        let mut parts = text.split('.').map(|part| part.parse().ok());
        let version = Version { major: parts.next()??, minor: parts.next()??, patch: parts.next()?? };
        parts.next().is_none().then_some(version)
    }

    /// Whether a program written for `other` may use this version.
    pub fn serves(self, other: Version) -> bool {
        self.major == other.major && self >= other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_parts_are_read() {
        assert_eq!(Version::parse("1.2.3"), Some(Version { major: 1, minor: 2, patch: 3 }));
        assert_eq!(Version::parse("1.2"), None);
        assert_eq!(Version::parse("1.2.3.4"), None);
    }

    #[test]
    fn a_later_version_of_the_same_line_serves() {
        let of = |text| Version::parse(text).expect("a version");
        assert!(of("1.4.0").serves(of("1.2.9")));
        assert!(!of("2.0.0").serves(of("1.2.9")));
    }
}
