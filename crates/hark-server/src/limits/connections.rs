//! How many connections are open, in all and by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use super::subnet;

/// Counts open connections; clones count together.
#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    in_all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Why a connection is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The address has too many.
    OfAddress,
    /// There are too many in all.
    InAll,
}

/// An open connection; dropping it gives its place back.
pub(crate) struct Connection {
    counts: Connections,
    address: IpAddr,
}

impl Connections {
    /// Takes a place for a connection from `address`; `per_address` is none for a proxy that many call through.
    pub(crate) fn open(
        &self,
        address: IpAddr,
        in_all: usize,
        per_address: Option<usize>,
    ) -> Result<Connection, Refused> {
        let address = subnet(address);
        let mut counts = self.lock();
        if counts.in_all >= in_all {
            return Err(Refused::InAll);
        }
        let of_address = counts.by_address.entry(address).or_default();
        if per_address.is_some_and(|most| *of_address >= most) {
            return Err(Refused::OfAddress);
        }
        *of_address += 1;
        counts.in_all += 1;
        drop(counts);
        Ok(Connection { counts: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.in_all -= 1;
        if let Some(of_address) = counts.by_address.get_mut(&self.address) {
            *of_address -= 1;
            if *of_address == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_by_household_and_in_all_and_given_back() {
        let connections = Connections::default();
        let open = |address: &str| connections.open(address.parse().unwrap(), 3, Some(2));
        let first = open("2001:db8::1").unwrap();
        let second = open("2001:db8::2").unwrap();
        assert_eq!(open("2001:db8::3").err(), Some(Refused::OfAddress));
        assert!(connections.open("2001:db8::3".parse().unwrap(), 3, None).is_ok(), "a proxy of ours");
        let third = open("192.0.2.1").unwrap();
        assert_eq!(open("192.0.2.2").err(), Some(Refused::InAll));
        drop((first, second, third));
        let counts = connections.lock();
        assert_eq!((counts.in_all, counts.by_address.len()), (0, 0));
    }
}
