//! Packets that a script writes to pcap files, byte for byte.
//!
//! In: datagrams that this process sends over the loopback device. Out: the files of `skboutput`:
//! each packet once, whole or cut as the script says; what did not fit was counted.

use std::net::{Ipv4Addr, UdpSocket};
use std::process;

use super::kernel_functions::lacks;
use super::machine::{Directory, Ended, attached, profiler, skip};

/// The IP and UDP headers before a datagram.
const HEADERS_BYTES: usize = 28;

/// A packet of a file.
struct Packet {
    at_ns: u64,
    bytes: Vec<u8>,
    /// How long it was.
    size: usize,
}

/// Reads a file as `tcpdump` does; it has nanoseconds and no link-layer headers.
fn packets(path: &str) -> Vec<Packet> {
    let file = std::fs::read(path).expect("a file of packets");
    let word = |at: usize| u32::from_ne_bytes(file[at..at + 4].try_into().expect("a word"));
    assert_eq!((word(0), word(4), word(20)), (0xa1b2_3c4d, 0x0004_0002, 101));
    let (mut at, mut found) = (24, Vec::new());
    while at < file.len() {
        let at_ns = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
        let (copied, size) = (word(at + 8) as usize, word(at + 12) as usize);
        found.push(Packet { at_ns, bytes: file[at + 16..][..copied].to_vec(), size });
        at += 16 + copied;
    }
    found
}

/// The datagram with a number: its bytes, of which there are more with each.
fn datagram(number: u32) -> Vec<u8> {
    let mut bytes = number.to_ne_bytes().to_vec();
    bytes.resize(4 + number as usize * 7 % 1300, number as u8);
    bytes
}

fn send(numbers: std::ops::Range<u32>) {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let to = receiver.local_addr().expect("an address");
    for number in numbers {
        sender.send_to(&datagram(number), to).expect("it is sent");
    }
}

fn entry(ended: &Ended, key: &str) -> u64 {
    let line = ended.stdout.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    line.map_or(0, |number| number.parse().expect("a number"))
}

#[test]
fn each_datagram_is_in_the_file_once_and_whole() {
    if skip() || lacks("fentry") {
        return;
    }
    let directory = Directory::new("packets");
    let [whole, cut, late] = ["whole", "cut", "late"].map(|name| directory.path(name));
    // All packets fit, so none is lost if the reader gets no CPU time.
    let script = format!(
        r#"config = {{ perf_rb_pages = 1024 }} fentry:ip_output /pid == {pid}/ {{
            $packet = args.skb;
            @whole[skboutput("{whole}", $packet, $packet.len, 0)] = count();
            @cut[skboutput("{cut}", args.skb, 40, 28)] = count();
            @late[skboutput("{late}", args.skb, 1500, 60)] = count();
        }}"#,
        pid = process::id()
    );
    let running = attached(&["--strict", "-e", &script]);
    send(0..500);
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    for map in ["@whole[0]", "@cut[0]", "@late[0]"] {
        assert_eq!(entry(&ended, map), 500, "{}", ended.stdout);
    }
    let found = packets(&whole);
    assert_eq!(found.len(), 500);
    for (packet, number) in found.iter().zip(0..) {
        assert_eq!((packet.bytes[0], packet.size), (0x45, packet.bytes.len()));
        assert_eq!(&packet.bytes[HEADERS_BYTES..], datagram(number), "{number}");
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_nanos() as u64;
    assert!(found.iter().all(|packet| packet.at_ns.abs_diff(now) < 3600 * 1_000_000_000));
    assert!(found.is_sorted_by_key(|packet| packet.at_ns));
    // The same without the headers, and at most 40 bytes of it.
    for (packet, number) in packets(&cut).iter().zip(0..) {
        let sent = datagram(number);
        assert_eq!((packet.bytes.as_slice(), packet.size), (&sent[..sent.len().min(40)], sent.len()), "{number}");
    }
    // Packets that end before the offset have nothing to show.
    let long = (0..500).map(datagram).filter(|sent| sent.len() + HEADERS_BYTES > 60);
    let late: Vec<_> = packets(&late).into_iter().map(|packet| packet.bytes).collect();
    assert_eq!(late, long.map(|sent| sent[60 - HEADERS_BYTES..].to_vec()).collect::<Vec<_>>());
}

#[test]
fn packets_for_which_the_buffer_is_full_are_counted() {
    if skip() || lacks("fentry") {
        return;
    }
    let directory = Directory::new("packets-lost");
    let path = directory.path("some");
    let script = format!(
        r#"config = {{ perf_rb_pages = 1 }} fentry:ip_output /pid == {pid}/ {{
            @[skboutput("{path}", args.skb, args.skb.len, 0) == 0] = count();
        }}"#,
        pid = process::id()
    );
    let running = attached(&["--strict", "-e", &script]);
    running.signal("STOP");
    send(0..2000);
    running.signal("CONT");
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code(), 4, "{}", ended.stderr);
    let (kept, lost) = (entry(&ended, "@[true]"), entry(&ended, "@[false]"));
    assert!(kept > 0 && lost > 0 && kept + lost == 2000, "{}", ended.stdout);
    assert_eq!(packets(&path).len() as u64, kept);
    assert!(
        ended.stderr.contains(&format!("events of fentry:ip_output: ring buffer full: {lost}")),
        "{}",
        ended.stderr
    );
}

/// The verifier does not know what a variable holds that is assigned twice.
#[test]
fn a_variable_stands_for_an_argument_only_while_it_is_assigned_once() {
    if skip() || lacks("fentry") {
        return;
    }
    for (again, is_refused) in [("", false), ("$packet = args.skb; ", true), ("$packet++; ", true)] {
        let call = r#"skboutput("/dev/null", $packet, 1, 0)"#;
        let script = format!("fentry:ip_output {{ $packet = args.skb; {again}{call}; }} BEGIN {{ exit(); }}");
        let output = profiler(&["-q", "-e", &script]).output().expect("the binary runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.success(), errors.contains("error[E0390]")), (!is_refused, is_refused), "{errors}");
    }
}

#[test]
fn a_file_that_cannot_be_made_is_an_error_before_anything_is_attached() {
    if skip() || lacks("fentry") {
        return;
    }
    let script = r#"BEGIN { printf("begun\n"); }
        fentry:ip_output { skboutput("/nowhere/x.pcap", args.skb, 1, 0); }"#;
    let output = profiler(&["-e", script]).output().expect("the binary runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("cannot write packets to `/nowhere/x.pcap`"), "{errors}");
    assert!(output.stdout.is_empty());
}
