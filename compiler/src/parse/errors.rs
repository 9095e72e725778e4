//! Catalogue of syntax diagnostics: one function per message, ordered by code.
//!
//! In: a span and the variable parts of the message. Out: a diagnostic in the user's terms.
//! Guarantee: codes are 01xx; no grammar rule is named; each message says what to write instead if
//! that is known.

use crate::diagnostic::{Code, Diagnostic};
use crate::keywords::Head;
use crate::source::Span;

/// Maximum number of diagnostics that are returned.
pub(super) const PROBLEM_LIMIT: usize = 20;

fn error(code: u16, span: Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code(code), span, message)
}

// ── The text as a whole ──────────────────────────────────────────────────────────────────────────

pub(super) fn empty_script(span: Span) -> Diagnostic {
    error(101, span, "the script is empty: it has no probes")
        .help("for example: tracepoint:syscalls:sys_enter_openat { @[comm] = count(); }")
}

pub(super) fn too_large(span: Span, size_bytes: usize, limit_bytes: usize) -> Diagnostic {
    error(102, span, format!("the script is too large: {size_bytes} bytes, and the limit is {limit_bytes}"))
}

pub(super) fn unclosed_string(span: Span) -> Diagnostic {
    error(103, span, "this string is not closed")
        .label("begins here")
        .help("add the closing `\"` on the same line; write `\\n` for a line break inside a string")
}

pub(super) fn unclosed_comment(span: Span) -> Diagnostic {
    error(104, span, "this comment is not closed").label("begins here").help("add `*/` where the comment ends")
}

pub(super) fn unclosed_bracket(span: Span, open: &str, close: &str) -> Diagnostic {
    error(105, span, format!("this `{open}` is not closed"))
        .label("opened here")
        .help(format!("add the missing `{close}`"))
}

pub(super) fn unmatched_close(span: Span, close: &str, open: &str) -> Diagnostic {
    error(106, span, format!("this `{close}` closes nothing"))
        .help(format!("remove it, or add the `{open}` that it belongs to"))
}

pub(super) fn nested_too_deep(span: Span, limit: usize) -> Diagnostic {
    error(107, span, format!("this is nested more than {limit} levels deep"))
        .help("give parts of it a name of their own, as in `$part = …;`")
}

pub(super) fn too_long(span: Span, limit: usize) -> Diagnostic {
    error(108, span, format!("this has more than {limit} operators in a row"))
        .help("give parts of it a name of their own, as in `$part = …;`")
}

pub(super) fn too_complex(span: Span) -> Diagnostic {
    error(108, span, "this is too complex to be read").help("split it into smaller blocks and statements")
}

pub(super) fn single_quotes(span: Span, inner: &str) -> Diagnostic {
    let shown: String = inner.chars().take(40).collect();
    error(109, span, "strings are written with double quotes").help(format!("write \"{}\"", shown.replace('"', "\\\"")))
}

pub(super) fn binary(span: Span) -> Diagnostic {
    error(110, span, "this looks like a binary file, not a script")
        .help("pass the path of a script, or the script itself after -e")
}

// ── The parser's own view ────────────────────────────────────────────────────────────────────────

pub(super) fn unexpected(span: Span, found: &str, expected: &[&str]) -> Diagnostic {
    let diagnostic = error(111, span, format!("unexpected {found}"));
    match expected {
        [] => diagnostic,
        [one] => diagnostic.label(format!("expected {one}")),
        [many @ .., last] => diagnostic.label(format!("expected {} or {last}", many.join(", "))),
    }
}

pub(super) fn missing_semicolon(span: Span, next: Span) -> Diagnostic {
    error(112, span, "a `;` is missing after this")
        .related(next, "the next statement begins here")
        .help("end each statement with `;`")
}

pub(super) fn missing_comma(span: Span, next: Span, what: &str) -> Diagnostic {
    error(113, span, format!("a `,` is missing after this {what}"))
        .related(next, format!("the next {what} begins here"))
}

pub(super) fn unclosed_predicate(span: Span, brace: Span) -> Diagnostic {
    error(114, span, "this predicate is not closed")
        .related(brace, "the block begins here")
        .help("add the closing `/` before the `{`")
}

pub(super) fn unopened_predicate(span: Span) -> Diagnostic {
    error(114, span, "this predicate has no opening `/`").help("put the condition between slashes: /pid == 1/")
}

