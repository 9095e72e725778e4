//! Parameter values for an object that is already built.
//!
//! In: an object, and values from the command line. Out: bytes for its read-only data, and the
//! contents of maps of large sets.
//! Guarantee: a value that does not fit its parameter's type and range, or that the object was not
//! built for, is rejected with a message before anything is loaded. All such values are reported
//! together.

use std::io;

use profiler_compiler::similar;
use profiler_compiler::target::{Target, TargetIds};
use profiler_model::object::Object;
use profiler_model::params::{self, Param, Type, Value, Written};

use crate::load::Loaded;
use crate::sys::bpf::Preparation;

/// A value for each parameter of an object.
#[derive(Debug, Clone, Default)]
pub struct Values(Vec<Value>);

impl Values {
    /// The values that the object was built with.
    pub fn of(object: &Object) -> Values {
        Values::from(&object.params)
    }

    /// The values of these parameters, which are those of an object in its order.
    pub fn from(params: &[Param]) -> Values {
        Values(params.iter().map(|param| param.value.clone()).collect())
    }

    /// The values given as `--name value`, and for other parameters those that the object was built
    /// with. An error contains the messages about all invalid values.
    pub fn read(
        object: &Object,
        given: &[(String, Option<String>)],
        target: &dyn Target,
    ) -> Result<Values, Vec<String>> {
        let mut problems = Vec::new();
        for (name, _) in given.iter().filter(|(name, _)| params::find(&object.params, name).is_none()) {
            let known = object.params.iter().filter(|param| param.is_public).map(|param| param.name.as_str());
            let near = similar::nearest(name, known, 1);
            let near = near.first().map_or(String::new(), |near| format!("; did you mean `--{near}`?"));
            problems.push(format!("there is no parameter `--{name}`{near}"));
        }
        let mut values = Values::of(object);
        for (param, value) in object.params.iter().zip(&mut values.0) {
            let means = |name: &str| params::find(&object.params, name).is_some_and(|found| found.name == param.name);
            let typed: Vec<&(String, Option<String>)> = given.iter().filter(|(name, _)| means(name)).collect();
            let Some((name, _)) = typed.first() else { continue };
            let texts: Vec<&Option<String>> = typed.iter().map(|(_, text)| text).collect();
            match other(param, name, &texts, target) {
                Ok(other) => *value = other,
                Err(words) => problems.push(words),
            }
        }
        if problems.is_empty() { Ok(values) } else { Err(problems) }
    }

    /// The value of the parameter at this index.
    pub fn get(&self, index: usize) -> Option<&Value> {
        self.0.get(index)
    }

    /// The processes that parameters of the object have as values: those that its probes are for.
    pub(crate) fn processes(&self, object: &Object) -> Vec<u32> {
        object.params.iter().zip(&self.0).flat_map(|(param, value)| param.processes(value)).collect()
    }

    /// The changes to make to the object before it is loaded.
    pub(crate) fn preparation(&self, object: &Object) -> Preparation {
        let mut preparation = Preparation::default();
        for (param, value) in object.params.iter().zip(&self.0) {
            let Some(place) = param.place.as_ref().filter(|_| *value != param.value) else { continue };
            preparation.rodata.push((place.offset_bytes as usize, param.bytes(value)));
            if let Some(map) = &place.overflow {
                preparation.sizes.push((map.clone(), param.in_map(value).len().max(1) as u32));
            }
        }
        preparation
    }

    /// Fills the maps of large sets; called before anything is attached.
    pub(crate) fn fill(&self, object: &Object, loaded: &Loaded) -> io::Result<()> {
        for (param, value) in object.params.iter().zip(&self.0) {
            let Some(map) = param.place.as_ref().and_then(|place| place.overflow.as_deref()) else { continue };
            let map = loaded.map(map).ok_or(io::ErrorKind::NotFound)?;
            for member in param.in_map(value) {
                map.insert(&member.to_ne_bytes(), &1_u64.to_ne_bytes())?;
            }
        }
        Ok(())
    }
}

/// Parses a parameter's value from the command line, if the object accepts it.
fn other(param: &Param, name: &str, texts: &[&Option<String>], target: &dyn Target) -> Result<Value, String> {
    let option = format!("--{}", name.replace('_', "-"));
    let written = |given: &&Option<String>| match given {
        None if param.ty == Type::Bool => Ok(Written::on_command_line(param.ty, "true")),
        None => Err(format!("`{option}` needs a value")),
        Some(text) => Ok(Written::on_command_line(param.ty, text)),
    };
    let written = texts.iter().map(written).collect::<Result<Vec<Written>, String>>()?;
    let named = Param { name: option.clone(), ..param.clone() };
    let value = named.read(&written, &TargetIds(target))?;
    if let Some(message) = param.place.as_ref().and_then(|_| named.too_large(&value)) {
        return Err(message);
    }
    if param.in_plan && value != param.value {
        let made_for = param.shown(&param.value);
        return Err(format!(
            "`{option}` is {made_for} in this object: it decided what is attached or shown when the object was built; build it again"
        ));
    }
    Ok(value)
}
