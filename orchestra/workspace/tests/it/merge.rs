//! Joins: clean merges, conflicts and their reports, and the end of an open merge.

use crate::common;

use std::fs;
use std::path::Path;

use common::{Yard, joined, message, read, run, shown, write};
use orchestra_workspace::{Favour, Finish, Message, Plan, Repository, Sha, Side, Tree, plan, resolve};

/// Applies an edit to the base, commits it on a branch, and returns the side.
fn side(yard: &Yard, repository: &Repository, base: &Sha, name: &str, edit: impl FnOnce(&Path)) -> Side {
    let tree = yard.tree(repository, name);
    tree.ensure(base, base).unwrap();
    edit(&tree.root());
    let sha = tree
        .commit(&message(name))
        .unwrap()
        .unwrap_or_else(|| base.clone());
    tree.remove().unwrap();
    Side {
        name: name.into(),
        sha,
    }
}

fn parents(yard: &Yard, sha: &Sha) -> Vec<String> {
    yard.git(&["log", "-1", "--format=%P", sha.as_str()])
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

/// Writes a raw tree object, because git creates none with such a name.
fn raw_tree(yard: &Yard, mode: &str, name: &str, object: &str) -> String {
    let digits = object.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
    let entry = [format!("{mode} {name}\0").as_bytes(), &bytes.collect::<Vec<u8>>()].concat();
    let file = yard.user.join("entry");
    fs::write(&file, entry).unwrap();
    let words = [
        "hash-object",
        "-t",
        "tree",
        "-w",
        "--literally",
        file.to_str().unwrap(),
    ];
    let made = yard.git(&words).trim().to_owned();
    fs::remove_file(file).unwrap();
    made
}

#[test]
fn a_tree_whose_paths_lead_out_of_it_is_refused_and_writes_nothing() {
    let Scratch {
        yard,
        repository,
        base,
        ..
    } = scratch("a\n");
    yard.write("planted", "* filter=x\n");
    let blob = yard.git(&["hash-object", "-w", "planted"]).trim().to_owned();
    fs::remove_file(yard.user.join("planted")).unwrap();
    // The folder of a merge is two levels below git's folder.
    let mut tree = raw_tree(&yard, "100644", ".gitattributes", &blob);
    for _ in 0..3 {
        tree = raw_tree(&yard, "40000", "..", &tree);
    }
    let commit = yard.git(&["commit-tree", &tree, "-p", base.as_str(), "-m", "planted"]);
    let onto: Sha = commit.trim().parse().unwrap();
    let other = side(&yard, &repository, &base, "other", |root| {
        write(root, "b.txt", "c\n")
    });
    let refused = plan(&repository, &onto, &[other], &|_| message("join")).unwrap_err();
    assert_eq!(refused.code(), "git_failed");
    assert!(!yard.user.join(".gitattributes").exists());
}

struct Scratch {
    yard: Yard,
    repository: Repository,
    tree: Tree,
    base: Sha,
}

fn scratch(lines: &str) -> Scratch {
    let yard = Yard::bare_start(&[]);
    yard.write("a.txt", lines);
    yard.write("b.txt", "b\n");
    yard.commit_all("start");
    let (repository, tree, base) = yard.ready();
    Scratch {
        yard,
        repository,
        tree,
        base,
    }
}

impl Scratch {
    fn side(&self, name: &str, edit: impl FnOnce(&Path)) -> Side {
        side(&self.yard, &self.repository, &self.base, name, edit)
    }

    fn plan(&self, sides: &[Side]) -> Plan {
        let before = self.yard.untouched();
        let plan = joined(&self.repository, &self.base, sides);
        assert_eq!(
            plan,
            joined(&self.repository, &self.base, sides),
            "the same input gives the same commits"
        );
        assert_eq!(self.yard.untouched(), before);
        assert!(!self.repository.common().join("orchestra.tmp").exists());
        plan
    }
}

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

#[test]
fn branches_that_fit_become_one_merge_commit_each() {
    let scratch = scratch(LINES);
    let sides = [
        scratch.side("left", |root| write(root, "a.txt", &LINES.replace('1', "left"))),
        scratch.side("idle", |_| {}),
        scratch.side("right", |root| write(root, "a.txt", &LINES.replace('9', "right"))),
    ];
    let plan = scratch.plan(&sides);
    assert_eq!(plan.merged, ["left", "idle", "right"]);
    assert_eq!(plan.open, None);
    assert_eq!(
        shown(&scratch.repository, &plan.clean, "a.txt"),
        LINES.replace('1', "left").replace('9', "right")
    );
    let [first, right] = parents(&scratch.yard, &plan.clean).try_into().unwrap();
    assert_eq!(right, sides[2].sha.as_str());
    assert_eq!(
        parents(&scratch.yard, &first.parse().unwrap()),
        [scratch.base.as_str(), sides[0].sha.as_str()]
    );
    assert_eq!(
        scratch
            .yard
            .git(&["log", "-1", "--format=%s", plan.clean.as_str()]),
        "join: right\n"
    );
    scratch.tree.advance(&scratch.base, &plan.clean).unwrap();
    assert!(read(&scratch.tree.root(), "a.txt").starts_with("left\n"));
}

#[test]
fn nothing_to_merge_makes_no_commit() {
    let scratch = scratch(LINES);
    let plan = scratch.plan(&[scratch.side("idle", |_| {})]);
    assert_eq!(
        (plan.clean, plan.merged),
        (scratch.base.clone(), vec!["idle".to_owned()])
    );
}

#[test]
fn one_line_of_three_sides_is_one_open_merge_with_nested_markers() {
    let scratch = scratch(LINES);
    let sides = ["one", "two", "three"]
        .map(|name| scratch.side(name, |root| write(root, "a.txt", &LINES.replace('5', name))));
    let plan = scratch.plan(&sides);
    assert_eq!(plan.merged, ["one"]);
    let open = plan.open.unwrap();
    assert_eq!(open.sides, ["two", "three"]);
    let expected: Vec<String> = [&plan.clean, &sides[1].sha, &sides[2].sha]
        .map(ToString::to_string)
        .into();
    assert_eq!(parents(&scratch.yard, &open.commit), expected);
    let text = shown(&scratch.repository, &open.commit, "a.txt");
    for word in [
        "one",
        "two",
        "three",
        "<<<<<<< one\n",
        ">>>>>>> two\n",
        "<<<<<<<<< one+two\n",
        ">>>>>>>>> three\n",
    ] {
        assert!(text.contains(word), "{word:?} is not in\n{text}");
    }
    let reported: Vec<_> = open
        .files
        .iter()
        .map(|file| (file.kind.as_str(), file.sides.join("+")))
        .collect();
    assert_eq!(
        reported,
        [
            ("content", "one+two".to_owned()),
            ("content", "one+two+three".to_owned())
        ]
    );
    let inner = &open.files[0].hunks[0];
    assert_eq!(
        (inner.ours.as_str(), inner.base.as_str(), inner.theirs.as_str()),
        ("one\n", "5\n", "two\n")
    );
    assert_eq!(open.files[1].hunks[0].theirs, "three\n");
    let lines: Vec<&str> = text.lines().collect();
    for file in &open.files {
        assert!(lines[file.hunks[0].line as usize - 1].starts_with("<<<<<<<"));
    }
}

#[test]
fn a_side_that_changes_what_stands_between_markers_is_never_dropped() {
    // The third side changes a line that the first two only moved into their hunks.
    let scratch = scratch("a\nb\nc\nd\ne\nf\ng\nh\n");
    let sides = [
        scratch.side("one", |root| {
            write(root, "a.txt", "a\nB1\nC1\nD1\nE1\nF1\nG1\nh\n")
        }),
        scratch.side("two", |root| {
            write(root, "a.txt", "a\nB2\nC2\nD2\nE2\nF2\nG2\nh\n")
        }),
        scratch.side("three", |root| {
            write(root, "a.txt", "a\nb\nc\nd\nthird\nf\ng\nh\n")
        }),
    ];
    let open = scratch.plan(&sides).open.unwrap();
    assert_eq!(open.sides, ["two", "three"]);
    let text = shown(&scratch.repository, &open.commit, "a.txt");
    let third = open
        .files
        .iter()
        .find(|file| file.sides.last().unwrap() == "three")
        .unwrap();
    assert!(third.hunks[0].theirs.contains("third"), "{text}");
    let first = open
        .files
        .iter()
        .find(|file| file.sides.last().unwrap() == "two")
        .unwrap();
    assert_eq!(
        (first.hunks[0].base.as_str(), first.hunks.len()),
        ("b\nc\nd\ne\nf\ng\n", 1),
        "{text}"
    );
}

#[test]
fn a_side_that_renames_a_file_with_markers_loses_none() {
    let scratch = scratch(LINES);
    let sides = [
        scratch.side("one", |root| write(root, "a.txt", &LINES.replace('5', "one"))),
        scratch.side("two", |root| write(root, "a.txt", &LINES.replace('5', "two"))),
        scratch.side("three", |root| {
            fs::rename(root.join("a.txt"), root.join("moved.txt")).unwrap()
        }),
    ];
    let plan = scratch.plan(&sides);
    let open = plan.open.unwrap();
    assert_eq!(
        (plan.merged.join(" "), open.sides.join(" ")),
        ("one three".into(), "two".into())
    );
    assert!(open.files[0].hunks[0].theirs.contains("two"), "{:?}", open.files);
}

#[test]
fn every_kind_of_conflict_is_reported() {
    let scratch = scratch(LINES);
    write(&scratch.tree.root(), "c.txt", "c\n");
    let edit = |word: &'static str| {
        move |root: &Path| {
            write(root, "new.txt", word);
            fs::write(root.join("image.bin"), [0, word.as_bytes()[0], 0, 1]).unwrap();
            let to = root.join(format!("{word}.txt"));
            fs::rename(root.join("b.txt"), to).unwrap();
        }
    };
    let left = scratch.side("left", |root| {
        edit("left")(root);
        fs::remove_file(root.join("a.txt")).unwrap();
    });
    let right = scratch.side("right", |root| {
        edit("right")(root);
        write(root, "a.txt", &LINES.replace('5', "right"));
    });
    let open = scratch.plan(&[left, right]).open.unwrap();
    let kind = |path: &str| {
        let file = open.files.iter().find(|file| file.path == path);
        file.map_or("none", |file| file.kind.as_str())
    };
    assert_eq!(kind("a.txt"), "modify/delete");
    assert_eq!(kind("new.txt"), "add/add");
    assert_eq!(kind("image.bin"), "binary");
    assert_eq!(kind("b.txt"), "rename/rename");
    let deleted = open.files.iter().find(|file| file.path == "a.txt").unwrap();
    assert!(deleted.blobs.base.is_some() && deleted.blobs.ours.is_none() && deleted.blobs.theirs.is_some());
    assert_eq!(deleted.sides, ["left", "right"]);
}

