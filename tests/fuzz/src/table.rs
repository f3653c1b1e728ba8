//! The table at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use orchestra_fuzz_tests::Target;

use crate::Arguments;
use crate::parent::Row;

pub(crate) fn print(targets: &[&Target], rows: &BTreeMap<&str, Row>, arguments: &Arguments, took: Duration) {
    println!("| target | inputs | seconds | slowest input | peak memory | failures |");
    println!("|---|---|---|---|---|---|");
    for target in targets {
        let Some(row) = rows.get(target.name) else {
            continue;
        };
        let share = match target.share {
            1 => String::new(),
            share => format!(" (1 in {share})"),
        };
        let failures: u64 = row.failures.values().sum();
        println!(
            "| {} | {}{share} | {:.0} | {:.1} ms (number {}) | {} MiB | {failures} |",
            target.name,
            row.inputs,
            row.time.as_secs_f64(),
            row.slowest.as_secs_f64() * 1000.0,
            row.slowest_number,
            row.peak_kib >> 10,
        );
    }
    println!(
        "\nseed {}, {} processes, {:.0} s in all",
        arguments.seed,
        arguments.jobs,
        took.as_secs_f64()
    );
    for (name, row) in rows {
        for (location, times) in &row.failures {
            println!("{name}: {times} times {location}");
        }
    }
}
