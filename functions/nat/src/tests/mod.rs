mod any_input;
mod bounds;
mod frames;
mod icmp;
mod index;
mod model;
mod tcp;
mod udp;