#[cfg(unix)]
#[test]
fn modes_links_and_renames_are_merged() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = scratch(LINES);
    let sides = [
        scratch.side("mode", |root| {
            fs::set_permissions(root.join("a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::symlink("a.txt", root.join("link")).unwrap();
        }),
        scratch.side("text", |root| write(root, "a.txt", &LINES.replace('5', "five"))),
        scratch.side("name", |root| {
            fs::rename(root.join("a.txt"), root.join("moved.txt")).unwrap()
        }),
    ];
    let plan = scratch.plan(&sides);
    assert_eq!(plan.open, None);
    scratch.tree.advance(&scratch.base, &plan.clean).unwrap();
    let root = scratch.tree.root();
    assert_eq!(read(&root, "moved.txt"), LINES.replace('5', "five"));
    assert_eq!(
        fs::metadata(root.join("moved.txt")).unwrap().permissions().mode() & 0o111,
        0o111
    );
    assert_eq!(fs::read_link(root.join("link")).unwrap(), Path::new("a.txt"));
}

/// An open merge in `a.txt` that is checked out. `b.txt` of the conflicting side is merged.
fn opened() -> (Scratch, Plan, Side) {
    let scratch = scratch(LINES);
    let left = scratch.side("left", |root| write(root, "a.txt", &LINES.replace('5', "left")));
    let right = scratch.side("right", |root| {
        write(root, "a.txt", &LINES.replace('5', "right"));
        write(root, "b.txt", "right\n");
    });
    let plan = scratch.plan(&[left, right.clone()]);
    let open = plan.open.clone().unwrap();
    assert_eq!(open.files.len(), 1);
    scratch.tree.open_merge(&plan.clean, &open.commit).unwrap();
    (scratch, plan, right)
}

#[test]
fn an_open_merge_ends_when_no_marker_is_left() {
    let (scratch, plan, right) = opened();
    let open = plan.open.unwrap();
    let root = scratch.tree.root();
    let state = scratch.tree.state().unwrap();
    assert_eq!((state.head, state.dirty), (plan.clean.clone(), true));
    assert_eq!(read(&root, "b.txt"), "right\n");
    // Nothing is resolved yet.
    let first = scratch
        .tree
        .finish_merge(&open.commit, &message("merge"))
        .unwrap();
    assert_eq!(
        first,
        Finish::Unresolved {
            files: vec!["a.txt".into()],
            open: open.commit.clone()
        }
    );
    // Some changes were made, but markers are left.
    write(&root, "notes.txt", "half way\n");
    let Finish::Unresolved { files, open: half } = scratch
        .tree
        .finish_merge(&open.commit, &message("merge"))
        .unwrap()
    else {
        panic!("markers are left")
    };
    assert_eq!(files, ["a.txt"]);
    assert_eq!(shown(&scratch.repository, &half, "notes.txt"), "half way\n");
    assert_eq!(
        parents(&scratch.yard, &half),
        [plan.clean.as_str(), right.sha.as_str()]
    );
    // Another process continues with the half-resolved merge.
    scratch.tree.remove().unwrap();
    scratch.tree.ensure(&plan.clean, &scratch.base).unwrap();
    assert!(!read(&root, "a.txt").contains("<<<<"));
    scratch.tree.open_merge(&plan.clean, &half).unwrap();
    assert!(read(&root, "a.txt").contains("<<<<<<< left\n"));
    write(&root, "a.txt", &LINES.replace('5', "both"));
    let Finish::Merged(merged) = scratch.tree.finish_merge(&half, &message("merge")).unwrap() else {
        panic!("no marker is left")
    };
    assert_eq!(
        parents(&scratch.yard, &merged),
        [plan.clean.as_str(), right.sha.as_str()]
    );
    assert_eq!(
        shown(&scratch.repository, &merged, "a.txt"),
        LINES.replace('5', "both")
    );
    assert_eq!(scratch.yard.git(&["for-each-ref", "refs/orchestra/open"]), "");
    assert!(!scratch.tree.changed().unwrap());
    // Finishing again changes nothing.
    assert_eq!(
        scratch.tree.finish_merge(&half, &message("merge")).unwrap(),
        Finish::Merged(merged)
    );
    assert_eq!(
        common::unreachable(&scratch.yard)
            .lines()
            .filter(|line| line.contains("commit"))
            .count(),
        0
    );
    assert_eq!(
        scratch
            .tree
            .finish_merge(&plan.clean, &message("merge"))
            .unwrap_err()
            .code(),
        "no_open_merge"
    );
}

#[test]
fn a_commit_of_a_person_on_top_of_an_open_merge_counts() {
    let (scratch, plan, right) = opened();
    let open = plan.open.unwrap();
    let root = scratch.tree.root();
    write(&root, "a.txt", &LINES.replace('5', "person"));
    run(&root, &["commit", "-q", "-am", "resolved by hand"]);
    let own: Sha = run(&root, &["rev-parse", "HEAD"]).trim().parse().unwrap();
    let Finish::Merged(merged) = scratch
        .tree
        .finish_merge(&open.commit, &message("merge"))
        .unwrap()
    else {
        panic!("no marker is left")
    };
    assert_eq!(
        parents(&scratch.yard, &merged),
        [own.as_str(), right.sha.as_str()]
    );
}

#[test]
fn a_person_can_take_one_side() {
    let (scratch, plan, right) = opened();
    let open = plan.open.unwrap();
    for (favour, word) in [(Favour::Ours, "left"), (Favour::Theirs, "right")] {
        let merged = resolve(&scratch.repository, &open.commit, favour, &message("taken")).unwrap();
        assert_eq!(
            parents(&scratch.yard, &merged),
            [plan.clean.as_str(), right.sha.as_str()]
        );
        assert_eq!(
            shown(&scratch.repository, &merged, "a.txt"),
            LINES.replace('5', word)
        );
        assert_eq!(
            shown(&scratch.repository, &merged, "b.txt"),
            "right\n",
            "what does not conflict is merged"
        );
    }
    let merged = resolve(
        &scratch.repository,
        &open.commit,
        Favour::Theirs,
        &message("taken"),
    )
    .unwrap();
    scratch.tree.restore(&plan.clean).unwrap();
    scratch.tree.advance(&plan.clean, &merged).unwrap();
    assert_eq!(read(&scratch.tree.root(), "a.txt"), LINES.replace('5', "right"));
}

#[test]
fn one_side_is_taken_of_files_without_markers() {
    let scratch = scratch(LINES);
    let left = scratch.side("left", |root| {
        fs::remove_file(root.join("a.txt")).unwrap();
        fs::write(root.join("image.bin"), [0, 1]).unwrap();
    });
    let right = scratch.side("right", |root| {
        write(root, "a.txt", "right\n");
        fs::write(root.join("image.bin"), [0, 2]).unwrap();
    });
    let open = scratch.plan(&[left, right]).open.unwrap();
    let list = |favour| {
        let sha = resolve(&scratch.repository, &open.commit, favour, &Message::default()).unwrap();
        (
            scratch.yard.git(&["ls-tree", "--name-only", sha.as_str()]),
            shown(&scratch.repository, &sha, "image.bin"),
        )
    };
    assert_eq!(
        list(Favour::Ours),
        ("b.txt\nimage.bin\n".into(), "\0\u{1}".into())
    );
    assert_eq!(
        list(Favour::Theirs),
        ("a.txt\nb.txt\nimage.bin\n".into(), "\0\u{2}".into())
    );
}

#[test]
fn attributes_of_the_commit_decide_and_not_those_of_the_user() {
    let scratch = scratch(LINES);
    scratch.yard.write(".gitattributes", "*.txt binary\n");
    let left = scratch.side("left", |root| write(root, "a.txt", &LINES.replace('1', "left")));
    let right = scratch.side("right", |root| write(root, "a.txt", &LINES.replace('9', "right")));
    assert_eq!(scratch.plan(&[left, right]).open, None);
    let all = scratch.side("attributes", |root| {
        write(root, ".gitattributes", "*.txt merge=union\n")
    });
    let left = side(&scratch.yard, &scratch.repository, &all.sha, "l", |root| {
        write(root, "a.txt", "left\n")
    });
    let right = side(&scratch.yard, &scratch.repository, &all.sha, "r", |root| {
        write(root, "a.txt", "right\n")
    });
    let plan = joined(&scratch.repository, &all.sha, &[left, right]);
    assert_eq!(plan.open, None);
    assert_eq!(shown(&scratch.repository, &plan.clean, "a.txt"), "left\nright\n");
}
