//! Records and states of the random scripts.
//!
//! In: a map of records. Out: writes and reads of their fields. Guarantee: a number is cast to the
//! width of the field that it is written to.

use profiler_compiler::ast::{BinaryOp, Expr, ExprKind, State, StatePart, Stmt, StmtKind, TypeName, TypeSuffix};
use profiler_compiler::source::Span;

use super::Generator;
use super::shapes::{FieldShape, Held, MapShape, Ty};
use crate::tree;

/// Types of a state's fields.
const WIDTHS: &[&str] = &["int64", "uint64", "int32", "uint32", "int16", "uint8"];
/// Compound assignment operators for a field.
const IN_PLACE: &[BinaryOp] =
    &[BinaryOp::Add, BinaryOp::Sub, BinaryOp::BitAnd, BinaryOp::BitOr, BinaryOp::BitXor, BinaryOp::Mul];

impl Generator {
    pub(super) fn record(&mut self) -> Held {
        let fields = (0..=self.dice.below(4)).map(|index| {
            // For a probe or a time, an unwritten value could not be recognized.
            let ty = match self.ty(1) {
                Ty::Word(_) => Ty::Int,
                ty => ty,
            };
            FieldShape { name: format!("f{index}"), ty, width: None }
        });
        Held::Record(fields.collect())
    }

    /// A declared state, as the map that holds it. Its name has the prefix of states.
    pub(super) fn state(&mut self, index: u64) -> MapShape {
        let name = format!("s{index}");
        let part = |name: &str, ty: Option<TypeName>| StatePart { name: tree::ident(name), ty };
        let (key, of_key) = match self.dice.below(3) {
            0 => (None, vec![part("tid", None)]),
            1 => (Some(vec![Ty::Int]), vec![part("k", Some(named("int64")))]),
            _ => (Some(vec![Ty::Int, Ty::Int]), vec![part("k", Some(named("int64"))), part("l", Some(named("int64")))]),
        };
        let fields: Vec<FieldShape> = (0..=self.dice.below(4))
            .map(|index| {
                let ty = if self.dice.one_in(4) { Ty::Str } else { Ty::Int };
                let width = if ty == Ty::Int { Some(self.dice.pick(WIDTHS)) } else { None };
                FieldShape { name: format!("f{index}"), ty, width }
            })
            .collect();
        let declared = |field: &FieldShape| {
            let ty = field
                .width
                .map_or_else(|| TypeName { suffixes: vec![TypeSuffix::Array(200)], ..named("string") }, named);
            part(&field.name, Some(ty))
        };
        self.states.push(State {
            name: tree::ident(&name),
            key: of_key,
            fields: fields.iter().map(declared).collect(),
            limit: None,
            span: Span::default(),
        });
        MapShape { name: format!("~{name}"), key, held: Held::Record(fields) }
    }

    /// A write of one field.
    pub(super) fn write_field(&mut self, map: &MapShape, fields: &[FieldShape]) -> Stmt {
        let field = fields[self.dice.below(fields.len() as u64) as usize].clone();
        let place = self.place(map);
        let place = tree::expr(ExprKind::Field(Box::new(place), tree::ident(&field.name)));
        if field.ty == Ty::Int {
            match self.dice.below(5) {
                0 => return tree::stmt(StmtKind::Expr(tree::step(place, self.dice.one_in(2), false))),
                1 => {
                    let (op, value) = (self.dice.pick(IN_PLACE), self.int(2));
                    return tree::assign(place, Some(op), fitted(&field, value));
                }
                _ => {}
            }
        }
        let value = self.value(&field.ty, 2);
        tree::assign(place, None, fitted(&field, value))
    }

    /// Writes every field somewhere, which makes it a field of the record.
    pub(super) fn write_all_fields(&mut self, map: &MapShape, fields: &[FieldShape], body: &mut Vec<Stmt>) {
        for field in fields {
            let (place, value) = (self.place(map), self.value(&field.ty, 2));
            let place = tree::expr(ExprKind::Field(Box::new(place), tree::ident(&field.name)));
            body.push(tree::assign(place, None, fitted(field, value)));
        }
    }

    /// A field of the type, of any record.
    pub(super) fn field(&mut self, ty: &Ty) -> Option<Expr> {
        let mut fits: Vec<(MapShape, String)> = Vec::new();
        for map in &self.maps {
            if let Held::Record(fields) = &map.held {
                let of_type = fields.iter().filter(|field| field.ty == *ty);
                fits.extend(of_type.map(|field| (map.clone(), field.name.clone())));
            }
        }
        if fits.is_empty() {
            return None;
        }
        let (map, field) = fits.swap_remove(self.dice.below(fits.len() as u64) as usize);
        let place = self.place(&map);
        Some(tree::expr(ExprKind::Field(Box::new(place), tree::ident(&field))))
    }
}

fn named(name: &str) -> TypeName {
    TypeName { name: name.to_owned(), ..TypeName::unnamed(Span::default()) }
}

/// A number cast to a declared field's width: a constant must fit.
fn fitted(field: &FieldShape, value: Expr) -> Expr {
    field.width.map_or(value.clone(), |width| tree::cast(width, value))
}
