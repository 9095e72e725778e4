//! `watchpoint:ADDRESS:LENGTH:MODE`: each access to a memory range, by debug registers.

use crate::ast::{AttachPoint, Ident};
use crate::catalogue::{Advice, Listing, Nature, ProbeKind, SelfTest, Trigger};
use crate::check::{Dialect, Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::{Attach, Watch};
use crate::target::Arch;
use crate::typed::ContextKind;

/// `watchpoint`.
#[derive(Debug)]
pub(super) struct Watchpoint;

const FORM: &str = "watchpoint:0x10000000:8:w";

/// Kernel addresses start here: the upper half, on both architectures.
const KERNEL_START: u64 = 1 << 63;

impl ProbeKind for Watchpoint {
    word!("watchpoint", "probes/watchpoint");

    fn aliases(&self) -> &'static [&'static str] {
        &["w"]
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let [address_part, length_part, mode_part] = point.parts.as_slice() else {
            cx.wrong_form(point, FORM);
            return Vec::new();
        };
        let (Some(address), Some(length_bytes)) = (number(&address_part.text), number(&length_part.text)) else {
            cx.wrong_form(point, FORM);
            return Vec::new();
        };
        let Some(mode) = mode(cx, mode_part) else { return Vec::new() };
        if !mode.execute && !fits(cx, address_part, length_part, address, length_bytes) {
            return Vec::new();
        }
        let pids = cx.env.processes();
        // bpftrace watches the address in all processes.
        if pids.is_empty() && address < KERNEL_START && cx.env.options.dialect == Dialect::Own {
            let message = "this address needs a process";
            let help = "name one with `-p PID` or `-c COMMAND`; only kernel addresses are the same in every process";
            cx.error(Diagnostic::error(Code(433), address_part.span, message).help(help));
            return Vec::new();
        }
        let attach = Attach::Watchpoint { address, length_bytes: length_bytes as u8, mode, pids };
        let name = super::point::full_name(self.name(), point);
        vec![Seed::new(name, "perf_event".into(), ContextKind::PerfEvent, attach)]
    }

    fn listing(&self) -> Listing {
        Listing::Form
    }

    fn nature(&self, _name: &str) -> Nature {
        Nature { what: "reads or writes of an address", lasts: "as long as the address keeps its meaning", way: "" }
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![SelfTest {
            is_for_process: true,
            ..SelfTest::optional(
                "watchpoint",
                "watchpoint:ADDRESS:8:w / pid == PID /",
                Trigger::Store,
                Advice::Text("processors and virtual machines have few or no debug registers"),
            )
        }]
    }
}

/// A number as scripts write it: `4096`, `0x1000`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The accesses that the letters name; reports combinations that the processor cannot watch.
fn mode(cx: &mut Points<'_, '_>, part: &Ident) -> Option<Watch> {
    let count = |letter: char| part.text.chars().filter(|found| *found == letter).count();
    let mode = Watch { read: count('r') == 1, write: count('w') == 1, execute: count('x') == 1 };
    let each_once =
        ['r', 'w', 'x'].iter().all(|letter| count(*letter) <= 1) && part.text.chars().all(|c| "rwx".contains(c));
    let data = mode.read || mode.write;
    // x86 has no breakpoint for reads alone; no architecture has one for data and code together.
    let reads_alone = cx.env.target.arch() == Arch::X86_64 && mode.read && !mode.write;
    if each_once && data != mode.execute && !reads_alone {
        return Some(mode);
    }
    let help = match cx.env.target.arch() {
        Arch::X86_64 => "`w` for writes, `rw` for reads and writes, `x` for execution; x86 cannot watch reads alone",
        Arch::Aarch64 => "`r` for reads, `w` for writes, `rw` for both, `x` for execution",
    };
    let message = format!("memory cannot be watched for `{}`", part.text);
    cx.error(Diagnostic::error(Code(434), part.span, message).help(help));
    None
}

/// Whether a debug register can hold `length_bytes` bytes at this address; reports if it cannot.
fn fits(cx: &mut Points<'_, '_>, address_part: &Ident, length_part: &Ident, address: u64, length_bytes: u64) -> bool {
    if !matches!(length_bytes, 1 | 2 | 4 | 8) {
        let message = format!("{length_bytes} bytes cannot be watched at once");
        cx.error(Diagnostic::error(Code(435), length_part.span, message).help("the length is 1, 2, 4 or 8"));
        return false;
    }
    if !address.is_multiple_of(length_bytes) {
        let message = format!("{length_bytes} bytes can only be watched at a multiple of {length_bytes}");
        let help = format!("0x{:x} is one", address / length_bytes * length_bytes);
        cx.error(Diagnostic::error(Code(435), address_part.span, message).help(help));
        return false;
    }
    true
}
