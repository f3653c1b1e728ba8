//! Tests of the file tools through the runner.
use crate::tools_support;

use std::fs;

use proptest::prelude::*;
use serde_json::json;
use tools_support::{builtin, refused, said};

#[tokio::test]
async fn a_file_is_read_with_the_numbers_of_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.txt"), "one\r\ntwo\n\nfour").unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    let runner = builtin(folder.path());
    let whole = said(&runner, "read_file", json!({"path": "a.txt"})).await;
    assert_eq!(whole, "1\tone\n2\ttwo\n3\t\n4\tfour\n");
    let part = said(
        &runner,
        "read_file",
        json!({"path": "a.txt", "offset": 2, "limit": 2}),
    )
    .await;
    assert_eq!(
        part,
        "2\ttwo\n3\t\n[lines 2 to 3 of 4; read on with `offset`: 4]\n"
    );
    let absolute = folder.path().join("a.txt");
    let absolute = said(&runner, "read_file", json!({"path": absolute, "limit": 1})).await;
    assert!(absolute.starts_with("1\tone\n[lines 1 to 1 of 4"), "{absolute}");
    assert_eq!(
        said(&runner, "read_file", json!({"path": "empty"})).await,
        "[`empty` is empty]"
    );
    let behind = said(&runner, "read_file", json!({"path": "a.txt", "offset": 9})).await;
    assert_eq!(behind, "[`a.txt` has only 4 lines; there is no line 9]");
}

#[tokio::test]
async fn a_large_file_is_shown_in_parts_that_join() {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (1..=5_000)
        .map(|at| format!("line {at} {}", "ä".repeat(at % 40)))
        .collect();
    fs::write(folder.path().join("large"), lines.join("\n")).unwrap();
    let runner = builtin(folder.path());
    let (mut offset, mut seen) = (1, Vec::new());
    loop {
        let part = said(&runner, "read_file", json!({"path": "large", "offset": offset})).await;
        assert!(part.len() <= 30_000, "{}", part.len());
        let (text, next) = match part.rsplit_once("\n[lines ") {
            Some((text, reported)) => (
                text,
                reported
                    .split_once("`offset`: ")
                    .map(|(_, next)| next.trim_end_matches("]\n")),
            ),
            None => (part.trim_end_matches('\n'), None),
        };
        seen.extend(
            text.lines()
                .map(|line| line.split_once('\t').unwrap().1.to_owned()),
        );
        match next {
            Some(next) => offset = next.parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(seen, lines);
}

#[tokio::test]
async fn long_lines_and_bytes_that_are_no_text_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("long"),
        format!("{}\nend\n", "ö".repeat(1_000_000)),
    )
    .unwrap();
    fs::write(folder.path().join("latin"), b"caf\xe9\n").unwrap();
    fs::write(folder.path().join("image.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").unwrap();
    let runner = builtin(folder.path());
    let long = said(&runner, "read_file", json!({"path": "long"})).await;
    assert!(
        long.ends_with("ö [1998000 more bytes in this line]\n2\tend\n"),
        "{}",
        &long[long.len() - 100..]
    );
    assert!(long.len() < 2_200);
    let latin = said(&runner, "read_file", json!({"path": "latin"})).await;
    assert_eq!(
        latin,
        "1\tcaf\u{fffd}\n[bytes that are not UTF-8 are shown as \u{fffd}]\n"
    );
    let image = refused(&runner, "read_file", json!({"path": "image.png"})).await;
    assert_eq!(image, "`image.png` is a binary file of 16 bytes; it is not shown");
}

#[tokio::test]
async fn a_wrong_path_or_argument_helps_to_a_right_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/main.rs"), "fn main() {}\n").unwrap();
    let runner = builtin(folder.path());
    for (arguments, reported) in [
        (
            json!({"path": "src/mian.rs"}),
            "there is no `src/mian.rs`; did you mean `src/main.rs`?",
        ),
        (json!({"path": "scr"}), "there is no `scr`; did you mean `src`?"),
        (json!({"path": "src"}), "`src` is a folder"),
        (
            json!({"path": ""}),
            "the path is empty; `.` is the working folder",
        ),
        (
            json!({"path": "src/main.rs/x"}),
            "a part of `src/main.rs/x` is a file, where a folder is needed",
        ),
        (
            json!({"file": "a"}),
            "wrong arguments: unknown argument `file`. Expected: `path` (string), optional `limit` (integer), \
             optional `offset` (integer)",
        ),
        (
            json!({"path": "src/main.rs", "limit": 0}),
            "`limit` is 0, so there is nothing to read",
        ),
    ] {
        assert_eq!(refused(&runner, "read_file", arguments).await, reported);
    }
}

