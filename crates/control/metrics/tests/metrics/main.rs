//! What is written, read back: by a parser that lets nothing pass, and by Prometheus.

mod cost;
mod document;
mod exposition;
mod prometheus;
mod rules;
mod sample;
mod server;
mod strict;
