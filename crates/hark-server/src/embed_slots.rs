//! How many calls that embed texts run at once, by owner and in all.

use std::sync::Arc;
use std::time::Duration;

use hark_api::{ApiError, ErrorKind};
use hark_store::Owner;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Failure;
use crate::limits::{AtOnce, Place};

/// Calls that run at once: one computes on all cores while the next is tokenized.
const AT_ONCE: usize = 2;
/// The longest wait for a slot, and when to come back after it.
const SLOT_TIMEOUT: Duration = Duration::from_secs(30);
const RETRY_AFTER: u64 = 10;

/// The slots of this process.
pub(crate) struct EmbedSlots {
    all: Arc<Semaphore>,
    by_owner: AtOnce<Owner>,
}

/// A slot, taken until the call has ended.
pub(crate) struct EmbedSlot {
    _of_owner: Place<Owner>,
    _of_all: OwnedSemaphorePermit,
}

impl EmbedSlots {
    pub(crate) fn new() -> Self {
        EmbedSlots { all: Arc::new(Semaphore::new(AT_ONCE)), by_owner: AtOnce::new() }
    }

    /// Takes a slot for an owner who may have `limit` calls at once; waits for others to end.
    pub(crate) async fn enter(&self, owner: Owner, limit: i64) -> Result<EmbedSlot, Failure> {
        let of_owner = self.by_owner.acquire(owner);
        if i64::try_from(of_owner.before).unwrap_or(i64::MAX) >= limit {
            let message = "too many texts are being embedded for you at once: wait for one call to end";
            return Err(ApiError::new(ErrorKind::TooManyAtOnce, message).retry_after(RETRY_AFTER).into());
        }
        match tokio::time::timeout(SLOT_TIMEOUT, Arc::clone(&self.all).acquire_owned()).await {
            Ok(Ok(of_all)) => Ok(EmbedSlot { _of_owner: of_owner, _of_all: of_all }),
            _ => Err(ApiError::from(ErrorKind::QueueFull).retry_after(RETRY_AFTER).into()),
        }
    }
}
