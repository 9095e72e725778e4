//! Language elements other than builtins, functions, aggregations and probe kinds.
//!
//! In: nothing. Out: each with its syntax, summary and place in the specification.
//! Guarantee: the text of an element is a section of a page of `spec/`; no text is duplicated.

use crate::keywords::{Head, Role};

/// A language element.
#[derive(Debug, Clone, Copy)]
pub struct LanguageWord {
    pub name: &'static str,
    /// Its syntax.
    pub form: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its role, if it is a reserved word.
    pub role: Option<Role>,
    page: &'static str,
    heading: Option<&'static str>,
}

const COMMAND: &str = include_str!("../../spec/command.md");
const MAPS: &str = include_str!("../../spec/maps.md");
const OUTPUT: &str = include_str!("../../spec/output.md");
const PARAM: &str = include_str!("../../spec/param.md");
const RECORDS: &str = include_str!("../../spec/records.md");
const SPAN: &str = include_str!("../../spec/span.md");
const SYNTAX: &str = include_str!("../../spec/syntax.md");
const TRACEPOINT: &str = include_str!("../../spec/words/probes/tracepoint.md");
const TYPES: &str = include_str!("../../spec/types.md");
const UNITS: &str = include_str!("../../spec/units.md");
const USE: &str = include_str!("../../spec/use.md");
const VIEW: &str = include_str!("../../spec/view.md");

