//! Static probes, and a semaphore that tells whether a tracer is attached.
//!
//! In: numbers. Out: hits of `workload:step`, `workload:guarded`, `workload:forms`,
//! `workload:ratio` and `workload:text`.
//! Guarantee: arguments are in the registers, memory and constants that the notes in the file name.
//! x86-64 only; other architectures have no static probes.

use std::sync::atomic::{AtomicU16, Ordering};

/// A static probe as in `<sys/sdt.h>`: a nop, and a note about it in the file. The code generator
/// drops `$` before a number, so constants have it as `\044`.
#[cfg(target_arch = "x86_64")]
macro_rules! static_probe {
    ($name:literal, $semaphore:literal, $arguments:literal, $($operand:tt)*) => {
        // SAFETY: the code is one instruction without effect; the rest is data for other sections.
        unsafe {
            std::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt,\"?\",\"note\"",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b, _.stapsdt.base",
                concat!(".8byte ", $semaphore),
                concat!(".asciz \"workload\", \"", $name, "\", \"", $arguments, "\""),
                "994: .balign 4",
                ".popsection",
                $($operand)*,
                options(nostack, preserves_flags)
            );
        }
    };
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .stapsdt.base,\"aGR\",\"progbits\",.stapsdt.base,comdat",
    ".weak _.stapsdt.base",
    ".hidden _.stapsdt.base",
    "_.stapsdt.base: .space 1",
    ".size _.stapsdt.base,1",
    ".popsection",
);

/// A semaphore in a page of its own. The kernel finds it by its file offset, in the first writable
/// mapping of that offset. lld maps a page at the border of two segments twice, and the kernel
/// would take the wrong mapping.
#[repr(align(4096))]
struct Semaphore(AtomicU16);

/// Raised by tracers of the static probe `guarded`.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".probes")]
#[used]
static workload_guarded_semaphore: Semaphore = Semaphore(AtomicU16::new(0));

/// An argument of the static probe `forms` is read from here by symbol name.
#[unsafe(no_mangle)]
#[used]
static workload_numbers: [i16; 4] = [1, -2, 3, 4];

/// Hits the static probe `step` with `a` and its negative; three sites with different operands are
/// used in turn.
#[inline(never)]
pub fn static_step(a: u64) {
    let negative = (a as i32).wrapping_neg();
    let memory = std::hint::black_box([a, u64::from(negative.cast_unsigned())]);
    #[cfg(target_arch = "x86_64")]
    match a % 3 {
        0 => static_probe!("step", "0", "8@%rax -4@%ecx", in("rax") a, in("ecx") negative),
        1 => static_probe!("step", "0", "8@(%rdi) -4@8(%rdi)", in("rdi") memory.as_ptr()),
        _ => static_probe!("step", "0", "8@-8(%rdi,%rsi,8) -4@8(%rdi)", in("rdi") memory.as_ptr(), in("rsi") 1),
    }
    std::hint::black_box(memory);
}

/// Hits the static probe `guarded` with `a` if a tracer is attached; returns whether one is.
#[inline(never)]
pub fn static_guarded(a: u64) -> bool {
    let listens = workload_guarded_semaphore.0.load(Ordering::Relaxed) != 0;
    if listens {
        #[cfg(target_arch = "x86_64")]
        static_probe!("guarded", "workload_guarded_semaphore", "8@%rax", in("rax") a);
        std::hint::black_box(a);
    }
    listens
}

/// Hits each site of the static probe `forms` once. The first argument is the site's number, the
/// second a value in an operand form of its own.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub fn static_forms() {
    const VALUE: u64 = 0xf7f6_f5f4_f3f2_f1f0;
    let memory = std::hint::black_box([10u32, 20, 30, 40]);
    // Reading it makes its page resident: a probe cannot fault it in.
    std::hint::black_box(std::hint::black_box(&workload_numbers)[1]);
    static_probe!("forms", "0", "-4@\\0441 8@%rdx", in("rdx") VALUE);
    static_probe!("forms", "0", "-4@\\0442 -8@%r12", in("r12") VALUE);
    static_probe!("forms", "0", "-4@\\0443 4@%r10d", in("r10") VALUE);
    static_probe!("forms", "0", "-4@\\0444 -4@%eax", in("rax") VALUE);
    static_probe!("forms", "0", "-4@\\0445 2@%r8w", in("r8") VALUE);
    static_probe!("forms", "0", "-4@\\0446 -2@%cx", in("rcx") VALUE);
    static_probe!("forms", "0", "-4@\\0447 1@%sil", in("rsi") VALUE);
    static_probe!("forms", "0", "-4@\\0448 -1@%al", in("rax") VALUE);
    static_probe!("forms", "0", "-4@\\0449 1@%ah", in("rax") VALUE);
    static_probe!("forms", "0", "-4@\\04410 8@\\0445", in("rax") 0);
    static_probe!("forms", "0", "-4@\\04411 -4@\\044-5", in("rax") 0);
    static_probe!("forms", "0", "-4@\\04412 4@\\044-5", in("rax") 0);
    static_probe!("forms", "0", "-4@\\04413 -2@workload_numbers+2(%rip)", in("rax") 0);
    static_probe!("forms", "0", "-4@\\04414 4@4(%r9)", in("r9") memory.as_ptr());
    static_probe!("forms", "0", "-4@\\04415 4@-4(%r9,%r11,4)", in("r9") memory.as_ptr(), in("r11") 4);
    static_probe!("ratio", "0", "8f@%xmm0 -4@\\0441 8@%st(0)", in("xmm0") 0.5);
    // On the stack, which is resident: a page of constants may not be, and a probe cannot fault it
    // in.
    let text = std::hint::black_box(*b"word\0");
    static_probe!("text", "0", "8@%rax -4@\\0444", in("rax") text.as_ptr());
    std::hint::black_box((memory, text));
}

/// Other architectures have no static probes.
#[cfg(not(target_arch = "x86_64"))]
pub fn static_forms() {}
