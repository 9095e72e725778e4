//! A fake target for tests, so that the compiler's results do not depend on the machine that runs
//! them.
//!
//! In: nothing. Out: [`Machine`], a small Linux 6.12 on x86-64: a few types, tracepoints, one
//! program, one library.
//! Guarantee: every kind of answer that a [`Target`] can give is given for some name.

use std::cell::Cell;

use profiler_compiler::btf::{Added, Btf, BtfId, NewMember};
use profiler_compiler::glob;
use profiler_compiler::similar;
use profiler_compiler::target::{
    Arch, BpfFunction, FunctionProbing, FunctionSymbol, KernelFunction, LineSite, ParameterPlace, ProgramAnswers,
    ProgramFunction, ProgramInstruction, ProgramParameter, ProgramQuestions, ProgramType, StaticProbe, StaticSite,
    Target, TargetError, TracepointField, TracepointFormat,
};
use profiler_compiler::usdt;

#[path = "../../src/btf/fixture.rs"]
mod blob;

/// The fake target.
#[derive(Debug)]
pub struct Machine {
    btf: Option<Btf>,
    /// How its kernel functions can be probed.
    pub probing: FunctionProbing,
    /// Its kernel version, major and minor.
    pub kernel: (u32, u32),
    /// How often similar names of kernel functions were searched.
    pub searches: Cell<u32>,
}

const TRACEPOINTS: [(&str, &str); 7] = [
    ("sched", "sched_switch"),
    ("sched", "sched_wakeup"),
    ("syscalls", "sys_enter_openat"),
    ("syscalls", "sys_enter_read"),
    ("syscalls", "sys_exit_openat"),
    ("syscalls", "sys_exit_read"),
    ("task", "task_rename"),
];

/// Number of tracepoints in the category `many`: more than a script may have programs.
const MANY: u32 = 1100;

const FUNCTIONS: [(&str, u64, u64); 4] =
    [("main", 0x1000, 0x40), ("work", 0x1100, 0x80), ("work_again", 0x1200, 0), ("same_as_work", 0x1100, 0x80)];

/// Kernel functions with their modules.
const KERNEL_FUNCTIONS: [(&str, Option<&str>); 8] = [
    ("in_two", Some("first")),
    ("in_two", Some("second")),
    ("kfree", None),
    ("twice", None),
    ("twice", None),
    ("untyped", None),
    ("vfs_read", None),
    ("vfs_write", None),
];

impl Machine {
    /// A target with or without the kernel's BTF.
    pub fn new(with_btf: bool) -> Machine {
        let mut blob = blob::small_kernel();
        // Ids of the first types of the small kernel.
        let (char_ty, u64_ty, task_struct) = (BtfId(2), BtfId(4), BtfId(8));
        let values = blob.array(u64_ty, 4);
        let digest = blob.int("unsigned char", 1, 0);
        let address = blob.array(digest, 16);
        let task = blob.pointer(task_struct);
        let text = blob.pointer(char_ty);
        let members = [("values", values, 0), ("task", task, 256), ("address", address, 320), ("text", text, 448)];
        blob.record(4, "parcel", 64, &members);
        blob.record(4, "list_head", 16, &[("next", task, 0), ("prev", task, 64)]);
        let any_task = blob.record(5, "", 8, &[("task", task, 0)]);
        blob.record(4, "bpf_iter__task", 16, &[("meta", text, 0), ("", any_task, 64)]);
        blob.record(4, "bpf_iter__sockmap", 16, &[("meta", text, 0), ("", any_task, 64)]);
        let nothing = BtfId::VOID;
        let size = blob.pointer(u64_ty);
        let access = blob.proto(BtfId(1), &[("file", task), ("buf", text), ("count", u64_ty), ("pos", size)]);
        let anything = blob.pointer(nothing);
        let free = blob.proto(nothing, &[("object", anything)]);
        for (name, proto) in [("vfs_read", access), ("vfs_write", access), ("kfree", free), ("bpf_rdonly_cast", free)] {
            blob.add(name, 12, 1, proto.0, &[]);
        }
        let probing = FunctionProbing { kprobe: Ok(()), kprobe_multi: true, fentry: Ok(()) };
        Machine { btf: with_btf.then(|| blob.open()), probing, kernel: (6, 12), searches: Cell::new(0) }
    }
}

