//! The service that shows that a worker is reached.

use restate_sdk::prelude::*;

#[derive(Clone)]
pub(crate) struct ReadinessService;

#[restate_sdk::service(name = "OrchestraWorker", client_visibility = "pub(crate)")]
impl ReadinessService {
    /// Answers at once.
    #[handler]
    async fn ready(&self, _ctx: Context<'_>) -> HandlerResult<()> {
        Ok(())
    }
}
