//! The kernel's helpers in the VM.
//!
//! In: evaluated arguments. Out: the result register, as the kernel sets it. Guarantee: memory that
//! a helper fills counts as written; bytes that it leaves untouched (after a string's NUL) keep
//! their state.

use super::environment::Traced;
use super::maps::{E2BIG, EFAULT, EINVAL};
use super::memory::{Access, Bytes, Memory, Space};
use super::{Fault, Kernel, Machine, Value};
use profiler_compiler::ir::{FunctionId, Helper, MapId, Size, WALK_BYTES};

/// `BPF_F_USER_STACK`.
const USER_STACK: u64 = 1 << 8;
/// `BPF_F_SKIP_FIELD_MASK`: the number of innermost frames to skip.
const SKIP_MASK: u64 = 0xff;
/// The kernel's error number for a forbidden operation.
const EPERM: i64 = -1;
/// `BPF_LOCAL_STORAGE_GET_F_CREATE`.
const CREATE: u64 = 1;
/// `struct bpf_pidns_info`: two 32-bit numbers.
const NAMESPACE_INFO_BYTES: u64 = 8;

/// `BPF_MAX_LOOPS`.
const MAX_ITERATIONS: u32 = 8 << 20;

/// The arguments of a call.
struct Args<'a>(&'a [Value]);

impl Args<'_> {
    fn number(&self, index: usize) -> Result<u64, Fault> {
        match self.0.get(index) {
            Some(Value::Number(number)) => Ok(*number),
            _ => Err(Fault::BadArgument(index)),
        }
    }

    fn size(&self, index: usize) -> Result<usize, Fault> {
        // The kernel's verifier bounds every size; this bound only limits the evaluator's own
        // memory.
        match self.number(index)? {
            size @ 0..=0xff_ffff => Ok(size as usize),
            _ => Err(Fault::BadArgument(index)),
        }
    }

    fn function(&self, index: usize) -> Result<FunctionId, Fault> {
        match self.0.get(index) {
            Some(Value::Function(function)) => Ok(*function),
            _ => Err(Fault::BadArgument(index)),
        }
    }

    fn map(&self, index: usize) -> Result<MapId, Fault> {
        match self.0.get(index) {
            Some(Value::Map(map)) => Ok(*map),
            _ => Err(Fault::BadArgument(index)),
        }
    }
}

