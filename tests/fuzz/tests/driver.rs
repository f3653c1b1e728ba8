//! The harness itself: what fails is found, made smaller and reported.

#![allow(clippy::panic)]

use std::thread;
use std::time::Duration;

use orchestra_fuzz_tests::attempt::TOO_SLOW;
use orchestra_fuzz_tests::minimise::minimise;
use orchestra_fuzz_tests::{Inputs, TARGETS, Target, attempt};

/// Fails on inputs with two braces, and is slow on those that begin with an `s`.
const FRAGILE: Target = Target {
    name: "fragile",
    run: |input| {
        let braces = input.iter().filter(|byte| **byte == b'{').count();
        assert!(braces < 2, "two braces");
        if input.starts_with(b"s") {
            thread::sleep(Duration::from_millis(20));
        }
    },
    generate: |random| vec![random.below(256) as u8],
    corpus: || vec![b"first {".to_vec(), b"second".to_vec()],
    words: &["{"],
    suite: 0,
    share: 1,
};

#[test]
fn a_panic_is_a_failure_with_its_place_and_message() {
    let failure = attempt(&FRAGILE, b"{{", Duration::MAX).unwrap_err();
    assert_eq!(failure.message, "two braces");
    assert!(failure.location.contains("driver.rs"), "{failure}");
    assert!(attempt(&FRAGILE, b"{", Duration::MAX).is_ok());
}

#[test]
fn a_caught_panic_is_a_failure_too() {
    let hides = Target {
        run: |_| drop(std::panic::catch_unwind(|| panic!("hidden"))),
        ..FRAGILE
    };
    assert_eq!(attempt(&hides, b"", Duration::MAX).unwrap_err().message, "hidden");
}

#[test]
fn a_slow_input_is_a_failure() {
    let failure = attempt(&FRAGILE, b"s", Duration::from_millis(5)).unwrap_err();
    assert_eq!(failure.location, TOO_SLOW);
}

#[test]
fn a_failing_input_is_made_as_small_as_it_can_be() {
    let fails = |input: &[u8]| attempt(&FRAGILE, input, Duration::MAX).err();
    let input = b"digraph { a -> b; subgraph { c } }";
    let location = fails(input).unwrap().location;
    assert_eq!(minimise(input, &location, fails), b"{{");
}

#[test]
fn inputs_follow_from_seed_and_number_and_begin_with_the_corpus() {
    let inputs = Inputs::new(&FRAGILE);
    assert_eq!(
        [inputs.input(1, 0), inputs.input(9, 1)],
        [b"first {".to_vec(), b"second".to_vec()]
    );
    let some = |seed| {
        (2..200)
            .map(|number| inputs.input(seed, number))
            .collect::<Vec<_>>()
    };
    assert_eq!(some(1), some(1));
    assert_ne!(some(1), some(2));
}

#[test]
fn the_inputs_of_every_target_differ_and_find_a_planted_fault() {
    for target in TARGETS {
        let inputs = Inputs::new(target);
        let some: Vec<Vec<u8>> = (0..200).map(|number| inputs.input(7, number)).collect();
        let different: std::collections::BTreeSet<&Vec<u8>> = some.iter().collect();
        assert!(
            different.len() > 100,
            "{}: {} of 200",
            target.name,
            different.len()
        );
    }
    let inputs = Inputs::new(&FRAGILE);
    let found = (0..2_000).any(|number| attempt(&FRAGILE, &inputs.input(1, number), Duration::MAX).is_err());
    assert!(found, "two braces are not made in 2,000 inputs");
}
