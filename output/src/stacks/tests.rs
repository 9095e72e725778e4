use profiler_model::unwind::End;
use profiler_model::value::{FilePosition, Inlined, Location, Origin, Stack, SymbolName};

use super::*;
use crate::fixtures::Paper;
use crate::json::Json;
use profiler_model::strftime::Zone;
use profiler_model::types::{Space, StackMode};

/// Names by address; the caller of 0x20 was inlined into `outer`.
struct Code;

impl Symbols for Code {
    fn kernel(&self, address: u64) -> Option<SymbolName> {
        (address == 1).then(|| named("vfs_read", None))
    }
    fn user(&self, _: u32, address: u64) -> Option<SymbolName> {
        match address {
            0x10 => Some(named("leaf;a", Some("/bin/a"))),
            0x1f => Some(named("outer", Some("/bin/a"))),
            0x30 => Some(named("jitted", Some("/tmp/perf-7.map"))),
            _ => None,
        }
    }
    fn username(&self, _: u32) -> Option<String> {
        None
    }
    fn boot_time_ns(&self) -> u64 {
        0
    }
    fn zone(&self, _: u64) -> Zone {
        Zone::default()
    }
    fn locate_user(&self, pid: u32, addresses: &[u64]) -> Vec<Location> {
        let inlined = vec![Inlined { name: "inner".into(), source: None }];
        let position = |offset, function| FilePosition { build_id: None, offset, function };
        let locate = |address: &u64| match self.user(pid, *address) {
            Some(name) if *address == 0x1f => {
                Location::Symbol(name, Origin { inlined: inlined.clone(), ..Origin::default() })
            }
            Some(name) => Location::named(name),
            None if *address == 0 => Location::NoCode,
            None if *address >= 0x100 => Location::Module("/bin/b".into(), position(*address, None)),
            None if *address >= 0x80 => Location::Module("/bin/b".into(), position(*address, Some(0x80))),
            None => Location::Unknown,
        };
        addresses.iter().map(locate).collect()
    }
}

fn named(name: &str, module: Option<&str>) -> SymbolName {
    SymbolName { name: name.into(), offset: 0, module: module.map(str::to_owned) }
}

pub(super) fn stack(space: Space, frames: &[u64], end: Option<End>) -> Value {
    Value::Stack(Stack {
        space,
        mode: StackMode::Bpftrace,
        pid: 7,
        frames: frames.to_vec(),
        interrupted: Vec::new(),
        end,
    })
}

pub(super) fn map(name: &str, entries: Vec<(Value, u64)>) -> MapSnapshot {
    let entries = entries.into_iter().map(|(key, count)| (Some(key), Value::Uint(count))).collect();
    MapSnapshot { name: name.into(), keyed: true, aggregation: None, entries, processes: Vec::new() }
}

fn folded(maps: &[MapSnapshot]) -> Folded {
    stacks(maps, Unit::None).folded()
}

pub(super) fn stacks(maps: &[MapSnapshot], unit: Unit) -> Stacks {
    let units = maps.iter().map(|map| (map.name.clone(), unit)).collect();
    let mut output = WithStacks::new(Box::new(Json::new(Box::new(Paper::default()), true)), units);
    assert!(output.wants_stacks());
    for map in maps {
        output.stacks(map, &Code);
    }
    output.into_stacks()
}

