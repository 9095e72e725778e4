//! A row of call-frame information as a rule.
//!
//! In: a row of gimli and its section. Out: the [`Rule`].
//! Guarantee: a row that no rule expresses becomes [`Special::Unsupported`], never a wrong rule.

use gimli::{
    CfaRule, EndianSlice, LittleEndian, Reader, Register, RegisterRule, UnwindExpression, UnwindSection,
    UnwindTableRow, X86_64, constants,
};
use profiler_model::unwind::{Rule, SavedRbp, Special};

/// The bytes of a section.
pub(super) type Bytes<'data> = EndianSlice<'data, LittleEndian>;

const WORD_BYTES: i64 = 8;
const UNSUPPORTED: Rule = Rule::Special(Special::Unsupported);

/// What linkers write for lazy procedure linkage tables: `rsp + 8 + (((rip & 15) >= N) << 3)`. N is
/// in one byte of it; it depends on the form of the entries.
const PLT: [u8; 11] = [0x77, 8, 0x80, 0, 0x3f, 0x1a, constants::DW_OP_lit11.0, 0x2a, 0x33, 0x24, 0x22];
const PLT_FROM: usize = 6;
/// `rbp + 0`: where functions that realign their stack save RBP.
const AT_RBP: [u8; 2] = [constants::DW_OP_breg6.0, 0];

/// The rule that a row expresses.
pub(super) fn rule<'data, Section: UnwindSection<Bytes<'data>>>(
    row: &UnwindTableRow<usize>,
    section: &Section,
) -> Rule {
    match row.register(X86_64::RA) {
        Some(RegisterRule::Undefined) => return Rule::Special(Special::Outermost),
        Some(RegisterRule::Offset(offset)) if offset == -WORD_BYTES => {}
        Some(RegisterRule::Register(X86_64::RDI)) if is_below_return(row) => return Rule::Special(Special::InRdi),
        _ => return UNSUPPORTED,
    }
    let rbp = row.register(X86_64::RBP);
    let rule = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => from_register(*register, *offset, rbp.as_ref()),
        CfaRule::Expression(expression) => from_expression(*expression, rbp.as_ref(), section),
    };
    rule.unwrap_or(UNSUPPORTED)
}

/// Whether the CFA is RSP, as after the return address has been taken off the stack, and RBP has
/// the caller's value.
fn is_below_return(row: &UnwindTableRow<usize>) -> bool {
    let is_own_rbp = saved(row.register(X86_64::RBP).as_ref()) == Some(0);
    matches!(row.cfa(), CfaRule::RegisterAndOffset { register: X86_64::RSP, offset: 0 }) && is_own_rbp
}

fn from_register(register: Register, offset: i64, rbp: Option<&RegisterRule<usize>>) -> Option<Rule> {
    let (words, rbp) = (words(offset)?, saved(rbp)?);
    match register {
        X86_64::RSP => Some(Rule::FromRsp { words, rbp }),
        X86_64::RBP => Some(Rule::FromRbp { words, rbp }),
        // Where the function that it calls saves RBX is not known here.
        X86_64::RBX if rbp == 0 => Some(Rule::FromRbx { words, saved: 0 }),
        _ => None,
    }
}

fn from_expression<'data, Section: UnwindSection<Bytes<'data>>>(
    cfa: UnwindExpression<usize>,
    rbp: Option<&RegisterRule<usize>>,
    section: &Section,
) -> Option<Rule> {
    let cfa = cfa.get(section).ok()?.0;
    if let Some(RegisterRule::Expression(place)) = rbp {
        let is_at_rbp = place.get(section).ok()?.0.slice() == AT_RBP;
        return Some(Rule::Realigned { words: realigned(cfa)? }).filter(|_| is_at_rbp);
    }
    if let Some(words) = stored(cfa) {
        return Some(Rule::Stored { words, rbp: saved(rbp)? });
    }
    let is_plt = cfa.slice().iter().enumerate().all(|(at, byte)| at == PLT_FROM || PLT.get(at) == Some(byte));
    if saved(rbp)? != 0 || cfa.slice().len() != PLT.len() || !is_plt {
        return None;
    }
    let special = match constants::DwOp(cfa.slice()[PLT_FROM]) {
        constants::DW_OP_lit9 => Special::Plt9,
        constants::DW_OP_lit10 => Special::Plt10,
        constants::DW_OP_lit11 => Special::Plt11,
        _ => return None,
    };
    Some(Rule::Special(special))
}

/// N of the expression "what is stored N words below RBP".
fn realigned(mut expression: Bytes<'_>) -> Option<u32> {
    let first = expression.read_u8().ok()?;
    let offset = expression.read_sleb128().ok()?;
    let is_stored = first == constants::DW_OP_breg6.0 && expression.slice() == [constants::DW_OP_deref.0];
    words(offset.checked_neg()?).filter(|_| is_stored)
}

/// N of the expression "8 more than what is stored N words above RSP".
fn stored(mut expression: Bytes<'_>) -> Option<u32> {
    let first = expression.read_u8().ok()?;
    let offset = expression.read_sleb128().ok()?;
    let rest = [constants::DW_OP_deref.0, constants::DW_OP_plus_uconst.0, WORD_BYTES as u8];
    words(offset).filter(|_| first == constants::DW_OP_breg7.0 && expression.slice() == rest)
}

/// How many words below the CFA a function saved RBX; 0 if it did not.
pub(super) fn saved_rbx(row: &UnwindTableRow<usize>) -> u32 {
    match row.register(X86_64::RBX) {
        Some(RegisterRule::Offset(offset)) => offset.checked_neg().and_then(words).unwrap_or(0),
        _ => 0,
    }
}

/// How many words below the CFA a function saved RBP.
fn saved(rbp: Option<&RegisterRule<usize>>) -> Option<SavedRbp> {
    match rbp {
        // Code that never uses RBP may leave its rule undefined.
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Some(0),
        Some(RegisterRule::Offset(offset)) => words(offset.checked_neg()?).filter(|words| *words > 1),
        Some(_) => None,
    }
}

fn words(offset_bytes: i64) -> Option<u32> {
    if offset_bytes % WORD_BYTES == 0 { u32::try_from(offset_bytes / WORD_BYTES).ok() } else { None }
}
