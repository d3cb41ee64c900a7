//! The storage quota of an account.

use crate::app::App;
use crate::error::{Failure, storage_full};
use crate::middleware::Caller;

/// The storage quota of an account, and its usage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StorageRoom {
    quota: u64,
    used: u64,
}

impl StorageRoom {
    /// The quota of a caller; `None` if unlimited. The store checks it again when it accepts the recording.
    pub(crate) async fn of(app: &App, caller: &Caller) -> Result<Option<Self>, Failure> {
        let Some(quota) = app.config.recordings.quota.of(caller.plan()) else { return Ok(None) };
        let used = app.store.recordings().bytes_used(caller.account(app)).await?;
        Ok(Some(StorageRoom { quota, used }))
    }

    /// Rejects this many bytes if they exceed the quota.
    pub(crate) fn check(&self, bytes: u64) -> Result<(), Failure> {
        match self.used.saturating_add(bytes) > self.quota {
            true => Err(storage_full(self.quota, self.used)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_exactly_is_taken_and_a_byte_more_is_not() {
        let room = StorageRoom { quota: 5_000_000_000, used: 4_999_999_000 };
        assert!(room.check(1000).is_ok());
        let refused = room.check(1001).unwrap_err().error;
        assert_eq!((refused.status(), refused.upgrade), (413, true));
        assert!(refused.message.contains("5.0 GB of the 5.0 GB"), "{}", refused.message);
    }
}
