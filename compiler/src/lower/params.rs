//! Parameters: numbers and texts in read-only data, and comparisons with sets.
//!
//! In: typed expressions that use a parameter. Out: [`Value`]s and branches.
//! Guarantee: all that depends on the parameter alone is a comparison of a constant of `.rodata` with a constant. The kernel knows
//! the contents of frozen read-only data, so its verifier removes what the present value does not need: a filter on `any` costs nothing.

use crate::ir::{Addr, Arg, BlockId, CmpOp, Helper, Map, MapId, MapKind, Section, Size, VReg};
use crate::lower::{Body, Shared, Value};
use crate::params::MOST_COMPARED;
use crate::typed::{Expr, ExprKind};
use crate::types::Type;

impl Shared<'_> {
    /// Puts the values of all parameters that programs read into `.rodata`, before anything else.
    pub(super) fn place_params(&mut self) {
        let program = self.program;
        for param in &program.params {
            let offset = param.place.is_some().then(|| self.rodata(&param.bytes(&param.value)));
            let symbol = self.param_symbol(&param.name);
            if let Some(offset) = offset {
                self.ir.rodata_names.push((format!("param_{symbol}"), offset, param.ty.size_bytes()));
            }
            self.param_symbols.push(symbol);
            self.param_offsets.push(offset.unwrap_or(0));
        }
        self.param_maps = vec![None; program.params.len()];
    }

    /// A parameter's name as a part of symbols, which no other has; only names of modules have marks in them.
    fn param_symbol(&self, name: &str) -> String {
        let mut symbol = name.replace(['.', '\''], "_");
        while self.param_symbols.contains(&symbol) {
            symbol.push('_');
        }
        symbol
    }

    /// The map of a large set, made on first use.
    fn param_map(&mut self, index: usize) -> MapId {
        if let Some(known) = self.param_maps[index] {
            return known;
        }
        let param = &self.program.params[index];
        self.ir.maps.push(Map {
            name: format!("set_{}", self.param_symbols[index]),
            kind: MapKind::Hash,
            key_size_bytes: 8,
            value_size_bytes: 8,
            max_entries: param.in_map(&param.value).len().max(1) as u32,
            no_prealloc: true,
        });
        let id = MapId(self.ir.maps.len() as u32 - 1);
        self.param_maps[index] = Some(id);
        id
    }

    /// Where a parameter's value is in `.rodata`.
    pub(super) fn param_offset(&self, index: usize) -> u32 {
        self.param_offsets[index]
    }

    /// The parameters with the places that they got.
    pub(super) fn finish_params(&self) -> Vec<crate::params::Param> {
        let mut params = self.program.params.clone();
        for (index, param) in params.iter_mut().enumerate() {
            if let Some(place) = &mut param.place {
                place.offset_bytes = self.param_offsets[index];
                place.overflow = self.param_maps[index].map(|id| self.ir.maps[id.0 as usize].name.clone());
            }
        }
        params
    }
}

impl Body<'_, '_> {
    pub(super) fn param_at(&mut self, index: usize, offset_bytes: u32) -> Addr {
        let offset = self.shared.param_offsets[index] + offset_bytes;
        Addr::reg(self.b.data_addr(Section::Rodata, offset), 0)
    }

    /// The value of a parameter.
    pub(super) fn param(&mut self, index: usize) -> Value {
        if self.shared.program.params[index].ty.is_text() {
            return Value::Memory(self.param_at(index, 8));
        }
        let addr = self.param_at(index, 0);
        Value::Scalar(self.b.load(addr, Size::B8).into())
    }

    /// Goes on at `yes` when the value is one of those that the parameter gives, else at `no`.
    pub(super) fn branch_on_param(&mut self, value: &Expr, index: usize, yes: BlockId, no: BlockId) {
        let head = self.param_at(index, 0);
        let head = self.b.load(head, Size::B8);
        let compared = self.b.new_block();
        let ty = self.shared.program.params[index].ty;
        self.branch(CmpOp::Eq, head, i64::from(!ty.is_set()), yes, compared);
        self.b.switch_to(compared);
        self.conditionally(|cx| {
            if ty == crate::params::Type::Regex {
                cx.branch_on_pattern(value, index, yes, no);
            } else if ty.is_text() {
                let ty = Type::Str { capacity_bytes: cx.shared.program.params[index].ty.room_bytes() };
                let text = Expr { kind: ExprKind::Param(index), ty, span: value.span };
                cx.branch_on_equal_strings(value, &text, yes, no);
            } else {
                cx.branch_on_member(value, index, head, yes, no);
            }
        });
    }

    fn branch_on_member(&mut self, value: &Expr, index: usize, count: VReg, yes: BlockId, no: BlockId) {
        let value = self.scalar_reg(value);
        let (large, small) = (self.b.new_block(), self.b.new_block());
        self.branch(CmpOp::Gt, count, MOST_COMPARED as i64, large, small);
        self.b.switch_to(large);
        let key = self.memory(8, "member");
        self.b.store(key, value, Size::B8);
        let map = self.shared.param_map(index);
        let key = self.address_arg(key);
        let found = self.b.call(Helper::MapLookupElem, &[Arg::Map(map), key]);
        self.branch(CmpOp::Ne, found, 0, yes, no);
        self.b.switch_to(small);
        for at in 0..MOST_COMPARED {
            let (there, next) = (self.b.new_block(), self.b.new_block());
            self.branch(CmpOp::Gt, count, at as i64, there, no);
            self.b.switch_to(there);
            let member = self.param_at(index, 8 + 8 * at as u32);
            let member = self.b.load(member, Size::B8);
            self.branch(CmpOp::Eq, value, member, yes, next);
            self.b.switch_to(next);
        }
        self.b.jump(no);
    }
}
