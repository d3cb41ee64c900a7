//! The tasks as callers use them. Answers of the model are scripted here: these tests are about control flow and checks, not about
//! what a model can do.

mod analyses;
mod asks;
mod generations;
mod injections;
mod pii;
mod script;
mod summaries;
mod translations;
