//! The syntax between the parentheses of `pipeline!`.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, LitStr, Path, Token, Type, Visibility, token};

use crate::paths::Paths;

/// An invocation of `pipeline!`.
pub(crate) struct Invocation {
    pub(crate) pipelines: Vec<Declaration>,
}

/// One pipeline of an invocation.
pub(crate) struct Declaration {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Option<Visibility>,
    /// The name of the module; the short form takes it from the graph.
    pub(crate) name: Option<Ident>,
    pub(crate) text: Text,
    pub(crate) options: Options,
}

/// The source of the text of a pipeline.
pub(crate) enum Text {
    File(LitStr),
    Inline(TokenStream),
}

/// The options of a pipeline.
#[derive(Clone, Default)]
pub(crate) struct Options {
    pub(crate) krate: Option<Path>,
    pub(crate) handlers: Option<Type>,
    pub(crate) allow: Vec<Ident>,
    pub(crate) deny: Vec<Ident>,
    /// The path of the project configuration.
    pub(crate) config: Option<LitStr>,
    /// The tools that the program provides.
    pub(crate) tools: Option<Type>,
    /// The word `lock`, if the pipeline is compared with its locked versions.
    pub(crate) lock: Option<Ident>,
    /// The tests to generate.
    pub(crate) paths: Option<Paths>,
}

const FORMS: &str = "expected `pub mod NAME = \"./file.dot\";`, `\"path/file.dot\"`, or \
                     `pub mod NAME = digraph NAME { .. }`";

impl Parse for Invocation {
    fn parse(input: ParseStream<'_>) -> syn::Result<Invocation> {
        let mut common = Options::default();
        let mut pipelines = Vec::new();
        if input.is_empty() {
            return Err(input.error(FORMS));
        }
        if input.peek(LitStr) || at_digraph(input) {
            let text = text(input)?;
            let mut options = Options::default();
            trailing_options(input, &mut options)?;
            let _: Option<Token![;]> = input.parse()?;
            if !input.is_empty() {
                return Err(input.error("expected `,` and an option, or the end"));
            }
            pipelines.push(Declaration {
                attributes: Vec::new(),
                visibility: None,
                name: None,
                text,
                options,
            });
            return Ok(Invocation { pipelines });
        }
        while !input.is_empty() {
            if at_option(input) {
                option(input, &mut common)?;
                input.parse::<Token![;]>()?;
                continue;
            }
            pipelines.push(declaration(input)?);
        }
        for pipeline in &mut pipelines {
            pipeline.options.inherit(&common);
        }
        if pipelines.is_empty() {
            return Err(input.error(FORMS));
        }
        Ok(Invocation { pipelines })
    }
}

impl Options {
    /// Adds the options of the whole invocation, except where the pipeline has its own.
    fn inherit(&mut self, common: &Options) {
        self.krate = self.krate.take().or_else(|| common.krate.clone());
        self.handlers = self.handlers.take().or_else(|| common.handlers.clone());
        self.config = self.config.take().or_else(|| common.config.clone());
        self.tools = self.tools.take().or_else(|| common.tools.clone());
        self.lock = self.lock.take().or_else(|| common.lock.clone());
        self.paths = self.paths.take().or_else(|| common.paths.clone());
        self.allow.extend(common.allow.iter().cloned());
        self.deny.extend(common.deny.iter().cloned());
    }
}

fn declaration(input: ParseStream<'_>) -> syn::Result<Declaration> {
    let attributes = input.call(Attribute::parse_outer)?;
    let visibility: Visibility = input.parse()?;
    if !input.peek(Token![mod]) {
        return Err(input.error(FORMS));
    }
    input.parse::<Token![mod]>()?;
    let name: Ident = input.parse()?;
    input.parse::<Token![=]>()?;
    let text = text(input)?;
    let mut options = Options::default();
    trailing_options(input, &mut options)?;
    let inline = matches!(text, Text::Inline(_));
    if input.peek(Token![;]) || !(inline || input.is_empty()) {
        input.parse::<Token![;]>()?;
    }
    Ok(Declaration {
        attributes,
        visibility: Some(visibility),
        name: Some(name),
        text,
        options,
    })
}

fn at_digraph(input: ParseStream<'_>) -> bool {
    let fork = input.fork();
    fork.parse::<Ident>()
        .is_ok_and(|word| ["digraph", "strict", "graph"].iter().any(|known| word == known))
}

