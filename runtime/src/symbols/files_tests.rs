use std::fs;
use std::path::Path;

use super::*;
use crate::host::small_files::{file, line_table, packed, section, strings, symbols, unit};

const MEGABYTE: usize = 1 << 20;

/// What all files together may take.
const MAX_BYTES: usize = 256 * MEGABYTE;

/// Reads files like the real ones.
struct Reader {
    files: Files,
    directory: PathBuf,
}

impl Reader {
    fn new(name: &str) -> Reader {
        let directory = std::env::temp_dir().join(format!("profiler-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        Reader { files: Files::new(), directory }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> File {
        let path = self.directory.join(name);
        fs::write(&path, bytes).expect("written");
        File::options().read(true).write(true).open(path).expect("it is there")
    }

    /// Finds the name and the origin of the code at an offset.
    fn find(&mut self, file: File, offset: u64) -> (Option<String>, Found) {
        let read = self.files.read(file, Program { path: Path::new("/x"), root: Path::new("/") });
        let symbol = read.symbol(offset).map(|symbol| String::from_utf8_lossy(&symbol.name).into_owned());
        (symbol, self.files.origin(&read, offset))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.directory).expect("our own directory");
    }
}

/// A line of `/proc/self/status` in bytes.
fn status_bytes(name: &str) -> usize {
    let text = fs::read_to_string("/proc/self/status").expect("our own");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("every kernel has it");
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<usize>().expect("a number") << 10
}

/// The most memory that this process takes meanwhile, beyond what it takes now.
fn peak_bytes(during: impl FnOnce()) -> usize {
    // 5 resets the peak.
    fs::write("/proc/self/clear_refs", "5").expect("our own");
    let before = status_bytes("VmRSS");
    during();
    status_bytes("VmHWM").saturating_sub(before)
}

/// A file of half a megabyte with this much debug information.
fn with_strings(megabytes: usize) -> Vec<u8> {
    let [abbreviations, info] = unit();
    let lines = section(".debug_line", [line_table(1), vec![32]].concat());
    let bytes = file(&[abbreviations, info, lines, packed(".debug_str", &[], (b'x', megabytes))]);
    assert!(bytes.len() < MEGABYTE, "{} bytes", bytes.len());
    bytes
}

#[test]
fn debug_information_of_several_files_takes_no_more_than_that_of_one() {
    let mut reader = Reader::new("several");
    let files: Vec<File> = [500, 150, 500, 150, 150]
        .iter()
        .enumerate()
        .map(|(at, megabytes)| reader.write(&at.to_string(), &with_strings(*megabytes)))
        .collect();
    let peak = peak_bytes(|| {
        for file in files {
            reader.find(file, 0x1000);
        }
    });
    assert!(peak < MAX_BYTES, "{} MiB", peak / MEGABYTE);
    assert_eq!((reader.files.take_refused(), reader.files.take_refused()), (2, 0));
}

#[test]
fn rows_of_a_line_table_are_within_the_budget() {
    let mut reader = Reader::new("rows");
    let megabytes = 15;
    let lines = packed(".debug_line", &line_table(megabytes * MEGABYTE), (32, megabytes));
    let [abbreviations, info] = unit();
    let bytes = file(&[abbreviations, info, lines]);
    assert!(bytes.len() < MEGABYTE / 16, "{} bytes", bytes.len());
    let (large, small) = (reader.write("large", &bytes), reader.write("small", &with_strings(1)));
    let peak = peak_bytes(|| {
        assert!(reader.find(large, 0x1000).1.is_refused);
        assert!(!reader.find(small, 0).1.is_refused, "there is enough for others");
    });
    assert!(peak < MAX_BYTES, "{} MiB", peak / MEGABYTE);
    assert_eq!(reader.files.take_refused(), 1);
}

#[test]
fn names_stay_in_the_file() {
    let mut reader = Reader::new("names");
    let mut bytes = file(&[symbols(2), strings(".strtab", Vec::new())]);
    // The names are after everything else, and most of them are a hole.
    let (end, names_bytes) = (bytes.len() as u64, 100 * MEGABYTE as u64);
    let table = u64::from_le_bytes(bytes[40..48].try_into().expect("8 bytes")) as usize;
    let place = table + 2 * 64 + 24;
    bytes[place..place + 16].copy_from_slice(&[end.to_le_bytes(), names_bytes.to_le_bytes()].concat());
    let long = reader.write("long", &[&bytes[..], b"\0f\0"].concat());
    long.set_len(end + names_bytes).expect("a hole");
    let peak = peak_bytes(|| assert_eq!(reader.find(long, 0x1000).0.as_deref(), Some("f")));
    assert!(peak < 8 * MEGABYTE, "{} MiB", peak / MEGABYTE);
}
