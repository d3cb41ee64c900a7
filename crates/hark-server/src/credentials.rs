//! Cache of credentials, so that a busy client does not cost a query for each request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hark_store::{AccountId, Credential, KeyId, Store};
use sha2::{Digest, Sha256};

/// How long a credential is believed without a look: what another process revokes still opens for so long.
const TTL: Duration = Duration::from_secs(1);
/// Maximum credentials in the cache.
const MOST: usize = 10_000;

/// The credentials of the last moments, by the hash of their secret.
#[derive(Default)]
pub(crate) struct Credentials {
    entries: Mutex<HashMap<[u8; 32], CacheEntry>>,
    /// Counts invalidations: a query that began before one must not fill the cache.
    forgotten: AtomicU64,
}

struct CacheEntry {
    credential: Arc<Credential>,
    until: Instant,
}

impl Credentials {
    /// The credential of a secret; [`hark_store::Error::NotFound`] when it is not valid.
    pub(crate) async fn look_up(&self, store: &Store, secret: &str) -> hark_store::Result<Arc<Credential>> {
        let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        if let Some(entry) = self.lock().get(&hash)
            && entry.until > Instant::now()
        {
            return Ok(Arc::clone(&entry.credential));
        }
        let forgotten = self.forgotten.load(Ordering::SeqCst);
        let credential = Arc::new(store.keys().authenticate(secret).await?);
        let mut entries = self.lock();
        if self.forgotten.load(Ordering::SeqCst) != forgotten {
            return Ok(credential);
        }
        if entries.len() >= MOST {
            let now = Instant::now();
            entries.retain(|_, entry| entry.until > now);
            if entries.len() >= MOST {
                entries.clear();
            }
        }
        entries.insert(hash, CacheEntry { credential: Arc::clone(&credential), until: Instant::now() + TTL });
        Ok(credential)
    }

    /// Invalidates a revoked key.
    pub(crate) fn invalidate_key(&self, key: KeyId) {
        self.invalidate(|credential| credential.key.id == key);
    }

    /// Invalidates all keys of an account whose plan or keys changed.
    #[allow(dead_code, reason = "sign-out and account changes over HTTP use it")]
    pub(crate) fn invalidate_account(&self, account: AccountId) {
        self.invalidate(|credential| credential.key.account == account);
    }

    fn invalidate(&self, matches: impl Fn(&Credential) -> bool) {
        let mut entries = self.lock();
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        entries.retain(|_, entry| !matches(&entry.credential));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], CacheEntry>> {
        self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