/// All elements, sorted by name.
pub const LANGUAGE: &[LanguageWord] = &[
    part("args", "args.NAME", "the arguments of the probe by name", TRACEPOINT, None),
    reserved(Role::Jump, part("break", "break;", "leaves the innermost loop", SYNTAX, Some("### Loops"))),
    part("by", "span NAME by KEY", "what tells the spans of a kind apart", SPAN, Some("## Keys")),
    part("config", "config = { NAME = VALUE; … }", "settings of the script", SYNTAX, Some("## Settings")),
    part("constants", "42, 0x2a, 10ms, \"text\"", "numbers, times, strings and names", SYNTAX, Some("## Constants")),
    reserved(
        Role::Jump,
        part("continue", "continue;", "goes on with the next round of the innermost loop", SYNTAX, Some("### Loops")),
    ),
    part("define", "#define NAME value", "names a constant expression", SYNTAX, Some("## Constants")),
    reserved(
        Role::Else,
        part("else", "if cond { … } else { … }", "what runs when the condition is 0", SYNTAX, Some("## Statements")),
    ),
    part("empty", "empty \"TEXT\"", "what a view says if it has no rows", VIEW, Some("## `empty \"text\"`")),
    reserved(
        Role::Tag,
        part("enum", "enum NAME { A, B }", "defines names of numbers, as C does", TYPES, Some("## Definitions")),
    ),
    part("every", "every TIME [clear]", "shows a view again and again", VIEW, Some("## `every time [clear]`")),
    part("evict", "limit N evict", "a start that finds no space takes that of the oldest", SPAN, LIMITS),
    part("expire", "expire TIME", "how old a span becomes", SPAN, LIMITS),
    part("expressions", "a + b, c ? a : b, $x.field", "operators, loosest first", SYNTAX, Some("## Expressions")),
    reserved(Role::Literal, part("false", "false", "a boolean", SYNTAX, Some("## Constants"))),
    part("filter", "PROBE / CONDITION / { … }", "the block runs only when the condition is not 0", SYNTAX, BLOCKS),
    part("flame", "flame", "a view as a picture of its stacks", VIEW, Some("## `flame`")),
    reserved(
        Role::Compound(Head::Iteration),
        part("for", "for ($i : 0..10) { … }", "a loop over numbers or over a map", SYNTAX, Some("### Loops")),
    ),
    reserved(
        Role::Compound(Head::Condition),
        part(
            "if",
            "if (cond) { … } else { … }",
            "runs the block when the condition is not 0",
            SYNTAX,
            Some("## Statements"),
        ),
    ),
    part("import", "import \"file\";", "brings in another script", SYNTAX, Some("## Imports")),
    part("integers", "uint8 … int64", "the integer types and their arithmetic", TYPES, Some("## Integers")),
    part("json", "-f json", "results as JSON documents, one a line", OUTPUT, Some("## JSON")),
    reserved(
        Role::Let,
        part(
            "let",
            "let $x: uint8 = 1; let @x = lruhash(9);",
            "declares a variable or a map",
            TYPES,
            Some("## Declared types"),
        ),
    ),
    part("limit", "limit N [evict]", "how many spans may be open", SPAN, LIMITS),
    part(
        "macro",
        "macro NAME(x, $v, @m) { … }",
        "a body with a name, put in where it is used",
        SYNTAX,
        Some("## Macros"),
    ),
    part("map", "@name[key] = value;", "values that all probes share, printed at the end", MAPS, None),
    part("maps", "@name[key] = value;", "values that all probes share, printed at the end", MAPS, None),
    part("mark", "mark NAME PROBE", "a stage that a span passes between start and end", SPAN, Some("## Stages")),
    part("of", "of @map, @map", "the maps that a view shows", VIEW, Some("## `of @map, @map`")),
    reserved(
        Role::Operator,
        part(
            "offsetof",
            "offsetof(struct x, field)",
            "the distance of a field from the start, in bytes",
            SYNTAX,
            Some("## Constants"),
        ),
    ),
    part("options", "profiler run [OPTIONS] FILE", "the options of the command", COMMAND, None),
    part("output", "-f text, json, csv", "how results are printed", OUTPUT, None),
    part("param", "param NAME: TYPE = DEFAULT \"help\"", "an input that the command line can set", PARAM, None),
    part(
        "pointers",
        "*$p, $p->field",
        "memory of the kernel and of processes",
        TYPES,
        Some("## Pointers, structs, arrays"),
    ),
    part("pub", "pub macro …, pub @map", "what a module lets others use", USE, Some("## In a module")),
    part("records", "@x[key].field = value;", "named values in one entry", RECORDS, None),
    part("rest", "top N rest", "one more line for all other rows of a view", VIEW, TOP),
    part("restart", "restart replace|keep|nest", "what a second start of an open span does", SPAN, LIMITS),
    reserved(Role::Return, part("return", "return;", "ends the block", SYNTAX, Some("## Statements"))),
    part(
        "show",
        "show column, column as \"header\"",
        "the columns of a view",
        VIEW,
        Some("## `show column, column as \"header\"`"),
    ),
    reserved(
        Role::Operator,
        part("sizeof", "sizeof(type)", "how many bytes a type or a value has", SYNTAX, Some("## Constants")),
    ),
    part("sort", "sort column [asc|desc]", "the order of a view's rows", VIEW, Some("## `sort column [asc|desc]`")),
    part(
        "span",
        "span NAME by KEY { start PROBE end PROBE }",
        "what begins at one probe and ends at another",
        SPAN,
        None,
    ),
    part("start", "start PROBE", "the probe at which a span begins", SPAN, Some("## Stages")),
    part(
        "state",
        "state NAME by KEY { field: type, … }",
        "a record with declared types for each key",
        RECORDS,
        Some("## States"),
    ),
    part("statements", "$x = 1; if …; printf(…);", "what a block consists of", SYNTAX, Some("## Statements")),
    part("strings", "\"text\", str(address)", "text and its comparison", TYPES, Some("## Strings")),
    reserved(
        Role::Tag,
        part("struct", "struct NAME { int x; };", "defines a type, as C does", TYPES, Some("## Definitions")),
    ),
    part("syntax", "PROBE / CONDITION / { STATEMENTS }", "how a script is written", SYNTAX, None),
    part("top", "top N [rest]", "only the first rows of a view", VIEW, TOP),
    reserved(Role::Literal, part("true", "true", "a boolean", SYNTAX, Some("## Constants"))),
    part("tuples", "(a, b), (x = a, y = b)", "several values as one", TYPES, Some("## Tuples and records")),
    part("typedef", "typedef int number;", "names a type, as C does", TYPES, Some("## Definitions")),
    reserved(Role::Operator, part("typeof", "typeof(value)", "the type of a value", TYPES, Some("## Declared types"))),
    part("types", "uint64, string[16], struct task_struct *", "the types of values", TYPES, None),
    reserved(
        Role::Tag,
        part("union", "union NAME { int x; char y; };", "defines a type, as C does", TYPES, Some("## Definitions")),
    ),
    part("units", "10ms, 4KiB", "times, bytes and other quantities", UNITS, None),
    part(
        "unless",
        "PROBE unless PROBE",
        "a probe that stands in for one that is missing here",
        SYNTAX,
        Some("### Probes that not every kernel has"),
    ),
    reserved(
        Role::Compound(Head::Count),
        part("unroll", "unroll (3) { … }", "the block several times, without a loop", SYNTAX, Some("### Loops")),
    ),
    part("use", "use a/b [as NAME]", "brings a module into a script", USE, None),
    part("variables", "$name", "values of one run of a block", SYNTAX, Some("## Statements")),
    part("view", "view \"title\" { of @map  show …  sort …  top n  every 5s }", "shows maps as a table", VIEW, None),
    reserved(
        Role::Compound(Head::Condition),
        part("while", "while (cond) { … }", "a loop as long as the condition holds", SYNTAX, Some("### Loops")),
    ),
];

