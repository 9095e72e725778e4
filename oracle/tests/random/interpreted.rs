//! The kernel as the interpreted programs see it: maps, ring buffers, and the helpers that the
//! compiler calls.
//!
//! In: an IR program's maps and data, an environment. Out: map entries, records, `.bss`.
//! Guarantees: shares no code with the evaluator except the plain data of [`Environment`]; there is
//! one CPU; no kernel or user memory can be read.

use std::collections::BTreeMap;

use profiler_compiler::emit::EmittedFunction;
use profiler_compiler::ir::{Helper, MapId, MapKind, Program};
use profiler_oracle::evaluator::Environment;
use profiler_oracle::interpreter::{Fault, Host, Memory, map_address, run_with};

const ENOENT: u64 = -2i64 as u64;
const E2BIG: u64 = -7i64 as u64;
const EAGAIN: u64 = -11i64 as u64;
const EFAULT: u64 = -14i64 as u64;
const EEXIST: u64 = -17i64 as u64;
/// Flags of `map_update_elem`.
const NO_EXIST: u64 = 1;
/// `BPF_LOCAL_STORAGE_GET_F_CREATE`.
const CREATE: u64 = 1;
const EXIST: u64 = 2;
/// Size of the header before each record.
const HEADER_BYTES: u64 = 8;
/// `BPF_RB_PROD_POS`.
const PRODUCER_POSITION: u64 = 3;

/// A map or a ring buffer.
#[derive(Default)]
struct Table {
    /// Addresses of the values by key.
    entries: BTreeMap<Vec<u8>, u64>,
    records: Vec<Record>,
    produced_bytes: u64,
}

struct Record {
    address: u64,
    size_bytes: u64,
    submitted: bool,
}

/// One simulated kernel for all programs of an object.
pub struct World<'a> {
    memory: Memory,
    kernel: Kernel<'a>,
}

struct Kernel<'a> {
    program: &'a Program,
    tables: Vec<Table>,
    environment: Environment,
}

