//! What a tree of 10,000 files costs: to make it, and each stage that changes nothing or one file.

#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::{Yard, message, write};

const FILES: usize = 10_000;
const ROUNDS: usize = 20;

/// The median of some rounds.
fn measure(name: &str, rounds: usize, mut once: impl FnMut(usize)) {
    let mut times: Vec<Duration> = Vec::new();
    for round in 0..rounds {
        let began = Instant::now();
        once(round);
        times.push(began.elapsed());
    }
    times.sort();
    println!("{name:40} {:>12.3?}", times[rounds / 2]);
}

fn main() {
    let yard = Yard::bare_start(&[]);
    for number in 0..FILES {
        let path = format!("d{}/e{}/f{number}.txt", number % 50, number % 1000);
        yard.write(&path, &format!("file {number}\n"));
    }
    yard.commit_all("many files");
    let repository = yard.open();
    let base = repository.head().unwrap();
    let bare = |round: usize| {
        yard.git(&[
            "worktree",
            "add",
            "-q",
            "--detach",
            &format!("../bare{round}"),
            "HEAD",
        ]);
    };
    measure("git worktree add, as a measure", 5, bare);
    let trees: Vec<_> = (0..5)
        .map(|round| yard.tree(&repository, &format!("line-{round}")))
        .collect();
    measure("a tree is made", 5, |round| {
        trees[round].ensure(&base, &base).unwrap();
    });
    let tree = &trees[0];
    measure("a stage that changes nothing", ROUNDS, |_| {
        assert!(tree.restore(&base).unwrap().is_empty() && !tree.changed().unwrap());
        assert_eq!(tree.commit(&message("nothing")).unwrap(), None);
    });
    measure("a stage that changes one file", ROUNDS, |round| {
        write(&tree.root(), "d1/new.txt", &round.to_string());
        assert!(tree.commit(&message("one file")).unwrap().is_some());
    });
}