#[tokio::test]
async fn a_file_is_written_as_a_whole_with_its_folders() {
    let folder = tempfile::tempdir().unwrap();
    let runner = builtin(folder.path());
    let reported = said(
        &runner,
        "write_file",
        json!({"path": "a/b/c.txt", "content": "one\ntwo\n"}),
    )
    .await;
    assert_eq!(reported, "`a/b/c.txt` is made: 2 lines, 8 bytes");
    let reported = said(
        &runner,
        "write_file",
        json!({"path": "./a/b/c.txt", "content": ""}),
    )
    .await;
    assert_eq!(reported, "`a/b/c.txt` is replaced: 0 lines, 0 bytes");
    assert_eq!(fs::read(folder.path().join("a/b/c.txt")).unwrap(), b"");
    assert_eq!(
        fs::read_dir(folder.path().join("a/b")).unwrap().count(),
        1,
        "nothing else is left"
    );
    for (path, reported) in [
        ("a/b", "`a/b` is a folder"),
        ("a/", "`a/` names a folder"),
        (".", "`.` is a folder"),
        (
            "a/b/c.txt/d",
            "a part of `a/b/c.txt/d` is a file, where a folder is needed",
        ),
    ] {
        assert_eq!(
            refused(&runner, "write_file", json!({"path": path, "content": ""})).await,
            reported
        );
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_replaced_file_keeps_its_permissions_and_its_link() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("run.sh");
    fs::write(&script, "echo one\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
    symlink("run.sh", folder.path().join("link")).unwrap();
    let runner = builtin(folder.path());
    let edit = json!({"path": "link", "edits": [{"old_text": "one", "new_text": "two"}]});
    said(&runner, "edit_file", edit).await;
    assert_eq!(fs::read_to_string(&script).unwrap(), "echo two\n");
    assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o750);
    assert!(folder.path().join("link").is_symlink());
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_no_plain_file_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.path().join("pipe"))
        .status()
        .unwrap();
    assert!(made.success());
    let runner = builtin(folder.path());
    let reported = refused(&runner, "read_file", json!({"path": "pipe"})).await;
    assert_eq!(reported, "`pipe` is not a plain file");
    let reported = refused(&runner, "write_file", json!({"path": "pipe", "content": ""})).await;
    assert_eq!(reported, "`pipe` is not a plain file");
    said(&runner, "grep", json!({"pattern": "x"})).await;
}

#[tokio::test]
async fn edits_are_made_all_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rs");
    fs::write(&path, "fn a() {}\nfn b() {}\nfn b() {}\n").unwrap();
    let runner = builtin(folder.path());
    let edit = |edits| json!({"path": "a.rs", "edits": edits});
    let reported = said(
        &runner,
        "edit_file",
        edit(json!([
            {"old_text": "fn a()", "new_text": "fn c()"},
            {"old_text": "fn b()", "new_text": "fn d()", "replace_all": true},
        ])),
    )
    .await;
    assert_eq!(
        reported,
        "`a.rs` is changed: 3 replacements, at line 1; lines 2 and 3"
    );
    let text = "fn c() {}\nfn d() {}\nfn d() {}\n";
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    for (edits, reported) in [
        (
            json!([{"old_text": "fn c()", "new_text": "x"}, {"old_text": "fn d()", "new_text": "y"}]),
            "edit 2 of 2: `old_text` occurs 2 times, at lines 2 and 3; take in more of the lines around it, or set \
             `replace_all` (`a.rs` is unchanged)",
        ),
        (
            json!([{"old_text": "fn e()", "new_text": "y"}]),
            "`old_text` does not occur, not even its first line; read the file again (`a.rs` is unchanged)",
        ),
        (
            json!([{"old_text": "fn c() {}\nfn e() {}", "new_text": "y"}]),
            "`old_text` does not occur; its first line stands at line 1, but what follows differs; read the file again \
             from there (`a.rs` is unchanged)",
        ),
        (
            json!([{"old_text": "  fn c() {}\n  fn d() {}", "new_text": "y"}]),
            "`old_text` does not occur; but for white space, it stands at lines 1 to 2, where the file has exactly:\n\
             fn c() {}\nfn d() {}\n (`a.rs` is unchanged)",
        ),
        (
            json!([{"old_text": "", "new_text": "y"}]),
            "`old_text` is empty; say which text to replace, or write the file with `write_file` (`a.rs` is unchanged)",
        ),
        (json!([]), "`edits` is empty; give at least one replacement"),
    ] {
        assert_eq!(refused(&runner, "edit_file", edit(edits)).await, reported);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    let same = said(
        &runner,
        "edit_file",
        edit(json!([{"old_text": "c", "new_text": "c"}])),
    )
    .await;
    assert_eq!(same, "`a.rs` is unchanged: the edits make no difference");
}

#[tokio::test]
async fn an_edit_keeps_the_line_ends_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("dos"), "a\r\nb\r\nc\r\n").unwrap();
    let runner = builtin(folder.path());
    let edits = json!([{"old_text": "a\nb", "new_text": "a\nx\nb"}]);
    said(&runner, "edit_file", json!({"path": "dos", "edits": edits})).await;
    assert_eq!(
        fs::read_to_string(folder.path().join("dos")).unwrap(),
        "a\r\nx\r\nb\r\nc\r\n"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// A single edit equals `str::replacen` if the text occurs exactly once, and fails otherwise.
    #[test]
    fn an_edit_is_a_replacement(before in "[ab\n]{0,12}", old in "[ab\n]{1,3}", new in "[cd\n]{0,4}") {
        let folder = tempfile::tempdir().unwrap();
        let runner = builtin(folder.path());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (left, written) = runtime.block_on(async {
            said(&runner, "write_file", json!({"path": "f", "content": before})).await;
            let edits = json!([{"old_text": old, "new_text": new}]);
            let edit = tools_support::call("edit_file", json!({"path": "f", "edits": edits}));
            let result = runner.call(&edit).await;
            (fs::read_to_string(folder.path().join("f")).unwrap(), result)
        });
        let once = before.matches(&old).count() == 1;
        prop_assert_eq!(written.is_error, !once);
        prop_assert_eq!(left, if once { before.replacen(&old, &new, 1) } else { before });
    }
}
