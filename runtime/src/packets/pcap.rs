//! The pcap format, which `tcpdump -r` and Wireshark read.
//!
//! In: packets. Out: the head of a file, and the head of each packet in it.
//! Guarantee: times have nanoseconds; packets begin with the IP header, as far as the format says.

use profiler_model::results::Packet;

/// A file with nanoseconds, in the byte order of this machine.
const MAGIC: u32 = 0xa1b2_3c4d;
/// Version 2.4.
const VERSION: [u16; 2] = [2, 4];
/// Longest packet.
const MAX_BYTES: u32 = 65_535;
/// `LINKTYPE_RAW`: packets of IPv4 or IPv6 without a link-layer header.
const RAW_IP: u32 = 101;

/// The head of a file.
pub(super) fn head() -> Vec<u8> {
    let mut head = MAGIC.to_ne_bytes().to_vec();
    head.extend(VERSION.iter().flat_map(|part| part.to_ne_bytes()));
    // Time zone and accuracy, which all writers leave 0.
    head.extend([0; 8]);
    head.extend([MAX_BYTES, RAW_IP].iter().flat_map(|word| word.to_ne_bytes()));
    head
}

/// The head of a packet, whose bytes follow; `at_ns` is its time since 1970.
pub(super) fn record_head(packet: &Packet<'_>, at_ns: u64) -> Vec<u8> {
    const SECOND_NS: u64 = 1_000_000_000;
    let copied = packet.bytes.len() as u32;
    let words = [(at_ns / SECOND_NS) as u32, (at_ns % SECOND_NS) as u32, copied, packet.size_bytes.max(copied)];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_its_time_and_both_lengths() {
        let packet = Packet { at_ns: 0, bytes: &[1, 2, 3], size_bytes: 60 };
        let word = |bytes: &[u8], at: usize| u32::from_ne_bytes(bytes[at * 4..][..4].try_into().expect("a word"));
        let head = record_head(&packet, 5_000_000_007);
        assert_eq!([0, 1, 2, 3].map(|at| word(&head, at)), [5, 7, 3, 60]);
        let head = super::head();
        assert_eq!((head.len(), word(&head, 0), word(&head, 5)), (24, 0xa1b2_3c4d, 101));
    }
}
