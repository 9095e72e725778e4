//! What this kernel and this user's rights allow, found by trying.
//!
//! In: a map type, a program type, a helper's number (`enum bpf_map_type`, `bpf_prog_type`, `bpf_func_id`). Out: yes or no.
//! Guarantee: whatever is created for a trial is closed again before the answer comes.

use libbpf_sys as sys;

use super::bpf::capture_messages;

/// Whether maps of this type can be made.
pub fn has_map(kind: u32) -> bool {
    capture_messages();
    // SAFETY: the call takes numbers only; the null options are allowed.
    unsafe { sys::libbpf_probe_bpf_map_type(kind, std::ptr::null()) == 1 }
}

/// Whether programs of this type can be loaded.
pub fn has_program(kind: u32) -> bool {
    capture_messages();
    // SAFETY: as above.
    unsafe { sys::libbpf_probe_bpf_prog_type(kind, std::ptr::null()) == 1 }
}

/// Whether programs of this type may call a helper.
pub fn has_helper(program: u32, helper: u32) -> bool {
    capture_messages();
    // SAFETY: as above.
    unsafe { sys::libbpf_probe_bpf_helper(program, helper, std::ptr::null()) == 1 }
}

#[cfg(test)]
mod tests {
    use super::{has_helper, has_map, has_program};

    #[test]
    fn the_kernel_is_asked() {
        if !has_map(libbpf_sys::BPF_MAP_TYPE_HASH) {
            println!("SKIPPED: bpf() is out of reach");
            return;
        }
        assert!(has_program(libbpf_sys::BPF_PROG_TYPE_RAW_TRACEPOINT));
        assert!(has_helper(libbpf_sys::BPF_PROG_TYPE_RAW_TRACEPOINT, libbpf_sys::BPF_FUNC_map_lookup_elem));
        assert!(!has_map(10_000) && !has_helper(libbpf_sys::BPF_PROG_TYPE_RAW_TRACEPOINT, 10_000));
    }
}
