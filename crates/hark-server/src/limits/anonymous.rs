//! Addresses without an account, as they are counted: a keyed hash whose key lasts as long as its day.

use std::net::IpAddr;
use std::sync::Mutex;

use hark_store::{DAY, Micros, Store, day_of};
use zeroize::Zeroizing;

use super::subnet;
use crate::mac::{hex, mac};

/// The key of today.
///
/// There are few enough IPv4 addresses to hash them all, so a plain hash would hide nothing. The key is random, the
/// same for every process over one store, and deleted there after its day: what was counted with it can't be undone.
#[derive(Default)]
pub(crate) struct AddressHash(Mutex<Option<(i64, Zeroizing<[u8; 32]>)>>);

impl AddressHash {
    /// The hash under which the subnet of an address is counted at `now`.
    pub(crate) async fn hash(&self, store: &Store, address: IpAddr, now: Micros) -> hark_store::Result<String> {
        self.hash_network(store, &subnet(address).to_string(), now).await
    }

    /// The hash under which a network is counted at `now`.
    pub(crate) async fn hash_network(&self, store: &Store, network: &str, now: Micros) -> hark_store::Result<String> {
        let day = day_of(now);
        let kept = self.lock().as_ref().filter(|(of, _)| *of == day).map(|(_, key)| key.clone());
        let key = match kept {
            Some(key) => key,
            None => {
                // Machines whose clocks differ a little agree about the day before for a while.
                let until = (day + 1) * DAY + DAY / 24;
                let key = store.secret(&format!("addresses of day {day}"), Some(until)).await?;
                *self.lock() = Some((day, key.clone()));
                key
            }
        };
        Ok(hex(&mac(&*key, &[network.as_bytes()])[..16]))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(i64, Zeroizing<[u8; 32]>)>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_store::Clock;

    #[tokio::test]
    async fn an_address_is_counted_the_same_all_day_and_as_another_the_next_day_or_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let open = async |name: &str| {
            let path = folder.path().join(name);
            let mut options =
                hark_store::Options::new(format!("sqlite://{}", path.display()), format!("{}-blobs", path.display()));
            options.clock = Clock::manual(DAY * 20_000);
            Store::open(options).await.unwrap()
        };
        let (store, other) = (open("a.db").await, open("b.db").await);
        let address = "192.0.2.1".parse().unwrap();
        let now = DAY * 20_000;
        let first = AddressHash::default().hash(&store, address, now).await.unwrap();
        assert_eq!(first, AddressHash::default().hash(&store, address, now + DAY - 1).await.unwrap());
        assert_ne!(first, AddressHash::default().hash(&store, address, now + DAY).await.unwrap());
        assert_ne!(first, AddressHash::default().hash(&other, address, now).await.unwrap(), "the key is of the store");
        let neighbour = "192.0.2.2".parse().unwrap();
        assert_ne!(first, AddressHash::default().hash(&store, neighbour, now).await.unwrap());
        assert!(!first.contains("192"));
    }
}