fn lines(folded: &Folded) -> Vec<String> {
    let mut out = Vec::new();
    folded.write_lines(&mut out).expect("memory");
    String::from_utf8(out).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn frames_come_from_the_outermost_one_and_the_kernel_last() {
    let key = Value::Tuple(vec![
        stack(Space::Kernel, &[1], None),
        Value::Str(b"a;b".to_vec()),
        stack(Space::User, &[0x10, 0x20], None),
    ]);
    let other = Value::Tuple(vec![stack(Space::User, &[0x30], Some(End::NoInformation))]);
    assert_eq!(
        lines(&folded(&[map("@", vec![(key, 3), (other, 4)])])),
        ["[stack ends here: no unwind information];jitted_[j] 4", "a:b;outer;inner_[i];leaf:a;vfs_read_[k] 3"]
    );
}

#[test]
fn alike_stacks_add_up_and_nothing_else_is_counted() {
    let rows = vec![
        (stack(Space::User, &[0x10], None), 3),
        (stack(Space::User, &[0x10], None), 4),
        (stack(Space::User, &[], None), 5),
        (stack(Space::User, &[0x10, 1, 0x20], None), 0),
        (stack(Space::User, &[0x10, 1, 0x20], None), 6),
        (Value::Int(1), 100),
    ];
    let expected = ["[no stack] 5", "[stack ends here: 0x1 is not code];leaf:a 6", "leaf:a 7"];
    assert_eq!(lines(&folded(&[map("@", rows)])), expected);
}

#[test]
fn stacks_of_several_maps_are_apart() {
    let rows = |count| vec![(stack(Space::User, &[0x10], None), count)];
    let maps = [map("@a", rows(1)), map("@b", rows(2)), map("@none", vec![(Value::Int(1), 1)])];
    assert_eq!(lines(&folded(&maps)), ["@a;leaf:a 1", "@b;leaf:a 2"]);
    assert!(stacks(&maps[2..], Unit::None).is_empty());
}

#[test]
fn a_flame_graph_is_one_file_with_its_numbers_and_what_is_missing() {
    let mut stacks = folded(&[map("@", vec![(stack(Space::User, &[0x10, 0x20], None), 3)])]);
    stacks.notes = vec!["12 stacks <lost>".into()];
    let draw = |stacks: &Folded| {
        let mut out = Vec::new();
        stacks.write_flame_graph("a < b", &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    };
    let svg = draw(&stacks);
    assert!(svg == draw(&stacks), "it depends on the stacks alone");
    for part in [
        "a &lt; b",
        ">3 in 1 stacks<tspan x=\"50%\" dy=\"16\">12 stacks &lt;lost&gt;</tspan></text>",
        "truncate_text_right = true",
        "<title>leaf:a (3 in total, 100.00%)</title>",
        "<script",
    ] {
        assert!(svg.contains(part), "{part}");
    }
    assert!(!svg.contains("href=\"http"), "nothing is fetched");
    assert!(!svg.contains("opacity:0.1"), "the button to search is visible");
}

#[test]
fn remarks_are_not_cut_and_cover_nothing() {
    let mut stacks = folded(&[map("@", vec![(stack(Space::User, &[0x10], None), 3)])]);
    let places = |svg: &str| ["details", "matched", "frames"].map(|id| place(svg, id));
    let before = flame_graph(&stacks);
    stacks.notes = vec!["lost ".repeat(100), "cut ".repeat(70)];
    let after = flame_graph(&stacks);
    let (_, subtitle) = after.split_once("id=\"subtitle\"").expect("a subtitle");
    let (subtitle, _) = subtitle.split_once("</text>").expect("its end");
    let words = |word: &str| subtitle.matches(word).count();
    assert_eq!((words("lost"), words("cut"), words("<tspan")), (100, 70, 6));
    let lines = subtitle.split("</tspan>").filter_map(|line| Some(line.rsplit_once('>')?.1));
    assert!(lines.clone().all(|line| line.len() <= 140), "{subtitle}");
    assert_eq!(places(&after), places(&before).map(|y| y + 6 * 16));
}

/// Where an element begins, from above.
fn place(svg: &str, id: &str) -> usize {
    // The last one is the element; the program names it before.
    let (_, rest) = svg.rsplit_once(&format!(" id=\"{id}\"")).expect(id);
    let (_, rest) = rest.split_once(" y=\"").expect("a place");
    rest.split(['.', '"']).next().expect("its end").parse().expect("a number")
}

#[test]
fn code_without_a_symbol_has_its_place_in_the_file() {
    let rows = vec![(stack(Space::User, &[0x98, 0x9a, 0x108, 0x28], None), 1), (stack(Space::User, &[0x90], None), 1)];
    let stacks = folded(&[map("@", rows)]);
    let expected = ["[b+0x80] 1", "[unknown];[b+0x107];[b+0x80];[b+0x80] 1"];
    assert_eq!(lines(&stacks), expected, "the function, or the call");
    assert!(flame_graph(&stacks).contains("<title>[b+0x80] (1 in total"));
}

#[test]
fn threads_of_a_pool_are_one_in_pictures_only() {
    let threads = [("worker-1", "lock"), ("worker-2", "running"), ("main", "poll")];
    let maps = [map("@", threads.map(|(name, state)| (in_state(name, state), 2)).to_vec())];
    let stacks = folded(&maps);
    let names = |folded: &Folded| {
        let names = lines(folded).into_iter().filter_map(|line| Some(line.split_once(';')?.0.to_owned()));
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&stacks), ["main", "worker-1", "worker-2"]);
    let read = Folded::read(&mut lines(&stacks).join("\n").as_bytes()).expect("lines");
    for stacks in [stacks, read] {
        let svg = flame_graph(&stacks);
        assert!(svg.contains("<title>worker-* (4 in total, 66.67%)") && !svg.contains("worker-1"), "{svg}");
        let mut icicle = Vec::new();
        stacks.write_icicle("t", Look { columns: 80, has_colour: false }, &mut icicle).expect("memory");
        assert!(String::from_utf8_lossy(&icicle).contains("|worker-* 66.7 %"));
    }
}

#[test]
fn threads_that_the_key_keeps_apart_stay_apart() {
    let key = |name: &str, id| {
        (Value::Tuple(vec![Value::Str(name.into()), stack(Space::User, &[0x10], None), Value::Uint(id)]), 1)
    };
    let draw = |ids: [u64; 2]| {
        let units = BTreeMap::new();
        let output = WithStacks::new(Box::new(Json::new(Box::new(Paper::default()), true)), units);
        let mut output = output.with_threads(BTreeMap::from([("@".to_owned(), 2)]));
        output.stacks(&map("@", vec![key("worker-1", ids[0]), key("worker-2", ids[1])]), &Code);
        flame_graph(&output.into_stacks().folded())
    };
    assert!(draw([0, 0]).contains("<title>worker-* (2 in total"));
    assert!(draw([7, 8]).contains("<title>worker-1 (1 in total"));
    let read = |text: &str| flame_graph(&Folded::read(&mut text.as_bytes()).expect("lines"));
    assert!(read("w1;7;lock;a 1\nw2;8;poll;a 1\n").contains("<title>w1 ("));
    assert!(read("w1;lock;7;a 1\nw2;poll;8;a 1\n").contains("<title>w1 ("));
    assert!(read("f1;a 1\nf2;a 1\n").contains("<title>f1 ("), "functions");
}

#[test]
fn files_have_no_idle_threads_if_only_busy_ones_are_wanted() {
    let rows = [("running", 2_000_000), ("poll", 97_000_000), ("lock", 1_000_000)];
    let rows = rows.map(|(state, spent)| (in_state("server", state), spent));
    let mut stacks = stacks(&[map("@", rows.to_vec())], Unit::Duration);
    assert!(stacks.leave_out_idle());
    assert_eq!(
        stacks.folded().states.values().map(|placed| placed.state.name()).collect::<Vec<_>>(),
        ["lock", "running"]
    );
    let svg = flame_graph(&stacks.folded());
    assert!(svg.contains(">3 ms in 2 stacks<") && svg.contains(">idle threads are left out: poll 97 ms<"), "{svg}");
    let (_, texts) = pprof(&stacks, &Recorded::default());
    assert!(texts.contains(&"running".into()) && !texts.contains(&"poll".into()));
    assert!(texts.contains(&"idle threads are left out: poll 97 ms".into()));
    let key = stack(Space::User, &[0x10], None);
    assert!(!super::tests::stacks(&[map("@", vec![(key, 1)])], Unit::None).leave_out_idle(), "no states");
}

#[test]
fn what_is_missing_is_kept_without_advice() {
    let mut output = WithStacks::new(Box::new(Json::new(Box::new(Paper::default()), true)), BTreeMap::new());
    let lines = vec!["  lost: 3".to_owned(), "    = help: use less".to_owned()];
    output.quality(&[Section { name: "missing", title: "Missing".into(), lines, entries: Vec::new() }]);
    assert_eq!(output.into_stacks().notes, ["  lost: 3"]);
}

/// The colours of the frames whose title begins with this, as red, green and blue, from the left.
fn fills(svg: &str, title: &str) -> Vec<Vec<u32>> {
    let fill = |rest: &str| -> Vec<u32> {
        let (_, rest) = rest.split_once("fill=\"rgb(").expect("a colour");
        rest.split(')').next().expect("its end").split(',').map(|part| part.trim().parse().expect("a number")).collect()
    };
    svg.split(&format!("<title>{title} (")).skip(1).map(fill).collect()
}

fn flame_graph(stacks: &Folded) -> String {
    let mut out = Vec::new();
    stacks.write_flame_graph("t", &mut out).expect("memory");
    String::from_utf8(out).expect("text")
}

/// A key of `wall/profile`.
fn in_state(name: &str, state: &str) -> Value {
    let text = |text: &str| Value::Str(text.as_bytes().to_vec());
    let (user, kernel) = (stack(Space::User, &[0x10], None), stack(Space::Kernel, &[1], None));
    Value::Tuple(vec![text(name), text(state), user, kernel])
}

#[test]
fn a_flame_graph_of_times_has_units_and_a_tone_of_blue_for_each_state() {
    let rows = [("running", 1_500_000), ("lock", 400_000), ("disk", 100_000)];
    let rows = rows.map(|(state, spent)| (in_state("sleep", state), spent));
    let svg = flame_graph(&stacks(&[map("@", rows.to_vec())], Unit::Duration).folded());
    for part in ["2 ms in 3 stacks", "<title>leaf:a (1,500 µs, 75.00%)</title>", "<title>vfs_read (1,500 µs, 75.00%)"]
    {
        assert!(svg.contains(part), "{part}\n{svg}");
    }
    let distance = |a: &[u32], b: &[u32]| a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max().expect("three");
    let (disk, lock) = (fills(&svg, "disk").concat(), fills(&svg, "lock").concat());
    for frame in ["leaf:a", "vfs_read"] {
        // In the order of the names of their states.
        let [in_disk, in_lock, runs] = <[_; 3]>::try_from(fills(&svg, frame)).expect("three frames");
        assert!(runs[0] > runs[2], "{frame}: {runs:?}");
        for (here, state, other) in [(&in_disk, &disk, &lock), (&in_lock, &lock, &disk)] {
            assert!(here[2] > here[0] && distance(here, state) < 20, "{frame}: {here:?} {state:?}");
            assert!(distance(here, other) > 30, "{frame}: {here:?} {other:?}");
        }
    }
    let thread = fills(&svg, "sleep");
    assert!(thread.len() == 1 && thread[0][0] == thread[0][2], "one frame for the thread, grey: {thread:?}");
    let (_, legend) = svg.split_once("<g id=\"legend\">").expect("a legend");
    let texts: Vec<&str> = legend.split("</text>").filter_map(|part| Some(part.rsplit_once('>')?.1)).collect();
    assert_eq!(texts, ["program", "kernel", "lock", "disk", ""]);
}

#[test]
fn the_legend_is_below_everything_else() {
    let svg = flame_graph(&folded(&[map("@", vec![(stack(Space::User, &[0x10], None), 3)])]));
    let number = |text: &str, before: &str| -> f64 {
        let (_, rest) = text.split_once(before).expect(before);
        rest.split('"').next().expect("its end").parse().expect("a number")
    };
    let height = number(&svg, " height=\"");
    assert!(svg.contains(&format!("viewBox=\"0 0 1200 {height}\"")));
    assert!(svg.contains(&format!("width=\"100%\" height=\"{height}\" fill=\"url(#background)\"")));
    let (picture, legend) = svg.split_once("<g id=\"legend\">").expect("a legend");
    let details = number(picture.split_once("id=\"details\"").expect("details").1, " y=\"");
    let top = number(legend, " y=\"");
    assert!(details < top && top + 10.0 < height, "{details} {top} {height}");
}

#[test]
fn a_file_of_folded_lines_has_the_states_that_were_written() {
    let rows = [("running", 2), ("lock", 3)].map(|(state, spent)| (in_state("a", state), spent));
    let written = folded(&[map("@", rows.to_vec())]);
    let read = Folded::read(&mut lines(&written).join("\n").as_bytes()).expect("lines");
    assert_eq!(read, written);
    assert!(!read.states.is_empty());
}

#[test]
fn a_program_with_the_name_of_a_state_runs() {
    let key = |name: &str| Value::Tuple(vec![Value::Str(name.into()), stack(Space::User, &[0x10], None)]);
    let stacks = folded(&[map("@", vec![(key("sleep"), 1), (key("server"), 1)])]);
    assert!(stacks.states.is_empty());
}

/// The number of a field, its value if that is a number, its bytes if it is a block.
type Field = (u64, u64, Vec<u8>);

/// The fields of a message of protocol buffers: numbers as they are, blocks as their bytes.
fn fields(mut bytes: &[u8]) -> Vec<Field> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let length = bytes.iter().take_while(|byte| **byte >= 0x80).count() + 1;
        let (number, rest) = bytes.split_at(length);
        *bytes = rest;
        number.iter().rev().fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7f))
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let number = varint(&mut bytes);
        let wire_type = tag % 8;
        assert!([0, 2].contains(&wire_type));
        let (block, rest) = bytes.split_at(if wire_type == 2 { number as usize } else { 0 });
        bytes = rest;
        found.push((tag >> 3, number, block.to_vec()));
    }
    found
}

