//! The Baton service: an engine over a store, and the ways in.

pub mod access;
pub mod access_log;
pub mod audit;
pub mod budget;
pub mod engine;
pub mod http;
pub mod lambda;
mod openapi;
pub mod reload;
pub mod shares;
mod swf;
pub mod tls;
