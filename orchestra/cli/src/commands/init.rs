//! `init`: creates a project that compiles and runs.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::args::{InitArgs, Template};
use crate::error::{CliError, Exit};
use crate::terminal::format::count;
use crate::terminal::{Paint, Terminal};

pub(crate) fn init(args: &InitArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let name = project_name(&args.name)?;
    let folder = PathBuf::from(&args.name);
    if std::fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(CliError::usage(
            "folder_exists",
            format!("the folder `{}` exists and is not empty", args.name),
        )
        .help("choose another name, or empty the folder"));
    }
    let module = name.replace('-', "_");
    let files = files(args.template, &name, &module);
    for (path, text) in &files {
        write(&folder.join(path), text)?;
    }
    if terminal.json {
        let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        terminal.object(&json!({"schema": "orchestra.init/1", "folder": args.name, "files": paths}));
    } else {
        terminal.progress(&format!("made {} in `{}`", count(files.len(), "file"), args.name));
        let next = format!("next: cd {} && {program} run pipelines/{module}.dot", args.name);
        terminal.progress(&terminal.paint(Paint::Bold, &next));
        terminal.progress(&format!("or, as a program of yours: cargo run -- run {module}"));
    }
    Ok(Exit::Ok)
}

/// Names that a package cannot have: Rust keywords, and crates on which the project depends.
const RESERVED: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "exit",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "main",
    "match",
    "mod",
    "move",
    "mut",
    "orchestra",
    "orchestra-workflow",
    "override",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "start",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "tokio",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// Derives the package name from the name of a folder.
fn project_name(folder: &str) -> Result<String, CliError> {
    let name = Path::new(folder)
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let letters = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    // A package with the name of one of its dependencies would not build.
    let reserved = RESERVED.contains(&name.to_lowercase().as_str());
    if letters && name.starts_with(|c: char| c.is_ascii_alphabetic()) && !reserved {
        return Ok(name.to_lowercase());
    }
    let why = if reserved {
        "is reserved"
    } else {
        "is not a package name"
    };
    Err(
        CliError::usage("project_name", format!("`{name}` {why}")).help(format!(
            "use letters, digits, `-` and `_`, beginning with a letter, such as `{}`",
            suggested(&name)
        )),
    )
}

/// Returns a valid name that is similar to the requested one.
fn suggested(name: &str) -> String {
    let kept: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        .collect();
    let kept = kept
        .trim_start_matches(|c: char| !c.is_ascii_alphabetic())
        .to_lowercase();
    if kept.is_empty() {
        "my-flow".to_owned()
    } else {
        format!("{kept}-flow")
    }
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    folder.and_then(|()| std::fs::write(path, text)).map_err(|error| {
        CliError::usage(
            "unwritable_file",
            format!("cannot write `{}`: {error}", path.display()),
        )
    })
}

/// Returns the dependency on this crate: the checkout from which the program was built if it exists, else the release.
fn dependency() -> String {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .filter(|path| path.join("Cargo.toml").is_file());
    match checkout {
        Some(path) => format!(
            "{{ path = {:?}, features = [\"cli\"] }}",
            path.display().to_string()
        ),
        None => format!(
            "{{ version = \"{}\", features = [\"cli\"] }}",
            env!("CARGO_PKG_VERSION")
        ),
    }
}

fn files(template: Template, name: &str, module: &str) -> Vec<(String, String)> {
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\norchestra-workflow = {}\n\n[workspace]\n",
        dependency()
    );
    let (main, pipeline) = match template {
        Template::Hello => (
            include_str!("../../templates/hello/main.rs"),
            include_str!("../../templates/hello/pipeline.dot"),
        ),
        Template::Tools => (
            include_str!("../../templates/tools/main.rs"),
            include_str!("../../templates/tools/pipeline.dot"),
        ),
    };
    let fill = |text: &str| text.replace("PIPELINE", module);
    vec![
        ("Cargo.toml".to_owned(), manifest),
        (".gitignore".to_owned(), "/target\n/.orchestra\n".to_owned()),
        ("src/main.rs".to_owned(), fill(main)),
        (format!("pipelines/{module}.dot"), fill(pipeline)),
    ]
}
