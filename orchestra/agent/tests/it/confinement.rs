//! File tools cannot leave their root: neither with paths, nor through links, nor through changes while they run.
#![cfg(target_os = "linux")]

use crate::tools_support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use orchestra_agent::{ToolCall, ToolRunner};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;
use tools_support::{builtin, call};

/// The content of every file outside of the root. No file inside contains it.
const CANARY: &str = "CANARY-5f1d";
/// The name of a file outside of the root. No path of the tests contains it.
const ONLY_OUTSIDE: &str = "only_outside";
const PATHS: usize = 10_000;
/// Links that lead out of the root, which no tool may replace by a file.
const LINKS: [&str; 6] = ["to_file", "to_folder", "dangling", "etc", "up", "proc"];

/// A root folder, with files next to it that must not be touched.
struct Ground {
    _folder: tempfile::TempDir,
    outer: PathBuf,
    root: PathBuf,
    canary: PathBuf,
}

impl Ground {
    fn new() -> Ground {
        // The tests sync thousands of files, so use a memory file system if there is one.
        let folder = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let outer = folder.path().canonicalize().unwrap();
        let (root, canary) = (outer.join("root"), outer.join("canary"));
        fs::create_dir_all(canary.join("folder")).unwrap();
        for path in ["secret", "folder/secret", "file.txt", ONLY_OUTSIDE] {
            fs::write(canary.join(path), format!("{CANARY} {path}\n")).unwrap();
        }
        // A folder whose name begins with that of the root.
        fs::create_dir(outer.join("root2")).unwrap();
        fs::write(outer.join("root2/secret"), CANARY).unwrap();
        let ground = Ground {
            _folder: folder,
            outer,
            root,
            canary,
        };
        ground.fill();
        ground
    }

    fn fill(&self) {
        fs::create_dir_all(self.root.join("inside/deep")).unwrap();
        fs::write(self.root.join("inside/file.txt"), "harmless\n").unwrap();
        fs::write(self.root.join("file.txt"), "harmless\n").unwrap();
    }

    fn plant(&self) {
        let canary = self.canary.to_str().unwrap();
        for (link, target) in [
            ("to_file", "../canary/secret".to_owned()),
            ("to_folder", "../canary".to_owned()),
            ("to_file_by_root", format!("{canary}/secret")),
            ("to_folder_by_root", canary.to_owned()),
            ("chain_1", "chain_2".to_owned()),
            ("chain_2", "inside/chain_3".to_owned()),
            ("inside/chain_3", "../to_folder".to_owned()),
            ("dangling", "../canary/new".to_owned()),
            ("dangling_folder", "../canary/new_folder".to_owned()),
            ("up", "..".to_owned()),
            ("inside/up", "../..".to_owned()),
            ("etc", "/etc".to_owned()),
            ("slash", "/".to_owned()),
            ("proc", "/proc/self/root".to_owned()),
            ("cwd", "/proc/self/cwd".to_owned()),
            ("loop_1", "loop_2".to_owned()),
            ("loop_2", "loop_1".to_owned()),
            ("here", ".".to_owned()),
            ("link_inside", "inside".to_owned()),
            (".gitignore", "../canary/secret".to_owned()),
        ] {
            symlink(target, self.root.join(link)).unwrap();
        }
    }

    /// Returns everything outside of the root, with content and times.
    fn outside(&self) -> BTreeMap<PathBuf, (u64, i64, i64, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.outer.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path == self.root {
                    continue;
                }
                let metadata = path.symlink_metadata().unwrap();
                let content = if metadata.is_file() {
                    fs::read(&path).unwrap()
                } else {
                    Vec::new()
                };
                if metadata.is_dir() {
                    folders.push(path.clone());
                }
                found.insert(
                    path,
                    (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), content),
                );
            }
        }
        found
    }
}

/// Returns calls of all file tools with a path.
fn calls(path: &str) -> [ToolCall; 6] {
    [
        call("read_file", json!({"path": path})),
        call(
            "edit_file",
            json!({"path": path, "edits": [{"old_text": CANARY, "new_text": "taken"}]}),
        ),
        call("grep", json!({"pattern": "CANARY|root:x:0", "path": path})),
        call(
            "glob",
            json!({"pattern": format!("{{{ONLY_OUTSIDE},os-release}}"), "path": path}),
        ),
        call("search_code", json!({"query": "CANARY", "path": path})),
        call("write_file", json!({"path": path, "content": "overwritten\n"})),
    ]
}

