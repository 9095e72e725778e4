//! Views as text.
//!
//! In: a view. Out: its lines. Guarantee: as for the parent.

use profiler_compiler::ast::{View, ViewColumn, ViewName};

use super::{Printer, expr, string};

impl Printer {
    pub(super) fn view(&mut self, view: &View) {
        self.line(&format!("view {} {{", string(view.title.text.as_bytes())));
        self.depth += 1;
        let maps: Vec<String> = view.of.iter().map(|map| format!("@{}", map.text)).collect();
        self.line(&format!("of {}", maps.join(", ")));
        if !view.show.is_empty() {
            self.line(&format!("show {}", view.show.iter().map(column).collect::<Vec<String>>().join(", ")));
        }
        if let Some(sort) = &view.sort {
            let order = sort.ascending.map_or("", |ascending| if ascending { " asc" } else { " desc" });
            self.line(&format!("sort {}{order}", name(&sort.name)));
        }
        if let Some(top) = &view.top {
            self.line(&format!("top {}{}", expr(&top.rows), if top.rest { " rest" } else { "" }));
        }
        if let Some(every) = &view.every {
            self.line(&format!("every {}{}", expr(&every.period), if every.clear { " clear" } else { "" }));
        }
        self.depth -= 1;
        self.line("}");
    }
}

fn column(column: &ViewColumn) -> String {
    let header = column.header.as_ref().map_or(String::new(), |text| format!(" as {}", string(text.text.as_bytes())));
    format!("{}{header}", name(&column.name))
}

fn name(of: &ViewName) -> String {
    of.map.as_ref().map_or(String::new(), |map| format!("@{}.", map.text)) + &of.name.text
}
