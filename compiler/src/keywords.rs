//! The reserved words of the language, each with its role.
//!
//! In: the elements of the language that have a role. Out: the words, for the parser's diagnostics,
//! the formatter, completion, the prompt and the editors' syntax files.
//! Guarantee: exactly the words that the grammar reserves; a test compares them.

use crate::language::LANGUAGE;

/// A reserved word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keyword {
    /// As written.
    pub name: &'static str,
    /// How it is used.
    pub role: Role,
}

/// The use of a reserved word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Begins a statement that consists of a head and a block: `while (cond) { … }`.
    Compound(Head),
    /// Introduces the second block of a statement.
    Else,
    /// Declares a variable.
    Let,
    /// Leaves the block, with or without a value.
    Return,
    /// A whole statement: `break`.
    Jump,
    /// An operator that looks like a function: `sizeof(x)`.
    Operator,
    /// A literal.
    Literal,
    /// Precedes the name of a type.
    Tag,
}

/// The head of a compound statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// An expression that is true or false.
    Condition,
    /// A constant number.
    Count,
    /// A variable and its range or map.
    Iteration,
}

/// All of them, sorted by name.
pub fn keywords() -> impl Iterator<Item = Keyword> {
    LANGUAGE.iter().filter_map(|word| Some(Keyword { name: word.name, role: word.role? }))
}

impl Role {
    /// Whether it is part of a statement, not of an expression or a type.
    pub fn is_statement(self) -> bool {
        match self {
            Role::Compound(_) | Role::Else | Role::Let | Role::Return | Role::Jump => true,
            Role::Operator | Role::Literal | Role::Tag => false,
        }
    }
}

/// The role of a reserved word; `None` for any other text.
pub fn role(text: &str) -> Option<Role> {
    keywords().find(|keyword| keyword.name == text).map(|keyword| keyword.role)
}

/// Whether the word begins a statement with a head and a block.
pub fn is_compound(text: &str) -> bool {
    head(text).is_some()
}

/// The head of the statement that begins with this word.
pub fn head(text: &str) -> Option<Head> {
    match role(text) {
        Some(Role::Compound(head)) => Some(head),
        _ => None,
    }
}

/// Whether the word is part of a statement.
pub fn is_statement(text: &str) -> bool {
    role(text).is_some_and(Role::is_statement)
}

/// The words that are part of a statement.
pub fn statements() -> impl Iterator<Item = &'static str> {
    keywords().filter(|keyword| keyword.role.is_statement()).map(|keyword| keyword.name)
}

#[cfg(test)]
mod tests {
    use super::{keywords, statements};

    #[test]
    fn the_grammar_reserves_exactly_these_words() {
        let grammar = include_str!("../../spec/grammar.pest");
        let rule = grammar.split_once("\nkeyword     = _{").expect("the rule").1.split_once('}').expect("its end").0;
        let mut reserved: Vec<&str> = rule.split('"').skip(1).step_by(2).collect();
        reserved.sort_unstable();
        assert_eq!(reserved, keywords().map(|keyword| keyword.name).collect::<Vec<_>>());
    }

    #[test]
    fn the_grammar_has_no_statement_that_begins_with_another_word() {
        let grammar = include_str!("../../spec/grammar.pest");
        let (_, rules) = grammar.split_once("\ncompound  = _{").expect("the rule");
        let kinds = rules
            .lines()
            .take(2)
            .flat_map(|line| line.split_whitespace())
            .filter_map(|word| word.strip_suffix("_stmt"));
        let mut named = 0;
        for kind in kinds.filter(|kind| *kind != "assign") {
            assert!(statements().any(|word| word == kind), "`{kind}`");
            named += 1;
        }
        assert_eq!(named + 1, statements().count(), "`else` is the only one without a statement of its own");
    }
}
