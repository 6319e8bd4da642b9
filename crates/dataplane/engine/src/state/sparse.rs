//! A table of things by number, from which things can be taken: what is moved to another worker, or removed.

use std::ops::{Index, IndexMut};

/// Things by number. Numbers of what was taken out are given again.
#[derive(Debug)]
pub(crate) struct Sparse<T> {
    places: Vec<Option<Box<T>>>,
    free: Vec<usize>,
}

impl<T> Default for Sparse<T> {
    fn default() -> Sparse<T> {
        Sparse { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Sparse<T> {
    /// Takes a thing in; returns its number.
    pub(crate) fn insert(&mut self, thing: Box<T>) -> usize {
        match self.free.pop() {
            Some(number) => {
                self.places[number] = Some(thing);
                number
            }
            None => {
                self.places.push(Some(thing));
                self.places.len() - 1
            }
        }
    }

    pub(crate) fn remove(&mut self, number: usize) -> Option<Box<T>> {
        let thing = self.places.get_mut(number)?.take()?;
        self.free.push(number);
        Some(thing)
    }

    /// One more than the highest number ever given.
    pub(crate) fn end(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        self.places.get(number)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.places.get_mut(number)?.as_deref_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.places.iter().enumerate().filter_map(|(number, thing)| Some((number, thing.as_deref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(number, thing)| Some((number, thing.as_deref_mut()?)))
    }
}

impl<T> Index<usize> for Sparse<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        self.places[number].as_deref().unwrap_or_else(absent)
    }
}

impl<T> IndexMut<usize> for Sparse<T> {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut T {
        self.places[number].as_deref_mut().unwrap_or_else(absent)
    }
}

/// Wires lead to what is there: code that takes something out takes its wires away.
#[cold]
fn absent<T>() -> T {
    unreachable!("a number of something that was taken out")
}