impl<'a> World<'a> {
    pub fn new(program: &'a Program, mut environment: Environment, task_bytes: usize) -> World<'a> {
        let bss = vec![0; program.bss_size_bytes as usize];
        let mut memory = Memory::new(Vec::new(), program.rodata.clone(), bss);
        if task_bytes > 0 {
            environment.task = memory.add(vec![0; task_bytes]);
        }
        let tables = program.maps.iter().map(|_| Table::default()).collect();
        World { memory, kernel: Kernel { program, tables, environment } }
    }

    pub fn run(
        &mut self,
        function: &EmittedFunction,
        subprograms: &[EmittedFunction],
        context: Vec<u8>,
    ) -> Result<u64, Fault> {
        self.memory.enter(context);
        run_with(function, subprograms, &mut self.memory, &mut self.kernel)
    }

    pub fn bss(&self) -> &[u8] {
        self.memory.bss()
    }

    /// Sets a word of `.bss`.
    pub fn set_word(&mut self, offset_bytes: u32, value: u64) {
        let at = offset_bytes as usize;
        self.memory.bss_mut()[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn table(&self, name: &str) -> (usize, &Table) {
        let at = self.kernel.program.maps.iter().position(|map| map.name == name).expect("the map is in the program");
        (at, &self.kernel.tables[at])
    }

    pub fn entries(&self, name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        let (at, table) = self.table(name);
        let size = self.kernel.program.maps[at].value_size_bytes as usize;
        let value = |address: &u64| self.memory.bytes(*address, size).expect("a value").to_vec();
        table.entries.iter().map(|(key, address)| (key.clone(), value(address))).collect()
    }

    pub fn records(&self, name: &str) -> Vec<Vec<u8>> {
        let bytes = |r: &Record| self.memory.bytes(r.address, r.size_bytes as usize).expect("a record").to_vec();
        self.table(name).1.records.iter().filter(|record| record.submitted).map(bytes).collect()
    }
}

impl Host for Kernel<'_> {
    fn call(&mut self, number: u32, args: [u64; 5], memory: &mut Memory) -> Result<u64, Fault> {
        let is = |helper: Helper| number == helper as u32;
        if is(Helper::KtimeGetNs) || is(Helper::KtimeGetBootNs) {
            let now_ns = self.environment.clock_ns;
            self.environment.clock_ns = now_ns.wrapping_add(self.environment.clock_step_ns);
            return Ok(now_ns);
        }
        let world = &self.environment;
        if is(Helper::ProbeReadKernel) || is(Helper::ProbeReadUser) {
            return probe_read(args, memory, is(Helper::ProbeReadKernel));
        }
        if is(Helper::ProbeReadKernelStr) || is(Helper::ProbeReadUserStr) {
            return probe_read_str(args, memory, is(Helper::ProbeReadKernelStr));
        }
        // This kernel has no stacks.
        if is(Helper::GetStack) {
            memory.bytes_mut(args[1], args[2] as usize)?.fill(0);
            return Ok(EFAULT);
        }
        if is(Helper::GetCurrentComm) {
            let comm = world.comm.iter().position(|byte| *byte == 0).map_or(&world.comm[..], |end| &world.comm[..=end]);
            memory.bytes_mut(args[0], args[1] as usize)?[..comm.len()].copy_from_slice(comm);
            return Ok(0);
        }
        let answers = [
            (Helper::GetSmpProcessorId, u64::from(world.cpu)),
            (Helper::GetCurrentPidTgid, world.pid_tgid),
            (Helper::GetCurrentUidGid, world.uid_gid),
            (Helper::GetCurrentTask, world.task),
            (Helper::GetCurrentTaskBtf, world.task),
            (Helper::GetNumaNodeId, u64::from(world.numa_node)),
            (Helper::GetCurrentCgroupId, world.cgroup_id),
            (Helper::GetAttachCookie, world.cookie),
            (Helper::GetFuncIp, world.function_address),
            (Helper::TaskPtRegs, world.task_registers),
            (Helper::KtimeGetTaiNs, world.clock_ns.wrapping_add(world.tai_offset_ns)),
            (Helper::Jiffies64, world.clock_ns / 4_000_000),
        ];
        match answers.into_iter().find(|(helper, _)| is(*helper)) {
            Some((_, answer)) => Ok(answer),
            None if is(Helper::GetPrandomU32) => Ok(self.random()),
            None if is(Helper::RingbufSubmit) => self.submit(args[0]),
            None => self.call_on_map(number, args, memory),
        }
    }

    fn entries(&mut self, map: u64, memory: &mut Memory) -> Result<Vec<(u64, u64)>, Fault> {
        let at = (0..self.tables.len()).find(|at| map_address(MapId(*at as u32)) == map);
        let table = at.map(|at| &self.tables[at]).ok_or(Fault::OutOfBounds { address: map })?;
        Ok(table.entries.iter().map(|(key, value)| (memory.add(key.clone()), *value)).collect())
    }
}

impl Kernel<'_> {
    /// The evaluator's next random number (xorshift64).
    fn random(&mut self) -> u64 {
        let x = &mut self.environment.random_state;
        *x ^= *x << 13;
        *x ^= *x >> 7;
        *x ^= *x << 17;
        *x >> 32
    }

    fn call_on_map(&mut self, number: u32, args: [u64; 5], memory: &mut Memory) -> Result<u64, Fault> {
        let is = |helper: Helper| number == helper as u32;
        let unknown = Fault::UnknownHelper { number };
        let map = if is(Helper::GetStackid) { args[1] } else { args[0] };
        let at = (0..self.tables.len()).find(|at| map_address(MapId(*at as u32)) == map).ok_or(unknown)?;
        if is(Helper::TaskStorageGet) {
            return Ok(self.task_value(at, args, memory));
        }
        if is(Helper::TaskStorageDelete) {
            let removed = self.tables[at].entries.remove(args[1].to_le_bytes().as_slice());
            return Ok(if removed.is_some() { 0 } else { ENOENT });
        }
        let key = || Ok(memory.bytes(args[1], self.program.maps[at].key_size_bytes as usize)?.to_vec());
        if is(Helper::MapLookupElem) {
            return Ok(self.tables[at].entries.get(&key()?).copied().unwrap_or(0));
        }
        if is(Helper::MapDeleteElem) {
            return Ok(if self.tables[at].entries.remove(&key()?).is_some() { 0 } else { ENOENT });
        }
        if is(Helper::MapUpdateElem) {
            let key = key()?;
            return self.update(at, key, args, memory);
        }
        if is(Helper::RingbufReserve) {
            return Ok(self.reserve(at, args[1], memory));
        }
        if is(Helper::RingbufOutput) {
            let bytes = memory.bytes(args[1], args[2] as usize)?.to_vec();
            let address = self.reserve(at, args[2], memory);
            if address == 0 {
                return Ok(EAGAIN);
            }
            memory.bytes_mut(address, bytes.len())?.copy_from_slice(&bytes);
            return self.submit(address);
        }
        if is(Helper::RingbufQuery) && args[1] == PRODUCER_POSITION {
            return Ok(self.tables[at].produced_bytes);
        }
        if is(Helper::GetStackid) { Ok(EFAULT) } else { Err(unknown) }
    }

    /// The address of a task's value; a value of zeros is created if the flags ask for it.
    fn task_value(&mut self, at: usize, [_, task, initial, flags, _]: [u64; 5], memory: &mut Memory) -> u64 {
        assert_eq!(initial, 0, "the compiler lets values begin with zeros");
        let size = self.program.maps[at].value_size_bytes as usize;
        let entries = &mut self.tables[at].entries;
        match entries.get(task.to_le_bytes().as_slice()) {
            Some(address) => *address,
            None if flags & CREATE == 0 => 0,
            None => *entries.entry(task.to_le_bytes().to_vec()).or_insert_with(|| memory.add(vec![0; size])),
        }
    }

    fn update(&mut self, at: usize, key: Vec<u8>, args: [u64; 5], memory: &mut Memory) -> Result<u64, Fault> {
        let map = &self.program.maps[at];
        let value = memory.bytes(args[2], map.value_size_bytes as usize)?.to_vec();
        let table = &mut self.tables[at];
        let known = table.entries.get(&key).copied();
        match (known, args[3]) {
            (Some(_), NO_EXIST) => return Ok(EEXIST),
            (None, EXIST) => return Ok(ENOENT),
            (None, _) if table.entries.len() >= map.max_entries as usize => return Ok(E2BIG),
            _ => {}
        }
        match known {
            Some(address) if map.kind == MapKind::PerCpuHash => {
                memory.bytes_mut(address, value.len())?.copy_from_slice(&value);
            }
            // A hash inserts a new element; pointers to the old value stay valid.
            _ => {
                table.entries.insert(key, memory.add(value));
            }
        }
        Ok(0)
    }

    fn reserve(&mut self, at: usize, size_bytes: u64, memory: &mut Memory) -> u64 {
        let (ring_bytes, ring) = (u64::from(self.program.maps[at].max_entries), &mut self.tables[at]);
        let needed_bytes = (size_bytes + HEADER_BYTES).next_multiple_of(8);
        if ring.produced_bytes + needed_bytes > ring_bytes - 1 {
            return 0;
        }
        ring.produced_bytes += needed_bytes;
        let address = memory.add(vec![0xa5; size_bytes as usize]);
        ring.records.push(Record { address, size_bytes, submitted: false });
        address
    }

    fn submit(&mut self, address: u64) -> Result<u64, Fault> {
        let mut records = self.tables.iter_mut().flat_map(|table| &mut table.records);
        let record = records.find(|record| record.address == address).ok_or(Fault::OutOfBounds { address })?;
        record.submitted = true;
        Ok(0)
    }
}

fn probe_read([to, size, from, ..]: [u64; 5], memory: &mut Memory, kernel: bool) -> Result<u64, Fault> {
    let found = if kernel { memory.bytes(from, size as usize).ok().map(<[u8]>::to_vec) } else { None };
    let to = memory.bytes_mut(to, size as usize)?;
    let Some(bytes) = found else {
        to.fill(0);
        return Ok(EFAULT);
    };
    to.copy_from_slice(&bytes);
    Ok(0)
}

fn probe_read_str([to, size, from, ..]: [u64; 5], memory: &mut Memory, kernel: bool) -> Result<u64, Fault> {
    let mut text = Vec::new();
    for at in 0..size {
        let byte = if at + 1 == size { Ok(&[0][..]) } else { memory.bytes(from.wrapping_add(at), 1) };
        match byte {
            Ok(byte) if kernel => text.extend_from_slice(byte),
            _ => {
                memory.bytes_mut(to, size as usize)?.fill(0);
                return Ok(EFAULT);
            }
        }
        if text.last() == Some(&0) {
            break;
        }
    }
    memory.bytes_mut(to, size as usize)?[..text.len()].copy_from_slice(&text);
    Ok(text.len() as u64)
}
