//! Types of the probed program by name.
//!
//! In: a written type, in a body whose probe is in a program. Out: the type as the program's debug
//! information describes it.
//! Guarantee: a type that the script defines itself hides the program's, which hides the kernel's.
//! Debug information is asked only for names that a script uses.

use crate::ast::TypeName;
use crate::btf::Btf;
use crate::check::types::find_id;
use crate::check::{Body, retarget};
use crate::object::Attach;
use crate::target::{ProgramQuestions, ProgramType};
use crate::types::{Space, Type};

/// What is known about a type that a script names.
#[derive(Debug)]
pub(super) enum Named {
    Found(Type),
    /// The target is yet to be asked; the body will be checked again.
    Asked,
    /// Neither the program nor the kernel has it.
    Missing(Searched),
}

/// Where a type was searched.
#[derive(Debug, Default)]
pub(super) struct Searched {
    /// The probed program, if the probe is in one.
    pub(super) program: Option<String>,
    /// Why the program's types are not known.
    pub(super) why: Option<String>,
}

/// Searches a type: in the script, then in the probed program, then in the kernel.
pub(super) fn find(cx: &mut Body<'_, '_>, name: &TypeName) -> Named {
    let btf = cx.env.target.btf();
    let known = btf.and_then(|btf| Some((btf, find_id(btf, name)?)));
    if let Some((btf, id)) = known.filter(|(btf, id)| btf.is_added(*id)) {
        return Named::Found(btf.to_type(id));
    }
    let searched = match of_program(cx, btf, name) {
        Ok(found) => return found,
        Err(searched) => searched,
    };
    known.map_or(Named::Missing(searched), |(btf, id)| Named::Found(btf.to_type(id)))
}

fn of_program(cx: &mut Body<'_, '_>, btf: Option<&Btf>, name: &TypeName) -> Result<Named, Searched> {
    let Attach::Uprobe { path, sites, .. } = &cx.seed.attach else { return Err(Searched::default()) };
    let site = sites.first().map(|site| site.file_offset);
    let ty = ProgramType { tag: name.tag, name: name.name.clone(), site };
    let Some(answer) = cx.env.target.described_program(path).and_then(|answers| answers.types.get(&ty)) else {
        cx.env.undescribed.push(ProgramQuestions { types: [ty].into(), ..ProgramQuestions::new(path) });
        return Ok(Named::Asked);
    };
    let searched = |why| Searched { program: Some(path.clone()), why };
    match (answer, btf) {
        (Ok(Some(id)), Some(btf)) => {
            let mut ty = btf.to_type(*id);
            retarget(&mut ty, Space::User);
            Ok(Named::Found(ty))
        }
        (Ok(_), _) => Err(searched(None)),
        (Err(why), _) => Err(searched(Some(why.clone()))),
    }
}
