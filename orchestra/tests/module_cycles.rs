//! No import cycle remains between the modules of a crate (see ARCHITECTURE.md).
//!
//! A module depends on the module that defines an item that it imports or names. Declarations of modules and re-exports
//! are no dependencies: they are followed to the defining module. Calls of methods need no import, so they do not count.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

type Name = Vec<String>;

/// A module of a crate.
#[derive(Default)]
struct Module {
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// The paths of two or more segments in the code of the module.
    paths: BTreeSet<Name>,
    children: BTreeSet<String>,
    /// The module that stands for the file; inline modules belong to the file that contains them.
    file: Name,
}

struct Import {
    path: Name,
    alias: String,
    is_public: bool,
}

#[derive(Default)]
struct Crate {
    modules: BTreeMap<Name, Module>,
}

/// Returns the next path of the tokens from an index, and the index after it.
fn path_at(tokens: &[TokenTree], at: usize) -> (Name, usize) {
    let mut path = Name::new();
    let mut at = at;
    while let Some(TokenTree::Ident(ident)) = tokens.get(at) {
        path.push(ident.to_string());
        if !(is_punct(tokens, at + 1, ':') && is_punct(tokens, at + 2, ':')) {
            return (path, at + 1);
        }
        at += 3;
    }
    (path, at)
}

fn is_punct(tokens: &[TokenTree], at: usize, wanted: char) -> bool {
    matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

fn ident(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

/// Adds the imports of a `use` tree.
fn import(tokens: &[TokenTree], prefix: &[String], is_public: bool, imports: &mut Vec<Import>) {
    for tree in tokens.split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',')) {
        let start = usize::from(is_punct(tree, 0, ':')) * 2;
        let (mut path, next) = path_at(tree, start);
        path.splice(0..0, prefix.iter().cloned());
        match tree.get(next) {
            Some(TokenTree::Group(group)) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                import(&inner, &path, is_public, imports);
            }
            Some(TokenTree::Punct(punct)) if punct.as_char() == '*' => imports.push(Import {
                path,
                alias: "*".to_owned(),
                is_public,
            }),
            _ => {
                if path.last().is_some_and(|last| last == "self") {
                    path.pop();
                }
                let renamed = ident(tree, next).filter(|word| word == "as");
                let alias = match renamed {
                    Some(_) => ident(tree, next + 1),
                    None => path.last().cloned(),
                };
                if let Some(alias) = alias {
                    imports.push(Import {
                        path,
                        alias,
                        is_public,
                    });
                }
            }
        }
    }
}

/// Returns whether an attribute limits an item to tests.
fn is_test_only(attribute: &TokenTree) -> bool {
    let text = attribute.to_string().replace(' ', "");
    text.starts_with("[cfg(test)") || text.starts_with("[cfg(all(test")
}

impl Crate {
    fn read(root: &Path) -> Crate {
        let mut found = Crate::default();
        let lib = root.join("lib.rs");
        let file = if lib.exists() { lib } else { root.join("main.rs") };
        found.read_file(&file, root, Name::new());
        found
    }

    /// Reads a module and its child modules, whose files are in `folder`.
    fn read_file(&mut self, file: &Path, folder: &Path, name: Name) {
        let text = fs::read_to_string(file).unwrap();
        let stream: TokenStream = text
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        self.modules
            .entry(name.clone())
            .or_default()
            .file
            .clone_from(&name);
        self.scan(&tokens, &name, &name, Some(folder));
    }

