//! The built-in tools of a single repository.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::tool::{Tool, ToolContext, ToolFuture, ToolSpec};

/// A tool whose working folder is that of a repository.
pub(crate) struct InRepository {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) repository: String,
    /// The folder of the repository for runs without a workspace.
    pub(crate) folder: PathBuf,
}

impl Tool for InRepository {
    fn spec(&self) -> ToolSpec {
        let spec = self.tool.spec();
        let description = format!(
            "Works in the repository `{}`: its folder is the working folder here. {}",
            self.repository, spec.description
        );
        ToolSpec { description, ..spec }
    }

    fn repository(&self) -> Option<&str> {
        Some(&self.repository)
    }

    fn is_read_only(&self) -> bool {
        self.tool.is_read_only()
    }

    fn call<'a>(&'a self, arguments: Map<String, Value>, context: ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let context = context.in_repository(&self.repository, Some(&self.folder))?;
            self.tool.call(arguments, context).await
        })
    }
}
