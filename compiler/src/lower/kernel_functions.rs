//! BTF ids of the kernel's functions: of those that programs call, and of those that they are
//! loaded for.
//!
//! In: the helpers and sections of programs. Out: ids in the kernel's BTF.
//! Guarantee: an id that is not found is left out. Ids differ from kernel to kernel.

use std::collections::BTreeMap;

use crate::btf::Kind;
use crate::ir::Helper;
use crate::lower::Body;
use crate::lower::shared::Shared;
use crate::object::Attach;

/// For more functions than this, libbpf finds their ids faster: it reads all types once, in about
/// 5 ms, while a search here reads them for each function, in less than one.
const MAX_SEARCHES: usize = 8;

/// Finds the functions that the program calls.
pub(crate) fn know(cx: &mut Body<'_, '_>, functions: &[Helper]) {
    let Some(btf) = cx.shared.target.btf() else { return };
    for helper in functions {
        let known = &mut cx.shared.ir.kernel_functions;
        if known.iter().all(|(known, _)| known != helper)
            && let Some(id) = helper.kernel_function().and_then(|name| btf.find(Kind::Function, name))
        {
            known.push((*helper, id.0));
        }
    }
}

/// The functions that programs are loaded for, by the name of the program.
pub(super) fn of_programs(shared: &Shared<'_>) -> BTreeMap<String, u32> {
    let of_others = |attach: &Attach| matches!(attach, Attach::Trampoline { program: Some(_), .. });
    let blocks = shared.program.probes.iter().enumerate().filter(|(_, probe)| of_others(&probe.attach));
    let of_others: Vec<String> = blocks.map(|(index, _)| shared.merged.program_name(index)).collect();
    let programs = shared.ir.functions.iter().filter(|program| !of_others.contains(&program.name));
    let wanted: Vec<(&str, String)> =
        programs.filter_map(|program| Some((program.name.as_str(), loaded_for(&program.section)?))).collect();
    let mut ids: BTreeMap<&str, Option<u32>> = wanted.iter().map(|(_, function)| (function.as_str(), None)).collect();
    if ids.is_empty() || ids.len() > MAX_SEARCHES {
        return BTreeMap::new();
    }
    let Some(btf) = shared.target.btf() else { return BTreeMap::new() };
    for (function, id) in &mut ids {
        *id = btf.find(Kind::Function, function).map(|id| id.0);
    }
    let found = |(program, function): &(&str, String)| Some(((*program).to_owned(), ids[function.as_str()]?));
    wanted.iter().filter_map(found).collect()
}

/// The kernel's function that a program in this section is loaded for; `None` for other programs,
/// and for functions of modules, whose ids are relative to the module.
fn loaded_for(section: &str) -> Option<String> {
    match section.split_once('/')? {
        ("fentry" | "fexit", function) if !function.contains(':') => Some(function.to_owned()),
        ("iter" | "iter.s", objects) => Some(format!("bpf_iter_{objects}")),
        _ => None,
    }
}
