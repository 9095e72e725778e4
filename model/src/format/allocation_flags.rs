//! Names of the flags of a memory allocation (`gfp_t`), for `%gr`.
//!
//! In: the flags as the kernel stores them. Out: names joined by `|`, as the kernel's tracepoints
//! print them.
//! Guarantee: no bit is lost: those without a name follow as one hexadecimal number.
//!
//! The bits are those of `include/linux/gfp_types.h` of Linux 6.12. Earlier kernels number the rare
//! flags from `__GFP_ZEROTAGS` on differently.

use std::fmt::Write as _;

const DMA: u64 = 1 << 0;
const HIGHMEM: u64 = 1 << 1;
const DMA32: u64 = 1 << 2;
const MOVABLE: u64 = 1 << 3;
const RECLAIMABLE: u64 = 1 << 4;
const HIGH: u64 = 1 << 5;
const IO: u64 = 1 << 6;
const FS: u64 = 1 << 7;
const ZERO: u64 = 1 << 8;
const DIRECT_RECLAIM: u64 = 1 << 10;
const KSWAPD_RECLAIM: u64 = 1 << 11;
const WRITE: u64 = 1 << 12;
const NOWARN: u64 = 1 << 13;
const RETRY_MAYFAIL: u64 = 1 << 14;
const NOFAIL: u64 = 1 << 15;
const NORETRY: u64 = 1 << 16;
const MEMALLOC: u64 = 1 << 17;
const COMP: u64 = 1 << 18;
const NOMEMALLOC: u64 = 1 << 19;
const HARDWALL: u64 = 1 << 20;
const THISNODE: u64 = 1 << 21;
const ACCOUNT: u64 = 1 << 22;
const ZEROTAGS: u64 = 1 << 23;
const SKIP_ZERO: u64 = 1 << 24;
const SKIP_KASAN: u64 = 1 << 25;
const NO_OBJ_EXT: u64 = 1 << 26;

const NOIO: u64 = DIRECT_RECLAIM | KSWAPD_RECLAIM;
const NOFS: u64 = NOIO | IO;
const KERNEL: u64 = NOFS | FS;
const USER: u64 = KERNEL | HARDWALL;
const HIGHUSER: u64 = USER | HIGHMEM;
const HIGHUSER_MOVABLE: u64 = HIGHUSER | MOVABLE | SKIP_KASAN;
const TRANSHUGE_LIGHT: u64 = (HIGHUSER_MOVABLE | COMP | NOMEMALLOC | NOWARN) & !NOIO;

/// The combinations come first, then single flags, in the kernel's order
/// (`__def_gfpflag_names`): each name takes its bits away from those that follow.
const NAMES: [(u64, &str); 36] = [
    (TRANSHUGE_LIGHT | DIRECT_RECLAIM, "GFP_TRANSHUGE"),
    (TRANSHUGE_LIGHT, "GFP_TRANSHUGE_LIGHT"),
    (HIGHUSER_MOVABLE, "GFP_HIGHUSER_MOVABLE"),
    (HIGHUSER, "GFP_HIGHUSER"),
    (USER, "GFP_USER"),
    (KERNEL | ACCOUNT, "GFP_KERNEL_ACCOUNT"),
    (KERNEL, "GFP_KERNEL"),
    (NOFS, "GFP_NOFS"),
    (HIGH | KSWAPD_RECLAIM, "GFP_ATOMIC"),
    (NOIO, "GFP_NOIO"),
    (KSWAPD_RECLAIM | NOWARN, "GFP_NOWAIT"),
    (DMA, "GFP_DMA"),
    (HIGHMEM, "__GFP_HIGHMEM"),
    (DMA32, "GFP_DMA32"),
    (HIGH, "__GFP_HIGH"),
    (IO, "__GFP_IO"),
    (FS, "__GFP_FS"),
    (ZERO, "__GFP_ZERO"),
    (DIRECT_RECLAIM, "__GFP_DIRECT_RECLAIM"),
    (KSWAPD_RECLAIM, "__GFP_KSWAPD_RECLAIM"),
    (WRITE, "__GFP_WRITE"),
    (NOWARN, "__GFP_NOWARN"),
    (RETRY_MAYFAIL, "__GFP_RETRY_MAYFAIL"),
    (NOFAIL, "__GFP_NOFAIL"),
    (NORETRY, "__GFP_NORETRY"),
    (MEMALLOC, "__GFP_MEMALLOC"),
    (COMP, "__GFP_COMP"),
    (NOMEMALLOC, "__GFP_NOMEMALLOC"),
    (HARDWALL, "__GFP_HARDWALL"),
    (THISNODE, "__GFP_THISNODE"),
    (RECLAIMABLE, "__GFP_RECLAIMABLE"),
    (MOVABLE, "__GFP_MOVABLE"),
    (ACCOUNT, "__GFP_ACCOUNT"),
    (ZEROTAGS, "__GFP_ZEROTAGS"),
    (SKIP_ZERO, "__GFP_SKIP_ZERO"),
    (SKIP_KASAN, "__GFP_SKIP_KASAN"),
];

/// The names of all flags that are set.
pub(super) fn names(flags: u64) -> String {
    let mut text = String::new();
    let mut left = flags;
    for (bits, name) in NAMES.into_iter().chain([(NO_OBJ_EXT, "__GFP_NO_OBJ_EXT")]) {
        if left & bits == bits {
            text.push_str(if text.is_empty() { "" } else { "|" });
            text.push_str(name);
            left &= !bits;
        }
    }
    if left != 0 || flags == 0 {
        text.push_str(if text.is_empty() { "" } else { "|" });
        let _ = if flags == 0 { text.write_str("0") } else { write!(text, "{left:#x}") };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn flags_have_the_names_of_the_kernels_tracepoints() {
        for (flags, text) in [
            (0, "0"),
            (1, "GFP_DMA"),
            (0xcc0, "GFP_KERNEL"),
            (0xdc0, "GFP_KERNEL|__GFP_ZERO"),
            (0x820, "GFP_ATOMIC"),
            (0x40_0cc0, "GFP_KERNEL_ACCOUNT"),
            (0x14_0cca, "GFP_HIGHUSER|__GFP_COMP|__GFP_MOVABLE"),
            (0x214_0cca, "GFP_HIGHUSER_MOVABLE|__GFP_COMP"),
            (0x8000_0200, "0x80000200"),
            (0x1_0000_0001, "GFP_DMA|0x100000000"),
        ] {
            assert_eq!(names(flags), text, "{flags:#x}");
        }
    }
}
