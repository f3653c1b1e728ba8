//! Random merges agree with `git merge`.

use crate::common;

use std::fs;
use std::path::Path;

use common::{Yard, joined, message, run, try_run, write};
use orchestra_workspace::{Favour, Side, resolve};

/// A deterministic random number generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound).unwrap()
    }
}

fn edit_at_random(root: &Path, numbers: &mut Numbers, word: &str) {
    for _ in 0..=numbers.below(3) {
        let name = format!("f{}.txt", numbers.below(3));
        let old = fs::read_to_string(root.join(&name)).unwrap_or_default();
        let mut lines: Vec<&str> = old.lines().collect();
        match numbers.below(6) {
            0 => drop(fs::remove_file(root.join(&name))),
            1 => {
                let _ = fs::rename(root.join(&name), root.join(format!("{word}.txt")));
            }
            2 => write(root, &format!("new{}.txt", numbers.below(2)), word),
            _ if lines.is_empty() => write(root, &name, word),
            _ => {
                let at = numbers.below(lines.len() as u64);
                lines[at] = word;
                write(root, &name, &(lines.join("\n") + "\n"));
            }
        }
    }
}

#[test]
fn random_merges_agree_with_git_merge() {
    let yard = Yard::bare_start(&[]);
    for name in 0..3 {
        let lines: String = (0..12).map(|line| format!("line {line} of {name}\n")).collect();
        yard.write(&format!("f{name}.txt"), &lines);
    }
    yard.commit_all("start");
    let (repository, tree, base) = yard.ready();
    let other = tree.root();
    let (mut clean, mut open) = (0, 0);
    for case in 0..40 {
        let mut numbers = Numbers(case);
        let count = 2 + numbers.below(2);
        let mut sides = Vec::new();
        for at in 0..count {
            run(&other, &["checkout", "-q", "--detach", base.as_str()]);
            edit_at_random(&other, &mut numbers, &format!("side{at}"));
            run(&other, &["add", "-A"]);
            run(&other, &["commit", "-q", "--allow-empty", "-m", "edit"]);
            let sha = run(&other, &["rev-parse", "HEAD"]).trim().parse().unwrap();
            sides.push(Side {
                name: format!("side{at}"),
                sha,
            });
        }
        let plan = joined(&repository, &base, &sides);
        // Compare with `git merge` in the same order, skipping the sides that conflict.
        run(&other, &["checkout", "-q", "--detach", base.as_str()]);
        let (mut merged, mut refused) = (Vec::new(), Vec::new());
        for side in &sides {
            if try_run(
                &other,
                &["merge", "-q", "--no-edit", "--no-ff", side.sha.as_str()],
            )
            .0
            {
                merged.push(side.name.clone());
            } else {
                refused.push(side);
                run(&other, &["merge", "--abort"]);
            }
        }
        for side in refused {
            if try_run(
                &other,
                &["merge", "-q", "--no-edit", "--no-ff", side.sha.as_str()],
            )
            .0
            {
                merged.push(side.name.clone());
            } else {
                run(&other, &["merge", "--abort"]);
            }
        }
        assert_eq!(plan.merged, merged, "case {case}");
        let tree = run(&other, &["rev-parse", "HEAD^{tree}"]);
        let ours = yard.git(&["rev-parse", &format!("{}^{{tree}}", plan.clean)]);
        assert_eq!(ours, tree, "case {case}");
        match &plan.open {
            Some(found) => {
                open += 1;
                assert!(!found.files.is_empty());
                let favour = [Favour::Ours, Favour::Theirs][numbers.below(2)];
                let sha = resolve(&repository, &found.commit, favour, &message("taken")).unwrap();
                let (marked, text) = try_run(&other, &["grep", "-l", "-e", "<<<<<<<", sha.as_str()]);
                assert!(!marked, "case {case}: {text}");
            }
            None => clean += 1,
        }
    }
    assert!(clean > 6 && open > 6, "{clean} clean, {open} open");
}