pub(super) fn assignment_as_value(span: Span) -> Diagnostic {
    error(115, span, "`=` is an assignment, which cannot be used as a value").help("to compare, write `==`")
}

pub(super) fn word_operator(span: Span, word: &str, mark: &str) -> Diagnostic {
    error(116, span, format!("`{word}` is not an operator")).help(format!("write `{mark}`"))
}

pub(super) fn else_if_spelling(span: Span, word: &str) -> Diagnostic {
    error(117, span, format!("`{word}` is not a keyword")).help("write `else if`")
}

pub(super) fn call_without_parentheses(span: Span, name: &str, argument: &str) -> Diagnostic {
    error(118, span, format!("`{name}` needs parentheses around its arguments"))
        .help(format!("write {name}({argument})"))
}

pub(super) fn statement_outside(span: Span) -> Diagnostic {
    error(119, span, "this statement is outside of a probe's block")
        .help("put it in a block; `BEGIN { … }` runs once at the start, `END { … }` at the end")
}

pub(super) fn missing_probe(span: Span) -> Diagnostic {
    error(120, span, "this block has no probe").help("write a probe before it, such as `BEGIN` or `interval:s:1`")
}

pub(super) fn missing_probe_beside(span: Span) -> Diagnostic {
    error(120, span, "a probe is missing on one side of this `unless`")
        .help("`PROBE unless OTHER` is attached only where OTHER does not exist")
}

pub(super) fn unknown_operator(span: Span, mark: &str) -> Diagnostic {
    let instead = match mark {
        "===" => "write `==`",
        "!==" | "<>" => "write `!=`",
        "=>" => "write `>=` to compare",
        ":=" => "write `=` to assign",
        "**" | "**=" => "there is no power operator; multiply, or shift left for powers of two",
        "||=" | "&&=" => "write it out, as in `$x = $x && $y`",
        "=~" | "!~" => "there are no regular expressions; compare with `==` or use strcontains(text, part)",
        "??" => "write `?:`",
        "<=>" => "write `<`, `==` or `>`",
        _ => "see the operators in the language reference",
    };
    error(121, span, format!("there is no operator `{mark}`")).help(instead)
}

pub(super) fn semicolon_after_probe(span: Span) -> Diagnostic {
    error(122, span, "unexpected `;` between a probe and its block").help("remove the `;`")
}

// ── Literals and names ───────────────────────────────────────────────────────────────────────────

pub(super) fn float(span: Span, instead: Option<String>) -> Diagnostic {
    error(123, span, "floating-point numbers are not supported")
        .help(instead.unwrap_or_else(|| "use a smaller unit or scale the value, such as 1500 for 1.5 thousand".into()))
}

pub(super) fn bad_number(span: Span, text: &str) -> Diagnostic {
    let shown: String = text.chars().take(40).collect();
    error(124, span, format!("`{shown}` is not a number"))
        .help("numbers look like 42, 0x2a, 1_000, 1e6 or 10ms (units: ns us ms s m h d)")
}

pub(super) fn bad_octal(span: Span, text: &str) -> Diagnostic {
    let decimal = text.trim_start_matches('0');
    error(124, span, format!("`{text}` is not a number: a leading 0 means octal, which has no 8 or 9"))
        .help(format!("write {}", if decimal.is_empty() { "0" } else { decimal }))
}

pub(super) fn number_too_large(span: Span) -> Diagnostic {
    error(125, span, "this number does not fit in 64 bits")
        .help("the largest is 18446744073709551615 (0xffffffffffffffff)")
}

pub(super) fn nameless_variable(span: Span) -> Diagnostic {
    error(126, span, "this `$` has no name after it").help("variables look like $x, the script's arguments like $1")
}

pub(super) fn badly_named_variable(span: Span) -> Diagnostic {
    error(126, span, "a name cannot begin with a digit")
        .help("variables look like $x1, maps like @x1, the script's arguments like $1")
}

pub(super) fn argument_zero(span: Span) -> Diagnostic {
    error(126, span, "there is no argument `$0`").help("the first argument is $1, and $# is their number")
}

pub(super) fn variable_without_sigil(span: Span, name: &str) -> Diagnostic {
    error(126, span, "a variable's name begins with `$`").help(format!("write ${name}"))
}

pub(super) fn c_declaration(span: Span, name: Option<&str>) -> Diagnostic {
    let name = name.unwrap_or("x");
    error(127, span, "variables are not declared as in C")
        .help(format!("write ${name} = …; the type follows from the value"))
}

