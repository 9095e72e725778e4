//! `watchpoint:ADDRESS:LENGTH:MODE`: each access to a piece of memory, by the processor's debug registers.

use crate::ast::{AttachPoint, Ident};
use crate::check::{Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::{Attach, Watch};
use crate::target::Arch;
use crate::typed::ContextKind;
use crate::words::{Doc, ProbeKind};

/// `watchpoint`.
#[derive(Debug)]
pub struct Watchpoint;

const FORM: &str = "watchpoint:0x10000000:8:w";

/// Addresses from here on are the kernel's: the upper half, on both architectures.
const KERNEL_START: u64 = 1 << 63;

impl ProbeKind for Watchpoint {
    fn name(&self) -> &'static str {
        "watchpoint"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["w"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "watchpoint:ADDRESS:LENGTH:MODE",
            summary: "each access to a piece of memory",
            page: include_str!("../../../../spec/words/probes/watchpoint.md"),
        }
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
        let pid = cx.env.options.pid.or(cx.env.options.child_pid);
        if pid.is_none() && address < KERNEL_START {
            let message = "which process has this address?";
            let help = "give it with `-p PID` or `-c COMMAND`; only addresses of the kernel are the same everywhere";
            cx.error(Diagnostic::error(Code(433), address_part.span, message).help(help));
            return Vec::new();
        }
        let attach = Attach::Watchpoint { address, length_bytes: length_bytes as u8, mode, pid };
        let name = super::full_name(self.name(), point);
        vec![Seed::new(name, "perf_event".into(), ContextKind::PerfEvent, attach)]
    }
}

/// A number as scripts write it: `4096`, `0x1000`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The accesses that the letters name, when the processor can tell them apart.
fn mode(cx: &mut Points<'_, '_>, part: &Ident) -> Option<Watch> {
    let count = |letter: char| part.text.chars().filter(|found| *found == letter).count();
    let mode = Watch { read: count('r') == 1, write: count('w') == 1, execute: count('x') == 1 };
    let each_once =
        ['r', 'w', 'x'].iter().all(|letter| count(*letter) <= 1) && part.text.chars().all(|c| "rwx".contains(c));
    let data = mode.read || mode.write;
    // x86 has no breakpoint for reads alone; nothing has one for data and code together.
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

/// Whether a debug register can hold so many bytes at this address; reports when it cannot.
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
