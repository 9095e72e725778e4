//! The types of kernel modules, for scripts that probe module functions.
//!
//! In: a script as written, the target. Out: the kernel's types and those of the modules that its
//! attach points refer to.
//! Guarantee: a script that probes no module costs only a scan of its attach points.

use std::collections::BTreeSet;

use crate::ast::{AttachPoint, Script};
use crate::btf::Btf;
use crate::catalogue::Catalogue;
use crate::target::Target;

/// All types that the script may refer to; `None` if the kernel's own types suffice.
pub fn module_types(script: &Script, catalogue: &Catalogue, target: &dyn Target) -> Option<Btf> {
    let modules_of = |point: &AttachPoint| {
        catalogue.probe(&point.kind.text).map_or_else(Vec::new, |kind| kind.kernel_modules(target, point))
    };
    let in_blocks = script.blocks.iter().flat_map(|block| &block.points);
    let in_spans = script.spans.iter().flat_map(|span| &span.stages).flat_map(|stage| &stage.points);
    // A span may have the short name of a probe kind.
    let is_probe = |point: &&AttachPoint| !script.spans.iter().any(|span| span.name.text == point.kind.text);
    let modules: BTreeSet<String> = in_blocks.chain(in_spans).filter(is_probe).flat_map(modules_of).collect();
    if modules.is_empty() {
        return None;
    }
    target.btf_with_modules(&modules.into_iter().collect::<Vec<_>>())
}
