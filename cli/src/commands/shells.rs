//! Adds dynamic words to shell completions: recipes, words of the language, diagnostic codes.
//!
//! In: a shell and its generated completions. Out: the same with these words.
//! Guarantee: files are completed too wherever a script is accepted; for an unsupported shell the
//! generated text is unchanged.

use clap_complete::Shell;

use super::script::modules;
use super::{args, help};

/// Commands that take a script or a recipe.
const WITH_SCRIPT: [&str; 4] = ["run", "check", "build", "doctor"];

/// Extends generated completions with words after a command.
pub(super) fn extend(shell: Shell, generated: String) -> String {
    match shell {
        Shell::Bash => generated + &bash(),
        Shell::Zsh => zsh(&generated),
        Shell::Fish => generated + &fish(),
        _ => generated,
    }
}

/// A word with its description.
type Word = (String, String);

fn recipes() -> Vec<Word> {
    let names = |path| [path].into_iter().chain(modules::other_names(path));
    let words = |text: &str, name: &str| (name.to_owned(), modules::summary(text));
    modules::recipes().flat_map(|(path, text)| names(path).map(|name| words(text, name))).collect()
}

/// What `profiler list` takes besides probes.
fn listings() -> Vec<Word> {
    let mut words = recipes();
    words.push(("recipes".into(), "the recipes, with what they answer".into()));
    words.push(("modules".into(), "the standard library".into()));
    words
}

fn commands() -> Vec<Word> {
    let described = args::described();
    let about = |command: &clap::Command| command.get_about().map_or_else(String::new, ToString::to_string);
    described.get_subcommands().map(|command| (command.get_name().to_owned(), about(command))).collect()
}

/// What `profiler help` explains, without duplicates.
fn topics() -> Vec<Word> {
    let mut topics = help::topics();
    topics.extend(commands());
    topics.extend(recipes());
    topics.sort();
    topics.dedup_by(|a, b| a.0 == b.0);
    topics
}

fn codes() -> Vec<Word> {
    help::codes().map(|(code, title)| (code.to_owned(), title.to_owned())).collect()
}

fn names(words: &[Word]) -> String {
    words.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
}

/// A wrapper around the generated function, which handles options and their values.
fn bash() -> String {
    let (recipes, topics, codes) = (names(&recipes()), names(&topics()), names(&codes()));
    let listings = names(&listings());
    let with_script = WITH_SCRIPT.map(|command| format!("*,*,{command}")).join("|");
    let commands = names(&commands());
    format!(
        r#"
_profiler_words() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command= word
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        if [[ $word != -* ]]; then command=$word; break; fi
    done
    local words= files=
    case $current,$before,$command in
        -*,*,*) ;;
        *,-e,*|*,-p,*|*,-c,*|*,-f,*|*,--format,*|*,-d,*|*,--duration,*|*,--probe-filter,*) ;;
        *,-o,*|*,--output,*) files=yes ;;
        *,*,) words='{commands} {recipes}' ;;
        {with_script}) words='{recipes}' files=yes ;;
        *,*,help) words='{topics}' files=yes ;;
        *,*,man) words='{commands}' ;;
        *,*,cat) words='{recipes}' ;;
        *,*,list) words='{listings}' ;;
        *,*,explain) words='{codes}'; current=${{current^}} ;;
    esac
    if [[ -z $words$files ]]; then _profiler "$@"; return; fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [[ -n $files ]]; then
        # Of names of files the shell shows the last part only, which would hide half of a recipe's.
        [[ ${{#COMPREPLY[@]}} -gt 0 ]] || compopt -o filenames 2> /dev/null
        local IFS=$'\n'
        COMPREPLY+=($(compgen -f -- "$current"))
    fi
}}

complete -F _profiler_words -o bashdefault -o default profiler
"#
    )
}

/// Functions that replace `_files` or `_default` of arguments in the generated text.
fn zsh(generated: &str) -> String {
    let list = |words: &[Word]| {
        let line =
            |(name, about): &Word| format!("        '{name}:{}'\n", about.replace('\'', "'\\''").replace(':', "\\:"));
        words.iter().map(line).collect::<String>()
    };
    let function = |name: &str, what: &str, words: &[Word], more: &str| {
        format!(
            "_profiler_{name}() {{\n    local words; words=(\n{}    )\n    _describe -t {name} '{what}' words{more}\n}}\n",
            list(words)
        )
    };
    let functions = function("scripts", "recipe", &recipes(), "\n    _files")
        + &function("recipes", "recipe", &recipes(), "")
        + &function("listings", "recipe", &listings(), "")
        + &function("topics", "topic", &topics(), "\n    _files")
        + &function("codes", "code", &codes(), "")
        + &function("commands_alone", "command", &commands(), "");
    let arguments = [
        ("*::words", "scripts"),
        ("::script", "scripts"),
        ("::topic", "topics"),
        (":recipe", "recipes"),
        ("::pattern", "listings"),
        (":code", "codes"),
        ("::command", "commands_alone"),
    ];
    let mut text = String::new();
    for line in generated.lines() {
        let of = arguments
            .iter()
            .find(|(name, _)| line.strip_prefix('\'').is_some_and(|rest| rest.starts_with(&format!("{name} "))));
        let ending = ["_files' \\", "_default' \\"].into_iter().find(|ending| line.ends_with(ending));
        match (of, ending) {
            (Some((_, function)), Some(ending)) => {
                text.extend([&line[..line.len() - ending.len()], "_profiler_", function, "' \\\n"]);
            }
            _ if line.starts_with("if [ \"$funcstack[1]\"") => text.extend([functions.as_str(), "\n", line, "\n"]),
            _ => text.extend([line, "\n"]),
        }
    }
    text
}

fn fish() -> String {
    let list = |words: &[Word]| {
        let line = |(name, about): &Word| format!("{name}\\t'{}'", about.replace(['\'', '"', '$', '`', '\\'], ""));
        words.iter().map(line).collect::<Vec<_>>().join("\n")
    };
    let with_script = WITH_SCRIPT.join(" ");
    let of = |commands: &str, files: &str, words: &[Word]| {
        format!(
            "complete -c profiler -n \"__fish_profiler_using_subcommand {commands}\"{files} -a \"{}\"\n",
            list(words)
        )
    };
    of(&with_script, " -F", &recipes())
        + &format!("complete -c profiler -n \"__fish_profiler_needs_command\" -a \"{}\"\n", list(&recipes()))
        + &of("help", " -F", &topics())
        + &of("explain", " -f", &codes())
        + &of("man", " -f", &commands())
        + &of("cat", " -f", &recipes())
        + &of("list", " -f", &listings())
}
