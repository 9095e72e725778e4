//! Kernel feature detection: tries what this kernel and this user's privileges allow.
//!
//! In: a map type, a program type, a helper's number (`enum bpf_map_type`, `bpf_prog_type`,
//! `bpf_func_id`). Out: yes or no.
//! Guarantee: whatever a probe creates is closed before it returns.

use libbpf_rs::{MapType, ProgramType};

use super::bpf::capture_messages;

/// Whether maps of this type can be created.
pub fn has_map(kind: u32) -> bool {
    capture_messages();
    MapType::from(kind).is_supported().unwrap_or(false)
}

/// Whether programs of this type can be loaded.
pub fn has_program(kind: u32) -> bool {
    capture_messages();
    ProgramType::from(kind).is_supported().unwrap_or(false)
}

/// Whether programs of this type may call a helper.
pub fn has_helper(program: u32, helper: u32) -> bool {
    capture_messages();
    ProgramType::from(program).is_helper_supported(helper).unwrap_or(false)
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
