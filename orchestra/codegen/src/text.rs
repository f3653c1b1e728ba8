//! The text of a pipeline: a file, or the tokens of an invocation.

use std::path::{Path, PathBuf};

use orchestra_graph::{Limits, ReadError, did_you_mean, normal_path, relative_path};
use proc_macro2::{Span, TokenStream};
use syn::LitStr;

use crate::code::Code;
use crate::inline::Inline;
use crate::reader::Reader;

/// The origin of a text, which determines the tokens that its diagnostics point at.
pub(crate) enum Origin {
    File(Span),
    Inline(Inline),
}

impl Origin {
    pub(crate) fn spans(&self, span: orchestra_graph::Span) -> (Span, Span) {
        match self {
            Origin::File(literal) => (*literal, *literal),
            Origin::Inline(inline) => inline.spans(span.start, span.end),
        }
    }
}

/// The text of a pipeline, ready to load.
pub(crate) struct PipelineText {
    /// The name for messages.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// The offset of `SOURCE` in the bytes.
    pub(crate) start: usize,
    pub(crate) origin: Origin,
    /// The code of the expression for `SOURCE`; `None` if the file cannot be included.
    pub(crate) source: Option<String>,
}

/// Reads the file of a path. Fails with a message and the name of the file.
pub(crate) fn file(literal: &LitStr, reader: &dyn Reader) -> Result<PipelineText, (String, String)> {
    let (path, name, beside) = location_of(literal, reader);
    let limit = Limits::default().bytes as u64;
    match reader.read(&path, limit) {
        Ok(bytes) => Ok(PipelineText {
            source: std::str::from_utf8(&bytes).is_ok().then(|| include(&name)),
            name,
            bytes,
            start: 0,
            origin: Origin::File(literal.span()),
        }),
        Err(error) => Err((unreadable(&name, &path, beside, &error, limit, reader), name)),
    }
}

/// Returns the path of the file that a literal names, its name relative to the package, and whether it is looked up
/// beside the source file.
pub(crate) fn location_of(literal: &LitStr, reader: &dyn Reader) -> (PathBuf, String, bool) {
    let manifest = reader.manifest();
    let written = literal.value();
    let beside = written.starts_with("./") || written.starts_with("../");
    let folder = match reader.source_file(literal.span()) {
        Some(file) if beside => file.parent().map_or_else(|| manifest.clone(), Path::to_path_buf),
        // An editor may not know the file; most packages have their sources in this folder.
        None if beside => manifest.join("src"),
        _ => manifest.clone(),
    };
    let path = normal_path(&folder.join(&written));
    let name = relative_path(&path, &manifest);
    (path, name, beside)
}

/// Returns the code that includes a file; the compiler of the program inserts the path of the package.
pub(crate) fn include(name: &str) -> String {
    let mut code = Code::default();
    code.push("::core::include_str!(::core::concat!(::core::env!(\"CARGO_MANIFEST_DIR\"),\"/\",");
    code.string(name).push("))");
    code.text
}

/// Returns the message for a file that cannot be read.
pub(crate) fn unreadable(
    name: &str,
    path: &Path,
    beside: bool,
    error: &ReadError,
    limit: u64,
    reader: &dyn Reader,
) -> String {
    match error {
        ReadError::Missing => {
            let from = if beside {
                "paths that begin with `./` or `../` are looked up beside this source file"
            } else {
                "paths are looked up in the package's folder, or beside this source file with `./`"
            };
            let wanted = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let folder: PathBuf = path.parent().map(Path::to_path_buf).unwrap_or_default();
            let files = reader.list(&folder);
            let near = wanted
                .as_deref()
                .and_then(|wanted| did_you_mean(wanted, files.iter().map(String::as_str)));
            let help = near.map_or_else(String::new, |near| format!("\n  = help: did you mean `{near}`?"));
            format!("no file `{name}` [file_not_found]\n  = note: {from}{help}")
        }
        ReadError::TooLong(length) => format!(
            "the file has {length} bytes; the limit is {limit} [size_limit]\n --> {name}:1:1\n  = help: split the \
             pipeline into sub-pipelines"
        ),
        ReadError::Other(words) => format!("`{name}` cannot be read: {words} [file_unreadable]"),
    }
}

/// Converts the tokens of an inline pipeline to text.
pub(crate) fn inline(tokens: TokenStream, reader: &dyn Reader) -> PipelineText {
    let location = tokens
        .clone()
        .into_iter()
        .next()
        .map_or_else(Span::call_site, |token| token.span());
    let name = match reader.source_file(location) {
        Some(file) => relative_path(&file, &reader.manifest()),
        None => "inline".to_owned(),
    };
    let inline = Inline::new(tokens);
    let mut source = Code::default();
    source.string(inline.text.get(inline.start..).unwrap_or_default());
    PipelineText {
        name,
        bytes: inline.text.clone().into_bytes(),
        start: inline.start,
        source: Some(source.text),
        origin: Origin::Inline(inline),
    }
}
