// SPDX-License-Identifier: Apache-2.0
//! Reused image memory: a frame returns its buffer when the last consumer drops it.

use std::sync::Arc;

use parking_lot::Mutex;

/// Lends buffers. It never holds more than were lent at one time, which the bounded queues of the pipeline limit.
#[derive(Clone, Default)]
pub struct PixelPool {
    free: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl PixelPool {
    /// A buffer of exactly `bytes` bytes, with its previous contents; zeros when it is new.
    #[must_use]
    pub fn acquire(&self, bytes: usize) -> PooledPixels {
        let mut pixels = self.free.lock().pop().unwrap_or_default();
        pixels.resize(bytes, 0);
        PooledPixels {
            pixels,
            pool: Arc::clone(&self.free),
        }
    }
}

/// A lent buffer; dropping it returns it to its pool.
pub struct PooledPixels {
    pixels: Vec<u8>,
    pool: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl AsRef<[u8]> for PooledPixels {
    fn as_ref(&self) -> &[u8] {
        &self.pixels
    }
}

impl AsMut<[u8]> for PooledPixels {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.pixels
    }
}

impl Drop for PooledPixels {
    fn drop(&mut self) {
        self.pool.lock().push(std::mem::take(&mut self.pixels));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_buffer_is_reused() {
        let pool = PixelPool::default();
        let first = pool.acquire(64);
        let address = first.as_ref().as_ptr();
        drop(first);
        let (again, other) = (pool.acquire(64), pool.acquire(64));
        assert_eq!(again.as_ref().as_ptr(), address);
        assert_ne!(other.as_ref().as_ptr(), address);
    }
}