/// Panics if a result shows data from outside of the root.
fn assert_harmless(call: &ToolCall, content: &str) {
    let asked = format!("{call:?}");
    // Messages may repeat the arguments of the call.
    let mut shown = content.to_owned();
    for own in [
        "`CANARY|root:x:0`",
        "`{only_outside,os-release}`",
        "`CANARY-5f1d`",
        "`only_outside`",
    ] {
        shown = shown.replace(own, "");
    }
    for word in [CANARY, "root:x:0", ONLY_OUTSIDE, "os-release"] {
        assert!(!shown.contains(word), "{asked} shows `{word}`:\n{content}");
    }
}

/// A deterministic random number generator, so that every run tries the same paths.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % count
    }
}

fn hostile(ground: &Ground) -> BTreeSet<String> {
    let long = "n".repeat(300);
    let canary = ground.canary.to_str().unwrap().to_owned();
    let outer = ground.outer.to_str().unwrap().to_owned();
    let root = ground.root.to_str().unwrap().to_owned();
    let starts = [
        "",
        "",
        "",
        "/",
        "//",
        "./",
        "../",
        "..\\",
        "~/",
        "file://",
        "C:\\",
        "\\\\?\\",
        "/proc/self/root/",
        "/proc/self/cwd/",
        "/dev/fd/",
        "/etc/",
        "../canary/",
        "../root2/",
        "../root/",
        &canary,
        &outer,
        &root,
    ];
    let parts = [
        "..",
        ".",
        "...",
        "....",
        ". .",
        " ",
        "",
        "canary",
        "secret",
        "root",
        "root2",
        "new",
        "etc",
        "passwd",
        "file.txt",
        "FILE.TXT",
        "inside",
        "Inside",
        "deep",
        "to_file",
        "to_folder",
        "to_file_by_root",
        "to_folder_by_root",
        "chain_1",
        "chain_2",
        "dangling",
        "dangling_folder",
        "up",
        "slash",
        "proc",
        "cwd",
        "loop_1",
        "here",
        "link_inside",
        "folder",
        "%2e%2e",
        "%2e%2e%2f",
        "..%2f",
        "%252e%252e",
        "..%c0%af",
        "\u{2025}",
        "\u{2024}\u{2024}",
        "\u{ff0e}\u{ff0e}",
        "\u{ff0f}",
        "\u{2215}etc",
        "\u{202e}..",
        "..\u{200b}",
        "\u{feff}..",
        "e\u{301}",
        "\u{e9}",
        "CON",
        "nul",
        "aux.txt",
        "a:b",
        "*",
        "?",
        "[a]",
        "{a,b}",
        "$HOME",
        "`id`",
        "$(id)",
        ";",
        "|",
        "'",
        "\"",
        "-rf",
        "--help",
        "\n",
        "\t",
        "\u{1b}[2J",
        "a\0b",
        "..\0",
        "\0",
        ".git",
        ".gitignore",
        "self",
        "fd",
        "0",
        &long,
    ];
    let joins = ["/", "/", "/", "/", "//", "/./", "/../", "\\", "/inside/../"];
    let ends = ["", "", "", "/", "/.", "/..", "//", "\0", " ", "."];
    let mut chance = Chance(20_26);
    let mut paths: BTreeSet<String> = BTreeSet::new();
    for start in starts {
        for part in parts {
            paths.insert(format!("{start}{part}"));
        }
    }
    paths.insert("a/".repeat(5_000));
    paths.insert("../".repeat(1_000) + "etc/passwd");
    while paths.len() < PATHS {
        let mut path = starts[chance.below(starts.len())].to_owned();
        for at in 0..1 + chance.below(6) {
            if at > 0 {
                path.push_str(joins[chance.below(joins.len())]);
            }
            path.push_str(parts[chance.below(parts.len())]);
        }
        path.push_str(ends[chance.below(ends.len())]);
        paths.insert(path);
    }
    paths
}

