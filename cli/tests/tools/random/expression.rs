//! Rules of random scripts: expressions.
//!
//! In: nothing. Out: text that `grammar` reads. Guarantee: that of `grammar`.

/// What all versions have.
pub const BOTH: &str = r#"
SIGNED 3
    2 * $SIGNED   @n   @m[KEY]
    --
    6 * (SIGNED ARITHMETIC SIGNED)   2 * (SIGNED << SHIFT)   2 * (-SIGNED)   2 * (~SIGNED)
    2 * (CONDITION ? SIGNED : SIGNED)   2 * (int64)((SIGNED_TYPE)(SIGNED))
ARITHMETIC = + - * & | ^
SHIFT = 0..6
SIGNED_TYPE = int8 int16 int32 int64
SMALL = 0..1000

UNSIGNED 3
    (uint64)LARGE   $UNSIGNED   @u   @v[KEY]
    --
    6 * (UNSIGNED WRAPPING UNSIGNED)   2 * (UNSIGNED / (uint64)DIVISOR)
    2 * (UNSIGNED % (uint64)DIVISOR)   2 * (UNSIGNED >> BITS)
    2 * (CONDITION ? UNSIGNED : UNSIGNED)   2 * (uint64)((UNSIGNED_TYPE)(SIGNED))
WRAPPING = + * & | ^
LARGE = 0..100000
DIVISOR = 1..51
BITS = 0..64
UNSIGNED_TYPE = uint8 uint16 uint32 uint64

CONDITION 2
    (SIGNED COMPARISON SIGNED)   (UNSIGNED COMPARISON UNSIGNED)   (STR EQUALITY STR)
    --
    (CONDITION && CONDITION)   (CONDITION || CONDITION)   (!CONDITION)
COMPARISON = == != < <= > >=
EQUALITY = == !=

STR 2
    ""   "a"   "abc"   "abd"   $STR   @text

# Few keys, so that they meet.
KEY 1
    4 * FEW
FEW = 0..5
"#;

/// What only 0.17 has.
pub const V17: &str = r"
SIGNED
    SMALL   (-SMALL)
";

/// What only the current version has.
pub const CURRENT: &str = r#"
# A number without a cast has as few bits as it needs, and wraps at them.
SIGNED
    (int64)SMALL   (int64)-SMALL

# A number of any type. The casts to int64 and uint64 are where the versions differ without them:
# numbers of literals alone are unsigned there, `~` and `-` have the bits of their operand, `>>` shifts
# a 0 into a negative number, and what `strncmp` returns is unsigned, against its documentation.
INT 3
    3 * $SIGNED   2 * NUMBER
    --
    SIGNED   UNSIGNED   PLACE   COUNTED   (PAIR).0   2 * OTHER   (CONDITION ? INT : INT)
    3 * (INT SUM INT)   ((int64)(INT) * INT)   ((uint64)(INT) DIVISION SOME)
    (INT BITWISE INT)   (INT << WIDTH)   ((uint64)(INT) >> WIDTH)
    (SIGNED_TYPE)(INT)   (UNSIGNED_TYPE)(INT)   -((int64)(INT))   ~((int64)(INT))
    strlen(STR)   (int64)strncmp(STR, STR, SIZE)
SUM = + -
DIVISION = / %
BITWISE = & | ^
SOME = 1 2 3 7 10 1000
WIDTH = 0 1 3 8 31
SIZE = 1 2 3 5 8

NUMBER
    2 * DECIMAL   HEXADECIMAL   -DECIMAL
DECIMAL = 0 1 2 3 7 10 63 64 100 127 128 255 256 1000
DECIMAL = 32767 32768 65535 65536 2147483647 2147483648 4294967295 4294967296 1099511627776
HEXADECIMAL = 0x0 0x1 0x2 0x3 0x7 0xa 0x3f 0x40 0x64 0x7f 0x80 0xff 0x100 0x3e8
HEXADECIMAL = 0x7fff 0x8000 0xffff 0x10000 0x7fffffff 0x80000000 0xffffffff 0x100000000 0x10000000000

PLACE
    @n   @m[KEY]   @s[STR]   @t[KEY, STR]

COUNTED
    (int64)@c[KEY]   (int64)@sum   (int64)@max[KEY]   len(COUNTABLE)
COUNTABLE = @m @t @c @w

OTHER 2
    bswap((SWAPPED)(INT))   add_one(INT)   { $b# = (int64)(INT); $b# + 1 }   larger(INT, INT)
    (x=INT, y=STR).x   ((int64)1, (STR, (int64)(INT))).1.1   (int64)(PAIR == PAIR)
    (int64)(CONDITION)
SWAPPED = uint16 uint32 uint64

# bpftrace counts a NUL in the size of `str`, but not if it can compute the text before the script
# runs, which it also does with conditions.
STR
    2 * "WORD"
    --
    (CONDITION ? STR : STR)   @w[KEY]   (PAIR).1   str($STR, SIZE)   str("WORD", SIZE)
WORD
    ab   hello   hello world   x y   tab\tend   0123456789abcdefghij

PAIR 2
    (INT, STR)   $PAIR   @p[KEY]

# What is not found is at -2 in 0.27.1, against its documentation.
CONDITION
    3 * (INT COMPARISON INT)
    --
    strcontains(STR, STR)   (strstr(STR, STR) + 1 > 0)   has_key(KEYED)

KEYED
    @m, KEY   @c, KEY   @w, KEY   @max, KEY   @s, STR   @t, (KEY, STR)

KEY
    --
    INT
"#;
