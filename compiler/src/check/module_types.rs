//! The types of kernel modules, for scripts that probe their functions.
//!
//! In: a script as written, the machine. Out: the kernel's types and those of the modules that its attach points mean.
//! Guarantee: a script that probes no module costs nothing but a look at its attach points.

use std::collections::BTreeSet;

use crate::ast::{AttachPoint, Script};
use crate::btf::Btf;
use crate::target::Target;
use crate::words::Catalogue;

/// All types that the script may name; `None` when the kernel's own are all there is.
pub fn module_types(script: &Script, catalogue: &Catalogue, target: &dyn Target) -> Option<Btf> {
    let modules_of = |point: &AttachPoint| {
        catalogue.probe(&point.kind.text).map_or_else(Vec::new, |kind| kind.kernel_modules(target, point))
    };
    let in_blocks = script.blocks.iter().flat_map(|block| &block.points);
    let in_spans = script.spans.iter().flat_map(|span| &span.stages).flat_map(|stage| &stage.points);
    let modules: BTreeSet<String> = in_blocks.chain(in_spans).flat_map(modules_of).collect();
    if modules.is_empty() {
        return None;
    }
    target.btf_with_modules(&modules.into_iter().collect::<Vec<_>>())
}
