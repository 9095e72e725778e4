use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use super::{Cache, Digest, HEAD_BYTES, MAX_BYTES, MIN_SECTION_BYTES, digest, make_space};
use crate::unwind::sections::Sections;

/// A directory that does not exist yet, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        Directory(std::env::temp_dir().join(format!("profiler-unwind-{name}-{}", std::process::id())))
    }

    fn cache(&self) -> Cache {
        Cache::open(&self.0).expect("it is private")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn digest_in(cache: &Cache, sections: &Sections<'_>) -> Option<Digest> {
    digest(&cache.secret(), sections)
}

#[test]
fn rows_come_back_for_the_same_information_only() {
    let directory = Directory::new("rows");
    let cache = directory.cache();
    let (information, other) = (vec![7; MIN_SECTION_BYTES], vec![8; MIN_SECTION_BYTES]);
    let sections = |bytes| Sections { eh_frame: bytes, ..Sections::default() };
    let digest = digest_in(&cache, &sections(&information)).expect("large enough");
    assert_eq!(digest_in(&cache, &sections(&information[1..])), None, "too small");
    assert_ne!(digest_in(&cache, &sections(&other)), Some(digest));
    let debug = Sections { debug_frame: information.as_slice().into(), ..Sections::default() };
    assert_ne!(digest_in(&cache, &debug), Some(digest));
    assert_eq!(cache.read(digest), None);
    cache.write(digest, &[1, 2, 3]).expect("space");
    assert_eq!(digest_in(&directory.cache(), &sections(&information)), Some(digest), "another run");
    assert_eq!(directory.cache().read(digest), Some(vec![1, 2, 3]));
    fs::write(directory.0.join("key"), [9; 16]).expect("ours");
    assert_ne!(digest_in(&directory.cache(), &sections(&information)), Some(digest), "another secret");
}

#[test]
fn what_another_user_could_have_written_is_not_read() {
    let directory = Directory::new("private");
    let digest = Digest(5);
    directory.cache().write(digest, &[1]).expect("space");
    let path = directory.cache().path(digest);
    let modes = |directory_mode, entry_mode| {
        fs::set_permissions(&path, Permissions::from_mode(entry_mode)).expect("ours");
        fs::set_permissions(&directory.0, Permissions::from_mode(directory_mode)).expect("ours");
        Cache::open(&directory.0).ok().map(|cache| cache.read(digest).is_some())
    };
    assert_eq!((modes(0o700, 0o600), modes(0o700, 0o660)), (Some(true), Some(false)));
    assert_eq!((modes(0o750, 0o600), modes(0o707, 0o600)), (None, None));
    assert_eq!(modes(0o700, 0o600), Some(true));
    fs::rename(&path, directory.0.join("elsewhere")).expect("ours");
    symlink("elsewhere", &path).expect("ours");
    assert_eq!(directory.cache().read(digest), None, "a link");
    let link = Directory::new("link");
    symlink(&directory.0, &link.0).expect("ours");
    assert!(Cache::open(&link.0).is_err());
    fs::remove_file(&link.0).expect("ours");
    assert!(Cache::open(&path).is_err(), "a link to nothing");
}

#[test]
fn damaged_entries_are_absent() {
    let directory = Directory::new("damaged");
    let cache = directory.cache();
    let read = |bytes: &[u8]| {
        super::place(&directory.0, &cache.path(Digest(1)), bytes).expect("ours");
        cache.read(Digest(1))
    };
    let written = |digest: Digest, rows: &[u64]| {
        cache.write(digest, rows).expect("space");
        fs::read(cache.path(digest)).expect("it is there")
    };
    let whole = written(Digest(1), &[4, 5]);
    assert_eq!(read(&whole), Some(vec![4, 5]));
    assert_eq!(read(&written(Digest(1), &[])), Some(Vec::new()));
    let mut changed = whole.clone();
    changed[HEAD_BYTES as usize] ^= 1;
    let mut older = whole.clone();
    older[7] = b'0';
    let zeros = vec![0; whole.len()];
    let of_another = written(Digest(2), &[4, 5]);
    for bytes in [&[][..], b"unwind", &zeros, &older, &changed, &of_another, &whole[..whole.len() - 1], &whole[..12]] {
        assert_eq!(read(bytes), None, "{bytes:?}");
    }
    assert_eq!(written(Digest(1), &[5, 4]).len(), whole.len());
    assert_eq!(cache.read(Digest(1)), None, "not sorted");
}

#[test]
fn concurrent_writers_leave_complete_entries_and_nothing_else() {
    let directory = Directory::new("writers");
    let cache = directory.cache();
    let rows = |number: u64| (0..2000 + number).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let cache = &cache;
            scope.spawn(move || {
                for _ in 0..20 {
                    cache.write(Digest(number % 4), &rows(number % 4)).expect("space");
                }
            });
        }
    });
    for number in 0..4 {
        assert_eq!(cache.read(Digest(number)), Some(rows(number)));
    }
    assert_eq!(fs::read_dir(&directory.0).expect("ours").count(), 5, "four entries and the secret");
}

#[test]
fn the_oldest_entries_make_space() {
    let directory = Directory::new("space");
    let cache = directory.cache();
    for number in 0..3 {
        cache.write(Digest(number), &[number]).expect("space");
        let file = fs::File::options().write(true).open(cache.path(Digest(number))).expect("ours");
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(number)).expect("ours");
    }
    let exist = || [0, 1, 2].map(|number| cache.read(Digest(number)).is_some());
    let entry_bytes = HEAD_BYTES + 8;
    make_space(&directory.0, MAX_BYTES - 3 * entry_bytes).expect("ours");
    assert_eq!(exist(), [true; 3]);
    make_space(&directory.0, MAX_BYTES - 3 * entry_bytes + 1).expect("ours");
    assert_eq!(exist(), [false, true, true]);
    make_space(&directory.0, MAX_BYTES).expect("ours");
    assert_eq!(exist(), [false; 3]);
    assert_eq!(directory.cache().secret, cache.secret, "the secret stays");
}
