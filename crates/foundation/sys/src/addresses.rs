//! The addresses that this machine has.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// The addresses of all network interfaces (getifaddrs(3)).
///
/// # Errors
/// What asking for them gave.
pub fn own() -> io::Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the pointer is ours to write to.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: an entry of the list, which nobody changes and which is freed only below.
        let entry = unsafe { &*next };
        // SAFETY: the address of an entry is none, or one as long as its family says.
        found.extend(unsafe { address(entry.ifa_addr) });
        next = entry.ifa_next;
    }
    // SAFETY: the list that getifaddrs made, of which nothing is used any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The IP address in a socket address; none where it is another family's.
///
/// # Safety
/// The pointer has to be null, or point to a whole socket address of the family that it names.
unsafe fn address(at: *const libc::sockaddr) -> Option<IpAddr> {
    if at.is_null() {
        return None;
    }
    // SAFETY: every socket address begins with its family.
    let family = unsafe { ptr::addr_of!((*at).sa_family).read_unaligned() };
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: it is of this family.
            let v4 = unsafe { at.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: it is of this family.
            let v6 = unsafe { at.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn those_are_found_that_packets_come_from_and_no_others() {
        let own = own().unwrap();
        // Whatever interfaces there are, packets to oneself come from one of them.
        for (any, to) in [("0.0.0.0:0", "127.0.0.1:9"), ("[::]:0", "[::1]:9")] {
            let socket = UdpSocket::bind(any).and_then(|socket| {
                socket.connect(to)?;
                socket.local_addr()
            });
            if let Ok(from) = socket {
                assert!(own.contains(&from.ip()), "{from}: {own:?}");
            }
        }
        for other in ["192.0.2.1", "2001:db8::1"] {
            assert!(!own.contains(&other.parse().unwrap()), "{other}: {own:?}");
        }
    }
}
