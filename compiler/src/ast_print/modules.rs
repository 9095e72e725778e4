//! Parameters, modules and public names as indented text.
//!
//! In: a script. Out: one line each. Guarantee: as for the parent.

use super::Printer;
use crate::ast::{Param, ParamValue, PublicKind, Script};
use std::fmt::Write as _;

impl Printer {
    /// Parameters, used modules and public names.
    pub(super) fn outside(&mut self, script: &Script) {
        for of in &script.uses {
            self.line(&format!("use {} as {}", of.module.text, of.prefix()));
        }
        for param in &script.params {
            self.line(&param_text(param));
        }
        for public in &script.public {
            let sigil = match public.kind {
                PublicKind::Macro => "",
                PublicKind::Map => "@",
                PublicKind::Param => "$",
                PublicKind::Span => "span ",
                PublicKind::View => "view ",
            };
            self.line(&format!("public {sigil}{}", public.name.text));
        }
        for module in &script.modules {
            self.parent(&format!("module {}", module.path), |p| p.script(&module.script));
        }
    }
}

fn param_text(param: &Param) -> String {
    let mut text = format!("param {}: {}", param.name.text, param.ty.text);
    for (index, value) in param.default.iter().enumerate() {
        let _ = write!(text, "{}{}", if index == 0 { " = " } else { ", " }, value_text(value));
    }
    let _ = write!(text, " {:?}", param.help.text);
    if let Some((low, high)) = &param.range {
        let _ = write!(text, " in {}..{}", value_text(low), value_text(high));
    }
    text
}

fn value_text(value: &ParamValue) -> String {
    if value.quoted { format!("{:?}", value.text) } else { value.text.clone() }
}
