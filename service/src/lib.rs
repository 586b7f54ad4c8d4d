//! The Baton service: an engine over a store, and the ways in.

pub mod access;
pub mod access_log;
pub mod api;
pub mod audit;
pub mod budget;
pub mod engine;
pub mod fair;
pub mod http;
pub mod lambda;
pub mod nodes;
mod openapi;
pub mod reload;
mod rest;
pub mod shares;
mod swf;
pub mod tls;
