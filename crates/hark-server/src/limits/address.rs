//! The client address of a request, and the networks that limits are counted for.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::HeaderMap;
use ipnet::IpNet;

/// The client's address: the peer's, or what proxies we trust say about it.
///
/// Each proxy appends the address it was called from, so the list is read from its end: the first address that is
/// no trusted proxy is the client. Addresses before it may be forged.
pub(crate) fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let is_trusted = |address: &IpAddr| trusted.iter().any(|net| net.contains(address));
    let mut client = peer.to_canonical();
    let values: Vec<&str> = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok()).collect();
    for hop in values.iter().rev().flat_map(|value| value.rsplit(',')) {
        if !is_trusted(&client) {
            break;
        }
        match parse_hop(hop) {
            Some(address) => client = address.to_canonical(),
            // What a trusted proxy can't name is not worth guessing: the proxy itself counts.
            None => break,
        }
    }
    client
}

/// `192.0.2.1`, `2001:db8::1`, and the forms with a port that some proxies write.
fn parse_hop(hop: &str) -> Option<IpAddr> {
    let hop = hop.trim();
    hop.parse().ok().or_else(|| hop.parse::<std::net::SocketAddr>().ok().map(|address| address.ip())).or_else(|| {
        let inner = hop.strip_prefix('[')?.strip_suffix(']')?;
        inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
    })
}

/// The subnet that counts as one caller: an IPv4 address, or an IPv6 network of 64 bits, which is what one household gets.
pub(crate) fn subnet(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(bits))
        }
        v4 => v4,
    }
}

/// A network that a caller is counted in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Network {
    /// Its address, with the length of its prefix unless it is the caller's own subnet.
    pub(crate) name: String,
    /// Its limit as a multiple of that of one subnet.
    pub(crate) multiple: u32,
}

/// The networks that an address is counted in: its subnet, and of IPv6 also the prefixes that providers assign to one customer, where
/// each of 256 or 65,536 subnets would be another caller.
pub(crate) fn networks(address: IpAddr) -> Vec<Network> {
    let mut networks = vec![Network { name: subnet(address).to_string(), multiple: 1 }];
    if let IpAddr::V6(address) = address.to_canonical() {
        for (length, multiple) in [(56, 4), (48, 16)] {
            let bits = u128::from(address) >> (128 - length) << (128 - length);
            networks.push(Network { name: format!("{}/{length}", Ipv6Addr::from(bits)), multiple });
        }
    }
    networks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&str], trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append("x-forwarded-for", value.parse().unwrap());
        }
        let trusted: Vec<IpNet> = trusted.iter().map(|net| net.parse().unwrap()).collect();
        client_address(peer.parse().unwrap(), &headers, &trusted).to_string()
    }

    #[test]
    fn a_header_from_a_stranger_is_not_believed() {
        assert_eq!(client("203.0.113.9", &["198.51.100.1"], &[]), "203.0.113.9");
        assert_eq!(client("203.0.113.9", &["198.51.100.1"], &["10.0.0.0/8"]), "203.0.113.9");
    }

    #[test]
    fn the_last_address_that_is_no_proxy_of_ours_is_the_client() {
        let trusted = ["10.0.0.0/8", "fd00::/8"];
        assert_eq!(client("10.0.0.1", &["1.1.1.1, 198.51.100.1, 10.0.0.2"], &trusted), "198.51.100.1");
        assert_eq!(client("10.0.0.1", &["1.1.1.1", "198.51.100.1"], &trusted), "198.51.100.1");
        assert_eq!(client("fd00::1", &["[2001:db8::5]:4711"], &trusted), "2001:db8::5");
        assert_eq!(client("10.0.0.1", &["unknown"], &trusted), "10.0.0.1");
        assert_eq!(client("::ffff:10.0.0.1", &["198.51.100.1"], &trusted), "198.51.100.1");
    }

    #[test]
    fn a_household_is_one_caller() {
        let of = |text: &str| subnet(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("2001:db8:1:2::9"), "2001:db8:1:2::");
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
    }

    #[test]
    fn an_ipv6_customer_is_counted_in_wider_networks_too() {
        let of = |text: &str| -> Vec<(String, u32)> {
            networks(text.parse().unwrap()).into_iter().map(|network| (network.name, network.multiple)).collect()
        };
        let expected = [("2001:db8:1:23ab::", 1), ("2001:db8:1:2300::/56", 4), ("2001:db8:1::/48", 16)];
        assert_eq!(of("2001:db8:1:23ab::9"), expected.map(|(name, multiple)| (name.to_owned(), multiple)));
        assert_eq!(of("192.0.2.7"), [("192.0.2.7".to_owned(), 1)]);
    }
}