/// A profile of pprof, decompressed, as its fields and texts.
fn pprof(stacks: &Stacks, recorded: &Recorded) -> (Vec<Field>, Vec<String>) {
    let mut file = Vec::new();
    stacks.write_pprof(recorded, &mut file).expect("memory");
    let bytes = miniz_oxide::inflate::decompress_to_vec(&file[10..file.len() - 8]).expect("deflate");
    assert_eq!(file[file.len() - 4..], (bytes.len() as u32).to_le_bytes());
    let profile = fields(&bytes);
    let texts = profile.iter().filter(|field| field.0 == 6);
    let texts = texts.map(|field| String::from_utf8(field.2.clone()).expect("text")).collect();
    (profile, texts)
}

#[test]
fn a_profile_has_a_location_for_an_instruction_and_its_inlined_functions() {
    let key = Value::Tuple(vec![
        Value::Str(b"a".to_vec()),
        stack(Space::User, &[0x10, 0x20], None),
        stack(Space::Kernel, &[1], None),
    ]);
    let stacks = stacks(&[map("@", vec![(key, 300)])], Unit::Duration);
    let recorded = Recorded { title: "script".into(), period_ns: Some(10), ..Recorded::default() };
    let (profile, texts) = pprof(&stacks, &recorded);
    let text = |bytes: &[u8], field| {
        let of_field = fields(bytes).into_iter().find(|(number, ..)| *number == field);
        texts[of_field.map_or(0, |(_, number, _)| number as usize)].clone()
    };
    let all = |field| profile.iter().filter(move |(number, ..)| *number == field).map(|(.., block)| block);
    assert_eq!(texts[0], "");
    let kinds: Vec<_> = all(1).map(|bytes| (text(bytes, 1), text(bytes, 2))).collect();
    assert_eq!(kinds, [("time".to_owned(), "nanoseconds".to_owned())]);
    let sample = fields(all(2).next().expect("a sample"));
    assert_eq!(sample[0].2, [1, 2, 3].map(|from_outer: u8| 4 - from_outer), "from the innermost location");
    assert_eq!(sample[1].2, [0xac, 0x02], "300");
    assert_eq!((text(&sample[2].2, 1), text(&sample[2].2, 2)), ("key1".into(), "a".into()));
    let names: Vec<_> = all(5).map(|bytes| text(bytes, 2)).collect();
    assert_eq!(names, ["inner", "outer", "leaf;a", "vfs_read"]);
    let lines = |bytes: &Vec<u8>| fields(bytes).iter().filter(|(field, ..)| *field == 4).count();
    assert_eq!(all(4).map(lines).collect::<Vec<_>>(), [2, 1, 1]);
    let files: Vec<_> = all(3).map(|bytes| text(bytes, 5)).collect();
    assert_eq!(files, ["/bin/a", "[kernel.kallsyms]"]);
    assert!(profile.contains(&(12, 10, vec![])), "the period");
}
