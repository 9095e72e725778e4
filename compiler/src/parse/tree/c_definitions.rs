//! Tree builder for C definitions.
//!
//! In: pairs of the grammar's rules for definitions. Out: definitions.
//! Guarantee: as for the parent; only the parent and its submodules know the parser generator.

use super::super::errors;
use super::grammar::Rule;
use super::statements::Code;
use crate::ast::{
    Attributes, CType, CTypeKind, Declarator, Definition, DefinitionKind, EnumDefinition, Ident, MemberDefinition,
    RecordDefinition, TypeTag,
};
use pest::iterators::Pair;

/// The tag that a keyword denotes.
pub(super) fn tag(word: &str) -> TypeTag {
    match word {
        "struct" => TypeTag::Struct,
        "union" => TypeTag::Union,
        _ => TypeTag::Enum,
    }
}

/// Builds C definitions.
pub(super) struct CDefinitions<'c, 'a> {
    pub code: &'c mut Code<'a>,
}

impl CDefinitions<'_, '_> {
    pub(super) fn definition(&mut self, pair: Pair<'_, Rule>) -> Definition {
        let mut span = self.code.reader.span(&pair);
        let mut kind = None;
        let mut declarators = Vec::new();
        let mut attributes = Attributes::default();
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::defined | Rule::c_type => kind = Some(self.c_type(pair)),
                Rule::declarator => declarators.push(self.declarator(pair)),
                Rule::attribute => self.attribute(pair, &mut attributes),
                Rule::semi => span.end = self.code.reader.span(&pair).start,
                _ => {}
            }
        }
        let mut ty = kind.unwrap_or(CType { kind: CTypeKind::Name("int".into()), span });
        if let CTypeKind::Record(record) = &mut ty.kind {
            record.attributes.add(attributes);
        }
        let kind =
            if declarators.is_empty() { DefinitionKind::Type(ty) } else { DefinitionKind::Typedef(ty, declarators) };
        Definition { kind, span }
    }

    fn c_type(&mut self, pair: Pair<'_, Rule>) -> CType {
        let span = self.code.reader.span(&pair);
        let mut word = TypeTag::None;
        let mut kind = CTypeKind::Name(String::new());
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::tag => word = tag(pair.as_str()),
                Rule::field_name => kind = CTypeKind::Tagged(word, self.code.reader.ident(&pair)),
                Rule::ident => kind = CTypeKind::Name(pair.as_str().to_owned()),
                Rule::c_words => {
                    let words = pair.into_inner().filter(|pair| pair.as_rule() == Rule::c_word);
                    kind = CTypeKind::Name(words.map(|word| word.as_str()).collect::<Vec<_>>().join(" "));
                }
                Rule::record_def => kind = CTypeKind::Record(self.record_definition(pair)),
                Rule::enum_def => kind = CTypeKind::Enum(self.enum_definition(pair)),
                _ => {}
            }
        }
        CType { kind, span }
    }

    fn record_definition(&mut self, pair: Pair<'_, Rule>) -> RecordDefinition {
        let attributes = Attributes::default();
        let mut record = RecordDefinition { is_union: false, name: None, members: Vec::new(), attributes };
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::record_tag => record.is_union = pair.as_str() == "union",
                Rule::field_name => record.name = Some(self.code.reader.ident(&pair)),
                Rule::member => {
                    let member = self.member(pair);
                    record.members.push(member);
                }
                Rule::attribute => self.attribute(pair, &mut record.attributes),
                _ => {}
            }
        }
        record
    }

    fn enum_definition(&mut self, pair: Pair<'_, Rule>) -> EnumDefinition {
        let mut definition = EnumDefinition { name: None, values: Vec::new() };
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::field_name => definition.name = Some(self.code.reader.ident(&pair)),
                Rule::enumerator => {
                    let mut name = Ident { text: String::new(), span: self.code.reader.span(&pair) };
                    let mut value = None;
                    for pair in pair.into_inner() {
                        match pair.as_rule() {
                            Rule::ident => name = self.code.reader.ident(&pair),
                            Rule::expr => value = Some(self.code.expr(pair)),
                            _ => {}
                        }
                    }
                    definition.values.push((name, value));
                }
                _ => {}
            }
        }
        definition
    }

    fn member(&mut self, pair: Pair<'_, Rule>) -> MemberDefinition {
        let mut span = self.code.reader.span(&pair);
        let mut ty = CType { kind: CTypeKind::Name("int".into()), span };
        let mut declarators = Vec::new();
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::c_type => ty = self.c_type(pair),
                // `struct { … };` has an empty declarator.
                Rule::declarator if pair.as_str().is_empty() => {}
                Rule::declarator => declarators.push(self.declarator(pair)),
                Rule::semi => span.end = self.code.reader.span(&pair).start,
                _ => {}
            }
        }
        MemberDefinition { ty, declarators, span }
    }

    fn declarator(&mut self, pair: Pair<'_, Rule>) -> Declarator {
        let attributes = Attributes::default();
        let (dimensions, span) = (Vec::new(), self.code.reader.span(&pair));
        let mut made =
            Declarator { name: None, pointers: 0, dimensions, bits: None, is_function: false, attributes, span };
        for pair in pair.into_inner() {
            match pair.as_rule() {
                Rule::pointer => made.pointers += 1,
                Rule::field_name => made.name = Some(self.code.reader.ident(&pair)),
                Rule::dimension => {
                    let length = self.code.first_expr(pair);
                    made.dimensions.push(length);
                }
                Rule::expr => made.bits = Some(self.code.expr(pair)),
                Rule::attribute => self.attribute(pair, &mut made.attributes),
                Rule::fn_pointer => {
                    made.is_function = true;
                    for pair in pair.into_inner() {
                        match pair.as_rule() {
                            Rule::field_name => made.name = Some(self.code.reader.ident(&pair)),
                            Rule::dimension => {
                                let length = self.code.first_expr(pair);
                                made.dimensions.push(length);
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        if made.name.is_none() && made.bits.is_none() {
            self.code.reader.problems.push(errors::nameless_member(made.span));
        }
        made
    }

    fn attribute(&mut self, pair: Pair<'_, Rule>, into: &mut Attributes) {
        for pair in pair.into_inner().filter(|pair| pair.as_rule() == Rule::attribute_of) {
            let (mut name, mut argument) = (String::new(), None);
            for pair in pair.into_inner() {
                match pair.as_rule() {
                    Rule::field_name => pair.as_str().trim_matches('_').clone_into(&mut name),
                    Rule::expr => argument = Some(Box::new(self.code.expr(pair))),
                    _ => {}
                }
            }
            match name.as_str() {
                "packed" => into.packed = true,
                "aligned" => into.aligned = argument,
                _ => {}
            }
        }
    }
}

impl Attributes {
    fn add(&mut self, other: Attributes) {
        self.packed |= other.packed;
        self.aligned = other.aligned.or(self.aligned.take());
    }
}
