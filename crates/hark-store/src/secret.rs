//! Secrets of the service itself: random once, then the same for every process over this store.

use zeroize::Zeroizing;

use crate::Store;
use crate::clock::Micros;
use crate::db::args;
use crate::error::{Error, Result};
use crate::random;
use crate::sealing::columns;

impl Store {
    /// The secret of that name, 32 random bytes, created if missing. It is deleted after `until`: then what
    /// was hashed with it can't be reversed by trying all inputs.
    pub async fn secret(&self, name: &str, until: Option<Micros>) -> Result<Zeroizing<[u8; 32]>> {
        let sealer = self.sealer(self.anonymous_account()).await?;
        let aad = columns::SECRET.associated_data(&[&name]);
        let select = "SELECT value FROM secrets WHERE name = $1 AND (expires_at IS NULL OR expires_at > $2)";
        let now = self.now();
        let mut found = self.db().optional(select, args![name, now]).await?;
        if found.is_none() {
            let value = Zeroizing::new(random::bytes::<32>()?);
            let sealed = sealer.seal(&aad, &*value)?;
            let mut tx = self.db().begin().await?;
            tx.execute("DELETE FROM secrets WHERE expires_at <= $1", args![now]).await?;
            tx.execute(
                "INSERT INTO secrets (name, value, expires_at) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING",
                args![name, &sealed, until],
            )
            .await?;
            // Another process may have been first: use the stored one.
            found = tx.optional(select, args![name, now]).await?;
            tx.commit().await?;
        }
        let stored: Vec<u8> = found.ok_or(Error::Conflict("a secret can't end before it begins"))?.get("value")?;
        let value = Zeroizing::new(sealer.open(&aad, &stored)?);
        let value = value.as_slice().try_into().map_err(|_| Error::Damaged("a secret has the wrong length".into()))?;
        Ok(Zeroizing::new(value))
    }
}
