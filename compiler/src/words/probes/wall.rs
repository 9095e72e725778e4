//! `wall:hz:N`: at a fixed rate, each time for every live thread, whether it runs or waits.

use crate::ast::AttachPoint;
use crate::btf::{Btf, BtfId};
use crate::catalogue::{Advice, Listing, Nature, ProbeKind, Reads, SelfTest, Trigger};
use crate::check::{PidFilter, Points, Seed};
use crate::lower;
use crate::object::{Attach, Rate};
use crate::target::TargetError;
use crate::typed::ContextKind;
use crate::words::probes::listing;

/// `wall`.
#[derive(Debug)]
pub(super) struct Wall;

/// `bpf_task_pt_regs`.
const SINCE: (u32, u32) = (5, 15);

impl ProbeKind for Wall {
    word!("wall", "probes/wall");

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let period_ns = match cx.rate(point, "wall:hz:N") {
            Some(Rate::Period(ns)) => ns,
            Some(Rate::Hertz(n)) => 1_000_000_000 / n,
            None => return Vec::new(),
        };
        let refusal = if cx.env.target.kernel() < SINCE {
            Some("threads can be visited since Linux 5.15")
        } else if !lower::visited::is_described(cx.env.target) {
            Some("threads are described by the kernel's BTF, which cannot be read here")
        } else {
            None
        };
        if let Some(words) = refusal {
            cx.refused(point.span, "`wall`", TargetError::Refused(words.to_owned()));
            return Vec::new();
        }
        let Some((btf, context)) = cx.env.target.btf().and_then(|btf| Some((btf, btf.iterators().find("task")?)))
        else {
            return Vec::new();
        };
        vec![seed(super::point::full_name(self.name(), point), period_ns, btf, context)]
    }

    fn listing(&self) -> Listing {
        Listing::Always(|_, pattern| listing::select(&listing::RATES, pattern))
    }

    fn ends_with_rate(&self) -> bool {
        true
    }

    fn reads(&self) -> Reads {
        Reads::Text("state, pid, tid, comm, kstack, ustack, curtask")
    }

    fn nature(&self, _name: &str) -> Nature {
        super::nature::OWN_EVENT
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![SelfTest::optional(
            "wall",
            "wall:hz:200 / pid == PID /",
            Trigger::Nothing,
            Advice::Text("needs BTF and a kernel since 5.15"),
        )]
    }
}

fn seed(name: String, period_ns: u64, btf: &Btf, context: BtfId) -> Seed {
    let mut seed = Seed::new(name, "iter/task".into(), ContextKind::Iterator, Attach::Visits { period_ns });
    // The program runs in profiler's own thread, where other programs can preempt it.
    seed.context.preemptible = true;
    seed.context_struct = Some(context);
    seed.context.typed_words = btf.iterators().pointers(context);
    // Only the program knows the thread that it is at. The kernel can limit an iterator to one
    // process, but not to several, and the number of one that has ended may be another's.
    seed.pid_filter = PidFilter::OptionOrCommand;
    seed.no_args = "a visited thread has `state`, `pid`, `comm`, and `curtask` for the rest";
    seed
}