impl Machine<'_> {
    pub(super) fn call(&mut self, helper: Helper, args: &[Value]) -> Result<u64, Fault> {
        let args = Args(args);
        let world = &mut self.kernel.environment;
        Ok(match helper {
            Helper::KtimeGetNs => world.look_at_clock(),
            Helper::KtimeGetBootNs => world.look_at_clock().wrapping_add(world.boot_offset_ns),
            Helper::KtimeGetTaiNs => world.look_at_clock().wrapping_add(world.tai_offset_ns),
            Helper::GetPrandomU32 => u64::from(world.random()),
            Helper::GetSmpProcessorId => u64::from(world.cpu),
            Helper::GetCurrentPidTgid => world.pid_tgid,
            Helper::GetCurrentUidGid => world.uid_gid,
            Helper::GetCurrentTask | Helper::GetCurrentTaskBtf => world.task,
            Helper::GetNumaNodeId => u64::from(world.numa_node),
            Helper::GetCurrentCgroupId => world.cgroup_id,
            Helper::GetCurrentAncestorCgroupId => {
                let level = args.size(0)?;
                world.ancestor_cgroup_ids.get(level).copied().unwrap_or(0)
            }
            Helper::GetFuncIp => world.function_address,
            Helper::GetAttachCookie => world.cookie,
            Helper::TaskPtRegs => world.task_registers,
            Helper::RdonlyCast => args.number(0)?,
            // As on a kernel with `HZ=250`.
            Helper::Jiffies64 => world.look_at_clock() / 4_000_000,
            Helper::SendSignal | Helper::SendSignalThread => {
                world.signals.push(args.number(0)? as u32);
                0
            }
            Helper::Loop => self.repeat(&args)?,
            Helper::RunApart => {
                let given = vec![args.number(1)?, args.number(2)?];
                self.call_back(args.function(0)?, given)? as u64
            }
            Helper::ForEachMapElem => self.for_each(&args)?,
            _ => return self.kernel.call_on_memory(helper, &args),
        })
    }

    /// `bpf_loop`: returns the number of iterations that ran.
    fn repeat(&mut self, args: &Args) -> Result<u64, Fault> {
        let times = args.number(0)? as u32;
        if times > MAX_ITERATIONS {
            return Ok(E2BIG as u64);
        }
        if args.number(3)? != 0 {
            return Ok(EINVAL as u64);
        }
        let (callback, given) = (args.function(1)?, args.number(2)?);
        for iteration in 0..times {
            if self.call_back(callback, vec![u64::from(iteration), given])? != 0 {
                return Ok(u64::from(iteration) + 1);
            }
        }
        Ok(u64::from(times))
    }

    /// `bpf_for_each_map_elem`, in key order; entries deleted during the walk are not visited.
    fn for_each(&mut self, args: &Args) -> Result<u64, Fault> {
        let map = args.map(0)?;
        if args.number(3)? != 0 {
            return Ok(EINVAL as u64);
        }
        let (callback, given) = (args.function(1)?, args.number(2)?);
        let mut visited = 0;
        for key in self.kernel.keys(map) {
            let value = self.kernel.lookup(map, &key)?;
            if value == 0 {
                continue;
            }
            visited += 1;
            let key = self.kernel.memory.add(Access::ReadOnly, Bytes::defined(key));
            let result = self.call_back(callback, vec![0, Memory::address(key, 0), value, given]);
            self.kernel.memory.release(key);
            if result? != 0 {
                break;
            }
        }
        Ok(visited)
    }
}

