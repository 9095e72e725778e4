//! `profile:hz:N`: N times per second on every CPU.

use crate::ast::AttachPoint;
use crate::catalogue::{Advice, Listing, Nature, ProbeKind, SelfTest, Trigger};
use crate::check::{PidFilter, Points, Seed};
use crate::diagnostic::{Code, Diagnostic};
use crate::object::{Attach, CPU_CLOCK, Rate, SOFTWARE};
use crate::typed::ContextKind;
use crate::words::probes::listing;

/// `profile`.
#[derive(Debug)]
pub(super) struct Profile;

impl ProbeKind for Profile {
    word!("profile", "probes/profile");

    fn aliases(&self) -> &'static [&'static str] {
        &["p"]
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let Some(rate) = cx.rate(point, "profile:hz:N") else { return Vec::new() };
        if let (Rate::Hertz(wanted), Some(most)) = (rate, cx.env.target.most_samples_hz())
            && wanted > most
        {
            let message = format!("this kernel takes at most {most} samples a second on a CPU");
            let help =
                format!("ask for fewer, or raise the limit: `sysctl kernel.perf_event_max_sample_rate={wanted}`");
            cx.error(Diagnostic::error(Code(404), point.span, message).help(help));
            return Vec::new();
        }
        let attach = Attach::PerfEvent { kind: SOFTWARE, config: CPU_CLOCK, rate };
        let name = super::point::full_name(self.name(), point);
        let mut seed = Seed::new(name, "perf_event".into(), ContextKind::PerfEvent, attach);
        seed.pid_filter = PidFilter::OptionOrCommand;
        vec![seed]
    }

    fn listing(&self) -> Listing {
        Listing::Always(|_, pattern| listing::select(&listing::RATES, pattern))
    }

    fn ends_with_rate(&self) -> bool {
        true
    }

    fn nature(&self, _name: &str) -> Nature {
        super::nature::OWN_EVENT
    }

    fn self_tests(&self) -> Vec<SelfTest> {
        vec![SelfTest::optional(
            "profile",
            "profile:hz:999 / pid == PID /",
            Trigger::Compute,
            Advice::Text("`interval:` fires on one CPU"),
        )]
    }
}
