//! Where the frame of a function begins (CFA) before one of its instructions.
//!
//! In: the sections with unwind tables. Out: a register and the distance of the frame from it.
//! Guarantee: an address that no table describes has no frame.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EndianSlice, LittleEndian, UnwindContext, UnwindSection,
};

use super::entries::Entries;
use super::file::{FrameSections, Slice};

/// Limit in bytes of the table of one function, which is read from its start.
const MAX_TABLE_BYTES: usize = 1 << 20;

/// The start of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// The number in DWARF of a register.
    pub register: u16,
    /// The distance in bytes from the address in it.
    pub offset: i64,
}

/// The frame before the instruction at an address.
pub(super) fn at(entries: &Entries<'_, '_>, sections: &FrameSections, address: u64) -> Option<Frame> {
    let bases = BaseAddresses::default().set_eh_frame(sections.loaded_at);
    let loaded = EhFrame::from(EndianSlice::new(&sections.loaded, LittleEndian));
    let in_loaded = frame(entries, &loaded, &bases, address);
    in_loaded.or_else(|| {
        let mut debug = DebugFrame::from(EndianSlice::new(&sections.debug, LittleEndian));
        debug.set_address_size(8);
        frame(entries, &debug, &bases, address)
    })
}

fn frame<'data, Section: UnwindSection<Slice<'data>>>(
    entries: &Entries<'_, '_>,
    section: &Section,
    bases: &BaseAddresses,
    address: u64,
) -> Option<Frame> {
    let mut list = section.entries(bases);
    while let (Ok(Some(entry)), Some(())) = (list.next(), entries.step()) {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(described) = partial.parse(Section::cie_from_offset) else { continue };
        if !described.contains(address) {
            continue;
        }
        if described.entry_len() > MAX_TABLE_BYTES {
            return None;
        }
        let mut context = UnwindContext::new();
        let row = described.unwind_info_for_address(section, bases, &mut context, address).ok()?;
        return match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => Some(Frame { register: register.0, offset: *offset }),
            CfaRule::Expression(_) => None,
        };
    }
    None
}
