//! Tests that fail a given number of times, for `tests/runner/check`.
//!
//! In: `SAMPLE`, a directory. Each run of a test adds its start and its end to `SAMPLE/log`; a file
//! `SAMPLE/TEST` has the number of runs that fail first.
//! Out: the verdicts of the tests.

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;
    use std::path::{Path, PathBuf};
    use std::thread;
    use std::time::Duration;

    /// Adds a line to the log by one system call, so that lines of concurrent tests do not mix.
    fn note(directory: &Path, line: &str) {
        let mut log = OpenOptions::new().create(true).append(true).open(directory.join("log")).expect("a log");
        log.write_all(format!("{line}\n").as_bytes()).expect("a line");
    }

    /// Fails as often as the file says. It lasts a moment, so that tests which may overlap do.
    fn attempt(name: &str) {
        let directory = PathBuf::from(std::env::var("SAMPLE").expect("a directory"));
        let failures =
            fs::read_to_string(directory.join(name)).map_or(0, |text| text.trim().parse().expect("a number"));
        note(&directory, &format!("start {name}"));
        thread::sleep(Duration::from_millis(20));
        let log = fs::read_to_string(directory.join("log")).expect("a log");
        let runs = log.lines().filter(|line| *line == format!("start {name}")).count();
        note(&directory, &format!("end {name}"));
        assert!(runs > failures, "run {runs} of {failures} that fail");
    }

    mod busy {
        #[test]
        fn a() {
            super::attempt("a");
        }

        #[test]
        fn b() {
            super::attempt("b");
        }
    }

    #[test]
    fn plain() {
        attempt("plain");
    }

    #[test]
    fn other() {
        attempt("other");
    }

    #[test]
    fn without_a_kernel() {
        println!("SKIPPED: the <reason> & \"more\"");
    }

    #[test]
    fn in_part() {
        println!("PARTLY SKIPPED: one case");
    }
}
