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
    screen.update(1, vec![line("b")]);
    screen.update(0, vec![line("a"), line("aa")]);
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
    screen.update(0, vec![line("0123456789abcdef"), line("short")]);
    codes(|out| screen.draw(out));
    screen.terminal.size = NARROW;
    assert_eq!(codes(|out| screen.erase(out)), format!("\r\x1b[2K{}", "\x1b[1A\x1b[2K".repeat(4)));
}

#[test]
fn views_share_the_height_of_the_terminal() {
    let mut screen = Screen::new(Terminal { has_codes: true, has_colour: true, size: WIDE });
    screen.expect(0);
    assert_eq!(screen.layout(true).height, Some(22));
    screen.expect(1);
    assert_eq!(screen.layout(true).height, Some(10));
    assert_eq!(screen.layout(false), Layout { width: Some(80), height: None, colour: true });
}
