//! Some thousand inputs of each target, and all that ever failed.

#![allow(clippy::panic)]

use std::time::Duration;

use orchestra_fuzz_tests::{Inputs, TARGETS, Target, attempt, regressions::regressions};

/// The bound of a second is for release builds on idle machines; this one only tells hangs.
const PATIENCE: Duration = Duration::from_secs(20);

fn check(target: &Target) {
    for (path, input) in regressions(target) {
        if let Err(failure) = attempt(target, &input, PATIENCE) {
            panic!("{} fails again:\n{failure}", path.display());
        }
    }
    let inputs = Inputs::new(target);
    let seed = std::env::var("FUZZ_SEED").map_or(1, |seed| seed.parse().unwrap_or(1));
    for number in 0..target.suite {
        let input = inputs.input(seed, number);
        if let Err(failure) = attempt(target, &input, PATIENCE) {
            let name = target.name;
            panic!(
                "input {number} of `{name}` with seed {seed} fails:\n{failure}\n{}",
                String::from_utf8_lossy(&input)
            );
        }
    }
}

/// 100,000 levels of whatever opens something, on a stack of the size that threads have.
#[test]
fn no_target_goes_down_its_stack_with_the_input() {
    let of = |target: &str| -> &[&str] {
        match target {
            "dot" | "format" | "codegen" | "diagnostics" => {
                &["digraph { {", "digraph { a [x=[", "digraph { a [x=<", "/*"]
            }
            "condition" | "arguments" | "values" => &["(", "!", "!(", "x=["],
            "stylesheet" => &["{", "* {", "(", "/*"],
            "configuration" | "layers" | "script" => &["- ", "{\"a\":", "0[", "a: [", "0a: {b: "],
            "template" => &["{{ (", "{% if a %}", "{{ [", "{{ not ", "{{ -"],
            // What is taken up, listed or drawn goes through the readers of the others.
            "recovery" | "events" | "pictures" | "redaction" => &[],
            _ => &["[", "{\"a\":", "0data: [", "0data: {\"a\":", "0["],
        }
    };
    for target in TARGETS {
        for opener in of(target.name) {
            let split = opener
                .rfind(|c: char| !"([{<!-\"a:/*% if}b ".contains(c))
                .map_or(0, |at| at + 1);
            let (before, nested) = opener.split_at(split);
            let input = format!("{before}{}", nested.repeat(100_000));
            if let Err(failure) = attempt(target, input.as_bytes(), PATIENCE) {
                panic!("`{}` fails on nested `{opener}`:\n{failure}", target.name);
            }
        }
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(Target::named(stringify!($name)).unwrap());
            }
        )*

        #[test]
        fn every_target_is_a_test() {
            let tests: Vec<&str> = vec![$(stringify!($name)),*];
            let targets: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(tests, targets);
        }
    };
}

targets! { dot format codegen condition stylesheet values configuration layers script template model_stream model_body program_output journal checkpoint manifest stage_status recovery events control arguments redaction git_output diagnostics pictures }
