//! The Baton service: an engine over a store, and the protocols that give access to it.

pub mod access;
pub mod access_log;
pub mod api;
pub mod audit;
pub mod budget;
pub mod fair;
pub mod following;
pub mod front;
pub mod http;
pub mod lambda;
pub mod nodes;
mod openapi;
pub mod otlp;
pub mod reload;
mod rest;
mod swf;
pub mod tls;
