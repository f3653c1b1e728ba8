//! System limits that a program may reach.

use std::fmt;
use std::io;

/// A system error for display. If a limit was reached, the text says how to raise it.
///
/// ```
/// use orchestra_engine::SystemError;
/// # #[cfg(target_os = "linux")]
/// assert!(SystemError(&std::io::Error::from_raw_os_error(24)).to_string().ends_with("raise `ulimit -n`"));
/// assert_eq!(SystemError(&std::io::Error::other("odd")).to_string(), "odd");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SystemError<'e>(pub &'e io::Error);

impl SystemError<'_> {
    /// Returns how to raise the limit that was reached. Returns `None` if the error is not a limit.
    #[must_use]
    pub fn limit(&self) -> Option<&'static str> {
        let error = self.0.raw_os_error()?;
        let mut limits = LIMITS.iter();
        limits.find(|(limit, _)| *limit == error).map(|(_, raise)| *raise)
    }

    /// Returns how to raise the limit that a text reports with the message of the system, as git does. Returns `None`
    /// if the text reports no limit, or says itself how to raise it.
    ///
    /// ```
    /// use orchestra_engine::SystemError;
    /// # #[cfg(target_os = "linux")]
    /// assert_eq!(SystemError::limit_in("fatal: write error: No space left on device"), Some("make room on the disk"));
    /// assert_eq!(SystemError::limit_in("exit code 3"), None);
    /// ```
    #[must_use]
    pub fn limit_in(text: &str) -> Option<&'static str> {
        let is_reported = |error: i32| {
            let words = io::Error::from_raw_os_error(error).to_string();
            words
                .split_once(" (os error")
                .is_some_and(|(words, _)| text.contains(words))
        };
        let (_, raise) = LIMITS.iter().find(|(error, _)| is_reported(*error))?;
        (!text.contains(raise)).then_some(*raise)
    }
}

/// The errors that a limit causes, and how to raise it. The message of an earlier error may contain that of a later
/// one.
#[cfg(unix)]
const LIMITS: &[(i32, &str)] = &[
    (
        libc::ENFILE,
        "the machine has no more open files: raise `fs.file-max`",
    ),
    (libc::EMFILE, "raise `ulimit -n`"),
    (
        libc::EAGAIN,
        "no more processes or threads: raise `ulimit -u`, or `pids.max` of the control group",
    ),
    (libc::EFBIG, "raise `ulimit -f`"),
    (
        libc::ENOMEM,
        "no more memory: raise `ulimit -v`, or `memory.max` of the control group",
    ),
    (libc::ENOSPC, "make room on the disk"),
    (libc::EDQUOT, "the disk quota is used up"),
];

#[cfg(not(unix))]
const LIMITS: &[(i32, &str)] = &[];

impl fmt::Display for SystemError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        match self.limit() {
            Some(limit) => write!(f, "; {limit}"),
            None => Ok(()),
        }
    }
}
