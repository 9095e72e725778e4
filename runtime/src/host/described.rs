//! Tracepoints from the kernel's BTF, for users who cannot read tracefs.
//!
//! In: the kernel's BTF. Out: names and records. Guarantee: an event that is found exists, whatever
//! category the script names: only tracefs has the categories. A wildcard matches the events that
//! are named after their category (`sched_*` of `sched`), or all matching events if there are none.

use super::NEAR_NAMES;
use profiler_compiler::btf::Btf;
use profiler_compiler::target::{TargetError, TracepointFormat};
use profiler_compiler::{glob, similar, syscalls};

const SYSCALLS: &str = "syscalls";

/// Tracepoints that match two patterns, sorted.
pub(super) fn tracepoints(
    btf: Option<&Btf>,
    category: &str,
    event: &str,
) -> Result<Vec<(String, String)>, TargetError> {
    let calls = || {
        ["sys_enter_", "sys_exit_"]
            .into_iter()
            .flat_map(|side| syscalls::traced().map(move |call| format!("{side}{call}")))
    };
    if category == SYSCALLS {
        return found(category, event, &calls().collect::<Vec<_>>());
    }
    let names: Vec<String> = btf.into_iter().flat_map(|btf| btf.raw_tracepoints().names()).map(str::to_owned).collect();
    found(category, event, &names)
}

fn found(category: &str, event: &str, names: &[String]) -> Result<Vec<(String, String)>, TargetError> {
    let mut matching: Vec<String> = names.iter().filter(|name| glob::matches(event, name)).cloned().collect();
    let own = format!("{category}_*");
    if glob::is_pattern(event) && matching.iter().any(|name| glob::matches(&own, name)) {
        matching.retain(|name| glob::matches(&own, name));
    }
    if matching.is_empty() {
        let near = similar::nearest(event, names.iter().map(String::as_str), NEAR_NAMES);
        return Err(TargetError::Missing { near: near.iter().map(|name| format!("{category}:{name}")).collect() });
    }
    matching.sort_unstable();
    Ok(matching.into_iter().map(|name| (category.to_owned(), name)).collect())
}

/// The record layout of a tracepoint.
pub(super) fn format(btf: Option<&Btf>, category: &str, event: &str) -> Result<TracepointFormat, TargetError> {
    let record = if category == SYSCALLS {
        syscalls::record(event)
    } else {
        btf.and_then(|btf| btf.event_records().find(event))
    };
    record.ok_or_else(|| {
        TargetError::Refused(
            "the kernel's types do not describe its record, and tracefs may not be read: run as root".into(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{format, tracepoints};
    use crate::host::Host;
    use profiler_compiler::target::{Target as _, TargetError, TracepointFormat};

    /// The properties of fields that scripts can see.
    fn brief(format: &TracepointFormat) -> Vec<(String, u32, bool)> {
        format.fields.iter().map(|field| (field.name.clone(), field.offset_bytes, field.data_loc)).collect()
    }

    #[test]
    fn types_describe_what_tracefs_says() {
        let host = Host::new();
        let (Ok(listed), Some(btf)) = (host.tracepoints("*", "*"), host.btf()) else {
            println!("SKIPPED: tracefs is not readable");
            return;
        };
        let (mut same, mut other) = (0, Vec::new());
        // Every 16th: searching the kernel's types for all of them takes a minute.
        let sample: Vec<_> = listed.iter().step_by(16).collect();
        assert!(sample.len() > 50, "{}", sample.len());
        for (category, event) in &sample {
            // Events of modules are in the BTF of the modules.
            let Ok(described) = format(Some(btf), category, event) else { continue };
            let Ok(said) = host.tracepoint_format(category, event) else { continue };
            let (described, said) = (brief(&described), brief(&said));
            if said.iter().all(|field| described.contains(field)) { same += 1 } else { other.push(event) }
        }
        println!("{same} of {} are the same; not {other:?}", sample.len());
        assert!(same * 10 > sample.len() * 8 && other.len() * 25 < same, "{same}, not {other:?}");
    }

    #[test]
    fn names_are_found_without_tracefs() {
        let host = Host::new();
        let names = |category, event| tracepoints(host.btf(), category, event);
        let pair = |category: &str, event: &str| Ok(vec![(category.to_owned(), event.to_owned())]);
        assert_eq!(names("syscalls", "sys_enter_openat"), pair("syscalls", "sys_enter_openat"));
        assert!(matches!(names("syscalls", "sys_enter_opent"), Err(TargetError::Missing { near }) if !near.is_empty()));
        if host.btf().is_none() {
            println!("SKIPPED: the kernel has no types");
            return;
        }
        assert_eq!(names("sched", "sched_switch"), pair("sched", "sched_switch"));
        let all = names("sched", "*").expect("there are some");
        assert!(all.len() > 5 && all.iter().all(|(_, event)| event.starts_with("sched_")), "{all:?}");
        assert!(matches!(names("sched", "sched_swich"), Err(TargetError::Missing { near }) if !near.is_empty()));
    }
}
