//! The ids of runs.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::clock::Timestamp;

const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
/// The number of suffixes of six digits.
const SPACE: u64 = 36_u64.pow(6);
const MAX_LENGTH: usize = 100;

/// The id of a run, which is also the name of its folder; cheap to clone.
///
/// A generated id sorts by start time: `20261121-153000-0k3f9q`.
///
/// ```
/// use orchestra_engine::RunId;
/// assert_eq!(&*RunId::new("nightly-7")?, "nightly-7");
/// assert!(RunId::new("../elsewhere").is_err());
/// # Ok::<(), orchestra_engine::InvalidRunId>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(Arc<str>);

/// The error of a text that cannot be the id of a run.
///
/// ```
/// use orchestra_engine::RunId;
/// let error = RunId::new("nightly/7").unwrap_err();
/// assert_eq!(error.id, "nightly/7");
/// assert!(error.to_string().starts_with("`nightly/7` cannot be the name of a run: "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` cannot be the name of a run: 1 to {MAX_LENGTH} ASCII letters, digits, `-`, `_` and `.` are allowed, \
     the first a letter or digit, the last not `.`, and no name that Windows reserves",
    .id.escape_debug()
)]
pub struct InvalidRunId {
    /// The text.
    pub id: String,
}

impl RunId {
    /// Creates an id from a text of the user.
    ///
    /// # Errors
    /// The text cannot be the name of a folder on every system, or is a path to another folder.
    pub fn new(id: impl Into<String>) -> Result<RunId, InvalidRunId> {
        let id = id.into();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let sound = id.len() <= MAX_LENGTH
            && id.bytes().all(allowed)
            && id.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
            && !id.ends_with('.')
            && !is_reserved(&id);
        if sound {
            Ok(RunId(id.into()))
        } else {
            Err(InvalidRunId { id })
        }
    }

    /// Returns the id of a child run, made from the id of its parent run and the key of the attempt that started it,
    /// such as `nightly-7-supervise-1`. An id that is too long is cut and ends in a hash of the whole.
    ///
    /// ```
    /// let run = orchestra_engine::RunId::new("nightly-7")?;
    /// assert_eq!(&*orchestra_engine::RunId::of_child(&run, "build#1/1"), "nightly-7-build-1");
    /// # Ok::<(), orchestra_engine::InvalidRunId>(())
    /// ```
    pub fn of_child(parent: &RunId, attempt_key: &str) -> RunId {
        let mut id = format!("{parent}-");
        let key = attempt_key.strip_suffix("/1").unwrap_or(attempt_key);
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') {
                c
            } else {
                '-'
            }
        };
        id.extend(key.chars().map(plain));
        if id.len() > MAX_LENGTH {
            let number = fingerprint(&[parent.as_bytes(), b"-", attempt_key.as_bytes()]);
            id.truncate(MAX_LENGTH - 17);
            id.push_str(&format!("-{number:016x}"));
        }
        RunId(id.into())
    }

    /// Generates a new id. Ids of one process are unique, ids of different processes hardly ever collide.
    ///
    /// ```
    /// use orchestra_engine::{RunId, Timestamp};
    /// let id = RunId::generate(Timestamp::from_millis(0));
    /// assert!(id.starts_with("19700101-000000-"));
    /// ```
    pub fn generate(now: Timestamp) -> RunId {
        static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(random() % SPACE));
        let mut number = NEXT.fetch_add(1, Ordering::Relaxed) % SPACE;
        let mut suffix = [0; 6];
        for digit in suffix.iter_mut().rev() {
            *digit = DIGITS[(number % 36) as usize];
            number /= 36;
        }
        let mut id = [b'-'; 22];
        let [year, month, day, hour, minute, second] = now.civil();
        for (at, width, value) in [
            (0, 4, year),
            (4, 2, month),
            (6, 2, day),
            (9, 2, hour),
            (11, 2, minute),
            (13, 2, second),
        ] {
            let mut value = value;
            for digit in id[at..at + width].iter_mut().rev() {
                *digit = b'0' + (value % 10) as u8;
                value /= 10;
            }
        }
        id[16..].copy_from_slice(&suffix);
        RunId(String::from_utf8_lossy(&id).into())
    }
}

/// Returns whether Windows reserves a name, regardless of its extension.
pub(crate) fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let numbered = |prefix: &str| {
        stem.len() == 4
            && stem
                .get(..3)
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
            && stem.as_bytes()[3].is_ascii_digit()
    };
    ["con", "prn", "aux", "nul"]
        .iter()
        .any(|reserved| stem.eq_ignore_ascii_case(reserved))
        || numbered("com")
        || numbered("lpt")
}

/// Returns a seed for the randomness of a run. A system call for each run would cost more than the generator.
pub(crate) fn random_seed() -> u64 {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(random()));
    SplitMix64::seed_from_u64(NEXT.fetch_add(1, Ordering::Relaxed)).next_u64()
}

/// Returns an unpredictable number. It is only used for ids and names, never for a decision.
pub(crate) fn random() -> u64 {
    // If the system has no random numbers, those of the standard library's hash maps are still distinct.
    getrandom::u64().unwrap_or_else(|_| RandomState::new().build_hasher().finish())
}

/// Returns a hash of some bytes that is the same in every version and on every machine (FNV-1a).
pub(crate) fn fingerprint(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    bytes.fold(0xcbf2_9ce4_8422_2325, |number, byte| {
        (number ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

impl Deref for RunId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RunId, D::Error> {
        RunId::new(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_sort_by_time_and_are_names_that_a_user_may_give() {
        let early = RunId::generate(Timestamp::from_millis(1_795_275_000_042));
        let late = RunId::generate(Timestamp::from_millis(1_795_275_001_042));
        assert!(early.starts_with("20261121-153000-"), "{early}");
        assert_eq!(early.len(), 22);
        assert!(early < late);
        assert_eq!(RunId::new(early.to_string()), Ok(early));
    }

    #[test]
    fn the_name_of_a_child_can_be_a_name_and_tells_its_parent_and_place() {
        let parent = RunId::new("nightly-7").unwrap();
        let child = |key: &str| RunId::of_child(&parent, key);
        assert_eq!(&*child("supervise#1/1"), "nightly-7-supervise-1");
        assert_eq!(&*child("supervise#2/3"), "nightly-7-supervise-2-3");
        assert_eq!(&*child("fan#1:left~2/lint#1/1"), "nightly-7-fan-1-left-2-lint-1");
        let long = format!("{}#1/1", "n".repeat(200));
        let mut id = parent.clone();
        for _ in 0..16 {
            id = RunId::of_child(&id, &long);
            assert_eq!(RunId::new(id.to_string()), Ok(id.clone()));
        }
        assert_ne!(child(&long), child(&long.replace("#1", "#2")));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let long = "a".repeat(300);
        for bad in [
            "", ".", "..", "a/b", "a\\b", "a\0", "%2e%2e", "-a", ".a", "a.", "é", "CON", "nul.txt", "com1",
            &long,
        ] {
            assert!(RunId::new(bad).is_err(), "{bad}");
        }
        for good in ["a", "A-1_b.c", "console", "com", "2026"] {
            assert!(RunId::new(good).is_ok(), "{good}");
        }
    }
}
