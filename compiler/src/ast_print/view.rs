//! Views as indented text.
//!
//! In: views. Out: as for the parent.

use super::Printer;
use crate::ast::{STATE_MARK, View};

impl Printer {
    pub(super) fn view(&mut self, view: &View) {
        self.parent(&format!("view {:?}", view.title.text), |p| {
            for map in &view.of {
                p.line(&format!("of {}", spelled(&map.text)));
            }
            if let Some(by) = &view.by {
                p.line(&format!("by {}", by.text));
            }
            for column in &view.show {
                let header = column.header.as_ref().map_or(String::new(), |header| format!(" as {:?}", header.text));
                p.parent(&format!("show{header}"), |p| p.expr(&column.value));
            }
            if let Some(filter) = &view.filter {
                p.parent("where", |p| p.expr(filter));
            }
            if let Some(sort) = &view.sort {
                let order = match sort.ascending {
                    Some(true) => " asc",
                    Some(false) => " desc",
                    None => "",
                };
                p.parent(&format!("sort{order}"), |p| p.expr(&sort.by));
            }
            if let Some(top) = &view.top {
                p.parent(if top.rest { "top rest" } else { "top" }, |p| p.expr(&top.rows));
            }
            if let Some(every) = &view.every {
                p.parent(if every.clear { "every clear" } else { "every" }, |p| p.expr(&every.period));
            }
            if view.flame.is_some() {
                p.line("flame");
            }
            if let Some(empty) = &view.empty {
                p.line(&format!("empty {:?}", empty.text));
            }
        });
    }
}

fn spelled(map: &str) -> String {
    map.strip_prefix(STATE_MARK).map_or_else(|| format!("@{map}"), str::to_owned)
}
