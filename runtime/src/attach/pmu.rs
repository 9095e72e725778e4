//! Types of perf events that the kernel assigns dynamically: kprobes and uprobes.
//!
//! In: files of `/sys/bus/event_source/devices`. Out: the number of a type, and the bit that
//! selects return probes.

use std::fs;
use std::io;

/// Type and configuration of the perf events of `device` (`kprobe`, `uprobe`), at entry or at
/// return.
pub(super) fn event(device: &str, at_return: bool) -> io::Result<(u32, u64)> {
    let pmu = format!("/sys/bus/event_source/devices/{device}");
    let kind = number(&fs::read_to_string(format!("{pmu}/type"))?)?;
    let bit = if at_return { return_bit(&fs::read_to_string(format!("{pmu}/format/retprobe"))?)? } else { 0 };
    Ok((kind, bit))
}

/// The bit that selects a return probe; the file contains `config:0`.
fn return_bit(format: &str) -> io::Result<u64> {
    let bit = format.trim().strip_prefix("config:").ok_or(io::ErrorKind::InvalidData)?;
    1u64.checked_shl(number(bit)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn number(text: &str) -> io::Result<u32> {
    text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::return_bit;

    #[test]
    fn the_bit_of_return_probes() {
        assert_eq!(return_bit("config:0\n").unwrap(), 1);
        assert_eq!(return_bit("config:5").unwrap(), 32);
        assert!(return_bit("config:64").is_err() && return_bit("nonsense").is_err());
    }
}
