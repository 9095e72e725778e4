//! Packets that programs copy: the perf buffers in which they arrive, and the files to which they
//! are written.
//!
//! In: the buffers of an object; packets. Out: records in the order of their times, at least among
//! those that arrived together; pcap files.
//! Guarantee: every packet that the kernel has copied is read once. A file exists as soon as the
//! run begins, and an error when writing it ends the run.

mod pcap;

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use profiler_model::object::{Object, PacketBuffers};
use profiler_model::results::Packet;

use crate::attach::sampling::online_cpus;
use crate::load::Loaded;
use crate::result_file::{OWNER_ONLY, ResultFile};
use crate::sys::perf_buffer::PerfBuffer;
use crate::sys::poll;

/// The smallest buffer of a CPU: two of the longest records.
const MIN_BUFFER_BYTES: usize = 128 << 10;
/// `PERF_RECORD_SAMPLE`. The kernel's records of losses are left out: programs count what they
/// could not copy.
const SAMPLE: u32 = 9;
/// Bytes before what the program sent: the header, and a size, which includes padding.
const HEAD_BYTES: usize = 12;

/// The perf buffers of all CPUs.
#[derive(Debug)]
pub(crate) struct PacketReader {
    buffers: Vec<PerfBuffer>,
    /// Readable while one of the buffers has records.
    wake: OwnedFd,
}

impl PacketReader {
    /// Makes the buffers of an object and puts them into its map; `None` if it sends no packets.
    pub(crate) fn open(object: &Object, loaded: &Loaded) -> io::Result<Option<PacketReader>> {
        let Some(PacketBuffers { map, size_bytes, .. }) = &object.packets else { return Ok(None) };
        let map = loaded.map(map).ok_or(io::ErrorKind::NotFound)?;
        let cpus = online_cpus()?;
        let each_bytes = (*size_bytes as usize / cpus.len().max(1)).max(MIN_BUFFER_BYTES);
        let mut buffers = Vec::with_capacity(cpus.len());
        for cpu in cpus {
            let buffer = PerfBuffer::of_programs(cpu, each_bytes)?;
            map.insert_fd(&cpu.to_ne_bytes(), buffer.event())?;
            buffers.push(buffer);
        }
        let events: Vec<_> = buffers.iter().map(PerfBuffer::event).collect();
        let wake = poll::any_of(&events)?;
        Ok(Some(PacketReader { buffers, wake }))
    }

    /// A descriptor that is readable when records arrive.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Passes each pending record to `see`; how many there were.
    pub(crate) fn drain(&mut self, see: &mut dyn FnMut(&[u8])) -> u64 {
        let mut records: Vec<Vec<u8>> = Vec::new();
        for buffer in &mut self.buffers {
            buffer.drain(&mut |record| {
                if record.first_chunk() == Some(&SAMPLE.to_ne_bytes())
                    && let Some(sent) = record.get(HEAD_BYTES..)
                {
                    records.push(sent.to_vec());
                }
            });
        }
        records.sort_by_key(|record| record.get(8..).and_then(|at| at.first_chunk()).map(|at| u64::from_ne_bytes(*at)));
        for record in &records {
            see(record);
        }
        records.len() as u64
    }
}

/// The files of packets, by the path that the script has.
#[derive(Debug, Default)]
pub(crate) struct PacketFiles {
    files: BTreeMap<String, BufWriter<ResultFile>>,
    /// The first file that could not be written, and why.
    failure: Option<(String, io::Error)>,
}

impl PacketFiles {
    /// Creates the files of an object; the error has the path of the file that cannot be created.
    pub(crate) fn create(object: &Object) -> Result<PacketFiles, (String, io::Error)> {
        let mut files = BTreeMap::new();
        for path in object.packets.iter().flat_map(|buffers| &buffers.files) {
            let created = ResultFile::create(Path::new(path), OWNER_ONLY).and_then(|file| {
                let mut file = BufWriter::new(file);
                file.write_all(&pcap::head())?;
                Ok(file)
            });
            files.insert(path.clone(), created.map_err(|error| (path.clone(), error))?);
        }
        Ok(PacketFiles { files, failure: None })
    }

    /// Appends a packet; `boot_time_ns` is when the packet's clock was 0, in ns since 1970.
    pub(crate) fn write(&mut self, path: &str, packet: &Packet<'_>, boot_time_ns: u64) {
        if let Some(file) = self.files.get_mut(path) {
            let head = pcap::record_head(packet, boot_time_ns.saturating_add(packet.at_ns));
            let written = file.write_all(&head).and_then(|()| file.write_all(packet.bytes));
            self.note(path, written);
        }
    }

    /// Writes out what is buffered.
    pub(crate) fn flush(&mut self) {
        let flushed: Vec<_> = self.files.iter_mut().map(|(path, file)| (path.clone(), file.flush())).collect();
        for (path, result) in flushed {
            self.note(&path, result);
        }
    }

    fn note(&mut self, path: &str, result: io::Result<()>) {
        if let Err(error) = result {
            self.failure.get_or_insert((path.into(), error));
        }
    }

    /// Whether a file could not be written.
    pub(crate) fn have_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The first file that could not be written, and why.
    pub(crate) fn take_failure(&mut self) -> Option<(String, io::Error)> {
        self.failure.take()
    }
}
