//! `pipeline!`: finding and loading the text, reporting its diagnostics, and generating the module.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use orchestra_graph::table::{End, NodeRow, Pipeline, Retry, Role, Rows, Settings};
use orchestra_graph::{
    Analysis, Limits, LoadOptions, Loaded, NodeIndex, ReadError, Report, Severity, did_you_mean, load_bytes,
    rules,
};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{LitStr, Type, Visibility};

use crate::children::Family;
use crate::code::Code;
use crate::inline::Inline;
use crate::invocation::{Declared, Invocation, Options, Text};
use crate::reader::{Children, Reader, relative, tidy};
use crate::{config, docs, krate, module, names, report, requirements};

/// Expands an invocation of `pipeline!`.
pub(crate) fn expand(input: TokenStream, reader: &dyn Reader) -> TokenStream {
    match syn::parse2::<Invocation>(input) {
        Ok(invocation) => invocation
            .pipelines
            .into_iter()
            .map(|declared| one(declared, reader))
            .collect(),
        Err(error) => error.to_compile_error(),
    }
}

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
struct Found {
    /// The name for messages.
    name: String,
    bytes: Vec<u8>,
    /// The offset of `SOURCE` in the bytes.
    start: usize,
    origin: Origin,
    /// The code of the expression for `SOURCE`; `None` if the file cannot be included.
    source: Option<String>,
}

