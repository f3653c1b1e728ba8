//! The options of a server.

use std::fmt;
use std::str::FromStr;

/// Which pipelines a client may submit as text.
///
/// ```
/// use orchestra_server::Submit;
/// assert_eq!("safe".parse(), Ok(Submit::Safe));
/// assert_eq!(Submit::default().word(), "safe");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Submit {
    /// None.
    Off,
    /// Any, if the run is simulated.
    Simulate,
    /// Those that execute no command and no handler of the program, name no file and no other pipeline; any if the run
    /// is simulated.
    #[default]
    Safe,
    /// Any.
    Any,
}

impl Submit {
    const ALL: [Submit; 4] = [Submit::Off, Submit::Simulate, Submit::Safe, Submit::Any];

    /// Returns the name.
    pub const fn word(self) -> &'static str {
        match self {
            Submit::Off => "off",
            Submit::Simulate => "simulate",
            Submit::Safe => "safe",
            Submit::Any => "any",
        }
    }
}

impl fmt::Display for Submit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The error for a text that names no kind of submission.
///
/// ```
/// use orchestra_server::{Submit, UnknownSubmit};
/// assert_eq!("all".parse::<Submit>(), Err(UnknownSubmit));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not one of `off`, `simulate`, `safe` and `any`")]
pub struct UnknownSubmit;

impl FromStr for Submit {
    type Err = UnknownSubmit;

    fn from_str(text: &str) -> Result<Submit, UnknownSubmit> {
        let mut all = Submit::ALL.into_iter();
        all.find(|submit| submit.word() == text).ok_or(UnknownSubmit)
    }
}
