//! The process that owns a run.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// The process that owns a run, as described in `owner.lock`.
///
/// ```
/// use orchestra_engine::Owner;
/// let said = r#"{"pid":4242,"host":"build-7","program":"orchestra","fencing_token":3,"since":"2026-11-21T15:30:00.042Z"}"#;
/// let owner: Owner = serde_json::from_str(said)?;
/// assert_eq!(
///     owner.to_string(),
///     "process 4242 (`orchestra`) on host `build-7`, since 2026-11-21T15:30:00.042Z"
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Owner {
    /// The process id.
    pub pid: u32,
    /// The name of the machine.
    pub host: String,
    /// The name of the program.
    pub program: String,
    /// The fencing token: the number of owners of the run so far, including this one.
    pub fencing_token: u64,
    /// The time at which the ownership began.
    pub since: Timestamp,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Owner {
            pid,
            host,
            program,
            since,
            ..
        } = self;
        write!(f, "process {pid} (`{program}`) on host `{host}`, since {since}")
    }
}

/// Returns the name of this machine.
pub(crate) fn host() -> String {
    static HOST: LazyLock<String> = LazyLock::new(|| {
        #[cfg(unix)]
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        #[cfg(not(unix))]
        let name = std::env::var("COMPUTERNAME").unwrap_or_default();
        name
    });
    HOST.clone()
}

/// Returns the name of this program.
pub(super) fn program() -> String {
    static PROGRAM: LazyLock<String> = LazyLock::new(|| {
        let path = std::env::current_exe().ok();
        let name = path
            .as_deref()
            .and_then(Path::file_name)
            .map(OsStr::to_string_lossy);
        name.map_or_else(String::new, |name| name.into_owned())
    });
    PROGRAM.clone()
}
