//! A transport that reports changes of the tools of a server, before any later message is handled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::RoleClient;
use rmcp::model::ServerNotification;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A transport that sets a flag when the server says that its tools have changed.
pub(crate) struct Watched<T> {
    pub(crate) inner: T,
    pub(crate) changed: Arc<AtomicBool>,
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
            self.changed.store(true, Ordering::SeqCst);
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        self.inner.close().await
    }
}
