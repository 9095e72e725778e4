//! `interval:UNIT:N`: once every so often, on one CPU.

use crate::ast::AttachPoint;
use crate::check::{Points, Seed};
use crate::object::{Attach, Rate};
use crate::typed::ContextKind;
use crate::words::{Doc, ProbeKind};

/// `interval`.
#[derive(Debug)]
pub struct Interval;

impl ProbeKind for Interval {
    fn name(&self) -> &'static str {
        "interval"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["i"]
    }

    fn doc(&self) -> Doc {
        Doc {
            signature: "interval:s:N, interval:100ms, interval:hz:N",
            summary: "once every so often, on one CPU",
            page: include_str!("../../../../spec/words/probes/interval.md"),
        }
    }

    fn expand(&'static self, cx: &mut Points<'_, '_>, point: &AttachPoint) -> Vec<Seed> {
        let period_ns = match cx.rate(point, "interval:s:N") {
            Some(Rate::Period(ns)) => ns,
            Some(Rate::Hertz(n)) => 1_000_000_000 / n,
            None => return Vec::new(),
        };
        let name = super::full_name(self.name(), point);
        vec![Seed::new(name, "raw_tp".into(), ContextKind::Empty, Attach::Timer { period_ns })]
    }
}