// ── Directives ───────────────────────────────────────────────────────────────────────────────────

pub(super) fn bad_include(span: Span, header: &str) -> Diagnostic {
    let shown: String = header.chars().take(60).collect();
    error(128, span, format!("this `#include` names no header: `{shown}`")).help(
        "write it as in `#include <linux/fs.h>`, or leave it out: kernel types come from the running kernel (BTF)",
    )
}

pub(super) fn unknown_directive(span: Span, word: &str) -> Diagnostic {
    error(129, span, format!("there is no directive `#{word}`")).help(
        "supported are #include, #define NAME value, #undef, and #if, #ifdef, #ifndef, #elif, #else, #endif; \
         a comment begins with //",
    )
}

pub(super) fn bad_condition(span: Span, words: &str) -> Diagnostic {
    error(129, span, format!("this condition has no value: {words}"))
        .help("it consists of integers, names, `defined(NAME)` and C's operators")
}

pub(super) fn unpaired_directive(span: Span, word: &str) -> Diagnostic {
    error(129, span, format!("this `#{word}` has no `#if` before it"))
}

pub(super) fn unclosed_directive(span: Span) -> Diagnostic {
    error(129, span, "this condition is not closed").help("add `#endif` where it ends")
}

pub(super) fn define_without_name(span: Span) -> Diagnostic {
    error(130, span, "this `#define` names nothing").help("write #define NAME value")
}

pub(super) fn define_with_arguments(span: Span, name: &str) -> Diagnostic {
    error(130, span, format!("`{name}` takes arguments, and a `#define` can only name a value"))
        .help("write the expression where it is used")
}

pub(super) fn define_with_bad_value(span: Span) -> Diagnostic {
    error(130, span, "the value of a `#define` must be an expression")
        .help("for example #define LIMIT_NS (10 * 1000000)")
}

// ── Meaning of well-formed parts ─────────────────────────────────────────────────────────────────

pub(super) fn bad_escape(span: Span, escape: &str) -> Diagnostic {
    error(131, span, format!("unknown escape `{escape}` in a string")).help(
        "valid escapes are \\n \\t \\r \\\" \\\\, octal \\033 and hexadecimal \\x1b; for a backslash itself write \\\\",
    )
}

pub(super) fn not_assignable(span: Span) -> Diagnostic {
    error(132, span, "cannot assign to this")
        .label("not a variable or map")
        .help("assign to a variable ($x), a map (@x, @x[key]) or a field of its record (@x[key].a)")
}

pub(super) fn assigned_name(span: Span, name: &str) -> Diagnostic {
    error(132, span, format!("cannot assign to `{name}`"))
        .help(format!("variables begin with `$` and maps with `@`: write ${name} or @{name}"))
}

pub(super) fn variable_of_dtrace(span: Span, of_thread: bool, name: &str) -> Diagnostic {
    let (whose, instead) = if of_thread { ("thread", format!("@{name}[tid]")) } else { ("clause", format!("${name}")) };
    error(177, span, format!("this is the DTrace syntax for a {whose}-local variable")).help(format!("write {instead}"))
}

pub(super) fn sql(span: Span, word: &str) -> Diagnostic {
    let (message, help) = match word {
        "where" => ("`WHERE` is SQL", "write the condition between slashes before the block: /pid == 1/"),
        "group" => ("`GROUP BY` is SQL", "group by the key of a map: @[comm] = count();"),
        "order" | "limit" => {
            ("`ORDER BY` and `LIMIT` are SQL", "maps are printed in order; print(@x, 10) shows the ten largest")
        }
        _ => (
            "`SELECT` is SQL",
            "write a probe and its block: tracepoint:syscalls:sys_enter_openat { @[comm] = count(); }",
        ),
    };
    error(178, span, message).help(help)
}

pub(super) fn clock_of_dtrace(span: Span, word: &str, rest: &str) -> Diagnostic {
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let unit = match &rest[digits.len()..] {
        "" | "hz" => "hz",
        "us" | "usec" => "us",
        "ms" | "msec" => "ms",
        _ => "s",
    };
    let kind = if word == "tick" { "interval" } else { "profile" };
    error(179, span, format!("this is the DTrace syntax for a timer: `{word}-{rest}`"))
        .help(format!("write {kind}:{unit}:{}", if digits.is_empty() { "1" } else { &digits }))
}