fn text(input: ParseStream<'_>) -> syn::Result<Text> {
    if input.peek(LitStr) {
        return Ok(Text::File(input.parse()?));
    }
    if !at_digraph(input) {
        return Err(input.error("expected the path of a file in double quotes, or `digraph NAME { .. }`"));
    }
    let mut tokens = TokenStream::new();
    loop {
        let Ok(token) = input.parse::<TokenTree>() else {
            return Err(input.error("expected `{` and the statements of the graph"));
        };
        let body = matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        tokens.extend([token]);
        if body {
            return Ok(Text::Inline(tokens));
        }
    }
}

fn at_option(input: ParseStream<'_>) -> bool {
    let fork = input.fork();
    let assigned = |fork: ParseStream<'_>| fork.peek(Token![=]);
    if fork.peek(Token![crate]) {
        return fork.parse::<Token![crate]>().is_ok() && assigned(&fork);
    }
    fork.parse::<Ident>().is_ok_and(|word| {
        ["handlers", "config", "tools", "allow", "deny", "lock", "paths"]
            .iter()
            .any(|known| word == known)
    })
}

fn trailing_options(input: ParseStream<'_>, options: &mut Options) -> syn::Result<()> {
    while input.peek(Token![,]) {
        input.parse::<Token![,]>()?;
        if input.is_empty() || input.peek(Token![;]) {
            break;
        }
        option(input, options)?;
    }
    Ok(())
}

fn option(input: ParseStream<'_>, options: &mut Options) -> syn::Result<()> {
    const OPTIONS: &str = "expected an option: `handlers = TYPE`, `config = \"orchestra.yaml\"`, `tools = TYPE`, \
                           `lock`, `paths`, `crate = PATH`, `allow(CODE, ..)` or `deny(CODE, ..)`";
    if input.peek(Token![crate]) {
        options.krate = Some(crate_option(input)?);
        return Ok(());
    }
    let name: Ident = input
        .parse()
        .map_err(|error| syn::Error::new(error.span(), OPTIONS))?;
    match name.to_string().as_str() {
        "handlers" => {
            input.parse::<Token![=]>()?;
            options.handlers = Some(input.parse()?);
        }
        "config" => {
            available(&name)?;
            input.parse::<Token![=]>()?;
            options.config = Some(input.parse()?);
        }
        "tools" => {
            available(&name)?;
            input.parse::<Token![=]>()?;
            options.tools = Some(input.parse()?);
        }
        "lock" => options.lock = Some(name),
        "allow" => options.allow.extend(codes(input)?),
        "deny" => options.deny.extend(codes(input)?),
        "paths" => options.paths = Some(paths(input)?),
        _ => return Err(syn::Error::new(name.span(), OPTIONS)),
    }
    Ok(())
}

/// Rejects an option that this build of the macro does not support.
fn available(option: &Ident) -> syn::Result<()> {
    if cfg!(feature = "agents") {
        return Ok(());
    }
    let message = format!("`{option} = ..` needs the feature `agents` of the package `orchestra-workflow`");
    Err(syn::Error::new(option.span(), message))
}

/// Parses `crate = path`, an option of every macro.
pub(crate) fn crate_option(input: ParseStream<'_>) -> syn::Result<Path> {
    input.parse::<Token![crate]>()?;
    input.parse::<Token![=]>()?;
    input.call(Path::parse_mod_style)
}

/// Parses what follows `paths`: nothing, or `(allow = [NAME, ..])`.
fn paths(input: ParseStream<'_>) -> syn::Result<Paths> {
    let mut paths = Paths::default();
    if !input.peek(token::Paren) {
        return Ok(paths);
    }
    let (inner, names);
    syn::parenthesized!(inner in input);
    let allow: Ident = inner.parse()?;
    if allow != "allow" {
        return Err(syn::Error::new(allow.span(), "expected `allow = [NAME, ..]`"));
    }
    inner.parse::<Token![=]>()?;
    syn::bracketed!(names in inner);
    let listed = Punctuated::<Ident, Token![,]>::parse_terminated(&names)?;
    if !inner.is_empty() {
        return Err(inner.error("expected `)`"));
    }
    paths.allow.extend(listed);
    Ok(paths)
}

fn codes(input: ParseStream<'_>) -> syn::Result<Vec<Ident>> {
    let inner;
    syn::parenthesized!(inner in input);
    let codes = Punctuated::<Ident, Token![,]>::parse_terminated(&inner)?;
    Ok(codes.into_iter().collect())
}