    /// Scans the tokens of a module. `folder` is `None` inside of items, where no items of the module are defined.
    fn scan(&mut self, tokens: &[TokenTree], name: &Name, file: &Name, folder: Option<&Path>) {
        let mut at = 0;
        let mut path_attribute = None;
        while at < tokens.len() {
            if is_punct(tokens, at, '#')
                && let Some(attribute @ TokenTree::Group(group)) = tokens.get(at + 1)
                && group.delimiter() == Delimiter::Bracket
            {
                at += 2;
                if is_test_only(attribute) {
                    at = end_of_item(tokens, at);
                } else if let Some(given) = attribute.to_string().strip_prefix("[path = \"") {
                    path_attribute = given.strip_suffix("\"]").map(str::to_owned);
                }
                continue;
            }
            match (ident(tokens, at).as_deref(), &tokens[at]) {
                (Some("mod"), _) if folder.is_some() => {
                    let child = ident(tokens, at + 1).unwrap();
                    self.child(
                        tokens.get(at + 2),
                        &child,
                        name,
                        file,
                        folder,
                        path_attribute.take(),
                    );
                    at += 3;
                }
                // `use<'a>` in a return type is no import.
                (Some("use"), _) if !is_punct(tokens, at + 1, '<') => {
                    let is_end = |end: &usize| is_punct(tokens, *end, ';');
                    let end = (at..tokens.len()).find(is_end).unwrap_or(tokens.len());
                    let is_public = at > 0
                        && (ident(tokens, at - 1).as_deref() == Some("pub")
                            || at > 1 && ident(tokens, at - 2).as_deref() == Some("pub"));
                    let imports = &mut self.modules.get_mut(name).unwrap().imports;
                    import(&tokens[at + 1..end], &[], is_public, imports);
                    at = end + 1;
                }
                (Some("fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union"), _) => {
                    if let (Some(item), Some(_)) = (ident(tokens, at + 1), folder) {
                        self.modules.get_mut(name).unwrap().items.insert(item);
                    }
                    at += 1;
                }
                (Some("macro_rules"), _) => {
                    if let Some(item) = ident(tokens, at + 2) {
                        self.modules.get_mut(name).unwrap().items.insert(item);
                    }
                    at += 3;
                }
                (Some(_), _) => {
                    let (path, next) = path_at(tokens, at);
                    if path.len() > 1 {
                        self.modules.get_mut(name).unwrap().paths.insert(path);
                    }
                    at = next;
                }
                (None, TokenTree::Group(group)) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    self.scan(&inner, name, file, None);
                    at += 1;
                }
                (None, _) => at += 1,
            }
        }
    }

    /// Reads a child module, which is a file or inline.
    fn child(
        &mut self,
        body: Option<&TokenTree>,
        child: &str,
        name: &Name,
        file: &Name,
        folder: Option<&Path>,
        given: Option<String>,
    ) {
        let Some(folder) = folder else { return };
        let mut path = name.clone();
        path.push(child.to_owned());
        self.modules
            .get_mut(name)
            .unwrap()
            .children
            .insert(child.to_owned());
        let inside = folder.join(child);
        if let Some(TokenTree::Group(group)) = body {
            self.modules
                .entry(path.clone())
                .or_default()
                .file
                .clone_from(file);
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            return self.scan(&inner, &path, file, Some(&inside));
        }
        let plain = folder.join(format!("{child}.rs"));
        let source = match given {
            Some(given) => folder.join(given),
            None if plain.exists() => plain,
            None => inside.join("mod.rs"),
        };
        // A file of another folder has its child modules there.
        let inside = if source.ends_with("mod.rs") {
            source.parent().map_or(inside, Path::to_path_buf)
        } else {
            inside
        };
        self.read_file(&source, &inside, path);
    }

    /// Returns a path of a module from the root of the crate. Returns `None` for items of other crates.
    fn absolute(&self, name: &Name, path: &[String]) -> Option<Name> {
        let module = &self.modules[name];
        let first = path.first()?;
        let rest = &path[1..];
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([name, rest].concat()),
            "super" => {
                let (_, parent) = name.split_last()?;
                let parent = parent.to_vec();
                match rest.first().map(String::as_str) {
                    Some("super") => self.absolute(&parent, rest),
                    _ => Some([&parent, rest].concat()),
                }
            }
            _ if module.children.contains(first) => Some([name.as_slice(), path].concat()),
            _ => {
                let import = module.imports.iter().find(|import| import.alias == *first)?;
                if import.path.first() == Some(first) {
                    return None;
                }
                let head = self.absolute(name, &import.path)?;
                Some([&head, rest].concat())
            }
        }
    }

    /// Returns the module that defines the item of a path. Returns `None` for a module or an item of another crate.
    fn defining(&self, path: &[String], depth: u32) -> Option<Name> {
        let known = (0..=path.len())
            .rev()
            .find(|end| self.modules.contains_key(&path[..*end]))?;
        let module = &path[..known];
        let item = path.get(known)?;
        let contents = &self.modules[module];
        if contents.items.contains(item) || depth == 0 {
            return Some(module.to_vec());
        }
        for import in &contents.imports {
            if import.alias == *item {
                let target = self.absolute(&module.to_vec(), &import.path)?;
                return self.defining(&target, depth - 1);
            }
        }
        let globs = contents.imports.iter().filter(|import| import.alias == "*");
        for glob in globs {
            let Some(target) = self.absolute(&module.to_vec(), &glob.path) else {
                continue;
            };
            let mut inside = target.clone();
            inside.push(item.clone());
            let has_item = |name: &Name| {
                let module = self.modules.get(name);
                module.is_some_and(|module| module.items.contains(item))
            };
            if let Some(found) = self.defining(&inside, depth - 1).filter(has_item) {
                return Some(found);
            }
        }
        Some(module.to_vec())
    }

    /// Returns the files that each file depends on.
    fn dependencies(&self) -> HashMap<Name, BTreeSet<Name>> {
        let mut edges: HashMap<Name, BTreeSet<Name>> = HashMap::new();
        for (name, module) in &self.modules {
            let imports = module.imports.iter().filter(|import| !import.is_public);
            let named = imports.map(|import| &import.path).chain(&module.paths);
            for path in named {
                let Some(target) = self.absolute(name, path).and_then(|path| self.defining(&path, 8)) else {
                    continue;
                };
                let target = &self.modules[&target].file;
                if *target != module.file {
                    edges
                        .entry(module.file.clone())
                        .or_default()
                        .insert(target.clone());
                }
            }
        }
        edges
    }
}

