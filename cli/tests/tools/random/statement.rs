//! Rules of random scripts: statements.
//!
//! In: nothing. Out: text that `grammar` reads. Guarantee: that of `grammar`.

use super::grammar::Since;

/// What a script begins with.
pub fn head(since: Since) -> String {
    let (macros, own) = if since == Since::V17 { ("", "") } else { (MACROS, CURRENT_FIRST) };
    format!("{macros}BEGIN {{\n{FIRST}{own}")
}

/// The variables that each script begins with, without `$`, by kind. 0.17 has no use for pairs.
pub const KNOWN: [(&str, &str); 5] = [("SIGNED", "a"), ("SIGNED", "b"), ("UNSIGNED", "u"), ("STR", "s"), ("PAIR", "p")];

/// Each map has its type before it is read.
const FIRST: &str = r#"$a = (int64)7; $b = (int64)-3; $u = (uint64)9; $s = "abc";
@text = "abd"; @n = (int64)-40; @u = (uint64)500;
@m[1] = (int64)1; @m[2] = (int64)-2; @v[1] = (uint64)1; @v[2] = (uint64)65535;
"#;

const MACROS: &str = "macro add_one(x) { x + 1 }\nmacro larger(a, b) { (a) > (b) ? (a) : (b) }\n";

/// Strings are as long as the first, so the first is longer than all others.
const CURRENT_FIRST: &str = r#"$p = ((int64)1, "abc");
@s["a long enough word for all"] = (int64)1;
@t[(int64)1, "a long enough word for all"] = (int64)1; @w[(int64)1] = "a long enough word for all";
@p[(int64)1] = ((int64)1, "a long enough word for all"); @b[(int64)1] = true;
@deep[((int64)1, "a long enough word for all"), (int64)1] =
  ((int64)1, ("a long enough word for all", (int64)1), true);
@c[(int64)1] = count(); @sum = sum((int64)3); @min["a long enough word for all"] = min((int64)3);
@max[(int64)1] = max((int64)3); @avg[(int64)1] = avg((int64)3); @stats = stats((int64)3);
@hist[(int64)1] = hist((int64)3); @lhist = lhist(5, 0, 100, 10); @fine = hist(5, 2);
@low["a long enough word for all"] = lhist(5, 10, 500, 70);
"#;

/// What all versions have.
pub const BOTH: &str = r#"
STATEMENT
    $SIGNED = SIGNED;   $UNSIGNED = UNSIGNED;   @n = SIGNED;   @u = UNSIGNED;
    2 * @m[KEY] ASSIGNMENT SIGNED;   2 * @v[KEY] WRAPPING_ASSIGNMENT UNSIGNED;
    2 * @m[KEY]STEP;   $SIGNED STEP;   3 * PRINTF   3 * print((#, SIGNED, UNSIGNED, STR));
    3 * AGGREGATION   2 * @t#[SIGNED, "kFEW"] = UNSIGNED;
    --
    if (CONDITION) {STATEMENTS}
    if (CONDITION) {STATEMENTS} else {STATEMENTS}
    2 * unroll (TIMES) {STATEMENTS}
    $i# = 0; while ($i#++ < TIMES) {STATEMENTS}
    $i# = 0; while ($i# < TIMES) { $i#++; if ($i# == 2) { JUMP; }STATEMENTS}
ASSIGNMENT = = += -= *= &= |= ^=
WRAPPING_ASSIGNMENT = = += *= |=
STEP = ++ --
JUMP = break continue
TIMES = 1..6

PART
    2 * %d SIGNED   %8d SIGNED   %-8d| SIGNED   %u UNSIGNED   %x UNSIGNED   %d CONDITION
    2 * %s STR

AGGREGATION
    @c#[KEY] = count();   @s#[KEY] = sum(SIGNED);   @i#[KEY] = min(SIGNED);
    @x#[KEY] = max(UNSIGNED & 0xffff);   @g#[KEY] = avg(UNSIGNED & 0xffff);
    @h#[KEY] = hist(UNSIGNED & 0xffff);   @l#[KEY] = lhist(UNSIGNED & 127, 0, 100, 10);
"#;

/// What only 0.17 has.
pub const V17: &str = r"
STATEMENT 1
    2 * delete(@m[KEY]);
";

/// What only the current version has.
pub const CURRENT: &str = r#"
# `++$a` begins a block: after a block, bpftrace takes `++` as the step of that.
STATEMENT 3
    4 * $NEW_SIGNED = (int64)(INT);   2 * $NEW_STR = STR;   2 * $NEW_PAIR = PAIR;
    $SIGNED = (int64)(INT);   $STR = STR;   $SIGNED STEP;   $SIGNED COMPOUND INT;
    PLACE STEP;   PLACE SUM= INT;   7 * WRITE   4 * PRINTF   LOOP
    print(INT);   print(STR);   print(PAIR);   print(CONDITION);   print(MAP);   print(ENTRY);
    2 * if (has_key(KEYED)) { delete(SAME); }   clear(CLEARED);   zero(@c);
    if (CONDITION) { STEP$SIGNED; }
    --
    2 * for $i# : 0..TIMES {STATEMENTS}
COMPOUND = += -= *= |= &= ^=
MAP = @n @u @m @v @s @t @w @p @b @deep @c @sum @min @max @avg @stats @hist @lhist @fine @low
CLEARED = @m @s @t @w @c @max
ENTRY
    @m[KEY]   @s[STR]   @w[KEY]   @t[KEY, STR]

WRITE
    @n = (int64)(INT);   @m[KEY] = (int64)(INT);   @s[STR] = (int64)(INT);
    @t[KEY, STR] = (int64)(INT);   @w[KEY] = STR;   @p[KEY] = PAIR;   @b[KEY] = CONDITION;
    @deep[PAIR, KEY] = ((int64)(INT), (STR, (int64)(INT)), CONDITION);
    @c[KEY] = count();   @sum = sum((int64)(INT));   @min[STR] = min((int64)(INT));
    @max[KEY] = max((int64)(INT));   @avg[KEY] = avg((int64)((int32)(INT)));   @stats = stats((int64)((int32)(INT)));
    @hist[KEY] = hist((int64)(INT));   @fine = hist(INT, 2);
    @lhist = lhist(INT, 0, 100, 10);   @low[STR] = lhist(INT, 10, 500, 70);

LOOP
    for ($kv# : @m) { printf("%d %d\n", $kv#.0, $kv#.1); }
    for ($kv# : @s) { printf("%s %d\n", $kv#.0, $kv#.1); }
    for ($kv# : @t) { printf("%d %s %d\n", $kv#.0.0, $kv#.0.1, $kv#.1); }
    for ($kv# : @w) { printf("%d %s\n", $kv#.0, $kv#.1); }

PART
    2 * %d INT   %lld INT   %5d INT   %-6d| INT   %x INT   %llx INT   %08x INT   %u INT   %llu INT
    %s STR   %10s STR   %-12s| STR   %s TRANSLATED   %c 65..90   %r BUFFER   %rx BUFFER
BUFFER
    buf("abc", COUNT)   buf("hello", COUNT)   buf("hello world", COUNT)
COUNT = 1 3
TRANSLATED
    signal_name(SIGNAL)   strerror(ERROR)   syscall_name(CALL)   ntop(ADDRESS)
SIGNAL = 1 2 9 15
ERROR = 1 2 13
CALL = 0 1 59
ADDRESS = 0 0x0100007f
"#;
