//! The data that the stages of `profiler` pass on: types and their layouts, objects, values.
//!
//! In: nothing; the compiler makes an [`object::Object`], the runtime decodes bytes with it into
//! [`value::Value`]s, and views, renderers and tests read them. Out: plain data, and pure functions
//! on it.
//! Guarantee: no I/O, no kernel, no `unsafe`; nothing here knows how scripts are parsed, checked or
//! compiled. What a word means in user space comes from a [`results::Vocabulary`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod crc32;
pub mod decode;
pub mod distribution;
pub mod format;
pub mod glob;
pub mod histogram;
pub mod layout;
pub mod numbers;
pub mod object;
pub mod operator;
pub mod output;
pub mod params;
pub mod results;
pub mod scope;
pub mod series;
pub mod source;
pub mod statistics;
pub mod strftime;
pub mod text;
pub mod types;
pub mod units;
pub mod unwind;
pub mod value;
pub mod view;
