//! Tests of the tools `grep`, `glob` and `search-code` through the runner.
use crate::tools_support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tools_support::{builtin, refused, said};

/// Creates a folder with files, given by their paths and contents.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

#[tokio::test]
async fn grep_shows_matches_with_their_places() {
    let folder = folder(&[
        ("src/a.rs", "fn one() {}\nfn two() {\n    one();\n}\n"),
        ("src/b.txt", "One\r\nonerous\r\n"),
        ("bin", "one\0two"),
        (".gitignore", "/target\n*.log\n"),
        ("target/x.rs", "one"),
        ("run.log", "one"),
    ]);
    let runner = builtin(folder.path());
    let all = said(&runner, "grep", json!({"pattern": r"\bone\b"})).await;
    assert_eq!(
        all,
        "src/a.rs:1:fn one() {}\nsrc/a.rs:3:    one();\n[2 matching lines in 1 file]\n"
    );
    let case = said(&runner, "grep", json!({"pattern": "^one$", "ignore_case": true})).await;
    assert_eq!(case, "src/b.txt:1:One\n[1 matching line in 1 file]\n");
    let around = said(
        &runner,
        "grep",
        json!({"pattern": "two", "context": 1, "glob": "*.rs"}),
    )
    .await;
    assert_eq!(
        around,
        "src/a.rs-1-fn one() {}\nsrc/a.rs:2:fn two() {\nsrc/a.rs-3-    one();\n[1 matching line in 1 file]\n"
    );
    let names = said(
        &runner,
        "grep",
        json!({"pattern": "one", "files_only": true, "path": "src"}),
    )
    .await;
    assert_eq!(
        names,
        "src/a.rs: 2 lines\nsrc/b.txt: 1 line\n[3 matching lines in 2 files]\n"
    );
    let ignored = said(&runner, "grep", json!({"pattern": "one", "path": "target"})).await;
    assert_eq!(ignored, "target/x.rs:1:one\n[1 matching line in 1 file]\n");
    assert_eq!(
        said(&runner, "grep", json!({"pattern": "zzz"})).await,
        "no line matches `zzz`\n"
    );
    let wrong = refused(&runner, "grep", json!({"pattern": "fn("})).await;
    assert!(
        wrong.starts_with("`fn(` is not a regular expression for one line: "),
        "{wrong}"
    );
    let path = refused(&runner, "grep", json!({"pattern": "one", "path": "scr"})).await;
    assert_eq!(path, "there is no `scr`; did you mean `src`?");
}

#[tokio::test]
async fn what_is_found_is_bounded_and_says_so() {
    let many: String = (0..20_000).map(|at| format!("match number {at}\n")).collect();
    let long = format!("match {}\n", "x".repeat(100_000));
    let folder = folder(&[("long", &long), ("many", &many)]);
    for at in 0..3_000 {
        fs::write(
            folder.path().join(format!("file_with_a_long_name_{at:05}.txt")),
            "",
        )
        .unwrap();
    }
    let runner = builtin(folder.path());
    let lines = said(&runner, "grep", json!({"pattern": "match"})).await;
    assert!(lines.len() <= 30_000 && lines.starts_with("long:1:match xxx"));
    assert!(
        lines.contains(" more bytes]\nmany:1:match number 0\n"),
        "{}",
        &lines[..700]
    );
    assert!(
        lines.contains("and there are more; narrow the search"),
        "{}",
        &lines[29_000..]
    );
    let names = said(&runner, "glob", json!({"pattern": "*.txt"})).await;
    assert!(
        names.len() <= 30_000 && names.contains("[there are more than these"),
        "{}",
        names.len()
    );
    let shown = names.lines().count() - 1;
    assert!(names.contains(&format!("more than these {shown} files")));
}

#[tokio::test]
async fn glob_lists_in_order_what_git_does_not_ignore() {
    let folder = folder(&[
        (".gitignore", "*.tmp\n!keep.tmp\n/build/\n"),
        (".github/ci.yml", ""),
        (".git/config", ""),
        ("a.rs", ""),
        ("src/b.rs", ""),
        ("src/deep/c.rs", ""),
        ("src/x.tmp", ""),
        ("src/keep.tmp", ""),
        ("src/deep/.gitignore", "hidden\n"),
        ("src/deep/hidden/d.rs", ""),
        ("build/e.rs", ""),
        ("src/build/f.rs", ""),
    ]);
    let runner = builtin(folder.path());
    for (pattern, found) in [
        ("*.rs", "a.rs src/b.rs src/build/f.rs src/deep/c.rs"),
        ("src/*.rs", "src/b.rs"),
        ("src/**/*.rs", "src/b.rs src/build/f.rs src/deep/c.rs"),
        ("**/*.tmp", "src/keep.tmp"),
        ("*.{yml,tmp}", ".github/ci.yml src/keep.tmp"),
        ("config", ""),
    ] {
        let reported = said(&runner, "glob", json!({"pattern": pattern})).await;
        let names: Vec<&str> = reported
            .lines()
            .filter(|line| !line.starts_with(['[', 'n']))
            .collect();
        assert_eq!(names.join(" "), found, "{pattern}");
    }
    let below = said(&runner, "glob", json!({"pattern": "*.rs", "path": "src/deep"})).await;
    assert_eq!(below, "src/deep/c.rs\n[1 file]");
    let wrong = refused(&runner, "glob", json!({"pattern": "a[b"})).await;
    assert!(
        wrong.starts_with("`**/a[b` is not a pattern") || wrong.starts_with("`a[b` is not a pattern"),
        "{wrong}"
    );
}

