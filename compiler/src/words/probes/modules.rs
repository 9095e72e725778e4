//! Kernel modules whose types a probe needs.
//!
//! In: an attach point. Out: module names.
//! Guarantee: a probe of an exact function of the kernel itself costs one lookup in its types, and
//! no list of functions is read if the attach point names one module exactly.

use super::bpf_programs::BPF;
use crate::ast::AttachPoint;
use crate::glob;
use crate::target::Target;

/// The kernel's own name in module lists.
const KERNEL: &str = "vmlinux";

/// The module that an attach point with two parts names exactly.
pub(super) fn named(point: &AttachPoint) -> Vec<String> {
    match point.parts.as_slice() {
        [module, _]
            if module.text != KERNEL
                && module.text != BPF
                && !glob::is_pattern(&module.text)
                && !module.text.contains('$') =>
        {
            vec![module.text.clone()]
        }
        _ => Vec::new(),
    }
}

/// The modules of all functions that an attach point matches.
pub(super) fn of_functions(target: &dyn Target, point: &AttachPoint) -> Vec<String> {
    let exact = named(point);
    if !exact.is_empty() || target.function_probing().fentry.is_err() {
        return exact;
    }
    let (module, function) = match point.parts.as_slice() {
        [function] => (None, function.text.as_str()),
        [module, function] if module.text != KERNEL => (Some(module.text.as_str()), function.text.as_str()),
        _ => return Vec::new(),
    };
    let of_kernel = |btf: &crate::btf::Btf| btf.find_function(None, function).is_some();
    if module.is_none() && !glob::is_pattern(function) && target.btf().is_some_and(of_kernel) {
        return Vec::new();
    }
    let found = target.kernel_functions(module, function).unwrap_or_default();
    let mut modules: Vec<String> = found.into_iter().filter_map(|function| function.module).collect();
    modules.sort_unstable();
    modules.dedup();
    modules
}