fn field(name: &str, c_type: &str, offset_bytes: u32, size_bytes: u32) -> TracepointField {
    TracepointField {
        name: name.into(),
        c_type: c_type.into(),
        array_len: None,
        offset_bytes,
        size_bytes,
        signed: matches!(c_type, "int" | "pid_t" | "long" | "char"),
        data_loc: false,
    }
}

fn fields(event: &str) -> Vec<TracepointField> {
    match event {
        "sys_enter_openat" => vec![
            field("__syscall_nr", "int", 8, 4),
            field("dfd", "int", 16, 8),
            field("filename", "const char *", 24, 8),
            field("flags", "int", 32, 8),
        ],
        "sys_enter_read" => vec![field("fd", "unsigned int", 16, 8), field("count", "size_t", 32, 8)],
        "sched_switch" => vec![
            TracepointField { array_len: Some(16), ..field("prev_comm", "char", 8, 16) },
            field("prev_pid", "pid_t", 24, 4),
            TracepointField { array_len: Some(4), ..field("weights", "u32", 32, 16) },
        ],
        "sched_wakeup" => vec![TracepointField { data_loc: true, ..field("name", "__data_loc char[]", 8, 4) }],
        "task_rename" => Vec::new(),
        _ => vec![field("value", "long", 8, 8)],
    }
}

fn refused() -> TargetError {
    TargetError::Refused("/sys/kernel/tracing may be read by root only: run it as root".into())
}

impl Target for Machine {
    fn arch(&self) -> Arch {
        Arch::X86_64
    }

    fn kernel(&self) -> (u32, u32) {
        self.kernel
    }

    fn possible_cpus(&self) -> u32 {
        4
    }

    fn page_size_bytes(&self) -> u32 {
        4096
    }

    fn most_samples_hz(&self) -> Option<u64> {
        Some(50_000)
    }

    fn btf(&self) -> Option<&Btf> {
        self.btf.as_ref()
    }

    fn compat_status_offset(&self) -> Option<u32> {
        Some(16)
    }

    fn tracepoints(&self, category: &str, event: &str) -> Result<Vec<(String, String)>, TargetError> {
        match category {
            "secret" => return Err(refused()),
            "many" => return Ok((0..MANY).map(|n| ("many".to_string(), format!("event{n:04}"))).collect()),
            _ => {}
        }
        let matching = TRACEPOINTS.iter().filter(|(c, e)| glob::matches(category, c) && glob::matches(event, e));
        let found: Vec<_> = matching.map(|(c, e)| ((*c).to_string(), (*e).to_string())).collect();
        if found.is_empty() {
            let near = similar::nearest(event, TRACEPOINTS.iter().map(|(_, event)| *event), 3);
            return Err(TargetError::Missing { near });
        }
        Ok(found)
    }

    fn tracepoint_format(&self, _category: &str, event: &str) -> Result<TracepointFormat, TargetError> {
        Ok(TracepointFormat { id: 1, fields: fields(event) })
    }

    fn binaries(&self, name: &str, _pid: Option<u32>) -> Result<Vec<String>, TargetError> {
        match name {
            "app" | "/bin/app" | "/bin/*" => Ok(vec!["/bin/app".into()]),
            "libc" => Ok(vec!["/lib/libc.so.6".into()]),
            "/etc/passwd" => Err(TargetError::Invalid("it is not an ELF file".into())),
            "/root/app" => Err(TargetError::Refused("/root/app may be read by root only: run it as root".into())),
            _ => Err(TargetError::Missing { near: similar::nearest(name, ["/bin/app", "libc"], 2) }),
        }
    }

