//! Credentials that were just looked up, cached for a moment so that a busy client does not ask the database each time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hark_store::{AccountId, Credential, KeyId, Store};
use sha2::{Digest, Sha256};

/// How long a credential is believed without a look: what another process revokes still opens for so long.
const TTL: Duration = Duration::from_secs(1);
/// Credentials in the cache at most.
const MOST: usize = 10_000;

/// The credentials of the last moments, by the hash of their secret.
#[derive(Default)]
pub(crate) struct Credentials {
    entries: Mutex<HashMap<[u8; 32], CacheEntry>>,
    /// Counts what was forgotten: a look that began before must not put it back.
    forgotten: AtomicU64,
}

struct CacheEntry {
    credential: Arc<Credential>,
    until: Instant,
}

impl Credentials {
    /// What the secret stands for; [`hark_store::Error::NotFound`] when it opens nothing.
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

    /// Forgets a key that was revoked.
    pub(crate) fn forget_key(&self, key: KeyId) {
        self.forget(|credential| credential.key.id == key);
    }

    /// Forgets all of an account whose plan or keys changed.
    #[allow(dead_code, reason = "sign-out and account changes over HTTP use it")]
    pub(crate) fn forget_account(&self, account: AccountId) {
        self.forget(|credential| credential.key.account == account);
    }

    fn forget(&self, goes: impl Fn(&Credential) -> bool) {
        let mut entries = self.lock();
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        entries.retain(|_, entry| !goes(&entry.credential));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], CacheEntry>> {
        self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
