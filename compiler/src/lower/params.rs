//! Parameters: numbers and texts in read-only data, and comparisons with sets.
//!
//! In: typed expressions that use a parameter. Out: [`Value`]s and branches.
//! Guarantee: any condition that depends only on the parameter compares a `.rodata` constant with a
//! constant. The kernel knows the contents of frozen read-only data, so its verifier removes code
//! that the current value does not need: a filter on `any` costs nothing.

use crate::ir::{Addr, Arg, BlockId, CmpOp, Helper, Map, MapId, MapKind, Section, Size, VReg};
use crate::lower::conditions::{self, Branches};
use crate::lower::shared::Shared;
use crate::lower::{Body, Value, patterns};
use crate::params::MOST_COMPARED;
use crate::typed::{Expr, ExprKind};
use crate::types::Type;

impl Shared<'_> {
    /// Puts the values of all parameters that programs read at the start of `.rodata`.
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

    /// A parameter's name as a unique part of symbols. Only names from modules contain `.` or `'`.
    fn param_symbol(&self, name: &str) -> String {
        let mut symbol = name.replace(['.', '\''], "_");
        while self.param_symbols.contains(&symbol) {
            symbol.push('_');
        }
        symbol
    }

    /// The map of a large set, created on first use.
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

    /// The `.rodata` offset of a parameter's value.
    pub(super) fn param_offset(&self, index: usize) -> u32 {
        self.param_offsets[index]
    }

    /// The parameters with their final offsets and maps.
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

pub(super) fn address(cx: &mut Body<'_, '_>, index: usize, offset_bytes: u32) -> Addr {
    let offset = cx.shared.param_offsets[index] + offset_bytes;
    Addr::reg(cx.b.data_addr(Section::Rodata, offset), 0)
}

/// The value of a parameter.
pub(super) fn value(cx: &mut Body<'_, '_>, index: usize) -> Value {
    if cx.shared.program.params[index].ty.is_text() {
        return Value::Memory(address(cx, index, 8));
    }
    let addr = address(cx, index, 0);
    Value::Scalar(cx.b.load(addr, Size::B8).into())
}

/// Jumps to `yes` if the value is one of those that the parameter gives, else to `no`.
pub(super) fn branch_on(cx: &mut Body<'_, '_>, value: &Expr, index: usize, yes: BlockId, no: BlockId) {
    let head = address(cx, index, 0);
    let head = cx.b.load(head, Size::B8);
    let compared = cx.b.new_block();
    let ty = cx.shared.program.params[index].ty;
    cx.branch(CmpOp::Eq, head, i64::from(!ty.is_set()), yes, compared);
    cx.b.switch_to(compared);
    cx.conditionally(|cx| {
        if ty.is_pattern() {
            patterns::branch_on(cx, value, index, yes, no);
        } else if ty.is_text() {
            let ty = Type::Str { capacity_bytes: cx.shared.program.params[index].ty.capacity_bytes() };
            let text = Expr { kind: ExprKind::Param(index), ty, span: value.span };
            conditions::branch_on_equal_strings(cx, value, &text, yes, no);
        } else {
            branch_on_member(cx, value, index, head, Branches { equal: yes, other: no });
        }
    });
}

/// Jumps to `equal` if the value is one of `count` members of a set.
fn branch_on_member(cx: &mut Body<'_, '_>, value: &Expr, index: usize, count: VReg, to: Branches) {
    let value = cx.scalar_reg(value);
    let (large, small) = (cx.b.new_block(), cx.b.new_block());
    cx.branch(CmpOp::Gt, count, MOST_COMPARED as i64, large, small);
    cx.b.switch_to(large);
    let key = cx.brief_word("member");
    cx.b.store(key, value, Size::B8);
    let map = cx.shared.param_map(index);
    let key = cx.address_arg(key);
    let found = cx.b.call(Helper::MapLookupElem, &[Arg::Map(map), key]);
    cx.branch(CmpOp::Ne, found, 0, to.equal, to.other);
    cx.b.switch_to(small);
    for at in 0..MOST_COMPARED {
        let (there, next) = (cx.b.new_block(), cx.b.new_block());
        cx.branch(CmpOp::Gt, count, at as i64, there, to.other);
        cx.b.switch_to(there);
        let member = address(cx, index, 8 + 8 * at as u32);
        let member = cx.b.load(member, Size::B8);
        cx.branch(CmpOp::Eq, value, member, to.equal, next);
        cx.b.switch_to(next);
    }
    cx.b.jump(to.other);
}
