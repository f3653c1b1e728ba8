//! Unpredictable names.

use std::fmt::Write as _;

/// Returns an unpredictable name of 32 digits, such as the secret of a run.
pub(crate) fn random_name() -> String {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // Without random numbers of the system, those of the standard library are still distinct.
        use std::hash::{BuildHasher as _, Hasher as _, RandomState};
        for half in bytes.chunks_mut(8) {
            half.copy_from_slice(&RandomState::new().build_hasher().finish().to_le_bytes());
        }
    }
    let mut name = String::new();
    for byte in bytes {
        let _ = write!(name, "{byte:02x}");
    }
    name
}
