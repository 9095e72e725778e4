//! User accounts, from the C library's name service.
//!
//! In: a login name or a user id. Out: the account's ids, groups and home directory.
//! Guarantee: answers are copied out of the C library's memory; a name that does not exist is
//! `None`, not an error.

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt as _;

/// A user's account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The login name.
    pub name: OsString,
    /// The user id.
    pub uid: u32,
    /// The id of the user's primary group.
    pub gid: u32,
    /// Ids of all groups of the user, including the primary one.
    pub groups: Vec<u32>,
    /// The home directory.
    pub home: OsString,
}

/// The effective user of this process.
pub fn effective_uid() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Initial and largest buffer for an account's strings.
const ROOM_BYTES: usize = 4096;
const MOST_ROOM_BYTES: usize = 1 << 20;

/// Limit of groups per user: the kernel's own (`NGROUPS_MAX`).
const MOST_GROUPS: usize = 65_536;

impl Account {
    /// The account with a login name.
    pub fn by_name(name: &str) -> io::Result<Option<Account>> {
        let name = CString::new(name)?;
        look_up(|entry, room, found| {
            // SAFETY: the name is NUL-terminated; `entry`, `room` and `found` are valid for writes
            // of the sizes given.
            unsafe { libc::getpwnam_r(name.as_ptr(), entry, room.as_mut_ptr().cast(), room.len(), found) }
        })
    }

    /// The account with a user id.
    pub fn by_uid(uid: u32) -> io::Result<Option<Account>> {
        look_up(|entry, room, found| {
            // SAFETY: `entry`, `room` and `found` are valid for writes of the sizes given.
            unsafe { libc::getpwuid_r(uid, entry, room.as_mut_ptr().cast(), room.len(), found) }
        })
    }
}

/// Calls `getpwnam_r` or `getpwuid_r`, with a larger buffer as long as it asks for one.
fn look_up(
    mut call: impl FnMut(*mut libc::passwd, &mut [u8], *mut *mut libc::passwd) -> i32,
) -> io::Result<Option<Account>> {
    let mut room = vec![0u8; ROOM_BYTES];
    loop {
        let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        match call(entry.as_mut_ptr(), &mut room, &raw mut found) {
            0 if found.is_null() => return Ok(None),
            // SAFETY: the call succeeded and found an account, so it filled the entry, whose
            // strings are in `room`.
            0 => return unsafe { copied(&entry.assume_init()) }.map(Some),
            libc::ERANGE if room.len() < MOST_ROOM_BYTES => room.resize(room.len() * 4, 0),
            // Returned by the name service when there is no such account, besides success.
            libc::ENOENT | libc::ESRCH => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Copies an entry.
///
/// # Safety
/// The entry's strings are NUL-terminated and alive.
unsafe fn copied(entry: &libc::passwd) -> io::Result<Account> {
    // SAFETY: the caller guarantees it.
    let (name, home) = unsafe { (CStr::from_ptr(entry.pw_name), CStr::from_ptr(entry.pw_dir)) };
    let groups = groups(name, entry.pw_gid)?;
    let text = |text: &CStr| OsString::from_vec(text.to_bytes().to_vec());
    Ok(Account { name: text(name), uid: entry.pw_uid, gid: entry.pw_gid, groups, home: text(home) })
}

fn groups(name: &CStr, gid: u32) -> io::Result<Vec<u32>> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = groups.len() as i32;
        // SAFETY: the name is NUL-terminated; the array has space for `count` numbers.
        let result = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        if result >= 0 {
            groups.truncate(count.max(0) as usize);
            return Ok(groups);
        }
        if groups.len() >= MOST_GROUPS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        groups.resize((groups.len() * 4).min(MOST_GROUPS), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Account;

    #[test]
    fn root_is_known_by_name_and_number() {
        let root = Account::by_uid(0).expect("the name service answers").expect("there is root");
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        let name = root.name.to_str().expect("a name").to_owned();
        assert_eq!(Account::by_name(&name).expect("it answers"), Some(root));
    }

    #[test]
    fn an_unknown_account_is_none() {
        assert_eq!(Account::by_name("no-such-user-here").expect("it answers"), None);
        assert_eq!(Account::by_uid(u32::MAX - 7).expect("it answers"), None);
    }
}
