//! Limits of request bodies: bytes in progress, and the minimum rate.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};

use super::subnet;

use crate::config::Limits;

/// Limits of all bodies together, and of those of one address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    /// Maximum bytes received of requests in progress, in total.
    pub(crate) total: u64,
    /// The same of one address.
    pub(crate) per_address: u64,
    /// Minimum average bytes per second.
    pub(crate) min_rate: u64,
    /// Waiting time before the rate is checked.
    pub(crate) grace: Duration,
}

impl From<&Limits> for BodyLimits {
    fn from(limits: &Limits) -> Self {
        BodyLimits {
            total: limits.body_bytes,
            per_address: limits.body_bytes_per_address,
            min_rate: limits.body_rate,
            grace: limits.body_grace.duration(),
        }
    }
}

/// Why a body is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyRefusal {
    /// It is slower than the minimum rate.
    Slow,
    /// Too many bytes in progress from this address.
    AddressLimit,
    /// Too many bytes in progress in total.
    ServerLimit,
}

impl fmt::Display for BodyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BodyRefusal::Slow => "the body arrives too slowly",
            BodyRefusal::AddressLimit => "too many bytes are being sent from this address at once",
            BodyRefusal::ServerLimit => "too many bytes are being sent to this server at once",
        })
    }
}

impl std::error::Error for BodyRefusal {}

impl BodyRefusal {
    /// The refusal in the error chain of a body, if any.
    pub(crate) fn of(error: &(dyn std::error::Error + 'static)) -> Option<BodyRefusal> {
        let mut error = Some(error);
        while let Some(one) = error {
            if let Some(refusal) = one.downcast_ref::<BodyRefusal>() {
                return Some(*refusal);
            }
            error = one.source();
        }
        None
    }
}

/// Counts the bytes of bodies in progress; clones share the count.
#[derive(Clone, Default)]
pub(crate) struct Bodies(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    total: u64,
    by_address: HashMap<IpAddr, u64>,
}

impl Bodies {
    /// Wraps a body: its bytes count for its sender until it is dropped.
    pub(crate) fn metered(&self, body: Body, address: IpAddr, limits: BodyLimits) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let share = Share { counts: self.clone(), address: subnet(address), bytes: 0 };
        Body::new(Metered { body, share, limits, waited: Duration::ZERO, waiting_since: None, refused: false })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The counted bytes of one body; dropping it subtracts them.
struct Share {
    counts: Bodies,
    address: IpAddr,
    bytes: u64,
}

impl Share {
    fn add(&mut self, bytes: u64, limits: &BodyLimits) -> Result<(), BodyRefusal> {
        let mut counts = self.counts.lock();
        if counts.total + bytes > limits.total {
            return Err(BodyRefusal::ServerLimit);
        }
        let of_address = counts.by_address.entry(self.address).or_default();
        if *of_address + bytes > limits.per_address {
            return Err(BodyRefusal::AddressLimit);
        }
        *of_address += bytes;
        counts.total += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.total -= self.bytes;
        if let Some(of_address) = counts.by_address.get_mut(&self.address) {
            *of_address -= self.bytes;
            if *of_address == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

struct Metered {
    body: Body,
    share: Share,
    limits: BodyLimits,
    /// How long a read has waited for the sender.
    waited: Duration,
    waiting_since: Option<Instant>,
    refused: bool,
}

impl Metered {
    fn check(&mut self, bytes: u64) -> Result<(), BodyRefusal> {
        self.share.add(bytes, &self.limits)?;
        let late = self.waited.saturating_sub(self.limits.grace);
        if !late.is_zero() && (self.share.bytes as f64) < self.waited.as_secs_f64() * self.limits.min_rate as f64 {
            return Err(BodyRefusal::Slow);
        }
        Ok(())
    }
}

impl hyper::body::Body for Metered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.refused {
            return Poll::Ready(None);
        }
        if self.waiting_since.is_none() {
            self.waiting_since = Some(Instant::now());
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(since) = self.waiting_since.take() {
            self.waited += since.elapsed();
        }
        let bytes = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, |data| data.len() as u64),
            _ => return Poll::Ready(frame),
        };
        match self.check(bytes) {
            Ok(()) => Poll::Ready(frame),
            Err(refusal) => {
                self.refused = true;
                tracing::info!(%refusal, "request.body_refused");
                Poll::Ready(Some(Err(axum::Error::new(refusal))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.refused || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{StreamExt as _, stream};
    use http_body_util::BodyExt as _;

    const LIMITS: BodyLimits =
        BodyLimits { total: 100, per_address: 50, min_rate: 1000, grace: Duration::from_millis(50) };

    fn body(blocks: Vec<usize>, pause: Duration) -> Body {
        let blocks = stream::iter(blocks).then(move |bytes| async move {
            // Even a sleep of no length takes a tick of the timer.
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            Ok::<_, std::io::Error>(vec![0; bytes])
        });
        Body::from_stream(blocks)
    }

    async fn read(body: Body) -> Result<usize, Option<BodyRefusal>> {
        body.collect().await.map(|body| body.to_bytes().len()).map_err(|error| BodyRefusal::of(&error))
    }

    #[tokio::test]
    async fn bytes_under_way_are_counted_by_address_and_in_all_and_given_back() {
        let bodies = Bodies::default();
        let metered =
            |bytes, address: &str| bodies.metered(body(vec![bytes], Duration::ZERO), address.parse().unwrap(), LIMITS);
        assert_eq!(read(metered(50, "192.0.2.1")).await, Ok(50));
        assert_eq!(read(metered(51, "192.0.2.1")).await, Err(Some(BodyRefusal::AddressLimit)));
        let mut held = Vec::new();
        for address in ["2001:db8::1", "192.0.2.2"] {
            let mut one = metered(50, address);
            one.frame().await.unwrap().unwrap();
            held.push(one);
        }
        let neighbour = read(metered(1, "2001:db8::2")).await;
        assert_eq!(neighbour, Err(Some(BodyRefusal::ServerLimit)));
        held.pop();
        assert_eq!(read(metered(1, "2001:db8::2")).await, Err(Some(BodyRefusal::AddressLimit)));
        assert_eq!(read(metered(1, "192.0.2.3")).await, Ok(1));
        drop(held);
        let counts = bodies.lock();
        assert_eq!((counts.total, counts.by_address.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_body_that_trickles_is_refused_and_a_reader_that_pauses_is_not_the_senders_fault() {
        let bodies = Bodies::default();
        let address = "192.0.2.1".parse().unwrap();
        let slow = bodies.metered(body(vec![1; 40], Duration::from_millis(10)), address, LIMITS);
        assert_eq!(read(slow).await, Err(Some(BodyRefusal::Slow)));
        let mut quick = bodies.metered(body(vec![1; 40], Duration::ZERO), address, LIMITS);
        for _ in 0..40 {
            quick.frame().await.unwrap().unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(quick.frame().await.is_none());
    }
}
