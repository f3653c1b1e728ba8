//! 10,000 runs: the compiled form, the loaded form and the reference interpreter say the same.

#![allow(deprecated, clippy::unwrap_used, clippy::panic)]

use orchestra_agreement_tests::assert_same_table;
use orchestra_oracle_tests::{generate, load_pipeline, random::Random, reference, trace_of};

include!("../cases.rs");
include!(concat!(env!("OUT_DIR"), "/pipelines.rs"));

/// How many scripts each pipeline is run by.
const SCRIPTS: usize = 40;

#[test]
fn compiled_and_loaded_pipelines_and_the_reference_agree() {
    let compiled = compiled();
    assert_eq!(compiled.len(), GRAPHS);
    assert!(compiled.iter().all(|(seed, _)| *seed >= FIRST_SEED));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let share = compiled.len().div_ceil(workers);
    let runs: usize = std::thread::scope(|scope| {
        let shares: Vec<_> = compiled
            .chunks(share)
            .map(|pipelines| {
                scope.spawn(|| {
                    pipelines
                        .iter()
                        .map(|(seed, compiled)| agree(*seed, compiled))
                        .sum::<usize>()
                })
            })
            .collect();
        shares.into_iter().map(|share| share.join().unwrap()).sum()
    });
    assert_eq!(runs, GRAPHS * SCRIPTS);
}

/// Runs a pipeline by all its scripts, and gives how many there were.
fn agree(seed: u64, compiled: &'static orchestra::graph::Pipeline) -> usize {
    let mut random = Random::new(seed);
    let generate::Case { graph, dot, .. } = generate::cases(seed, 1).next().unwrap();
    let loaded = std::sync::Arc::new(load_pipeline(&dot).unwrap());
    for _ in 0..SCRIPTS {
        let script = generate::script(&mut random, &graph);
        let mut expected = reference::run(&graph, &script);
        let by_closures = trace_of(compiled, &script);
        let by_trees = trace_of(loaded.clone(), &script);
        assert_eq!(by_closures, by_trees, "seed {seed}\n{dot}\n{script:?}");
        // The reference knows a delay with jitter by its bounds alone.
        expected.settle(&by_closures);
        assert_eq!(by_closures, expected, "seed {seed}\n{dot}\n{script:?}");
    }
    SCRIPTS
}

#[test]
fn a_compiled_table_equals_the_loaded_one_but_for_the_tests_of_its_conditions() {
    for (seed, compiled) in compiled() {
        let loaded = load_pipeline(&generate::cases(seed, 1).next().unwrap().dot).unwrap();
        assert_same_table(compiled, &loaded, &format!("seed {seed}"));
    }
}

#[test]
fn a_run_of_the_compiled_form_may_go_on_under_the_loaded_one() {
    let mut texts = std::collections::BTreeSet::new();
    for (seed, compiled) in compiled() {
        let loaded = load_pipeline(&generate::cases(seed, 1).next().unwrap().dot).unwrap();
        assert_eq!(compiled.canonical(), loaded.canonical(), "seed {seed}");
        let difference = orchestra::graph::Difference::between(compiled, &loaded);
        assert!(difference.is_empty(), "seed {seed}\n{difference}");
        texts.insert(loaded.canonical());
    }
    assert!(
        texts.len() > GRAPHS / 2,
        "different pipelines have different texts"
    );
}
