//! `uretprobe:BINARY:FUNCTION`: the return of a function of a program or library.

use crate::ast::AttachPoint;
use crate::catalogue::{Advice, Files, InFile, Listing, Nature, ProbeKind, Reads, SelfTest, Trigger};
use crate::check::{Points, Seed};
use crate::target::Target;
use crate::words::probes::{described, listing};

/// `uretprobe`.
#[derive(Debug)]
pub(super) struct Uretprobe;

impl ProbeKind for Uretprobe {
    word!("uretprobe", "probes/uretprobe");

    fn aliases(&self) -> &'static [&'static str] {
        &["ur"]
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        super::uprobe::expand(cx, point, self.name(), true)
    }

    fn listing(&self) -> Listing {
        Listing::ByName(listing::user_functions)
    }

    fn files(&self) -> Files {
        Files::Always(InFile::Functions)
    }

    fn arguments(&self, target: &dyn Target, name: &str) -> Vec<String> {
        described::arguments(target, name, true)
    }

    fn reads(&self) -> Reads {
        Reads::Text("retval: return value, with its type if there is debug information, else as an integer")
    }

    fn nature(&self, _name: &str) -> Nature {
        Nature {
            what: "return of a function of a program, by symbol",
            lasts: "until the program is rebuilt; inlined calls do not fire",
            way: "two traps into the kernel: about 270 ns per call, microseconds on other machines",
        }
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![SelfTest::optional(
            "uretprobe",
            "uretprobe:libc:getpid / pid == PID /",
            Trigger::GetPid,
            Advice::Text("uprobes need CONFIG_UPROBE_EVENTS"),
        )]
    }
}
