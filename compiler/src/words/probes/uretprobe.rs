//! `uretprobe:BINARY:FUNCTION`: the return of a function of a program or library.

use std::collections::BTreeSet;

use crate::ast::AttachPoint;
use crate::catalogue::{Advice, DescribedProbe, Files, InFile, Listing, Nature, ProbeKind, Reads, SelfTest, Trigger};
use crate::check::{Points, Seed};
use crate::target::{ProgramType, Target};
use crate::words::probes::{listing, program_probes};

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
        self.all_arguments(target, &[name]).pop().unwrap_or_default()
    }

    fn all_arguments(&self, target: &dyn Target, names: &[&str]) -> Vec<Vec<String>> {
        program_probes::arguments(target, names, true)
    }

    fn described(&self, target: &dyn Target, name: &str, types: &BTreeSet<ProgramType>) -> Option<DescribedProbe> {
        program_probes::described(target, name, types, true)
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
