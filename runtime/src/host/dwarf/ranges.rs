//! Which units have code at an address.
//!
//! In: the address ranges of units. Out: units by address.
//! Guarantee: ranges may overlap; all units that contain the address are found.

/// Starts and ends.
type List = Vec<(u64, u64)>;

/// The code of all units.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Start, end and unit, sorted.
    sorted: Vec<(u64, u64, usize)>,
    /// The largest end of the ranges up to each.
    most_end: Vec<u64>,
    /// Units that do not say where their code is.
    anywhere: Vec<usize>,
}

impl Ranges {
    /// Units, each with its ranges, if it says them.
    pub(super) fn new(units: Vec<(usize, Option<List>)>) -> Ranges {
        let mut ranges = Ranges::default();
        for (unit, of_unit) in units {
            match of_unit {
                Some(list) => ranges.sorted.extend(list.into_iter().map(|(start, end)| (start, end, unit))),
                None => ranges.anywhere.push(unit),
            }
        }
        ranges.sorted.sort_unstable();
        let mut most = 0;
        for (_, end, _) in &ranges.sorted {
            most = most.max(*end);
            ranges.most_end.push(most);
        }
        ranges
    }

    /// The units that may have code at an address, in order.
    pub(super) fn units_with(&self, address: u64) -> Vec<usize> {
        let before = self.sorted.partition_point(|(start, ..)| *start <= address);
        let reach = self.most_end.iter().zip(&self.sorted).take(before).rev().take_while(|(most, _)| **most > address);
        let containing = reach.filter(|(_, (_, end, _))| *end > address).map(|(_, (.., unit))| *unit);
        let mut units: Vec<usize> = containing.chain(self.anywhere.iter().copied()).collect();
        units.sort_unstable();
        units.dedup();
        units
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    #[test]
    fn all_ranges_with_an_address_are_found() {
        let units = vec![
            (7, Some(vec![(10, 20), (40, 50)])),
            (3, Some(vec![(0, 100)])),
            (5, None),
            (9, Some(vec![(12, 13), (45, 45)])),
        ];
        let ranges = Ranges::new(units);
        for (address, units) in
            [(12, &[3, 5, 7, 9][..]), (13, &[3, 5, 7]), (20, &[3, 5]), (45, &[3, 5, 7]), (100, &[5]), (u64::MAX, &[5])]
        {
            assert_eq!(ranges.units_with(address), units, "{address}");
        }
    }
}
