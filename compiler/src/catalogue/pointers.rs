//! Which pointers the kernel's verifier knows the types of.
//!
//! In: a typed expression. Out: the struct that it points to, as the verifier sees it.
//! Guarantee: only what every verifier from 6.1 on types so. A pointer that goes through a
//! variable, a map, a cast or an array element has no such type.

use super::Catalogue;
use crate::btf::{Btf, BtfId, Step};
use crate::typed::{Expr, ExprKind};
use crate::types::{Space, Type};

/// What is known where an expression is evaluated.
#[derive(Clone, Copy)]
pub struct TypedPointers<'a> {
    /// The builtins.
    pub catalogue: &'a Catalogue,
    /// The kernel's types.
    pub btf: Option<&'a Btf>,
    /// The words of the context that are such pointers; empty where the context is not at hand.
    pub words: &'a [(u32, BtfId)],
}

impl TypedPointers<'_> {
    /// The struct that a pointer points to, if the verifier knows that.
    pub fn owner(self, pointer: &Expr) -> Option<BtfId> {
        let Type::Pointer { to, space: Space::Kernel } = &pointer.ty else { return None };
        let Type::Struct { id, .. } = **to else { return None };
        let found = match &pointer.kind {
            ExprKind::Builtin(word, _) => self.catalogue.builtin_of(word).typed_by().map(|_| id)?,
            ExprKind::ContextArg(word) => self.of_word(*word)?,
            ExprKind::Deref { base, offset_bytes, bits: None } => match self.context_word(base, *offset_bytes) {
                Some(word) => self.of_word(word)?,
                None => match self.step(self.owner(base)?, *offset_bytes, 8)? {
                    Step::Pointer(to) => to,
                    Step::Number | Step::Address => return None,
                },
            },
            _ => return None,
        };
        (found == id).then_some(found)
    }

    /// The result of a load through a pointer to this struct.
    pub fn step(self, owner: BtfId, offset_bytes: u32, size_bytes: u32) -> Option<Step> {
        i16::try_from(offset_bytes).ok()?;
        self.btf?.verifier().walk(owner, offset_bytes, size_bytes)
    }

    /// The index of the context word at this offset from the context.
    pub fn context_word(self, base: &Expr, offset_bytes: u32) -> Option<u32> {
        let ExprKind::Builtin(word, _) = &base.kind else { return None };
        let is_word = self.catalogue.builtin_of(word).is_context() && offset_bytes.is_multiple_of(8);
        is_word.then_some(offset_bytes / 8)
    }

    fn of_word(self, word: u32) -> Option<BtfId> {
        self.words.iter().find(|(of, _)| *of == word).map(|(_, to)| *to)
    }
}
