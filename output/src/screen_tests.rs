use super::*;

const WIDE: fn() -> Option<(usize, usize)> = || Some((80, 24));
const NARROW: fn() -> Option<(usize, usize)> = || Some((10, 24));

fn line(text: &str) -> Line {
    Line { text: text.into(), width: text.len() }
}

fn codes(act: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    act(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_view_is_drawn_over_itself() {
    let mut screen = Screen::new(Terminal { has_codes: true, has_colour: false, size: WIDE });
    screen.update(vec![(0, vec![line("a"), line("aa")]), (1, vec![line("b")])], None);
    assert_eq!(codes(|out| screen.draw(out)), "a\naa\n\nb\n\n");
    assert_eq!(codes(|out| screen.draw(out)), "", "it is drawn already");
    assert_eq!(codes(|out| screen.erase(out)), format!("\r\x1b[2K{}", "\x1b[1A\x1b[2K".repeat(5)));
    assert_eq!(codes(|out| screen.erase(out)), "", "nothing is drawn any more");
    screen.forget(0);
    assert_eq!(codes(|out| screen.draw(out)), "b\n\n");
}

#[test]
fn lines_that_a_narrower_terminal_broke_are_erased_whole() {
    let mut screen = Screen::new(Terminal { has_codes: true, has_colour: false, size: WIDE });
    screen.update(vec![(0, vec![line("0123456789abcdef"), line("short")])], None);
    codes(|out| screen.draw(out));
    screen.terminal.size = NARROW;
    assert_eq!(codes(|out| screen.erase(out)), format!("\r\x1b[2K{}", "\x1b[1A\x1b[2K".repeat(4)));
}

#[test]
fn views_share_the_height_of_the_terminal() {
    let screen = Screen::new(Terminal { has_codes: true, has_colour: true, size: WIDE });
    let given = |wanted: &[usize]| -> Vec<Option<usize>> {
        screen.live_layouts(wanted).into_iter().map(|layout| layout.map(|layout| layout.height.unwrap())).collect()
    };
    assert_eq!(given(&[100]), [Some(22)]);
    assert_eq!(given(&[100, 100]), [Some(11), Some(10)]);
    assert_eq!(given(&[100, 1]), [Some(20), Some(1)], "what one does not need, another gets");
    // Six tables: those that get a place have three rows or all that they have, and one line is for
    // the others.
    assert_eq!(given(&[6, 1, 1, 9, 20, 20]), [Some(6), Some(1), Some(1), Some(9), None, None]);
    assert_eq!(given(&[usize::MAX; 4]), [Some(7), Some(6), Some(6), None]);
    let small = Screen::new(Terminal { has_codes: true, has_colour: true, size: || Some((80, 5)) });
    let layouts = small.live_layouts(&[20, 20]);
    assert_eq!(layouts.iter().map(|layout| layout.and_then(|it| it.height)).collect::<Vec<_>>(), [Some(3), None]);
    assert_eq!(screen.layout(), Layout { width: Some(80), height: None, colour: true });
}
