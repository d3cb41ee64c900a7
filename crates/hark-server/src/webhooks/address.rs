//! Which addresses a webhook may reach: those of the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether anybody on the internet could reach the address: not this machine, not its network, not a cloud's metadata.
///
/// From IANA's special-purpose address registries (RFC 6890 and its updates). IPv6 addresses that stand for IPv4 ones
/// count as those.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = match (a, b, c) {
        // This network, private use, loopback.
        (0 | 10 | 127, ..) => true,
        // Shared by carriers (RFC 6598); some clouds keep their metadata here.
        (100, 64..=127, _) => true,
        // Link-local, and the metadata of most clouds (169.254.169.254).
        (169, 254, _) => true,
        (172, 16..=31, _) => true,
        // Protocol assignments, documentation, 6to4 relays, private use, benchmarks.
        (192, 0, 0 | 2) | (192, 88, 99) | (192, 168, _) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) => true,
        // Multicast, reserved, broadcast.
        (224.., ..) => true,
        _ => false,
    };
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let [.., seven, eight] = parts;
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match parts {
        // ::ffff:a.b.c.d, and the old ::a.b.c.d, which holds ::1 and :: too.
        [0, 0, 0, 0, 0, 0xffff, _, _] => is_public_v4(v4(seven, eight)),
        [0, 0, 0, 0, 0, 0, _, _] => false,
        // A gateway to IPv4 (RFC 6052), and its local form (RFC 8215).
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => is_public_v4(v4(seven, eight)),
        [0x64, 0xff9b, 1, ..] => false,
        // 6to4 and Teredo carry an IPv4 address too; nobody serves webhooks there.
        [0x2002, ..] | [0x2001, 0, ..] => false,
        // Protocol assignments (2001::/23), documentation.
        [0x2001, 0..0x200, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..0x1000, ..] => false,
        // Only 2000::/3 is given out as public: this leaves out unique local, link-local, site-local and multicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(text: &str) -> bool {
        is_public(text.parse().unwrap())
    }

    #[test]
    fn this_machine_its_network_and_the_metadata_of_clouds_are_not_public() {
        for address in [
            "0.0.0.0",
            "127.0.0.1",
            "127.255.255.255",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "192.0.2.1",
            "203.0.113.7",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "100::1",
            "4000::1",
        ] {
            assert!(!public(address), "{address}");
        }
    }

    #[test]
    fn the_internet_is_public_to_its_borders() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00::1",
            "2001:4860:4860::8888",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
        ] {
            assert!(public(address), "{address}");
        }
    }
}
