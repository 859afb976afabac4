//! Stories: a world of made-up workers in which anything happens, and what must be true all the same.

mod anything;
mod sentences;
mod world;
