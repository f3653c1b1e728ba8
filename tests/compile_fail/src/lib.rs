//! Packages that are made, checked by cargo, and asked what it said.
//!
//! They share the target folder of the tests, the settings in `tests/checks.toml`, one set of features and one lock file:
//! nothing is fetched, and a dependency is checked once for all packages, for the lints and for the documentation.
//! `UPDATE=1` writes the expected texts anew.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod rendered;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The features of nearly all packages, so that the crates of the project are checked once. The test of the projects of
/// `orchestra init` enables the same ones.
const FEATURES: &str = r#"["agents", "cli", "server", "testkit"]"#;

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
    /// Makes an empty library package with all features; `temporary` is the folder that cargo gives to the tests.
    pub fn new(temporary: &str, name: &str) -> Package {
        Package::known_as(temporary, name, "orchestra")
    }

    /// Makes an empty library package that knows the crate by another name.
    pub fn known_as(temporary: &str, name: &str, known_as: &str) -> Package {
        let package = Package::empty(temporary, name);
        package.manifest(&format!(
            "{known_as} = {{ package = \"orchestra-workflow\", path = {:?}, features = {FEATURES} }}",
            Package::orchestra().display().to_string()
        ));
        package
    }

    /// Makes an empty library package with the default features, for which the crates of the project are checked again.
    pub fn with_default_features(temporary: &str, name: &str) -> Package {
        let package = Package::empty(temporary, name);
        package.manifest(&format!(
            "orchestra-workflow = {{ path = {:?} }}",
            Package::orchestra().display().to_string()
        ));
        package
    }

    /// Compiles the package incrementally, as cargo does for users. A package that is built only a few times is built
    /// faster without that.
    #[must_use]
    pub fn incremental(mut self) -> Package {
        self.incremental = true;
        self
    }

    fn empty(temporary: &str, name: &str) -> Package {
        let temporary = Path::new(temporary);
        let folder = temporary.join("packages").join(name);
        let _ = fs::remove_dir_all(&folder);
        let package = Package {
            folder,
            target: temporary
                .parent()
                .expect("a folder of the target folder")
                .to_path_buf(),
            incremental: false,
        };
        package.write(
            "Cargo.lock",
            fs::read(root().join("Cargo.lock")).expect("the lock file can be read"),
        );
        package
    }

    /// Writes the manifest with these dependencies.
    pub fn manifest(&self, dependencies: &str) {
        let name = self.name();
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

    /// Runs `cargo check`.
    pub fn check(&self) -> BuildOutput {
        self.messages_of(&["check"])
    }

    /// Documents the package; returns what was said and the page of a module.
    pub fn document(&self, module: &str) -> (BuildOutput, String) {
        let said = self.messages_of(&["doc", "--no-deps"]);
        let pages = self.target.join("doc").join(self.name());
        let page = fs::read_to_string(pages.join(module).join("index.html"));
        // The folder holds the documentation of the project.
        let _ = fs::remove_dir_all(pages);
        (said, page.unwrap_or_default())
    }

    fn messages_of(&self, command: &[&str]) -> BuildOutput {
        let output = self.cargo(command);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let messages = stdout
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|value| value["reason"] == "compiler-message" && value["target"]["name"] == self.name())
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

    fn cargo(&self, command: &[&str]) -> Output {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut cargo = Command::new(program);
        cargo
            .args(command)
            .args(["--offline", "--message-format=json", "--config"])
            .arg(root().join("tests/checks.toml"))
            .current_dir(&self.folder);
        // What the outer cargo says to its tests is not meant for the inner one, and would run build scripts again.
        for (name, _) in std::env::vars_os() {
            let known = name.to_string_lossy();
            if known.starts_with("CARGO_PKG_") || known.starts_with("CARGO_MANIFEST_") {
                cargo.env_remove(&name);
            }
        }
        cargo
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_INCREMENTAL", if self.incremental { "1" } else { "0" })
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .output()
            .expect("cargo can be run")
    }

    fn name(&self) -> String {
        let name = self.folder.file_name().expect("a name");
        name.to_string_lossy().into_owned()
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
    expect_at(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("expected").join(name),
        found,
    );
}

/// Compares a text with the one in a file; `UPDATE=1` writes it instead.
pub fn expect_at(path: &Path, found: &str) {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, found).expect("the expected text can be written");
        return;
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
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