/// Returns the index after the item that begins at an index: after its block, or its semicolon.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let is_end = |at: &usize| match &tokens[*at] {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => token.to_string() == ";",
    };
    (at..tokens.len())
        .find(is_end)
        .map_or(tokens.len(), |end| end + 1)
}

/// Returns the modules that can be reached from a module.
fn reachable(edges: &HashMap<Name, BTreeSet<Name>>, from: &Name) -> BTreeSet<Name> {
    let mut found = BTreeSet::new();
    let mut ahead = vec![from];
    while let Some(next) = ahead.pop() {
        for target in edges.get(next).into_iter().flatten() {
            if found.insert(target.clone()) {
                ahead.push(target);
            }
        }
    }
    found
}

/// Returns the modules of a crate that are in a cycle, with their dependencies in the cycle.
fn cycles(sources: &Path) -> BTreeMap<String, Vec<String>> {
    let edges = Crate::read(sources).dependencies();
    let reach: HashMap<&Name, BTreeSet<Name>> =
        edges.keys().map(|name| (name, reachable(&edges, name))).collect();
    let leads = |from: &Name, to: &Name| reach.get(from).is_some_and(|reach| reach.contains(to));
    let mut found = BTreeMap::new();
    for (name, targets) in &edges {
        let back: Vec<String> = targets
            .iter()
            .filter(|target| leads(target, name))
            .map(|target| target.join("::"))
            .collect();
        if !back.is_empty() {
            found.insert(name.join("::"), back);
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the folders of the crates of the product.
fn crates() -> Vec<String> {
    let mut names = vec!["orchestra".to_owned(), "orchestra-macros".to_owned()];
    for entry in fs::read_dir(root().join("orchestra")).unwrap() {
        let entry = entry.unwrap();
        if entry.path().join("Cargo.toml").exists() {
            names.push(format!("orchestra/{}", entry.file_name().to_string_lossy()));
        }
    }
    names.sort();
    names
}

#[test]
fn no_modules_import_each_other_in_a_cycle() {
    let mut text = String::new();
    for name in crates() {
        for (module, targets) in cycles(&root().join(&name).join("src")) {
            text.push_str(&format!(
                "{name}: `{module}` uses {}, which lead back to it\n",
                targets.join(", ")
            ));
        }
    }
    assert!(text.is_empty(), "modules import each other in cycles:\n{text}");
}

#[test]
fn a_cycle_through_a_re_export_is_found() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
    write(
        "lib.rs",
        "mod a; mod b; mod c; pub use b::Second; #[cfg(test)] mod gone;",
    );
    write(
        "a.rs",
        "use crate::Second; pub struct First(Second); fn f() { crate::c::third() }",
    );
    write(
        "b.rs",
        "pub struct Second; #[cfg(test)] mod tests { use crate::c::third; } fn g() { vec![super::a::First] }",
    );
    write("c.rs", "pub fn third() {}");
    let found = cycles(place.path());
    assert_eq!(found.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(found["a"], ["b"]);
    write("b.rs", "pub struct Second; use crate::c::third;");
    assert!(cycles(place.path()).is_empty());
}
