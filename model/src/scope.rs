//! The set of processes that a probe is attached to.
//!
//! In: processes named on the command line, and comparisons of `pid` in filters. Out: a [`Scope`],
//! which the runtime resolves once the parameters have their values.
//! Guarantee: probes do nothing visible to the script in processes outside the scope. Restricting
//! attachment to the scope reduces overhead and never changes a result; ends of spans in processes
//! where no start can be are not counted in the ledger.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::params::Value;

/// A set of processes, as far as it can be determined before the run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Scope {
    /// Every process.
    #[default]
    All,
    /// These process ids.
    Processes(Vec<u32>),
    /// The processes given by a parameter (index into [`crate::object::Object::params`]); `any`
    /// means every process.
    Param(usize),
    /// The intersection of two scopes.
    Both(Box<Scope>, Box<Scope>),
    /// The union of two scopes.
    Either(Box<Scope>, Box<Scope>),
}

impl Scope {
    /// These processes; every process if the list is empty.
    pub fn of(pids: &[u32]) -> Scope {
        if pids.is_empty() { Scope::All } else { Scope::Processes(pids.to_vec()) }
    }

    /// The intersection.
    #[must_use]
    pub fn and(self, other: Scope) -> Scope {
        match (self, other) {
            (Scope::All, scope) | (scope, Scope::All) => scope,
            (a, b) if a == b => a,
            (a, b) => Scope::Both(Box::new(a), Box::new(b)),
        }
    }

    /// The union.
    #[must_use]
    pub fn or(self, other: Scope) -> Scope {
        match (self, other) {
            (Scope::All, _) | (_, Scope::All) => Scope::All,
            (a, b) if a == b => a,
            (a, b) => Scope::Either(Box::new(a), Box::new(b)),
        }
    }

    /// The process ids, sorted; `None` for every process. `value` returns the value of a parameter
    /// by index.
    pub fn resolve<'a>(&self, value: &dyn Fn(usize) -> Option<&'a Value>) -> Option<BTreeSet<u32>> {
        match self {
            Scope::All => None,
            Scope::Processes(pids) => Some(pids.iter().copied().collect()),
            Scope::Param(index) => match value(*index) {
                Some(Value::Set(pids)) => Some(pids.iter().filter_map(|pid| u32::try_from(*pid).ok()).collect()),
                _ => None,
            },
            Scope::Both(a, b) => match (a.resolve(value), b.resolve(value)) {
                (Some(a), Some(b)) => Some(a.intersection(&b).copied().collect()),
                (a, b) => a.or(b),
            },
            Scope::Either(a, b) => {
                let (a, b) = (a.resolve(value)?, b.resolve(value)?);
                Some(a.union(&b).copied().collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Scope;
    use crate::params::Value;

    #[test]
    fn scopes_are_sets() {
        let values = [Value::Any, Value::Set(vec![2, 3])];
        let resolve =
            |scope: Scope| scope.resolve(&|index| values.get(index)).map(|pids| pids.into_iter().collect::<Vec<_>>());
        let (of, any, set) = (|pids: &[u32]| Scope::of(pids), Scope::Param(0), Scope::Param(1));
        assert_eq!(resolve(of(&[])), None);
        assert_eq!(resolve(of(&[2, 1, 2])), Some(vec![1, 2]));
        assert_eq!(resolve(any.clone()), None);
        assert_eq!(resolve(set.clone().and(of(&[1, 2]))), Some(vec![2]));
        assert_eq!(resolve(set.clone().and(of(&[1]))), Some(vec![]));
        assert_eq!(resolve(set.clone().and(any.clone())), Some(vec![2, 3]));
        assert_eq!(resolve(set.clone().or(of(&[1]))), Some(vec![1, 2, 3]));
        assert_eq!(resolve(set.or(any)), None);
    }
}
