//! Removes duplicate uprobe sites: functions that one block reaches under several names.
//!
//! In: the programs of a block's attach points, one after another. Out: the same without sites that
//! an earlier one has.
//! Guarantee: a call runs a block once, even if the block names its file (`libpthread`, `libc`) or
//! function in several ways.

use std::collections::HashSet;

use crate::check::Seed;
use crate::object::Attach;
use crate::target::Target;

/// The sites of a block.
#[derive(Debug, Default)]
pub(super) struct Reached {
    places: HashSet<ProbeSite>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ProbeSite {
    file: File,
    offset: u64,
    at_return: bool,
    /// A static probe has other arguments than a uprobe on the instruction at its site.
    is_static: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum File {
    Known(u64, u64),
    /// A file that cannot be examined.
    Named(String),
}

impl Reached {
    /// Removes the sites of a program that are already reached; returns whether any is left.
    pub(super) fn keep(&mut self, seed: &mut Seed, target: &dyn Target) -> bool {
        let is_static = !seed.context.static_arguments.is_empty();
        if seed.is_absent() {
            return true;
        }
        let Attach::Uprobe { path, at_return, sites, .. } = &mut seed.attach else { return true };
        let file = match target.file_identity(path) {
            Some((device, inode)) => File::Known(device, inode),
            None => File::Named(path.clone()),
        };
        let count = sites.len();
        let at_return = *at_return;
        sites.retain(|site| {
            self.places.insert(ProbeSite { file: file.clone(), offset: site.file_offset, at_return, is_static })
        });
        seed.points = seed.points.saturating_sub((count - sites.len()) as u32).max(1);
        !sites.is_empty()
    }
}