pub(super) fn not_steppable(span: Span, mark: &str) -> Diagnostic {
    error(132, span, format!("`{mark}` cannot be applied to this"))
        .label("not a variable or map")
        .help("it works on a variable ($x), a map (@x, @x[key]) or a field of its record (@x[key].a)")
}

pub(super) fn unsupported_function(span: Span) -> Diagnostic {
    error(133, span, "functions are not supported").help("write a macro: `macro name(x) { x + 1 }`")
}

pub(super) fn unended_member(span: Span, at_brace: bool) -> Diagnostic {
    let help = if at_brace {
        "in C, a definition ends with `;` after its closing brace"
    } else {
        "in C, each member ends with `;`"
    };
    error(150, span, "a `;` is missing after this").help(help)
}

pub(super) fn late_definition(span: Span, block: Span) -> Diagnostic {
    error(151, span, "types are defined before the first probe")
        .related(block, "the first probe is here")
        .help("move the definition to the top of the script")
}

pub(super) fn nameless_member(span: Span) -> Diagnostic {
    error(152, span, "this member has no name").help("write a name after the type, as in `int count;`")
}

pub(super) fn part_twice(span: Span, first: Span, name: &str) -> Diagnostic {
    error(153, span, format!("this record has two parts called `{name}`"))
        .related(first, "the first one")
        .help("give each part a name of its own")
}

pub(super) fn block_without_value(span: Span) -> Diagnostic {
    error(134, span, "this block has no value")
        .help("end it with an expression that has no `;` after it, as in { $a = 1; $a + 1 }")
}

pub(super) fn if_without_value(span: Span) -> Diagnostic {
    error(134, span, "this `if` is used as a value, but not all of its branches have one")
        .help("end each branch with an expression that has no `;` after it, the `else` too")
}

pub(super) fn probe_without_block(span: Span) -> Diagnostic {
    error(135, span, "this probe has no block").help("say what it does: … { @ = count(); }")
}

pub(super) fn missing_operand(span: Span, mark: &str) -> Diagnostic {
    error(136, span, format!("a value is missing after `{mark}`"))
}

pub(super) fn missing_value(span: Span, before: &str) -> Diagnostic {
    error(136, span, format!("a value is missing before `{before}`"))
}

pub(super) fn missing_head(span: Span, word: &str, head: Head) -> Diagnostic {
    let (what, example) = match head {
        Head::Condition => ("a condition", "$x > 1"),
        Head::Count => ("a count", "(3)"),
        Head::Iteration => ("what it iterates over", "($i : 0..10)"),
    };
    error(136, span, format!("{what} is missing after `{word}`")).help(format!("for example {word} {example} {{ … }}"))
}

pub(super) fn missing_key(span: Span) -> Diagnostic {
    error(136, span, "a key is missing between these brackets")
        .help("for a map without keys write just its name, as in @x")
}

pub(super) fn else_without_if(span: Span) -> Diagnostic {
    error(137, span, "this `else` has no matching `if`")
}

pub(super) fn misplaced_config(span: Span, first: Option<Span>) -> Diagnostic {
    match first {
        Some(first) => {
            error(138, span, "a script has one config block").related(first, "the first is here").help("join the two")
        }
        None => error(138, span, "the config block must come before the probes").help("move it to the top"),
    }
}

pub(super) fn imported_config(span: Span) -> Diagnostic {
    error(138, span, "an imported file has no config block").help("move it to the script that imports it")
}

pub(super) fn bad_macro(span: Span) -> Diagnostic {
    error(156, span, "malformed macro definition").help(
        "for example: `macro bigger($a, b) { $a > b ? $a : b }`; `$a` takes a variable, `@a` a map, `a` any expression",
    )
}

pub(super) fn bad_import(span: Span) -> Diagnostic {
    error(157, span, "this import names no file").help("write `import \"file.bt\";`")
}

pub(super) fn bad_param(span: Span) -> Diagnostic {
    error(159, span, "malformed parameter declaration")
        .help("for example: `param slow: duration = 10ms \"report what takes longer\" in 0ns..10m`; default and range may be left out")
}

pub(super) fn bad_use(span: Span) -> Diagnostic {
    error(160, span, "this `use` names no module").help("write `use proc/exits` or `use proc/exits as ended`")
}

pub(super) fn bad_pub(span: Span) -> Diagnostic {
    error(161, span, "this cannot be public")
        .help("`pub` is allowed before `param`, `macro`, `span`, `view` and `let @map`, or before the name of a map: `pub @waits`")
}

