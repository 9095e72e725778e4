//! Attaches a program to as many of its sites as the kernel accepts.
//!
//! In: sites, and a function that attaches to several of them at once. Out: the sites that the
//! kernel refused, each with its error.
//! Guarantee: every other site is attached; an error that is not about a site is returned at once.

use std::io;

/// After this many refusals no more sites are tried, because the cause is not a single site.
const MOST_REFUSED: usize = 128;

/// Attaches to all sites with few calls: a refused group is halved until the refused sites are
/// found. `is_about_site` returns whether an error can be due to a single site.
pub(super) fn attach_most<'s, S>(
    sites: &'s [S],
    attach: &mut dyn FnMut(&'s [S]) -> io::Result<()>,
    is_about_site: &dyn Fn(&io::Error) -> bool,
) -> io::Result<Vec<(&'s S, io::Error)>> {
    let mut refused = Vec::new();
    let mut left = vec![sites];
    while let Some(part) = left.pop() {
        let error = match attach(part) {
            Ok(()) => continue,
            Err(error) if is_about_site(&error) && refused.len() < MOST_REFUSED => error,
            Err(error) => return Err(error),
        };
        match part {
            [] => return Err(error),
            [only] => refused.push((only, error)),
            part => {
                let (first, second) = part.split_at(part.len() / 2);
                left.extend([second, first]);
            }
        }
    }
    Ok(refused)
}

#[cfg(test)]
mod tests {
    use super::attach_most;
    use std::io;

    fn kernel(bad: &[u32], sites: &[u32], attached: &mut Vec<u32>) -> io::Result<()> {
        if sites.iter().any(|site| bad.contains(site)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        attached.extend(sites);
        Ok(())
    }

    #[test]
    fn only_the_refused_sites_are_left_out() {
        let sites: Vec<u32> = (0..1000).collect();
        for bad in [&[][..], &[0], &[999], &[3, 4, 500], &[0, 1, 2, 3, 4, 5]] {
            let (mut attached, mut calls) = (Vec::new(), 0);
            let mut attach = |part: &[u32]| {
                calls += 1;
                kernel(bad, part, &mut attached)
            };
            let refused = attach_most(&sites, &mut attach, &|_| true).expect("no other error");
            assert_eq!(refused.iter().map(|(site, _)| **site).collect::<Vec<_>>(), bad);
            assert!(calls <= 1 + 22 * bad.len(), "{calls} calls for {bad:?}");
            let expected: Vec<u32> = sites.iter().filter(|site| !bad.contains(site)).copied().collect();
            assert_eq!(attached, expected);
        }
    }

    #[test]
    fn an_error_about_everything_ends_it() {
        let sites: Vec<u32> = (0..10_000).collect();
        let mut calls = 0;
        let refused = attach_most(&sites, &mut |_| Err(io::ErrorKind::OutOfMemory.into()), &|_| false);
        assert_eq!(refused.expect_err("no memory").kind(), io::ErrorKind::OutOfMemory);
        let mut all = |_: &[u32]| {
            calls += 1;
            Err(io::ErrorKind::InvalidInput.into())
        };
        assert!(attach_most(&sites, &mut all, &|_| true).is_err());
        assert!(calls < 1000, "{calls}");
    }
}
