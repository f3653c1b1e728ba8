//! Two sets of figures side by side.

use crate::figure::{Figure, Results, aligned, amount};

/// A change that is greater than this part of a figure is named as better or worse.
const NOTABLE: f64 = 0.05;

/// Returns a table of the figures that two results have in common, with the change of each. The last column says
/// `better` or `worse` where the figure, and its ratio to the limit of the same run, both changed by more than 5 %: if
/// only the figure did, the machine was faster or slower.
pub fn table(before: &Results, after: &Results) -> String {
    let mut rows = vec![
        [
            "Workload",
            "Unit",
            "Before",
            "After",
            "Change",
            "Ratio before",
            "Ratio after",
            "",
        ]
        .map(str::to_owned),
    ];
    for new in &after.figures {
        let Some(old) = before.figures.iter().find(|old| old.name == new.name) else {
            continue;
        };
        let ratio = |figure: &Figure| figure.ratio().map_or_else(String::new, amount);
        rows.push([
            new.name.clone(),
            new.unit.clone(),
            amount(old.ours),
            amount(new.ours),
            format!("{:+.0} %", (new.ours / old.ours - 1.0) * 100.0),
            ratio(old),
            ratio(new),
            verdict(old, new).to_owned(),
        ]);
    }
    aligned(&rows)
}

fn verdict(old: &Figure, new: &Figure) -> &'static str {
    let mut changes = vec![new.ours / old.ours - 1.0];
    if let (Some(old), Some(new)) = (old.ratio(), new.ratio()) {
        changes.push(new / old - 1.0);
    }
    let all = |test: fn(f64) -> bool| changes.iter().all(|change| test(*change));
    let (grew, shrank) = (all(|change| change > NOTABLE), all(|change| change < -NOTABLE));
    match (grew, shrank, new.more_is_better()) {
        (true, _, false) | (_, true, true) => "worse",
        (true, _, true) | (_, true, false) => "better",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(unit: &str, ours: f64, limit: f64) -> Figure {
        Figure {
            name: "W1".to_owned(),
            unit: unit.to_owned(),
            ours,
            limit: Some(limit),
            target: None,
        }
    }

    #[test]
    fn a_change_counts_if_the_machine_does_not_explain_it() {
        let old = figure("us/stage", 1.0, 0.1);
        assert_eq!(verdict(&old, &figure("us/stage", 1.2, 0.1)), "worse");
        assert_eq!(verdict(&old, &figure("us/stage", 1.2, 0.12)), "");
        assert_eq!(verdict(&old, &figure("us/stage", 1.04, 0.1)), "");
        assert_eq!(verdict(&old, &figure("us/stage", 0.8, 0.1)), "better");
        let old = figure("runs/s", 1.0, 10.0);
        assert_eq!(verdict(&old, &figure("runs/s", 1.2, 10.0)), "better");
        assert_eq!(verdict(&old, &figure("runs/s", 0.8, 10.0)), "worse");
    }

    #[test]
    fn figures_of_one_side_alone_are_left_out() {
        let one = |figure| Results {
            figures: vec![figure],
            ..Results::default()
        };
        let mut other = figure("us/stage", 2.0, 0.1);
        let text = table(&one(figure("us/stage", 1.0, 0.1)), &one(other.clone()));
        assert!(text.contains("+100 %") && text.contains("worse"), "{text}");
        other.name = "W2".to_owned();
        let text = table(&one(figure("us/stage", 1.0, 0.1)), &one(other));
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}
