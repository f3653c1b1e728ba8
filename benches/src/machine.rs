//! The description of the machine on which figures were measured.

use std::process::Command;
use std::thread::available_parallelism;

/// Returns what is known of the machine and the compiler, one fact a line.
pub fn describe() -> Vec<String> {
    let mut facts = Vec::new();
    let cores = available_parallelism().map_or(1, usize::from);
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    facts.push(format!("{cores} cores: {model}"));
    if let Some(kilobytes) = field("/proc/meminfo", "MemTotal")
        && let Some(kilobytes) = kilobytes.split_whitespace().next()
        && let Ok(kilobytes) = kilobytes.parse::<f64>()
    {
        facts.push(format!("{:.0} GiB of memory", kilobytes / f64::from(1 << 20)));
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    facts.push(
        format!("{} {}", std::env::consts::OS, release.trim())
            .trim_end()
            .to_owned(),
    );
    if let Ok(output) = Command::new("rustc").arg("--version").output() {
        facts.push(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    facts
}

/// Returns the first value of a key in a file of lines `key: value`.
fn field(file: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == key).then(|| value.trim().to_owned())
    })
}