#[tokio::test]
async fn no_path_leads_out_of_the_root() {
    let ground = Ground::new();
    ground.plant();
    let before = ground.outside();
    let runner = builtin(&ground.root);
    let (mut done, mut refused) = (0, 0);
    let paths = hostile(&ground);
    assert_eq!(paths.len(), PATHS);
    for (at, path) in paths.iter().enumerate() {
        // Files written inside the root would slow down every search, so reset it regularly.
        if at % 50 == 0 {
            for link in LINKS {
                assert!(ground.root.join(link).is_symlink(), "{link} was replaced");
            }
            fs::remove_dir_all(&ground.root).unwrap();
            ground.fill();
            ground.plant();
        }
        for call in calls(path) {
            let result = runner.call(&call).await;
            assert_harmless(&call, &result.content);
            assert!(result.content.len() < 30_000);
            *(if result.is_error { &mut refused } else { &mut done }) += 1;
        }
    }
    // There were paths of both kinds: unusual ones inside, and ones that lead out.
    assert!(done > 1_000 && refused > 20_000, "{done} done, {refused} refused");
    assert_eq!(ground.outside(), before);
}

#[tokio::test]
async fn links_that_stay_inside_are_followed() {
    let ground = Ground::new();
    ground.plant();
    let runner = builtin(&ground.root);
    for path in ["link_inside/file.txt", "here/here/file.txt", "inside/../file.txt"] {
        let result = runner.call(&call("read_file", json!({"path": path}))).await;
        assert_eq!(result.content, "1\tharmless\n", "{path}");
    }
    for path in [
        "to_file",
        "to_folder/secret",
        "up/canary/secret",
        "chain_1/secret",
        "etc/passwd",
    ] {
        let result = runner.call(&call("read_file", json!({"path": path}))).await;
        let reported = format!("`{path}` leads out of the working folder");
        assert!(
            result.is_error && result.content.starts_with(&reported),
            "{}",
            result.content
        );
    }
}

/// Calls tools in a loop while another thread repeatedly swaps `place` with a link that leads out.
async fn race(ground: &Ground, path: &str, dir: &str, target: &str) {
    let before = ground.outside();
    let runner = builtin(&ground.root);
    let (over, flips) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    let (dir, link) = (ground.root.join(dir), ground.root.join("link"));
    std::thread::scope(|scope| {
        let flipper = scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                // A tool may have replaced the link with a file.
                if !dir.is_symlink() && !link.is_symlink() {
                    let fresh = link.with_extension("fresh");
                    symlink(target, &fresh).unwrap();
                    let _old = fs::remove_file(&link);
                    fs::rename(&fresh, &link).unwrap();
                }
                renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                flips.fetch_add(1, Ordering::Relaxed);
            }
        });
        let caller = scope.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(circle(&runner, path, flips))
        });
        while !caller.is_finished() && !flipper.is_finished() {
            std::thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
        flipper.join().unwrap();
        caller.join().unwrap();
    });
    assert_eq!(ground.outside(), before);
}

async fn circle(runner: &ToolRunner, path: &str, flips: &AtomicUsize) {
    let end = Instant::now() + Duration::from_secs(120);
    let mut rounds = 0;
    while rounds < 200 || flips.load(Ordering::Relaxed) < 1_000 {
        assert!(Instant::now() < end, "the other thread stands still");
        let everywhere = [
            call("grep", json!({"pattern": CANARY})),
            call("glob", json!({"pattern": ONLY_OUTSIDE})),
            call("search_code", json!({"query": "CANARY"})),
        ];
        for call in calls(path).into_iter().chain(everywhere) {
            let result = runner.call(&call).await;
            assert_harmless(&call, &result.content);
        }
        rounds += 1;
    }
}

#[tokio::test]
async fn a_folder_that_becomes_a_link_while_it_is_used_leads_nowhere() {
    let ground = Ground::new();
    symlink("../canary", ground.root.join("link")).unwrap();
    race(&ground, "inside/file.txt", "inside", "../canary").await;
}

#[tokio::test]
async fn a_file_that_becomes_a_link_while_it_is_used_leads_nowhere() {
    let ground = Ground::new();
    symlink("../canary/secret", ground.root.join("link")).unwrap();
    race(&ground, "file.txt", "file.txt", "../canary/secret").await;
}