    fn functions(&self, path: &str, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        if path != "/bin/app" {
            return Err(TargetError::Invalid("it has no function symbols".into()));
        }
        let matching = FUNCTIONS.iter().filter(|(name, ..)| glob::matches(pattern, name));
        let symbol = |(name, file_offset, size_bytes): &(&str, u64, u64)| FunctionSymbol {
            name: (*name).to_string(),
            file_offset: *file_offset,
            size_bytes: *size_bytes,
        };
        let found: Vec<_> = matching.map(symbol).collect();
        if found.is_empty() {
            let near = similar::nearest(pattern, FUNCTIONS.iter().map(|(name, ..)| *name), 3);
            return Err(TargetError::Missing { near });
        }
        Ok(found)
    }

    fn describe_program(&self, questions: &ProgramQuestions, types: &mut Added) -> ProgramAnswers {
        let int = types.int("int", 4, true);
        let double = types.float("double", 8);
        let parameter = |name: &str, ty, place| ProgramParameter { name: name.into(), ty, place };
        let number = || ParameterPlace::Unreadable("is a floating-point number".into());
        let function = |name: &str, parameters| ProgramFunction {
            name: name.into(),
            parameters,
            result: BtfId::VOID,
            has_result: true,
        };
        let described = |offset: &u64| match offset {
            0x1100 => Ok(function("work", vec![parameter("depth", int, ParameterPlace::Register(112))])),
            0x1200 => {
                let parameters = vec![
                    parameter("length", int, ParameterPlace::Register(112)),
                    parameter("ratio", double, number()),
                    parameter("last", int, ParameterPlace::Stack(8)),
                ];
                Ok(function("work_again", parameters))
            }
            _ => Err(format!("{} has no debug information: compile it with `-g`", questions.path)),
        };
        let functions = questions.functions.iter().map(|offset| (*offset, described(offset))).collect();
        let instructions = questions.instructions.iter().map(|at| (*at, described(&at.file_offset))).collect();
        let conn = types.reserve();
        let fd = NewMember { name: "fd".into(), ty: int, bit_offset: 0, width: None };
        let long_double = types.float("long double", 16);
        let weight = NewMember { name: "weight".into(), ty: long_double, bit_offset: 128, width: None };
        types.record_type(conn, "conn", false, 32, &[fd, weight]);
        let named = |ty: &ProgramType| match (questions.path.as_str(), ty.name.as_str()) {
            ("/bin/app", "conn") => Ok(Some(conn)),
            ("/bin/app", "twice") => Err("it has several different types of this name".to_owned()),
            ("/bin/app", _) => Ok(None),
            (path, _) => Err(format!("{path} has no debug information: compile it with `-g`")),
        };
        let types = questions.types.iter().map(|ty| (ty.clone(), named(ty))).collect();
        ProgramAnswers { functions, instructions, types, ..ProgramAnswers::default() }
    }

    fn line_sites(&self, path: &str, file: &str, line: u64) -> Result<Vec<LineSite>, TargetError> {
        if path != "/bin/app" {
            return Err(TargetError::Invalid(format!("{path} has no debug information: compile it with `-g`")));
        }
        let site = |file_offset, function: &str| LineSite {
            at: ProgramInstruction { file_offset, scope: 0 },
            function: function.into(),
        };
        match (file, line) {
            ("main.c" | "src/main.c", 20) => Ok(vec![site(0x1110, "work"), site(0x1210, "work_again")]),
            ("main.c" | "src/main.c", 21) => Ok(vec![site(0x1100, "work")]),
            ("main.c" | "src/main.c", _) => Err(TargetError::Invalid(
                "the compiler made no code for this line; the nearest lines with code are 20 and 21".into(),
            )),
            ("list.c", _) => Err(TargetError::Invalid(
                "several source files have this name; write more of the path of one: `/a/list.c`, `/b/list.c`".into(),
            )),
            _ => Err(TargetError::Missing { near: similar::nearest(file, ["main.c", "list.c"], 3) }),
        }
    }

