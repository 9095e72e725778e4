//! C definitions as indented text.
//!
//! In: definitions. Out: as for the parent.

use super::Printer;
use crate::ast::{Attributes, CType, CTypeKind, Declarator, Definition, DefinitionKind, Ident, TypeTag};

impl Printer {
    pub(super) fn definition(&mut self, definition: &Definition) {
        match &definition.kind {
            DefinitionKind::Type(ty) => self.parent("define type", |p| p.c_type(ty)),
            DefinitionKind::Typedef(ty, declarators) => self.parent("typedef", |p| {
                p.c_type(ty);
                p.declarators(declarators);
            }),
        }
    }

    fn c_type(&mut self, ty: &CType) {
        match &ty.kind {
            CTypeKind::Name(name) => self.line(&format!("type {name}")),
            CTypeKind::Tagged(tag, name) => {
                let word = match tag {
                    TypeTag::Struct => "struct",
                    TypeTag::Union => "union",
                    _ => "enum",
                };
                self.line(&format!("type {word} {}", name.text));
            }
            CTypeKind::Record(record) => {
                let word = if record.is_union { "union" } else { "struct" };
                self.parent(&format!("{word}{}", named(record.name.as_ref())), |p| {
                    p.attributes(&record.attributes);
                    for member in &record.members {
                        p.parent("member", |p| {
                            p.c_type(&member.ty);
                            p.declarators(&member.declarators);
                        });
                    }
                });
            }
            CTypeKind::Enum(definition) => {
                self.parent(&format!("enum{}", named(definition.name.as_ref())), |p| {
                    for (name, value) in &definition.values {
                        p.parent(&name.text, |p| p.optional(value.as_ref()));
                    }
                });
            }
        }
    }

    fn declarators(&mut self, declarators: &[Declarator]) {
        for declarator in declarators {
            let function = if declarator.is_function { " function" } else { "" };
            let stars = "*".repeat(declarator.pointers as usize);
            self.parent(&format!("name{function} {stars}{}", named(declarator.name.as_ref()).trim()), |p| {
                p.attributes(&declarator.attributes);
                for dimension in &declarator.dimensions {
                    p.parent("length", |p| p.optional(dimension.as_ref()));
                }
                if let Some(bits) = &declarator.bits {
                    p.parent("bits", |p| p.expr(bits));
                }
            });
        }
    }

    fn attributes(&mut self, attributes: &Attributes) {
        if attributes.packed {
            self.line("packed");
        }
        if let Some(aligned) = &attributes.aligned {
            self.parent("aligned", |p| p.expr(aligned));
        }
    }
}

fn named(name: Option<&Ident>) -> String {
    name.map(|name| format!(" {}", name.text)).unwrap_or_default()
}
