mod any_input;
mod bounds;
mod frames;
mod icmp;
mod model;
mod nat64;
mod tcp;
mod udp;