    fn functions_by_source_name(&self, _path: &str, pattern: &str) -> Result<Vec<FunctionSymbol>, TargetError> {
        let all = [("work", 0x1300), ("work", 0x1400), ("rest", 0x1500)];
        let matching = all.iter().filter(|(name, _)| glob::matches(pattern, name));
        let symbol = |(name, file_offset): &(&str, u64)| FunctionSymbol {
            name: (*name).to_string(),
            file_offset: *file_offset,
            size_bytes: 16,
        };
        let found: Vec<_> = matching.map(symbol).collect();
        if found.is_empty() {
            return Err(TargetError::Missing { near: similar::nearest(pattern, all.iter().map(|(name, _)| *name), 3) });
        }
        Ok(found)
    }

    fn file_offset(&self, _path: &str, address: u64) -> Result<Option<u64>, TargetError> {
        Ok((0x1000..0x2000).contains(&address).then_some(address))
    }

    fn function_probing(&self) -> FunctionProbing {
        self.probing.clone()
    }

    fn bpf_functions(&self) -> Result<Vec<BpfFunction>, TargetError> {
        let function = |(program, name): &(u32, &str)| BpfFunction { program: *program, name: (*name).into() };
        Ok([(7, "count_packets"), (9, "count_packets"), (9, "drop_packet")].iter().map(function).collect())
    }

    fn kernel_functions(&self, module: Option<&str>, function: &str) -> Result<Vec<KernelFunction>, TargetError> {
        if function == "do_int3" {
            return Err(TargetError::Invalid("the kernel does not allow tracing this function".into()));
        }
        let matching = KERNEL_FUNCTIONS.iter().filter(|(name, found)| {
            glob::matches(function, name) && module.is_none_or(|m| glob::matches(m, found.unwrap_or("vmlinux")))
        });
        let found: Vec<_> = matching
            .map(|(name, module)| KernelFunction { name: (*name).into(), module: module.map(str::to_owned) })
            .collect();
        if found.is_empty() {
            return Err(TargetError::Missing { near: Vec::new() });
        }
        Ok(found)
    }

    fn absent_kernel_function(&self, _module: Option<&str>, function: &str) -> TargetError {
        self.searches.set(self.searches.get() + 1);
        TargetError::Missing { near: similar::nearest(function, KERNEL_FUNCTIONS.iter().map(|(name, _)| *name), 3) }
    }

    fn static_probes(&self, path: &str, provider: &str, name: &str) -> Result<Vec<StaticProbe>, TargetError> {
        if path != "/bin/app" {
            return Err(TargetError::Missing { near: Vec::new() });
        }
        let probes = [("done", "8@%rax"), ("mixed", "-4@%edi 8f@%xmm0 8@%st(0)"), ("start", "-4@$-1 8@-8(%rbp)")];
        let matching = probes.iter().filter(|(n, _)| glob::matches(provider, "app") && glob::matches(name, n));
        let site = |arguments: &str| StaticSite {
            file_offset: 0x1010,
            semaphore_offset: 0,
            arguments: usdt::arguments(arguments, Arch::X86_64),
        };
        let probe = |(name, arguments): &(&str, &str)| StaticProbe {
            provider: "app".into(),
            name: (*name).to_string(),
            sites: vec![site(arguments)],
        };
        let found: Vec<_> = matching.map(probe).collect();
        if found.is_empty() {
            return Err(TargetError::Missing { near: similar::nearest(name, probes.iter().map(|(n, _)| *n), 3) });
        }
        Ok(found)
    }

    fn kernel_symbol(&self, name: &str) -> Option<u64> {
        (name == "schedule").then_some(0xffff_ffff_8100_0000)
    }

    fn cgroup_id(&self, path: &str) -> Result<u64, TargetError> {
        match path {
            "/sys/fs/cgroup/app" => Ok(77),
            "/etc" => Err(TargetError::Invalid("/etc is not in the cgroup v2 hierarchy at /sys/fs/cgroup".into())),
            _ => Err(TargetError::Missing { near: Vec::new() }),
        }
    }

    fn user_id(&self, name: &str) -> Result<u32, TargetError> {
        if name == "nobody" { Ok(65534) } else { Err(TargetError::Missing { near: Vec::new() }) }
    }
}
