//! The limits of the histograms of durations.

use std::time::Duration;

/// The upper limits of the histograms of stage durations: from a tenth of a second to an hour. All monitoring numbers use
/// them, so that histograms of several origins can be added.
///
/// ```
/// use orchestra_engine::STAGE_DURATION_BUCKETS;
/// assert!(STAGE_DURATION_BUCKETS.is_sorted());
/// ```
pub const STAGE_DURATION_BUCKETS: [Duration; 10] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(900),
    Duration::from_secs(3_600),
];
