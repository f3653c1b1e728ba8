//! The complete texts of the compiler, as a terminal shows them, without what differs between machines and between
//! versions of the project that say the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{Package, root};

impl Package {
    /// Checks programs, given by their paths in the folder of these tests, and returns the text for each.
    pub fn check_programs(&self, programs: &[String]) -> BTreeMap<String, String> {
        let mut manifest = fs::read_to_string(self.path("Cargo.toml")).expect("the package has a manifest");
        for program in programs {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(program);
            self.write(program, fs::read(source).expect("the program can be read"));
            let name = program.trim_end_matches(".rs").replace('/', "-");
            manifest.push_str(&format!("\n[[bin]]\nname = {name:?}\npath = {program:?}\n"));
        }
        self.write("Cargo.toml", manifest);
        let output = self.cargo(&["check", "--bins", "--keep-going"]);
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(value) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let source = Path::new(value["target"]["src_path"].as_str().unwrap_or_default());
            let (Some(rendered), Ok(program)) = (
                value["message"]["rendered"].as_str(),
                source.strip_prefix(self.path("")),
            ) else {
                continue;
            };
            let level = value["message"]["level"].as_str();
            if level != Some("failure-note") && !rendered.starts_with("error: aborting due to") {
                let text = texts.entry(program.to_string_lossy().into_owned()).or_default();
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(&normalized(rendered));
            }
        }
        texts
    }
}

/// Names the folders that differ between machines, and leaves out the lines of other files than the program, and how many
/// digits they have.
fn normalized(rendered: &str) -> String {
    let rendered = rendered.replace(&root().display().to_string(), "$WORKSPACE");
    let lines: Vec<&str> = rendered.trim_end().lines().collect();
    let is_arrow =
        |line: &str| line.trim_start().starts_with("--> ") || line.trim_start().starts_with("::: ");
    let indent = |line: &str| line.len() - line.trim_start().len();
    let found = lines
        .iter()
        .find(|line| is_arrow(line))
        .map_or(0, |line| indent(line));
    // The numbers of the lines of the program, by which the text is indented.
    let mut own = true;
    let mut width = 1;
    for line in &lines {
        if is_arrow(line) {
            own = is_own(line);
        } else if is_suggestion(line) {
            own = true;
        } else if let (true, Some((number, _))) = (own, numbered(line)) {
            width = width.max(number.len());
        }
    }
    let mut text = String::new();
    let mut own = true;
    let mut in_library = false;
    for line in lines {
        if line.contains("the full name for the type has been written to") {
            continue;
        }
        if is_arrow(line) {
            own = is_own(line);
            in_library = line.contains("/library/");
            let place = line.trim_start();
            let place = if own {
                place.to_owned()
            } else {
                without_position(place)
            };
            text.push_str(&format!("{:width$}{place}\n", ""));
        } else if let Some((_, source)) = numbered(line).filter(|(_, rest)| in_library && *rest != "|") {
            // Whether the compiler shows the standard library depends on whether its sources are installed. Without them,
            // the label is a note.
            if let Some(label) = source.trim_start_matches(['|', ' ']).strip_prefix('^') {
                let label = label.trim_start_matches('^').trim_start();
                text.push_str(&format!("{:width$} = note: {label}\n", ""));
            }
        } else if let Some((number, rest)) = numbered(line) {
            let number = if own { number } else { "" };
            text.push_str(&format!("{number:width$} {rest}\n"));
        } else {
            own |= is_suggestion(line);
            in_library &= !is_suggestion(line);
            let surplus = indent(line).min(found.saturating_sub(width));
            let line = &line[surplus..];
            match line
                .trim_start()
                .strip_prefix("and ")
                .and_then(|rest| rest.strip_suffix(" others"))
            {
                Some(count) if count.parse::<u32>().is_ok() => {
                    text.push_str(&line.replace(count, "$N"));
                    text.push('\n');
                }
                _ => text.push_str(&format!("{line}\n")),
            }
        }
    }
    text
}

/// A suggestion without an arrow shows the program.
fn is_suggestion(line: &str) -> bool {
    line.starts_with("help: ")
}

fn is_own(arrow: &str) -> bool {
    arrow.trim_start()[4..].starts_with("ui/")
}

/// Splits a line of source into its number, which may be missing, and what follows from the bar on.
fn numbered(line: &str) -> Option<(&str, &str)> {
    let bar = line.find(|sign: char| !sign.is_ascii_digit() && sign != ' ')?;
    let number = line[..bar].trim();
    (line[bar..].starts_with('|') && !number.contains(' ')).then(|| (number, &line[bar..]))
}

/// An arrow to a file outside of the program, without line and column.
fn without_position(place: &str) -> String {
    let path = place.trim_end_matches(|sign: char| sign.is_ascii_digit() || sign == ':');
    match path.split_once("/library/") {
        Some((_, path)) => format!("{}$RUST/{path}", &place[..4]),
        None => path.to_owned(),
    }
}
