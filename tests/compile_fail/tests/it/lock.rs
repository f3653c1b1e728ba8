//! `pipeline!(.., lock)`: breaking changes and missing handlers of old versions fail the build.

use std::time::Duration;

use orchestra_compile_fail_tests::Package;
use orchestra_graph::{LOCK_FILE, LockFile, LockedVersion};

const OLD: &str = "digraph release {
    start -> announce -> ask
    announce [type=announce]
    ask      [shape=hexagon]
    ask -> exit [label=Ship]
}
";

const NEW: &str = "digraph release {
    start -> build -> exit
    build [type=build]
}
";

const PROGRAM: &str = "
/// The handlers.
pub struct Team;
#[orchestra::handlers]
impl Team {
    #[handler(\"build\")]
    fn build(&self) {}
}
orchestra::pipeline! { pub mod release = \"flows/release.dot\", lock, handlers = Team; }
";

/// Writes a package with these locked versions of the pipeline, which is `NEW` today.
fn package(name: &str, versions: &[&str]) -> Package {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), name);
    package.write("flows/release.dot", NEW);
    package.write("src/lib.rs", PROGRAM);
    write_lock(&package, versions);
    package
}

fn write_lock(package: &Package, versions: &[&str]) {
    let mut lock = LockFile::default();
    for (text, number) in versions.iter().zip(1..) {
        let pinned = format!("orchestra.lock.d/flows/release-{number}.dot");
        package.write(&pinned, text);
        lock.pipeline_mut("flows/release.dot")
            .versions
            .push(LockedVersion {
                version: number,
                files: [("flows/release.dot".to_owned(), pinned)].into(),
                ..LockedVersion::default()
            });
    }
    package.write(LOCK_FILE, lock.to_string());
}

#[test]
fn a_breaking_change_fails_the_build() {
    let package = package("lock_breaks", &[OLD]);
    let said = package.check();
    assert!(!said.built);
    let message = said.about("`ask` was removed; a run that waits there cannot go on");
    assert!(message.text.contains("[resume_breaks]"), "{}", message.text);
    assert!(message.text.contains("flows/release.dot:"), "{}", message.text);
}

#[test]
fn the_handlers_of_today_must_meet_an_old_version() {
    let package = package("lock_handlers", &[OLD, NEW]);
    let said = package.check();
    assert!(!said.built);
    let message = said.about("announce");
    assert!(
        message.text.contains("orchestra.lock.d/flows/release-1.dot:3:"),
        "{}",
        message.text
    );
    package.write(
        "src/lib.rs",
        PROGRAM.replace(
            "#[handler(\"build\")]",
            "#[handler(\"announce\")] fn announce(&self) {}\n    #[handler(\"build\")]",
        ),
    );
    let said = package.check();
    assert!(said.built && said.messages.is_empty(), "{}", said.listed());
    // The lock file is read again when it changes. Cargo compares times of change, whose steps may be as long as a second.
    std::thread::sleep(Duration::from_millis(1_100));
    write_lock(&package, &[NEW, OLD]);
    let said = package.check();
    assert!(!said.built, "an edited lock file was not read again");
    said.about("`ask` was removed");
}

#[test]
fn a_missing_or_damaged_lock_file_fails_the_build() {
    let package = package("lock_damaged", &[NEW]);
    package.write(LOCK_FILE, "{}");
    let said = package.check();
    assert!(
        said.about("lock_damaged").text.contains("orchestra.lock:1:"),
        "{}",
        said.listed()
    );
    package.write(LOCK_FILE, LockFile::default().to_string());
    package.check().about("not_locked");
    package.write(
        "src/lib.rs",
        "orchestra::pipeline! { pub mod a = digraph a { start -> exit }, lock; }\n",
    );
    package
        .check()
        .about("`lock` needs a pipeline in a file of its own");
}