/// Compares the ignored files with those of git itself.
#[tokio::test]
async fn glob_and_git_agree_on_what_is_ignored() {
    let folder = folder(&[
        (
            ".gitignore",
            "# words\n*.o\n!important.o\n/only_here\ndeep/**/gen\nwith space\\ \n\\#odd\n[ab].txt\n**/cache/\n",
        ),
        ("x.o", ""),
        ("important.o", ""),
        ("only_here", ""),
        ("sub/only_here", ""),
        ("deep/1/2/gen", ""),
        ("deep/gen", ""),
        ("#odd", ""),
        ("a.txt", ""),
        ("c.txt", ""),
        ("one/cache/file", ""),
        ("cache", ""),
        ("sub/.gitignore", "!x.o\n*.md\n/nested/\n"),
        ("sub/x.o", ""),
        ("sub/read.md", ""),
        ("sub/nested/a", ""),
        ("sub/more/nested/a", ""),
        ("sub/more/read.md", ""),
    ]);
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(folder.path()).args(arguments);
        command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    git(&["init", "-q"]);
    let listed = git(&["ls-files", "--others", "--exclude-standard", "-z"]);
    let git: BTreeSet<&str> = listed.split('\0').filter(|name| !name.is_empty()).collect();
    assert!(git.len() >= 8, "{git:?}");
    let reported = said(&builtin(folder.path()), "glob", json!({"pattern": "**"})).await;
    let ours: BTreeSet<&str> = reported.lines().filter(|line| !line.starts_with('[')).collect();
    assert_eq!(ours, git);
}

#[tokio::test]
async fn search_code_ranks_the_file_that_defines_and_holds_all_words_first() {
    let folder = folder(&[
        (
            "src/config.rs",
            "use std::fs;\n\n/// Reads it.\npub fn parse_config(text: &str) -> Config {\n    retry(text)\n}\n",
        ),
        ("src/main.rs", "fn main() {\n    let c = parse_config(\"\");\n}\n"),
        ("web/app.js", "function load() {\n  return parseConfig();\n}\n"),
        (
            "docs/notes.md",
            "We retry. We retry. We retry. We retry. We retry.\n",
        ),
        ("docs/other.md", "Nothing.\n"),
        ("retry.txt", "\n"),
    ]);
    let runner = builtin(folder.path());
    let reported = said(&runner, "search_code", json!({"query": "parse_config retry"})).await;
    let files: Vec<&str> = reported.lines().filter(|line| !line.starts_with(' ')).collect();
    assert!(files[0].starts_with("src/config.rs (score "), "{reported}");
    assert!(files[0].ends_with("; parse_config 1, retry 1)"), "{reported}");
    assert!(reported.contains(
        "  3- /// Reads it.\n  4: pub fn parse_config(text: &str) -> Config {\n  5:     retry(text)\n"
    ));
    let names: BTreeSet<&str> = files.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(
        names,
        BTreeSet::from([
            "src/config.rs",
            "src/main.rs",
            "web/app.js",
            "docs/notes.md",
            "retry.txt"
        ])
    );
    assert!(
        reported.contains("retry.txt (score ") && reported.contains("; by its name)"),
        "{reported}"
    );
    let camel = said(
        &runner,
        "search_code",
        json!({"query": "ParseConfig", "glob": "*.js"}),
    )
    .await;
    assert!(
        camel.starts_with("web/app.js (score") && !camel.contains("config.rs"),
        "{camel}"
    );
    let one = said(
        &runner,
        "search_code",
        json!({"query": "parseConfig", "limit": 1}),
    )
    .await;
    assert!(one.contains("[2 files more; for those narrow the query"), "{one}");
    let none = said(&runner, "search_code", json!({"query": "zebra"})).await;
    assert_eq!(none, "none of 6 files holds zebra\n");
    let empty = refused(&runner, "search_code", json!({"query": " -- "})).await;
    assert_eq!(empty, "`query` holds no word; give words or names to look for");
}

#[tokio::test]
async fn a_folder_of_folders_is_looked_through_to_its_depth() {
    let folder = tempfile::tempdir().unwrap();
    let deep: String = "d/".repeat(60);
    fs::create_dir_all(folder.path().join(&deep)).unwrap();
    fs::write(folder.path().join(&deep).join("found.txt"), "here\n").unwrap();
    let reported = said(&builtin(folder.path()), "grep", json!({"pattern": "here"})).await;
    assert!(
        reported.contains(&format!(
            "{}:1:here",
            Path::new(&deep).join("found.txt").display()
        )),
        "{reported}"
    );
}
