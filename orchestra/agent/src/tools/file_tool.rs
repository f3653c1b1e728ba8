//! The common part of the built-in tools that work on files.

use std::marker::PhantomData;
use std::sync::LazyLock;

use orchestra_engine::CancellationToken;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::arguments;
use super::confined::{Confined, work};
use crate::tool::{Tool, ToolContext, ToolError, ToolFuture, ToolSpec};

/// A call of a tool that works on files; its fields are the arguments of the tool.
pub(crate) trait FileCall: DeserializeOwned + JsonSchema + Send + 'static {
    /// The name of the tool for models.
    const NAME: &'static str;
    /// The description of the tool for models.
    const DESCRIPTION: &'static str;
    /// `true` if the tool changes nothing.
    const IS_READ_ONLY: bool;

    /// Returns the path that may also name an output file of a stage (rule F4).
    fn stage_file(&mut self) -> Option<&mut String> {
        None
    }

    /// Executes the call on a blocking thread. The result should have at most `limit` bytes.
    fn run(&self, folder: &Confined, stop: &CancellationToken, limit: usize) -> Result<String, ToolError>;
}

/// The tool that executes the calls of a type.
pub(crate) struct FileTool<C> {
    parameters: LazyLock<Value>,
    call: PhantomData<fn() -> C>,
}

impl<C: FileCall> FileTool<C> {
    pub(crate) fn new() -> FileTool<C> {
        FileTool {
            parameters: LazyLock::new(arguments::schema_of::<C>),
            call: PhantomData,
        }
    }
}

impl<C: FileCall> Tool for FileTool<C> {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: C::NAME.to_owned(),
            description: C::DESCRIPTION.to_owned(),
            parameters: Value::clone(&self.parameters),
        }
    }

    fn is_read_only(&self) -> bool {
        C::IS_READ_ONLY
    }

    fn call<'a>(&'a self, arguments: Map<String, Value>, context: ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let mut call: C = arguments::read(&self.parameters, arguments)?;
            let limit = context.most_output();
            let context = match call.stage_file() {
                Some(path) => match context.for_stage_file(path) {
                    Some((run_folder, inside)) => {
                        *path = inside;
                        run_folder
                    }
                    None => context,
                },
                None => context,
            };
            let text = work(&context, move |folder, stop| call.run(folder, stop, limit)).await?;
            Ok(text.into())
        })
    }
}
