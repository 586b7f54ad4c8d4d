//! The Baton service: an engine over a store, and the ways in.

pub mod engine;
pub mod http;
mod openapi;
mod swf;