impl Kernel<'_> {
    /// The helpers that read or write memory.
    fn call_on_memory(&mut self, helper: Helper, args: &Args) -> Result<u64, Fault> {
        let result = match helper {
            Helper::ProbeReadKernel => self.probe_read(Space::Kernel, args)?,
            Helper::ProbeReadUser => self.probe_read(Space::User, args)?,
            Helper::ProbeReadKernelStr => self.probe_read_str(Space::Kernel, args)?,
            Helper::ProbeReadUserStr => self.probe_read_str(Space::User, args)?,
            Helper::GetCurrentComm => self.current_comm(args)?,
            Helper::GetNsCurrentPidTgid => self.namespace_pid_tgid(args)?,
            Helper::TracePrintk => self.trace(args)?,
            Helper::GetStack | Helper::GetTaskStack => self.get_stack(args)?,
            // As under kernel lockdown.
            Helper::ProbeWriteUser => EPERM,
            _ => return self.call_on_map(helper, args),
        };
        Ok(result as u64)
    }

    /// The helpers that work on maps and ring buffers.
    fn call_on_map(&mut self, helper: Helper, args: &Args) -> Result<u64, Fault> {
        let result = match helper {
            Helper::MapLookupElem => {
                let key = self.key(args)?;
                return self.lookup(args.map(0)?, &key);
            }
            Helper::MapLookupPercpuElem => {
                let key = self.key(args)?;
                return self.lookup_on(args.map(0)?, &key, args.number(2)? as u32);
            }
            Helper::MapUpdateElem => {
                let (key, map) = (self.key(args)?, args.map(0)?);
                let size_bytes = self.declaration(map)?.value_size_bytes as usize;
                // Kernels before 6.4 reject values that are not fully written; later ones copy the
                // old stack bytes into the map.
                let value = Bytes::defined(self.memory.read_defined(args.number(2)?, size_bytes)?);
                self.update(map, key, &value, args.number(3)?)?
            }
            Helper::MapDeleteElem => {
                let key = self.key(args)?;
                self.delete(args.map(0)?, &key)?
            }
            Helper::TaskStorageGet => return self.task_storage_get(args),
            Helper::TaskStorageDelete => self.delete(args.map(0)?, &args.number(1)?.to_le_bytes())?,
            Helper::IterTaskNew => {
                self.memory.write(args.number(0)?, &Bytes::zeroed(WALK_BYTES as usize))?;
                0
            }
            Helper::IterTaskNext => return self.next_task(args.number(0)?),
            Helper::IterTaskDestroy => {
                self.memory.read(args.number(0)?, WALK_BYTES as usize)?;
                0
            }
            Helper::SeqPrintf => {
                let format = self.memory.read(args.number(1)?, args.size(2)?)?;
                let values = self.memory.read(args.number(3)?, args.size(4)?)?;
                self.environment.sequence.extend(format.value.into_iter().chain(values.value));
                0
            }
            // All code is called the same here.
            Helper::Snprintf => {
                self.memory.write(args.number(0)?, &Bytes::defined(b"code\0".to_vec()))?;
                5
            }
            Helper::SeqWrite => {
                let bytes = self.memory.read(args.number(1)?, args.size(2)?)?;
                self.environment.sequence.extend(bytes.value);
                0
            }
            Helper::GetStackid => self.get_stackid(args)?,
            Helper::RingbufReserve => return self.reserve(args.map(0)?, args.size(1)? as u64),
            Helper::RingbufOutput => self.output(args)?,
            Helper::RingbufQuery => return self.ring_query(args.map(0)?, args.number(1)?),
            Helper::RingbufSubmit | Helper::RingbufDiscard => {
                self.close_record(args.number(0)?, helper == Helper::RingbufSubmit)?;
                0
            }
            _ => return Err(Fault::Malformed("a helper that is not modelled")),
        };
        Ok(result as u64)
    }

    fn key(&self, args: &Args) -> Result<Vec<u8>, Fault> {
        let size_bytes = self.declaration(args.map(0)?)?.key_size_bytes;
        self.memory.read_defined(args.number(1)?, size_bytes as usize)
    }

    fn probe_read(&mut self, space: Space, args: &Args) -> Result<i64, Fault> {
        let (to, size_bytes) = (args.number(0)?, args.size(1)?);
        let bytes = self.memory.probe(space, args.number(2)?, size_bytes);
        let complete = bytes.len() == size_bytes;
        // On failure the kernel clears the destination.
        let bytes = if complete { Bytes::defined(bytes) } else { Bytes::zeroed(size_bytes) };
        self.memory.write(to, &bytes)?;
        Ok(if complete { 0 } else { EFAULT })
    }

    fn probe_read_str(&mut self, space: Space, args: &Args) -> Result<i64, Fault> {
        let (to, size_bytes) = (args.number(0)?, args.size(1)?);
        if size_bytes == 0 {
            return Ok(0);
        }
        let mut bytes = self.memory.probe(space, args.number(2)?, size_bytes);
        let nul = bytes.iter().position(|byte| *byte == 0);
        let Some(end) = nul.or_else(|| (bytes.len() == size_bytes).then(|| size_bytes - 1)) else {
            self.memory.write(to, &Bytes::zeroed(size_bytes))?;
            return Ok(EFAULT);
        };
        bytes.truncate(end);
        bytes.push(0);
        // Bytes after the NUL stay unchanged, but the whole destination must be accessible.
        self.memory.read(to, size_bytes)?;
        self.memory.write(to, &Bytes::defined(bytes))?;
        Ok(end as i64 + 1)
    }

    /// As on Linux 6.1, bytes after the string's end stay unchanged; newer kernels zero them.
    fn current_comm(&mut self, args: &Args) -> Result<i64, Fault> {
        let mut comm: Vec<u8> = self.environment.comm.iter().copied().take_while(|byte| *byte != 0).collect();
        comm.truncate(args.size(1)?.saturating_sub(1));
        comm.push(0);
        self.memory.write(args.number(0)?, &Bytes::defined(comm))?;
        Ok(0)
    }

    fn namespace_pid_tgid(&mut self, args: &Args) -> Result<i64, Fault> {
        let known = self.environment.namespace_pid_tgid;
        let known = known.filter(|_| matches!(args.number(3), Ok(NAMESPACE_INFO_BYTES)));
        let info = known.unwrap_or(0).to_le_bytes().to_vec();
        self.memory.write(args.number(2)?, &Bytes::defined(info))?;
        Ok(if known.is_some() { 0 } else { EINVAL })
    }

    fn trace(&mut self, args: &Args) -> Result<i64, Fault> {
        let mut format = self.memory.read_defined(args.number(0)?, args.size(1)?)?;
        let end = format.iter().position(|byte| *byte == 0).unwrap_or(format.len());
        format.truncate(end);
        let values = [args.number(2)?, args.number(3)?, args.number(4)?];
        self.environment.traced.push(Traced { format, values });
        Ok(end as i64)
    }

    /// The next task that has a value in any map; the iterator holds its index. 0 after the last
    /// task.
    fn next_task(&mut self, walk: u64) -> Result<u64, Fault> {
        let at = self.memory.load(walk, Size::B8)?;
        self.memory.store(walk, Size::B8, at + 1)?;
        Ok(self.tasks().get(at as usize).copied().unwrap_or(0))
    }

    fn task_storage_get(&mut self, args: &Args) -> Result<u64, Fault> {
        let (map, task, flags) = (args.map(0)?, args.number(1)?, args.number(3)?);
        let size_bytes = self.declaration(map)?.value_size_bytes as usize;
        let initial = match args.number(2)? {
            0 => None,
            address => Some(self.memory.read(address, size_bytes)?),
        };
        self.task_value(map, task, initial.as_ref(), flags & CREATE != 0)
    }

    fn get_stackid(&mut self, args: &Args) -> Result<i64, Fault> {
        let (map, flags) = (args.map(1)?, args.number(2)?);
        let user = flags & USER_STACK != 0;
        let world = &self.environment;
        let stack = if user { &world.user_stack } else { &world.kernel_stack };
        match stack.as_ref().and_then(|stack| stack.get((flags & SKIP_MASK) as usize..)) {
            Some(frames) if !frames.is_empty() => self.stack_id(map, frames.to_vec()),
            _ => Ok(EFAULT),
        }
    }

    /// Writes the frames themselves and zeroes the rest of the buffer.
    fn get_stack(&mut self, args: &Args) -> Result<i64, Fault> {
        let (to, size_bytes, flags) = (args.number(1)?, args.size(2)?, args.number(3)?);
        let world = &self.environment;
        let stack = if flags & USER_STACK != 0 { &world.user_stack } else { &world.kernel_stack };
        let frames = stack.as_ref().and_then(|stack| stack.get((flags & SKIP_MASK) as usize..)).map(<[u64]>::to_vec);
        let mut bytes: Vec<u8> = frames.iter().flatten().flat_map(|frame| frame.to_le_bytes()).collect();
        bytes.truncate(size_bytes);
        let len = bytes.len() as i64;
        bytes.resize(size_bytes, 0);
        self.memory.write(to, &Bytes::defined(bytes))?;
        Ok(if frames.is_some() { len } else { EFAULT })
    }

    fn output(&mut self, args: &Args) -> Result<i64, Fault> {
        let bytes = self.memory.read(args.number(1)?, args.size(2)?)?;
        match self.reserve(args.map(0)?, bytes.value.len() as u64)? {
            // -EAGAIN: the ring buffer is full.
            0 => Ok(-11),
            record => {
                self.memory.write(record, &bytes)?;
                self.close_record(record, true)?;
                Ok(0)
            }
        }
    }
}
