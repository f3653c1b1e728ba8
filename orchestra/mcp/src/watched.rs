//! A transport that reports changes of the tools of a server, before any later message is handled.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::ServerNotification;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use crate::verification::Verification;

/// A transport that records when the server says that its tools have changed.
pub(crate) struct Watched<T> {
    pub(crate) inner: T,
    pub(crate) verification: Arc<Verification>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await?;
        if let RxJsonRpcMessage::<RoleClient>::Notification(notification) = &message
            && let ServerNotification::ToolListChangedNotification(_) = notification.notification
        {
            self.verification.report();
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}
