//! `pipeline!`: find the text, load it, report what is wrong, write the module.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use orchestra_graph::table::{End, NodeRow, Pipeline, Retry, Role, Rows, Settings};
use orchestra_graph::{
    Analysis, Limits, LoadOptions, Loaded, NodeIndex, ReadFault, Report, Severity, did_you_mean, load_bytes,
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
use crate::{config, docs, krate, module, names, needs, report};

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

/// Where faults of a text point in the program.
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

/// A text that was found, ready to load.
struct Found {
    /// The name shown in messages.
    name: String,
    bytes: Vec<u8>,
    /// Where `SOURCE` begins in the bytes.
    start: usize,
    origin: Origin,
    /// The code that gives `SOURCE`; `None` where the file cannot be included.
    source: Option<String>,
}

fn one(declared: Declared, reader: &dyn Reader) -> TokenStream {
    let mut faults = TokenStream::new();
    let mut missing = false;
    let found = match &declared.text {
        Text::File(literal) => match file(literal, declared.name.is_none(), reader) {
            Ok(found) => found,
            Err((message, name)) => {
                missing = true;
                faults.extend(report::error(&message, (literal.span(), literal.span())));
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
    faults.extend(unknown_codes(&declared.options));
    let children = Children(reader);
    let mut options = LoadOptions {
        allow: declared.options.allow.iter().map(Ident::to_string).collect(),
        deny: declared.options.deny.iter().map(Ident::to_string).collect(),
        children: Some(&children),
        ..LoadOptions::default()
    };
    // An inline text has as many lines before it as its file; they do not count towards the limit.
    options.limits.bytes += found.start;
    let loaded = load_bytes(&found.name, &found.bytes, &options);
    let family = Family::of(&loaded);
    let mut config = config::Checked::default();
    if !missing {
        let place = found.origin.spans(loaded.graph.span);
        faults.extend(reported(&loaded.report, place, |span| found.origin.spans(span)));
        // A child has no token of its own; its faults point at what names it in the program.
        for member in family.members() {
            let named = found.origin.spans(member.named);
            faults.extend(reported(&member.child.loaded.report, named, |_| named));
        }
        config = config::check(&declared, &loaded, &family, &found.origin, reader);
        faults.extend(std::mem::take(&mut config.faults));
    }
    let generated = generate(&declared, &found, &loaded, &family, &config);
    quote! { #faults #generated }
}

/// Errors for codes in `allow(..)` and `deny(..)` that no rule has.
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

/// Errors and warnings, the first ones of each in full and then their number, which stands at the given place.
pub(crate) fn reported(
    told: &Report,
    place: (Span, Span),
    spans: impl Fn(orchestra_graph::Span) -> (Span, Span),
) -> TokenStream {
    let mut tokens = TokenStream::new();
    let mut rest = [0usize; 2];
    let mut shown = [0usize; 2];
    for fault in &told.diagnostics {
        let kind = match fault.severity {
            Severity::Error => 0,
            Severity::Warning => 1,
            Severity::Info => continue,
        };
        if shown[kind] == report::MAX {
            rest[kind] += 1;
            continue;
        }
        shown[kind] += 1;
        let text = report::text(&told.source, fault);
        let place = spans(fault.span);
        tokens.extend(match kind {
            0 => report::error(&text, place),
            _ => report::warning(fault.code, &text, place.0),
        });
    }
    if rest[0] > 0 {
        let text = format!("{}: ... and {} more errors", told.source.name(), rest[0]);
        tokens.extend(report::error(&text, place));
    }
    if rest[1] > 0 {
        let text = format!("{}: ... and {} more warnings", told.source.name(), rest[1]);
        tokens.extend(report::warning("more_warnings", &text, place.0));
    }
    tokens
}

/// Reads the file of a path; the fault is a message and the name of the file.
fn file(literal: &LitStr, short: bool, reader: &dyn Reader) -> Result<Found, (String, String)> {
    let (path, name, beside) = place_of(literal, short, reader);
    let limit = Limits::default().bytes as u64;
    match reader.read(&path, limit) {
        Ok(bytes) => Ok(Found {
            source: std::str::from_utf8(&bytes).is_ok().then(|| include(&name)),
            name,
            bytes,
            start: 0,
            origin: Origin::File(literal.span()),
        }),
        Err(fault) => Err((unreadable(&name, &path, beside, &fault, limit, reader), name)),
    }
}

/// The path of a file that a literal names, its name as seen from the package, and whether it is looked up beside the
/// source file.
pub(crate) fn place_of(literal: &LitStr, short: bool, reader: &dyn Reader) -> (PathBuf, String, bool) {
    let manifest = reader.manifest();
    let written = literal.value();
    let beside = written.starts_with("./") || written.starts_with("../");
    let folder = match reader.source_file(literal.span()) {
        Some(file) if beside && !short => file.parent().map_or_else(|| manifest.clone(), Path::to_path_buf),
        // An editor may not know the file; the sources of most packages lie here.
        None if beside && !short => manifest.join("src"),
        _ => manifest.clone(),
    };
    let path = tidy(&folder.join(&written));
    let name = relative(&path, &manifest);
    (path, name, beside)
}

/// The code that includes a file; the path of the package is filled in by the compiler of the program.
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
    fault: &ReadFault,
    limit: u64,
    reader: &dyn Reader,
) -> String {
    match fault {
        ReadFault::Missing => {
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
        ReadFault::TooLong(length) => format!(
            "the file has {length} bytes; the limit is {limit} [size_limit]\n --> {name}:1:1\n  = help: split the \
             pipeline into sub-pipelines"
        ),
        ReadFault::Other(words) => format!("`{name}` cannot be read: {words} [file_unreadable]"),
    }
}

fn inline(tokens: TokenStream, reader: &dyn Reader) -> Found {
    let place = tokens
        .clone()
        .into_iter()
        .next()
        .map_or_else(Span::call_site, |token| token.span());
    let name = match reader.source_file(place) {
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

/// Writes the module of what was understood, even where that is not all.
fn generate(
    declared: &Declared,
    found: &Found,
    loaded: &Loaded,
    family: &Family<'_>,
    config: &config::Checked,
) -> TokenStream {
    let analysis = Analysis::new(&loaded.graph, &loaded.source);
    let sound = !loaded.report.has_errors();
    let understood = || Pipeline::of(&analysis).unwrap_or_else(|| sketch(&analysis));
    let pipeline = loaded.pipeline().unwrap_or_else(understood);
    let written = module::write(&module::Module {
        pipeline: &pipeline,
        source: found.source.clone().unwrap_or_else(|| "\"\"".to_owned()),
        needs: needs::write(&pipeline, &analysis, found.start, &family.needs()),
        tables: family.tables(loaded, "super::__children::"),
        children: family.write(),
        config: config.sources.clone(),
    });
    let place = match &declared.text {
        Text::File(literal) => literal.span(),
        Text::Inline(_) => found.origin.spans(loaded.graph.span).0,
    };
    let Ok(body) = TokenStream::from_str(&written) else {
        return report::bug("the generated module is not Rust", place);
    };
    let name = match &declared.name {
        Some(name) => name.clone(),
        None => Ident::new(&module_name(&loaded.graph.name, &found.name), place),
    };
    let visibility = match &declared.visibility {
        Some(visibility) => visibility.clone(),
        None => Visibility::Public(syn::Token![pub](place)),
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

/// Whether a pipeline needs handlers that are not built in.
fn uses_custom(pipeline: &Pipeline) -> bool {
    pipeline.kinds.iter().any(|kind| needs::is_custom(kind))
}

/// Binds the module to its handlers and has the two compared, or to the built-in ones where these are enough.
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

/// The constant that compares needs with handlers; its error points at the handlers.
pub(crate) fn verify(krate: &TokenStream, module: &TokenStream, handlers: &Type) -> TokenStream {
    let (start, end) = krate::ends(handlers);
    let (start, end) = (krate::at(start), krate::at(end));
    let (first, last) = (
        krate::located(krate.clone(), start),
        krate::located(krate.clone(), end),
    );
    let kinds = quote_spanned!(end=> &<#handlers as #last::__private::HandlerSet>::KINDS);
    let mut call = quote_spanned!(start=> #first::__private::verify);
    call.extend(quote_spanned!(end=> (&#module::NEEDS, #kinds)));
    quote! {
        #[allow(long_running_const_eval)]
        const _: () = #call;
    }
}

/// The name of the module of the short form: after the graph, else after the file.
fn module_name(graph: &str, file: &str) -> String {
    if graph.trim().is_empty() {
        let stem = Path::new(file).file_stem().unwrap_or_default();
        return names::snake(&stem.to_string_lossy());
    }
    names::snake(graph)
}

/// A table with the nodes of a graph that has none, so that code which names them still builds.
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
