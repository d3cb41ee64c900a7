//! How many calls of a kind that compute on blocking threads run at once, by owner and in all.

use std::sync::Arc;
use std::time::Duration;

use hark_api::{ApiError, ErrorKind};
use hark_store::Owner;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Failure;
use crate::limits::{AtOnce, Place};

/// The longest wait for a slot, and when to come back after it.
const SLOT_TIMEOUT: Duration = Duration::from_secs(30);
const RETRY_AFTER: u64 = 10;

/// The slots of this process.
pub(crate) struct CallSlots {
    /// What an owner with too many calls is told.
    too_many: &'static str,
    all: Arc<Semaphore>,
    by_owner: AtOnce<Owner>,
}

/// A slot, taken until the call has ended.
pub(crate) struct CallSlot {
    _of_owner: Place<Owner>,
    _of_all: OwnedSemaphorePermit,
}

impl CallSlots {
    /// This many slots; `too_many` begins the message for an owner who has all that he may.
    pub(crate) fn new(at_once: usize, too_many: &'static str) -> Self {
        CallSlots { too_many, all: Arc::new(Semaphore::new(at_once)), by_owner: AtOnce::new() }
    }

    /// Takes a slot for an owner who may have `limit` calls at once; waits for others to end.
    pub(crate) async fn enter(&self, owner: Owner, limit: i64) -> Result<CallSlot, Failure> {
        let of_owner = self.by_owner.acquire(owner);
        if i64::try_from(of_owner.before).unwrap_or(i64::MAX) >= limit {
            let message = format!("{} for you at once: wait for one call to end", self.too_many);
            return Err(ApiError::new(ErrorKind::TooManyAtOnce, message).retry_after(RETRY_AFTER).into());
        }
        match tokio::time::timeout(SLOT_TIMEOUT, Arc::clone(&self.all).acquire_owned()).await {
            Ok(Ok(of_all)) => Ok(CallSlot { _of_owner: of_owner, _of_all: of_all }),
            _ => Err(ApiError::from(ErrorKind::QueueFull).retry_after(RETRY_AFTER).into()),
        }
    }
}