pub(super) fn bad_map_declaration(span: Span) -> Diagnostic {
    error(158, span, "malformed map declaration")
        .help("for example: `let @last = lruhash(1000);`; the kinds are hash, lruhash, percpuhash and percpulruhash")
}

pub(super) fn stray_character(span: Span, text: &str) -> Diagnostic {
    let diagnostic = error(139, span, format!("the character `{text}` has no meaning here"));
    match text {
        "“" | "”" | "„" => diagnostic.help("strings are written with plain double quotes: \""),
        "‘" | "’" | "`" => diagnostic.help("strings are written with double quotes: \""),
        "–" | "—" | "−" => diagnostic.help("write a plain minus sign: -"),
        "\u{a0}" => diagnostic.help("this is a no-break space; write a plain one"),
        "…" => diagnostic.help("write two full stops for a range: 0..10"),
        "#" => diagnostic.help("a comment begins with //"),
        _ => diagnostic,
    }
}

pub(super) fn c_for_loop(span: Span) -> Diagnostic {
    error(140, span, "malformed `for` loop")
        .help("write for $i : 0..10 { … } to count, for $kv : @map { … } to iterate over a map, or for $s : span { … } to iterate over the open starts of a span")
}

pub(super) fn several_indices(span: Span) -> Diagnostic {
    error(141, span, "only a map takes several keys").help("index one dimension at a time: $x[1][2]")
}

pub(super) fn missing_braces(span: Span, word: &str) -> Diagnostic {
    error(142, span, format!("the body of `{word}` must be in braces")).help("write { … } around it")
}

pub(super) fn reserved_word(span: Span, word: &str) -> Diagnostic {
    error(143, span, format!("`{word}` is a keyword and cannot be used as a value"))
}

pub(super) fn second_predicate(span: Span) -> Diagnostic {
    error(144, span, "a block has one predicate").help("join the conditions with `&&`")
}

pub(super) fn bad_tuple_field(span: Span, text: &str) -> Diagnostic {
    error(146, span, format!("`{text}` is not a field")).help("fields look like .name, the parts of a tuple like .0")
}

pub(super) fn bad_array_length(span: Span) -> Diagnostic {
    error(147, span, "the length of an array type must be a plain number up to 4294967295")
}

pub(super) fn half_ternary(span: Span) -> Diagnostic {
    error(148, span, "this `?` has no `:`").help("write condition ? value : other")
}

pub(super) fn clause_twice(span: Span, word: &str, first: Span) -> Diagnostic {
    error(165, span, format!("a view has only one `{word}`")).related(first, "the first one is here")
}

pub(super) fn view_of_nothing(span: Span) -> Diagnostic {
    error(166, span, "this view names no map").help("say what it shows: `of @map`")
}

pub(super) fn bad_view(span: Span, found: &str, expected: &[&str]) -> Diagnostic {
    let message = match found {
        "" => "the view ends too early".to_owned(),
        found => format!("unexpected `{found}` in a view"),
    };
    let problem = error(167, span, message);
    let wanted = expected.join(", ");
    if wanted.is_empty() { problem } else { problem.label(format!("expected {wanted}")) }
        .help("for example: `view \"slowest\" { of @wait  show comm, count, p99, max  sort max desc  top 20 rest  every 5s clear }`")
}

// ── Spans ────────────────────────────────────────────────────────────────────────────────────────

pub(super) fn bad_span(span: Span, word: &str) -> Diagnostic {
    error(170, span, format!("unexpected `{word}` in a span")).help(
        "a span is written `span NAME by KEY { start PROBE … end PROBE … }`, with parentheses around a key of several parts",
    )
}

pub(super) fn unknown_stage(span: Span, word: &str) -> Diagnostic {
    error(170, span, format!("unexpected `{word}` in a span"))
        .help("a span contains: `start PROBE`, `mark NAME PROBE`, `end PROBE`, `restart`, `expire` and `limit`")
}

pub(super) fn nameless_mark(span: Span) -> Diagnostic {
    error(175, span, "this mark has no name").help("write `mark NAME PROBE`; NAME is also the name of its event")
}

pub(super) fn bad_keep(span: Span, name: &str) -> Diagnostic {
    error(176, span, "a stage can only store values: `{ name = value; … }`")
        .help(format!("write statements in a handler of the event: `{name}:start {{ … }}`"))
}
