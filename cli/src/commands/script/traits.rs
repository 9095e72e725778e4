//! What follows from where a script comes from.
//!
//! In: the origin of a script. Out: its traits.
//! Guarantee: whoever treats recipes, scripts for bpftrace and others differently asks for a trait,
//! so that each difference is here.

use std::path::Path;

use profiler_compiler::check::{self, Dialect, MissingProbes};
use profiler_model::text::controls::Escapes;

use super::Origin;

/// How a script is compiled and shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    /// Who says which processes the script is about.
    pub author: check::Origin,
    /// What happens to functions of programs that do not exist here.
    pub missing_in_programs: MissingProbes,
    /// Whose meaning applies to what bpftrace does differently.
    pub dialect: Dialect,
    /// What is escaped in what the script prints.
    pub escapes: Escapes,
    /// Whether the ledgers of spans without a loss are left out.
    pub omits_whole_spans: bool,
}

impl Origin {
    /// The traits of a script of this origin.
    pub(crate) fn traits(&self) -> Traits {
        let own = Traits {
            author: check::Origin::Own,
            missing_in_programs: MissingProbes::Error,
            dialect: Dialect::Own,
            escapes: Escapes::Nothing,
            omits_whole_spans: false,
        };
        match self {
            // Recipes name functions of several libraries, such as glibc and musl, and print names
            // that any process can choose; their tables say what is missing.
            Origin::File(_) if self.is_recipe() => Traits {
                author: check::Origin::Recipe,
                missing_in_programs: MissingProbes::IgnoreBeside,
                escapes: Escapes::Lines,
                omits_whole_spans: true,
                ..own
            },
            // Scripts for bpftrace name functions from many versions of a library; bpftrace has
            // long skipped missing ones.
            Origin::File(path) if Path::new(path).extension().is_some_and(|end| end == "bt") => {
                Traits { missing_in_programs: MissingProbes::Warn, dialect: Dialect::Bpftrace, ..own }
            }
            _ => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Dialect, Escapes, MissingProbes, Origin, check};

    #[test]
    fn recipes_and_scripts_for_bpftrace_have_their_own_traits() {
        let traits = |path: &str| Origin::File(path.into()).traits();
        let recipe = traits("opensnoop");
        assert_eq!((recipe.author, recipe.escapes), (check::Origin::Recipe, Escapes::Lines));
        assert_eq!((recipe.missing_in_programs, recipe.dialect), (MissingProbes::IgnoreBeside, Dialect::Own));
        let foreign = traits("opensnoop.bt");
        assert_eq!((foreign.author, foreign.escapes), (check::Origin::Own, Escapes::Nothing));
        assert_eq!((foreign.missing_in_programs, foreign.dialect), (MissingProbes::Warn, Dialect::Bpftrace));
        for own in [traits("mine.prof"), Origin::Inline("opensnoop".into()).traits()] {
            assert_eq!((own.missing_in_programs, own.dialect), (MissingProbes::Error, Dialect::Own));
            assert!(!own.omits_whole_spans);
        }
    }
}
