//! mdBook builds the book.

#![allow(clippy::unwrap_used)]

use std::process::Command;

use orchestra_book_tests::{book, chapters, root};
use orchestra_installed_tests::{find, skip};

#[test]
fn mdbook_builds_the_book() {
    let Some(program) = find("mdbook") else {
        skip("the program `mdbook` is not installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .arg("build")
        .arg(root().join("book"))
        .arg("--dest-dir")
        .arg(folder.path())
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    for chapter in chapters(&book()).unwrap() {
        let page = folder.path().join(chapter).with_extension("html");
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(!text.contains("{{#"), "{} is not expanded", page.display());
    }
}
