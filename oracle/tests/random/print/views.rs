//! Prints views.
//!
//! In: a view. Out: its lines. Guarantee: the same as in the parent module.

use profiler_compiler::ast::{View, ViewColumn};

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
        if let Some(filter) = &view.filter {
            self.line(&format!("where {}", expr(filter)));
        }
        if let Some(sort) = &view.sort {
            let order = sort.ascending.map_or("", |ascending| if ascending { " asc" } else { " desc" });
            self.line(&format!("sort {}{order}", expr(&sort.by)));
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
    format!("{}{header}", expr(&column.value))
}