const BLOCKS: Option<&str> = Some("## Probe blocks");
const LIMITS: Option<&str> = Some("## `restart`, `expire`, `limit`");
const TOP: Option<&str> = Some("## `top n [rest]`");

const fn part(
    name: &'static str,
    form: &'static str,
    summary: &'static str,
    page: &'static str,
    heading: Option<&'static str>,
) -> LanguageWord {
    LanguageWord { name, form, summary, role: None, page, heading }
}

/// An element that is a reserved word.
const fn reserved(role: Role, word: LanguageWord) -> LanguageWord {
    LanguageWord { role: Some(role), ..word }
}

/// The element with this name.
pub fn language_word(name: &str) -> Option<&'static LanguageWord> {
    LANGUAGE.iter().find(|word| word.name == name)
}

impl LanguageWord {
    /// The text that explains it: a whole page, or the section of a page under its heading.
    pub fn page(&self) -> &'static str {
        let Some(heading) = self.heading else { return self.page };
        let Some(start) = start_of(self.page, heading) else { return self.page };
        let depth = heading.chars().take_while(|c| *c == '#').count();
        let (mut end, mut in_block) = (self.page.len(), false);
        let mut at = start;
        for line in self.page[start..].split_inclusive('\n') {
            let level = line.chars().take_while(|c| *c == '#').count();
            in_block ^= line.starts_with("```");
            if at > start && !in_block && (1..=depth).contains(&level) && line[level..].starts_with(' ') {
                end = at;
                break;
            }
            at += line.len();
        }
        self.page[start..end].trim_end()
    }
}

/// Offset of a heading's line.
fn start_of(page: &str, heading: &str) -> Option<usize> {
    let mut at = 0;
    for line in page.split_inclusive('\n') {
        if line.trim_end() == heading {
            return Some(at);
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{LANGUAGE, language_word, start_of};

    #[test]
    fn every_word_has_its_part_of_the_specification() {
        let names: Vec<&str> = LANGUAGE.iter().map(|word| word.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        for word in LANGUAGE {
            if let Some(heading) = word.heading {
                assert!(start_of(word.page, heading).is_some(), "{}: no heading `{heading}`", word.name);
                assert!(word.page().starts_with(heading), "{}", word.name);
            }
            assert!(word.page().len() > 80, "{}: {}", word.name, word.page());
        }
    }

    #[test]
    fn a_part_ends_at_the_next_heading() {
        let page = |name| language_word(name).expect("a word").page();
        assert!(page("top").starts_with("## `top n [rest]`\n") && !page("top").contains("every"));
        assert!(page("for").contains("while (cond)") && !page("for").contains("## Expressions"));
        assert!(page("define").contains("#define LIMIT 10ms"), "a line of a block is no heading");
    }
}
