//! The store on an emulator of DynamoDB in the same process: the contract, errors, tables, and consumed units.

mod budget;
mod contract;
mod crowd;
mod faults;
mod lag;
mod leftovers;
mod lists;
mod support;
mod table;
mod units;
