//! Packages that are made, checked by cargo, and asked what it said.
//!
//! All packages share the target folder of `trybuild` and two sets of features, of which `trybuild` uses the larger one, so
//! that the dependencies are checked twice. They share one lock file, so that nothing is fetched. `UPDATE=1` writes the
//! expected texts anew.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The features of a package that needs more than the default ones. The manifest of these tests, from which `trybuild`
/// makes its package, and the test of the projects of `orchestra init` enable the same ones in the same target folder.
const FEATURES: &str = r#"["agents", "cli", "testkit"]"#;

/// A package that is made for a test.
pub struct Package {
    folder: PathBuf,
    target: PathBuf,
    incremental: bool,
}

/// What the compiler said, and whether the package built.
pub struct BuildOutput {
    /// Whether it built.
    pub built: bool,
    /// The messages, in the order in which they came.
    pub messages: Vec<Message>,
}

/// A message of the compiler.
#[derive(Clone, Debug)]
pub struct Message {
    /// `error` or `warning`.
    pub level: String,
    /// The text behind the level, as the macro wrote it.
    pub text: String,
    /// The file of the primary span.
    pub file: String,
    /// Where the primary span begins: line and column, from 1.
    pub start: (u64, u64),
    /// Where it ends.
    pub end: (u64, u64),
}

fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder
        .ancestors()
        .nth(2)
        .map(Path::to_path_buf)
        .expect("the package lies two folders below the root")
}

impl Package {
    /// Makes an empty library package with the default features; `temporary` is the folder that cargo gives to the tests.
    pub fn new(temporary: &str, name: &str) -> Package {
        let temporary = Path::new(temporary);
        let folder = temporary.join("packages").join(name);
        let _ = fs::remove_dir_all(&folder);
        let package = Package {
            folder,
            target: temporary.with_file_name("tests").join("trybuild"),
            incremental: false,
        };
        package.manifest(&format!(
            "orchestra = {{ path = {:?} }}",
            root().join("orchestra").display().to_string()
        ));
        fs::copy(root().join("Cargo.lock"), package.folder.join("Cargo.lock"))
            .expect("the lock file is copied");
        package
    }

    /// Compiles the package incrementally, as cargo does for users. A package that is built only a few times is built
    /// faster without that.
    #[must_use]
    pub fn incremental(mut self) -> Package {
        self.incremental = true;
        self
    }

    /// Makes an empty library package that knows the crate by a name, with the features for agents, simulation and the
    /// command line.
    pub fn with_features(temporary: &str, name: &str, known_as: &str) -> Package {
        let package = Package::new(temporary, name);
        package.manifest(&format!(
            "{known_as} = {{ package = \"orchestra\", path = {:?}, features = {FEATURES} }}",
            Package::orchestra().display().to_string()
        ));
        package
    }

    /// Writes the manifest with these dependencies.
    pub fn manifest(&self, dependencies: &str) {
        let name = self.folder.file_name().expect("a name").to_string_lossy();
        self.write(
            "Cargo.toml",
            format!(
                "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
                 [dependencies]\n{dependencies}\n"
            ),
        );
    }

    /// The folder of the project, for a dependency by path.
    pub fn orchestra() -> PathBuf {
        root().join("orchestra")
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.folder.join(name);
        let parent = path.parent().expect("a folder");
        fs::create_dir_all(parent).expect("the folder can be made");
        fs::write(path, text).expect("the file can be written");
    }

    /// The path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The folder into which `cargo doc` writes the pages of the package.
    pub fn pages(&self) -> PathBuf {
        let name = self.folder.file_name().expect("a name");
        let platforms = fs::read_dir(&self.target).expect("the folder can be listed");
        platforms
            .filter_map(|entry| Some(entry.ok()?.path().join("doc").join(name)))
            .find(|pages| pages.is_dir())
            .expect("the package has pages")
    }

    /// Runs `cargo check`.
    pub fn check(&self) -> BuildOutput {
        self.cargo(&["check"])
    }

    /// Runs cargo with a command that compiles.
    pub fn cargo(&self, command: &[&str]) -> BuildOutput {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(command)
            .args(["--offline", "--message-format=json", "--target=host-tuple"])
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", &self.target)
            // Nobody debugs what comes of it.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", if self.incremental { "1" } else { "0" })
            // What the outer cargo says to its tests is not meant for the inner one.
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .output()
            .expect("cargo can be run");
        let stdout = String::from_utf8_lossy(&output.stdout);
        let name = self.folder.file_name().expect("a name").to_string_lossy();
        let messages = stdout
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|value| value["reason"] == "compiler-message" && value["target"]["name"] == *name)
            .filter_map(|value| Message::parse(&value["message"]))
            .collect();
        let said = BuildOutput {
            built: output.status.success(),
            messages,
        };
        assert!(
            said.built || said.messages.iter().any(|message| message.level == "error"),
            "cargo failed without saying why in the package itself:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        said
    }
}

impl Message {
    fn parse(message: &Value) -> Option<Message> {
        let spans = message["spans"].as_array()?;
        let primary = spans.iter().find(|span| span["is_primary"] == true)?;
        let number = |key: &str| primary[key].as_u64().unwrap_or_default();
        Some(Message {
            level: message["level"].as_str()?.to_owned(),
            text: message["message"].as_str()?.to_owned(),
            file: primary["file_name"].as_str()?.replace('\\', "/"),
            start: (number("line_start"), number("column_start")),
            end: (number("line_end"), number("column_end")),
        })
    }
}

impl BuildOutput {
    /// The one message whose text holds this.
    pub fn about(&self, words: &str) -> &Message {
        let found: Vec<&Message> = self
            .messages
            .iter()
            .filter(|message| message.text.contains(words))
            .collect();
        match found.as_slice() {
            [one] => one,
            several => panic!("{} messages hold {words:?} of:\n{}", several.len(), self.listed()),
        }
    }

    /// All messages with their places, for comparison with an expected text.
    pub fn listed(&self) -> String {
        let mut texts: Vec<String> = self
            .messages
            .iter()
            .map(|message| {
                let ((line, column), (end_line, end_column)) = (message.start, message.end);
                let lines: Vec<&str> = message.text.lines().map(str::trim_end).collect();
                format!(
                    "{} at {}:{line}:{column}-{end_line}:{end_column}\n{}\n",
                    message.level,
                    message.file,
                    lines.join("\n")
                )
            })
            .collect();
        texts.sort();
        texts.join("\n")
    }
}

/// Compares a text with the expected one; `UPDATE=1` writes it instead.
pub fn expect(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("expected").join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, found).expect("the expected text can be written");
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if expected == found {
        return;
    }
    let differs = |(at, (a, b)): &(usize, (&str, &str))| (a != b).then_some(*at);
    let at = expected
        .lines()
        .zip(found.lines())
        .enumerate()
        .find_map(|pair| differs(&pair));
    let at = at.unwrap_or_else(|| expected.lines().count().min(found.lines().count()));
    let around: Vec<&str> = found.lines().skip(at.saturating_sub(5)).take(15).collect();
    panic!(
        "{} differs from what was found at its line {}; `UPDATE=1` accepts it. Found there:\n{}",
        path.display(),
        at + 1,
        around.join("\n")
    );
}
