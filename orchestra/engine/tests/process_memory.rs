//! A test of memory usage with tools that write without end. It is alone in its process because it measures the peak.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::Duration;

use orchestra_engine::process::{Exit, ShellCommand};

/// Returns the peak memory of this process in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn memory_stays_small_whatever_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let before = peak();

    let line = ShellCommand::new("head -c 1000000000 /dev/zero; echo; echo last")
        .timeout(Duration::from_secs(60))
        .on_line(|_, _| {})
        .run()
        .await
        .unwrap();
    assert_eq!((line.exit, line.stdout_bytes), (Exit::Code(0), 1_000_000_006));
    assert_eq!(line.last_line(), Some("last"));

    let timeout = Duration::from_secs(1);
    let endless = || {
        ShellCommand::new("yes; exit 1")
            .timeout(timeout)
            .grace(Duration::from_millis(200))
    };
    let file = folder.path().join("out.txt");
    let (with_file, other, third) = tokio::join!(
        endless().stdout_file(&file).file_limit(1_000_000).run(),
        ShellCommand::new("tr '\\0' '\\377' </dev/zero >&2")
            .timeout(timeout)
            .run(),
        endless().run()
    );
    for output in [with_file.unwrap(), other.unwrap(), third.unwrap()] {
        assert_eq!(output.exit, Exit::TimedOut);
        assert!(output.truncated && output.stdout_bytes + output.stderr_bytes > 10_000_000);
        assert!(output.duration < timeout + Duration::from_secs(30));
    }
    assert!(fs::metadata(&file).unwrap().len() < 1_000_100);

    let growth = (peak() - before) >> 20;
    assert!(growth < 64, "memory grew by {growth} MiB");
}