fn one(declared: Declared, reader: &dyn Reader) -> TokenStream {
    let mut diagnostics = TokenStream::new();
    let mut missing = false;
    let found = match &declared.text {
        Text::File(literal) => match file(literal, declared.name.is_none(), reader) {
            Ok(found) => found,
            Err((message, name)) => {
                missing = true;
                diagnostics.extend(report::error(&message, (literal.span(), literal.span())));
                Found {
                    name,
                    bytes: Vec::new(),
                    start: 0,
                    origin: Origin::File(literal.span()),
                    source: None,
                }
            }
        },
        Text::Inline(tokens) => inline(tokens.clone(), reader),
    };
    diagnostics.extend(unknown_codes(&declared.options));
    let children = Children(reader);
    let mut options = LoadOptions {
        allow: declared.options.allow.iter().map(Ident::to_string).collect(),
        deny: declared.options.deny.iter().map(Ident::to_string).collect(),
        children: Some(&children),
        ..LoadOptions::default()
    };
    // An inline text is padded with the lines above it in its file; they do not count towards the limit.
    options.limits.bytes += found.start;
    let loaded = load_bytes(&found.name, &found.bytes, &options);
    let family = Family::new(&loaded);
    let mut config = config::Checked::default();
    if !missing {
        let location = found.origin.spans(loaded.graph.span);
        diagnostics.extend(reported(&loaded.report, location, |span| {
            found.origin.spans(span)
        }));
        // A child has no tokens; its diagnostics point at the attribute that names it.
        for member in family.members() {
            let named = found.origin.spans(member.named);
            diagnostics.extend(reported(&member.child.loaded.report, named, |_| named));
        }
        config = config::check(&declared, &loaded, &family, &found.origin, reader);
        diagnostics.extend(std::mem::take(&mut config.diagnostics));
    }
    let generated = generate(&declared, &found, &loaded, &family, &config);
    quote! { #diagnostics #generated }
}

/// Returns errors for unknown codes in `allow(..)` and `deny(..)`.
fn unknown_codes(options: &Options) -> TokenStream {
    let known = || rules().iter().map(|page| page.code);
    let codes = options.allow.iter().map(|code| (code, false));
    let codes = codes.chain(options.deny.iter().map(|code| (code, true)));
    codes
        .filter_map(|(code, denied)| {
            let name = code.to_string();
            if known().any(|known| known == name) || (denied && name == "warnings") {
                return None;
            }
            let near = did_you_mean(&name, known()).map(|near| format!("; did you mean `{near}`?"));
            let text = format!("no rule has the code `{name}`{}", near.unwrap_or_default());
            Some(report::error(&text, (code.span(), code.span())))
        })
        .collect()
}

/// Returns the first errors and warnings of a report in full. Reports the number of the remaining ones at `place`.
pub(crate) fn reported(
    told: &Report,
    location: (Span, Span),
    spans: impl Fn(orchestra_graph::Span) -> (Span, Span),
) -> TokenStream {
    let mut tokens = TokenStream::new();
    let mut rest = [0usize; 2];
    let mut shown = [0usize; 2];
    for diagnostic in &told.diagnostics {
        let kind = match diagnostic.severity {
            Severity::Error => 0,
            Severity::Warning => 1,
            Severity::Info => continue,
        };
        if shown[kind] == report::MAX {
            rest[kind] += 1;
            continue;
        }
        shown[kind] += 1;
        let text = report::text(&told.source, diagnostic);
        let location = spans(diagnostic.span);
        tokens.extend(match kind {
            0 => report::error(&text, location),
            _ => report::warning(diagnostic.code, &text, location.0),
        });
    }
    if rest[0] > 0 {
        let text = format!("{}: ... and {} more errors", told.source.name(), rest[0]);
        tokens.extend(report::error(&text, location));
    }
    if rest[1] > 0 {
        let text = format!("{}: ... and {} more warnings", told.source.name(), rest[1]);
        tokens.extend(report::warning("more_warnings", &text, location.0));
    }
    tokens
}

/// Reads the file of a path. Fails with a message and the name of the file.
fn file(literal: &LitStr, short: bool, reader: &dyn Reader) -> Result<Found, (String, String)> {
    let (path, name, beside) = location_of(literal, short, reader);
    let limit = Limits::default().bytes as u64;
    match reader.read(&path, limit) {
        Ok(bytes) => Ok(Found {
            source: std::str::from_utf8(&bytes).is_ok().then(|| include(&name)),
            name,
            bytes,
            start: 0,
            origin: Origin::File(literal.span()),
        }),
        Err(diagnostic) => Err((unreadable(&name, &path, beside, &diagnostic, limit, reader), name)),
    }
}

/// Returns the path of the file that a literal names, its name relative to the package, and whether it is looked up
/// beside the source file.
pub(crate) fn location_of(literal: &LitStr, short: bool, reader: &dyn Reader) -> (PathBuf, String, bool) {
    let manifest = reader.manifest();
    let written = literal.value();
    let beside = written.starts_with("./") || written.starts_with("../");
    let folder = match reader.source_file(literal.span()) {
        Some(file) if beside && !short => file.parent().map_or_else(|| manifest.clone(), Path::to_path_buf),
        // An editor may not know the file; most packages have their sources in this folder.
        None if beside && !short => manifest.join("src"),
        _ => manifest.clone(),
    };
    let path = tidy(&folder.join(&written));
    let name = relative(&path, &manifest);
    (path, name, beside)
}

/// Returns the code that includes a file; the compiler of the program inserts the path of the package.
pub(crate) fn include(name: &str) -> String {
    let mut code = Code::default();
    code.push("::core::include_str!(::core::concat!(::core::env!(\"CARGO_MANIFEST_DIR\"),\"/\",");
    code.string(name).push("))");
    code.text
}

pub(crate) fn unreadable(
    name: &str,
    path: &Path,
    beside: bool,
    diagnostic: &ReadError,
    limit: u64,
    reader: &dyn Reader,
) -> String {
    match diagnostic {
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

fn inline(tokens: TokenStream, reader: &dyn Reader) -> Found {
    let location = tokens
        .clone()
        .into_iter()
        .next()
        .map_or_else(Span::call_site, |token| token.span());
    let name = match reader.source_file(location) {
        Some(file) => relative(&file, &reader.manifest()),
        None => "inline".to_owned(),
    };
    let inline = Inline::new(tokens);
    let mut source = Code::default();
    source.string(inline.text.get(inline.start..).unwrap_or_default());
    Found {
        name,
        bytes: inline.text.clone().into_bytes(),
        start: inline.start,
        source: Some(source.text),
        origin: Origin::Inline(inline),
    }
}

/// Generates the module from everything that was understood, even if the pipeline has errors.
fn generate(
    declared: &Declared,
    found: &Found,
    loaded: &Loaded,
    family: &Family<'_>,
    config: &config::Checked,
) -> TokenStream {
    let analysis = Analysis::new(&loaded.graph, &loaded.source);
    let sound = !loaded.report.has_errors();
    let understood = || Pipeline::from_analysis(&analysis).unwrap_or_else(|| sketch(&analysis));
    let pipeline = loaded.pipeline().unwrap_or_else(understood);
    let written = module::write(&module::Module {
        pipeline: &pipeline,
        source: found.source.clone().unwrap_or_else(|| "\"\"".to_owned()),
        requirements: requirements::write(&pipeline, &analysis, found.start, &family.requirements()),
        tables: family.tables(loaded, "super::__children::"),
        children: family.write(),
        config: config.sources.clone(),
    });
    let location = match &declared.text {
        Text::File(literal) => literal.span(),
        Text::Inline(_) => found.origin.spans(loaded.graph.span).0,
    };
    let Ok(body) = TokenStream::from_str(&written) else {
        return report::bug("the generated module is not Rust", location);
    };
    let name = match &declared.name {
        Some(name) => name.clone(),
        None => Ident::new(&module_name(&loaded.graph.name, &found.name), location),
    };
    let visibility = match &declared.visibility {
        Some(visibility) => visibility.clone(),
        None => Visibility::Public(syn::Token![pub](location)),
    };
    let attributes = &declared.attributes;
    let diagram = sound.then(|| docs::diagram(&loaded.graph)).flatten();
    let docs = docs::of(&pipeline, diagram);
    let inside = krate::inside_module(declared.options.krate.as_ref());
    let custom = uses_custom(&pipeline) || family.pipelines().any(uses_custom);
    let binding = binding(declared, &name, custom, sound);
    let tools = &config.tools;
    quote! {
        #(#attributes)*
        #[doc = #docs]
        #[allow(dead_code, missing_docs, non_camel_case_types, unreachable_pub, unused_imports, clippy::all, rustdoc::all)]
        #visibility mod #name {
            use #inside as __orchestra;
            #body
        }
        #binding
        #tools
    }
}

/// Returns whether a pipeline needs handlers that are not built in.
fn uses_custom(pipeline: &Pipeline) -> bool {
    pipeline.kinds.iter().any(|kind| requirements::is_custom(kind))
}

/// Binds the module to its handlers and generates the check of its requirements. Without declared handlers, binds it to
/// the built-in ones if they suffice.
fn binding(declared: &Declared, name: &Ident, custom: bool, sound: bool) -> TokenStream {
    let krate = krate::path(declared.options.krate.as_ref());
    let bound = |handlers: TokenStream| {
        quote! {
            impl #krate::__private::Bound<#handlers> for #name::Mark {}
        }
    };
    match &declared.options.handlers {
        Some(handlers) => {
            let check = sound.then(|| verify(&krate, &quote!(#name), handlers));
            let bound = bound(handlers.to_token_stream());
            quote! { #bound #check }
        }
        None if !custom => bound(quote!(#krate::__private::Builtin)),
        None => TokenStream::new(),
    }
}

/// Returns the constant that compares the requirements with the handlers; its error points at the handlers.
pub(crate) fn verify(krate: &TokenStream, module: &TokenStream, handlers: &Type) -> TokenStream {
    let (start, end) = krate::ends(handlers);
    let (start, end) = (krate::at(start), krate::at(end));
    let (first, last) = (
        krate::located(krate.clone(), start),
        krate::located(krate.clone(), end),
    );
    let kinds = quote_spanned!(end=> &<#handlers as #last::__private::HandlerSet>::KINDS);
    let mut call = quote_spanned!(start=> #first::__private::verify);
    call.extend(quote_spanned!(end=> (&#module::REQUIREMENTS, #kinds)));
    quote! {
        #[allow(long_running_const_eval)]
        const _: () = #call;
    }
}

/// Returns the name of the module in the short form: derived from the graph, else from the file.
fn module_name(graph: &str, file: &str) -> String {
    if graph.trim().is_empty() {
        let stem = Path::new(file).file_stem().unwrap_or_default();
        return names::snake(&stem.to_string_lossy());
    }
    names::snake(graph)
}

/// Returns a table with the nodes of an invalid graph, so that code that names them still compiles.
fn sketch(analysis: &Analysis<'_>) -> Pipeline {
    let graph = analysis.graph();
    let source = analysis.source();
    let kinds: Vec<_> = graph
        .indexed_nodes()
        .map(|(at, _)| analysis.kind(at).to_owned().into())
        .collect();
    let nodes: Vec<NodeRow> = graph
        .nodes
        .iter()
        .enumerate()
        .map(|(at, node)| NodeRow {
            id: node.id.to_string().into(),
            kind: at as u32,
            role: Role::Work,
            end: End::Unstated,
            on_failure_route: false,
            edges: Rows::default(),
            attributes: Rows::default(),
            retry_target: None,
            fallback_retry_target: None,
            max_visits: None,
            goal_gate: false,
            goal_condition: None,
            allow_partial: false,
            retry: Retry::ONCE,
            fan_out: None,
            child: None,
            position: source.position(node.span.start),
        })
        .collect();
    Pipeline {
        name: graph.name.clone().into(),
        file: source.name().to_owned().into(),
        source: source.text().to_owned().into(),
        settings: Settings::DEFAULT,
        start: NodeIndex(0),
        exit: NodeIndex(0),
        kinds: kinds.into(),
        nodes: nodes.into(),
        edges: Vec::new().into(),
        conditions: Vec::new().into(),
        attributes: Vec::new().into(),
        graph_attributes: Rows::default(),
        children: Vec::new().into(),
    }
}
